//! A client for Slack's Web API. It makes one call, respects the limits, and classifies each failure for retries. No
//! error contains an address, a token or a message.

use crate::base::http_client::{AnswerReadError, read_answer};
use crate::base::model::{ResponseUrl, Secret};
use crate::interfaces::channel::SendError;
use bytes::Bytes;
use reqwest::header::{self, HeaderMap};
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde_json::{Value, json};
use std::time::Duration;

/// Time limit of one request, from connecting to the last byte.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// The maximum number of bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The longest wait that is accepted from Slack.
const RETRY_AFTER_SECONDS_MAX: u64 = 3_600;
/// The host that accepts answers to commands. See <https://docs.slack.dev/interactivity/implementing-slash-commands>.
const RESPONSE_HOST: &str = "hooks.slack.com";
/// The header that lists the token's scopes, comma-separated. Slack sends it in every answer, but compatible servers
/// may not.
const SCOPES: &str = "x-oauth-scopes";
/// The maximum number of characters of an error code that are kept.
const CODE_CHARS_MAX: usize = 64;

/// The errors with which Slack rejects a token, for any call.
const TOKEN_REFUSALS: [&str; 5] = [
    "invalid_auth",
    "not_authed",
    "token_revoked",
    "token_expired",
    "account_inactive",
];

/// The temporary errors of Slack: the call failed, but may succeed later.
const PASSING_REFUSALS: [&str; 4] = [
    "service_unavailable",
    "request_timeout",
    "org_login_required",
    "team_added_to_org",
];

/// The effect of making a call twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RepeatEffect {
    /// The effect is the same as that of one call.
    Repeatable,
    /// The effect shows twice.
    Once,
}

/// A client for one bot token.
pub(super) struct SlackClient {
    http: reqwest::Client,
    base_url: String,
    token: Secret,
}

impl SlackClient {
    pub(super) fn new(http: reqwest::Client, base_url: &str, token: Secret) -> Self {
        Self {
            http,
            base_url: base_url.trim_end_matches('/').to_owned(),
            token,
        }
    }

    /// Calls a method with a JSON body and returns the answer of a successful call.
    pub(super) async fn call(
        &self,
        method: &str,
        body: &Value,
        effect: RepeatEffect,
    ) -> Result<Value, SendError> {
        self.send(self.request(method).json(body), effect).await
    }

