//! Ids of calls that are unique in a conversation.

use crate::base::model::{Assistant, ContentBlock, History, Turn};
use crate::interfaces::provider::Completion;
use std::collections::HashSet;

/// Makes the ids of an answer's calls unique in the whole conversation, so that each result has exactly one call. The
/// provider's own blocks are dropped if they contain an id that changes. A provider without ids pairs by order.
pub(super) fn unique_ids(mut completion: Completion, history: &History) -> Completion {
    let steps = history.turns().iter().flat_map(Turn::steps);
    let mut known: HashSet<String> = steps
        .flat_map(|step| step.assistant().calls().map(|call| call.id.clone()))
        .chain([String::new()])
        .collect();
    let earlier = known.len();
    let distinct = completion
        .assistant
        .calls()
        .all(|call| known.insert(call.id.clone()));
    if !distinct {
        if names_call(&completion.assistant) {
            completion.assistant.raw = None;
        }
        renumber(&mut completion.assistant, earlier, &mut known);
    }
    completion
}

/// Returns true if the provider's own blocks contain the id of a call, or may contain it with escapes.
fn names_call(assistant: &Assistant) -> bool {
    let own = assistant.raw.iter().flat_map(|raw| &raw.blocks);
    let is_plain = |id: &str| {
        id.chars()
            .all(|character| character.is_ascii_alphanumeric() || "_-.:".contains(character))
    };
    let names = |id: &str| !is_plain(id) || own.clone().any(|block| block.get().contains(id));
    assistant
        .calls()
        .any(|call| !call.id.is_empty() && names(&call.id))
}

fn renumber(assistant: &mut Assistant, earlier: usize, known: &mut HashSet<String>) {
    let calls = assistant.blocks.iter_mut().filter_map(|block| match block {
        ContentBlock::Call(call) => Some(call),
        ContentBlock::Text { .. } => None,
    });
    let mut number = earlier;
    for call in calls {
        while !known.insert(format!("call_{number}")) {
            number += 1;
        }
        call.id = format!("call_{number}");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::unique_ids;
    use crate::base::model::{
        Assistant, ContentBlock, History, RawBlocks, Step, StopReason, ToolCall, ToolResult, Usage,
    };
    use crate::interfaces::provider::{Completion, SideCosts};
    use serde_json::value::RawValue;

    fn answer(block: &str) -> Completion {
        Completion {
            assistant: Assistant {
                blocks: vec![ContentBlock::Call(ToolCall {
                    id: "call_0".to_owned(),
                    name: "file_read".to_owned(),
                    arguments: "{}".to_owned().into(),
                })],
                raw: Some(RawBlocks {
                    provider: "google".to_owned(),
                    blocks: vec![RawValue::from_string(block.to_owned()).unwrap()],
                }),
                stop: StopReason::ToolUse,
                usage: Usage::default(),
            },
            model: "a".to_owned(),
            side: SideCosts::default(),
        }
    }

    #[test]
    fn the_providers_own_blocks_stay_unless_they_name_an_id_that_changes() {
        let mut history = History::default();
        history.begin("go").unwrap();
        let result = ToolResult {
            call: "call_0".to_owned(),
            content: "x".to_owned(),
            is_error: false,
        };
        let first = unique_ids(answer("{}"), &history).assistant;
        history.push(Step::new(first, vec![result]).unwrap()).unwrap();
        for (block, stays) in [
            (
                r#"{"functionCall":{"name":"file_read"},"thoughtSignature":"c2ln"}"#,
                true,
            ),
            (r#"{"functionCall":{"name":"file_read","id":"call_0"}}"#, false),
        ] {
            let again = unique_ids(answer(block), &history).assistant;
            assert_eq!(again.raw.is_some(), stays, "{block}");
            assert_ne!(again.calls().next().unwrap().id, "call_0");
        }
    }
}
