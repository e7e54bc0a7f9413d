//! A response body with scripted faults: it stalls, ends early or breaks the connection.

use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

/// The ending of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyEnding {
    /// The body ends normally.
    Complete,
    /// The body never ends.
    Stall,
    /// The body ends with a connection reset.
    Reset,
}

/// A body and its ending.
#[derive(Debug)]
pub(super) struct AnswerBody {
    bytes: Option<Bytes>,
    ending: BodyEnding,
    written_at: Arc<OnceLock<Instant>>,
}

impl AnswerBody {
    /// Creates a body.
    pub(super) fn new(bytes: Bytes, ending: BodyEnding) -> Self {
        Self {
            bytes: Some(bytes).filter(|bytes| !bytes.is_empty()),
            ending,
            written_at: Arc::default(),
        }
    }

    /// Records the time at which the bytes were passed to the connection.
    pub(super) fn with_written_at(self, written_at: Arc<OnceLock<Instant>>) -> Self {
        Self { written_at, ..self }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if let Some(bytes) = self.bytes.take() {
            self.written_at.get_or_init(Instant::now);
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match self.ending {
            BodyEnding::Complete => Poll::Ready(None),
            // No wake-up is registered: the end of the connection drops the body.
            BodyEnding::Stall => Poll::Pending,
            BodyEnding::Reset => Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none() && self.ending == BodyEnding::Complete
    }
}
