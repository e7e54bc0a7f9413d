//! The engine: messages, turns, commands and deliveries.

pub mod agent;
pub mod bot;
pub mod command;
pub mod gateway;
pub mod admin;
