//! Outages of a platform, a token or a disk. Waiting operations are held and delivered afterwards.

use super::fixture::{ChannelAction, DeliveryFixture, FakeChannel, elapsed, file, op, post};
use crate::base::model::{Action, MessageRef, Op, PersonMessage, Reply, UserId};
use crate::engine::gateway::delivery::ChannelState;
use crate::interfaces::channel::SendError;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

fn unreachable() -> SendError {
    SendError::Unreachable("slack cannot be reached".to_owned())
}

fn server_error() -> SendError {
    SendError::NotSent {
        why: "slack answered 503".to_owned(),
        retry_after: None,
    }
}

/// Returns this number of posts, each in its own chat.
fn many(count: usize) -> Vec<Op> {
    (0..count)
        .map(|number| post(&format!("inbox-{number}/result"), &format!("C{number}")))
        .collect()
}

fn is_each_shown_once(fixture: &DeliveryFixture, ops: &[Op]) {
    let shown = fixture.fake.shown();
    let expected: BTreeSet<String> = ops.iter().map(|op| op.id.clone()).collect();
    assert_eq!(shown.iter().cloned().collect::<BTreeSet<_>>(), expected);
    assert_eq!(shown.len(), ops.len());
}

/// R18, P2
#[tokio::test(start_paused = true)]
async fn an_outage_of_hours_holds_everything_and_probes_one_at_a_time() {
    let outage = 5 * HOUR;
    let is_over = move || elapsed() > outage;
    let fake = FakeChannel::new(move |_| match is_over() {
        true => ChannelAction::Shows,
        false => ChannelAction::Fails(unreachable()),
    });
    let fake = fake.probed(move || if is_over() { Ok(()) } else { Err(unreachable()) });
    let fixture = DeliveryFixture::start(fake);
    let ops = many(40);
    fixture.enqueue(ops.clone()).await;
    fixture.until(|| elapsed() > HOUR).await;
    assert!(matches!(
        fixture.delivery.state(),
        ChannelState::Unreachable { .. }
    ));
    let tried = fixture.fake.calls.lock().unwrap().len();
    assert!(
        tried <= 8,
        "{tried} calls were made to a platform that does not answer"
    );
    assert_eq!(fixture.attempts().await, 0);
    fixture.until_delivered().await;
    assert_eq!(fixture.delivery.state(), ChannelState::Open);
    is_each_shown_once(&fixture, &ops);
    assert_eq!(fixture.letters().await, []);
    let probes = fixture.fake.probes.lock().unwrap().clone();
    let during = probes.iter().filter(|at| **at < outage).count();
    // At least one probe a minute, and at most two after the first few.
    assert!((300..=610).contains(&during), "{during}");
    let last = probes.last().unwrap();
    assert!(*last <= outage + Duration::from_secs(61), "{last:?}");
}

/// The platform answers probes but accepts no message. R18, P2
#[tokio::test(start_paused = true)]
async fn a_platform_that_takes_no_message_for_hours_loses_none() {
    for error in [
        server_error(),
        SendError::Ambiguous("slack answered 500".to_owned()),
    ] {
        let outage = elapsed() + 3 * HOUR;
        let fixture = DeliveryFixture::start(FakeChannel::new(move |_| match elapsed() > outage {
            true => ChannelAction::Shows,
            false => ChannelAction::Fails(error.clone()),
        }));
        let ops = many(12);
        fixture.enqueue(ops.clone()).await;
        fixture.until_delivered().await;
        is_each_shown_once(&fixture, &ops);
        assert_eq!(fixture.letters().await, []);
    }
}

/// A host beside the platform is down for hours. R18
#[tokio::test(start_paused = true)]
async fn an_outage_of_another_host_delays_no_other_operation() {
    let is_beside = |op: &Op| op.id.ends_with("/aside");
    let fixture = DeliveryFixture::start(FakeChannel::new(move |op| match is_beside(op) {
        true => ChannelAction::Fails(SendError::OtherHost {
            why: "the host that slack named for this cannot be reached".to_owned(),
            retry_after: None,
        }),
        false => ChannelAction::Shows,
    }));
    for number in 0..60 {
        let (answer, other) = (format!("inbox-{number}/aside"), format!("inbox-{number}/result"));
        let ops = vec![
            post(&answer, &format!("D{number}")),
            post(&other, &format!("C{number}")),
        ];
        fixture.enqueue(ops).await;
        let asked = elapsed();
        fixture.until_soon(|| fixture.fake.calls_of(&other) > 0).await;
        assert!(elapsed() - asked <= Duration::from_secs(2), "{other}");
        assert_eq!(fixture.delivery.state(), ChannelState::Open);
        fixture.pass(1).await;
    }
    fixture.until_delivered().await;
    assert_eq!(fixture.fake.probes.lock().unwrap().len(), 0);
    let letters = fixture.letters().await;
    let attempts: BTreeSet<u32> = letters.iter().map(|letter| letter.attempts).collect();
    assert_eq!((letters.len(), attempts), (60, BTreeSet::from([8])));
    let notices = fixture.fake.shown();
    let notices = notices.iter().filter(|op| op.ends_with("/missing"));
    assert_eq!(notices.count(), 60);
}

