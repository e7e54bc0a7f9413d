//! The HTTP clients of all outgoing calls, bounded reading of answers, and descriptions of errors without addresses.

use jiff::Timestamp;
use std::error::Error;
use std::sync::Once;
use std::time::Duration;

/// Time limit for name resolution, connection and TLS handshake.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// The maximum number of causes in the description of an error.
const CAUSES_MAX: usize = 8;

/// An error that prevents the creation of an HTTP client.
#[derive(Debug, thiserror::Error)]
#[error("no HTTP client can be built: {0}")]
pub struct HttpClientError(String);

/// Builds the client for calls to APIs: no proxy from the environment, no redirects, TLS by ring. On a machine without
/// certificate authorities it still supports plain HTTP, such as for a local model; https requests then fail.
pub fn api_client() -> Result<reqwest::Client, HttpClientError> {
    built(|builder| builder)
}

/// Builds a client for files, which must stay as they are sent: some servers declare a compressed archive as a
/// compressed page.
pub fn download_client() -> Result<reqwest::Client, HttpClientError> {
    built(reqwest::ClientBuilder::no_gzip)
}

/// Builds a client for WebSockets, which need HTTP/1.1.
pub fn socket_client() -> Result<reqwest::Client, HttpClientError> {
    built(reqwest::ClientBuilder::http1_only)
}

fn built(
    with: fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
) -> Result<reqwest::Client, HttpClientError> {
    static TLS: Once = Once::new();
    // If the process already has a default provider, that one is kept.
    TLS.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    let client = || {
        with(reqwest::Client::builder())
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(30))
            .connect_timeout(CONNECT_TIME_MAX)
            .pool_idle_timeout(Duration::from_secs(90))
            .pool_max_idle_per_host(64)
            .http2_keep_alive_interval(Duration::from_secs(30))
            .http2_keep_alive_timeout(Duration::from_secs(10))
            .user_agent(concat!("drydock/", env!("CARGO_PKG_VERSION")))
    };
    client()
        .build()
        .or_else(|_| client().tls_certs_only([]).build())
        .map_err(|error| HttpClientError(causes_without_url(error)))
}

/// The reason why an answer could not be read to its end.
#[derive(Debug)]
pub(crate) enum AnswerReadError {
    /// The connection broke. The error contains the address.
    Broken(reqwest::Error),
    /// The answer exceeds its limit.
    TooLong,
}

/// Appends the body of an answer to `body`, up to `bytes_max` bytes. After an error, `body` holds what arrived before
/// it.
pub(crate) async fn read_answer(
    response: &mut reqwest::Response,
    bytes_max: usize,
    body: &mut Vec<u8>,
) -> Result<(), AnswerReadError> {
    while let Some(chunk) = response.chunk().await.map_err(AnswerReadError::Broken)? {
        if body.len() + chunk.len() > bytes_max {
            return Err(AnswerReadError::TooLong);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(())
}

/// Returns the time of a server in its answer, if it sent one.
pub(crate) fn server_date(headers: &reqwest::header::HeaderMap) -> Option<Timestamp> {
    let date = headers.get(reqwest::header::DATE)?.to_str().ok()?;
    let parsed = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date);
    parsed.ok()
}

/// Describes an error with its causes and without its address, which may contain a secret.
pub(crate) fn causes_without_url(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    for _ in 0..CAUSES_MAX {
        let Some(error) = cause else { break };
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::{AnswerReadError, api_client, causes_without_url, download_client, read_answer};

    #[test]
    fn the_client_is_built_as_often_as_it_is_asked_for() {
        assert!(api_client().is_ok() && api_client().is_ok());
        assert!(download_client().is_ok());
    }

    #[tokio::test]
    async fn answer_is_read_up_to_its_limit() {
        for (bytes_max, is_read) in [(5, true), (4, false)] {
            let mut response = reqwest::Response::from(http::Response::new("hello"));
            let mut body = Vec::new();
            let read = read_answer(&mut response, bytes_max, &mut body).await;
            assert_eq!(read.is_ok(), is_read);
            assert_eq!(matches!(read, Err(AnswerReadError::TooLong)), !is_read);
            assert_eq!(body == b"hello", is_read);
        }
    }

    #[tokio::test]
    async fn error_is_described_without_its_address() {
        let client = api_client().expect("a client");
        // Nothing listens on port 1.
        let error = client.get("http://127.0.0.1:1/bot-token").send().await;
        let described = causes_without_url(error.expect_err("no server"));
        assert!(!described.contains("bot-token"), "{described}");
        assert!(described.contains(": "), "the causes are named: {described}");
    }
}
