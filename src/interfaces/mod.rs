//! The extension points. The `mod.rs` of each is a contract; its adapters are private.

pub mod provider;
pub mod tool;
pub mod channel;
