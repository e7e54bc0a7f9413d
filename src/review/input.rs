//! What is reviewed: the objects of each environment on the base and in the workspace, or why there
//! are none. Whoever evaluates fills this in; nothing here evaluates.

use super::settings::SettingsChange;
use crate::jsonnet::Frame;
use serde::Serialize;
use serde_json::Value;

/// A change, as it was rendered and as it was asked for.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// Every environment that was looked at, in any order. Their names are unique.
    pub environments: Vec<Environment>,
    /// Every environment whose settings differ or may, redacted, in any order.
    pub settings: Vec<SettingsChange>,
    /// Every file that differs from the base, in any order.
    pub files: Vec<File>,
    /// What the person wrote, to tell what was not asked for. Empty when nobody asked.
    pub request: String,
}

/// One environment on both sides of the change.
#[derive(Clone, Debug)]
pub struct Environment {
    /// What it is called: `environments/prod-eu`.
    pub name: String,
    /// Where its objects go that name no namespace. Empty when it is not known.
    pub namespace: String,
    /// What was found out about it.
    pub rendering: Rendering,
}

/// How the two sides of an environment were looked at.
#[derive(Clone, Debug)]
pub enum Rendering {
    /// No file it imports differs, so both sides render to the same objects and neither was rendered.
    ClosureUnchanged {
        /// The identity of its import closure.
        closure: String,
    },
    /// Both sides were rendered.
    Rendered {
        /// On the base.
        base: Side,
        /// In the workspace.
        workspace: Side,
        /// Objects that both sides have beside their own, in any order; none unless both have objects.
        /// Whoever fills this in may leave it empty: equal objects of the sides are found anyway.
        same: Vec<Value>,
    },
    /// It may differ, and was not rendered.
    NotLookedAt {
        /// Why, for people.
        why: String,
    },
}

impl Rendering {
    /// What it is, leaving nothing that would take memory.
    pub(super) fn take(&mut self) -> Self {
        let nothing = Self::NotLookedAt { why: String::new() };
        std::mem::replace(self, nothing)
    }
}

/// What one side of an environment came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Side {
    /// The environment is not there on this side.
    Absent,
    /// It rendered to these Kubernetes objects, in any order.
    Objects(Vec<Value>),
    /// It did not render.
    Failed(Failure),
}

/// Why a side did not render.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// What may be done about it.
    pub kind: FailureKind,
    /// One line for people, already redacted.
    pub message: String,
    /// Where, innermost first, for a terminal; already redacted.
    #[serde(skip)]
    pub trace: Vec<Frame>,
}

/// What may be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The program of the environment is at fault: it can be repaired.
    Program,
    /// What it rendered to is not a set of Kubernetes objects: it can be repaired.
    Objects,
    /// The two engines have different values: neither is relied on.
    Disputed,
    /// A bound on time, memory, nesting or output was met: it can be raised.
    Bound,
    /// It needs something that is not here, such as a chart: it can be provided.
    Unavailable,
}

/// One file that differs from the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path in the repository.
    pub path: String,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
}