#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// R19
#[tokio::test(start_paused = true)]
async fn a_revoked_token_pauses_delivery_is_reported_once_and_recovers_by_itself() {
    let log = CapturedLog::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let revoked = || SendError::Unauthorised("token_revoked".to_owned());
    let fake = FakeChannel::new(move |_| match elapsed() > HOUR {
        true => ChannelAction::Shows,
        false => ChannelAction::Fails(revoked()),
    });
    let fake = fake.probed(move || if elapsed() > HOUR { Ok(()) } else { Err(revoked()) });
    let fixture = DeliveryFixture::start(fake);
    let ops = many(100);
    fixture.enqueue(ops.clone()).await;
    fixture.until(|| elapsed() > HOUR / 2).await;
    let tried = fixture.fake.calls.lock().unwrap().len();
    assert!(tried <= 3, "{tried} calls");
    let health = fixture.delivery.health().await.unwrap();
    assert!(
        matches!(&health.state, ChannelState::Unauthorised { why, .. } if why == "token_revoked"),
        "{health:?}"
    );
    assert_eq!((health.waiting, health.given_up), (100, 0));
    assert_eq!(fixture.attempts().await, 0);
    fixture.until_delivered().await;
    is_each_shown_once(&fixture, &ops);
    let probes = fixture.fake.probes.lock().unwrap().len();
    assert!((10..=25).contains(&probes), "{probes} probes in an hour");
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(
        logged.lines().filter(|line| line.contains("ERROR")).count(),
        1,
        "{logged}"
    );
    assert_eq!(logged.matches("its token is refused").count(), 1, "{logged}");
}

/// R17
#[tokio::test(start_paused = true)]
async fn a_rate_limited_chat_waits_as_long_as_asked_and_delays_no_other() {
    let limited = Mutex::new(20);
    let fixture = DeliveryFixture::start(FakeChannel::new(move |op| {
        let mut limited = limited.lock().unwrap();
        if op.place.chat != "C1" || *limited == 0 {
            return ChannelAction::Shows;
        }
        *limited -= 1;
        ChannelAction::Fails(SendError::Limited {
            why: "slack answered 429".to_owned(),
            retry_after: Some(Duration::from_secs(7)),
        })
    }));
    fixture
        .enqueue(vec![post("inbox-1/result", "C1"), post("inbox-2/result", "C2")])
        .await;
    fixture.until_delivered().await;
    assert_eq!(fixture.fake.shown(), ["inbox-2/result", "inbox-1/result"]);
    let calls = fixture.fake.calls.lock().unwrap().clone();
    let of_chat: Vec<Duration> = calls
        .into_iter()
        .filter_map(|(op, at)| (op == "inbox-1/result").then_some(at))
        .collect();
    assert_eq!(of_chat.len(), 21, "it is no attempt, however often");
    for pair in of_chat.windows(2) {
        let wait = pair[1] - pair[0];
        let is_kept = (Duration::from_secs(7)..=Duration::from_secs(8)).contains(&wait);
        assert!(is_kept, "{wait:?}");
    }
    assert_eq!(fixture.fake.probes.lock().unwrap().len(), 0);
}

/// R14, R15, P2: neither the post nor the edit is sent again, and later operations continue.
#[tokio::test(start_paused = true)]
async fn an_outcome_that_cannot_be_stored_is_kept_until_it_can_be() {
    let lock = Arc::new(Mutex::new(None));
    let held = Arc::clone(&lock);
    let file = tempfile::tempdir().unwrap();
    let path = Arc::new(Mutex::new(file.path().to_owned()));
    let database = Arc::clone(&path);
    let fixture = DeliveryFixture::start(FakeChannel::new(move |op| {
        if op.id == "inbox-1/result" {
            let other = rusqlite::Connection::open(&*database.lock().unwrap()).unwrap();
            other.execute_batch("BEGIN IMMEDIATE").unwrap();
            *held.lock().unwrap() = Some(other);
        }
        ChannelAction::Shows
    }));
    *path.lock().unwrap() = fixture.database();
    let edit = Action::Edit {
        message: MessageRef {
            chat: "C2".to_owned(),
            id: "1".to_owned(),
        },
        reply: Reply::text("edited"),
    };
    fixture
        .enqueue(vec![
            post("inbox-1/result", "C1"),
            post("inbox-2/result", "C1"),
            op("inbox-3/edit", "C2", edit),
        ])
        .await;
    fixture
        .until(|| fixture.fake.calls_of("inbox-1/result") == 1)
        .await;
    // Another program locks the database for longer than two writes wait.
    tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(4_600)))
        .await
        .unwrap();
    assert_eq!(fixture.fake.calls_of("inbox-2/result"), 0);
    lock.lock().unwrap().take();
    fixture.until_delivered().await;
    let mut shown = fixture.fake.shown();
    shown.sort();
    assert_eq!(shown, ["inbox-1/result", "inbox-2/result", "inbox-3/edit"]);
    assert_eq!(fixture.letters().await, []);
}

