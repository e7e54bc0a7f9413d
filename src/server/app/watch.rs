//! Checks the store regularly and reports its state to the health register.

use crate::base::health::{Health, HealthSeverity};
use crate::state::store::{Condition, Store, StoreError};
use jiff::Timestamp;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Time between two checks while the store accepts writes.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Time between two checks while the store accepts no writes.
const RECHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Time limit of a check; longer than the store waits for a lock.
const CHECK_TIME_MAX: Duration = Duration::from_millis(2_500);
/// Time between two attempts to read the whole database.
const INTEGRITY_RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// The store's name in the health register.
const STORE: &str = "store";
/// The name of the check of the whole database in the health register.
const CHECK: &str = "check of the database";

/// Checks the store repeatedly until `cancel`.
pub(super) async fn watch_store(
    store: Store,
    health: Health,
    now: fn() -> Timestamp,
    cancel: CancellationToken,
) {
    let mut condition = store.condition();
    // The reason why the last check failed, independent of the store's own report.
    let mut unanswered: Option<String> = None;
    loop {
        let why = why(&condition.borrow_and_update(), unanswered.as_deref());
        let wait = match why {
            None => {
                health.clear(STORE);
                CHECK_INTERVAL
            }
            Some(why) => {
                health.set(STORE, HealthSeverity::Unready, why);
                RECHECK_INTERVAL
            }
        };
        tokio::select! {
            () = cancel.cancelled() => return,
            // A change of the store's condition is reported at once.
            changed = condition.changed() => if changed.is_ok() { continue },
            () = tokio::time::sleep(wait) => {}
        }
        let checked =
            cancel.run_until_cancelled(tokio::time::timeout(CHECK_TIME_MAX, store.probe_writes(now())));
        unanswered = match checked.await {
            Some(Ok(Ok(()))) => None,
            Some(Ok(Err(error))) => Some(error.to_string()),
            Some(Err(_)) => Some("it does not answer".to_owned()),
            None => return,
        };
    }
}

/// Returns the reason why the store accepts no writes, if any. The store's own report comes first.
fn why(condition: &Condition, unanswered: Option<&str>) -> Option<String> {
    match condition {
        Condition::Sound => unanswered.map(str::to_owned),
        Condition::Unavailable(why) | Condition::Broken(why) => Some(why.clone()),
    }
}

/// Reads the whole database if there was no time for that at the start. The health register says so until it is done.
pub(super) async fn check_store(store: Store, health: Health, cancel: CancellationToken) {
    if store.is_checked() {
        return;
    }
    health.set(
        CHECK,
        HealthSeverity::Degraded,
        "the check of all pages is still running",
    );
    loop {
        match store.check(&cancel).await {
            Ok(()) => return health.clear(CHECK),
            // The process ends because of this error.
            Err(StoreError::Broken(_)) => return,
            Err(error) => warn!(%error, "the database could not be checked; the check is tried again"),
        }
        let pause = tokio::time::sleep(INTEGRITY_RETRY_INTERVAL);
        if cancel.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

/// Waits until the store is broken and returns the reason.
pub(super) async fn wait_until_broken(condition: &mut watch::Receiver<Condition>) -> String {
    let is_broken = |condition: &Condition| matches!(condition, Condition::Broken(_));
    if let Ok(condition) = condition.wait_for(is_broken).await
        && let Condition::Broken(why) = &*condition
    {
        return why.clone();
    }
    // The sender is gone, so the condition can no longer change.
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::why;
    use crate::state::store::Condition;

    /// R14, R36: a disk that hangs reports no failure, but the store accepts no writes.
    #[test]
    fn a_store_that_does_not_answer_is_not_ready_whatever_it_said_last() {
        let full = Condition::Unavailable("the disk is full".to_owned());
        assert_eq!(why(&Condition::Sound, None), None);
        assert_eq!(
            why(&Condition::Sound, Some("it does not answer")).as_deref(),
            Some("it does not answer")
        );
        assert_eq!(
            why(&full, Some("it does not answer")).as_deref(),
            Some("the disk is full")
        );
        assert_eq!(why(&full, None).as_deref(), Some("the disk is full"));
    }
}
