//! Proofs that an environment does not change, and the reasons there is none.

use super::input::RenderFailure;
use serde::Serialize;

/// The effect of the change on an environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "standing", rename_all = "snake_case")]
pub enum Impact {
    /// The environment's objects change.
    Affected {
        /// The environment's class, as a position in the list of classes.
        class: usize,
    },
    /// The environment's objects do not change, and this is the proof.
    Unaffected {
        /// The proof.
        proof: Proof,
    },
    /// The environment is proven neither way, and this is the reason.
    NotProven {
        /// The reason.
        reason: NotProven,
    },
}

/// The proof that an environment does not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Proof {
    /// No file it imports differs.
    ClosureUnchanged {
        /// The identity of its import closure, the same on both sides.
        closure: String,
    },
    /// Both sides rendered to the same objects.
    SameObjects {
        /// The SHA-256 of the masked objects, the same on both sides.
        sha256: String,
        /// The number of objects.
        objects: usize,
    },
}

/// The reason it is not known whether an environment changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum NotProven {
    /// The environment does not render, on the base either: the change is not the cause.
    FailsOnBoth {
        /// The failure on the base.
        base: RenderFailure,
        /// The failure in the workspace.
        workspace: RenderFailure,
    },
    /// The environment does not render on the base, and does in the workspace: the change repairs it.
    FailsOnBase {
        /// The failure on the base.
        base: RenderFailure,
    },
    /// The environment rendered on the base and does not any more: the change breaks it.
    FailsInWorkspace {
        /// The failure in the workspace.
        workspace: RenderFailure,
    },
    /// The environment imports something that differs, and was not rendered.
    NotLookedAt {
        /// The reason, for people.
        why: String,
    },
}
