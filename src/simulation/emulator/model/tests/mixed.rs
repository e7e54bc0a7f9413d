//! Tests of conversations that change their provider between steps: each format accepts what any other has answered.

use super::{ModelFixture, Way, asking, expectations};
use crate::base::config::AnswerMode;
use crate::base::model::{Assistant, History, Step, ToolCall, ToolResult};
use crate::interfaces::provider::first_of_each_format;
use crate::simulation::emulator::model::{AnswerFault, ScriptedAnswer, queue, says};
use proptest::prelude::*;
use serde_json::json;

/// An answer of one of the formats, and what Drydock does with it.
#[derive(Clone, Debug)]
struct MixedStep {
    format: usize,
    mode: AnswerMode,
    words: String,
    has_thinking: bool,
    calls: usize,
    fault: MixedFault,
    result: String,
    is_error: bool,
    /// True if an answer without calls is sent back with a remark.
    has_remark: bool,
    /// True if a message of the person follows the step.
    has_message: bool,
}

#[derive(Clone, Copy, Debug)]
enum MixedFault {
    None,
    Cut,
    Refused,
    UnknownReason,
    BrokenArguments,
}

fn any_step() -> impl Strategy<Value = MixedStep> {
    let mode = prop::sample::select(vec![AnswerMode::Streamed, AnswerMode::Whole]);
    let words = prop::sample::select(vec!["", " \n", "Words.", "ü🚢\u{2028}\"\\"]);
    let result = prop::sample::select(vec!["", " ", "content", "{\"type\":\"tool_result\"}"]);
    let fault = prop::sample::select(vec![
        MixedFault::None,
        MixedFault::None,
        MixedFault::Cut,
        MixedFault::Refused,
        MixedFault::UnknownReason,
        MixedFault::BrokenArguments,
    ]);
    let flags = any::<(bool, bool, bool, bool)>();
    (0..4_usize, mode, words, 0..3_usize, fault, result, flags).prop_map(
        |(format, mode, words, calls, fault, result, (has_thinking, is_error, has_remark, has_message))| {
            MixedStep {
                format,
                mode,
                words: words.to_owned(),
                has_thinking,
                calls,
                fault,
                result: result.to_owned(),
                is_error,
                has_remark,
                has_message,
            }
        },
    )
}

/// Returns the answer as it is scripted for its format.
fn scripted(step: &MixedStep, way: Way) -> ScriptedAnswer {
    let format = expectations(way.0);
    let mut answer = says(step.words.as_str());
    if step.has_thinking {
        answer = answer.with_thinking("Hm.");
    }
    for number in 0..step.calls {
        let tool = ["file_read", "no such tool"][number % 2];
        answer = answer.with_call(tool, json!({"path": "a"}));
    }
    let stop = |reason: &str| Some(AnswerFault::Stop(reason.to_owned()));
    let fault = match step.fault {
        MixedFault::None => None,
        MixedFault::Cut => stop(format.cut_reason),
        MixedFault::Refused => stop(format.refusal_reason),
        MixedFault::UnknownReason => stop("unheard_of"),
        MixedFault::BrokenArguments => Some(AnswerFault::Arguments("{\"path\":".to_owned())),
    };
    match fault {
        Some(fault) => answer.with_fault(fault),
        None => answer,
    }
}

/// Adds an answer to the conversation, as the agent does.
fn push(history: &mut History, assistant: Assistant, step: &MixedStep) {
    let result = |call: &ToolCall| ToolResult {
        call: call.id.clone(),
        content: step.result.clone(),
        is_error: step.is_error,
    };
    let results: Vec<ToolResult> = assistant.calls().map(result).collect();
    let has_calls = !results.is_empty();
    let mut pushed = Step::new(assistant, results).expect("step");
    if step.has_remark && !has_calls {
        pushed = pushed.with_remark("The checks failed.").expect("remark");
    }
    if step.has_message && pushed.remark().is_none() {
        pushed = pushed.with_messages(vec!["[Message while you worked:]\nand then".to_owned()]);
    }
    // The step is serialised and parsed again, as after a restart.
    let stored = serde_json::to_string(&pushed).expect("json");
    let is_final = pushed.is_final();
    history
        .push(serde_json::from_str(&stored).expect("step"))
        .expect("open");
    if is_final {
        history.begin("again").expect("turn");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// R12, R13, STK-37
    #[test]
    fn any_conversation_is_accepted_by_every_format(steps in prop::collection::vec(any_step(), 1..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let formats = first_of_each_format();
            let mut history = asking("hello");
            for step in &steps {
                let way = (formats[step.format], step.mode);
                // An empty answer is asked for once more.
                let line = scripted(step, way);
                let mut fixture = ModelFixture::new(way, queue([line.clone(), line]));
                let answer = fixture.ask(&history).await;
                assert_eq!(fixture.emulator.problems(), Vec::<String>::new(), "{way:?}");
                // A body that is no JSON is no answer.
                if let Ok(answer) = answer {
                    push(&mut history, answer.assistant, step);
                }
            }
            for format in formats {
                let mut fixture = ModelFixture::new((format, AnswerMode::Whole), queue([says("Done.")]));
                fixture.ask(&history).await.expect("answer");
                fixture.assert_in_order();
            }
        });
    }
}
