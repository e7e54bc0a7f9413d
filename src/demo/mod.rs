//! The demo: the whole story on loopback, with the real gateway and emulators of everything else.

pub mod repository;
pub mod script;
mod shown;
pub mod stage;
pub mod story;
pub mod transcript;
pub mod visitor;
