//! Linux.

mod beneath;
mod descriptors;
mod filter;
mod foreign;
mod inmate;
mod layer;
mod process;

pub(crate) use beneath::{PATH_ONLY, on_open_directory, open_beneath};
pub(crate) use foreign::confine_foreign;
pub(crate) use inmate::Entering;
pub use layer::LayerName;
pub(crate) use process::{boot, close_to_others, resident_bytes, this_program, without_large_pages};