    /// Calls a method that accepts only forms and has no visible effect by itself.
    pub(super) async fn call_form(&self, method: &str, fields: &[(&str, &str)]) -> Result<Value, SendError> {
        let form = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .finish();
        let request = self
            .request(method)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form);
        self.send(request, RepeatEffect::Repeatable).await
    }

    /// Uploads a file's bytes to the address that Slack provided. The file is visible only after the upload is
    /// completed.
    pub(super) async fn put_file(&self, address: &str, content: Bytes) -> Result<(), SendError> {
        if !self.is_slack(address) {
            return Err(SendError::Refused(
                "the upload address does not belong to slack".to_owned(),
            ));
        }
        let response = self
            .http
            .post(address)
            .timeout(REQUEST_TIME_MAX)
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .body(content)
            .send()
            .await
            .map_err(|error| other_host_error(transport_error(&error, RepeatEffect::Repeatable)))?;
        check_status(&response, RepeatEffect::Repeatable).map_err(other_host_error)
    }

    /// Answers a command at its response URL, without the token. A duplicate answer does no harm.
    pub(super) async fn respond(&self, url: &ResponseUrl, body: &Value) -> Result<(), SendError> {
        if !self.takes_responses(url.expose()) {
            return Err(SendError::Refused(
                "the address for the answer does not belong to slack".to_owned(),
            ));
        }
        let request = self.http.post(url.expose()).timeout(REQUEST_TIME_MAX).json(body);
        let response = request.send().await;
        let mut response =
            response.map_err(|error| other_host_error(transport_error(&error, RepeatEffect::Repeatable)))?;
        check_status(&response, RepeatEffect::Repeatable).map_err(other_host_error)?;
        let answer = read(&mut response, RepeatEffect::Repeatable)
            .await
            .map_err(other_host_error)?;
        // The answer is `ok`, or an error in the format of the Web API.
        match serde_json::from_slice::<Value>(&answer) {
            Ok(answer) if answer.get("ok").and_then(Value::as_bool) == Some(false) => {
                Err(SendError::Refused(code(&answer)))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Returns the identity of the token and, if Slack sends them, its scopes.
    pub(super) async fn identify(&self) -> Result<(Value, Option<Vec<String>>), SendError> {
        let (headers, who) = self
            .exchange(
                self.request("auth.test").json(&json!({})),
                RepeatEffect::Repeatable,
            )
            .await?;
        let scopes = headers.get(SCOPES).and_then(|scopes| scopes.to_str().ok());
        let listed = |scopes: &str| scopes.split(',').map(|scope| scope.trim().to_owned()).collect();
        Ok((who, scopes.map(listed)))
    }

    fn request(&self, method: &str) -> RequestBuilder {
        self.http
            .post(format!("{}/{method}", self.base_url))
            .timeout(REQUEST_TIME_MAX)
            .bearer_auth(self.token.expose())
    }

    async fn send(&self, request: RequestBuilder, effect: RepeatEffect) -> Result<Value, SendError> {
        let (_, answer) = self.exchange(request, effect).await?;
        Ok(answer)
    }

    async fn exchange(
        &self,
        request: RequestBuilder,
        effect: RepeatEffect,
    ) -> Result<(HeaderMap, Value), SendError> {
        let mut response = request
            .send()
            .await
            .map_err(|error| transport_error(&error, effect))?;
        check_status(&response, effect)?;
        let retry_after = retry_after(&response);
        let answer = read(&mut response, effect).await?;
        let answer: Value = serde_json::from_slice(&answer)
            .map_err(|_| lost_answer_error("slack's answer is not JSON".to_owned(), effect))?;
        if answer.get("ok").and_then(Value::as_bool) == Some(true) {
            return Ok((std::mem::take(response.headers_mut()), answer));
        }
        let code = code(&answer);
        Err(match code.as_str() {
            "ratelimited" | "rate_limited" => SendError::Limited {
                why: code,
                retry_after,
            },
            passing if PASSING_REFUSALS.contains(&passing) => SendError::NotSent {
                why: code,
                retry_after,
            },
            code_of_token if TOKEN_REFUSALS.contains(&code_of_token) => SendError::Unauthorised(code),
            // Slack documents for these errors that the call may have been partly done.
            "internal_error" | "fatal_error" => lost_answer_error(code, effect),
            _ => SendError::Refused(code),
        })
    }

    /// Returns true if an answer to a command may be sent to this address.
    fn takes_responses(&self, address: &str) -> bool {
        let (Ok(url), Ok(base)) = (Url::parse(address), Url::parse(&self.base_url)) else {
            return false;
        };
        let of_slack =
            url.scheme() == "https" && url.host_str() == Some(RESPONSE_HOST) && url.port().is_none();
        of_slack || url.origin() == base.origin()
    }

    /// Returns true if a file may be sent to this address. The token is never sent there.
    fn is_slack(&self, address: &str) -> bool {
        let (Ok(url), Ok(base)) = (Url::parse(address), Url::parse(&self.base_url)) else {
            return false;
        };
        let of_slack =
            url.scheme() == "https" && url.host_str().is_some_and(|host| host.ends_with(".slack.com"));
        of_slack || url.origin() == base.origin()
    }
}

fn check_status(response: &Response, effect: RepeatEffect) -> Result<(), SendError> {
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let why = format!("slack answered {}", status.as_u16());
    // A call that fails with a server error may have been partly done.
    if status.is_server_error() && effect == RepeatEffect::Once {
        return Err(SendError::Ambiguous(why));
    }
    let retry_after = retry_after(response);
    Err(match status {
        StatusCode::TOO_MANY_REQUESTS => SendError::Limited { why, retry_after },
        StatusCode::UNAUTHORIZED => SendError::Unauthorised(why),
        status if status.is_server_error() => SendError::NotSent { why, retry_after },
        _ => SendError::Refused(why),
    })
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds: u64 = response
        .headers()
        .get(header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds.min(RETRY_AFTER_SECONDS_MAX)))
}

async fn read(response: &mut Response, effect: RepeatEffect) -> Result<Vec<u8>, SendError> {
    let mut answer = Vec::new();
    match read_answer(response, ANSWER_BYTES_MAX, &mut answer).await {
        Ok(()) => Ok(answer),
        Err(AnswerReadError::TooLong) => {
            Err(lost_answer_error("slack's answer is too long".to_owned(), effect))
        }
        Err(AnswerReadError::Broken(error)) => Err(transport_error(&error, effect)),
    }
}

/// Returns the error for a transport failure. The failure's text contains the address, so only its kind is used.
fn transport_error(error: &reqwest::Error, effect: RepeatEffect) -> SendError {
    if error.is_connect() || error.is_builder() {
        return SendError::Unreachable("slack cannot be reached".to_owned());
    }
    let why = if error.is_timeout() {
        "slack did not answer in time"
    } else {
        "the connection to slack was lost"
    };
    lost_answer_error(why.to_owned(), effect)
}

/// Converts a failure at a host for files or command answers. The Web API itself has just answered, and the host has
/// neither its limits nor the token, so the error says nothing about them.
fn other_host_error(error: SendError) -> SendError {
    match error {
        SendError::Unreachable(_) => SendError::OtherHost {
            why: "the host that slack named for this cannot be reached".to_owned(),
            retry_after: None,
        },
        SendError::NotSent { why, retry_after }
        | SendError::Limited { why, retry_after }
        | SendError::OtherHost { why, retry_after } => SendError::OtherHost { why, retry_after },
        SendError::Ambiguous(why) => SendError::OtherHost {
            why,
            retry_after: None,
        },
        SendError::Unauthorised(why) | SendError::Refused(why) => SendError::Refused(why),
    }
}

fn lost_answer_error(why: String, effect: RepeatEffect) -> SendError {
    match effect {
        RepeatEffect::Repeatable => SendError::NotSent {
            why,
            retry_after: None,
        },
        RepeatEffect::Once => SendError::Ambiguous(why),
    }
}

fn code(answer: &Value) -> String {
    let code: String = answer
        .get("error")
        .and_then(Value::as_str)
        .unwrap_or("unknown_error")
        .chars()
        .filter(|character| character.is_ascii_alphanumeric() || *character == '_')
        .take(CODE_CHARS_MAX)
        .collect();
    code
}
