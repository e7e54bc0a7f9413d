//! The engine: messages, turns, commands and deliveries.

// Definitions of pipelines, with their checks.
pub mod pipeline;
pub mod agent;
pub mod bot;
pub mod command;
pub mod gateway;
pub mod admin;
