//! Storage of delivery outcomes. An outcome is kept in memory until it is stored. So a full disk or a locked database
//! does not cause a second sending, and no delivery thread ends.

use crate::planted;
use crate::state::store::StoreError;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

/// First and longest pause between two attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Attempts after the process begins to stop. Outcomes that are not stored by then are looked up after the next start.
const LAST_TRIES: u32 = 5;

/// Stores an outcome and retries until it succeeds. Returns `None` if the process stops first.
pub(super) async fn store_outcome<T, F>(
    outcome: &str,
    cancel: &CancellationToken,
    store: impl Fn() -> F,
) -> Option<T>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut pause = PAUSE.0;
    let mut last_tries = LAST_TRIES;
    let mut is_logged = false;
    loop {
        let error = match store().await {
            Ok(stored) => {
                if is_logged {
                    info!("{outcome} is stored now");
                }
                return Some(stored);
            }
            Err(error) => error,
        };
        if !is_logged {
            error!(%error, "{outcome} could not be stored; it is held in memory and stored later");
            is_logged = true;
        }
        if planted::is("C1") {
            return None;
        }
        if cancel.is_cancelled() {
            last_tries -= 1;
            if last_tries == 0 {
                return None;
            }
            tokio::time::sleep(PAUSE.0).await;
        } else {
            let _ = tokio::time::timeout(pause, cancel.cancelled()).await;
        }
        pause = (pause * 2).min(PAUSE.1);
    }
}
