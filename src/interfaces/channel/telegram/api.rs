//! The transport of the Bot API: sends the payloads of teloxide-core, and those of the same shape, with our own HTTP
//! client. The token is part of every address, so no address, and no error that could contain one, is passed on from
//! this file.

use crate::base::http_client::{AnswerReadError, read_answer, server_date};
use crate::base::model::Secret;
use crate::interfaces::channel::SendError;
use bytes::Bytes;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use teloxide_core::requests::Payload;

/// Time limit of an ordinary call.
const CALL_TIME_MAX: Duration = Duration::from_secs(20);
/// Time limit of an upload.
const UPLOAD_TIME_MAX: Duration = Duration::from_secs(120);
/// The maximum number of bytes of an answer that are read; 100 updates of ordinary messages are much smaller.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// The maximum number of characters of a description that are repeated in an error.
const DESCRIPTION_CHARS_MAX: usize = 200;
/// The code with which a server refuses a method that it does not know.
const UNKNOWN_METHOD: u16 = 404;

/// A client for the Bot API of one bot.
pub(super) struct BotApi {
    http: reqwest::Client,
    base: String,
    token: Secret,
}

/// An error of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ApiError {
    /// The server could not be reached.
    Unreachable(String),
    /// Telegram rejects the token.
    Unauthorised(String),
    /// Telegram requires fewer calls.
    Limited(Option<Duration>),
    /// Telegram refused the call.
    Refused { code: u16, description: String },
    /// Telegram refused a form of a message which the next call leaves out.
    OtherForm(String),
    /// The outcome is unknown: the call may or may not have taken effect.
    Ambiguous(String),
}

impl ApiError {
    /// Converts the error of a post or an upload, whose repetition would be visible.
    pub(super) fn into_post_error(self) -> SendError {
        match self {
            Self::Unreachable(why) => SendError::Unreachable(why),
            Self::Unauthorised(why) => SendError::Unauthorised(why),
            Self::Limited(retry_after) => SendError::Limited {
                why: "telegram limits the rate of calls".to_owned(),
                retry_after,
            },
            Self::Refused { code, description } => SendError::Refused(format!("{code} {description}")),
            Self::OtherForm(why) => SendError::OtherForm(why),
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
            Self::Unreachable(_)
            | Self::Unauthorised(_)
            | Self::Limited(_)
            | Self::Refused { .. }
            | Self::OtherForm(_) => self.into_post_error(),
        }
    }

    /// Returns true if the server does not know the method of the call.
    pub(super) fn is_unknown_method(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if *code == UNKNOWN_METHOD)
    }

    /// Returns true if Telegram refused the call with these words.
    pub(super) fn says(&self, words: &str) -> bool {
        match self {
            Self::Refused { description, .. } => description
                .to_ascii_lowercase()
                .contains(&words.to_ascii_lowercase()),
            Self::Unreachable(_)
            | Self::Unauthorised(_)
            | Self::Limited(_)
            | Self::OtherForm(_)
            | Self::Ambiguous(_) => false,
        }
    }
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
        serde_json::from_value(answer).map_err(|_| unreadable())
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
            return Err(ApiError::Refused {
                code: 0,
                description: "telegram does not have the content of the file".to_owned(),
            });
        }
        let address = format!("{}/file/bot{}/{path}", self.base, self.token.expose());
        let request = self.http.get(address).timeout(UPLOAD_TIME_MAX);
        let mut response = request.send().await.map_err(|err| failure(&err))?;
        let mut content = Vec::new();
        if response.status() != reqwest::StatusCode::OK {
            return self.read(&mut response).await.map(|_| None);
        }
        match read_answer(&mut response, bytes_max, &mut content).await {
            Ok(()) => Ok(Some(content.into())),
            Err(AnswerReadError::TooLong) => Ok(None),
            Err(AnswerReadError::Broken(error)) => Err(failure(&error)),
        }
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
        let mut body = Vec::new();
        match read_answer(response, ANSWER_BYTES_MAX, &mut body).await {
            Ok(()) => {}
            Err(AnswerReadError::TooLong) => {
                return Err(ApiError::Ambiguous("the answer is too long".to_owned()));
            }
            // The status alone shows that a refused call had no effect.
            Err(AnswerReadError::Broken(_)) if status >= 400 => {}
            Err(AnswerReadError::Broken(error)) => return Err(failure(&error)),
        }
        self.answer(status, &body)
    }

    fn answer(&self, status: u16, body: &[u8]) -> Result<Value, ApiError> {
        let answer = serde_json::from_slice::<ApiResponse>(body).ok();
        let code = answer
            .as_ref()
            .and_then(|answer| answer.error_code)
            .unwrap_or(status);
        match answer {
            Some(answer) if answer.ok && (200..300).contains(&status) => Ok(answer.result),
            Some(ApiResponse { parameters, .. }) if code == 429 => {
                let asked = parameters.and_then(|parameters| parameters.retry_after);
                Err(ApiError::Limited(asked.map(Duration::from_secs)))
            }
            _ if code == 429 => Err(ApiError::Limited(None)),
            _ if code == 401 => Err(ApiError::Unauthorised(format!("telegram answered {code}"))),
            // After a server error, of Telegram or of a proxy in front of it, the call may have taken effect.
            _ if code >= 500 => Err(ApiError::Ambiguous(format!("telegram answered {code}"))),
            Some(answer) if !answer.ok => Err(ApiError::Refused {
                code,
                description: self.shown(&answer.description),
            }),
            Some(_) | None if (200..300).contains(&status) => Err(unreadable()),
            Some(_) | None => Err(ApiError::Refused {
                code,
                description: "without a reason".to_owned(),
            }),
        }
    }

    /// Removes the token from a text of the server for use in an error: a proxy may quote the address.
    fn shown(&self, description: &str) -> String {
        let token = self.token.expose();
        let secret = token.split_once(':').map_or(token, |(_, secret)| secret);
        let mut shown = description.to_owned();
        for hidden in [token, secret] {
            if !hidden.is_empty() {
                shown = shown.replace(hidden, "***");
            }
        }
        shown
            .chars()
            .filter(|c| !c.is_control())
            .take(DESCRIPTION_CHARS_MAX)
            .collect()
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

fn unreadable() -> ApiError {
    ApiError::Ambiguous("the answer is unreadable".to_owned())
}

/// Converts an error of the client to a fixed text, because its own text contains the address and so the token.
fn failure(err: &reqwest::Error) -> ApiError {
    if err.is_connect() {
        return ApiError::Unreachable("telegram could not be reached".to_owned());
    }
    if err.is_builder() {
        return ApiError::Refused {
            code: 0,
            description: "`api_base_url` or the token is not part of a valid address".to_owned(),
        };
    }
    let why = if err.is_timeout() {
        "telegram did not answer in time"
    } else {
        "the connection broke"
    };
    ApiError::Ambiguous(why.to_owned())
}
