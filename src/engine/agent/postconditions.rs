//! Postconditions: the requirements on a workspace before a turn may end as done. The loop itself checks them, so no
//! model can skip them. While one fails, the answer goes back to the model.

use crate::rendering::change_checks::CheckOutcome;
use crate::rendering::compare::CompareProgress;
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

/// A check of the workspace at the end of a turn.
#[async_trait]
pub trait Postconditions: Send + Sync {
    /// Checks the current files. Reports to `progress`, and returns soon after `cancel` with
    /// [`CheckOutcome::Incomplete`].
    async fn check(
        &self,
        progress: &mut (dyn FnMut(CompareProgress) + Send),
        cancel: &CancellationToken,
    ) -> anyhow::Result<CheckOutcome>;
}

/// The beginning of the text that the model reads when its answer is sent back.
pub const REMARK_PREFIX: &str = "[Drydock checked the files as you left them.";

/// Returns the text that the model reads when its answer is sent back.
pub(super) fn remark(failing: &[String]) -> String {
    let failing: Vec<String> = failing.iter().map(|line| format!("- {line}")).collect();
    format!(
        "{REMARK_PREFIX} Your answer is not sent yet, because this fails:]\n\
         {}\n\
         [Fix the files with the tools, then answer again; the person has not seen your last answer. If you \
         cannot fix it, or if it is intended, say so in your answer.]",
        failing.join("\n")
    )
}
