//! The transport of the Bot API: sends the payloads of teloxide-core, and those of the same shape, with our own HTTP
//! client. The token is part of every address, so no address, and no error that could contain one, is passed on from
//! this file.

use crate::base::http_client::server_date;
use crate::base::model::Secret;
pub(super) use crate::interfaces::channel::api_error::ApiError;
use crate::interfaces::channel::api_error::{read_call_answer, read_file_answer, shown_reason};
use bytes::Bytes;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use teloxide_core::requests::Payload;

/// The name of the platform in errors.
const PLATFORM: &str = "telegram";
/// Time limit of an ordinary call.
const CALL_TIME_MAX: Duration = Duration::from_secs(20);
/// Time limit of an upload.
const UPLOAD_TIME_MAX: Duration = Duration::from_secs(120);
/// The maximum number of bytes of an answer that are read; 100 updates of ordinary messages are much smaller.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// The code with which a server refuses a method that it does not know.
pub(super) const UNKNOWN_METHOD: u64 = 404;

/// A client for the Bot API of one bot.
pub(super) struct BotApi {
    http: reqwest::Client,
    base: String,
    token: Secret,
}

#[derive(Deserialize)]
struct ApiResponse {
    ok: bool,
    #[serde(default)]
    result: Value,
    error_code: Option<u16>,
    #[serde(default)]
    description: String,
    parameters: Option<Parameters>,
}

#[derive(Deserialize)]
struct Parameters {
    retry_after: Option<u64>,
}

impl BotApi {
    pub(super) fn new(http: reqwest::Client, api_base_url: &str, token: Secret) -> Self {
        Self {
            http,
            base: api_base_url.trim_end_matches('/').to_owned(),
            token,
        }
    }

    /// Calls a method and returns its result, which the caller decodes tolerantly: an unexpected result does not undo
    /// the effect of the call.
    pub(super) async fn call<P: Payload + Serialize>(&self, payload: &P) -> Result<Value, ApiError> {
        let time_max = CALL_TIME_MAX + payload.timeout_hint().unwrap_or_default();
        let request = self.post(&method_name::<P>()).json(payload).timeout(time_max);
        self.finish(request).await
    }

    /// Calls a method without an effect, and parses its result.
    pub(super) async fn ask<P: Payload + Serialize, T: DeserializeOwned>(
        &self,
        payload: &P,
    ) -> Result<T, ApiError> {
        let answer = self.call(payload).await?;
        serde_json::from_value(answer).map_err(|_| ApiError::unreadable())
    }

    /// Calls a method, and returns its result with the time of the server, if it sent one.
    pub(super) async fn call_with_date<P: Payload + Serialize>(
        &self,
        payload: &P,
    ) -> Result<(Value, Option<Timestamp>), ApiError> {
        let request = self
            .post(&method_name::<P>())
            .json(payload)
            .timeout(CALL_TIME_MAX);
        let mut response = request.send().await.map_err(|err| failure(&err))?;
        let date = server_date(response.headers());
        Ok((self.read(&mut response).await?, date))
    }

    /// Calls a method with a form that holds a file.
    pub(super) async fn upload(
        &self,
        method: &str,
        content_type: &str,
        form: Bytes,
    ) -> Result<Value, ApiError> {
        let request = self
            .post(method)
            .header(http::header::CONTENT_TYPE, content_type)
            .body(form)
            .timeout(UPLOAD_TIME_MAX);
        self.finish(request).await
    }

    /// Reads a file up to `bytes_max` bytes; `None` if it is larger. `path` is what `getFile` returned. See
    /// <https://core.telegram.org/bots/api#file>.
    pub(super) async fn download(&self, path: &str, bytes_max: usize) -> Result<Option<Bytes>, ApiError> {
        let is_name = |part: &str| !part.is_empty() && part.chars().all(is_of_path) && !part.starts_with('.');
        if !path.split('/').all(is_name) {
            return Err(ApiError::refused(
                "telegram does not have the content of the file",
            ));
        }
        let address = format!("{}/file/bot{}/{path}", self.base, self.token.expose());
        let request = self.http.get(address).timeout(UPLOAD_TIME_MAX);
        let mut response = request.send().await.map_err(|err| failure(&err))?;
        if response.status() != reqwest::StatusCode::OK {
            return self.read(&mut response).await.map(|_| None);
        }
        read_file_answer(PLATFORM, &mut response, bytes_max).await
    }

    fn post(&self, method: &str) -> reqwest::RequestBuilder {
        self.http
            .post(format!("{}/bot{}/{method}", self.base, self.token.expose()))
    }

    async fn finish(&self, request: reqwest::RequestBuilder) -> Result<Value, ApiError> {
        let mut response = request.send().await.map_err(|err| failure(&err))?;
        self.read(&mut response).await
    }

    async fn read(&self, response: &mut reqwest::Response) -> Result<Value, ApiError> {
        let status = response.status().as_u16();
        let body = read_call_answer(PLATFORM, response, ANSWER_BYTES_MAX).await?;
        self.answer(status, &body)
    }

    fn answer(&self, status: u16, body: &[u8]) -> Result<Value, ApiError> {
        let answer = serde_json::from_slice::<ApiResponse>(body).ok();
        let code = answer
            .as_ref()
            .and_then(|answer| answer.error_code)
            .unwrap_or(status);
        let limited = |seconds: Option<u64>| ApiError::Limited {
            platform: PLATFORM,
            retry_after: seconds.map(Duration::from_secs),
        };
        let refused = |reason: String| ApiError::Refused {
            code: code.into(),
            reason,
        };
        match answer {
            Some(answer) if answer.ok && (200..300).contains(&status) => Ok(answer.result),
            Some(ApiResponse { parameters, .. }) if code == 429 => {
                Err(limited(parameters.and_then(|parameters| parameters.retry_after)))
            }
            _ if code == 429 => Err(limited(None)),
            _ if code == 401 => Err(ApiError::Unauthorised(format!("telegram answered {code}"))),
            // After a server error, of Telegram or of a proxy in front of it, the call may have taken effect.
            _ if code >= 500 => Err(ApiError::Ambiguous(format!("telegram answered {code}"))),
            Some(answer) if !answer.ok => Err(refused(self.shown(&answer.description))),
            Some(_) | None if (200..300).contains(&status) => Err(ApiError::unreadable()),
            Some(_) | None => Err(refused("without a reason".to_owned())),
        }
    }

    /// Removes the token from a text of the server for use in an error: a proxy may quote the address.
    fn shown(&self, description: &str) -> String {
        let token = self.token.expose();
        let secret = token.split_once(':').map_or(token, |(_, secret)| secret);
        shown_reason(description, &[token, secret])
    }
}

/// True for a character of a path of a file, such as `documents/file_7.yaml`.
fn is_of_path(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-')
}

/// Returns the documented name of a method; the library has it with a capital letter.
fn method_name<P: Payload>() -> String {
    let mut letters = P::NAME.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

fn failure(error: &reqwest::Error) -> ApiError {
    ApiError::of_transport(PLATFORM, error)
}
