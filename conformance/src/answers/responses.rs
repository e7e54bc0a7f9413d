//! Responses of OpenAI:
//!
//! - <https://platform.openai.com/docs/api-reference/responses/create> and `/responses-streaming`
//! - <https://platform.openai.com/docs/guides/reasoning>, "Reasoning summaries" and "Allocating space for reasoning"

use super::{ARGUMENTS, Answer, NAME, REFUSAL, THOUGHTS};
use serde_json::{Value, json};

pub(super) const ENCRYPTED: &str = "gAAAAABoISQ24OyV";

fn items(answer: Answer) -> Vec<Value> {
    let summary = match answer {
        Answer::Thoughts => json!([{"type": "summary_text", "text": THOUGHTS}]),
        _ => json!([]),
    };
    let mut items =
        vec![json!({"type": "reasoning", "id": "rs_01", "summary": summary, "encrypted_content": ENCRYPTED})];
    let part = match answer {
        Answer::Empty => None,
        Answer::Refused => Some(json!({"type": "refusal", "refusal": REFUSAL})),
        answer => Some(
            json!({"type": "output_text", "text": answer.words().concat(), "annotations": [], "logprobs": []}),
        ),
    };
    let status = if answer == Answer::Cut {
        "incomplete"
    } else {
        "completed"
    };
    items.extend(part.map(|part| {
        json!({"type": "message", "id": "msg_01", "status": status, "role": "assistant", "content": [part]})
    }));
    items.extend(ARGUMENTS.iter().take(answer.calls()).enumerate().map(|(index, arguments)| {
        json!({"type": "function_call", "id": format!("fc_0{index}"), "call_id": format!("call_x{index}"),
        "name": NAME, "arguments": arguments, "status": "completed"})
    }));
    items
}

/// Returns the answer in one piece.
pub(super) fn response(answer: Answer) -> Value {
    let (status, details) = match answer {
        Answer::Cut => ("incomplete", json!({"reason": "max_output_tokens"})),
        _ => ("completed", Value::Null),
    };
    let mut response = with_status(status, &items(answer));
    response["incomplete_details"] = details;
    response
}

fn with_status(status: &str, output: &[Value]) -> Value {
    json!({
        "id": "resp_67ca09c5efe0819096d0511c92b8c890", "object": "response", "created_at": 1_741_294_021,
        "status": status, "error": null, "incomplete_details": null, "instructions": null, "max_output_tokens": null,
        "model": "gpt-5.1-2025-11-13", "output": output, "parallel_tool_calls": true, "previous_response_id": null,
        "reasoning": {"effort": null, "summary": null}, "store": false, "temperature": 1.0,
        "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "truncation": "disabled", "user": null, "metadata": {},
        "usage": {"input_tokens": 291, "input_tokens_details": {"cached_tokens": 128, "cache_write_tokens": 0},
            "output_tokens": 23, "output_tokens_details": {"reasoning_tokens": 8}, "total_tokens": 314},
    })
}

/// Returns the events of the only part of a message between those that begin and end its item.
fn part_events(answer: Answer, index: usize, part: &Value) -> Vec<Value> {
    let (empty, deltas, done) = match answer {
        Answer::Refused => (
            json!({"type": "refusal", "refusal": ""}),
            vec![json!({"type": "response.refusal.delta", "delta": REFUSAL})],
            json!({"type": "response.refusal.done", "refusal": REFUSAL}),
        ),
        answer => (
            json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []}),
            answer
                .words()
                .iter()
                .map(|words| json!({"type": "response.output_text.delta", "delta": words, "logprobs": []}))
                .collect(),
            json!({"type": "response.output_text.done", "text": answer.words().concat(), "logprobs": []}),
        ),
    };
    let mut events = vec![json!({"type": "response.content_part.added", "part": empty})];
    events.extend(deltas);
    events.push(done);
    events.push(json!({"type": "response.content_part.done", "part": part}));
    for event in &mut events {
        event["item_id"] = "msg_01".into();
        event["output_index"] = index.into();
        event["content_index"] = 0.into();
    }
    events
}

/// Returns the events of the summary of thoughts.
fn summary_events(index: usize, summary: &[Value]) -> Vec<Value> {
    let mut events = Vec::new();
    for part in summary {
        let text = &part["text"];
        events.push(json!({"type": "response.reasoning_summary_part.added",
            "part": {"type": "summary_text", "text": ""}}));
        events.push(json!({"type": "response.reasoning_summary_text.delta", "delta": text}));
        events.push(json!({"type": "response.reasoning_summary_text.done", "text": text}));
        events.push(json!({"type": "response.reasoning_summary_part.done", "part": part}));
    }
    for event in &mut events {
        event["item_id"] = "rs_01".into();
        event["output_index"] = index.into();
        event["summary_index"] = 0.into();
    }
    events
}

/// Returns the events of the arguments of a call.
fn call_events(index: usize, item: &Value) -> Vec<Value> {
    let (first, second) = item["arguments"].as_str().expect("a text").split_at(11);
    let mut events = Vec::from(
        [first, second].map(|part| json!({"type": "response.function_call_arguments.delta", "delta": part})),
    );
    events.push(json!({"type": "response.function_call_arguments.done", "name": NAME, "arguments": item["arguments"]}));
    for event in &mut events {
        event["item_id"] = item["id"].clone();
        event["output_index"] = index.into();
    }
    events
}

/// Returns the answer as events.
pub(super) fn events(answer: Answer) -> Vec<Value> {
    let mut begun = with_status("in_progress", &[]);
    begun["usage"] = Value::Null;
    let mut events = vec![
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.in_progress", "response": begun}),
    ];
    for (index, item) in items(answer).into_iter().enumerate() {
        let mut added = item.clone();
        let between = match item["type"].as_str() {
            Some("message") => {
                added["content"] = json!([]);
                added["status"] = "in_progress".into();
                part_events(answer, index, &item["content"][0])
            }
            Some("function_call") => {
                added["arguments"] = "".into();
                added["status"] = "in_progress".into();
                call_events(index, &item)
            }
            _ => {
                added["summary"] = json!([]);
                summary_events(index, item["summary"].as_array().expect("a list"))
            }
        };
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": added}));
        events.extend(between);
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    let response = response(answer);
    let end = format!("response.{}", response["status"].as_str().expect("a status"));
    events.push(json!({"type": end, "response": response}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    events
}
