//! Postconditions: what must hold of a workspace before a turn may end as done. The loop asks for it itself, so that
//! no model can leave it out, and sends an answer back to the model while it does not hold.

use crate::compare::CompareProgress;
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

/// Looks at what a turn made of its workspace.
#[async_trait]
pub trait Postconditions: Send + Sync {
    /// Checks the files as they are now. Tells `progress` how far it is, and returns soon after `cancel`, with
    /// [`CheckOutcome::Incomplete`].
    async fn check(
        &self,
        progress: &mut (dyn FnMut(CompareProgress) + Send),
        cancel: &CancellationToken,
    ) -> anyhow::Result<CheckOutcome>;
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The files are those of the base.
    Unchanged,
    /// The files were all checked, and everything holds.
    Passed,
    /// The conditions that do not hold, one line each, redacted.
    Failed(Vec<String>),
    /// The check is incomplete: nothing fails, and not everything could be looked at. Holds the reason, in one line,
    /// redacted.
    Incomplete(String),
}

/// The beginning of the text that the model reads when its answer is sent back.
pub const REMARK_PREFIX: &str = "[Drydock checked the files as you left them.";

/// Returns the text that the model reads when its answer is sent back.
pub(super) fn remark(failing: &[String]) -> String {
    let failing: Vec<String> = failing.iter().map(|line| format!("- {line}")).collect();
    format!(
        "{REMARK_PREFIX} Your answer is not sent yet, because this fails:]\n\
         {}\n\
         [Mend the files with the tools, then answer again for the person, who has not seen your last \
         answer. If it cannot be mended, or was so on purpose, say so in your answer.]",
        failing.join("\n")
    )
}
