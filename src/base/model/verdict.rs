//! The result of a run, and its source.

/// The result of a run.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The run ended with an answer, and with a change if one was prepared.
    Pass,
    /// The run ended with an answer, and no file differs from the base.
    NoChange,
    /// A check by Drydock failed on the change.
    Fail,
    /// The model stopped too early (token limit of one answer, refusal, empty answer).
    Incomplete,
    /// A limit was reached: steps, duration, tokens, repeated calls.
    Limit,
    /// Drydock or the provider failed.
    Error,
    /// A user stopped the run.
    Cancelled,
    /// The sender no longer had access when the turn started.
    Denied,
}

/// The source of a verdict. Decisions depend only on `Verified` and `Concluded`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum VerdictSource {
    /// Checks that Drydock ran itself.
    Verified,
    /// The model called `conclude`.
    Concluded,
    /// The verdict was inferred from the words of a text; it is labelled so wherever it is shown.
    Inferred,
    /// The loop itself: limits, errors, cancellation.
    Harness,
}
