//! Writes inline content in the Markdown of a platform. What others wrote is escaped by that platform's rules.

use super::{Inline, PLAIN, SpanStyle};
use crate::interfaces::channel::visible::escape_line;

/// The Markdown of a platform, as far as it is not the same everywhere.
pub(in crate::interfaces::channel) struct MarkdownDialect {
    /// Returns the source of a text that the platform shows as it is, in one or more lines.
    pub(in crate::interfaces::channel) escaped: fn(&str) -> String,
    /// Returns code within a line.
    pub(in crate::interfaces::channel) inline_code: fn(&str) -> String,
}

impl MarkdownDialect {
    /// Returns the source of inline content, with `look` for all of it.
    pub(in crate::interfaces::channel) fn inline(&self, inline: &Inline, look: SpanStyle) -> String {
        match inline {
            Inline::Code { text, .. } => (self.inline_code)(text),
            // Without the angle brackets, Discord would fetch the page.
            Inline::Link { label, url, .. } => format!("[{}](<{url}>)", (self.escaped)(&escape_line(label))),
            Inline::Text { text, style } => {
                let lines = text.split('\n').map(|line| self.styled(line, style.and(look)));
                lines.collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// Returns a line with its style. Marks beside spaces would be shown, so they are around the words only.
    fn styled(&self, line: &str, style: SpanStyle) -> String {
        let words = line.trim();
        if words.is_empty() || style == PLAIN {
            return (self.escaped)(line);
        }
        let (before, after) = line.split_once(words).unwrap_or(("", ""));
        let marks: Vec<&str> = style.marks(["**", "*", "~~"]).collect();
        let open = marks.concat();
        let close: String = marks.iter().rev().copied().collect();
        format!("{before}{open}{}{close}{after}", (self.escaped)(words))
    }
}

/// The place in a line up to which it may be an item of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::interfaces::channel) enum LinePlace {
    /// Before the first visible character.
    Start,
    /// In the number with which the line begins.
    Number,
    /// After any other character.
    Middle,
}

impl LinePlace {
    /// Returns the place after a character.
    pub(in crate::interfaces::channel) fn after(self, character: char) -> Self {
        match (self, character) {
            (_, '\n') | (Self::Start, ' ' | '\t') => Self::Start,
            (Self::Start | Self::Number, '0'..='9') => Self::Number,
            _ => Self::Middle,
        }
    }
}
