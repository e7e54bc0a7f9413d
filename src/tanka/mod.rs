//! Tanka: which environments a tree has, and which Kubernetes objects each renders to. Everything is
//! decided from the tree and the value Jsonnet gives; no cluster is asked. Programs of Jsonnet are evaluated in the
//! jail, where a chart or a kustomization may need a program that the operator named.

mod cluster;
mod environment;
mod error;
mod extract;
mod filter;
pub mod importers;
mod label;
mod layout;
mod listing;
mod neighbourhood;
mod object;
mod on_demand;
mod order;
mod owner;
mod place;
mod process;
mod reader;
mod renderer;
mod room;
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

pub use environment::{Environment, ExpectedVersions, Metadata, ResourceDefaults, Spec};
pub(crate) use error::not_there;
pub use error::{PrimitiveReason, TankaError};
pub use filter::Filter;
pub use layout::Layout;
pub use listing::{Listing, Names};
pub use neighbourhood::{Neighbourhood, Reached};
pub use object::{Object, ObjectKey};
pub use on_demand::OnDemand;
pub use owner::{environment_of, needs_of};
pub use place::{Place, Resident};
pub use process::process;
pub use reader::read;
pub use renderer::{
    EnvironmentFailure, EnvironmentList, Evaluate, Found, Member, Rendered, Renderer, Target, ValueHash,
    Whole,
};
pub use room::Room;
pub use selector::Selector;
pub use settings::SPEC_FILE;
pub use spec::{Parsed, parse};
pub use table::{json, table};
