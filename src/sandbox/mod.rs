//! The only subprocesses. A sandbox worker is this same program, started again with a hidden argument, that
//! confines itself before it reads a byte of its task and ends after one task, or one batch of one person's. The jail knows nothing
//! of what is done inside it; whoever uses it brings the protocol.
//!
//! An external program run starts a program that is not ours and that the operator named. This program is started again
//! for it, too, confines itself, and then becomes that program.

mod confinement;
mod errand;
mod frame;
mod inmate;
mod launch;
mod layer;
mod nursery;
mod scratch;

pub use crate::system::LayerName;
pub use confinement::{Cell, Confinement, task_of};
pub use errand::{Errand, ErrandError, Ran};
pub use frame::{Frame, read_frame, write_frame};
pub use inmate::{Inmate, Killer, PostMortem, Program};
pub use launch::{Launch, launch_of};
pub use layer::{Layer, Standing, layers, standing};
pub use nursery::Nursery;
pub use scratch::{Scratch, ScratchError};

/// The reason why there is no sandbox worker.
#[derive(Debug, thiserror::Error)]
pub enum JailError {
    /// The system cannot confine as much as is required.
    #[error("this system lacks {}; nothing is evaluated without it unless `sandbox.layers_missing` lists it", names(.0))]
    Weaker(Vec<LayerName>),
    /// The process did not start, or ended before it was confined.
    #[error("the jail did not start: {0}")]
    NotStarted(String),
}

fn names(layers: &[LayerName]) -> String {
    let names: Vec<String> = layers.iter().map(ToString::to_string).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}
