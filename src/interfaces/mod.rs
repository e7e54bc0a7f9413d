//! The extension points to the outside, except for `webhook`, which needs nothing above the base. The `mod.rs` of each is
//! a contract; its adapters are private.

pub mod provider;
pub mod tool;
pub mod channel;
