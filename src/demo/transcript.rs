//! The transcript of the story: lines, each with the result of its check.

use serde::Serialize;

/// A line of the story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TranscriptLine {
    /// The scene it belongs to.
    pub scene: &'static str,
    /// The place: `#platform`, `Telegram`, `webhook`.
    pub place: &'static str,
    /// The speaker.
    pub who: &'static str,
    /// The words that are said, or the finding.
    pub text: String,
    /// False when what was expected did not happen.
    pub ok: bool,
}

/// Collects the lines and shows each as it happens.
pub struct Transcript<'a> {
    scene: &'static str,
    lines: Vec<TranscriptLine>,
    show: &'a mut (dyn FnMut(&TranscriptLine) + Send),
}

/// Lines of a message that are shown; the rest is counted.
const LINES_SHOWN_MAX: usize = 24;

impl<'a> Transcript<'a> {
    /// An empty transcript.
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

    /// Adds words that a person says.
    pub fn says(&mut self, place: &'static str, who: &'static str, text: &str) {
        self.push(place, who, text, true);
    }

    /// Drydock says something that must hold every one of `expected`.
    pub fn expect_answer(&mut self, place: &'static str, text: &str, expected: &[&str]) {
        let missing: Vec<&str> = expected
            .iter()
            .copied()
            .filter(|expected| !text.contains(expected))
            .collect();
        if missing.is_empty() {
            self.push(place, "drydock", text, true);
        } else {
            self.push(
                place,
                "drydock",
                &format!("{text}\n(expected to read {missing:?})"),
                false,
            );
        }
    }

    /// A fact that must hold.
    pub fn expect(&mut self, place: &'static str, text: &str, holds: bool) {
        self.push(place, "checked", text, holds);
    }

    /// Returns true if every line held.
    pub fn passed(&self) -> bool {
        !self.lines.is_empty() && self.lines.iter().all(|line| line.ok)
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// True before the first line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn push(&mut self, place: &'static str, who: &'static str, text: &str, ok: bool) {
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty())
            .collect();
        let mut shown = lines
            .iter()
            .take(LINES_SHOWN_MAX)
            .copied()
            .collect::<Vec<_>>()
            .join("\n");
        if lines.len() > LINES_SHOWN_MAX {
            shown.push_str(&format!("\n… {} more lines", lines.len() - LINES_SHOWN_MAX));
        }
        let line = TranscriptLine {
            scene: self.scene,
            place,
            who,
            text: shown,
            ok,
        };
        (self.show)(&line);
        self.lines.push(line);
    }
}
