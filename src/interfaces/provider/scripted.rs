//! A provider with scripted answers, for tests of its callers.

use super::{
    Completion, EventSink, Provider, ProviderError, ProviderFailure, ProviderFailureKind, SideCosts,
    StreamEvent, ToolChoice, TurnRequest,
};
use crate::base::model::{Assistant, ContentBlock, StopReason, ToolCall, Turn, Usage};
use async_trait::async_trait;
use std::collections::VecDeque;
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// A line of the script.
pub(crate) enum ScriptStep {
    /// An answer.
    Answer(Completion),
    /// An error.
    Fail(ProviderError),
    /// No answer to a request that was sent; only cancelling ends the call.
    Stall,
    /// No request is sent; only cancelling ends the call.
    Wait,
    /// No answer, and cancelling does not end the call either.
    Deaf,
}

impl ScriptStep {
    /// Creates a step that fails with this kind.
    pub(crate) fn fails(kind: ProviderFailureKind, detail: &str) -> Self {
        Self::Fail(ProviderError::Failed(ProviderFailure::new(kind, detail)))
    }
}

/// The calls that an answer may or has to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordedToolChoice {
    Free,
    Text,
    Forced(String),
}

/// A request that the scripted provider received.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) model: String,
    pub(crate) system: String,
    pub(crate) tools: Vec<&'static str>,
    pub(crate) tool_choice: RecordedToolChoice,
    pub(crate) turns: Vec<Turn>,
    pub(crate) answer_tokens_max: u32,
}

/// A provider with scripted answers. An unexpected request is an error.
pub(crate) struct ScriptedProvider {
    lines: Mutex<VecDeque<ScriptStep>>,
    requests: Mutex<Vec<RecordedRequest>>,
}

/// Returns an answer with text.
pub(crate) fn says(text: &str) -> ScriptStep {
    ScriptStep::Answer(completion(
        vec![ContentBlock::Text {
            text: text.to_owned(),
        }],
        StopReason::EndTurn,
    ))
}

/// Returns an answer with tool calls: id, name, arguments as text.
pub(crate) fn calls(calls: &[(&str, &str, &str)]) -> ScriptStep {
    ScriptStep::Answer(completion(call_blocks(calls), StopReason::ToolUse))
}

fn call_blocks(calls: &[(&str, &str, &str)]) -> Vec<ContentBlock> {
    let call = |(id, name, arguments): &(&str, &str, &str)| {
        ContentBlock::Call(ToolCall {
            id: (*id).to_owned(),
            name: (*name).to_owned(),
            arguments: (*arguments).into(),
        })
    };
    calls.iter().map(call).collect()
}

fn completion(blocks: Vec<ContentBlock>, stop: StopReason) -> Completion {
    let usage = Usage {
        input: 100,
        output: 10,
        cache_read: 0,
        cache_write: 0,
    };
    Completion {
        assistant: Assistant {
            blocks,
            raw: None,
            stop,
            usage,
        },
        model: "scripted-1".to_owned(),
        side: SideCosts::default(),
    }
}

impl ScriptedProvider {
    pub(crate) fn new(lines: impl IntoIterator<Item = ScriptStep>) -> Self {
        Self {
            lines: Mutex::new(lines.into_iter().collect()),
            requests: Mutex::default(),
        }
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.requests
            .lock()
            .map(|asked| asked.clone())
            .unwrap_or_default()
    }

    pub(crate) fn unused_steps(&self) -> usize {
        self.lines.lock().map(|lines| lines.len()).unwrap_or_default()
    }
}

#[async_trait]
impl Provider for ScriptedProvider {
    fn id(&self) -> &str {
        "scripted"
    }

