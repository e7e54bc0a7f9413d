//! A provider that answers from a list, for tests of what asks it.

use super::{Completion, Failure, Provider, ProviderError, Sink, StreamEvent, Trouble, TurnRequest};
use crate::model::{Assistant, Block, StopReason, ToolCall, Turn, Usage};
use async_trait::async_trait;
use std::collections::VecDeque;
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// A line of the script.
pub(crate) enum Line {
    /// Answers.
    Answer(Completion),
    /// Fails.
    Fail(ProviderError),
    /// Never answers; only cancelling ends it.
    Stall,
}

impl Line {
    /// A line that fails with this trouble.
    pub(crate) fn fails(trouble: Trouble, detail: &str) -> Self {
        Self::Fail(ProviderError::Failed(Failure::new(trouble, detail)))
    }
}

/// The request that a test's provider was asked.
#[derive(Clone, Debug)]
pub(crate) struct AskedTurn {
    pub(crate) model: String,
    pub(crate) system: String,
    pub(crate) tools: Vec<&'static str>,
    pub(crate) turns: Vec<Turn>,
}

/// Answers from a list. An unexpected question is an error that says so.
pub(crate) struct Scripted {
    lines: Mutex<VecDeque<Line>>,
    asked: Mutex<Vec<AskedTurn>>,
}

/// An answer in words.
pub(crate) fn says(text: &str) -> Line {
    Line::Answer(completion(
        vec![Block::Text {
            text: text.to_owned(),
        }],
        StopReason::EndTurn,
    ))
}

/// An answer that calls tools: id, name, arguments as text.
pub(crate) fn calls(calls: &[(&str, &str, &str)]) -> Line {
    let call = |(id, name, arguments): &(&str, &str, &str)| {
        Block::Call(ToolCall {
            id: (*id).to_owned(),
            name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
        })
    };
    Line::Answer(completion(calls.iter().map(call).collect(), StopReason::ToolUse))
}

fn completion(blocks: Vec<Block>, stop: StopReason) -> Completion {
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
    }
}

impl Scripted {
    pub(crate) fn new(lines: impl IntoIterator<Item = Line>) -> Self {
        Self {
            lines: Mutex::new(lines.into_iter().collect()),
            asked: Mutex::default(),
        }
    }

    pub(crate) fn asked(&self) -> Vec<AskedTurn> {
        self.asked.lock().map(|asked| asked.clone()).unwrap_or_default()
    }

    pub(crate) fn unused(&self) -> usize {
        self.lines.lock().map(|lines| lines.len()).unwrap_or_default()
    }
}

#[async_trait]
impl Provider for Scripted {
    fn id(&self) -> &str {
        "scripted"
    }

    async fn turn(
        &self,
        request: TurnRequest<'_>,
        sink: Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        if let Ok(mut asked) = self.asked.lock() {
            asked.push(AskedTurn {
                model: request.model.to_owned(),
                system: request.system.to_owned(),
                tools: request.tools.iter().map(|tool| tool.name).collect(),
                turns: request.turns.to_vec(),
            });
        }
        let line = self.lines.lock().ok().and_then(|mut lines| lines.pop_front());
        match line {
            Some(Line::Answer(completion)) => {
                for block in &completion.assistant.blocks {
                    sink(match block {
                        Block::Text { text } => StreamEvent::Text(text.clone()),
                        Block::Call(call) => StreamEvent::CallStarted {
                            name: call.name.clone(),
                        },
                    });
                }
                Ok(completion)
            }
            Some(Line::Fail(error)) => Err(error),
            Some(Line::Stall) => {
                cancel.cancelled().await;
                Err(ProviderError::Cancelled)
            }
            None => Err(ProviderError::Failed(Failure::new(
                Trouble::Rejected,
                "the script has no line left",
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::{Line, Scripted, calls, says};
    use crate::access::{Role, testing};
    use crate::model::History;
    use crate::provider::{Provider, ProviderError, StreamEvent, TurnRequest};
    use tokio_util::sync::CancellationToken;

    #[tokio::test]
    async fn the_script_is_answered_line_by_line() {
        let scripted = Scripted::new([
            says("hi"),
            calls(&[("a", "file_read", "{}")]),
            Line::Fail(ProviderError::Cancelled),
            Line::Stall,
        ]);
        let identity = testing::identity(Role::Editor, &["**"]);
        let mut history = History::default();
        history.begin("hello").expect("turn");
        let request = TurnRequest {
            identity: &identity,
            model: "m",
            system: "s",
            tools: &[],
            turns: history.turns(),
            answer_tokens_max: 1,
        };
        let cancel = CancellationToken::new();
        let mut told = Vec::new();
        let mut outcomes = Vec::new();
        for index in 0..5 {
            if index == 3 {
                cancel.cancel();
            }
            let outcome = scripted
                .turn(request, &mut |event| told.push(event), &cancel)
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
        assert_eq!(told, [StreamEvent::Text("hi".into()), call]);
        assert_eq!((scripted.asked().len(), scripted.unused()), (5, 0));
        let asked = &scripted.asked()[0];
        assert_eq!(
            (asked.model.as_str(), asked.system.as_str(), asked.tools.len()),
            ("m", "s", 0)
        );
        assert_eq!(asked.turns[0].user(), "hello");
    }
}
