//! The engines, behind one trait. They run inside the jail only, and reach files only through
//! [`Job`], which asks the parent.

mod exercise;
mod job;
mod jrsonnet;
mod kept;
mod library;
mod prelude;
mod rsjsonnet;
mod spare;
mod sum;
mod whole;
mod words;

use super::message::Failure;
pub(super) use job::{Job, Line, Origin, Reader};
use kept::Kept;
use std::rc::Rc;
pub(super) use words::is_vague;

/// One implementation of the language.
pub(super) trait Engine {
    /// Prepares for the first job, so that it does not wait for it. `exercises` when there is time to be quick later.
    fn prepare(&mut self, exercises: bool);

    /// The value of the program as canonical JSON. What an engine keeps from one job for the next must
    /// not show in any value.
    fn evaluate(&mut self, job: &Rc<Job>) -> Result<String, Failure>;
}

/// The engine whose values are used.
pub(super) fn primary() -> impl Engine {
    Kept::<jrsonnet::Jrsonnet>::default()
}

/// The engine that is asked whether it sees the same value. It shares no code with the first.
pub(super) fn second() -> impl Engine {
    Kept::<rsjsonnet::Rsjsonnet>::default()
}
