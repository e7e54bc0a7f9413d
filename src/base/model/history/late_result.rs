//! The result of a call that is known only after its step was stored: the answer to a question.

use super::{HistoryError, Step};

impl Step {
    /// Replaces the beginning of the result of a call by its final text. What follows the placeholder stays, such as a
    /// note of Drydock. A step without this placeholder stays as it is.
    pub fn with_late_result(self, call: &str, placeholder: &str, text: &str) -> Result<Self, HistoryError> {
        let Self {
            assistant,
            mut results,
            ..
        } = self;
        for result in results.iter_mut().filter(|result| result.call == call) {
            if let Some(rest) = result.content.strip_prefix(placeholder) {
                result.content = format!("{text}{rest}");
            }
        }
        Self::new(assistant, results)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::base::model::{Assistant, ContentBlock, Step, StopReason, ToolCall, ToolResult, Usage};

    #[test]
    fn a_late_result_replaces_its_placeholder_and_nothing_else() {
        let call = |id: &str| {
            ContentBlock::Call(ToolCall {
                id: id.to_owned(),
                name: "ask_user".into(),
                arguments: "{}".into(),
            })
        };
        let result = |id: &str, content: &str| ToolResult {
            call: id.to_owned(),
            content: content.to_owned(),
            is_error: false,
        };
        let assistant = Assistant {
            blocks: vec![call("a"), call("b")],
            raw: None,
            stop: StopReason::ToolUse,
            usage: Usage::default(),
        };
        let waiting = vec![result("a", "(waits)"), result("b", "(waits)\n\n[a note]")];
        let step = Step::new(assistant.clone(), waiting).unwrap();
        let answered = step.with_late_result("b", "(waits)", "four").unwrap();
        let expected = [result("a", "(waits)"), result("b", "four\n\n[a note]")];
        assert_eq!(answered.results(), expected);
        let fresh = Step::new(assistant, expected.to_vec()).unwrap();
        assert_eq!(answered.bytes(), fresh.bytes());
        let again = answered.clone().with_late_result("b", "(waits)", "five").unwrap();
        assert_eq!(again.results(), expected);
    }
}
