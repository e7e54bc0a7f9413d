//! The storing of outcomes, which are known once: each is kept in memory until it is stored, so that while a disk is full or a database is
//! locked, nothing that was sent is sent again, and nobody's thread ends.

use crate::planted;
use crate::store::StoreError;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

/// First and longest pause between two tries.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Tries after the process was told to stop. What is not stored then is looked for after the next start.
const LAST_TRIES: u32 = 5;

/// Stores an outcome, again and again until it is stored; none if the process stops before.
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
    let mut is_told = false;
    loop {
        let error = match store().await {
            Ok(stored) => {
                if is_told {
                    info!("{outcome} is stored now");
                }
                return Some(stored);
            }
            Err(error) => error,
        };
        if !is_told {
            error!(%error, "{outcome} could not be stored; it is kept and stored later");
            is_told = true;
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
