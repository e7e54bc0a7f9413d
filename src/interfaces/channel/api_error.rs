//! [`ApiError`]: the failure of a call to a platform that answers with a code and a reason, classified by its effect. No
//! error contains an address, which may hold a token.

use super::SendError;
use crate::base::http_client::{AnswerReadError, read_answer};
use bytes::Bytes;
use reqwest::Response;
use std::time::Duration;

/// The maximum number of characters of a reason that are repeated in an error.
const REASON_CHARS_MAX: usize = 200;

/// An error of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ApiError {
    /// The server could not be reached.
    Unreachable(String),
    /// The platform rejects the token.
    Unauthorised(String),
    /// The platform of this name requires fewer calls.
    Limited {
        platform: &'static str,
        retry_after: Option<Duration>,
    },
    /// The platform refused the call. The code is 0 if the platform sent none.
    Refused { code: u64, reason: String },
    /// The platform refused a form of a message which the next call leaves out.
    OtherForm(String),
    /// The outcome is unknown: the call may or may not have taken effect.
    Ambiguous(String),
}

impl ApiError {
    /// Creates the error of a call that cannot be made, or was refused without a code.
    pub(super) fn refused(reason: &str) -> Self {
        Self::Refused {
            code: 0,
            reason: reason.to_owned(),
        }
    }

    /// Creates the error of a call whose answer says nothing.
    pub(super) fn unreadable() -> Self {
        Self::Ambiguous("the answer is unreadable".to_owned())
    }

    /// Converts an error of the client to a fixed text, because its own text contains the address and so the token.
    pub(super) fn of_transport(platform: &'static str, error: &reqwest::Error) -> Self {
        if error.is_connect() {
            Self::Unreachable(format!("{platform} could not be reached"))
        } else if error.is_builder() {
            Self::refused("`api_base_url` or the token is not part of a valid request")
        } else if error.is_timeout() {
            Self::Ambiguous(format!("{platform} did not answer in time"))
        } else {
            Self::Ambiguous("the connection broke".to_owned())
        }
    }

    /// Converts the error of a post or an upload, whose repetition would be visible.
    pub(super) fn into_post_error(self) -> SendError {
        match self {
            Self::Unreachable(why) => SendError::Unreachable(why),
            Self::Unauthorised(why) => SendError::Unauthorised(why),
            Self::Limited {
                platform,
                retry_after,
            } => SendError::Limited {
                why: format!("{platform} limits the rate of calls"),
                retry_after,
            },
            Self::Refused { code: 0, reason } => SendError::Refused(reason),
            Self::Refused { code, reason } => SendError::Refused(format!("{code} {reason}")),
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
            error => error.into_post_error(),
        }
    }

    /// Returns true if the platform refused the call with this code.
    pub(super) fn is(&self, wanted: u64) -> bool {
        matches!(self, Self::Refused { code, .. } if *code == wanted)
    }

    /// Returns true if the platform refused the call with these words.
    pub(super) fn says(&self, words: &str) -> bool {
        let words = words.to_ascii_lowercase();
        matches!(self, Self::Refused { reason, .. } if reason.to_ascii_lowercase().contains(&words))
    }
}

/// Reads the answer to a call, of at most `bytes_max` bytes. The status alone shows that a refused call had no effect, so
/// its answer may be cut.
pub(super) async fn read_call_answer(
    platform: &'static str,
    response: &mut Response,
    bytes_max: usize,
) -> Result<Vec<u8>, ApiError> {
    let mut body = Vec::new();
    match read_answer(response, bytes_max, &mut body).await {
        Err(AnswerReadError::TooLong) => Err(ApiError::Ambiguous("the answer is too long".to_owned())),
        Err(AnswerReadError::Broken(error)) if response.status().as_u16() < 400 => {
            Err(ApiError::of_transport(platform, &error))
        }
        Ok(()) | Err(AnswerReadError::Broken(_)) => Ok(body),
    }
}

/// Reads the content of a file; `None` if it is larger than `bytes_max` bytes.
pub(super) async fn read_file_answer(
    platform: &'static str,
    response: &mut Response,
    bytes_max: usize,
) -> Result<Option<Bytes>, ApiError> {
    let mut content = Vec::new();
    match read_answer(response, bytes_max, &mut content).await {
        Ok(()) => Ok(Some(content.into())),
        Err(AnswerReadError::TooLong) => Ok(None),
        Err(AnswerReadError::Broken(error)) => Err(ApiError::of_transport(platform, &error)),
    }
}

/// Returns a text of the server for use in an error, without these secrets: a proxy may quote the request.
pub(super) fn shown_reason(reason: &str, secrets: &[&str]) -> String {
    let secrets = secrets.iter().filter(|secret| !secret.is_empty());
    let shown = secrets.fold(reason.to_owned(), |shown, secret| shown.replace(*secret, "***"));
    let shown = shown.chars().filter(|character| !character.is_control());
    shown.take(REASON_CHARS_MAX).collect()
}
