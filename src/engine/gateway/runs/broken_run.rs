//! The runs that can never go on: those whose rows are not readable, and those whose moves fail or panic each time.

use crate::base::model::RunId;
use crate::state::store::StoreError;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use tracing::error;

/// The reason of the end of a run whose row is not readable.
const UNREADABLE: &str = "it cannot be read by this version; start it again";
/// The reason of the end of a run whose moves fail in another way.
pub(super) const BROKEN: &str = "an internal error ended it; the log has the reason";

/// Makes the moves of a run. Returns the reason to end it if it can never go on; an error is one that may pass.
pub(super) async fn reason_to_end(
    run: RunId,
    moving: impl Future<Output = Result<(), StoreError>>,
) -> Result<Option<&'static str>, StoreError> {
    match AssertUnwindSafe(moving).catch_unwind().await {
        Ok(Ok(())) => Ok(None),
        Ok(Err(error)) if error.may_pass() => Err(error),
        Ok(Err(error)) => {
            error!(%run, %error, "a run can never go on, and is ended");
            Ok(Some(match error {
                StoreError::Unreadable { .. } => UNREADABLE,
                _ => BROKEN,
            }))
        }
        Err(_) => {
            error!(%run, "the moves of a run panicked, and it is ended");
            Ok(Some(BROKEN))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::{BROKEN, UNREADABLE, reason_to_end};
    use crate::base::model::RunId;
    use crate::state::store::StoreError;

    async fn moved(result: Result<(), StoreError>) -> Result<(), StoreError> {
        tokio::task::yield_now().await;
        result
    }

    async fn panicked() -> Result<(), StoreError> {
        tokio::task::yield_now().await;
        panic!("a step that nobody expected")
    }

    #[tokio::test]
    async fn a_run_that_panics_or_always_fails_is_ended_and_one_that_may_go_on_later_is_not() {
        let run = RunId(7);
        assert_eq!(reason_to_end(run, moved(Ok(()))).await, Ok(None));
        let full = StoreError::Unavailable("the disk is full".to_owned());
        assert_eq!(reason_to_end(run, moved(Err(full.clone()))).await, Err(full));
        let unreadable = StoreError::Unreadable {
            what: "place",
            why: "expected value".to_owned(),
        };
        let ended = reason_to_end(run, moved(Err(unreadable))).await;
        assert_eq!(ended, Ok(Some(UNREADABLE)));
        let refused = StoreError::Failed("constraint failed".to_owned());
        let ended = reason_to_end(run, moved(Err(refused))).await;
        assert_eq!(ended, Ok(Some(BROKEN)));
        assert_eq!(reason_to_end(run, panicked()).await, Ok(Some(BROKEN)));
    }
}
