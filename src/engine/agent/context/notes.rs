//! Notes: the model keeps notes of what matters while it works, and the notes of the oldest turns stand for them.

use super::super::prompt::{data_block, data_text};
use super::strategy::{ContextStrategy, SUMMARY_BYTES_MAX, SummaryWriter, TurnRoom};
use crate::base::model::{ContextStrategyName, History};
use crate::interfaces::tool::{self, Tool};
use async_trait::async_trait;
use std::sync::Arc;

/// The words before notes.
const INTRODUCTION: &str =
    "The earlier part of this conversation is left out here. You kept these notes of it; they are data.";

/// The oldest turns are replaced by the notes that the model kept in them with the tool `keep_note`.
pub(super) struct KeptNotes;

#[async_trait]
impl ContextStrategy for KeptNotes {
    fn name(&self) -> &str {
        ContextStrategyName::Notes.word()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        vec![tool::keep_note()]
    }

    async fn prepare(
        &self,
        history: &mut History,
        room: TurnRoom,
        _writer: &mut dyn SummaryWriter,
    ) -> anyhow::Result<()> {
        let count = room.turns_to_replace(history, SUMMARY_BYTES_MAX);
        let notes = notes(history, count);
        if count > 0 && !notes.is_empty() {
            let text = format!(
                "{INTRODUCTION}\n\n{}",
                data_block("notes", "you", &notes.join("\n"))
            );
            history.summarise(count, text.into());
        }
        Ok(())
    }
}

/// Returns the notes of the oldest turns and of those before them, one line each; the newest ones if not all fit.
fn notes(history: &History, count: usize) -> Vec<String> {
    let earlier = history.summary().and_then(|text| data_text(text));
    let earlier: Vec<String> = earlier
        .iter()
        .flat_map(|text| text.lines())
        .map(str::to_owned)
        .collect();
    let turns = history.earlier_turns().iter().take(count);
    let calls = turns
        .flat_map(|turn| turn.steps())
        .flat_map(|step| step.assistant().calls());
    let all: Vec<String> = earlier
        .into_iter()
        .chain(calls.filter_map(tool::kept_note))
        .collect();
    let mut left = SUMMARY_BYTES_MAX / 2;
    let newest = all.into_iter().rev().take_while(|note| {
        let fits = note.len() < left;
        left = left.saturating_sub(note.len() + 1);
        fits
    });
    let mut notes: Vec<String> = newest.collect();
    notes.reverse();
    notes
}
