//! The only place that prints.

use std::io::{IsTerminal, Write};

/// Standard output and standard error of the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    json: bool,
    colour: bool,
}

impl Output {
    pub(super) fn new(json: bool) -> Self {
        #[allow(
            clippy::disallowed_methods,
            reason = "the shell is where the environment is read"
        )]
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            json,
            colour: wanted && std::io::stdout().is_terminal(),
        }
    }

    /// Does the user want JSON?
    pub(super) fn json(&self) -> bool {
        self.json
    }

    /// A message for the person: standard error.
    pub(super) fn message(&self, text: &str) {
        write(std::io::stderr().lock(), text);
    }

    /// A prompt for the person, without a line end.
    pub(super) fn prompt(&self, text: &str) {
        let mut stream = std::io::stderr().lock();
        let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
    }

    /// Data: standard output.
    pub(super) fn line(&self, text: &str) {
        write(std::io::stdout().lock(), text);
    }

    /// Data as one line of JSON.
    pub(super) fn value(&self, value: &serde_json::Value) {
        self.line(&value.to_string());
    }

    /// Rows as aligned columns.
    pub(super) fn table(&self, header: &[&str], rows: &[Vec<String>]) {
        let all = || {
            std::iter::once(header.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>())
                .chain(rows.iter().cloned())
        };
        let width = |column: usize| {
            all()
                .filter_map(|row| Some(row.get(column)?.chars().count()))
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..header.len()).map(width).collect();
        for row in all() {
            let cells = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:<width$}"));
            self.line(cells.collect::<Vec<_>>().join("  ").trim_end());
        }
    }

    /// Dims a text where colours are wanted.
    pub(super) fn dim(&self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Makes a text bold where colours are wanted.
    pub(super) fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    /// A diff with its lines coloured where colours are wanted.
    pub(super) fn diff(&self, text: &str) -> String {
        let paint = |line: &str| match line.as_bytes().first() {
            _ if line.starts_with("diff ") => self.paint("1;34", line),
            Some(b'+') => self.paint("32", line),
            Some(b'-') => self.paint("31", line),
            Some(b'@') => self.paint("36", line),
            _ => line.to_owned(),
        };
        text.lines().map(paint).collect::<Vec<_>>().join("\n")
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

fn write(mut stream: impl Write, text: &str) {
    // A closed pipe is the reader's choice (`drydock user list | head -1`), not an error of ours.
    let _ = writeln!(stream, "{text}").and_then(|()| stream.flush());
}
