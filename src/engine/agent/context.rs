//! The budget of the context: how much of a conversation a request may hold, and when its older turns are trimmed.
//!
//! Nothing is trimmed before four fifths of the budget are used. Then so much is trimmed that many requests fit before
//! the next trim, and all of them begin with the same bytes, which providers cache.

mod compact;
mod notes;
mod strategy;

pub use strategy::{ContextStrategy, SummaryWriter, TurnRoom, strategy};

use super::offered_tools::largest_offer;
use super::prompt::{self, PromptFacts, RepositoryKind};
pub use super::window::RequestTooLong;
use super::window::{self, WindowBounds};
use crate::base::config::Config;
use crate::base::model::{History, Limits, Step, Turn, Usage, group_thousands};
use crate::interfaces::provider::{ToolSpec, fixed_bytes};
use crate::interfaces::tool::{Toolbox, ToolboxError};
use crate::state::access::Role;
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// The part of the budget, in percent, above which older turns are trimmed.
const TRIM_ABOVE: usize = 80;
/// The part of the budget, in percent, that is used after a trim.
const TRIM_TO: usize = 60;

/// The context window of a model about which nothing is known, in tokens.
const CONTEXT_TOKENS_ASSUMED: u32 = 128_000;
/// Bytes in a thousand tokens before a provider has counted any.
const BYTES_ASSUMED: u32 = 3_000;
/// Bytes in a thousand tokens that are believed.
const BYTES_BELIEVED: RangeInclusive<u32> = 1_000..=8_000;
/// The number of tokens from which the count of a provider says something about the next request.
const TOKENS_COUNTED_MIN: u64 = 1_000;

/// The bounds of the requests of one turn.
#[derive(Clone, Copy, Debug)]
pub struct ContextBudget {
    /// Tokens of a request without its answer.
    tokens_max: u64,
    /// Bytes of a request, whatever its tokens.
    history_bytes_max: usize,
    /// Whole turns of a request.
    turns_max: usize,
    /// Bytes of the parts that are the same in every request: instructions and tools.
    pub(super) fixed: usize,
}

impl ContextBudget {
    /// Creates the budget for requests with `fixed` bytes of instructions and tools, for a model whose context window
    /// has so many tokens.
    pub fn new(limits: &Limits, context_tokens: Option<u32>, fixed: usize) -> Self {
        let tokens = context_tokens.unwrap_or(CONTEXT_TOKENS_ASSUMED);
        Self {
            tokens_max: u64::from(tokens.saturating_sub(limits.answer_tokens_max)),
            history_bytes_max: limits.history_bytes_max,
            turns_max: limits.history_turns_max,
            fixed,
        }
    }

    /// Returns the bytes that a request may have.
    pub fn bytes_max(&self, bytes_per_1000_tokens: Option<u32>) -> usize {
        self.token_bytes_max(bytes_per_1000_tokens)
            .min(self.history_bytes_max)
    }

    /// Returns the bytes of the tokens that a request may have.
    fn token_bytes_max(&self, bytes_per_1000_tokens: Option<u32>) -> usize {
        let per_1000 = u64::from(bytes_per_1000_tokens.unwrap_or(BYTES_ASSUMED));
        usize::try_from(self.tokens_max.saturating_mul(per_1000) / 1_000).unwrap_or(usize::MAX)
    }

    /// Returns the bound in words, with the key that sets it.
    pub(super) fn bound_text(&self, bytes_per_1000_tokens: Option<u32>) -> String {
        match self.token_bytes_max(bytes_per_1000_tokens) {
            bytes if bytes < self.history_bytes_max => format!(
                "about {bytes} bytes fit into the context of the model (its `context_tokens` without an answer)"
            ),
            _ => format!("`limits.history_bytes_max` is {}", self.history_bytes_max),
        }
    }

    /// Returns the turns of a request; of the open turn as much as fits. `repeats` returns true for a tool whose calls
    /// give the same answer when repeated.
    pub fn turns<'h>(
        &self,
        history: &'h History,
        bytes_per_1000_tokens: Option<u32>,
        repeats: &dyn Fn(&str) -> bool,
    ) -> Result<Cow<'h, [Turn]>, RequestTooLong> {
        let bounds = WindowBounds {
            bytes_max: self.bytes_max(bytes_per_1000_tokens),
            fixed: self.fixed,
        };
        window::fit(history, bounds, repeats)
    }

    /// Returns the room of the turns, which are shortened if four fifths of the budget are used.
    pub fn room(&self, bytes_per_1000_tokens: Option<u32>) -> TurnRoom {
        let bytes_max = self.bytes_max(bytes_per_1000_tokens);
        let part = |percent: usize| (bytes_max / 100 * percent).saturating_sub(self.fixed);
        TurnRoom {
            bytes_before: part(TRIM_ABOVE),
            bytes_after: part(TRIM_TO),
            turns_before: self.turns_max,
            turns_after: (self.turns_max * TRIM_TO / 100).max(1),
        }
    }

    /// Trims older turns if four fifths of the budget are used. The same conversation is always trimmed equally.
    pub fn trim(&self, history: &mut History, bytes_per_1000_tokens: Option<u32>) {
        self.room(bytes_per_1000_tokens).trim(history);
    }
}

/// The instructions and the tools leave too little room in the context window of the model.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the instructions and tools have about {tokens} tokens, and the context window of `{model}` has {window}, of which \
     they may use half; set `{key}` to a model with a larger one, or `context_tokens` of \
     `[models.\"{model}\"]` if that is wrong"
)]
pub struct NoRoomForConversation {
    key: &'static str,
    model: String,
    tokens: u64,
    window: u32,
}

