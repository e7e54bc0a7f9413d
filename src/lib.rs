//! Drydock prepares changes to configuration repositories on request, and never applies them.
//!
//! This list is the map: reading order is dependency order. A module uses only modules above it,
//! and `tests/it/map.rs` checks that. Start with [`gateway`] for the way of one message.

// Only in builds that are broken on purpose.
mod crash_point;
mod planted;
// The operating system: the one place that asks which it is.
pub mod system;
// Nouns: no I/O, no clock, no async.
pub mod model;
mod parallel;
mod spool;
// Around us.
pub mod config;
pub mod redact;
pub mod telemetry;
pub mod health;
// What we own on disk.
pub mod store;
pub mod recording;
pub mod access;
pub mod workspace;
pub mod download;
// What we know.
pub mod sandbox;
pub mod jsonnet;
pub mod bundler;
pub mod tanka;
pub mod helm;
pub mod review;
pub mod compare;
pub mod inspect;
// The seams: each `mod.rs` is a contract.
pub mod provider;
pub mod tool;
pub mod webhook;
pub mod channel;
// The engine.
pub mod prompt;
pub mod agent;
pub mod verify;
pub mod command;
pub mod gateway;
pub mod admin;
// The shell.
pub mod emulator;
pub mod http;
pub mod app;
pub mod demo;
pub mod cli;
