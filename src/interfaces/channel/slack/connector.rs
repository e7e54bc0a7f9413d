//! The connector of slack-morphism over the HTTP client of Drydock. It limits answers and time, and classifies each
//! failure by its effect. No error contains an address, a token or a message. The token stays here: the library gets
//! an empty one.

use crate::base::http_client::{AnswerReadError, read_answer};
use crate::base::model::Secret;
use crate::interfaces::channel::SendError;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use reqwest::header::{self, HeaderMap};
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use slack_morphism::errors::{SlackClientError, SlackClientHttpProtocolError};
use slack_morphism::multipart_form::FileMultipartData;
use slack_morphism::{
    ClientResult, SlackClientApiCallContext, SlackClientHttpConnector, SlackClientId, SlackClientSecret,
};
use std::time::Duration;

/// Time limit of one request, from connecting to the last byte.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// The maximum number of bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The longest wait that is accepted from Slack.
const RETRY_AFTER_SECONDS_MAX: u64 = 3_600;
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

/// A failure of a call. The errors of the library do not tell whether a request was sent, so this is their cause.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallFailure {
    /// The class does not depend on the effect of the call.
    #[error(transparent)]
    Known(#[from] SendError),
    /// The call may have taken effect.
    #[error("unknown outcome: {why}")]
    Unanswered {
        /// The reason, in a few words.
        why: String,
        /// The wait that Slack requires.
        retry_after: Option<Duration>,
    },
}

impl CallFailure {
    fn unanswered(why: &str) -> Self {
        Self::Unanswered {
            why: why.to_owned(),
            retry_after: None,
        }
    }

    /// Classifies the failure of a call with this effect.
    pub(super) fn of(self, effect: RepeatEffect) -> SendError {
        match (self, effect) {
            (Self::Known(error), _) => error,
            (Self::Unanswered { why, .. }, RepeatEffect::Once) => SendError::Ambiguous(why),
            (Self::Unanswered { why, retry_after }, RepeatEffect::Repeatable) => {
                SendError::NotSent { why, retry_after }
            }
        }
    }
}

impl From<CallFailure> for SlackClientError {
    fn from(failure: CallFailure) -> Self {
        Self::HttpProtocolError(SlackClientHttpProtocolError::new().with_cause(Box::new(failure)))
    }
}

/// Classifies an error of the library.
pub(super) fn classified(error: SlackClientError, effect: RepeatEffect) -> SendError {
    let cause = match error {
        SlackClientError::HttpProtocolError(error) => error.cause,
        _ => None,
    };
    match cause.and_then(|cause| cause.downcast::<CallFailure>().ok()) {
        Some(failure) => failure.of(effect),
        // The library itself fails only before a request.
        None => unreachable(),
    }
}

/// The connection to one server with one token.
pub(super) struct SlackConnector {
    pub(super) http: reqwest::Client,
    pub(super) base_url: String,
    pub(super) token: Secret,
}

impl SlackConnector {
    /// Returns a request for a method, with the token.
    pub(super) fn method(&self, method: &str) -> Result<RequestBuilder, SendError> {
        let url = self.create_method_uri_path(method);
        Ok(self.with_token(url.map_err(|error| classified(error, RepeatEffect::Once))?))
    }

    fn with_token(&self, url: Url) -> RequestBuilder {
        self.without_token(url).bearer_auth(self.token.expose())
    }

    pub(super) fn without_token(&self, url: Url) -> RequestBuilder {
        self.http.post(url).timeout(REQUEST_TIME_MAX)
    }

    /// Returns a request for the content of a file, with the token.
    pub(super) fn file(&self, url: Url) -> RequestBuilder {
        let request = self.http.get(url).timeout(REQUEST_TIME_MAX);
        request.bearer_auth(self.token.expose())
    }

    /// Returns true if an address has the origin of the Web API, or is an https address on an accepted host.
    pub(super) fn is_slack(&self, url: &Url, accepts: fn(&str) -> bool) -> bool {
        let of_slack = url.scheme() == "https" && url.port().is_none() && url.host_str().is_some_and(accepts);
        of_slack || Url::parse(&self.base_url).is_ok_and(|base| url.origin() == base.origin())
    }

    /// Uploads a file without the token. The file is visible only after the upload is completed.
    pub(super) async fn upload(&self, url: Url, content: Bytes) -> Result<(), SendError> {
        if !self.is_slack(&url, is_slack_host) {
            let why = "the upload address does not belong to slack";
            return Err(SendError::Refused(why.to_owned()));
        }
        let request = self.without_token(url).body(content);
        let request = request.header(header::CONTENT_TYPE, "application/octet-stream");
        sent(request).await.map(|_| ()).map_err(other_host_error)
    }
}

