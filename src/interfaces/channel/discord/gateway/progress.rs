//! The progress in a session: the last event of which it and all earlier ones are accepted, and the newest message among
//! them.

use std::collections::VecDeque;

/// The received events that are not yet accepted, in order, and the position before them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EventProgress {
    /// The events from the first that is not accepted.
    open: VecDeque<OpenEvent>,
    accepted: Option<u64>,
    seen: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenEvent {
    sequence: u64,
    /// The id of its message.
    message: Option<u64>,
    is_accepted: bool,
}

impl EventProgress {
    /// Returns the progress after the event `accepted`, with the newest message `seen`.
    pub(super) fn after(accepted: Option<u64>, seen: Option<u64>) -> Self {
        Self {
            open: VecDeque::new(),
            accepted,
            seen,
        }
    }

    /// Adds a received event, with the id of its message.
    pub(super) fn receive(&mut self, sequence: u64, message: Option<u64>) {
        self.open.push_back(OpenEvent {
            sequence,
            message,
            is_accepted: false,
        });
    }

    /// Marks an event as accepted, or as nothing to accept.
    pub(super) fn accept(&mut self, sequence: u64) {
        if let Some(event) = self.open.iter_mut().find(|event| event.sequence == sequence) {
            event.is_accepted = true;
        }
        while let Some(event) = self.open.pop_front_if(|event| event.is_accepted) {
            self.accepted = Some(event.sequence);
            self.seen = self.seen.max(event.message);
        }
    }

    /// Records that all messages up to an id are accepted or are no requests.
    pub(super) fn see(&mut self, message: u64) {
        self.seen = self.seen.max(Some(message));
    }

    /// Returns the number of received events from the first that is not accepted.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// Forgets the events that are not accepted: Discord sends them again.
    pub(super) fn rewind(&mut self) {
        self.open.clear();
    }

    /// Returns the sequence number from which the session is resumed.
    pub(super) fn position(&self) -> Option<u64> {
        self.accepted
    }

    /// Returns the highest id of a message up to the position.
    pub(super) fn seen(&self) -> Option<u64> {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::EventProgress;

    #[test]
    fn a_session_is_resumed_before_the_first_event_that_is_not_accepted() {
        let mut progress = EventProgress::default();
        for (sequence, message) in [(1, None), (2, Some(20)), (3, Some(30)), (4, Some(40))] {
            progress.receive(sequence, message);
        }
        let mut positions = vec![(progress.position(), progress.seen())];
        for accepted in [3, 1, 2] {
            progress.accept(accepted);
            positions.push((progress.position(), progress.seen()));
        }
        assert_eq!(
            positions,
            [(None, None), (None, None), (Some(1), None), (Some(3), Some(30))]
        );
        progress.rewind();
        progress.receive(4, Some(25));
        progress.accept(4);
        assert_eq!((progress.position(), progress.seen()), (Some(4), Some(30)));
    }
}
