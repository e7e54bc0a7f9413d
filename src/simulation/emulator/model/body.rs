//! A response body with scripted faults: it pauses, stalls, ends early or breaks the connection.

use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;
use tokio_util::sync::WaitForCancellationFutureOwned;

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

/// The part of a body that is held back until it is released.
#[derive(Debug)]
struct HeldPart {
    released: Pin<Box<WaitForCancellationFutureOwned>>,
    bytes: Bytes,
}

/// A body and its ending.
#[derive(Debug)]
pub(super) struct AnswerBody {
    bytes: Option<Bytes>,
    held: Option<HeldPart>,
    ending: BodyEnding,
    written_at: Arc<OnceLock<Instant>>,
}

impl AnswerBody {
    /// Creates a body.
    pub(super) fn new(bytes: Bytes, ending: BodyEnding) -> Self {
        Self {
            bytes: Some(bytes).filter(|bytes| !bytes.is_empty()),
            held: None,
            ending,
            written_at: Arc::default(),
        }
    }

    /// Adds bytes that are held back until `released` ends.
    pub(super) fn with_held(self, bytes: Bytes, released: WaitForCancellationFutureOwned) -> Self {
        let released = Box::pin(released);
        Self {
            held: Some(HeldPart { released, bytes }),
            ..self
        }
    }

    /// Records the time at which the last bytes were passed to the connection.
    pub(super) fn with_written_at(self, written_at: Arc<OnceLock<Instant>>) -> Self {
        Self { written_at, ..self }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if let Some(bytes) = self.bytes.take() {
            if self.held.is_none() {
                self.written_at.get_or_init(Instant::now);
            }
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if let Some(held) = &mut self.held {
            std::task::ready!(held.released.as_mut().poll(context));
            let bytes = std::mem::take(&mut held.bytes);
            self.held = None;
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
        self.bytes.is_none() && self.held.is_none() && self.ending == BodyEnding::Complete
    }
}
