//! Who may do what. Only this module can make an [`Identity`], and no model request exists without
//! one.

mod identity;
#[cfg(test)]
pub(crate) mod testing;

pub use identity::{Grant, Identity, Role};
