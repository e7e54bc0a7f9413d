//! The transcript of the demo script: lines, each with the result of its check.

use serde::Serialize;

/// A line of the transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TranscriptLine {
    /// The scene the line belongs to.
    pub scene: &'static str,
    /// The place: `#platform`, `Telegram`, `webhook`.
    pub place: &'static str,
    /// The speaker.
    pub who: &'static str,
    /// The spoken words, or the finding.
    pub text: String,
    /// True if the expectation was met.
    pub ok: bool,
}

/// A collector of lines that shows each of them immediately.
pub struct Transcript<'a> {
    scene: &'static str,
    lines: Vec<TranscriptLine>,
    show: &'a mut (dyn FnMut(&TranscriptLine) + Send),
}

/// The number of lines of a message that are shown; further lines are only counted.
const LINES_SHOWN_MAX: usize = 24;
/// The number of lines of an excerpt.
const EXCERPT_LINES_MAX: usize = 4;

impl<'a> Transcript<'a> {
    /// Creates an empty transcript.
    pub fn new(show: &'a mut (dyn FnMut(&TranscriptLine) + Send)) -> Self {
        Self {
            scene: "",
            lines: Vec::new(),
            show,
        }
    }

    /// Begins a scene.
    pub fn scene(&mut self, scene: &'static str) {
        self.scene = scene;
    }

    /// Adds the words of a user.
    pub fn says(&mut self, place: &'static str, who: &'static str, text: &str) {
        self.push(place, who, first_lines(text, LINES_SHOWN_MAX), true);
    }

    /// Adds an answer of Drydock, which must contain every one of `expected`.
    pub fn expect_answer(&mut self, place: &'static str, text: &str, expected: &[&str]) {
        self.answer(place, (text, LINES_SHOWN_MAX), expected);
    }

    /// Adds an answer of Drydock like [`Transcript::expect_answer`], and shows only its first lines.
    pub fn expect_excerpt(&mut self, place: &'static str, text: &str, expected: &[&str]) {
        self.answer(place, (text, EXCERPT_LINES_MAX), expected);
    }

    fn answer(&mut self, place: &'static str, (text, lines_max): (&str, usize), expected: &[&str]) {
        let missing: Vec<&str> = expected
            .iter()
            .copied()
            .filter(|expected| !text.contains(expected))
            .collect();
        if missing.is_empty() {
            self.push(place, "drydock", first_lines(text, lines_max), true);
        } else {
            let wrong = format!("(expected to read {missing:?})\n{text}");
            self.push(place, "drydock", first_lines(&wrong, LINES_SHOWN_MAX), false);
        }
    }

    /// Adds a fact that must hold.
    pub fn expect(&mut self, place: &'static str, text: &str, holds: bool) {
        self.push(place, "checked", first_lines(text, LINES_SHOWN_MAX), holds);
    }

    /// Returns true if every line held.
    pub fn passed(&self) -> bool {
        !self.lines.is_empty() && self.lines.iter().all(|line| line.ok)
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns true if there are no lines yet.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn push(&mut self, place: &'static str, who: &'static str, text: String, ok: bool) {
        let line = TranscriptLine {
            scene: self.scene,
            place,
            who,
            text,
            ok,
        };
        (self.show)(&line);
        self.lines.push(line);
    }
}

/// Returns the first lines of a text that are not empty, and the number of the others.
fn first_lines(text: &str, lines_max: usize) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .collect();
    let mut shown = lines
        .iter()
        .take(lines_max)
        .copied()
        .collect::<Vec<_>>()
        .join("\n");
    if lines.len() > lines_max {
        shown.push_str(&format!("\n… {} more lines", lines.len() - lines_max));
    }
    shown
}
