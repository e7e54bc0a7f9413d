//! Drydock prepares changes to configuration repositories on request, and never applies them.
//!
//! The list of modules is in reading order, which is dependency order. A module uses only modules above it, and
//! `tests/it/map.rs` checks that. To follow one message, start with [`gateway`].

// Active only in test builds with deliberate crashes.
mod crash_point;
mod planted;
// The operating system: the only module that depends on which one it is.
pub mod system;
// Data types: no I/O, no clock, no async.
pub mod model;
mod parallel;
mod spool;
// Surroundings: signed events, configuration, logs, outgoing HTTP. The configuration takes the words of the schemes
// from `webhook`.
pub mod redact;
pub mod webhook;
pub mod config;
pub mod telemetry;
pub mod health;
pub mod http_client;
// Data on disk that Drydock owns.
pub mod store;
pub mod recording;
pub mod access;
pub mod workspace;
pub mod download;
// Domain knowledge.
pub mod sandbox;
pub mod jsonnet;
pub mod bundler;
pub mod tanka;
pub mod helm;
// Differences and risks between two sets of rendered objects. No I/O.
pub mod review;
// Renders the affected environments of base and workspace, and has them reviewed.
pub mod compare;
// Checks of the changed files themselves, and the outcome of all checks.
pub mod change_checks;
// Answers to questions about environments, written without a model.
pub mod inspect;
// Interfaces: each `mod.rs` is a contract.
pub mod provider;
pub mod tool;
pub mod channel;
// The engine.
pub mod agent;
pub mod command;
pub mod gateway;
pub mod admin;
// The shell.
pub mod emulator;
pub mod http;
pub mod app;
pub mod demo;
pub mod cli;
