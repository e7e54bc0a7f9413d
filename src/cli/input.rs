//! Reads lines of bounded length from a terminal or a pipe. Reading can be cancelled.

use std::pin::pin;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader, Stdin};

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InputLine {
    /// A line without its end.
    Text(String),
    /// A line that is not UTF-8.
    NotText,
    /// A line that exceeded the limit and was skipped.
    TooLong,
    /// The end of the input.
    End,
}

/// A reader of lines. If [`InputReader::next`] is cancelled, the bytes read so far are kept.
#[derive(Debug)]
pub(super) struct InputReader<R> {
    reader: R,
    line: Vec<u8>,
    skipping: bool,
    bytes_max: usize,
}

impl InputReader<BufReader<Stdin>> {
    /// Creates a reader of the program's standard input.
    pub(super) fn standard(bytes_max: usize) -> Self {
        Self::new(BufReader::new(tokio::io::stdin()), bytes_max)
    }
}

impl<R: AsyncBufRead + Unpin> InputReader<R> {
    fn new(reader: R, bytes_max: usize) -> Self {
        Self {
            reader,
            line: Vec::new(),
            skipping: false,
            bytes_max,
        }
    }

    /// Reads the next line.
    pub(super) async fn next(&mut self) -> std::io::Result<InputLine> {
        loop {
            let chunk = pin!(self.reader.fill_buf()).await?;
            if chunk.is_empty() {
                let nothing = self.line.is_empty() && !self.skipping;
                return Ok(if nothing { InputLine::End } else { self.take() });
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            if self.skipping || self.line.len() + part.len() > self.bytes_max {
                self.skipping = true;
                self.line.clear();
            } else {
                self.line.extend_from_slice(part);
            }
            let read = part.len() + usize::from(end.is_some());
            self.reader.consume(read);
            if end.is_some() {
                return Ok(self.take());
            }
        }
    }

    fn take(&mut self) -> InputLine {
        if std::mem::take(&mut self.skipping) {
            return InputLine::TooLong;
        }
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        str::from_utf8(line).map_or(InputLine::NotText, |text| InputLine::Text(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{InputLine, InputReader};

    #[tokio::test]
    async fn an_input_line_that_is_not_utf_8_is_flagged_and_the_next_line_is_read() {
        let mut input = InputReader::new(&b"caf\xe9\ncaf\xc3\xa9\n"[..], 10);
        assert_eq!(input.next().await.unwrap(), InputLine::NotText);
        assert_eq!(input.next().await.unwrap(), InputLine::Text("café".to_owned()));
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped_and_the_next_one_read() {
        let long = "x".repeat(100_000);
        let text = format!("one\r\n{long}\n\n\u{e4}\nlast");
        let mut input = InputReader::new(text.as_bytes(), 10);
        let line = |text: &str| InputLine::Text(text.to_owned());
        for wanted in [
            line("one"),
            InputLine::TooLong,
            line(""),
            line("ä"),
            line("last"),
            InputLine::End,
        ] {
            assert_eq!(input.next().await.unwrap(), wanted);
        }
        let mut input = InputReader::new(long.as_bytes(), 10);
        assert_eq!(input.next().await.unwrap(), InputLine::TooLong);
        assert_eq!(input.next().await.unwrap(), InputLine::End);
    }
}
