//! The reason an environment did not render, as it is told: what may be done about it, and one line.

use crate::jsonnet::{EvalError, TraceFrame};
use crate::model::one_line;
use crate::redact::Redactor;
use crate::review::{FailureKind, Impact, NotProven, RenderFailure, Report};
use crate::tanka::TankaError;

/// Characters of one reason.
const MESSAGE_CHARS_MAX: usize = 400;

/// Returns the failure as it is told. Secrets are hidden before it is cut.
pub(super) fn failure(error: &TankaError, redactor: &Redactor) -> RenderFailure {
    RenderFailure {
        kind: kind(error),
        message: redacted_reason(error, redactor),
        trace: match error {
            TankaError::Evaluation(error) => redacted_trace(&error.places(), redactor),
            _ => Vec::new(),
        },
    }
}

/// An environment of the workspace that does not render, and the places that lead to where its program fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenEnvironment {
    /// The name of the environment, or the path it was asked for by.
    pub name: String,
    /// The places, innermost first; redacted.
    pub trace: Vec<TraceFrame>,
}

impl BrokenEnvironment {
    /// The environment of that name, where it is known where its program fails.
    pub fn from_error(name: &str, error: &TankaError, redactor: &Redactor) -> Option<Self> {
        let TankaError::Evaluation(error) = error else {
            return None;
        };
        Self::from_trace(name, &redacted_trace(&error.places(), redactor))
    }

    fn from_trace(name: &str, trace: &[TraceFrame]) -> Option<Self> {
        (!trace.is_empty()).then(|| Self {
            name: name.to_owned(),
            trace: trace.to_vec(),
        })
    }

    /// Returns the broken environments of a report, by name.
    pub fn from_report(report: &Report) -> Vec<Self> {
        let environments = report.environments.iter();
        environments
            .filter_map(|environment| match &environment.impact {
                Impact::NotProven {
                    reason:
                        NotProven::FailsInWorkspace { workspace } | NotProven::FailsOnBoth { workspace, .. },
                } => Self::from_trace(&environment.name, &workspace.trace),
                _ => None,
            })
            .collect()
    }
}

/// The places of an error without secrets, which a program may have put into names.
pub(super) fn redacted_trace(trace: &[TraceFrame], redactor: &Redactor) -> Vec<TraceFrame> {
    let frames = trace.iter().map(|frame| TraceFrame {
        at: frame.at.clone(),
        what: redactor.redact(&frame.what).into_owned(),
    });
    frames.collect()
}

/// Returns the failure for JSON that cannot be written or read: it nests too deeply.
pub(super) fn nesting_failure(error: &serde_json::Error) -> RenderFailure {
    RenderFailure {
        kind: FailureKind::Bound,
        message: error.to_string(),
        trace: Vec::new(),
    }
}

/// Returns the kind of failure of an evaluation, which says what may be done about it.
pub(crate) fn kind_of_evaluation(error: &EvalError) -> FailureKind {
    match error {
        EvalError::Runtime { .. }
        | EvalError::Syntax { .. }
        | EvalError::ImportDenied { .. }
        | EvalError::ImportForbidden { .. }
        | EvalError::ImportNotFound { .. }
        | EvalError::ImportFailed { .. } => FailureKind::Program,
        EvalError::Stack(_)
        | EvalError::Memory { .. }
        | EvalError::Time { .. }
        | EvalError::BudgetExhausted { .. }
        | EvalError::Output { .. }
        | EvalError::Values { .. }
        | EvalError::Objects { .. }
        | EvalError::Crashed { .. } => FailureKind::Bound,
        EvalError::NeedsHelm { .. }
        | EvalError::SpoolFull { .. }
        | EvalError::Sandbox(_)
        | EvalError::Cancelled => FailureKind::Unavailable,
    }
}

fn kind(error: &TankaError) -> FailureKind {
    match error {
        TankaError::Evaluation(error) => kind_of_evaluation(error),
        TankaError::Value(_) => FailureKind::Bound,
        TankaError::Primitive { .. }
        | TankaError::Schema { .. }
        | TankaError::BothKinds
        | TankaError::LabelField(_) => FailureKind::Objects,
        TankaError::Internal(_) => FailureKind::Unavailable,
        TankaError::NoRoot
        | TankaError::NoBase { .. }
        | TankaError::Path(_)
        | TankaError::Tree(_)
        | TankaError::Spec { .. }
        | TankaError::Ambiguous { .. }
        | TankaError::AmbiguousName { .. }
        | TankaError::NoMatch { .. }
        | TankaError::NotFound { .. }
        | TankaError::Version { .. }
        | TankaError::VersionConstraint(_)
        | TankaError::Filter { .. }
        | TankaError::Selector { .. }
        | TankaError::ArgumentName(_) => FailureKind::Program,
    }
}

/// Returns the reason an environment does not render, as one line. Objects are named by their place and never shown:
/// they may be secrets.
pub fn reason(error: &TankaError) -> String {
    line(&text(error))
}

/// Returns the reason of [`reason`] without secrets: they are hidden before the line is cut.
pub fn redacted_reason(error: &TankaError, redactor: &Redactor) -> String {
    line(&redactor.redact(&text(error)))
}

fn text(error: &TankaError) -> String {
    match error {
        TankaError::Primitive { at, reason, .. } => {
            format!("found invalid Kubernetes object (at {at}): {reason}")
        }
        TankaError::Schema { at, fields, .. } => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(field, why)| format!("{field}: {why}"))
                .collect();
            let fields = fields.join(", ");
            format!("{at} has missing or invalid fields: {fields}")
        }
        TankaError::Evaluation(error) => error.to_string(),
        other => other.to_string(),
    }
}

/// Returns any text as one line of a bounded length; what nobody would see is shown by name.
pub(super) fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = one_line(&words.join(" "));
    match line.chars().nth(MESSAGE_CHARS_MAX) {
        None => line,
        Some(_) => line.chars().take(MESSAGE_CHARS_MAX - 1).chain(['…']).collect(),
    }
}
