//! The input of a review: the objects of each environment in the base and in the workspace, or the reason why there
//! are none. The caller evaluates the environments.

use super::settings::SettingsChange;
use crate::rendering::jsonnet::TraceFrame;
use serde::Serialize;
use serde_json::Value;

/// A rendered change and the request for it.
#[derive(Clone, Debug, Default)]
pub struct ReviewInput {
    /// Every examined environment in any order. Their names are unique.
    pub environments: Vec<ReviewedEnvironment>,
    /// Every environment whose settings differ or may differ, redacted, in any order.
    pub settings: Vec<SettingsChange>,
    /// Every file that differs from the base, in any order.
    pub files: Vec<ChangedFile>,
    /// The person's request, used to find changes that it does not mention. Empty without a request.
    pub request: String,
}

/// An environment on both sides of the change.
#[derive(Clone, Debug)]
pub struct ReviewedEnvironment {
    /// The name, such as `environments/prod-eu`.
    pub name: String,
    /// The namespace of objects without a namespace. Empty if it is unknown.
    pub namespace: String,
    /// The rendering on both sides.
    pub rendering: EnvironmentRendering,
}

/// The rendering of the two sides of an environment.
#[derive(Clone, Debug)]
pub enum EnvironmentRendering {
    /// No imported file differs, so both sides render to the same objects. Neither side was rendered.
    ClosureUnchanged {
        /// The hash of its import closure.
        closure: String,
    },
    /// Both sides were rendered.
    Rendered {
        /// The result in the base.
        base: SideResult,
        /// The result in the workspace.
        workspace: SideResult,
        /// Further objects that both sides have, in any order. Empty unless both sides have objects. The caller may
        /// leave this empty, because equal objects of the two sides are found anyway.
        same: Vec<Value>,
    },
    /// The environment may differ but was not rendered.
    NotLookedAt {
        /// The reason, for people.
        why: String,
    },
}

impl EnvironmentRendering {
    /// Takes the rendering and leaves an empty one in its place.
    pub(super) fn take(&mut self) -> Self {
        let nothing = Self::NotLookedAt { why: String::new() };
        std::mem::replace(self, nothing)
    }
}

/// The result of one side of an environment.
#[derive(Clone, Debug, PartialEq)]
pub enum SideResult {
    /// The environment does not exist on this side.
    Absent,
    /// The side rendered to these Kubernetes objects, in any order.
    Objects(Vec<Value>),
    /// The side did not render.
    Failed(RenderFailure),
}

/// The failure of a side that did not render.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RenderFailure {
    /// The kind, which determines the possible remedy.
    pub kind: FailureKind,
    /// The message for people: one redacted line.
    pub message: String,
    /// The call stack for a terminal, innermost frame first and redacted.
    #[serde(skip)]
    pub trace: Vec<TraceFrame>,
}

/// The kind of a failure, by its remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The program of the environment fails and must be repaired.
    Program,
    /// The output is not a set of Kubernetes objects, and the program must be repaired.
    Objects,
    /// The two engines have different values, so neither is reliable.
    Disputed,
    /// A limit on time, memory, nesting or output was exceeded. It can be raised.
    Bound,
    /// A required part such as a chart is missing. It can be provided.
    Unavailable,
}

/// A file that differs from the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// The path in the repository.
    pub path: String,
    /// The number of added lines.
    pub added: u64,
    /// The number of removed lines.
    pub removed: u64,
}
