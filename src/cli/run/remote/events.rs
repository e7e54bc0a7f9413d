//! The server-sent events of a run, as they arrive in parts. Only what a server of this program sends is read.

/// The most bytes of one event. The texts of a run have 1 MiB, and each byte of them at most six in JSON.
pub(super) const EVENT_BYTES_MAX: usize = 16 << 20;

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SentRunEvent {
    /// The whole run.
    Run(Vec<u8>),
    /// The last state was sent.
    End,
    /// Something that tells nothing, such as a comment.
    Nothing,
}

/// An event that is longer than the bound.
#[derive(Debug)]
pub(super) struct EventTooLong;

/// The bytes that have arrived and are not read yet.
#[derive(Debug, Default)]
pub(super) struct ArrivedEvents {
    bytes: Vec<u8>,
    /// The bytes at the beginning that hold no end of an event.
    searched: usize,
}

impl ArrivedEvents {
    /// Adds a part.
    pub(super) fn push(&mut self, part: &[u8]) -> Result<(), EventTooLong> {
        if self.bytes.len() + part.len() > EVENT_BYTES_MAX {
            return Err(EventTooLong);
        }
        self.bytes.extend_from_slice(part);
        Ok(())
    }

    /// Returns the next whole event.
    pub(super) fn take_next(&mut self) -> Option<SentRunEvent> {
        let unsearched = self.bytes.get(self.searched..)?;
        let Some(found) = unsearched.windows(2).position(|pair| pair == b"\n\n") else {
            self.searched = self.bytes.len().saturating_sub(1);
            return None;
        };
        let end = self.searched + found;
        let rest = self.bytes.split_off(end + 2);
        let event = std::mem::replace(&mut self.bytes, rest);
        self.searched = 0;
        Some(read(event.get(..end).unwrap_or_default()))
    }
}

fn read(event: &[u8]) -> SentRunEvent {
    let (mut name, mut data): (&[u8], &[u8]) = (b"", b"");
    for line in event.split(|byte| *byte == b'\n') {
        if let Some(value) = line.strip_prefix(b"event: ") {
            name = value;
        } else if let Some(value) = line.strip_prefix(b"data: ") {
            data = value;
        }
    }
    match name {
        b"run" => SentRunEvent::Run(data.to_vec()),
        b"end" => SentRunEvent::End,
        _ => SentRunEvent::Nothing,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{ArrivedEvents, EVENT_BYTES_MAX, SentRunEvent};

    #[test]
    fn events_are_the_same_in_whatever_parts_they_arrive() {
        let text =
            b"event: run\ndata: {\"id\":1}\n\n: nothing has changed\n\nevent: run\ndata: {\"id\":2}\n\n\
                     event: end\ndata: {}\n\nevent: run\ndata: {";
        let expected = [
            SentRunEvent::Run(b"{\"id\":1}".to_vec()),
            SentRunEvent::Nothing,
            SentRunEvent::Run(b"{\"id\":2}".to_vec()),
            SentRunEvent::End,
        ];
        for bytes in 1..=text.len() {
            let mut arrived = ArrivedEvents::default();
            let mut found = Vec::new();
            for part in text.chunks(bytes) {
                arrived.push(part).unwrap();
                found.extend(std::iter::from_fn(|| arrived.take_next()));
            }
            assert_eq!(found, expected, "in parts of {bytes}");
        }
    }

    #[test]
    fn an_event_without_an_end_is_refused_at_its_bound() {
        let mut arrived = ArrivedEvents::default();
        arrived.push(&vec![b'a'; EVENT_BYTES_MAX]).unwrap();
        assert_eq!(arrived.take_next(), None);
        assert!(arrived.push(b"a").is_err());
    }
}
