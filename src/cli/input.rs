//! Lines a person types, or a pipe brings: bounded, and a wait for one can be given up.

use std::pin::pin;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader, Stdin};

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line without its end.
    Text(String),
    /// A line that is not UTF-8.
    NotText,
    /// A line of more bytes than fit; it was skipped.
    TooLong,
    /// The end of the input.
    End,
}

/// Reads lines. What was read of a line is kept when [`Input::next`] is given up.
#[derive(Debug)]
pub(super) struct Input<R> {
    reader: R,
    line: Vec<u8>,
    skipping: bool,
    bytes_max: usize,
}

impl Input<BufReader<Stdin>> {
    /// The program's standard input.
    pub(super) fn standard(bytes_max: usize) -> Self {
        Self::new(BufReader::new(tokio::io::stdin()), bytes_max)
    }
}

impl<R: AsyncBufRead + Unpin> Input<R> {
    fn new(reader: R, bytes_max: usize) -> Self {
        Self {
            reader,
            line: Vec::new(),
            skipping: false,
            bytes_max,
        }
    }

    /// The next line.
    pub(super) async fn next(&mut self) -> std::io::Result<Line> {
        loop {
            let chunk = pin!(self.reader.fill_buf()).await?;
            if chunk.is_empty() {
                let nothing = self.line.is_empty() && !self.skipping;
                return Ok(if nothing { Line::End } else { self.take() });
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

    fn take(&mut self) -> Line {
        if std::mem::take(&mut self.skipping) {
            return Line::TooLong;
        }
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        str::from_utf8(line).map_or(Line::NotText, |text| Line::Text(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{Input, Line};

    #[tokio::test]
    async fn what_is_not_text_is_told_apart_and_the_next_line_read() {
        let mut input = Input::new(&b"caf\xe9\ncaf\xc3\xa9\n"[..], 10);
        assert_eq!(input.next().await.unwrap(), Line::NotText);
        assert_eq!(input.next().await.unwrap(), Line::Text("café".to_owned()));
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped_and_the_next_one_read() {
        let long = "x".repeat(100_000);
        let text = format!("one\r\n{long}\n\n\u{e4}\nlast");
        let mut input = Input::new(text.as_bytes(), 10);
        let line = |text: &str| Line::Text(text.to_owned());
        for wanted in [
            line("one"),
            Line::TooLong,
            line(""),
            line("ä"),
            line("last"),
            Line::End,
        ] {
            assert_eq!(input.next().await.unwrap(), wanted);
        }
        let mut input = Input::new(long.as_bytes(), 10);
        assert_eq!(input.next().await.unwrap(), Line::TooLong);
        assert_eq!(input.next().await.unwrap(), Line::End);
    }
}
