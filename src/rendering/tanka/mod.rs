//! Tanka: the environments of a tree, and the Kubernetes objects that each one renders to. The result depends only
//! on the tree and on the value of the Jsonnet program. No cluster is contacted. Jsonnet programs are evaluated in
//! the sandbox, where a chart or a kustomization may need a program that the operator configured.

mod cluster;
mod environment;
mod error;
mod extract;
mod filter;
pub mod importers;
mod label;
mod layout;
mod listing;
mod destination_index;
mod object;
mod lazy_evaluator;
mod order;
mod owner;
mod destination;
mod process;
mod reader;
mod renderer;
mod memory_permit;
mod script;
mod selector;
pub mod settings;
mod spec;
mod table;
mod verify;
mod version;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
pub(crate) mod testing;

pub use destination::{Destination, ExistingEnvironment};
pub use destination_index::{DestinationIndex, ReachedOwners};
pub use environment::{Environment, ExpectedVersions, Metadata, ResourceDefaults, Spec};
pub(crate) use error::not_found_message;
pub use error::{PrimitiveReason, TankaError};
pub use filter::Filter;
pub use layout::Layout;
pub use lazy_evaluator::LazyEvaluator;
pub use listing::{Listing, TreeNames};
pub use memory_permit::MemoryPermit;
pub use object::Object;
pub use owner::{environment_of, required_grants};
pub use process::process;
pub use reader::read;
pub use renderer::{
    EntrypointEnvironment, EnvironmentFailure, EnvironmentList, Evaluate, ListedEnvironment,
    RenderedEntrypoint, RenderedEnvironment, Renderer, Target, ValueHash,
};
pub use selector::Selector;
pub use spec::{ParsedEnvironment, parse};
pub use table::{json, table};
