//! The contract of a wire format. Codecs are pure: no I/O, no clock, and the same conversation always becomes the
//! same bytes.

use super::sse::SseError;
use super::{Completion, StreamEvent, TurnRequest};
use crate::model::Secret;
use http::{HeaderName, HeaderValue};

/// The way an answer is delivered. Both ways end in the same [`Completion`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerMode {
    /// The answer comes as server-sent events.
    Streamed,
    /// The answer comes in one piece.
    Whole,
}

/// An error of decoding an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DecodeError {
    /// The answer ended before it was complete.
    Incomplete,
    /// The answer is not in the format.
    Malformed,
    /// The answer is over a bound.
    TooLong,
    /// The provider reported an error instead, after a status of success. The status is the one it
    /// would have had, the kind is the provider's word for it.
    Reported {
        /// The status that the error would have had.
        status: u16,
        /// The provider's word for the error.
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
    /// Returns the path that requests go to, below the base URL.
    fn path(&self) -> &'static str;

    /// The headers beside the content type. `None` if the key cannot be a header.
    fn headers(&self, api_key: Option<&Secret>) -> Option<Vec<(HeaderName, HeaderValue)>>;

    /// The body of a request.
    fn encode(&self, request: &TurnRequest<'_>, delivery: AnswerMode) -> Result<Vec<u8>, serde_json::Error>;

    /// Reads an answer delivered whole.
    fn decode(&self, body: &[u8]) -> Result<Completion, DecodeError>;

    /// Reads an answer delivered as a stream.
    fn decoder(&self) -> Box<dyn AnswerDecoder>;
}

/// Reads one streamed answer.
pub(super) trait AnswerDecoder: Send {
    /// Takes more bytes and says what they tell.
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<StreamEvent>, DecodeError>;

    /// True once the provider said that nothing follows.
    fn is_complete(&self) -> bool;

    /// Returns the answer, or [`DecodeError::Incomplete`] unless it is complete.
    fn finish(self: Box<Self>) -> Result<Completion, DecodeError>;
}

/// A header that never shows in logs.
pub(super) fn secret_header(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests;
