//! How it is known that an environment does not change, or why it is not known.

use super::input::Failure;
use serde::Serialize;

/// What the change does to an environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "standing", rename_all = "snake_case")]
pub enum Standing {
    /// Its objects change.
    Affected {
        /// Its class, as a position in the list of classes.
        class: usize,
    },
    /// Its objects do not change, and this is the proof.
    Unaffected {
        /// The proof.
        proof: Proof,
    },
    /// Nobody knows, and this is why.
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
        /// How many objects.
        objects: usize,
    },
}

/// Why it is not known whether an environment changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum NotProven {
    /// It does not render, on the base either: the change is not the cause.
    FailsOnBoth {
        /// On the base.
        base: Failure,
        /// In the workspace.
        workspace: Failure,
    },
    /// It does not render on the base, and does in the workspace: the change repairs it.
    FailsOnBase {
        /// On the base.
        base: Failure,
    },
    /// It rendered on the base and does not any more: the change breaks it.
    FailsInWorkspace {
        /// In the workspace.
        workspace: Failure,
    },
    /// It imports something that differs, and was not rendered.
    NotLookedAt {
        /// Why, for people.
        why: String,
    },
}
