//! Writes answers of the Responses API.

use crate::simulation::emulator::model::anthropic::answer::pieces;
use crate::simulation::emulator::model::script::{AnswerFault, ScriptedAnswer};
use serde_json::{Value, json};
use std::fmt::Write;

/// Returns an answer in one piece. `number` is used for ids.
pub(in crate::simulation::emulator::model) fn whole(
    answer: &ScriptedAnswer,
    model: &str,
    number: u64,
) -> String {
    response(answer, model, number, items(answer, number)).to_string()
}

/// Returns an answer as events.
pub(in crate::simulation::emulator::model) fn stream(
    answer: &ScriptedAnswer,
    model: &str,
    number: u64,
) -> String {
    let mut events = Events::default();
    let mut begun = response(answer, model, number, Vec::new());
    begun["status"] = "in_progress".into();
    begun["usage"] = Value::Null;
    events.add("response.created", json!({"response": begun}));
    events.add("response.in_progress", json!({"response": begun}));
    let items = items(answer, number);
    for (index, item) in items.iter().enumerate() {
        let mut added = item.clone();
        match item["type"].as_str() {
            Some("message") => added["content"] = json!([]),
            Some("function_call") => added["arguments"] = "".into(),
            _ => {}
        }
        let place = |fields: Value| {
            let mut fields = fields;
            fields["output_index"] = index.into();
            fields
        };
        events.add("response.output_item.added", place(json!({"item": added})));
        let (kind, whole) = match item["type"].as_str() {
            Some("message") => ("response.output_text.delta", &item["content"][0]["text"]),
            _ => ("response.function_call_arguments.delta", &item["arguments"]),
        };
        for piece in pieces(whole.as_str().unwrap_or_default()) {
            events.add(kind, place(json!({"item_id": item["id"], "delta": piece})));
        }
        if let Some(AnswerFault::ErrorEvent(code)) = &answer.fault {
            events.add(
                "error",
                json!({"code": code, "message": "scripted", "param": null}),
            );
        }
        events.add("response.output_item.done", place(json!({"item": item})));
    }
    let last = response(answer, model, number, items);
    let kind = match last["status"].as_str() {
        Some("incomplete") => "response.incomplete",
        _ => "response.completed",
    };
    events.add(kind, json!({"response": last}));
    events.written
}

/// The events of an answer, numbered.
#[derive(Default)]
struct Events {
    written: String,
    number: u64,
}

impl Events {
    fn add(&mut self, kind: &str, mut fields: Value) {
        fields["type"] = kind.into();
        fields["sequence_number"] = self.number.into();
        self.number += 1;
        // Writing to a string cannot fail.
        let _ = write!(self.written, "event: {kind}\ndata: {fields}\n\n");
    }
}

fn response(answer: &ScriptedAnswer, model: &str, number: u64, output: Vec<Value>) -> Value {
    let usage = &answer.usage;
    let input = usage.input + usage.cache_read;
    // The only stop reasons of the API are those of an incomplete answer.
    let (status, details) = match &answer.fault {
        Some(AnswerFault::Stop(reason)) => ("incomplete", json!({"reason": reason})),
        _ => ("completed", Value::Null),
    };
    json!({
        "id": format!("resp_{number:016}"), "object": "response", "created_at": 0, "status": status,
        "error": null, "incomplete_details": details, "model": model, "output": output, "store": false,
        "usage": {
            "input_tokens": input, "input_tokens_details": {"cached_tokens": usage.cache_read},
            "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input + usage.output,
        },
    })
}

fn items(answer: &ScriptedAnswer, number: u64) -> Vec<Value> {
    let mut items = Vec::new();
    if answer.thinking.is_some() {
        items.push(json!({
            "id": format!("rs_{number:016}"), "type": "reasoning", "summary": [],
            "encrypted_content": format!("gAAAAAb{number:08}"),
        }));
    }
    if !answer.text.is_empty() {
        let part = json!({"type": "output_text", "annotations": [], "logprobs": [], "text": answer.text});
        items.push(json!({
            "id": format!("msg_{number:016}"), "type": "message", "status": "completed",
            "content": [part], "role": "assistant",
        }));
    }
    for (index, (name, arguments)) in answer.calls.iter().enumerate() {
        let call_id = answer.call_id(format!("call_{number:012}{index:04}"));
        items.push(json!({
            "id": format!("fc_{number:012}{index:04}"), "type": "function_call", "status": "completed",
            "arguments": answer.arguments(arguments), "call_id": call_id, "name": name,
        }));
    }
    items
}
