//! The server: the listener, and the process that starts and stops all parts.

pub mod http;
pub mod app;
