//! The transport of Discord's API: sends the requests of twilight-http with our own HTTP client. It limits answers and
//! time, and classifies each failure by its effect. No error contains an address, which may hold the token of an
//! interaction, or the token of the bot.

use super::buckets::{Buckets, route};
use crate::base::http_client::{AnswerReadError, read_answer, server_date};
use crate::base::model::Secret;
use crate::interfaces::channel::SendError;
use bytes::Bytes;
use jiff::Timestamp;
use reqwest::Url;
use reqwest::header::{self, HeaderMap};
use serde_json::Value;
use std::time::Duration;
use twilight_http::Client;
use twilight_http::request::{Method, Request, TryIntoRequest};

/// Time limit of a call.
const CALL_TIME_MAX: Duration = Duration::from_secs(20);
/// Time limit of an upload.
const UPLOAD_TIME_MAX: Duration = Duration::from_secs(120);
/// The maximum number of bytes of an answer that are read; 100 messages of ordinary size are much smaller.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// The maximum number of characters of a reason that are repeated in an error.
const REASON_CHARS_MAX: usize = 200;
/// The longest wait for a bucket within a call; after a longer one, the operation is tried again.
const BUCKET_WAIT_MAX: Duration = Duration::from_secs(5);
/// The longest wait that is accepted from Discord.
const RETRY_AFTER_SECONDS_MAX: f64 = 3_600.0;

/// The hosts with the files of messages.
const FILE_HOSTS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];

/// Discord's codes of refusals. See
/// <https://docs.discord.com/developers/topics/opcodes-and-status-codes#json>.
pub(super) mod code {
    pub(in super::super) const UNKNOWN_CHANNEL: u64 = 10_003;
    pub(in super::super) const UNKNOWN_WEBHOOK: u64 = 10_015;
    pub(in super::super) const UNKNOWN_INTERACTION: u64 = 10_062;
    pub(in super::super) const ALREADY_RESPONDED: u64 = 40_060;
    pub(in super::super) const THREAD_EXISTS: u64 = 160_004;
}

/// A client for the API with one bot's token.
pub(super) struct DiscordApi {
    http: reqwest::Client,
    base: String,
    token: Secret,
    /// Makes requests, and sends none.
    requests: Client,
    buckets: Buckets,
}

/// An error of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DiscordError {
    /// The server could not be reached.
    Unreachable(String),
    /// Discord rejects the token.
    Unauthorised(String),
    /// Discord requires fewer calls.
    Limited(Option<Duration>),
    /// Discord refused the call. The code is 0 if Discord sent none.
    Refused { code: u64, reason: String },
    /// The outcome is unknown: the call may or may not have taken effect.
    Ambiguous(String),
}

impl DiscordError {
    /// Converts the error of a post or an upload, whose repetition would be visible.
    pub(super) fn into_post_error(self) -> SendError {
        match self {
            Self::Unreachable(why) => SendError::Unreachable(why),
            Self::Unauthorised(why) => SendError::Unauthorised(why),
            Self::Limited(retry_after) => SendError::Limited {
                why: "discord limits the rate of calls".to_owned(),
                retry_after,
            },
            Self::Refused { code, reason } => SendError::Refused(format!("{code} {reason}")),
            Self::Ambiguous(why) => SendError::Ambiguous(why),
        }
    }

    /// Converts the error of a call whose repetition is invisible to users.
    pub(super) fn into_repeatable_error(self) -> SendError {
        match self {
            Self::Ambiguous(why) => SendError::NotSent {
                why,
                retry_after: None,
            },
            Self::Unreachable(_) | Self::Unauthorised(_) | Self::Limited(_) | Self::Refused { .. } => {
                self.into_post_error()
            }
        }
    }

    /// Returns true if Discord refused the call with this code.
    pub(super) fn is(&self, wanted: u64) -> bool {
        matches!(self, Self::Refused { code, .. } if *code == wanted)
    }
}

impl DiscordApi {
    pub(super) fn new(http: reqwest::Client, api_base_url: &str, token: Secret) -> Self {
        Self {
            http,
            base: api_base_url.trim_end_matches('/').to_owned(),
            token,
            requests: Client::builder().ratelimiter(None).build(),
            buckets: Buckets::new(),
        }
    }

