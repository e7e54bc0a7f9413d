//! The text with which a turn begins: the words of a person with what they quote, or the event of a hook.

use super::TurnRunner;
use super::opening::{TurnRefusal, refuse_with};
use crate::base::model::{Inbound, InboundKind};
use crate::base::redact::Redactor;
use crate::engine::agent::prompt;
use crate::engine::gateway::agent_step::request;
use crate::state::workspace::SecretGuard;
use std::collections::BTreeMap;

impl TurnRunner {
    /// Returns the message for the model: the person's words, and their quotes as marked data.
    pub(super) async fn user_text(
        &self,
        inbound: &Inbound,
        words: &str,
        repository: &str,
        guard: &SecretGuard,
    ) -> Result<String, TurnRefusal> {
        let chars_max = self.parts.config.limits.inbound_text_chars_max;
        let text = match &inbound.kind {
            InboundKind::Hook { event, fields, .. } => {
                self.hook_text(inbound, event, fields, (repository, guard))
                    .await?
            }
            InboundKind::Pipeline(work) => request(work, words, &guard.redactor),
            InboundKind::Text { quoted, .. } => {
                let quoted = quoted.as_ref();
                let quoted = quoted.map(|quoted| cut(quoted, chars_max, &guard.redactor));
                with_quote(words, quoted.as_deref())
            }
            _ => words.to_owned(),
        };
        Ok(guard.redactor.redact(&text).into_owned())
    }

    async fn hook_text(
        &self,
        inbound: &Inbound,
        event: &str,
        fields: &BTreeMap<String, String>,
        (repository, guard): (&str, &SecretGuard),
    ) -> Result<String, TurnRefusal> {
        let hook = self
            .parts
            .hook(inbound)
            .ok_or_else(|| refuse_with("This hook is not configured any more."))?;
        // The instructions come from the trusted branch, not from edits or the payload.
        let instructions = self
            .parts
            .repositories
            .text_on_branch(repository, &hook.prompt)
            .await
            .map_err(|error| {
                refuse_with(format!(
                    "The prompt of hook `{}` could not be read: {error}",
                    inbound.sender.id
                ))
            })?;
        guard.redactor.learn_file(None, instructions.as_bytes());
        let chars_max = self.parts.config.limits.inbound_text_chars_max;
        let fields: BTreeMap<&String, String> = fields
            .iter()
            .map(|(name, value)| (name, cut(value, chars_max, &guard.redactor)))
            .collect();
        let fields =
            serde_json::to_string_pretty(&fields).map_err(|error| TurnRefusal::Internal(error.into()))?;
        Ok(format!(
            "{instructions}\n\n{}",
            prompt::data_block(event, "webhook payload", &fields)
        ))
    }
}

/// Returns the words of a person with a quote as marked data.
pub(super) fn with_quote(words: &str, quoted: Option<&str>) -> String {
    match quoted {
        Some(quoted) => format!("{words}\n\n{}", quote_block(quoted)),
        None => words.to_owned(),
    }
}

/// Returns a quote as marked data.
pub(super) fn quote_block(quoted: &str) -> String {
    prompt::data_block("quoted message", "another person", quoted)
}

/// Cuts quoted text to a number of characters and adds a note about the rest. Secrets are removed before the cut,
/// because a cut secret would not be recognized.
pub(super) fn cut(text: &str, chars_max: usize, redactor: &Redactor) -> String {
    let text = redactor.redact(text);
    let chars = text.chars().count();
    if chars <= chars_max {
        return text.into_owned();
    }
    let start: String = text.chars().take(chars_max).collect();
    format!("{start}\n[...{} more characters left out]", chars - chars_max)
}

#[cfg(test)]
mod tests {
    use super::cut;
    use crate::base::redact::Redactor;

    #[test]
    fn a_long_quotation_is_cut_between_characters_and_says_so() {
        let none = Redactor::new([]);
        assert_eq!(cut("äöü", 3, &none), "äöü");
        assert_eq!(cut("äöüß", 3, &none), "äöü\n[...1 more characters left out]");
    }

    /// T87
    #[test]
    fn no_quotation_is_cut_within_a_secret_of_a_file() {
        let redactor = Redactor::new([]);
        redactor.learn(&redactor.secrets_in_entry("opens", "kept-to-ourselves-4711"));
        let quoted = cut("it is kept-to-ourselves-4711, he said", 20, &redactor);
        assert_eq!(quoted, "it is ⟦secret:1⟧, he\n[...5 more characters left out]");
    }
}
