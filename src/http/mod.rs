//! The HTTP listener: bounded connections in, verified events out to an [`Ingress`].
//!
//! It answers 2xx only after the ingress said that the event is durable, and it answers every
//! unauthenticated request with the same bytes. It decides nothing about people and stores nothing.
//! TLS ends in front of it; only HTTP/1 is spoken, so the attacks of HTTP/2 do not exist here.

mod answer;
mod bounds;
mod connection;
mod connection_limits;
mod deadline_stream;
mod routes;
#[cfg(test)]
mod tests;

use crate::config::ServerSettings;
use crate::model::Inbound;
use crate::webhook::Webhook;
use async_trait::async_trait;
use bounds::ListenerBounds;
use jiff::Timestamp;
use std::future::Future;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The name under which [`Ingress::rejected`] hears of a request to a name nobody configured. The
/// requested name itself is the caller's text and is not passed on.
pub const NAME_UNKNOWN: &str = "?";

/// The receiver of verified events, which also answers questions of the routes. One per process.
#[async_trait]
pub trait Ingress: Send + Sync {
    /// Stores a verified event; returns only once it is durable, or refused for good. The future is
    /// dropped when the caller hangs up, so it must be safe to drop at every await.
    async fn accept(&self, inbound: Inbound, at: Timestamp) -> Result<IngressResult, Unavailable>;

    /// Returns the webhook that answers for `POST /in/<name>`.
    fn webhook(&self, name: &str) -> Route;

    /// Notes a refused request. Never blocks. `name` is a configured name or [`NAME_UNKNOWN`].
    fn rejected(&self, name: &str, reason: &'static str, at: Timestamp);

    /// Notes that a request was not signed with the secret of its name. It is rejected as well. Never blocks.
    fn unauthenticated(&self, name: &str, reason: &'static str, at: Timestamp);

    /// Notes that a request was signed with the secret of its name, and in time, whatever it says. Never blocks.
    fn authentic(&self, name: &str);

    /// Notes a request whose signature is right and whose time is not: so many seconds after ours, or before it if
    /// negative. It is rejected as well. Never blocks.
    fn stale(&self, name: &str, seconds: i64);

    /// Notes a verified event that is not for us. Never blocks.
    fn ignored(&self, name: &str, reason: &'static str, at: Timestamp);

    /// Reports whether the whole process can do its work.
    fn ready(&self) -> Readiness;

    /// The shell's clock.
    fn now(&self) -> Timestamp;
}

/// The result of storing a verified event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IngressResult {
    /// Stored now.
    New,
    /// Stored before.
    Duplicate,
    /// Not stored, and a retry would not change that.
    Refused,
}

/// The event could not be stored now, or has no room: 503, the sender tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event could not be stored")]
pub struct Unavailable;

/// The receiver that answers for a name.
#[derive(Clone)]
pub enum Route {
    /// A webhook that is ready.
    Webhook(Arc<dyn Webhook>),
    /// A configured channel that does not know itself yet: what is verified by this is answered 503, and all else as
    /// by a webhook that is ready.
    Connecting(Arc<dyn Webhook>),
    /// No webhook has this name: the answer is the one a wrong signature gets.
    Unknown,
}

/// The readiness of the process to do its work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// The parts that are missing, as short phrases without paths or secrets; ready when empty.
    pub waiting_for: Vec<String>,
    /// The parts that do not work as they should while messages are taken all the same.
    pub degraded: Vec<String>,
}

/// The end of the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeSummary {
    /// Connections that had not finished their request in time and were cut.
    pub connections_cut: usize,
}

/// Serves `listener` until `cancel`; then accepts nothing more, finishes the requests in flight for
/// at most 10 seconds, and returns.
pub fn serve(
    listener: TcpListener,
    settings: &ServerSettings,
    ingress: Arc<dyn Ingress>,
    cancel: CancellationToken,
) -> impl Future<Output = ServeSummary> + Send + use<> {
    connection::accept_until(listener, ListenerBounds::from(settings), ingress, cancel)
}
