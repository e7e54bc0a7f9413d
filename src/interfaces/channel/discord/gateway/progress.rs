//! The position of a session: the last event of which it and all earlier ones are accepted.

use std::collections::VecDeque;

/// The received events that are not yet accepted, in order, and the position before them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EventProgress {
    /// The sequence numbers from the first that is not accepted, and whether each is.
    open: VecDeque<(u64, bool)>,
    accepted: Option<u64>,
}

impl EventProgress {
    /// Adds a received event.
    pub(super) fn receive(&mut self, sequence: u64) {
        self.open.push_back((sequence, false));
    }

    /// Marks an event as accepted, or as nothing to accept.
    pub(super) fn accept(&mut self, sequence: u64) {
        if let Some(event) = self.open.iter_mut().find(|(open, _)| *open == sequence) {
            event.1 = true;
        }
        while let Some((sequence, true)) = self.open.front().copied() {
            self.accepted = Some(sequence);
            self.open.pop_front();
        }
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
}

#[cfg(test)]
mod tests {
    use super::EventProgress;

    #[test]
    fn a_session_is_resumed_before_the_first_event_that_is_not_accepted() {
        let mut progress = EventProgress::default();
        for sequence in 1..=4 {
            progress.receive(sequence);
        }
        let mut positions = vec![progress.position()];
        for accepted in [3, 1, 2] {
            progress.accept(accepted);
            positions.push(progress.position());
        }
        assert_eq!(positions, [None, None, Some(1), Some(3)]);
        progress.rewind();
        progress.receive(4);
        progress.accept(4);
        assert_eq!(progress.position(), Some(4));
    }
}
