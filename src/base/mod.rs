//! The base: the operating system, data types, redaction, signed events, configuration, logs and the HTTP client.

// The operating system: the only module that depends on which one it is.
pub mod system;
// Data types: no I/O, no clock, no async.
pub mod model;
pub mod recurrence;
pub(crate) mod parallel;
pub(crate) mod spool;
// Surroundings: secrets, signed events, configuration, logs, outgoing HTTP. The configuration takes the words of the
// schemes from `webhook`.
pub mod redact;
pub mod webhook;
pub mod config;
pub mod telemetry;
pub mod health;
pub mod http_client;
