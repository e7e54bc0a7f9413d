//! The only subprocesses. An inmate is this same program, started again with a hidden argument, that
//! confines itself before it reads a byte of its task and ends after one task. The jail knows nothing
//! of what is done inside it; whoever uses it brings the protocol.

mod confinement;
mod descriptors;
mod filter;
mod frame;
mod inmate;
mod layer;
mod nursery;

pub use confinement::{Cell, Confinement, task_of};
pub use frame::{Frame, read_frame, write_frame};
pub use inmate::{Inmate, Killer, PostMortem, Program};
pub use layer::{Layer, LayerName, layers};
pub use nursery::Nursery;

/// Why there is no inmate.
#[derive(Debug, thiserror::Error)]
pub enum JailError {
    /// This system cannot confine as much as is required.
    #[error("this system lacks {}; nothing is evaluated without it unless `sandbox.layers_missing` lists it", names(.0))]
    Weaker(Vec<LayerName>),
    /// The process did not start, or ended before it was confined.
    #[error("the jail did not start: {0}")]
    NotStarted(String),
}

fn names(layers: &[LayerName]) -> String {
    let names: Vec<String> = layers.iter().map(ToString::to_string).collect();
    names.join(" and ")
}
