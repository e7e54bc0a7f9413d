//! The waits with a clock that the test sets. The timer is that of tokio, which passes by itself while nothing else can run.

use super::{ClockLook, ClockWatch, RETRY_WAIT, SLEEP_MAX};
use crate::state::store::StoreError;
use jiff::Timestamp;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

thread_local! {
    /// The time of the clock at the start of the timer, in seconds. A test and its task share one thread.
    static SET: Cell<i64> = const { Cell::new(0) };
    static STARTED: Cell<Option<Instant>> = const { Cell::new(None) };
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// The clock: it goes with the timer, and can be set.
fn now() -> Timestamp {
    let started = STARTED.get().unwrap_or_else(Instant::now);
    time(SET.get()) + started.elapsed()
}

fn set_forward_by(seconds: i64) {
    SET.set(SET.get() + seconds);
}

fn started() -> (ClockWatch, Arc<Notify>, CancellationToken) {
    STARTED.set(Some(Instant::now()));
    SET.set(1_000);
    let (changed, cancel) = (Arc::new(Notify::new()), CancellationToken::new());
    let watch = ClockWatch::new(now, Arc::clone(&changed), cancel.clone());
    (watch, changed, cancel)
}

fn look(second: i64) -> Option<ClockLook> {
    Some(ClockLook {
        at: time(second),
        is_earlier: false,
    })
}

fn earlier(second: i64) -> Option<ClockLook> {
    look(second).map(|look| ClockLook {
        is_earlier: true,
        ..look
    })
}

fn full() -> StoreError {
    StoreError::Unavailable("the disk is full".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_time_when_something_changes_and_at_the_end() {
    let (mut watch, changed, cancel) = started();
    assert_eq!(
        watch.look(),
        earlier(1_000),
        "nobody knows the time before the start"
    );
    watch.wait(Ok(Some(time(1_250))), "").await;
    assert_eq!(watch.look(), look(1_250));
    // A time that has passed is no wait.
    watch.wait(Ok(Some(time(1_100))), "").await;
    assert_eq!(watch.look(), look(1_250));
    // A change during the look counts as well.
    changed.notify_one();
    watch.wait(Ok(None), "").await;
    assert_eq!(watch.look(), look(1_250));
    let notifying = async {
        tokio::time::sleep(Duration::from_secs(7)).await;
        changed.notify_one();
    };
    tokio::join!(watch.wait(Ok(Some(time(9_000))), ""), notifying);
    assert_eq!(watch.look(), look(1_257));
    let ending = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cancel.cancel();
    };
    tokio::join!(watch.wait(Ok(None), ""), ending);
    assert_eq!(watch.look(), None);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_is_noticed_within_a_minute() {
    let (mut watch, ..) = started();
    watch.look().unwrap();
    let started = Instant::now();
    let setting = async {
        tokio::time::sleep(Duration::from_secs(90)).await;
        set_forward_by(3_600);
    };
    tokio::join!(watch.wait(Ok(Some(time(4_000))), ""), setting);
    assert_eq!(started.elapsed(), 2 * SLEEP_MAX);
    assert_eq!(watch.look(), look(4_720));

    let setting = async {
        tokio::time::sleep(Duration::from_secs(90)).await;
        set_forward_by(-3_600);
    };
    tokio::join!(watch.wait(Ok(Some(time(9_000))), ""), setting);
    assert_eq!(watch.look(), earlier(1_240));
    // It is an earlier time once.
    watch.wait(Ok(Some(time(1_250))), "").await;
    assert_eq!(watch.look(), look(1_250));
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_look_the_next_one_comes_soon_and_finds_the_clock_the_same() {
    let (mut watch, changed, cancel) = started();
    let started = Instant::now();
    for attempt in 0..3_u32 {
        assert_eq!(watch.look(), earlier(1_000 + 5 * i64::from(attempt)));
        // A change does not make the attempts more frequent.
        changed.notify_one();
        watch.wait(Err(full()), "it is tried again").await;
        assert_eq!(started.elapsed(), RETRY_WAIT * (attempt + 1));
    }
    cancel.cancel();
    watch.wait(Err(full()), "it is tried again").await;
    assert_eq!((started.elapsed(), watch.look()), (RETRY_WAIT * 3, None));
}
