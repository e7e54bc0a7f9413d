//! A socket with deadlines for reading headers, for waiting for the next request and for writing an answer or a part of one
//! that goes on. hyper's own header timer cannot distinguish the first two.

use super::bounds::ListenerBounds;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// The phase of a connection, shared by its socket and its request handler.
pub(super) struct Phase(AtomicU8);

const HEADERS: u8 = 0;
const SERVING: u8 = 1;
const IDLE: u8 = 2;
const STREAMING: u8 = 3;

impl Phase {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU8::new(HEADERS)))
    }

    /// Enters the phase after the headers, in which the handler has its own deadlines.
    pub(super) fn serving(&self) {
        self.0.store(SERVING, Ordering::Relaxed);
    }

    /// Enters the phase after the answer is ready: the client has to read it and then begin the next request.
    pub(super) fn idle(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }

    /// Enters the phase of an answer that goes on: the client has to read each part in time, and nothing else is timed.
    pub(super) fn streaming(&self) {
        self.0.store(STREAMING, Ordering::Relaxed);
    }
}

/// A socket with deadlines. A missed deadline is an [`io::ErrorKind::TimedOut`], which ends the connection.
pub(super) struct DeadlineStream {
    stream: TcpStream,
    phase: Arc<Phase>,
    header_time_max: Duration,
    idle_time_max: Duration,
    watched: u8,
    /// True while a part of an answer that goes on waits to be written.
    is_part_waiting: bool,
    deadline: Pin<Box<Sleep>>,
}

impl DeadlineStream {
    /// Creates the stream and starts the header deadline of the first request: it counts from the accepted
    /// connection.
    pub(super) fn new(stream: TcpStream, phase: Arc<Phase>, bounds: &ListenerBounds) -> Self {
        Self {
            stream,
            phase,
            header_time_max: bounds.header_time_max,
            idle_time_max: bounds.idle_time_max,
            watched: HEADERS,
            is_part_waiting: false,
            deadline: Box::pin(tokio::time::sleep(bounds.header_time_max)),
        }
    }

    /// Returns true if the current deadline has passed; otherwise registers for the wake-up.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> bool {
        let phase = self.phase.0.load(Ordering::Relaxed);
        if phase != self.watched {
            self.watched = phase;
            let time_max = if phase == HEADERS {
                self.header_time_max
            } else {
                self.idle_time_max
            };
            self.deadline.as_mut().reset(Instant::now() + time_max);
        }
        is_timed(phase) && self.deadline.as_mut().poll(cx).is_ready()
    }

    /// Continues to wait, unless the deadline has passed.
    fn wait<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if self.poll_deadline(cx) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }

    /// Continues to wait for the outcome of a write, unless its deadline has passed. Each part of an answer that goes on has
    /// its own.
    fn written<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let is_streaming = self.phase.0.load(Ordering::Relaxed) == STREAMING;
        match outcome {
            Poll::Ready(done) => {
                self.is_part_waiting = false;
                Poll::Ready(done)
            }
            Poll::Pending if is_streaming => {
                if !self.is_part_waiting {
                    self.is_part_waiting = true;
                    self.deadline.as_mut().reset(Instant::now() + self.idle_time_max);
                }
                match self.deadline.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                    Poll::Pending => Poll::Pending,
                }
            }
            Poll::Pending => self.wait(cx),
        }
    }
}

/// True for a phase in which the socket has a deadline whatever it does.
fn is_timed(phase: u8) -> bool {
    !matches!(phase, SERVING | STREAMING)
}

impl AsyncRead for DeadlineStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let paced = self.get_mut();
        if is_timed(paced.phase.0.load(Ordering::Relaxed)) && paced.poll_deadline(cx) {
            // The deadline is checked before reading as well: if a sender drips bytes, the socket is always readable.
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buf.filled().len();
        match Pin::new(&mut paced.stream).poll_read(cx, buf) {
            Poll::Pending => paced.wait(cx),
            Poll::Ready(done) => {
                let began = buf.filled().len() > before;
                // The header deadline of the next request starts with its first byte.
                if began && paced.phase.0.load(Ordering::Relaxed) == IDLE {
                    paced.phase.0.store(HEADERS, Ordering::Relaxed);
                    let _on_time = paced.poll_deadline(cx);
                }
                Poll::Ready(done)
            }
        }
    }
}

impl AsyncWrite for DeadlineStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let paced = self.get_mut();
        let outcome = Pin::new(&mut paced.stream).poll_write(cx, buf);
        paced.written(cx, outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let paced = self.get_mut();
        let outcome = Pin::new(&mut paced.stream).poll_write_vectored(cx, bufs);
        paced.written(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let paced = self.get_mut();
        ready!(Pin::new(&mut paced.stream).poll_flush(cx))?;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
