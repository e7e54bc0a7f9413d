//! The calls of an agent step as people find them in its files: objects in its trace, and the result of each call in a file of its
//! own. Runs of a server and runs at a terminal leave the same.

use crate::base::model::{OutputNumber, Step, StoredOutput, ToolCall, ToolResult, VerdictSource};
use crate::interfaces::tool::CONCLUDE;
use crate::state::recording::CallStream;
use serde_json::{Value, json};

/// The maximum number of calls of a step whose results are files.
const CALLS_MAX: usize = 1_000;
/// The maximum number of bytes of these results.
const CALLS_BYTES_MAX: usize = 16 << 20;

/// The answers of the model in a step, with the results of their calls.
#[derive(Debug)]
pub struct TracedCalls<'a> {
    /// The answers with their calls, as objects.
    pub steps: Vec<Value>,
    /// The results of the calls.
    pub files: Vec<CallFile<'a>>,
    /// The number of calls whose results are no files, because there are too many or they are too large.
    pub without_file: usize,
}

/// The result of a call of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallFile<'a> {
    /// The number of the call in its step, from 1.
    pub number: usize,
    /// The end of the name of its file.
    pub stream: CallStream,
    /// The result; all of it if that is stored.
    pub text: &'a str,
}

/// Returns the calls in the answers of a model. `outputs` are the whole texts of results that were shortened. A conclusion is the
/// last call, without a number.
pub fn traced_calls<'a>(
    answers: impl IntoIterator<Item = &'a Step>,
    outputs: &'a [StoredOutput],
    source: Option<VerdictSource>,
) -> TracedCalls<'a> {
    let mut counted = CountedCalls {
        outputs,
        files: Vec::new(),
        count: 0,
        bytes: 0,
    };
    let mut steps: Vec<Value> = answers.into_iter().map(|step| counted.step(step)).collect();
    if source == Some(VerdictSource::Concluded)
        && let Some(calls) = steps.last_mut().and_then(|last| last["calls"].as_array_mut())
    {
        calls.push(json!({ "name": CONCLUDE, "is_error": false }));
    }
    TracedCalls {
        without_file: counted.count - counted.files.len(),
        steps,
        files: counted.files,
    }
}

/// The calls so far.
struct CountedCalls<'a> {
    outputs: &'a [StoredOutput],
    files: Vec<CallFile<'a>>,
    /// The number of calls.
    count: usize,
    /// The bytes of their results.
    bytes: usize,
}

impl<'a> CountedCalls<'a> {
    fn step(&mut self, step: &'a Step) -> Value {
        let assistant = step.assistant();
        // Calls and results pair one to one, in order.
        let calls = assistant.calls().zip(step.results());
        let calls: Vec<Value> = calls.map(|(call, result)| self.call(call, result)).collect();
        json!({ "text": assistant.text(), "calls": calls, "usage": assistant.usage })
    }

    fn call(&mut self, call: &ToolCall, result: &'a ToolResult) -> Value {
        self.count += 1;
        let text = whole_text(result, self.outputs);
        self.bytes = self.bytes.saturating_add(text.len());
        if self.count <= CALLS_MAX && self.bytes <= CALLS_BYTES_MAX {
            self.files.push(CallFile {
                number: self.count,
                stream: match result.is_error {
                    true => CallStream::Stderr,
                    false => CallStream::Stdout,
                },
                text,
            });
        }
        json!({
            "number": self.count,
            "name": call.name,
            "arguments": call.arguments.text(),
            "is_error": result.is_error,
        })
    }
}

/// Returns the whole text of a result that was shortened, if it is stored; else the result.
fn whole_text<'a>(result: &'a ToolResult, outputs: &'a [StoredOutput]) -> &'a str {
    let number = OutputNumber::in_shortened_result(&result.content).map(|(number, _)| number);
    let stored = outputs.iter().find(|output| Some(output.number) == number);
    stored.map_or(result.content.as_str(), |output| output.text.as_str())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{CALLS_BYTES_MAX, CALLS_MAX, traced_calls};
    use crate::base::model::{Assistant, ContentBlock, Step, StopReason, ToolCall, ToolResult, Usage};

    /// Returns an answer whose calls have results of so many bytes.
    fn step(results: &[usize]) -> Step {
        let calls = (0..results.len()).map(|index| {
            ContentBlock::Call(ToolCall {
                id: index.to_string(),
                name: "file_read".to_owned(),
                arguments: "{}".to_owned().into(),
            })
        });
        let assistant = Assistant {
            blocks: calls.collect(),
            raw: None,
            stop: StopReason::EndTurn,
            usage: Usage::default(),
        };
        let results = results.iter().enumerate().map(|(index, bytes)| ToolResult {
            call: index.to_string(),
            content: "x".repeat(*bytes),
            is_error: false,
        });
        Step::new(assistant, results.collect()).unwrap()
    }

    /// CI-22
    #[test]
    fn calls_beyond_their_number_or_their_bytes_are_traced_without_a_file() {
        let many = [step(&[1; 600]), step(&[1; 402])];
        let traced = traced_calls(&many, &[], None);
        assert_eq!((traced.files.len(), traced.without_file), (CALLS_MAX, 2));
        assert_eq!(traced.files.last().map(|file| file.number), Some(CALLS_MAX));
        let last = traced.steps.last().unwrap();
        assert_eq!(last["calls"].as_array().map(Vec::len), Some(402));
        assert_eq!(last["calls"][401]["number"], CALLS_MAX + 2);

        let large = [step(&[CALLS_BYTES_MAX - 1, 1]), step(&[1])];
        let traced = traced_calls(&large, &[], None);
        assert_eq!((traced.files.len(), traced.without_file), (2, 1));
        assert_eq!(traced.steps[1]["calls"][0]["number"], 3);
    }
}
