//! The accept loop of all emulators: a limited number of connections, until it is stopped. It is independent of the
//! protocol.

use super::answer::Severed;
use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The maximum number of connections; further ones wait.
const CONNECTIONS_MAX: usize = 1_024;
/// The longest time a connection may take to send the head of a request.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// The pause of the loop when the system has no file descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// The way a connection is closed, as seen by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// The written bytes arrive, and then the connection ends.
    Ordinary,
    /// The connection ends with a reset, if the system supports it.
    Reset,
}

/// Serves these routes until `stop`, or until it is dropped; all connections have ended when it returns. A [`Severed`]
/// ends its connection without an answer.
pub(super) async fn serve(listener: TcpListener, closing: Closing, stop: CancellationToken, routes: Router) {
    // When this future is dropped, the set aborts its remaining tasks.
    let mut connections = JoinSet::new();
    let accepting = async {
        loop {
            while connections.try_join_next().is_some() {}
            if connections.len() >= CONNECTIONS_MAX {
                connections.join_next().await;
            }
            match listener.accept().await {
                Ok((stream, _)) => {
                    connections.spawn(converse(stream, closing, routes.clone()));
                }
                // File descriptors may have run out; others are released when their connections end.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    };
    let _: Option<()> = stop.run_until_cancelled(accepting).await;
    connections.shutdown().await;
}

async fn converse(stream: TcpStream, closing: Closing, routes: Router) {
    // The connection also works if this option cannot be set, only slower or with a normal close.
    let _ = stream.set_nodelay(true);
    if closing == Closing::Reset {
        let _ = stream.set_zero_linger();
    }
    let routes = TowerToHyperService::new(routes);
    let answer = service_fn(|request: Request<Incoming>| {
        let routed = routes.call(request);
        async { Severed::or_response(routed.await.unwrap_or_else(|never| match never {})) }
    });
    // An error means that the client disconnected, or that a fault was requested.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .serve_connection(TokioIo::new(stream), answer)
        .with_upgrades()
        .await;
}
