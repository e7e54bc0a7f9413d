//! The engines, behind one trait. They run inside the sandbox only, and reach files only through
//! [`EvalJob`], which asks the parent.

mod warm_up;
mod job;
mod jrsonnet;
mod stateful;
mod library;
mod prelude;
mod rsjsonnet;
mod depth_reserve;
mod operators;
mod error_location;
mod error_messages;

use super::message::EngineFailure;
pub(super) use error_messages::is_vague;
pub(super) use job::{EngineKind, EvalJob, ParentChannel, SourceOrigin};
use stateful::StatefulEngine;
use std::rc::Rc;

/// One implementation of the language.
pub(super) trait Engine {
    /// Prepares for the first job, so that it does not wait for it. `exercises` when there is time to be quick later.
    fn prepare(&mut self, exercises: bool);

    /// The value of the program as canonical JSON. What an engine keeps from one job for the next must
    /// not show in any value.
    fn evaluate(&mut self, job: &Rc<EvalJob>) -> Result<String, EngineFailure>;
}

/// The engine whose values are used.
pub(super) fn primary() -> impl Engine {
    StatefulEngine::<jrsonnet::Jrsonnet>::default()
}

/// The engine that is asked whether it sees the same value. It shares no code with the first.
pub(super) fn second() -> impl Engine {
    StatefulEngine::<rsjsonnet::Rsjsonnet>::default()
}
