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

/// The work that an answer is sent back for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentBackFor {
    /// The model mends its edits.
    Repair,
    /// The model edited nothing, and changes its verdict.
    Verdict,
}

/// Returns the text that the model reads when its answer is sent back.
pub(super) fn remark(failing: &[String], sent_back_for: SentBackFor) -> String {
    let failing: Vec<String> = failing.iter().map(|line| format!("- {line}")).collect();
    let advice = match sent_back_for {
        SentBackFor::Repair => {
            "Fix the files with the tools, then answer again; the person has not seen your last answer. If you \
             cannot fix it, or if it is intended, say so in your answer."
        }
        SentBackFor::Verdict => {
            "The verdict cannot be `pass` while a check fails. Read what you need with the tools, then conclude again \
             with the reason; the person has not seen your last answer."
        }
    };
    format!(
        "{REMARK_PREFIX} Your answer is not sent yet, because this fails:]\n\
         {}\n\
         [{advice}]",
        failing.join("\n")
    )
}
