//! The content of a reply, without any platform's markup. Channels render and escape it.

use super::{Sender, TaskList, one_line};
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
    /// A mention of the user who gets the reply: the only mention that a reply can contain.
    Mention {
        /// The user to mention.
        to: Sender,
    },
    /// A bold line by Drydock. Backticks mark code; there is no other markup.
    Heading {
        /// The line.
        text: String,
    },
    /// Plain sentences by Drydock. Backticks mark code; there is no other markup.
    Text {
        /// The sentences.
        text: String,
    },
    /// Text of the model, in Markdown. It is rendered from its syntax tree: no mentions, no images, no HTML; links
    /// only to allowed hosts, all others as visible text.
    Markdown {
        /// The Markdown source.
        text: String,
    },
    /// A preformatted block.
    Code {
        /// The language: `diff`, `yaml` or empty.
        language: String,
        /// The lines of the block. They may contain any characters, including fences.
        text: String,
    },
    /// Labels with values, one pair in each row.
    Facts {
        /// The rows.
        rows: Vec<(String, String)>,
    },
    /// The pieces of running work with their states, below a title.
    Tasks {
        /// The title and the tasks.
        list: TaskList,
    },
    /// Details below a title, which the reader opens and closes.
    Fold {
        /// The title: one line. Backticks mark code; there is no other markup.
        title: String,
        /// The state at first.
        state: FoldState,
        /// The details: texts, Markdown, code and facts.
        parts: Vec<ReplyPart>,
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

/// The state of a fold before the reader touches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoldState {
    /// The details are visible.
    Open,
    /// Only the title is visible.
    Closed,
}

/// A button with an opaque one-shot token, never a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// The text on the button.
    pub label: String,
    /// The token: 22 characters of base64url. The store binds it to run, action, user and expiry.
    pub token: String,
    /// The look of the button.
    pub style: ButtonStyle,
    /// The question that a platform asks before a press counts. Platforms that cannot ask ignore it: see
    /// [`super::ChatProperties::confirms_presses`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<String>,
}

impl Button {
    /// Creates a button whose press counts at once.
    pub fn new(label: impl Into<String>, token: impl Into<String>, style: ButtonStyle) -> Self {
        Self {
            label: label.into(),
            token: token.into(),
            style,
            confirmation: None,
        }
    }
}

/// The look of a button.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ButtonStyle {
    /// Neutral.
    Plain,
    /// The most likely next action.
    Primary,
    /// An action that loses data.
    Danger,
}

impl Reply {
    /// Creates a reply with one plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            parts: vec![ReplyPart::Text { text: text.into() }],
        }
    }

    /// Returns the plain text of the parts; buttons and mentions have none.
    pub fn plain(&self) -> String {
        plain(&self.parts)
    }

    /// Adds a part.
    #[must_use]
    pub fn with(mut self, part: ReplyPart) -> Self {
        self.parts.push(part);
        self
    }
}

fn plain(parts: &[ReplyPart]) -> String {
    let mut text = String::new();
    for part in parts {
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
            ReplyPart::Tasks { list } => text.push_str(&format!("{}\n{}", list.title, list.lines())),
            ReplyPart::Fold { title, parts, .. } => {
                text.push_str(&format!("{title}\n{}", plain(parts).trim_end_matches('\n')));
            }
        }
        text.push('\n');
    }
    text
}
