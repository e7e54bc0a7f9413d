//! The blocks of an answer that are sent back as the provider wrote them. Thinking and its signatures belong to the model
//! that wrote them, so blocks go back only to the same model of the same provider, in the same format.

use super::Completion;
use crate::base::model::{Assistant, RawBlocks};

/// Returns an answer whose blocks are marked with the model that was asked. A label of a provider and format has no
/// slash.
pub(super) fn marked(mut completion: Completion, model: &str) -> Completion {
    mark(&mut completion.assistant, model);
    completion
}

fn mark(assistant: &mut Assistant, model: &str) {
    if let Some(raw) = &mut assistant.raw {
        raw.provider = format!("{}/{model}", raw.provider);
    }
}

/// Returns the blocks of an answer that may be sent back to a model. `label` is that of its provider and format. Stored
/// conversations contain blocks that are not marked with their model.
pub(super) fn own_blocks<'a>(assistant: &'a Assistant, label: &str, model: &str) -> Option<&'a RawBlocks> {
    let raw = assistant.raw.as_ref().filter(|raw| !raw.blocks.is_empty())?;
    let mark = raw.provider.strip_prefix(label)?;
    let is_own = mark.is_empty() || mark.strip_prefix('/') == Some(model);
    is_own.then_some(raw)
}

/// Returns true if blocks are not marked with the model that wrote them.
pub(super) fn is_unmarked(raw: &RawBlocks) -> bool {
    !raw.provider.contains('/')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{is_unmarked, mark, own_blocks};
    use crate::base::model::{Assistant, RawBlocks};
    use serde_json::value::RawValue;

    fn answer(label: &str) -> Assistant {
        let mut assistant = Assistant::synthetic("Words.");
        assistant.raw = Some(RawBlocks {
            provider: label.to_owned(),
            blocks: vec![RawValue::from_string("{}".to_owned()).unwrap()],
        });
        assistant
    }

    /// TK-76
    #[test]
    fn blocks_go_back_only_to_the_model_that_wrote_them() {
        let mut written = answer("openrouter");
        mark(&mut written, "maker/model:free");
        let is_own = |label: &str, model: &str| own_blocks(&written, label, model).is_some();
        assert!(is_own("openrouter", "maker/model:free"));
        for (label, model) in [
            ("openrouter", "maker/model"),
            ("openrouter", "maker/model:free/more"),
            ("openrouter", ""),
            ("openrouter openai-responses", "maker/model:free"),
            ("openrouter2", "maker/model:free"),
            ("open", "maker/model:free"),
            ("anthropic", "maker/model:free"),
        ] {
            assert!(!is_own(label, model), "{label} {model}");
        }
        // A stored conversation does not tell the model.
        let stored = answer("openrouter");
        assert!(own_blocks(&stored, "openrouter", "any").is_some_and(is_unmarked));
        assert!(own_blocks(&stored, "openrouter openai-responses", "any").is_none());
    }
}
