//! The engine: messages, turns, commands and deliveries.

pub mod agent;
// Definitions of pipelines, with their checks, and the core of their runs.
pub mod pipeline;
pub mod bot;
pub mod command;
pub mod gateway;
pub mod admin;
