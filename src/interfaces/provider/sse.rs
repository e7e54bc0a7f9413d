//! A parser for server-sent events that accepts input in pieces of any size. Lines end with LF, CRLF or CR; a byte
//! order mark and comments are skipped; an event is complete only after its empty line.

/// The maximum number of bytes of a line.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// The maximum number of bytes of a stream.
pub(super) const STREAM_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The reason why a stream cannot be parsed further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SseError {
    /// A line, or the whole stream, exceeds its limit.
    TooLong,
    /// The data of an event is not UTF-8.
    NotText,
}

/// A parser that collects bytes into the data of events.
#[derive(Debug, Default)]
pub(super) struct SseParser {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    after_carriage_return: bool,
    after_first_line: bool,
    bytes: usize,
}

impl SseParser {
    /// Adds bytes and returns the data of each event that they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, SseError> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > STREAM_BYTES_MAX {
            return Err(SseError::TooLong);
        }
        let mut events = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_carriage_return)
                && let [b'\n', after @ ..] = rest
            {
                rest = after;
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', rest);
            let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
            if self.line.len() + part.len() > LINE_BYTES_MAX {
                return Err(SseError::TooLong);
            }
            self.line.extend_from_slice(part);
            rest = after;
            if let [ended_by, after @ ..] = rest {
                self.after_carriage_return = *ended_by == b'\r';
                rest = after;
                events.extend(self.end_line()?);
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Result<Option<String>, SseError> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !std::mem::replace(&mut self.after_first_line, true) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_event();
        }
        // The data of every event repeats its type, so `event`, `id` and `retry` are not needed.
        if let Some(value) = line.strip_prefix(b"data") {
            let value = match value {
                [b':', b' ', value @ ..] | [b':', value @ ..] => value,
                [] => &[],
                _ => return Ok(None),
            };
            if self.has_data {
                self.data.push(b'\n');
            }
            self.has_data = true;
            self.data.extend_from_slice(value);
        }
        Ok(None)
    }

    fn end_event(&mut self) -> Result<Option<String>, SseError> {
        if !std::mem::take(&mut self.has_data) {
            return Ok(None);
        }
        let data = std::mem::take(&mut self.data);
        String::from_utf8(data).map(Some).map_err(|_| SseError::NotText)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::{LINE_BYTES_MAX, SseError, SseParser};
    use proptest::prelude::*;

    const STREAM: &str = "\u{feff}: hello\r\nevent: a\r\ndata: {\"x\":\"grüße 🚢\"}\r\n\r\n:\n\ndata:one\ndata: two\n\nid: 7\rdata\r\rdatabase: no\n\n";

    fn expected() -> Vec<String> {
        vec!["{\"x\":\"grüße 🚢\"}".into(), "one\ntwo".into(), String::new()]
    }

    /// R11, STK-41
    #[test]
    fn events_are_the_same_wherever_the_bytes_are_cut() {
        for cut in 0..=STREAM.len() {
            let (head, tail) = STREAM.as_bytes().split_at(cut);
            let mut parser = SseParser::default();
            let mut events = parser.push(head).expect("head");
            events.extend(parser.push(tail).expect("tail"));
            assert_eq!(events, expected(), "cut at {cut}");
        }
        let mut parser = SseParser::default();
        let single = STREAM
            .bytes()
            .flat_map(|byte| parser.push(&[byte]).expect("byte"));
        assert_eq!(single.collect::<Vec<_>>(), expected());
    }

    /// R11
    #[test]
    fn a_line_without_end_is_refused() {
        let mut parser = SseParser::default();
        let mut pushed = 0;
        let outcome = loop {
            match parser.push(&[b'x'; 65_536]) {
                Ok(_) => pushed += 65_536,
                Err(error) => break error,
            }
        };
        assert_eq!((outcome, pushed), (SseError::TooLong, LINE_BYTES_MAX));
    }

    #[test]
    fn a_stream_without_end_is_refused() {
        let mut parser = SseParser::default();
        let line = format!(": {}\n", "x".repeat(65_533));
        let accepted = (0..10_000)
            .take_while(|_| parser.push(line.as_bytes()).is_ok())
            .count();
        assert_eq!(accepted, 256);
    }

    #[test]
    fn an_event_that_is_not_text_is_refused() {
        let mut parser = SseParser::default();
        assert_eq!(parser.push(b"data: \xff\xfe\n\n"), Err(SseError::NotText));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512), cut in 0usize..512) {
            let cut = cut.min(bytes.len());
            let mut whole = SseParser::default();
            let mut halves = SseParser::default();
            let one = whole.push(&bytes);
            let two = halves.push(&bytes[..cut]).and_then(|mut events| {
                events.extend(halves.push(&bytes[cut..])?);
                Ok(events)
            });
            prop_assert_eq!(one, two);
        }
    }
}