/// The reason why no turn can begin with the configured models and tools.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoomError {
    /// A model has too little room.
    #[error(transparent)]
    NoRoom(#[from] NoRoomForConversation),
    /// The tools cannot be offered.
    #[error(transparent)]
    Tools(#[from] ToolboxError),
}

/// Returns an error if instructions and tools use more than half of the context window of a model that may answer. All
/// tools count that a turn may offer with this configuration.
pub fn check_room(config: &Config, toolbox: &Toolbox) -> Result<(), RoomError> {
    let facts = PromptFacts {
        repository: "",
        branch: "",
        // The instructions for a person with some of the environments are the longest ones.
        role: Some(Role::Editor),
        environments: &["*".to_owned()],
    };
    let tools = largest_offer(config, toolbox)?;
    let fixed = fixed_bytes(&prompt::system(RepositoryKind::Tanka, &facts), tools.specs());
    let tokens = fixed as u64 * 1_000 / u64::from(BYTES_ASSUMED);
    for (index, name) in config.model.in_order().enumerate() {
        let (provider, model) = name.split_once('/').unwrap_or(("", name));
        let window = config.model_facts(provider, model).context_tokens;
        let window = window.unwrap_or(CONTEXT_TOKENS_ASSUMED);
        if tokens > u64::from(window / 2) {
            let no_room = NoRoomForConversation {
                key: match index {
                    0 => "model.default",
                    _ => "model.fallbacks",
                },
                model: name.to_owned(),
                tokens,
                window,
            };
            return Err(no_room.into());
        }
    }
    Ok(())
}

/// Returns the bytes in a thousand tokens of a request that a provider has counted; `None` if it counted too few.
pub(super) fn measured(bytes: usize, usage: Usage) -> Option<u32> {
    let tokens = usage
        .input
        .saturating_add(usage.cache_read)
        .saturating_add(usage.cache_write);
    if tokens < TOKENS_COUNTED_MIN {
        return None;
    }
    let per_1000 = u64::try_from(bytes).ok()?.saturating_mul(1_000) / tokens;
    let (least, most) = (*BYTES_BELIEVED.start(), *BYTES_BELIEVED.end());
    Some(u32::try_from(per_1000).unwrap_or(most).clamp(least, most))
}

/// The parts that are the same in every request, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedParts {
    /// The instructions.
    pub instructions: usize,
    /// The descriptions of the tools.
    pub tools: usize,
}

impl FixedParts {
    /// Measures instructions and tools.
    pub fn of(system: &str, tools: &[ToolSpec]) -> Self {
        let tools_alone = fixed_bytes("", tools);
        Self {
            instructions: fixed_bytes(system, tools) - tools_alone,
            tools: tools_alone,
        }
    }
}

/// The parts of a context, in bytes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextParts {
    /// The instructions.
    pub instructions: usize,
    /// The descriptions of the tools.
    pub tools: usize,
    /// The turns whose results are placeholders.
    pub trimmed: usize,
    /// The messages and answers of the other turns.
    pub turns: usize,
    /// The results of calls in the other turns.
    pub results: usize,
    /// The bytes that a request may have.
    pub bytes_max: usize,
    /// Bytes in a thousand tokens.
    pub bytes_per_1000_tokens: u32,
}

impl ContextParts {
    /// Measures the context of a conversation.
    pub fn measure(
        history: &History,
        FixedParts { instructions, tools }: FixedParts,
        (limits, context_tokens): (&Limits, Option<u32>),
        bytes_per_1000_tokens: Option<u32>,
    ) -> Self {
        let budget = ContextBudget::new(limits, context_tokens, instructions + tools);
        let (trimmed, whole) = history.turns().split_at(history.trimmed_turns());
        let trimmed = trimmed.iter().map(Turn::bytes).sum();
        let steps = whole.iter().flat_map(Turn::steps);
        let results = steps.map(Step::results_bytes).sum();
        Self {
            instructions,
            tools,
            trimmed,
            turns: history.bytes() - trimmed - results,
            results,
            bytes_max: budget.bytes_max(bytes_per_1000_tokens),
            bytes_per_1000_tokens: bytes_per_1000_tokens.unwrap_or(BYTES_ASSUMED),
        }
    }

    /// Returns one line for each part: its name, and its bytes, estimated tokens and share of what a request may have.
    pub fn rows(&self) -> Vec<(String, String)> {
        let parts = [
            ("Instructions", self.instructions),
            ("Tools", self.tools),
            ("Trimmed turns", self.trimmed),
            ("Turns", self.turns),
            ("Results of tools", self.results),
        ];
        let all = parts.iter().map(|(_, bytes)| bytes).sum();
        let parts = parts.into_iter().chain([("In all", all)]);
        let row = |(name, bytes): (&str, usize)| (name.to_owned(), self.size(bytes));
        parts
            .map(row)
            .chain([("Room for".to_owned(), self.size(self.bytes_max))])
            .collect()
    }

    fn size(&self, bytes: usize) -> String {
        let tokens = bytes as u64 * 1_000 / u64::from(self.bytes_per_1000_tokens.max(1));
        let percent = bytes * 100 / self.bytes_max.max(1);
        format!(
            "{} bytes, about {} tokens, {percent} %",
            group_thousands(bytes as u64),
            group_thousands(tokens)
        )
    }
}

#[cfg(test)]
mod tests;
