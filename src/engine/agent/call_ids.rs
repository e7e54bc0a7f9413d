//! Ids of calls that are unique in a conversation.

use crate::base::model::{Assistant, ContentBlock, History, Turn};
use crate::interfaces::provider::Completion;
use std::collections::HashSet;

/// Makes the ids of an answer's calls unique in the whole conversation, so that each result has exactly one call. The
/// provider's own blocks contain the old ids, so they are dropped if an id changes.
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
        completion.assistant.raw = None;
        renumber(&mut completion.assistant, earlier, &mut known);
    }
    completion
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
