//! The transport of Discord's API: sends the requests of twilight-http with our own HTTP client. It limits answers and
//! time, and classifies each failure by its effect. No error contains an address, which may hold the token of an
//! interaction, or the token of the bot.

use super::buckets::{Buckets, route};
use crate::base::http_client::server_date;
use crate::base::model::Secret;
use crate::interfaces::channel::SendError;
pub(super) use crate::interfaces::channel::api_error::ApiError;
use crate::interfaces::channel::api_error::{read_call_answer, read_file_answer, shown_reason};
use bytes::Bytes;
use jiff::Timestamp;
use reqwest::Url;
use reqwest::header::{self, HeaderMap};
use serde_json::Value;
use std::time::Duration;
use twilight_http::Client;
use twilight_http::request::{Method, Request, TryIntoRequest};

/// The name of the platform in errors.
const PLATFORM: &str = "discord";
/// Time limit of a call.
const CALL_TIME_MAX: Duration = Duration::from_secs(20);
/// Time limit of an upload.
const UPLOAD_TIME_MAX: Duration = Duration::from_secs(120);
/// The maximum number of bytes of an answer that are read; 100 messages of ordinary size are much smaller.
const ANSWER_BYTES_MAX: usize = 8 << 20;
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
    pub(super) async fn call(&self, request: impl TryIntoRequest) -> Result<Value, ApiError> {
        self.call_with_date(request).await.map(|(answer, _)| answer)
    }

    /// Sends a request whose repetition is invisible to users.
    pub(super) async fn repeatable(&self, request: impl TryIntoRequest) -> Result<Value, SendError> {
        let answer = self.call(request).await;
        answer.map_err(ApiError::into_repeatable_error)
    }

    /// Sends a request, and returns its result with the time of the server, if it sent one.
    pub(super) async fn call_with_date(
        &self,
        request: impl TryIntoRequest,
    ) -> Result<(Value, Option<Timestamp>), ApiError> {
        let beyond = |_| ApiError::refused("the message is beyond the limits of discord");
        let request = request.try_into_request().map_err(beyond)?;
        self.send(request).await
    }

    /// Sends a finished request, once its bucket takes it.
    pub(super) async fn send(&self, request: Request) -> Result<(Value, Option<Timestamp>), ApiError> {
        let method = match request.method() {
            Method::Delete => reqwest::Method::DELETE,
            Method::Get => reqwest::Method::GET,
            Method::Patch => reqwest::Method::PATCH,
            Method::Post => reqwest::Method::POST,
            Method::Put => reqwest::Method::PUT,
            _ => return Err(ApiError::Unreachable("the method is not known".to_owned())),
        };
        let route = route(method.as_str(), request.path());
        if let Some(wait) = self.buckets.wait(&route) {
            if wait > BUCKET_WAIT_MAX {
                return Err(limited(Some(wait)));
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
            Err(ApiError::Refused { code, .. }) if !request.use_authorization_token() => {
                let reason = format!("discord refused it ({code})");
                Err(ApiError::Refused { code, reason })
            }
            // The token of an interaction has expired, and not that of the bot.
            Err(ApiError::Unauthorised(reason)) if !request.use_authorization_token() => {
                Err(ApiError::Refused { code: 0, reason })
            }
            answer => Ok((answer?, date)),
        }
    }

    /// Reads a file that somebody sent, without the token, up to `bytes_max` bytes; `None` if it is larger.
    pub(super) async fn download(&self, url: &str, bytes_max: usize) -> Result<Option<Bytes>, ApiError> {
        let url = Url::parse(url).ok().filter(|url| self.has_files(url));
        let url = url.ok_or_else(|| ApiError::refused("the address of the file is none of discord"))?;
        let request = self.http.get(url).timeout(UPLOAD_TIME_MAX);
        let mut response = request.send().await.map_err(|error| failure(&error))?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(ApiError::refused(&format!("discord answered {status}")));
        }
        read_file_answer(PLATFORM, &mut response, bytes_max).await
    }

    /// True for an https address on a host with Discord's files, or an address of the API.
    fn has_files(&self, url: &Url) -> bool {
        let is_host = url.host_str().is_some_and(|host| FILE_HOSTS.contains(&host));
        let of_discord = url.scheme() == "https" && url.port().is_none() && is_host;
        of_discord || Url::parse(&self.base).is_ok_and(|base| url.origin() == base.origin())
    }

    async fn read(&self, response: &mut reqwest::Response) -> Result<Value, ApiError> {
        let status = response.status().as_u16();
        let body = read_call_answer(PLATFORM, response, ANSWER_BYTES_MAX).await?;
        let answer: Option<Value> = serde_json::from_slice(&body).ok();
        match status {
            204 => Ok(Value::Null),
            200..=299 => answer.ok_or_else(ApiError::unreadable),
            401 => Err(ApiError::Unauthorised("discord answered 401".to_owned())),
            429 => Err(limited(retry_after(answer.as_ref(), response.headers()))),
            // After a server error, of Discord or of a proxy in front of it, the call may have taken effect.
            500.. => Err(ApiError::Ambiguous(format!("discord answered {status}"))),
            _ => Err(self.refusal(status, &answer.unwrap_or_default())),
        }
    }

    fn refusal(&self, status: u16, answer: &Value) -> ApiError {
        let reason = match answer["message"].as_str() {
            Some(reason) => shown_reason(reason, &[self.token.expose()]),
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
        ApiError::Refused {
            code,
            reason: format!("{reason}{hint}"),
        }
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

fn limited(retry_after: Option<Duration>) -> ApiError {
    ApiError::Limited {
        platform: PLATFORM,
        retry_after,
    }
}

fn failure(error: &reqwest::Error) -> ApiError {
    ApiError::of_transport(PLATFORM, error)
}
