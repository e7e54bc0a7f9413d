//! The interface of a wire format. Codecs are pure: they use no I/O and no clock, and the same conversation is always
//! encoded to the same bytes.

use super::sse::SseError;
use super::{Completion, StreamEvent, TurnRequest};
pub(super) use crate::base::config::AnswerMode;
use crate::base::model::Secret;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};

/// An error of decoding an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DecodeError {
    /// The answer ended before it was complete.
    Incomplete,
    /// The answer is not in the format.
    Malformed,
    /// The answer exceeds a limit.
    TooLong,
    /// The provider reported an error after a success status. The status is the one that the error would have had;
    /// the kind is the provider's name for it.
    Reported {
        /// The status that the error would have had.
        status: u16,
        /// The provider's name for the error.
        kind: String,
    },
}

impl From<SseError> for DecodeError {
    fn from(error: SseError) -> Self {
        match error {
            SseError::TooLong => Self::TooLong,
            SseError::NotText => Self::Malformed,
        }
    }
}

impl From<serde_json::Error> for DecodeError {
    fn from(_: serde_json::Error) -> Self {
        Self::Malformed
    }
}

/// A wire format.
pub(super) trait Codec: Send + Sync {
    /// Returns the path of requests below the base URL, with a query if the format has one.
    fn path(&self, model: &str, delivery: AnswerMode) -> String;

    /// Returns what to set if the service does not support the format, for a format that services like this one often
    /// lack.
    fn rarely_supported(&self) -> Option<&'static str> {
        None
    }

    /// Returns the headers except the content type. `None` if the key cannot be a header.
    fn headers(&self, api_key: Option<&Secret>) -> Option<Vec<(HeaderName, HeaderValue)>>;

    /// Encodes the body of a request.
    fn encode(&self, request: &TurnRequest<'_>, delivery: AnswerMode) -> Result<Vec<u8>, serde_json::Error>;

    /// Decodes an answer that was delivered whole.
    fn decode(&self, body: &[u8]) -> Result<Completion, DecodeError>;

    /// Creates a decoder for an answer that is delivered as a stream.
    fn decoder(&self) -> Box<dyn AnswerDecoder>;

    /// Returns a streamed answer of at least 4,096 bytes with text and two calls, as the provider sends it.
    #[cfg(test)]
    fn recorded_answer(&self) -> String;
}

/// A decoder of one streamed answer.
pub(super) trait AnswerDecoder: Send {
    /// Decodes more bytes and returns their events.
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<StreamEvent>, DecodeError>;

    /// Returns true once the provider has marked the end of the answer.
    fn is_complete(&self) -> bool;

    /// Returns the answer, or [`DecodeError::Incomplete`] unless it is complete.
    fn finish(self: Box<Self>) -> Result<Completion, DecodeError>;
}

/// Returns the header of a bearer token.
pub(super) fn bearer_header(api_key: &Secret) -> Option<(HeaderName, HeaderValue)> {
    let value = secret_header(&format!("Bearer {}", api_key.expose()))?;
    Some((AUTHORIZATION, value))
}

/// Returns a header that is never logged.
pub(super) fn secret_header(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests;
