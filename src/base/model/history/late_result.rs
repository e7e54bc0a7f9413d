//! The results of calls that are known only when their step is stored or later, such as the answer to a question.

use super::{History, HistoryError, Step, ToolResult};
use std::sync::Arc;

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

    /// Replaces the result of a call like [`Step::with_late_result`], and marks it as an error.
    pub fn with_late_failure(self, call: &str, placeholder: &str, why: &str) -> Result<Self, HistoryError> {
        let Self {
            assistant,
            mut results,
            ..
        } = self.with_late_result(call, placeholder, why)?;
        for result in results.iter_mut().filter(|result| result.call == call) {
            result.is_error = true;
        }
        Self::new(assistant, results)
    }
}

impl History {
    /// Replaces the result of a call in the last step of the open turn. A step without this call stays as it is.
    pub fn replace_result(&mut self, result: &ToolResult) -> Result<(), HistoryError> {
        let Some(turn) = self.turns.last_mut().filter(|turn| !turn.is_closed()) else {
            return Err(HistoryError::Closed);
        };
        let Some(last) = Arc::make_mut(&mut turn.steps).pop() else {
            return Ok(());
        };
        let before = last.bytes();
        let Step {
            assistant,
            mut results,
            ..
        } = last;
        for old in results.iter_mut().filter(|old| old.call == result.call) {
            old.clone_from(result);
        }
        let step = Step::new(assistant, results)?;
        turn.bytes = turn.bytes - before + step.bytes();
        self.bytes = self.bytes - before + step.bytes();
        Arc::make_mut(&mut turn.steps).push(step);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use crate::base::model::{
        Assistant, ContentBlock, History, Step, StopReason, ToolCall, ToolResult, Usage,
    };

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
        let failed = answered
            .clone()
            .with_late_failure("a", "(waits)", "not done")
            .unwrap();
        let failures: Vec<_> = failed.results().iter().map(|result| result.is_error).collect();
        assert_eq!(
            (failed.results()[0].content.as_str(), failures),
            ("not done", vec![true, false])
        );
        let mut history = History::default();
        history.begin("ask me").unwrap();
        history.push(answered.clone()).unwrap();
        history.replace_result(&result("b", "5")).unwrap();
        let [turn] = history.turns() else {
            panic!("one turn")
        };
        assert_eq!(
            turn.steps()[0].results(),
            [result("a", "(waits)"), result("b", "5")]
        );
        assert_eq!(history.bytes(), turn.bytes());
        let again = answered.clone().with_late_result("b", "(waits)", "five").unwrap();
        assert_eq!(again.results(), expected);
    }
}
