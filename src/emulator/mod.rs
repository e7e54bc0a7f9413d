//! Wire-level emulators of the services Drydock talks to, for the demo and for tests. They check every
//! request they receive and remember what was wrong with it. Loopback only.

pub mod model;
mod server;
mod lasting_fault;
pub mod slack;
pub mod telegram;
