//! The requests about runs that this program makes, each once. The caller decides which failure is followed by another try.

use super::document::RemoteRun;
use super::events::EVENT_BYTES_MAX;
use super::token::RequestToken;
use crate::base::http_client::{AnswerReadError, api_client, causes_without_url, read_answer};
use crate::base::model::RunId;
use crate::cli::CliError;
use reqwest::header::RETRY_AFTER;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest time of a request; of events, up to their beginning.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);

/// A request to start a run.
pub(super) struct RunOrderToServer<'a> {
    pub(super) pipeline: &'a str,
    pub(super) repository: Option<&'a str>,
    pub(super) params: &'a [(String, String)],
    /// The name under which the same request may come again.
    pub(super) key: String,
}

impl RunOrderToServer<'_> {
    /// Returns the advice to repeat the request.
    pub(super) fn repetition(&self) -> String {
        format!(
            "the same command with --key {} shows the run, and starts nothing twice",
            self.key
        )
    }

    fn body(&self) -> Value {
        let params: BTreeMap<&str, &str> = self
            .params
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let mut body = json!({ "pipeline": self.pipeline, "params": params });
        if let Some(repository) = self.repository {
            body["repository"] = repository.into();
        }
        body
    }
}

/// A run that was started.
pub(super) struct StartedRun {
    pub(super) run: RemoteRun,
    /// True if this request has started it, and false if an earlier one with the same key has.
    is_new: bool,
}

impl StartedRun {
    /// Returns the line about it.
    pub(super) fn line(&self) -> String {
        let facts = &self.run.facts;
        let end = match self.is_new {
            true => "",
            false => " before, with the same key",
        };
        format!(
            "Run {} of {} on {} was started{end}.",
            facts.id, facts.pipeline, facts.repository
        )
    }
}

/// An answer that says no.
pub(super) struct NegativeAnswer {
    pub(super) status: StatusCode,
    /// The value of `retry-after`.
    pub(super) seconds: Option<u64>,
    pub(super) body: Vec<u8>,
}

/// The reason why a request has no result.
pub(super) enum RunRequestFailure {
    /// There is no connection, so the server has not got the request.
    Unreached(String),
    /// The server may have got the request, or may have it later.
    Unknown {
        why: String,
        /// The seconds after which a repeat may succeed.
        seconds: Option<u64>,
    },
    /// The server said no.
    Refused(NegativeAnswer),
    /// The answer is none of a server of this program.
    Strange(String),
}

/// A server, with the token for it.
pub(super) struct RunServer<'a> {
    pub(super) url: &'a str,
    pub(super) token: &'a RequestToken,
    client: reqwest::Client,
}

impl<'a> RunServer<'a> {
    /// Returns the server at a checked address.
    pub(super) fn new(url: &'a str, token: &'a RequestToken) -> Result<Self, CliError> {
        let client = api_client().map_err(CliError::failed)?;
        Ok(Self { url, token, client })
    }

    /// Starts a run, or returns the one that an earlier request with the same key has started.
    pub(super) async fn start(&self, order: &RunOrderToServer<'_>) -> Result<StartedRun, RunRequestFailure> {
        let request = self
            .client
            .post(self.address(""))
            .header("idempotency-key", &order.key)
            .json(&order.body())
            .timeout(REQUEST_TIME_MAX);
        let (status, body) = self.answer(request).await?;
        Ok(StartedRun {
            run: read_run(&body)?,
            is_new: status == StatusCode::CREATED,
        })
    }

    /// Returns a run as it is now.
    pub(super) async fn show(&self, id: RunId) -> Result<RemoteRun, RunRequestFailure> {
        let address = self.address(&format!("/{id}"));
        let request = self.client.get(address).timeout(REQUEST_TIME_MAX);
        let (_, body) = self.answer(request).await?;
        read_run(&body)
    }

    /// Begins to watch a run. The body of the answer has its events.
    pub(super) async fn watch(&self, id: RunId) -> Result<Response, RunRequestFailure> {
        let request = self.client.get(self.address(&format!("/{id}/events")));
        match tokio::time::timeout(REQUEST_TIME_MAX, self.send(request)).await {
            Ok(response) => response,
            Err(_) => Err(unknown("it does not answer in time".to_owned(), None)),
        }
    }

    fn address(&self, path: &str) -> String {
        format!("{}/api/runs{path}", self.url)
    }

    /// Sends a request, and reads the whole answer.
    async fn answer(&self, request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), RunRequestFailure> {
        let mut response = self.send(request).await?;
        let body = read_body(&mut response).await?;
        Ok((response.status(), body))
    }

    /// Sends a request. An answer that says no is a failure.
    async fn send(&self, request: RequestBuilder) -> Result<Response, RunRequestFailure> {
        let sent = request.bearer_auth(self.token.secret.expose()).send().await;
        let mut response = sent.map_err(failure)?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let seconds = response.headers().get(RETRY_AFTER);
        let seconds = seconds.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT {
            return Err(unknown(format!("its answer is {}", status.as_u16()), seconds));
        }
        Err(RunRequestFailure::Refused(NegativeAnswer {
            status,
            seconds,
            body: read_body(&mut response).await?,
        }))
    }
}

async fn read_body(response: &mut Response) -> Result<Vec<u8>, RunRequestFailure> {
    let mut body = Vec::new();
    match read_answer(response, EVENT_BYTES_MAX, &mut body).await {
        Ok(()) => Ok(body),
        Err(AnswerReadError::Broken(error)) => Err(failure(error)),
        Err(AnswerReadError::TooLong) => Err(RunRequestFailure::Strange(
            "an answer that is too long".to_owned(),
        )),
    }
}

fn read_run(body: &[u8]) -> Result<RemoteRun, RunRequestFailure> {
    RemoteRun::read(body).ok_or_else(|| RunRequestFailure::Strange("an answer without a run".to_owned()))
}

fn failure(error: reqwest::Error) -> RunRequestFailure {
    let is_unreached = error.is_connect() || error.is_builder();
    let why = causes_without_url(error);
    match is_unreached {
        true => RunRequestFailure::Unreached(why),
        false => unknown(why, None),
    }
}

fn unknown(why: String, seconds: Option<u64>) -> RunRequestFailure {
    RunRequestFailure::Unknown { why, seconds }
}
