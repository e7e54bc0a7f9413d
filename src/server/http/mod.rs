//! The HTTP listener. It accepts a limited number of connections, verifies requests, and passes the events to an
//! [`Ingress`].
//!
//! It answers 2xx only after the event is durable, and it answers every unauthenticated request with the same bytes.
//! It makes no decisions about users and stores nothing. TLS ends in a proxy in front of it. Only HTTP/1 is
//! supported, so the attacks on HTTP/2 do not apply.

mod answer;
mod bounds;
mod connection;
mod connection_limits;
mod deadline_stream;
mod event;
mod openapi;
mod personal;
mod routes;
mod runs;
#[cfg(test)]
mod tests;

pub use personal::PersonalApi;
pub use runs::RunRequests;

use crate::base::config::ServerSettings;
use crate::base::model::Inbound;
use crate::base::webhook::Webhook;
use async_trait::async_trait;
use bounds::ListenerBounds;
use jiff::Timestamp;
use std::future::Future;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The name that [`Ingress::rejected`] gets for a request to a name that is not configured. The requested name itself
/// comes from the caller and is not passed on.
pub const NAME_UNKNOWN: &str = "?";

/// The receiver of verified events, which also provides the routes' data. One per process.
#[async_trait]
pub trait Ingress: PersonalApi + RunRequests {
    /// Stores a verified event. Returns only once the event is durable, or refused for good. The future is dropped
    /// when the client disconnects, so it must be cancel-safe.
    async fn accept(&self, inbound: Inbound, at: Timestamp) -> Result<IngressResult, Unavailable>;

    /// Returns the webhook for `POST /in/<name>`.
    fn webhook(&self, name: &str) -> Route;

    /// Records a refused request. Never blocks. `name` is a configured name or [`NAME_UNKNOWN`].
    fn rejected(&self, name: &str, reason: &'static str, at: Timestamp);

    /// Records a request that was not signed with the secret of its name. [`Ingress::rejected`] is called as well.
    /// Never blocks.
    fn unauthenticated(&self, name: &str, reason: &'static str, at: Timestamp);

    /// Records a request that was signed with the secret of its name, and in time, whatever its content. Never
    /// blocks.
    fn authentic(&self, name: &str);

    /// Records a request with a valid signature and a wrong time: `seconds` after our time, or before it if negative.
    /// [`Ingress::rejected`] is called as well. Never blocks.
    fn stale(&self, name: &str, seconds: i64);

    /// Records a verified event that is not for Drydock. Never blocks.
    fn ignored(&self, name: &str, reason: &'static str, at: Timestamp);

    /// Returns the readiness of the whole process.
    fn ready(&self) -> Readiness;

    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// The result of storing a verified event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IngressResult {
    /// The event was stored.
    New,
    /// The event had been stored before.
    Duplicate,
    /// The event was refused; a retry would not change that.
    Refused,
}

/// The event could not be stored now, or there is no room for it. The answer is 503, and the sender retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event could not be stored")]
pub struct Unavailable;

/// The webhook for a name.
#[derive(Clone)]
pub enum Route {
    /// A webhook that is ready.
    Webhook(Arc<dyn Webhook>),
    /// A configured channel that is not connected yet. Requests that this webhook verifies are answered with 503, all
    /// others as by a webhook that is ready.
    Connecting(Arc<dyn Webhook>),
    /// No webhook has this name. The answer is the same as for a wrong signature.
    Unknown,
}

/// The readiness of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// The missing parts, as short phrases without paths or secrets; the process is ready when this is empty.
    pub waiting_for: Vec<String>,
    /// The parts that do not work properly while messages are still accepted.
    pub degraded: Vec<String>,
}

/// The summary of a listener that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeSummary {
    /// The number of connections that were cut because they did not finish their request in time.
    pub connections_cut: usize,
}

/// Serves `listener` until `cancel`. Then it accepts no more requests, finishes those in flight for at most 10
/// seconds, and returns.
pub fn serve(
    listener: TcpListener,
    settings: &ServerSettings,
    ingress: Arc<dyn Ingress>,
    cancel: CancellationToken,
) -> impl Future<Output = ServeSummary> + Send + use<> {
    connection::accept_until(listener, ListenerBounds::from(settings), ingress, cancel)
}
