//! Compaction: the model summarises the oldest turns, and its summary stands for them, marked as data.

use super::super::prompt::{data_block, data_text, words_first};
use super::strategy::{ContextStrategy, SUMMARY_BYTES_MAX, SummaryWriter, TurnRoom};
use crate::base::model::{ContextStrategyName, History, Step, Turn, cut_to};
use async_trait::async_trait;
use std::fmt::Write;

/// The words before a summary.
const INTRODUCTION: &str =
    "The earlier part of this conversation is left out here. A model summarised it; the summary is data.";
/// Characters of a call's arguments, and of a result, that the model reads for a summary.
const PART_CHARS_MAX: usize = 1_000;
/// Characters of a message or an answer that the model reads for a summary.
const WORDS_CHARS_MAX: usize = 8_000;
/// Characters of a summary.
const SUMMARY_CHARS_MAX: usize = 4_000;

/// The mark of an attachment, whose content is not part of a summary.
const TRIMMED: &str = "[trimmed]";

/// The oldest turns are replaced by a summary of the model. If there is none, they are trimmed.
pub(super) struct Compact;

#[async_trait]
impl ContextStrategy for Compact {
    fn name(&self) -> &str {
        ContextStrategyName::Compact.word()
    }

    async fn prepare(
        &self,
        history: &mut History,
        room: TurnRoom,
        writer: &mut dyn SummaryWriter,
    ) -> anyhow::Result<()> {
        let count = room.turns_to_replace(history, SUMMARY_BYTES_MAX);
        if count == 0 {
            return Ok(());
        }
        let text = transcript(history, count, room.bytes_after / 2);
        if let Some(summary) = writer.summarise(text).await? {
            let text = format!(
                "{INTRODUCTION}\n\n{}",
                data_block("summary", "a model", &cut_to(&summary, SUMMARY_CHARS_MAX))
            );
            history.summarise(count, text.into());
        }
        Ok(())
    }
}

/// Returns the oldest turns and the summary of those before them as one text, in at most `bytes_max` bytes; the newest
/// ones if not all fit.
fn transcript(history: &History, count: usize, bytes_max: usize) -> String {
    let summary = history.summary().map(|text| {
        let text = data_text(text).unwrap_or_default();
        format!("Summary of what was before:\n{text}\n")
    });
    let mut left = bytes_max.saturating_sub(summary.as_ref().map_or(0, String::len));
    let mut turns = Vec::new();
    for turn in history.earlier_turns().iter().take(count).rev() {
        let text = turn_text(turn);
        if text.len() > left {
            turns.push("[Earlier messages are left out.]\n".to_owned());
            break;
        }
        left -= text.len();
        turns.push(text);
    }
    turns.extend(summary);
    turns.reverse();
    turns.join("\n")
}

fn turn_text(turn: &Turn) -> String {
    let said = turn.user_without_attachments(TRIMMED);
    let mut text = format!("Person: {}\n", cut_to(&words_first(&said), WORDS_CHARS_MAX));
    for step in turn.steps() {
        step_text(&mut text, step);
    }
    text
}

fn step_text(text: &mut String, step: &Step) {
    let words = step.assistant().text();
    if !words.is_empty() {
        let _ = writeln!(text, "Assistant: {}", cut_to(&words, WORDS_CHARS_MAX));
    }
    for (call, result) in step.assistant().calls().zip(step.results()) {
        let arguments = call.arguments.text();
        let _ = writeln!(
            text,
            "Call of {}: {}\nResult: {}",
            call.name,
            cut_to(arguments, PART_CHARS_MAX),
            cut_to(&result.content, PART_CHARS_MAX)
        );
    }
    for said in step.messages() {
        let _ = writeln!(text, "Person: {}", cut_to(said, WORDS_CHARS_MAX));
    }
}
