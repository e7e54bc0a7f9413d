//! The messages of quiet runs. A schedule may start its runs so that nothing is posted about one before there is something to
//! say. Then the message is the same as that of every run: the moves with which it is posted and its operation are one
//! transaction, and later moves edit it.

use super::Runs;
use super::moves::RunMove;
use crate::base::model::{RunId, RunStatus};
use crate::state::store::{RunMessage, RunRow, StoreError};
use serde::Deserialize;

/// The part of the inputs of a run that says whether it is quiet.
#[derive(Debug, Default, Deserialize)]
struct QuietMark {
    #[serde(default)]
    quiet: bool,
}

impl Runs {
    /// Returns true if moves post the message of their run, or edit it. A quiet run has none until there is something to say,
    /// and then it is posted also if nothing moves.
    pub(super) async fn is_shown(&self, moves: &RunMove<'_>) -> Result<bool, StoreError> {
        let has_moved = moves.row.head.status.is_end() || moves.has_moved();
        if !is_quiet(moves.row) {
            return Ok(has_moved);
        }
        match self.parts.store.has_run_message(moves.row.head.id).await? {
            true => Ok(has_moved),
            false => Ok(moves.report.has_news()),
        }
    }

    /// Returns true if the end of a run that can never go on is not shown: it has succeeded before, without a message.
    pub(super) async fn stays_silent(&self, id: RunId, message: &RunMessage) -> Result<bool, StoreError> {
        match &message.end {
            Some((RunStatus::Succeeded, _)) => Ok(!self.parts.store.has_run_message(id).await?),
            Some(_) | None => Ok(false),
        }
    }
}

/// Returns true for a quiet run. Somebody waits for a repetition, so that has its message from the beginning.
fn is_quiet(row: &RunRow) -> bool {
    let mark = || serde_json::from_str::<QuietMark>(&row.inputs).unwrap_or_default();
    row.head.retry_of.is_none() && mark().quiet
}