/// Returns true for a host of Slack, where its files and sockets are.
pub(super) fn is_slack_host(host: &str) -> bool {
    host.ends_with(".slack.com")
}

impl SlackClientHttpConnector for SlackConnector {
    /// Sends the arguments as a form. Slack accepts forms for every method, and no argument belongs in an address.
    fn http_get_uri<'a, RS>(
        &'a self,
        mut uri: Url,
        _: SlackClientApiCallContext<'a>,
    ) -> BoxFuture<'a, ClientResult<RS>>
    where
        RS: DeserializeOwned + Send + 'a,
    {
        let form = uri.query().unwrap_or_default().to_owned();
        uri.set_query(None);
        let request = self.with_token(uri).body(form);
        let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        async move { Ok(exchanged(request).await?.1) }.boxed()
    }

    fn http_post_uri<'a, RQ, RS>(
        &'a self,
        uri: Url,
        body: &'a RQ,
        _: SlackClientApiCallContext<'a>,
    ) -> BoxFuture<'a, ClientResult<RS>>
    where
        RQ: Serialize + Send + Sync,
        RS: DeserializeOwned + Send + 'a,
    {
        let request = self.with_token(uri).json(body);
        async move { Ok(exchanged(request).await?.1) }.boxed()
    }

    fn http_post_uri_binary<'a, 'p, RS>(
        &'a self,
        _: Url,
        _: String,
        _: &'a [u8],
        _: SlackClientApiCallContext<'a>,
    ) -> BoxFuture<'a, ClientResult<RS>>
    where
        RS: DeserializeOwned + Send + 'a,
    {
        unsupported()
    }

    fn http_get_with_client_secret<'a, RS>(
        &'a self,
        _: Url,
        _: &'a SlackClientId,
        _: &'a SlackClientSecret,
    ) -> BoxFuture<'a, ClientResult<RS>>
    where
        RS: DeserializeOwned + Send + 'a,
    {
        unsupported()
    }

    fn http_post_uri_multipart_form<'a, 'p, RS, PT, TS>(
        &'a self,
        _: Url,
        _: Option<FileMultipartData<'p>>,
        _: &'p PT,
        _: SlackClientApiCallContext<'a>,
    ) -> BoxFuture<'a, ClientResult<RS>>
    where
        RS: DeserializeOwned + Send + 'a,
        PT: IntoIterator<Item = (&'p str, Option<TS>)> + Clone,
        TS: AsRef<str> + 'p + Send,
    {
        unsupported()
    }

    fn create_method_uri_path(&self, method: &str) -> ClientResult<Url> {
        Ok(format!("{}/{method}", self.base_url).parse()?)
    }
}

/// Answers the kinds of calls that Drydock does not make.
fn unsupported<'a, RS: Send + 'a>() -> BoxFuture<'a, ClientResult<RS>> {
    let refused = SendError::Refused("this kind of call is not supported".to_owned());
    ready(Err(CallFailure::Known(refused).into())).boxed()
}

/// Makes a call, and returns the headers and the content of its successful answer.
pub(super) async fn exchanged<RS: DeserializeOwned>(
    request: RequestBuilder,
) -> Result<(HeaderMap, RS), CallFailure> {
    let mut response = sent(request).await?;
    let retry_after = retry_after(&response);
    let answer = read(&mut response).await?;
    let answer: Value =
        serde_json::from_slice(&answer).map_err(|_| CallFailure::unanswered("slack's answer is not JSON"))?;
    if answer.get("ok").and_then(Value::as_bool) == Some(true) {
        return Ok((std::mem::take(response.headers_mut()), parsed(answer)?));
    }
    let why = code(&answer);
    Err(match why.as_str() {
        "ratelimited" | "rate_limited" => SendError::Limited { why, retry_after }.into(),
        passing if PASSING_REFUSALS.contains(&passing) => SendError::NotSent { why, retry_after }.into(),
        of_token if TOKEN_REFUSALS.contains(&of_token) => SendError::Unauthorised(why).into(),
        // Slack documents for these errors that the call may have been partly done.
        "internal_error" | "fatal_error" => CallFailure::unanswered(&why),
        _ => SendError::Refused(why).into(),
    })
}

/// Converts a successful answer to a type of the library. A failure is unknown, because the call has taken effect.
fn parsed<RS: DeserializeOwned>(answer: Value) -> Result<RS, CallFailure> {
    serde_json::from_value(answer).map_err(|_| CallFailure::unanswered("slack's answer is not understood"))
}

