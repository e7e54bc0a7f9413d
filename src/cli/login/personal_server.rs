//! The requests of this machine to a server.

use super::MachineLogin;
use crate::base::http_client::{AnswerReadError, api_client, causes_without_url, read_answer};
use crate::base::model::{ChangeNumber, PULLED_BYTES_MAX, PulledChange, Secret, short_line};
use crate::cli::CliError;
use reqwest::header::RETRY_AFTER;
use reqwest::{RequestBuilder, StatusCode};
use std::time::Duration;

/// The longest time of a request.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
/// The maximum number of characters of a reason from the server.
const REASON_CHARS_MAX: usize = 2_000;

/// A server with the requests that a person's machine can make.
pub(in crate::cli) struct PersonalServer<'a> {
    url: &'a str,
    client: reqwest::Client,
}

/// An answer that is no document.
struct PersonalAnswer {
    status: StatusCode,
    /// The value of `retry-after`.
    seconds: Option<u64>,
    body: Vec<u8>,
}

impl<'a> PersonalServer<'a> {
    /// Returns the server at a checked address.
    pub(in crate::cli) fn new(url: &'a str) -> Result<Self, CliError> {
        let client = api_client().map_err(CliError::failed)?;
        Ok(Self { url, client })
    }

    /// Exchanges a code for a login.
    pub(super) async fn log_in(&self, code: &Secret) -> Result<MachineLogin, CliError> {
        let body = serde_json::json!({ "code": code.expose().trim() });
        let answer = self.send(self.client.post(self.address("/api/login")).json(&body));
        let answer = answer.await?;
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
        let request = self.client.post(self.address("/api/logout"));
        let answer = self.send(request.bearer_auth(login.token.expose())).await?;
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
        let request = self
            .client
            .get(self.address(&format!("/api/changes/{number}")))
            .bearer_auth(login.token.expose());
        let answer = self.send(request).await?;
        match answer.status {
            StatusCode::OK => {
                let change: PulledChange = serde_json::from_slice(&answer.body).map_err(|error| {
                    let why = short_line(&error.to_string(), REASON_CHARS_MAX);
                    CliError::failed(format!(
                        "nothing was written: the answer of {} is refused: {why}",
                        self.url
                    ))
                })?;
                match change.change == number {
                    true => Ok(change),
                    false => Err(self.strange("another change")),
                }
            }
            StatusCode::UNAUTHORIZED => Err(CliError::failed(format!(
                "the login at {} is not valid any more; say `login` to Drydock in a chat, and run the command in its answer",
                self.url
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

    fn address(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    async fn send(&self, request: RequestBuilder) -> Result<PersonalAnswer, CliError> {
        let unreachable = |error| {
            let why = causes_without_url(error);
            CliError::failed(format!("{} does not answer: {why}", self.url))
        };
        let mut response = request
            .timeout(REQUEST_TIME_MAX)
            .send()
            .await
            .map_err(unreachable)?;
        let seconds = response.headers().get(RETRY_AFTER);
        let seconds = seconds.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        let mut body = Vec::new();
        match read_answer(&mut response, PULLED_BYTES_MAX, &mut body).await {
            Ok(()) => {}
            Err(AnswerReadError::Broken(error)) => return Err(unreachable(error)),
            Err(AnswerReadError::TooLong) => return Err(self.strange("an answer that is too long")),
        }
        Ok(PersonalAnswer {
            status: response.status(),
            seconds,
            body,
        })
    }

    fn strange(&self, what: &str) -> CliError {
        CliError::failed(format!(
            "{} sent {what}, which this program does not understand; is it the address of a Drydock server of this \
             version?",
            self.url
        ))
    }

    fn unexpected(&self, answer: &PersonalAnswer) -> CliError {
        match (answer.status, answer.seconds) {
            (StatusCode::TOO_MANY_REQUESTS, Some(seconds)) => CliError::failed(format!(
                "{} got too many wrong codes, or requests; try again in {seconds} s",
                self.url
            )),
            (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, _) => {
                CliError::failed(format!("{} is not available now; try again", self.url))
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
