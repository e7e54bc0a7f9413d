//! What the tests share.

pub(crate) mod require;
pub(crate) mod source;
pub(crate) mod shell;
