//! The input of a review: the objects of each environment on the base and in the workspace, or the reason there are none. Whoever
//! evaluates fills this in; nothing here evaluates.

use super::settings::SettingsChange;
use crate::jsonnet::TraceFrame;
use serde::Serialize;
use serde_json::Value;

/// A change, as it was rendered and as it was asked for.
#[derive(Clone, Debug, Default)]
pub struct ReviewInput {
    /// Every environment that was looked at, in any order. Their names are unique.
    pub environments: Vec<ReviewedEnvironment>,
    /// Every environment whose settings differ or may, redacted, in any order.
    pub settings: Vec<SettingsChange>,
    /// Every file that differs from the base, in any order.
    pub files: Vec<ChangedFile>,
    /// The request as the person wrote it, to tell which changes were not asked for. Empty when nobody asked.
    pub request: String,
}

/// An environment on both sides of the change.
#[derive(Clone, Debug)]
pub struct ReviewedEnvironment {
    /// The name: `environments/prod-eu`.
    pub name: String,
    /// The namespace of objects that name none. Empty when it is not known.
    pub namespace: String,
    /// The result of looking at both sides.
    pub rendering: EnvironmentRendering,
}

/// The result of looking at the two sides of an environment.
#[derive(Clone, Debug)]
pub enum EnvironmentRendering {
    /// No file it imports differs, so both sides render to the same objects and neither was rendered.
    ClosureUnchanged {
        /// The identity of its import closure.
        closure: String,
    },
    /// Both sides were rendered.
    Rendered {
        /// The side of the base.
        base: SideResult,
        /// The side of the workspace.
        workspace: SideResult,
        /// Objects that both sides have beside their own, in any order; none unless both have objects.
        /// Whoever fills this in may leave it empty: equal objects of the sides are found anyway.
        same: Vec<Value>,
    },
    /// The environment may differ, and was not rendered.
    NotLookedAt {
        /// The reason, for people.
        why: String,
    },
}

impl EnvironmentRendering {
    /// Takes the rendering and leaves one that holds no memory.
    pub(super) fn take(&mut self) -> Self {
        let nothing = Self::NotLookedAt { why: String::new() };
        std::mem::replace(self, nothing)
    }
}

/// The result of one side of an environment.
#[derive(Clone, Debug, PartialEq)]
pub enum SideResult {
    /// The environment is not there on this side.
    Absent,
    /// The side rendered to these Kubernetes objects, in any order.
    Objects(Vec<Value>),
    /// The side did not render.
    Failed(RenderFailure),
}

/// The failure of a side that did not render.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RenderFailure {
    /// The kind, which says what may be done about it.
    pub kind: FailureKind,
    /// The message for people: one line, already redacted.
    pub message: String,
    /// The trace, innermost frame first, for a terminal; already redacted.
    #[serde(skip)]
    pub trace: Vec<TraceFrame>,
}

/// The kind of a failure, by what may be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The program of the environment is at fault: it can be repaired.
    Program,
    /// The output is not a set of Kubernetes objects: it can be repaired.
    Objects,
    /// The two engines have different values: neither is relied on.
    Disputed,
    /// A bound on time, memory, nesting or output was met: it can be raised.
    Bound,
    /// A needed part, such as a chart, is not here: it can be provided.
    Unavailable,
}

/// A file that differs from the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// The path in the repository.
    pub path: String,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
}
