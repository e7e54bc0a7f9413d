//! The only module that starts subprocesses of a server. A sandbox worker is this program, started again with a hidden
//! argument. It confines itself before it reads its task, and ends after one task or one batch of tasks of one person.
//! The sandbox knows nothing about the tasks; the caller defines the protocol.
//!
//! An external program run starts a program that the operator configured. For this, too, this program starts again with
//! a hidden argument, confines itself, and then executes the external program.

mod confinement;
mod command;
mod frame;
mod worker;
mod launch;
mod layer;
mod removal;
mod worker_pool;
mod scratch;

pub use crate::base::system::LayerName;
pub use command::{CommandError, CommandOutput, SandboxedCommand, WritableFiles};
pub use confinement::{Confinement, WorkerChannel, task_of};
pub use frame::{Frame, read_frame, write_frame};
pub use launch::{Launch, launch_of};
pub use layer::{LayerStatus, SandboxLayer, layer_status, layers};
pub use scratch::{Scratch, ScratchError};
pub use worker::{ExitReport, Killer, ProgramPath, SandboxWorker};
pub use worker_pool::WorkerPool;

/// The reason why a sandbox worker is not available.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The system lacks required layers.
    #[error("this system lacks {}; nothing is evaluated without it unless `sandbox.layers_missing` lists it", names(.0))]
    MissingLayers(Vec<LayerName>),
    /// The process did not start, or ended before it was confined.
    #[error("the sandbox did not start: {0}")]
    NotStarted(String),
}

fn names(layers: &[LayerName]) -> String {
    let names: Vec<String> = layers.iter().map(ToString::to_string).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}
