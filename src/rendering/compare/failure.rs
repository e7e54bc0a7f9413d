//! The reason why an environment does not render, in the form that is shown: its kind, and one line.

use crate::base::model::one_line;
use crate::base::redact::Redactor;
use crate::rendering::jsonnet::{EvalError, TraceFrame};
use crate::rendering::review::{FailureKind, Impact, NotProven, RenderFailure, Report};
use crate::rendering::tanka::TankaError;

/// Maximum length of one reason in characters.
const MESSAGE_CHARS_MAX: usize = 400;

/// Converts an error to the failure that is shown. Secrets are hidden before the text is cut.
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

/// An environment of the workspace that does not render, and the call stack of the failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenEnvironment {
    /// The name of the environment, or the requested path.
    pub name: String,
    /// The stack frames, innermost first and redacted.
    pub trace: Vec<TraceFrame>,
}

impl BrokenEnvironment {
    /// Returns the broken environment if the position of the failure is known.
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

/// Redacts the stack frames of an error. A program may have put secrets into names.
pub(super) fn redacted_trace(trace: &[TraceFrame], redactor: &Redactor) -> Vec<TraceFrame> {
    let frames = trace.iter().map(|frame| TraceFrame {
        at: frame.at.clone(),
        what: redactor.redact(&frame.what).into_owned(),
    });
    frames.collect()
}

/// Returns the failure for JSON that is nested too deeply to be written or parsed.
pub(super) fn nesting_failure(error: &serde_json::Error) -> RenderFailure {
    RenderFailure {
        kind: FailureKind::Bound,
        message: error.to_string(),
        trace: Vec::new(),
    }
}

/// Returns the kind of failure of an evaluation, which determines the possible remedy.
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

/// Returns the reason why an environment does not render, as one line. Objects are identified by path and never
/// shown, because they may be secrets.
pub fn reason(error: &TankaError) -> String {
    line(&text(error))
}

/// Returns the redacted result of [`reason`]. Secrets are hidden before the line is cut.
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

/// Converts a text to one line of bounded length. Invisible characters are shown by name.
pub(super) fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = one_line(&words.join(" "));
    match line.chars().nth(MESSAGE_CHARS_MAX) {
        None => line,
        Some(_) => line.chars().take(MESSAGE_CHARS_MAX - 1).chain(['…']).collect(),
    }
}
