//! Watches the store, and says in the register of health how it is.

use crate::health::{Health, Severity};
use crate::store::{Condition, Store};
use jiff::Timestamp;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Between two looks at a store that takes writes.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Between two looks at one that does not.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// How long a look may take: longer than the store waits for a lock.
const LOOK_MAX: Duration = Duration::from_millis(2_500);
/// Whom it is about.
const STORE: &str = "store";
/// What a look at the whole of it is called.
const CHECK: &str = "check of the database";

/// Looks at the store again and again until `cancel`.
pub(super) async fn watch_store(
    store: Store,
    health: Health,
    now: fn() -> Timestamp,
    cancel: CancellationToken,
) {
    let mut condition = store.condition();
    loop {
        let wait = match &*condition.borrow_and_update() {
            Condition::Sound => {
                health.clear(STORE);
                LOOK_EVERY
            }
            Condition::Unavailable(why) | Condition::Broken(why) => {
                health.set(STORE, Severity::Unready, why);
                LOOK_AGAIN_AFTER
            }
        };
        tokio::select! {
            () = cancel.cancelled() => return,
            // News of a failure is told at once; news of its end, too.
            changed = condition.changed() => if changed.is_ok() { continue },
            () = tokio::time::sleep(wait) => {}
        }
        let looked = cancel.run_until_cancelled(tokio::time::timeout(LOOK_MAX, store.look(now())));
        match looked.await {
            // Whatever came of it is in the condition.
            Some(Ok(_)) => {}
            Some(Err(_)) => health.set(STORE, Severity::Unready, "it does not answer"),
            None => return,
        }
    }
}

/// Reads the whole database where the start had no time to; until that is done, it is said.
pub(super) async fn check_store(store: Store, health: Health, cancel: CancellationToken) {
    if store.is_checked() {
        return;
    }
    health.set(CHECK, Severity::Degraded, "it is being read to its end");
    match store.check(&cancel).await {
        Ok(()) => health.clear(CHECK),
        Err(error) => warn!(%error, "the database could not be checked"),
    }
}

/// Waits until the store is broken, and answers why.
pub(super) async fn broken(condition: &mut watch::Receiver<Condition>) -> String {
    let is_broken = |condition: &Condition| matches!(condition, Condition::Broken(_));
    if let Ok(condition) = condition.wait_for(is_broken).await
        && let Condition::Broken(why) = &*condition
    {
        return why.clone();
    }
    // Whoever could say so is gone.
    std::future::pending().await
}
