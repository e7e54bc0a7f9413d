//! The accept loop and the handling of one connection. HTTP frameworks offer neither a deadline for headers nor a
//! limit on connections, so this module implements both.

use super::bounds::{HEADER_BYTES_MAX, HEADERS_MAX, ListenerBounds};
use super::connection_limits::{ConnectionLimits, ConnectionPermit, LimitReached};
use super::deadline_stream::{DeadlineStream, Phase};
use super::routes::HttpRoutes;
use super::{Ingress, ServeSummary, answer};
use http_body_util::Either;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// The pause of the accept loop when the system has no file descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until `cancel`, and then lets the open ones finish within the time limit.
pub(super) async fn accept_until(
    listener: TcpListener,
    bounds: ListenerBounds,
    ingress: Arc<dyn Ingress>,
    cancel: CancellationToken,
) -> ServeSummary {
    let limits = ConnectionLimits::new(bounds.connections_max, bounds.connections_per_ip_max);
    let routes = Arc::new(HttpRoutes::new(bounds, ingress, cancel.clone()));
    // When this future is dropped, the set aborts its remaining tasks, so no connection outlives it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            Some(_ended) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => match limits.acquire(address.ip()) {
                    Ok(place) => {
                        let routes = Arc::clone(&routes);
                        connections.spawn(handle_connection(stream, place, routes, cancel.clone()));
                    }
                    Err(full) => refuse_connection(stream, full),
                },
                Err(err) => {
                    warn!(error = %err, "a connection could not be accepted");
                    pause(&cancel).await;
                }
            },
        }
    }
    drop(listener);
    drain(connections, routes.bounds.drain_time_max).await
}

/// Serves one connection to its end and holds `place` until then.
async fn handle_connection(
    stream: TcpStream,
    place: ConnectionPermit,
    routes: Arc<HttpRoutes>,
    cancel: CancellationToken,
) {
    if let Err(err) = stream.set_nodelay(true) {
        debug!(error = %err, "a connection was closed at once");
        return;
    }
    let phase = Phase::new();
    let io = TokioIo::new(DeadlineStream::new(stream, Arc::clone(&phase), &routes.bounds));
    let service = service_fn(|request| {
        let routes = Arc::clone(&routes);
        let phase = Arc::clone(&phase);
        phase.serving();
        async move {
            let answer = routes.answer(request).await;
            match answer.body() {
                Either::Left(_) => phase.idle(),
                Either::Right(_) => phase.streaming(),
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .max_buf_size(HEADER_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            // `DeadlineStream` has the deadlines: hyper's timer starts with the wait, not with the request.
            .header_read_timeout(None)
            .serve_connection(io, service)
    );
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = cancel.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(err) = ended {
        debug!(error = %err, "a connection ended early");
    }
    drop(place);
}

/// Waits for the open connections, and cuts those that take too long.
async fn drain(mut connections: JoinSet<()>, drain_time_max: Duration) -> ServeSummary {
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(drain_time_max, all_ended).await.is_ok() {
        return ServeSummary { connections_cut: 0 };
    }
    let connections_cut = connections.len();
    connections.shutdown().await;
    warn!(connections_cut, "requests in flight were aborted at shutdown");
    ServeSummary { connections_cut }
}

/// Refuses a connection with a reason, in one non-blocking write, and closes it. If the write fails, the client sees
/// only a closed socket.
fn refuse_connection(stream: TcpStream, full: LimitReached) {
    let said = stream
        .into_std()
        .and_then(|mut stream| stream.write(answer::connection_refused(full)));
    debug!(reported = said.is_ok(), "a connection was refused: {full:?}");
}

async fn pause(cancel: &CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => {}
        () = tokio::time::sleep(ACCEPT_PAUSE) => {}
    }
}
