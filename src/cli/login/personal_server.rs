//! The requests of this machine to a server.

use super::MachineLogin;
use crate::base::model::{ChangeNumber, PULLED_BYTES_MAX, PulledChange, Secret, short_line};
use crate::cli::CliError;
use crate::cli::server_request::{
    self, DrydockServer, REASON_CHARS_MAX, REQUEST_TIME_MAX, ServerAnswer, ServerRequestFailure, TOO_LONG,
    strange_answer,
};
use reqwest::{RequestBuilder, StatusCode};

/// A server with the requests that a person's machine can make.
pub(in crate::cli) struct PersonalServer<'a> {
    server: DrydockServer<'a>,
}

impl<'a> PersonalServer<'a> {
    /// Returns the server at a checked address.
    pub(in crate::cli) fn new(url: &'a str) -> Result<Self, CliError> {
        let server = DrydockServer::new(url)?;
        Ok(Self { server })
    }

    /// Exchanges a code for a login.
    pub(super) async fn log_in(&self, code: &Secret) -> Result<MachineLogin, CliError> {
        let body = serde_json::json!({ "code": code.expose().trim() });
        let request = self.server.post("/api/login").json(&body);
        let answer = self.send(request, None).await?;
        match answer.status {
            StatusCode::OK => serde_json::from_slice(&answer.body).map_err(|_| self.strange("its login")),
            StatusCode::UNAUTHORIZED => Err(CliError::failed(
                "the code is not valid: it works once, within 10 minutes, until a newer one replaces it; say `login` to \
                 Drydock in a chat for a new one",
            )),
            _ => Err(self.unexpected(&answer)),
        }
    }

    /// Ends a login. Returns false if it had ended before.
    pub(super) async fn log_out(&self, login: &MachineLogin) -> Result<bool, CliError> {
        let request = self.server.post("/api/logout");
        let answer = self.send(request, Some(&login.token)).await?;
        match answer.status {
            StatusCode::OK => Ok(true),
            StatusCode::UNAUTHORIZED => Ok(false),
            _ => Err(self.unexpected(&answer)),
        }
    }

    /// Returns a change.
    pub(in crate::cli) async fn change(
        &self,
        login: &MachineLogin,
        number: ChangeNumber,
    ) -> Result<PulledChange, CliError> {
        let request = self.server.get(&format!("/api/changes/{number}"));
        let answer = self.send(request, Some(&login.token)).await?;
        match answer.status {
            StatusCode::OK => {
                let change: PulledChange = serde_json::from_slice(&answer.body).map_err(|error| {
                    let why = short_line(&error.to_string(), REASON_CHARS_MAX);
                    CliError::failed(format!(
                        "nothing was written: the answer of {} is refused: {why}",
                        self.server.url
                    ))
                })?;
                match change.change == number {
                    true => Ok(change),
                    false => Err(self.strange("another change")),
                }
            }
            StatusCode::UNAUTHORIZED => Err(CliError::failed(format!(
                "the login at {} is not valid any more; say `login` to Drydock in a chat, and run the command in its answer",
                self.server.url
            ))),
            StatusCode::NOT_FOUND => Err(CliError::failed(format!(
                "there is no CHG-{number} for you: it may be discarded, or somebody else's, or never have existed"
            ))),
            StatusCode::CONFLICT => Err(CliError::failed(match detail(&answer.body) {
                Some(why) => format!("CHG-{number} cannot be pulled: {why}"),
                None => format!("CHG-{number} cannot be pulled as it is now"),
            })),
            _ => Err(self.unexpected(&answer)),
        }
    }

    async fn send(&self, request: RequestBuilder, token: Option<&Secret>) -> Result<ServerAnswer, CliError> {
        let sent = server_request::send(request.timeout(REQUEST_TIME_MAX), token).await;
        let response = sent.map_err(|failure| self.unanswered(failure))?;
        let answer = ServerAnswer::read(response, PULLED_BYTES_MAX).await;
        answer.map_err(|failure| self.unanswered(failure))
    }

    fn unanswered(&self, failure: ServerRequestFailure) -> CliError {
        match failure {
            ServerRequestFailure::Unreached(why) | ServerRequestFailure::Broken(why) => {
                CliError::failed(format!("{} does not answer: {why}", self.server.url))
            }
            ServerRequestFailure::TooLong => self.strange(TOO_LONG),
        }
    }

    fn strange(&self, what: &str) -> CliError {
        strange_answer(self.server.url, what, "")
    }

    fn unexpected(&self, answer: &ServerAnswer) -> CliError {
        match (answer.status, answer.seconds) {
            (StatusCode::TOO_MANY_REQUESTS, Some(seconds)) => CliError::failed(format!(
                "{} got too many wrong codes, or requests; try again in {seconds} s",
                self.server.url
            )),
            (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, _) => {
                CliError::failed(format!("{} is not available now; try again", self.server.url))
            }
            (status, _) => self.strange(&format!("the answer {}", status.as_u16())),
        }
    }
}

/// Returns the reason of a refusal, as one line.
fn detail(body: &[u8]) -> Option<String> {
    let answer: serde_json::Value = serde_json::from_slice(body).ok()?;
    let detail = answer["detail"].as_str()?;
    Some(short_line(detail, REASON_CHARS_MAX))
}
