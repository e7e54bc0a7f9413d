//! A response body that breaks as a script says: it stalls, ends early or tears the connection.

use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

/// The way a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyEnding {
    /// The body ends properly.
    Complete,
    /// The body does not end.
    Stall,
    /// The body ends with the connection.
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
    /// A body.
    pub(super) fn new(bytes: Bytes, ending: BodyEnding) -> Self {
        Self {
            bytes: Some(bytes).filter(|bytes| !bytes.is_empty()),
            ending,
            written_at: Arc::default(),
        }
    }

    /// Tells when its bytes were handed to the connection.
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
            // Woken by nobody: the connection's own end drops it.
            BodyEnding::Stall => Poll::Pending,
            BodyEnding::Reset => Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none() && self.ending == BodyEnding::Complete
    }
}