    async fn turn(
        &self,
        request: TurnRequest<'_>,
        sink: EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        if let Ok(mut asked) = self.requests.lock() {
            asked.push(RecordedRequest {
                model: request.model.to_owned(),
                system: request.system.to_owned(),
                tools: request.tools.iter().map(|tool| tool.name).collect(),
                tool_choice: match request.tool_choice {
                    ToolChoice::Free => RecordedToolChoice::Free,
                    ToolChoice::Text => RecordedToolChoice::Text,
                    ToolChoice::Forced(name) => RecordedToolChoice::Forced(name.to_owned()),
                },
                turns: request.turns.to_vec(),
                answer_tokens_max: request.answer_tokens_max,
            });
        }
        let line = self.lines.lock().ok().and_then(|mut lines| lines.pop_front());
        match line {
            Some(ScriptStep::Answer(completion)) => {
                for block in &completion.assistant.blocks {
                    sink(match block {
                        ContentBlock::Text { text } => StreamEvent::Text(text.clone()),
                        ContentBlock::Call(call) => StreamEvent::CallStarted {
                            name: call.name.clone(),
                        },
                    });
                }
                Ok(completion)
            }
            Some(ScriptStep::Fail(error)) => Err(error),
            Some(ScriptStep::Stall) => {
                cancel.cancelled().await;
                Err(ProviderError::Cancelled(SideCosts::of_lost_answer()))
            }
            Some(ScriptStep::Deaf) => std::future::pending().await,
            Some(ScriptStep::Wait) => {
                cancel.cancelled().await;
                Err(ProviderError::Cancelled(SideCosts::default()))
            }
            None => Err(ProviderError::Failed(ProviderFailure::new(
                ProviderFailureKind::Rejected,
                "the script has no line left",
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::{ScriptStep, ScriptedProvider, calls, says};
    use crate::base::model::History;
    use crate::interfaces::provider::{
        Patience, Provider, ProviderError, SideCosts, StreamEvent, ToolChoice, TurnRequest,
    };
    use crate::state::access::{Role, testing};
    use tokio_util::sync::CancellationToken;

    #[tokio::test]
    async fn the_script_is_answered_line_by_line() {
        let scripted = ScriptedProvider::new([
            says("hi"),
            calls(&[("a", "file_read", "{}")]),
            ScriptStep::Fail(ProviderError::Cancelled(SideCosts::default())),
            ScriptStep::Stall,
        ]);
        let identity = testing::identity(Role::Editor, &["**"]);
        let mut history = History::default();
        history.begin("hello").expect("turn");
        let request = TurnRequest {
            identity: &identity,
            model: "m",
            system: "s",
            tools: &[],
            tool_choice: ToolChoice::Free,
            turns: history.turns(),
            answer_tokens_max: 1,
            patience: Patience::Full,
        };
        let cancel = CancellationToken::new();
        let mut events = Vec::new();
        let mut outcomes = Vec::new();
        for index in 0..5 {
            if index == 3 {
                cancel.cancel();
            }
            let outcome = scripted
                .turn(request, &mut |event| events.push(event), &cancel)
                .await;
            outcomes.push(
                outcome
                    .map(|completion| completion.assistant.text())
                    .map_err(|error| error.to_string()),
            );
        }
        let rejected = "the model provider rejected the request: the script has no line left";
        let expected = [
            Ok("hi"),
            Ok(""),
            Err("cancelled"),
            Err("cancelled"),
            Err(rejected),
        ];
        assert_eq!(
            outcomes
                .iter()
                .map(|o| o.as_deref().map_err(|e| e.as_str()))
                .collect::<Vec<_>>(),
            expected
        );
        let call = StreamEvent::CallStarted {
            name: "file_read".into(),
        };
        assert_eq!(events, [StreamEvent::Text("hi".into()), call]);
        assert_eq!((scripted.requests().len(), scripted.unused_steps()), (5, 0));
        let asked = &scripted.requests()[0];
        assert_eq!(
            (asked.model.as_str(), asked.system.as_str(), asked.tools.len()),
            ("m", "s", 0)
        );
        assert_eq!(asked.turns[0].user(), "hello");
    }
}