/// Sends a request, and returns its answer if the status is a success.
pub(super) async fn sent(request: RequestBuilder) -> Result<Response, CallFailure> {
    let response = request.send().await.map_err(|error| transport_failure(&error))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let why = format!("slack answered {}", status.as_u16());
    let retry_after = retry_after(&response);
    Err(match status {
        StatusCode::TOO_MANY_REQUESTS => SendError::Limited { why, retry_after }.into(),
        StatusCode::UNAUTHORIZED => SendError::Unauthorised(why).into(),
        // A call that fails with a server error may have been partly done.
        status if status.is_server_error() => CallFailure::Unanswered { why, retry_after },
        _ => SendError::Refused(why).into(),
    })
}

/// Reads an answer up to its bound.
pub(super) async fn read(response: &mut Response) -> Result<Bytes, CallFailure> {
    let answer = read_up_to(response, ANSWER_BYTES_MAX).await?;
    answer.ok_or_else(|| CallFailure::unanswered("slack's answer is too long"))
}

/// Reads the content of a file; `None` if it is larger than `bytes_max` bytes.
pub(super) async fn read_up_to(
    response: &mut Response,
    bytes_max: usize,
) -> Result<Option<Bytes>, CallFailure> {
    let mut content = Vec::new();
    match read_answer(response, bytes_max, &mut content).await {
        Ok(()) => Ok(Some(content.into())),
        Err(AnswerReadError::TooLong) => Ok(None),
        Err(AnswerReadError::Broken(error)) => Err(transport_failure(&error)),
    }
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    let seconds: u64 = seconds.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.min(RETRY_AFTER_SECONDS_MAX)))
}

fn unreachable() -> SendError {
    SendError::Unreachable("slack cannot be reached".to_owned())
}

/// Returns the failure of a transport. Its text contains the address, so only its kind is used.
fn transport_failure(error: &reqwest::Error) -> CallFailure {
    if error.is_connect() || error.is_builder() {
        return unreachable().into();
    }
    CallFailure::unanswered(match error.is_timeout() {
        true => "slack did not answer in time",
        false => "the connection to slack was lost",
    })
}

/// Converts a failure at a host for files or command answers. The Web API itself has just answered, and the host has
/// neither its limits nor the token, so the error says nothing about them.
pub(super) fn other_host_error(failure: CallFailure) -> SendError {
    let other_host = |why, retry_after| SendError::OtherHost { why, retry_after };
    match failure.of(RepeatEffect::Repeatable) {
        SendError::Unreachable(_) => {
            let why = "the host that slack named for this cannot be reached";
            other_host(why.to_owned(), None)
        }
        SendError::NotSent { why, retry_after }
        | SendError::Limited { why, retry_after }
        | SendError::OtherHost { why, retry_after } => other_host(why, retry_after),
        SendError::Ambiguous(why) => other_host(why, None),
        SendError::Unauthorised(why) | SendError::Refused(why) | SendError::OtherForm(why) => {
            SendError::Refused(why)
        }
    }
}

/// Returns the error code of an answer.
pub(super) fn code(answer: &Value) -> String {
    let code = answer.get("error").and_then(Value::as_str);
    let code = code.unwrap_or("unknown_error").chars();
    code.filter(|character| character.is_ascii_alphanumeric() || *character == '_')
        .take(CODE_CHARS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{CallFailure, RepeatEffect, classified, parsed};
    use crate::interfaces::channel::SendError;
    use serde_json::json;
    use slack_morphism::api::SlackApiAuthTestResponse;
    use slack_morphism::errors::SlackClientError;
    use std::time::Duration;

    /// P3: the call has taken effect, so it must not be repeated as if it had failed.
    #[test]
    fn an_answer_that_the_library_cannot_read_is_ambiguous() {
        let read = || parsed::<SlackApiAuthTestResponse>(json!({"ok": true, "team_id": "xoxb-secret"}));
        let why = "slack's answer is not understood".to_owned();
        let error = |effect| classified(SlackClientError::from(read().unwrap_err()), effect);
        assert_eq!(error(RepeatEffect::Once), SendError::Ambiguous(why.clone()));
        let not_sent = SendError::NotSent {
            why,
            retry_after: None,
        };
        assert_eq!(error(RepeatEffect::Repeatable), not_sent);
        let shown = SlackClientError::from(read().unwrap_err());
        assert!(!format!("{shown} {shown:?}").contains("xoxb"));
    }

    #[test]
    fn the_class_of_a_failure_passes_through_the_library() {
        for error in [
            SendError::Unreachable("a".to_owned()),
            SendError::Unauthorised("b".to_owned()),
            SendError::Limited {
                why: "c".to_owned(),
                retry_after: Some(Duration::from_secs(7)),
            },
            SendError::Refused("d".to_owned()),
        ] {
            let of_library = SlackClientError::from(CallFailure::Known(error.clone()));
            assert_eq!(classified(of_library, RepeatEffect::Once), error);
        }
    }
}
