//! The end of a run, and who says so.

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// An answer, with a change where one was prepared.
    Pass,
    /// An answer, and no file differs from the base.
    NoChange,
    /// A check of ours failed on the change.
    Fail,
    /// The model stopped before it was done (token limit of one answer, refusal, empty answer).
    Incomplete,
    /// A bound was reached: steps, wall clock, tokens, repeated calls.
    Limit,
    /// A part of ours or of the provider broke.
    Error,
    /// A person stopped it.
    Cancelled,
    /// The sender was no longer allowed when the turn started.
    Denied,
}

/// The origin of a verdict. Only `Verified` and `Concluded` gate anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictSource {
    /// Checks that Drydock ran itself.
    Verified,
    /// The model called `conclude`.
    Concluded,
    /// The words of a text, read as a verdict; labelled so wherever it is shown.
    Inferred,
    /// The loop itself: limits, errors, cancellation.
    Harness,
}
