//! An answer of a model: its content, its calls with their results, and its tokens.

use crate::base::model::CallArguments;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// An answer of a model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Assistant {
    /// The content in Drydock's own format, in order.
    pub blocks: Vec<ContentBlock>,
    /// The provider's own blocks, sent back byte for byte to the same provider.
    pub raw: Option<RawBlocks>,
    /// The reason why the answer ended.
    pub stop: StopReason,
    /// The tokens the answer used.
    pub usage: Usage,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "block", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Text for the user.
    Text {
        /// The text.
        text: String,
    },
    /// A call of a tool.
    Call(ToolCall),
}

/// A tool call as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments; JSON if the model followed the format.
    pub arguments: CallArguments,
}

/// The result of one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call's id.
    pub call: String,
    /// The text that the model reads.
    pub content: String,
    /// True if the call failed; the turn continues.
    pub is_error: bool,
}

/// The provider's own JSON of an answer's blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RawBlocks {
    /// The provider that wrote the blocks; they are never sent to another one.
    pub provider: String,
    /// The blocks, byte for byte. If one of them contained a secret, no block is kept or sent back, and this is
    /// empty.
    pub blocks: Vec<Box<RawValue>>,
}

/// The reason why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model has finished.
    EndTurn,
    /// The model waits for tool results.
    ToolUse,
    /// The answer reached its token limit.
    MaxTokens,
    /// The provider refused to continue.
    Refusal,
}

/// The number of tokens, as counted by the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens neither read from nor written to the cache.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from the prompt cache.
    pub cache_read: u64,
    /// Input tokens written to the prompt cache.
    pub cache_write: u64,
}

impl Usage {
    /// Returns the total number of tokens of a call.
    pub fn total(self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }
}

impl Assistant {
    /// Creates an answer by Drydock, for turns that ended without one.
    pub fn synthetic(text: impl Into<String>) -> Self {
        Self {
            blocks: vec![ContentBlock::Text { text: text.into() }],
            raw: None,
            stop: StopReason::EndTurn,
            usage: Usage::default(),
        }
    }

    /// Returns the calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match block {
            ContentBlock::Call(call) => Some(call),
            ContentBlock::Text { .. } => None,
        })
    }

    /// Returns all text, blocks joined by an empty line.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .blocks
            .iter()
            .filter_map(|block| match block {
                ContentBlock::Text { text } if !text.trim().is_empty() => Some(text.as_str()),
                ContentBlock::Text { .. } | ContentBlock::Call(_) => None,
            })
            .collect();
        texts.join("\n\n")
    }
}
