//! Converts a decoded answer to a [`Completion`] that is safe to act on. Both codecs and both answer modes end here.
//! A call that may be truncated never keeps arguments that parse.

use super::codec::DecodeError;
use super::wording::callable_name;
use super::{Completion, SideCosts};
use crate::base::model::{Assistant, CallArguments, ContentBlock, RawBlocks, StopReason, ToolCall, Usage};
use serde_json::value::RawValue;
use std::collections::HashSet;

/// An answer as it was decoded from the wire.
#[derive(Debug)]
pub(super) struct Draft {
    /// The content in Drydock's own format, in order.
    pub(super) blocks: Vec<ContentBlock>,
    /// The provider's own blocks, if each of them is known byte for byte.
    pub(super) raw: Option<Vec<Box<RawValue>>>,
    /// The reason why the answer ended, as the provider reported it.
    pub(super) stop: StopReason,
    /// The tokens of the call.
    pub(super) usage: Usage,
    /// The model that wrote the answer.
    pub(super) model: String,
}

impl Draft {
    /// Finishes the answer of `provider`. Fails if two calls have the same id, or if a call has no name.
    pub(super) fn finish(mut self, provider: &str) -> Result<Completion, DecodeError> {
        check_calls(&self.blocks)?;
        self.blocks.retain(|block| match block {
            ContentBlock::Text { text } => !text.trim().is_empty(),
            ContentBlock::Call(_) => true,
        });
        match self.stop {
            StopReason::MaxTokens => self.invalidate_last_call(),
            StopReason::Refusal => self.drop_calls(),
            StopReason::EndTurn | StopReason::ToolUse => {}
        }
        // A call of a tool that cannot exist is answered with an error. Its invalid name cannot be sent back.
        let is_odd = |block: &ContentBlock| matches!(block, ContentBlock::Call(call) if callable_name(&call.name) != call.name);
        if assign_missing_ids(&mut self.blocks) || self.blocks.iter().any(is_odd) {
            self.raw = None;
        }
        let calls = self
            .blocks
            .iter()
            .any(|block| matches!(block, ContentBlock::Call(_)));
        let stop = match self.stop {
            StopReason::EndTurn if calls => StopReason::ToolUse,
            StopReason::ToolUse if !calls => StopReason::EndTurn,
            stop => stop,
        };
        // An answer without any usable content is not replayed either.
        let raw = self.raw.filter(|raw| !raw.is_empty() && !self.blocks.is_empty());
        Ok(Completion {
            assistant: Assistant {
                blocks: self.blocks,
                raw: raw.map(|blocks| RawBlocks {
                    provider: provider.to_owned(),
                    blocks,
                }),
                stop,
                usage: self.usage,
            },
            model: self.model,
            side: SideCosts::default(),
        })
    }

    /// Invalidates the arguments of the last call, which the token limit may have truncated. Truncated arguments can
    /// look complete, so they are replaced by a text that no schema accepts and that explains the reason to the
    /// model.
    fn invalidate_last_call(&mut self) {
        if let Some(ContentBlock::Call(call)) = self.blocks.last_mut()
            && call.arguments.json().is_some()
        {
            call.arguments = CallArguments::default();
        }
    }

    /// Removes the calls of a refused answer: they may be truncated, like any other part of it.
    fn drop_calls(&mut self) {
        let before = self.blocks.len();
        self.blocks
            .retain(|block| matches!(block, ContentBlock::Text { .. }));
        if self.blocks.len() < before {
            self.raw = None;
        }
    }
}

fn check_calls(blocks: &[ContentBlock]) -> Result<(), DecodeError> {
    let mut taken = HashSet::new();
    for block in blocks {
        let ContentBlock::Call(call) = block else { continue };
        let is_missing = call.id.trim().is_empty();
        if call.name.trim().is_empty() || !is_missing && !taken.insert(call.id.as_str()) {
            return Err(DecodeError::Malformed);
        }
    }
    Ok(())
}

/// Assigns ids to calls without one, which some servers send. Returns true if any had none.
fn assign_missing_ids(blocks: &mut [ContentBlock]) -> bool {
    let known = blocks.iter().filter_map(|block| match block {
        ContentBlock::Call(call) if !call.id.trim().is_empty() => Some(call.id.clone()),
        ContentBlock::Call(_) | ContentBlock::Text { .. } => None,
    });
    let mut taken: HashSet<String> = known.collect();
    let mut changed = false;
    for (index, block) in blocks.iter_mut().enumerate() {
        let ContentBlock::Call(call) = block else { continue };
        if call.id.trim().is_empty() {
            call.id = free_id(&taken, "call", index);
            taken.insert(call.id.clone());
            changed = true;
        }
    }
    changed
}

/// Returns the first free id of `stem_n`, `stem_n+1` and so on.
fn free_id(taken: &HashSet<String>, stem: &str, number: usize) -> String {
    (number..)
        .map(|number| format!("{stem}_{number}"))
        .find(|id| !taken.contains(id))
        .unwrap_or_default()
}

/// The call ids of one request. Providers require unique ids in an alphabet of their own, and a conversation may
/// contain calls of several providers.
#[derive(Debug)]
pub(super) struct RequestIds {
    is_allowed: fn(char) -> bool,
    taken: HashSet<String>,
}

