//! The differences of Linux.

mod beneath;
mod descriptors;
mod filter;
mod external_program;
mod worker;
mod layer;
mod process;
mod service;

pub(crate) use beneath::{PATH_ONLY, on_open_directory, open_beneath};
pub(crate) use external_program::confine_external_program;
pub use layer::LayerName;
pub(crate) use process::{
    boot, close_to_others, may_be_supervisor, resident_bytes, this_program, thread_count, without_large_pages,
};
pub(crate) use service::{abstract_address, account_names, service_manager};
pub(crate) use worker::PendingConfinement;