    /// Returns the factory of requests.
    pub(super) fn requests(&self) -> &Client {
        &self.requests
    }

    /// Returns the token, for the gateway.
    pub(super) fn token(&self) -> &Secret {
        &self.token
    }

    /// Returns the address of the API.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Sends a request and returns its result, which the caller decodes tolerantly: an unexpected result does not undo
    /// the effect of the call.
    pub(super) async fn call(&self, request: impl TryIntoRequest) -> Result<Value, DiscordError> {
        self.call_with_date(request).await.map(|(answer, _)| answer)
    }

    /// Sends a request, and returns its result with the time of the server, if it sent one.
    pub(super) async fn call_with_date(
        &self,
        request: impl TryIntoRequest,
    ) -> Result<(Value, Option<Timestamp>), DiscordError> {
        let request = request.try_into_request().map_err(|_| DiscordError::Refused {
            code: 0,
            reason: "the message is beyond the limits of discord".to_owned(),
        })?;
        self.send(request).await
    }

    /// Sends a finished request, once its bucket takes it.
    pub(super) async fn send(&self, request: Request) -> Result<(Value, Option<Timestamp>), DiscordError> {
        let method = match request.method() {
            Method::Delete => reqwest::Method::DELETE,
            Method::Get => reqwest::Method::GET,
            Method::Patch => reqwest::Method::PATCH,
            Method::Post => reqwest::Method::POST,
            Method::Put => reqwest::Method::PUT,
            _ => return Err(DiscordError::Unreachable("the method is not known".to_owned())),
        };
        let route = route(method.as_str(), request.path());
        if let Some(wait) = self.buckets.wait(&route) {
            if wait > BUCKET_WAIT_MAX {
                return Err(DiscordError::Limited(Some(wait)));
            }
            tokio::time::sleep(wait).await;
        }
        let url = format!("{}/{}", self.base, request.path());
        let mut sent = self.http.request(method, url).timeout(CALL_TIME_MAX);
        if request.use_authorization_token() {
            sent = sent.header(header::AUTHORIZATION, format!("Bot {}", self.token.expose()));
        }
        if let Some(form) = request.form() {
            sent = sent
                .header(header::CONTENT_TYPE, form.content_type())
                .body(form.clone().build())
                .timeout(UPLOAD_TIME_MAX);
        } else if let Some(body) = request.body() {
            sent = sent
                .header(header::CONTENT_TYPE, "application/json")
                .body(body.to_vec());
        } else if !matches!(request.method(), Method::Get) {
            sent = sent.header(header::CONTENT_LENGTH, 0);
        }
        let mut response = sent.send().await.map_err(|error| failure(&error))?;
        let date = server_date(response.headers());
        self.buckets.record(route, response.headers());
        match self.read(&mut response).await {
            // The address has a token of an interaction, which a proxy may quote.
            Err(DiscordError::Refused { code, .. }) if !request.use_authorization_token() => {
                let reason = format!("discord refused it ({code})");
                Err(DiscordError::Refused { code, reason })
            }
            // The token of an interaction has expired, and not that of the bot.
            Err(DiscordError::Unauthorised(reason)) if !request.use_authorization_token() => {
                Err(DiscordError::Refused { code: 0, reason })
            }
            answer => Ok((answer?, date)),
        }
    }

