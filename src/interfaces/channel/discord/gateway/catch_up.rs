//! The way of missed messages to the gateway of Drydock. Messages of the session wait behind them, so the order is kept.

use super::progress::EventProgress;
use super::reading::MissedMessages;
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::collections::VecDeque;
use tokio_util::sync::CancellationToken;

/// The missed messages, while they are read and until all are accepted.
pub(super) struct CatchUp<'a> {
    reading: Option<BoxFuture<'a, MissedMessages>>,
    /// Cancelled when no further message can wait behind the missed ones.
    enough: CancellationToken,
    /// The messages that are not yet decoded, oldest first.
    waiting: VecDeque<(u64, Value)>,
    /// The progress among the messages, whose ids are their sequence numbers.
    progress: EventProgress,
    newest: u64,
}

impl<'a> CatchUp<'a> {
    pub(super) fn begin(reading: BoxFuture<'a, MissedMessages>, enough: CancellationToken) -> Self {
        Self {
            reading: Some(reading),
            enough,
            waiting: VecDeque::new(),
            progress: EventProgress::default(),
            newest: 0,
        }
    }

    /// Returns true until the messages are read.
    pub(super) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Ends the reading with what was read.
    pub(super) fn give_up(&self) {
        self.enough.cancel();
    }

    /// Adds the messages that were read.
    pub(super) fn take(&mut self, missed: MissedMessages) {
        self.reading = None;
        for (id, _) in &missed.events {
            self.progress.receive(*id, Some(*id));
        }
        self.newest = missed.newest;
        self.waiting = missed.events;
    }

    /// Returns the next message to decode.
    pub(super) fn next_event(&mut self) -> Option<(u64, Value)> {
        self.waiting.pop_front()
    }

    /// Records that the gateway of Drydock accepted a message, or that it is nothing to accept. Returns the id up to
    /// which all are accepted.
    pub(super) fn accept(&mut self, id: u64) -> Option<u64> {
        self.progress.accept(id);
        self.progress.seen()
    }

    /// Returns the newest id up to which all messages are accepted, once they are.
    pub(super) fn finished(&self) -> Option<u64> {
        (!self.is_reading() && self.progress.open() == 0).then_some(self.newest)
    }
}

/// Returns the messages once they are read.
pub(super) async fn read_missed(catch_up: &mut Option<CatchUp<'_>>) -> MissedMessages {
    match catch_up.as_mut().and_then(|catch_up| catch_up.reading.as_mut()) {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}
