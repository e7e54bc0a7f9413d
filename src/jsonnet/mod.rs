//! Evaluates Jsonnet behind the jail. What the language can reach is the tree it is given, and
//! nothing of the machine: no file, no environment, no program, no network. An evaluation that
//! crashes, hangs or eats memory ends as an [`EvalError`] of its own request.

mod contract;
pub mod format;
pub mod lint;
pub mod syntax;
pub mod yaml;

pub use contract::{
    Entry, EvalError, EvalLimits, Evaluated, Frame, Import, Request, SecondOpinion, SecondOpinionWanted,
};
