//! Drydock prepares changes to configuration repositories on request, and never applies them.
//!
//! Each folder is a layer. The layers, and the modules of each, are listed in reading order, which is dependency order: a
//! module uses only modules above it, and `tests/it/map.rs` checks that. To follow one message, start with
//! [`engine::gateway`].

// Active only in test builds with deliberate crashes.
mod crash_point;
mod planted;

pub mod base;
pub mod state;
pub mod rendering;
pub mod interfaces;
pub mod engine;
pub mod server;
pub mod simulation;
pub mod cli;
