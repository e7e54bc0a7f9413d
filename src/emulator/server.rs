//! The accept loop that every emulator has: connections within a bound, until it is told to stop.
//! Knows nothing of what is served.

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::error::Error;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Connections at once; more wait.
const CONNECTIONS_MAX: usize = 1_024;
/// The longest time a connection may take to send the head of a request.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// The pause of the loop when the system has no descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// The way a connection that we end looks to the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// The written bytes arrive, then the connection ends.
    Ordinary,
    /// The connection ends as rudely as the system can: a reset, where it can.
    Reset,
}

/// Serves until `stop`, or until it is dropped; every connection has ended when it returns. An error
/// of `answer` ends its connection without an answer.
pub(super) async fn serve<A, F, B, E>(
    listener: TcpListener,
    closing: Closing,
    stop: CancellationToken,
    answer: A,
) where
    A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>, Data: Send> + Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    // The set aborts what is left in it when this future is dropped.
    let mut connections = JoinSet::new();
    let accepting = async {
        loop {
            while connections.try_join_next().is_some() {}
            if connections.len() >= CONNECTIONS_MAX {
                connections.join_next().await;
            }
            match listener.accept().await {
                Ok((stream, _)) => {
                    connections.spawn(converse(stream, closing, answer.clone()));
                }
                // Out of descriptors, say: others end and give theirs back.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    };
    let _: Option<()> = stop.run_until_cancelled(accepting).await;
    connections.shutdown().await;
}

async fn converse<A, F, B, E>(stream: TcpStream, closing: Closing, answer: A)
where
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Result<Response<B>, E>>,
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    // Without these the connection works, a little later or a little more politely.
    let _ = stream.set_nodelay(true);
    if closing == Closing::Reset {
        let _ = stream.set_zero_linger();
    }
    // A connection that ends in an error is a client that went away, or a fault that was asked for.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .serve_connection(TokioIo::new(stream), service_fn(answer))
        .await;
}
