//! Strategies: the ways in which a conversation is shortened when it has used four fifths of its room. Each is a value
//! behind [`ContextStrategy`]; `limits.context_strategy` names one of those here.

use super::compact::Compact;
use super::notes::KeptNotes;
use crate::base::model::{ContextStrategyName, History};
use crate::interfaces::tool::Tool;
use async_trait::async_trait;
use std::sync::Arc;

/// The most bytes of a text that stands for turns that are left out.
pub(super) const SUMMARY_BYTES_MAX: usize = 8_192;

/// A way to shorten a conversation. A turn applies it before each model call. Whatever it leaves in excess of the room
/// is trimmed afterwards, so no strategy makes a request too long.
#[async_trait]
pub trait ContextStrategy: Send + Sync {
    /// Returns the name.
    fn name(&self) -> &str;

    /// Returns the tools that the model needs for the strategy.
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }

    /// Shortens the closed turns of a history. The open turn, and pairs of calls and results, stay as they are.
    async fn prepare(
        &self,
        history: &mut History,
        room: TurnRoom,
        writer: &mut dyn SummaryWriter,
    ) -> anyhow::Result<()>;
}

#[async_trait]
impl<S: ContextStrategy + ?Sized> ContextStrategy for &'static S {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        (**self).tools()
    }

    async fn prepare(
        &self,
        history: &mut History,
        room: TurnRoom,
        writer: &mut dyn SummaryWriter,
    ) -> anyhow::Result<()> {
        (**self).prepare(history, room, writer).await
    }
}

/// The model of the turn as a writer of summaries. Its calls are bounded, budgeted and recorded like others.
#[async_trait]
pub trait SummaryWriter: Send {
    /// Returns a summary of a text, without secrets; `None` if the model gives none or a budget does not cover it.
    async fn summarise(&mut self, text: String) -> anyhow::Result<Option<String>>;
}

/// The room of a conversation in a request, beside instructions and tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnRoom {
    /// The number of bytes from which the conversation is shortened.
    pub(super) bytes_before: usize,
    /// The number of bytes that it has afterwards.
    pub(super) bytes_after: usize,
    /// The number of turns from which it is shortened.
    pub(super) turns_before: usize,
    /// The number of turns that it has afterwards.
    pub(super) turns_after: usize,
}

impl TurnRoom {
    /// Returns true if a history is to be shortened.
    pub fn is_exceeded(&self, history: &History) -> bool {
        history.turns().len() > self.turns_before || history.bytes() > self.bytes_before
    }

    /// Returns the number of the oldest turns to leave out, so that the others and a text of `text_bytes` that stands for
    /// them fit; 0 if the history is not to be shortened.
    pub fn turns_to_replace(&self, history: &History, text_bytes: usize) -> usize {
        if !self.is_exceeded(history) {
            return 0;
        }
        let by_bytes = history.turns_over(self.bytes_after.saturating_sub(text_bytes));
        let by_turns = match history.turns().len() > self.turns_before {
            true => history.turns().len().saturating_sub(self.turns_after),
            false => 0,
        };
        by_bytes.max(by_turns).min(history.earlier_turns().len())
    }

    /// Trims a history if it is to be shortened: results become placeholders, then whole turns are left out. The same
    /// history is always trimmed equally.
    pub fn trim(&self, history: &mut History) {
        if history.turns().len() > self.turns_before {
            history.keep_newest(self.turns_after);
        }
        if history.bytes() > self.bytes_before {
            history.trim(self.bytes_after);
        }
    }
}

/// Returns the strategy with a name.
pub fn strategy(name: ContextStrategyName) -> &'static dyn ContextStrategy {
    match name {
        ContextStrategyName::Trim => &Trim,
        ContextStrategyName::Compact => &Compact,
        ContextStrategyName::Notes => &KeptNotes,
    }
}

/// Results of older turns become placeholders, then whole turns are left out.
struct Trim;

#[async_trait]
impl ContextStrategy for Trim {
    fn name(&self) -> &str {
        ContextStrategyName::Trim.word()
    }

    async fn prepare(
        &self,
        history: &mut History,
        room: TurnRoom,
        _writer: &mut dyn SummaryWriter,
    ) -> anyhow::Result<()> {
        room.trim(history);
        Ok(())
    }
}
