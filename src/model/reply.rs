//! The content of a reply, free of any platform's markup. Channels render it and escape everything.

use super::{Sender, one_line};
use serde::{Deserialize, Serialize};

/// A reply as a list of parts, top to bottom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The parts, top to bottom.
    pub parts: Vec<ReplyPart>,
}

/// One part of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum ReplyPart {
    /// Mentions the person the reply is for: the only mention a reply can hold.
    Mention {
        /// The person to mention.
        to: Sender,
    },
    /// A bold line in our own words. Backticks mark code; nothing else is markup.
    Heading {
        /// One line.
        text: String,
    },
    /// Plain sentences in our own words. Backticks mark code; nothing else is markup.
    Text {
        /// The sentences.
        text: String,
    },
    /// Text of the model, in Markdown. Rendered from its syntax tree: no mentions, no images, no
    /// HTML; links only to allowed hosts, all others as visible text.
    Markdown {
        /// The source.
        text: String,
    },
    /// A preformatted block.
    Code {
        /// `diff`, `yaml` or empty.
        language: String,
        /// The lines of the block. May hold any characters, fences included.
        text: String,
    },
    /// Label and value, one row each.
    Facts {
        /// The rows.
        rows: Vec<(String, String)>,
    },
    /// One grey line at the end.
    Footer {
        /// The line.
        text: String,
    },
    /// A row of buttons.
    Buttons {
        /// The buttons, left to right.
        buttons: Vec<Button>,
    },
}

/// A button that carries an opaque one-shot token, never a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// The text on the button.
    pub label: String,
    /// 22 characters of base64url; bound in the store to run, action, person and expiry.
    pub token: String,
    /// The look of the button.
    pub style: ButtonStyle,
}

/// The look of a button.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ButtonStyle {
    /// Neutral.
    Plain,
    /// The likely next step.
    Primary,
    /// Loses something.
    Danger,
}

impl Reply {
    /// A reply of one plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            parts: vec![ReplyPart::Text { text: text.into() }],
        }
    }

    /// Returns its words without their look, part below part; buttons and mentions have none.
    pub fn plain(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                ReplyPart::Mention { .. } | ReplyPart::Buttons { .. } => continue,
                ReplyPart::Heading { text: words }
                | ReplyPart::Text { text: words }
                | ReplyPart::Markdown { text: words }
                | ReplyPart::Code { text: words, .. }
                | ReplyPart::Footer { text: words } => text.push_str(words.trim_end_matches('\n')),
                ReplyPart::Facts { rows } => {
                    let rows = rows
                        .iter()
                        .map(|(label, value)| one_line(&format!("{label}: {value}")));
                    text.push_str(&rows.collect::<Vec<_>>().join("\n"));
                }
            }
            text.push('\n');
        }
        text
    }

    /// Adds a part.
    #[must_use]
    pub fn with(mut self, part: ReplyPart) -> Self {
        self.parts.push(part);
        self
    }
}
