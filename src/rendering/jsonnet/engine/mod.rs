//! The engines, behind one trait. They run inside the sandbox only, and read files only through [`EvalJob`], which asks
//! the parent.

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

/// An implementation of the language.
pub(super) trait Engine {
    /// Evaluates the warm-up program in a separate state, so that later jobs are faster.
    fn warm_up(&self);

    /// Prepares the engine before the first job.
    fn prepare(&mut self);

    /// Returns the value of the program as canonical JSON. State that an engine keeps between jobs must not change any
    /// value.
    fn evaluate(&mut self, job: &Rc<EvalJob>) -> Result<String, EngineFailure>;
}

/// The engine whose values are used.
pub(super) fn primary() -> impl Engine {
    StatefulEngine::<jrsonnet::Jrsonnet>::default()
}

/// Returns the engine for the cross-check. It shares no code with the first.
pub(super) fn second() -> impl Engine {
    StatefulEngine::<rsjsonnet::Rsjsonnet>::default()
}
