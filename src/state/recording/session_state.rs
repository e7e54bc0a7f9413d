//! The state of a terminal session that is recorded with each step, so that a later session goes on from it.

use super::Redact;
use crate::base::model::{ContextState, Money, OutputNumber, RawBlocks, Step, TrimBoundary, TurnId, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// The tokens of the model calls of a session, and what they did cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionUsage {
    /// The tokens.
    pub usage: Usage,
    /// The cost of the calls whose price is known.
    pub cost: Money,
    /// The number of calls of unknown price.
    pub unpriced_calls: u32,
}

impl SessionUsage {
    /// Counts a call; `cost` is `None` if its price is not known.
    pub fn add(&mut self, usage: Usage, cost: Option<Money>) {
        self.usage += usage;
        match cost {
            Some(cost) => self.cost += cost,
            None => self.unpriced_calls = self.unpriced_calls.saturating_add(1),
        }
    }
}

/// The bytes of a session's requests in a thousand tokens, as a provider counted them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredTokens {
    /// The model, as `provider/model`. Another one has other tokens.
    pub model: String,
    /// The bytes.
    pub bytes_per_1000_tokens: u32,
}

/// The provider's own blocks of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RecordedBlocks {
    provider: String,
    /// Each block as text, so that its bytes stay.
    blocks: Vec<String>,
}

/// The state of a session after a step, or after a summary of its earlier part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionState {
    /// The number of lines of the step after the line of its answer.
    lines: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trimmed: Option<TurnId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dropped: Option<TurnId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measured: Option<MeasuredTokens>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own: Option<RecordedBlocks>,
    /// The number of the newest output.
    last_output: Option<OutputNumber>,
    /// The usage of the session so far, with this step.
    used: SessionUsage,
}

impl SessionState {
    /// Creates the state after a step with this context. `model` is the model whose tokens were counted.
    pub fn new(
        step: &Step,
        context: &ContextState,
        model: &str,
        (last_output, used): (OutputNumber, SessionUsage),
    ) -> Self {
        let own = step.assistant().raw.as_ref().map(|raw| RecordedBlocks {
            provider: raw.provider.clone(),
            blocks: raw.blocks.iter().map(|block| block.get().to_owned()).collect(),
        });
        Self {
            lines: step.results().len() + usize::from(step.remark().is_some()) + step.messages().len(),
            own,
            ..Self::of_context(context, model, (last_output, used))
        }
    }

    /// Creates the state of a session with this context that is not recorded with a step.
    pub fn of_context(
        context: &ContextState,
        model: &str,
        (last_output, used): (OutputNumber, SessionUsage),
    ) -> Self {
        let measured = context.bytes_per_1000_tokens.map(|bytes| MeasuredTokens {
            model: model.to_owned(),
            bytes_per_1000_tokens: bytes,
        });
        Self {
            lines: 0,
            trimmed: context.boundary.trimmed,
            dropped: context.boundary.dropped,
            summary: context.summary.as_deref().map(str::to_owned),
            measured,
            own: None,
            last_output: Some(last_output),
            used,
        }
    }

    /// Returns the number of lines of the step after the line of its answer.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    /// Returns the turns up to which the conversation was trimmed.
    pub(super) fn boundary(&self) -> TrimBoundary {
        TrimBoundary {
            trimmed: self.trimmed,
            dropped: self.dropped,
        }
    }

    /// Returns the text that stands for the turns that are left out.
    pub(super) fn summary(&self) -> Option<&str> {
        self.summary.as_deref()
    }

    /// Returns the bytes of requests in a thousand tokens.
    pub(super) fn measured(&self) -> Option<&MeasuredTokens> {
        self.measured.as_ref()
    }

    /// Returns the number of the newest output.
    pub(super) fn last_output(&self) -> OutputNumber {
        self.last_output.unwrap_or(OutputNumber(0))
    }

    /// Returns what the session used.
    pub(super) fn used(&self) -> SessionUsage {
        self.used
    }

    /// Returns the provider's own blocks. If one of them cannot be read, there are none, and the parsed parts of the
    /// answer are sent instead.
    pub(super) fn own_blocks(&self) -> Option<RawBlocks> {
        let own = self.own.as_ref()?;
        let blocks = own.blocks.iter().cloned().map(RawValue::from_string);
        Some(RawBlocks {
            provider: own.provider.clone(),
            blocks: blocks.collect::<Result<_, _>>().unwrap_or_default(),
        })
    }
}

/// Removes the provider's own blocks from the line of an answer if one of them has a secret. They are signed or read
/// byte for byte, so they cannot be redacted.
pub(super) fn remove_blocks_with_secrets(line: &mut Value, redact: &Redact) {
    let Some(Value::Array(blocks)) = line.pointer_mut("/session/own/blocks") else {
        return;
    };
    let has_secret = |block: &Value| block.as_str().is_some_and(|text| redact(text) != text);
    if blocks.iter().any(has_secret) {
        blocks.clear();
    }
}