/// Checks that a post is looked up, without a restart, when its delivery ended without an outcome. P2
#[tokio::test(start_paused = true)]
async fn a_post_whose_sender_vanished_is_looked_up_before_it_is_sent() {
    for was_shown in [true, false] {
        let fake = FakeChannel::new(|_| ChannelAction::Shows);
        if was_shown {
            fake.shown.lock().unwrap().push("inbox-1/result".to_owned());
        }
        let fixture = DeliveryFixture::start_after(fake, async |store| {
            let ops = vec![post("inbox-1/result", "C1"), post("inbox-2/result", "C1")];
            store.enqueue(ops, super::fixture::now()).await.unwrap();
            // It is leased and then dropped.
            let due = store.lease_due("slack", super::fixture::now(), 1).await.unwrap();
            let forgotten: Vec<String> = due.into_iter().map(|due| due.op.id).collect();
            assert_eq!(forgotten, ["inbox-1/result"]);
            store.abandon_leases(&forgotten);
        })
        .await;
        fixture.until_delivered().await;
        assert_eq!(fixture.fake.shown(), ["inbox-1/result", "inbox-2/result"]);
        assert_eq!(fixture.fake.calls_of("inbox-1/result"), usize::from(!was_shown));
    }
}

/// P2
#[tokio::test(start_paused = true)]
async fn a_resend_by_an_operator_is_sent_even_if_the_earlier_outcome_is_unknown() {
    let fixture = DeliveryFixture::start(FakeChannel::without_lookup(|op| match elapsed() > HOUR {
        true => ChannelAction::Shows,
        false if op.id.ends_with("/missing") => ChannelAction::Shows,
        false => ChannelAction::Fails(SendError::Ambiguous("the connection broke".to_owned())),
    }));
    fixture
        .enqueue(vec![
            post("inbox-1/answer", "C1"),
            file("inbox-1/CHG-1.patch", "C1"),
        ])
        .await;
    fixture.until_delivered().await;
    let letters = fixture.letters().await;
    let states: Vec<(&str, &str)> = letters
        .iter()
        .map(|letter| (&*letter.op, &*letter.state))
        .collect();
    assert_eq!(
        states,
        [
            ("inbox-1/answer", "ambiguous"),
            ("inbox-1/CHG-1.patch", "ambiguous")
        ]
    );
    fixture.until(|| elapsed() > HOUR).await;
    let again = crate::state::store::DeadLetterFilter::Channel("slack".to_owned());
    let channels = fixture
        .store
        .send_again(again, "operator", super::fixture::now())
        .await;
    assert_eq!(channels.map(|resent| resent.queued.len()), Ok(2));
    fixture.delivery.retry_now();
    fixture.until_delivered().await;
    assert_eq!(fixture.letters().await, []);
    let shown: BTreeSet<String> = fixture.fake.shown().into_iter().collect();
    assert!(
        shown.contains("inbox-1/answer") && shown.contains("inbox-1/CHG-1.patch"),
        "{shown:?}"
    );
}

/// T28: a message that is in flight when its recipient blocks the sender is not sent again.
#[tokio::test(start_paused = true)]
async fn a_message_in_flight_when_its_sender_is_blocked_is_not_sent_again() {
    let message = format!(
        "inbox-1/{}00ff-0",
        PersonMessage::operation_name(UserId(1), UserId(2))
    );
    let lost = || SendError::Ambiguous("the connection broke".to_owned());
    for (can_find, error) in [
        (true, lost()),
        (false, lost()),
        (true, server_error()),
        (false, server_error()),
    ] {
        let path = Arc::new(Mutex::new(PathBuf::new()));
        let database = Arc::clone(&path);
        let blocked = message.clone();
        let behaves = move |op: &Op| {
            if op.id != blocked {
                return ChannelAction::Shows;
            }
            let other = rusqlite::Connection::open(&*database.lock().unwrap()).unwrap();
            let decides = "PRAGMA foreign_keys = OFF;
                INSERT OR REPLACE INTO message_consent (recipient, sender, state) VALUES (2, 1, 'blocked')";
            other.execute_batch(decides).unwrap();
            ChannelAction::Fails(error.clone())
        };
        let fixture = DeliveryFixture::start(match can_find {
            true => FakeChannel::new(behaves),
            false => FakeChannel::without_lookup(behaves),
        });
        *path.lock().unwrap() = fixture.database();
        let accepts = "PRAGMA foreign_keys = OFF;
            INSERT INTO message_consent (recipient, sender, state) VALUES (2, 1, 'accepted')";
        let other = rusqlite::Connection::open(fixture.database()).unwrap();
        other.execute_batch(accepts).unwrap();
        fixture
            .enqueue(vec![post(&message, "C1"), post("inbox-2/result", "C1")])
            .await;
        fixture.until_delivered().await;
        assert_eq!(fixture.fake.calls_of(&message), 1);
        // It is no dead letter either, and later operations continue.
        assert_eq!(fixture.letters().await, []);
        assert_eq!(fixture.fake.shown(), ["inbox-2/result"]);
    }
}
