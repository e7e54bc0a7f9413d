//! The demo: the demo script, run on loopback against the real gateway, with emulators of all other services.

pub mod repository;
pub mod scripted_model;
mod message_text;
pub mod environment;
pub mod demo_script;
pub mod transcript;
pub mod visitor;
