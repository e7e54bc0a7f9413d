//! The size of turns in a request, and turns with parts left out.

use super::attachments::attached_bytes;
use super::{Assistant, ContentBlock, Step, ToolCall, ToolResult, Turn};
use crate::base::model::ASK_USER;

/// The overhead of a message in bytes, for any wire format.
const MESSAGE_BYTES: usize = 96;
/// The overhead in bytes of a call and its result, without name, id, arguments, content and the result's id.
const CALL_BYTES: usize = 112;
/// The length in bytes of an id by Drydock, which is used if the provider's own is not sent.
const ID_BYTES: usize = 40;

/// The number of bytes of a text that are counted together.
const CHUNK_BYTES: usize = 32;

/// Returns the number of bytes of a text inside a JSON string. It runs on all text of every request, so it has no
/// branches.
pub fn json_bytes(text: &str) -> usize {
    let (chunks, rest) = text.as_bytes().as_chunks::<CHUNK_BYTES>();
    let chunks = chunks.iter().map(|chunk| escape_bytes(chunk));
    text.len() + chunks.sum::<usize>() + escape_bytes(rest)
}

/// Returns the number of bytes that escapes add to at most [`CHUNK_BYTES`] bytes.
fn escape_bytes(bytes: &[u8]) -> usize {
    let mut added = 0_u8;
    for byte in bytes {
        let is_control = u8::from(*byte < 0x20);
        let is_short = matches!(byte, b'\n' | b'\r' | b'\t' | 0x08 | 0x0c);
        let is_quoted = matches!(byte, b'"' | b'\\');
        added += 5 * is_control - 4 * u8::from(is_short) + u8::from(is_quoted);
    }
    usize::from(added)
}

/// Returns the number of bytes of a call's result in a request.
pub fn result_bytes(result: &ToolResult) -> usize {
    result_bytes_with(result, &result.content)
}

/// Returns the number of bytes of a call's result in a request, with another content.
pub fn result_bytes_with(result: &ToolResult, content: &str) -> usize {
    CALL_BYTES + result.call.len().max(ID_BYTES) + json_bytes(content)
}

impl Assistant {
    /// Returns the maximum number of bytes of the answer in a request: in Drydock's format or in the provider's own,
    /// whichever is longer.
    fn sent_bytes(&self) -> usize {
        let call = |call: &ToolCall| {
            CALL_BYTES
                + call.id.len().max(ID_BYTES)
                + json_bytes(&call.name)
                + json_bytes(call.arguments.text())
        };
        let block = |block: &ContentBlock| match block {
            ContentBlock::Text { text } => MESSAGE_BYTES + json_bytes(text),
            ContentBlock::Call(of) => call(of),
        };
        let canonical: usize = self.blocks.iter().map(block).sum();
        let raw = self.raw.as_ref().map_or(0, |raw| {
            let blocks = raw.blocks.iter();
            blocks.map(|block| block.get().len() + 1).sum()
        });
        MESSAGE_BYTES + canonical.max(raw)
    }
}

/// The size of a step in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StepBytes {
    /// The answer and the remark.
    answer: usize,
    /// The results of the calls.
    pub(super) results: usize,
}

impl StepBytes {
    /// Counts the bytes of an answer and of its results.
    pub(super) fn of(assistant: &Assistant, results: &[ToolResult]) -> Self {
        Self {
            answer: MESSAGE_BYTES + assistant.sent_bytes(),
            results: results.iter().map(result_bytes).sum(),
        }
    }

    /// Adds the bytes of a remark.
    pub(super) fn with_remark(self, remark: &str) -> Self {
        Self {
            answer: self.answer + MESSAGE_BYTES + json_bytes(remark),
            ..self
        }
    }

    /// Adds the bytes of messages.
    pub(super) fn with_messages(self, messages: &[String]) -> Self {
        Self {
            answer: self.answer + messages.iter().map(|message| user_bytes(message)).sum::<usize>(),
            ..self
        }
    }

    /// Returns the sizes with other results.
    pub(super) fn with_results(self, results: &[ToolResult]) -> Self {
        Self {
            results: results.iter().map(result_bytes).sum(),
            ..self
        }
    }
}

/// Returns the number of bytes of a user's text in a request.
pub(super) fn user_bytes(text: &str) -> usize {
    MESSAGE_BYTES + json_bytes(text)
}

impl Step {
    /// Returns the number of bytes of the step in a request, without the results of its calls.
    pub fn answer_bytes(&self) -> usize {
        self.bytes.answer
    }

    /// Returns the number of bytes of the results of its calls in a request.
    pub fn results_bytes(&self) -> usize {
        self.bytes.results
    }

    /// Returns the number of bytes of the person's words in a request: the answers to the questions of the step, and the
    /// messages after it.
    pub fn words_bytes(&self) -> usize {
        let messages = self.messages().iter().map(|message| user_bytes(message));
        let answers = self.answers().map(user_bytes);
        messages.chain(answers).sum()
    }

    /// Returns the person's answers to the questions of the step.
    fn answers(&self) -> impl Iterator<Item = &str> {
        let calls = self.assistant.calls().zip(&self.results);
        let asked = calls.filter(|(call, result)| call.name == ASK_USER && !result.is_error);
        asked.map(|(_, result)| result.content.as_str())
    }

    /// Returns the maximum number of bytes of the step in a request.
    pub fn bytes(&self) -> usize {
        self.bytes.answer + self.bytes.results
    }
}

impl Turn {
    /// Returns the maximum number of bytes of the turn in a request.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of bytes of the user's text and its attachments in a request.
    pub fn user_bytes(&self) -> usize {
        user_bytes(&self.user) + attached_bytes(&self.attachments)
    }

    /// Returns the turn without its first `left_out` steps, with a `note` about them after the user's text, and with
    /// shortened results. The person's answers and messages in those steps are kept. `content` gets the number of a step, the
    /// number of a call and the result of that call.
    pub fn shortened(
        &self,
        left_out: usize,
        note: &str,
        mut content: impl FnMut(usize, usize, &ToolResult) -> Option<String>,
    ) -> Self {
        let mut user = format!("{}{note}", self.user);
        for step in self.steps.iter().take(left_out) {
            for words in step.answers().chain(step.messages().iter().map(String::as_str)) {
                user.push_str("\n\n");
                user.push_str(words);
            }
        }
        let mut turn = Self::new(self.id, user).with_attachments(self.attachments.clone());
        let steps = self.steps.iter().skip(left_out).cloned();
        for (number, mut step) in steps.enumerate() {
            let mut is_shorter = false;
            for (call, result) in step.results.iter_mut().enumerate() {
                if let Some(shorter) = content(left_out + number, call, result) {
                    result.content = shorter;
                    is_shorter = true;
                }
            }
            if is_shorter {
                step.bytes = step.bytes.with_results(&step.results);
            }
            turn.push(step);
        }
        turn
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::json_bytes;
    use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

        #[test]
        fn the_bytes_of_a_text_are_those_it_is_written_with(
            text in any::<String>(),
            plain in "[ -~\\n\\r\\t\\u{0}-\\u{1f}]{0,200}",
        ) {
            for text in [text, plain] {
                let written = serde_json::to_string(&text).unwrap();
                prop_assert_eq!(json_bytes(&text), written.len() - 2);
            }
        }
    }
}
