//! The requests about runs that this program makes, each once. The caller decides which failure is followed by another try.

use super::document::RemoteRun;
use super::events::EVENT_BYTES_MAX;
use super::token::RequestToken;
use crate::base::model::RunId;
use crate::cli::CliError;
use crate::cli::server_request::{
    self, DrydockServer, REQUEST_TIME_MAX, ServerAnswer, ServerRequestFailure, TOO_LONG, seconds_to_wait,
};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;

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
    Refused(ServerAnswer),
    /// The answer is none of a server of this program.
    Strange(String),
}

impl From<ServerRequestFailure> for RunRequestFailure {
    fn from(failure: ServerRequestFailure) -> Self {
        match failure {
            ServerRequestFailure::Unreached(why) => Self::Unreached(why),
            ServerRequestFailure::Broken(why) => unknown(why, None),
            ServerRequestFailure::TooLong => Self::Strange(TOO_LONG.to_owned()),
        }
    }
}

/// A server, with the token for it.
pub(super) struct RunServer<'a> {
    pub(super) url: &'a str,
    pub(super) token: &'a RequestToken,
    server: DrydockServer<'a>,
}

impl<'a> RunServer<'a> {
    /// Returns the server at a checked address.
    pub(super) fn new(url: &'a str, token: &'a RequestToken) -> Result<Self, CliError> {
        let server = DrydockServer::new(url)?;
        Ok(Self { url, token, server })
    }

    /// Starts a run, or returns the one that an earlier request with the same key has started.
    pub(super) async fn start(&self, order: &RunOrderToServer<'_>) -> Result<StartedRun, RunRequestFailure> {
        let request = self
            .server
            .post("/api/runs")
            .header("idempotency-key", &order.key)
            .json(&order.body());
        let answer = self.answer(request).await?;
        Ok(StartedRun {
            run: read_run(&answer.body)?,
            is_new: answer.status == StatusCode::CREATED,
        })
    }

    /// Returns a run as it is now.
    pub(super) async fn show(&self, id: RunId) -> Result<RemoteRun, RunRequestFailure> {
        let request = self.server.get(&format!("/api/runs/{id}"));
        let answer = self.answer(request).await?;
        read_run(&answer.body)
    }

    /// Begins to watch a run. The body of the answer has its events.
    pub(super) async fn watch(&self, id: RunId) -> Result<Response, RunRequestFailure> {
        let request = self.server.get(&format!("/api/runs/{id}/events"));
        match tokio::time::timeout(REQUEST_TIME_MAX, self.send(request)).await {
            Ok(response) => response,
            Err(_) => Err(unknown("it does not answer in time".to_owned(), None)),
        }
    }

    /// Sends a request, and reads the whole answer.
    async fn answer(&self, request: RequestBuilder) -> Result<ServerAnswer, RunRequestFailure> {
        let response = self.send(request.timeout(REQUEST_TIME_MAX)).await?;
        Ok(ServerAnswer::read(response, EVENT_BYTES_MAX).await?)
    }

    /// Sends a request. An answer that says no is a failure.
    async fn send(&self, request: RequestBuilder) -> Result<Response, RunRequestFailure> {
        let response = server_request::send(request, Some(&self.token.secret)).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT {
            let seconds = seconds_to_wait(&response);
            return Err(unknown(format!("its answer is {}", status.as_u16()), seconds));
        }
        let answer = ServerAnswer::read(response, EVENT_BYTES_MAX).await?;
        Err(RunRequestFailure::Refused(answer))
    }
}

fn read_run(body: &[u8]) -> Result<RemoteRun, RunRequestFailure> {
    RemoteRun::read(body).ok_or_else(|| RunRequestFailure::Strange("an answer without a run".to_owned()))
}

fn unknown(why: String, seconds: Option<u64>) -> RunRequestFailure {
    RunRequestFailure::Unknown { why, seconds }
}
