//! Writes chat completions.

use crate::simulation::emulator::model::anthropic::answer::pieces;
use crate::simulation::emulator::model::script::{AnswerFault, ScriptedAnswer};
use crate::simulation::emulator::model::server::{ParsedRequest, UsageEvent};
use serde_json::{Value, json};
use std::fmt::Write;

/// Returns an error in the format of the API.
pub(in crate::simulation::emulator::model) fn error_body(why: &str) -> String {
    json!({"error": {"message": why, "type": "invalid_request_error", "param": null, "code": null}})
        .to_string()
}

/// Returns an answer in one piece. `number` is used for ids.
pub(in crate::simulation::emulator::model) fn whole(
    answer: &ScriptedAnswer,
    request: &ParsedRequest,
    number: u64,
) -> String {
    let calls: Vec<Value> = (0..answer.calls.len())
        .map(|index| call(answer, number, index))
        .collect();
    let content = Some(answer.text.as_str()).filter(|text| !text.is_empty());
    let mut message = json!({"role": "assistant", "content": content, "refusal": null, "annotations": []});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let reason = finish_reason(answer, request);
    json!({
        "id": format!("chatcmpl-{number:016}"), "object": "chat.completion", "created": 0, "model": request.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": reason}],
        "usage": usage(answer),
    })
    .to_string()
}

/// Returns an answer as events.
pub(in crate::simulation::emulator::model) fn stream(
    answer: &ScriptedAnswer,
    request: &ParsedRequest,
    number: u64,
) -> String {
    let mut events = String::new();
    let chunk = |choices: Value| {
        json!({
            "id": format!("chatcmpl-{number:016}"), "object": "chat.completion.chunk", "created": 0,
            "model": request.model, "choices": choices,
        })
    };
    let delta = |delta: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]));
    event(
        &mut events,
        &delta(json!({"role": "assistant", "content": "", "refusal": null})),
    );
    for piece in pieces(&answer.text) {
        event(&mut events, &delta(json!({"content": piece})));
    }
    if let Some(AnswerFault::ErrorEvent(kind)) = &answer.fault {
        event(
            &mut events,
            &json!({"error": {"type": kind, "message": "scripted"}}),
        );
    }
    for index in 0..answer.calls.len() {
        let mut begun = call(answer, number, index);
        let arguments = begun["function"]["arguments"].take();
        begun["index"] = index.into();
        begun["function"]["arguments"] = "".into();
        event(&mut events, &delta(json!({"tool_calls": [begun]})));
        for piece in pieces(arguments.as_str().unwrap_or_default()) {
            let part = json!({"index": index, "function": {"arguments": piece}});
            event(&mut events, &delta(json!({"tool_calls": [part]})));
        }
    }
    let reason = finish_reason(answer, request);
    event(
        &mut events,
        &chunk(json!([{"index": 0, "delta": {}, "finish_reason": reason}])),
    );
    if request.usage_event == UsageEvent::Sent {
        let mut last = chunk(json!([]));
        last["usage"] = usage(answer);
        event(&mut events, &last);
    }
    events.push_str("data: [DONE]\n\n");
    events
}

/// Returns the reason why an answer ended. A call that the request forced is no decision of the model, so the service says
/// `stop`: <https://community.openai.com/t/731488/13>.
fn finish_reason<'a>(answer: &'a ScriptedAnswer, request: &ParsedRequest) -> &'a str {
    match request.tool_choice.forced_tool() {
        Some(_) => answer.stop("stop", "stop"),
        None => answer.stop("tool_calls", "stop"),
    }
}

fn call(answer: &ScriptedAnswer, number: u64, index: usize) -> Value {
    let (name, arguments) = match answer.calls.get(index) {
        Some((name, arguments)) => (name.as_str(), answer.arguments(arguments)),
        None => ("", String::new()),
    };
    let id = answer.call_id(format!("call_{number:012}{index:04}"));
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn usage(answer: &ScriptedAnswer) -> Value {
    let usage = &answer.usage;
    let prompt = usage.input + usage.cache_read;
    json!({
        "prompt_tokens": prompt, "completion_tokens": usage.output, "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
    })
}

fn event(events: &mut String, data: &Value) {
    // Writing to a string cannot fail.
    let _ = write!(events, "data: {data}\n\n");
}
