//! The requests of this program to a Drydock server, each sent once, and the reasons why one has no answer.

use super::CliError;
use crate::base::http_client::{AnswerReadError, api_client, causes_without_url, read_answer};
use crate::base::model::Secret;
use reqwest::header::RETRY_AFTER;
use reqwest::{RequestBuilder, Response, StatusCode};
use std::time::Duration;

/// The longest time of a request; of an answer that comes in parts, up to its beginning.
pub(super) const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
/// The most characters of a reason from the server.
pub(super) const REASON_CHARS_MAX: usize = 2_000;
/// The words for an answer that is longer than its bound.
pub(super) const TOO_LONG: &str = "an answer that is too long";

/// A server of this program at a checked address.
pub(super) struct DrydockServer<'a> {
    pub(super) url: &'a str,
    client: reqwest::Client,
}

impl<'a> DrydockServer<'a> {
    /// Returns the server at an address.
    pub(super) fn new(url: &'a str) -> Result<Self, CliError> {
        let client = api_client().map_err(CliError::failed)?;
        Ok(Self { url, client })
    }

    /// Begins a request that reads.
    pub(super) fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(self.address(path))
    }

    /// Begins a request that changes something.
    pub(super) fn post(&self, path: &str) -> RequestBuilder {
        self.client.post(self.address(path))
    }

    fn address(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }
}

/// The reason why a request has no answer.
pub(super) enum ServerRequestFailure {
    /// There is no connection, so the server has not got the request.
    Unreached(String),
    /// The server may have got the request, or may have it later.
    Broken(String),
    /// The answer is longer than its bound.
    TooLong,
}

impl From<reqwest::Error> for ServerRequestFailure {
    fn from(error: reqwest::Error) -> Self {
        let is_unreached = error.is_connect() || error.is_builder();
        let why = causes_without_url(error);
        match is_unreached {
            true => Self::Unreached(why),
            false => Self::Broken(why),
        }
    }
}

/// Sends a request, with a token if it needs one, and returns the beginning of the answer.
pub(super) async fn send(
    request: RequestBuilder,
    token: Option<&Secret>,
) -> Result<Response, ServerRequestFailure> {
    let request = match token {
        Some(token) => request.bearer_auth(token.expose()),
        None => request,
    };
    Ok(request.send().await?)
}

/// A whole answer.
pub(super) struct ServerAnswer {
    pub(super) status: StatusCode,
    /// The value of `retry-after`.
    pub(super) seconds: Option<u64>,
    pub(super) body: Vec<u8>,
}

impl ServerAnswer {
    /// Reads an answer to its end.
    pub(super) async fn read(mut response: Response, bytes_max: usize) -> Result<Self, ServerRequestFailure> {
        let mut body = Vec::new();
        match read_answer(&mut response, bytes_max, &mut body).await {
            Ok(()) => Ok(Self {
                status: response.status(),
                seconds: seconds_to_wait(&response),
                body,
            }),
            Err(AnswerReadError::Broken(error)) => Err(error.into()),
            Err(AnswerReadError::TooLong) => Err(ServerRequestFailure::TooLong),
        }
    }
}

/// Returns the seconds after which the server wants the next try.
pub(super) fn seconds_to_wait(response: &Response) -> Option<u64> {
    let seconds = response.headers().get(RETRY_AFTER)?;
    seconds.to_str().ok()?.parse().ok()
}

/// Returns the error of an answer that this program does not understand, with what is known about its effect.
pub(super) fn strange_answer(url: &str, what: &str, known: &str) -> CliError {
    CliError::failed(format!(
        "{url} sent {what}, which this program does not understand{known}; is it the address of a Drydock server of this \
         version?"
    ))
}
