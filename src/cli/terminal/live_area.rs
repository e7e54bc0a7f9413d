//! The rows at the end of the screen that are drawn again and again while a turn runs. What is above them stays.

use crossterm::cursor::{MoveToColumn, MoveUp};
use crossterm::terminal::{Clear, ClearType, size};
use crossterm::{QueueableCommand, queue};
use std::io::Write;
use unicode_width::UnicodeWidthStr;

/// The size that is assumed if the terminal does not tell its own.
const SIZE_ASSUMED: (u16, u16) = (80, 24);
/// The minimum width that is used. A narrower terminal wraps the rows by itself.
const COLUMNS_MIN: usize = 20;

/// A line with the number of columns that it takes without its styles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScreenLine {
    /// The text with styles.
    pub(super) text: String,
    /// The number of columns.
    pub(super) columns: usize,
}

impl ScreenLine {
    /// Creates a line from a text without styles.
    pub(super) fn plain(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            columns: text.width(),
        }
    }

    /// Returns the number of rows that the line takes.
    fn rows(&self, columns: usize) -> usize {
        self.columns.div_ceil(columns).max(1)
    }
}

/// Returns the number of columns and rows of the terminal.
pub(in crate::cli) fn screen_size() -> (usize, usize) {
    let known = size().ok().filter(|(columns, rows)| *columns > 0 && *rows > 0);
    let (columns, rows) = known.unwrap_or(SIZE_ASSUMED);
    (usize::from(columns).max(COLUMNS_MIN), usize::from(rows))
}

/// The drawn rows. The cursor is at the end of the last one.
#[derive(Debug, Default)]
pub(super) struct LiveArea {
    rows: usize,
}

impl LiveArea {
    /// Replaces the drawn rows.
    pub(super) fn draw(&mut self, lines: &[ScreenLine], columns: usize) {
        let mut bytes = self.erasure();
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        bytes.extend_from_slice(texts.join("\n").as_bytes());
        self.rows = lines.iter().map(|line| line.rows(columns)).sum();
        print(&bytes);
    }

    /// Removes the drawn rows. The cursor is then where they began.
    pub(super) fn erase(&mut self) {
        let bytes = self.erasure();
        self.rows = 0;
        print(&bytes);
    }

    /// Returns the number of drawn rows.
    #[cfg(test)]
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    fn erasure(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Writing to memory does not fail.
        let _ = self.queue_erasure(&mut bytes);
        bytes
    }

    fn queue_erasure(&self, to: &mut Vec<u8>) -> std::io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        if let Ok(up @ 1..) = u16::try_from(self.rows - 1) {
            to.queue(MoveUp(up))?;
        }
        queue!(to, MoveToColumn(0), Clear(ClearType::FromCursorDown))
    }
}

/// Returns the last lines that fit into a number of rows.
pub(super) fn last_that_fit(lines: &[ScreenLine], rows_max: usize, columns: usize) -> &[ScreenLine] {
    let mut rows = 0;
    let fitting = lines.iter().rev().take_while(|line| {
        rows += line.rows(columns);
        rows <= rows_max
    });
    let count = fitting.count();
    lines.get(lines.len() - count..).unwrap_or_default()
}

fn print(bytes: &[u8]) {
    let mut to = std::io::stderr().lock();
    // A terminal that is gone ends the session elsewhere.
    let _ = to.write_all(bytes).and_then(|()| to.flush());
}

#[cfg(test)]
mod tests {
    use super::{ScreenLine, last_that_fit};

    #[test]
    fn a_line_takes_as_many_rows_as_it_needs() {
        let lines = ["one", &"x".repeat(25), "", "日本"].map(ScreenLine::plain);
        assert_eq!(lines.each_ref().map(|line| line.rows(10)), [1, 3, 1, 1]);
        assert_eq!(last_that_fit(&lines, 5, 10), &lines[1..]);
        assert_eq!(last_that_fit(&lines, 4, 10), &lines[2..]);
        assert_eq!(last_that_fit(&lines, 0, 10), &[]);
        assert_eq!(lines[3].columns, 4);
    }
}
