//! Proofs that an environment does not change, and the reasons why there is none.

use super::input::RenderFailure;
use serde::Serialize;

/// The effect of the change on an environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "standing", rename_all = "snake_case")]
pub enum Impact {
    /// The objects of the environment change.
    Affected {
        /// The index of its class in the list of classes.
        class: usize,
    },
    /// The objects of the environment do not change.
    Unaffected {
        /// The proof.
        proof: Proof,
    },
    /// Neither a change nor the absence of one is proven.
    NotProven {
        /// The reason.
        reason: NotProven,
    },
}

/// The proof that an environment does not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Proof {
    /// No imported file differs.
    ClosureUnchanged {
        /// The hash of its import closure, equal on both sides.
        closure: String,
    },
    /// Both sides rendered to the same objects.
    SameObjects {
        /// The SHA-256 of the masked objects, equal on both sides.
        sha256: String,
        /// The number of objects.
        objects: usize,
    },
}

/// The reason why the effect on an environment is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum NotProven {
    /// The environment does not render on either side. The change is not the cause.
    FailsOnBoth {
        /// The failure in the base.
        base: RenderFailure,
        /// The failure in the workspace.
        workspace: RenderFailure,
    },
    /// The environment renders only in the workspace. The change repairs it.
    FailsOnBase {
        /// The failure in the base.
        base: RenderFailure,
    },
    /// The environment renders only in the base. The change breaks it.
    FailsInWorkspace {
        /// The failure in the workspace.
        workspace: RenderFailure,
    },
    /// The environment has changed imports but was not rendered.
    NotLookedAt {
        /// The reason, for people.
        why: String,
    },
}