    /// Reads a file that somebody sent, without the token, up to `bytes_max` bytes; `None` if it is larger.
    pub(super) async fn download(&self, url: &str, bytes_max: usize) -> Result<Option<Bytes>, DiscordError> {
        let refused = |reason: &str| DiscordError::Refused {
            code: 0,
            reason: reason.to_owned(),
        };
        let url = Url::parse(url).ok().filter(|url| self.has_files(url));
        let url = url.ok_or_else(|| refused("the address of the file is none of discord"))?;
        let request = self.http.get(url).timeout(UPLOAD_TIME_MAX);
        let mut response = request.send().await.map_err(|error| failure(&error))?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(refused(&format!("discord answered {status}")));
        }
        let mut content = Vec::new();
        match read_answer(&mut response, bytes_max, &mut content).await {
            Ok(()) => Ok(Some(content.into())),
            Err(AnswerReadError::TooLong) => Ok(None),
            Err(AnswerReadError::Broken(error)) => Err(failure(&error)),
        }
    }

    /// True for an https address on a host with Discord's files, or an address of the API.
    fn has_files(&self, url: &Url) -> bool {
        let is_host = url.host_str().is_some_and(|host| FILE_HOSTS.contains(&host));
        let of_discord = url.scheme() == "https" && url.port().is_none() && is_host;
        of_discord || Url::parse(&self.base).is_ok_and(|base| url.origin() == base.origin())
    }

    async fn read(&self, response: &mut reqwest::Response) -> Result<Value, DiscordError> {
        let status = response.status().as_u16();
        let mut body = Vec::new();
        match read_answer(response, ANSWER_BYTES_MAX, &mut body).await {
            Ok(()) => {}
            Err(AnswerReadError::TooLong) => {
                return Err(DiscordError::Ambiguous("the answer is too long".to_owned()));
            }
            // The status alone shows that a refused call had no effect.
            Err(AnswerReadError::Broken(_)) if status >= 400 => {}
            Err(AnswerReadError::Broken(error)) => return Err(failure(&error)),
        }
        let answer: Option<Value> = serde_json::from_slice(&body).ok();
        match status {
            204 => Ok(Value::Null),
            200..=299 => answer.ok_or_else(|| DiscordError::Ambiguous("the answer is unreadable".to_owned())),
            401 => Err(DiscordError::Unauthorised("discord answered 401".to_owned())),
            429 => Err(DiscordError::Limited(retry_after(
                answer.as_ref(),
                response.headers(),
            ))),
            // After a server error, of Discord or of a proxy in front of it, the call may have taken effect.
            500.. => Err(DiscordError::Ambiguous(format!("discord answered {status}"))),
            _ => Err(self.refusal(status, &answer.unwrap_or_default())),
        }
    }

    fn refusal(&self, status: u16, answer: &Value) -> DiscordError {
        let reason = match answer["message"].as_str() {
            Some(reason) => self.shown(reason),
            None => format!("discord answered {status}"),
        };
        let code = answer["code"].as_u64().unwrap_or_default();
        let hint = match code {
            50_001 => "; let the bot see the channel",
            50_013 => {
                "; grant the bot Send Messages, Send Messages in Threads, Create Public Threads, Read Message History \
                 and Attach Files"
            }
            _ => "",
        };
        DiscordError::Refused {
            code,
            reason: format!("{reason}{hint}"),
        }
    }

    /// Removes the token from a text of the server for use in an error: a proxy may quote the request.
    fn shown(&self, reason: &str) -> String {
        let token = self.token.expose();
        let shown = match token.is_empty() {
            true => reason.to_owned(),
            false => reason.replace(token, "***"),
        };
        let shown = shown.chars().filter(|c| !c.is_control());
        shown.take(REASON_CHARS_MAX).collect()
    }
}

/// Returns the wait of a 429: with decimals in the answer, in whole seconds in the header.
fn retry_after(answer: Option<&Value>, headers: &HeaderMap) -> Option<Duration> {
    let of_header = || {
        let header = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
        header.parse::<f64>().ok()
    };
    let seconds = answer.and_then(|answer| answer["retry_after"].as_f64());
    let seconds = seconds.or_else(of_header)?;
    let is_usable = seconds.is_finite() && seconds >= 0.0;
    is_usable.then(|| Duration::from_secs_f64(seconds.min(RETRY_AFTER_SECONDS_MAX)))
}

/// Converts an error of the client to a fixed text, because its own text contains the address.
fn failure(error: &reqwest::Error) -> DiscordError {
    if error.is_connect() {
        return DiscordError::Unreachable("discord could not be reached".to_owned());
    }
    if error.is_builder() {
        return DiscordError::Refused {
            code: 0,
            reason: "`api_base_url` or the token is not part of a valid request".to_owned(),
        };
    }
    let why = if error.is_timeout() {
        "discord did not answer in time"
    } else {
        "the connection broke"
    };
    DiscordError::Ambiguous(why.to_owned())
}
