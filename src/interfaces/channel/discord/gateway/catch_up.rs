//! The way of missed messages to the gateway of Drydock. Messages of the session wait behind them, so the order is kept.

use super::missed::MissedMessages;
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::collections::VecDeque;

/// The missed messages, while they are read and until all are accepted.
pub(super) struct CatchUp<'a> {
    reading: Option<BoxFuture<'a, Option<MissedMessages>>>,
    /// The messages that are not yet decoded, oldest first.
    waiting: VecDeque<Value>,
    /// The number of messages that are not yet accepted.
    open: usize,
    newest: u64,
}

impl<'a> CatchUp<'a> {
    pub(super) fn begin(reading: BoxFuture<'a, Option<MissedMessages>>) -> Self {
        Self {
            reading: Some(reading),
            waiting: VecDeque::new(),
            open: 0,
            newest: 0,
        }
    }

    /// Returns true until the messages are read.
    pub(super) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Adds the messages that were read.
    pub(super) fn take(&mut self, missed: MissedMessages) {
        self.reading = None;
        self.open = missed.events.len();
        self.newest = missed.newest;
        self.waiting = missed.events;
    }

    /// Returns the next message to decode.
    pub(super) fn next_event(&mut self) -> Option<Value> {
        self.waiting.pop_front()
    }

    /// Records that the gateway of Drydock accepted a message, or that it is nothing to accept.
    pub(super) fn accept(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Returns the newest id up to which all messages are accepted, once they are.
    pub(super) fn finished(&self) -> Option<u64> {
        (!self.is_reading() && self.open == 0).then_some(self.newest)
    }
}

/// Returns the messages once they are read; `None` if they cannot be read.
pub(super) async fn read_missed(catch_up: &mut Option<CatchUp<'_>>) -> Option<MissedMessages> {
    match catch_up.as_mut().and_then(|catch_up| catch_up.reading.as_mut()) {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}
