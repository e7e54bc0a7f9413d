//! Wire-level emulators of the external services, for the demo and for tests. They check every request and record its
//! problems. They listen on loopback only.

mod answer;
pub mod discord;
pub mod github;
pub mod model;
mod requested_wait;
mod server;
mod lasting_fault;
pub mod slack;
pub mod telegram;
mod traffic;
mod watched_state;
mod web_socket;

pub use requested_wait::RequestedWait;
pub use traffic::SentRequest;
