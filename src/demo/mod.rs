//! The demo: the whole story on loopback, with the real gateway and emulators of everything else.

pub mod repository;
pub mod scripted_model;
mod message_text;
pub mod environment;
pub mod demo_script;
pub mod transcript;
pub mod visitor;