impl RequestIds {
    /// Creates an empty set; characters that are not allowed are replaced.
    pub(super) fn new(is_allowed: fn(char) -> bool) -> Self {
        Self {
            is_allowed,
            taken: HashSet::new(),
        }
    }

    /// Returns the id to send for a call. The same conversation always gets the same ids.
    pub(super) fn assign(&mut self, call: &ToolCall) -> String {
        let mut id: String = call
            .id
            .chars()
            .map(|char| if (self.is_allowed)(char) { char } else { '_' })
            .take(ID_CHARS_MAX)
            .collect();
        if id.is_empty() || self.taken.contains(&id) {
            id = free_id(&self.taken, if id.is_empty() { "call" } else { &id }, 2);
        }
        self.taken.insert(id.clone());
        id
    }

    /// Reserves the id of a call that is replayed in the provider's own blocks.
    pub(super) fn keep(&mut self, call: &ToolCall) -> String {
        self.taken.insert(call.id.clone());
        call.id.clone()
    }
}

/// The maximum number of characters of an id: OpenAI refuses more than 40, and a number may be appended.
const ID_CHARS_MAX: usize = 36;

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::{DecodeError, Draft, RequestIds};
    use crate::base::model::{CallArguments, ContentBlock, StopReason, ToolCall, Usage};
    use serde_json::value::RawValue;

    fn call(id: &str, arguments: &str) -> ContentBlock {
        ContentBlock::Call(ToolCall {
            id: id.into(),
            name: "file_read".into(),
            arguments: arguments.into(),
        })
    }

    fn text(text: &str) -> ContentBlock {
        ContentBlock::Text { text: text.into() }
    }

    fn draft(blocks: Vec<ContentBlock>, stop: StopReason) -> Draft {
        let raw = Some(vec![
            RawValue::from_string("{\"type\":\"x\"}".into()).expect("raw"),
        ]);
        Draft {
            blocks,
            raw,
            stop,
            usage: Usage::default(),
            model: "m".into(),
        }
    }

    fn finished(blocks: Vec<ContentBlock>, stop: StopReason) -> (Vec<ContentBlock>, StopReason, bool) {
        let answer = draft(blocks, stop).finish("anthropic").expect("an answer");
        let assistant = answer.assistant;
        (assistant.blocks, assistant.stop, assistant.raw.is_some())
    }

    /// R12
    #[test]
    fn ids_that_are_missing_are_given_and_nothing_is_replayed() {
        let ids = vec![
            call("a", "{}"),
            call("", "{}"),
            call(" ", "{}"),
            call("call_1", "{}"),
        ];
        let (blocks, _, raw) = finished(ids, StopReason::ToolUse);
        let expected = vec![
            call("a", "{}"),
            call("call_2", "{}"),
            call("call_3", "{}"),
            call("call_1", "{}"),
        ];
        assert_eq!((blocks, raw), (expected, false));
    }

    /// R12
    #[test]
    fn ids_that_repeat_and_calls_of_nothing_are_no_answer() {
        let nameless = ContentBlock::Call(ToolCall {
            id: "a".into(),
            name: " ".into(),
            arguments: "{}".into(),
        });
        for blocks in [vec![call("a", "{}"), call("a", "{}")], vec![nameless]] {
            let answer = draft(blocks, StopReason::ToolUse).finish("anthropic");
            assert_eq!(answer.err(), Some(DecodeError::Malformed));
        }
    }

    /// R11, R12
    #[test]
    fn a_call_cut_by_the_token_limit_never_keeps_arguments_that_parse() {
        for arguments in ["{}", "{\"path\":\"a\"}", "null"] {
            let blocks = vec![call("a", "{}"), call("b", arguments)];
            let expected = vec![call("a", "{}"), call("b", "")];
            assert_eq!(
                finished(blocks, StopReason::MaxTokens),
                (expected, StopReason::MaxTokens, true)
            );
        }
        let cut = vec![call("a", "{\"path\":\"en")];
        assert_eq!(
            finished(cut.clone(), StopReason::MaxTokens),
            (cut, StopReason::MaxTokens, true)
        );
    }

    /// R12
    #[test]
    fn a_refused_answer_has_no_calls() {
        let outcome = finished(vec![text("no"), call("a", "{}")], StopReason::Refusal);
        assert_eq!(outcome, (vec![text("no")], StopReason::Refusal, false));
    }

    /// R12
    #[test]
    fn blank_text_is_no_answer() {
        assert_eq!(
            finished(vec![text(" \n")], StopReason::EndTurn),
            (vec![], StopReason::EndTurn, false)
        );
    }

    #[test]
    fn the_stop_reason_agrees_with_the_calls() {
        assert_eq!(
            finished(vec![call("a", "{}")], StopReason::EndTurn).1,
            StopReason::ToolUse
        );
        assert_eq!(
            finished(vec![text("a")], StopReason::ToolUse).1,
            StopReason::EndTurn
        );
    }

    #[test]
    fn a_request_names_each_call_once() {
        let ids = ["call_1", "call_1", "a b", "a_b", "", "ü"].map(|id| ToolCall {
            id: id.into(),
            name: String::new(),
            arguments: CallArguments::default(),
        });
        let mut request = RequestIds::new(|char| char.is_ascii_alphanumeric());
        let assigned: Vec<String> = ids.iter().map(|call| request.assign(call)).collect();
        assert_eq!(assigned, ["call_1", "call_1_2", "a_b", "a_b_2", "call_2", "_"]);
    }
}
