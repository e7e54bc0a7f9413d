//! An answer with words and two calls in each format, in one piece and as a stream. The shapes are those of the examples
//! in the documentation of the services:
//!
//! - <https://docs.anthropic.com/en/docs/build-with-claude/streaming>, "Streaming request with tool use"
//! - <https://platform.openai.com/docs/api-reference/chat/create> and `/chat-streaming`, "Functions"
//! - <https://platform.openai.com/docs/api-reference/responses/create> and `/responses-streaming`
//! - <https://ai.google.dev/api/generate-content> and <https://ai.google.dev/gemini-api/docs/thought-signatures>

use crate::Wire;
use serde_json::{Value, json};

const WORDS: [&str; 2] = ["Okay, let me check ", "the weather. ü 🚢"];
const NAME: &str = "get_weather";
const ARGUMENTS: [&str; 2] = [
    "{\"location\": \"San Francisco, CA\"}",
    "{\"location\": \"Zürich\"}",
];

/// Returns the body of the answer.
pub fn body(wire: Wire, is_streamed: bool) -> String {
    match (wire, is_streamed) {
        (Wire::Messages, false) => message().to_string(),
        (Wire::Messages, true) => named_events(&message_events()),
        (Wire::Chat, false) => chat().to_string(),
        (Wire::Chat, true) => chat_events(),
        (Wire::Responses, false) => response("completed", &items()).to_string(),
        (Wire::Responses, true) => named_events(&response_events()),
        (Wire::Gemini, false) => gemini(&parts(), true).to_string(),
        (Wire::Gemini, true) => gemini_events(),
    }
}

fn words() -> String {
    WORDS.concat()
}

fn arguments(index: usize) -> Value {
    serde_json::from_str(ARGUMENTS[index]).expect("JSON")
}

fn named_events(events: &[Value]) -> String {
    let line = |event: &Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().expect("a type")
        )
    };
    events.iter().map(line).collect()
}

fn message_usage() -> Value {
    json!({"input_tokens": 472, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 100, "output_tokens": 89})
}

fn message() -> Value {
    let call = |index: usize| json!({"type": "tool_use", "id": format!("toolu_0{index}"), "name": NAME, "input": arguments(index)});
    json!({
        "id": "msg_014p7gG3wDgGV9EUtLvnow3U", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": words()}, call(0), call(1)],
        "stop_reason": "tool_use", "stop_sequence": null, "usage": message_usage(),
    })
}

fn message_events() -> Vec<Value> {
    let mut start = message();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    start["usage"]["output_tokens"] = 2.into();
    let begin = |index: usize, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta =
        |index: usize, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let end = |index: usize| json!({"type": "content_block_stop", "index": index});
    let mut events = vec![
        json!({"type": "message_start", "message": start}),
        begin(0, json!({"type": "text", "text": ""})),
        json!({"type": "ping"}),
    ];
    events.extend(WORDS.map(|words| delta(0, json!({"type": "text_delta", "text": words}))));
    events.push(end(0));
    for index in 0..2 {
        let block = json!({"type": "tool_use", "id": format!("toolu_0{index}"), "name": NAME, "input": {}});
        events.push(begin(index + 1, block));
        let (first, second) = ARGUMENTS[index].split_at(11);
        for part in ["", first, second] {
            events.push(delta(
                index + 1,
                json!({"type": "input_json_delta", "partial_json": part}),
            ));
        }
        events.push(end(index + 1));
    }
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null},
        "usage": {"output_tokens": 89}}),
    );
    events.push(json!({"type": "message_stop"}));
    events
}

fn chat_usage() -> Value {
    json!({
        "prompt_tokens": 82, "completion_tokens": 17, "total_tokens": 99,
        "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 5, "audio_tokens": 0, "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0},
    })
}

fn chat() -> Value {
    let call = |index: usize| {
        json!({"id": format!("call_abc{index}"), "type": "function",
        "function": {"name": NAME, "arguments": ARGUMENTS[index]}})
    };
    let message = json!({"role": "assistant", "content": words(), "refusal": null, "annotations": [],
        "tool_calls": [call(0), call(1)]});
    json!({
        "id": "chatcmpl-abc123", "object": "chat.completion", "created": 1_699_896_916, "model": "gpt-4o-2024-08-06",
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": "tool_calls"}],
        "usage": chat_usage(),
    })
}

fn chat_events() -> String {
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({"id": "chatcmpl-123", "object": "chat.completion.chunk", "created": 1_694_268_190,
            "model": "gpt-4o-2024-08-06", "system_fingerprint": "fp_44709d6fcb", "choices": choices, "usage": usage});
        format!("data: {chunk}\n\n")
    };
    let delta = |delta: Value| {
        chunk(
            json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]),
            Value::Null,
        )
    };
    let mut events = delta(json!({"role": "assistant", "content": "", "refusal": null}));
    for words in WORDS {
        events.push_str(&delta(json!({"content": words})));
    }
    for index in 0..2 {
        let begun = json!({"index": index, "id": format!("call_abc{index}"), "type": "function",
            "function": {"name": NAME, "arguments": ""}});
        events.push_str(&delta(json!({"tool_calls": [begun]})));
        let (first, second) = ARGUMENTS[index].split_at(11);
        for part in [first, second] {
            events.push_str(&delta(
                json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]}),
            ));
        }
    }
    let end = json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": "tool_calls"}]);
    events.push_str(&chunk(end, Value::Null));
    events.push_str(&chunk(json!([]), chat_usage()));
    events.push_str("data: [DONE]\n\n");
    events
}

fn items() -> Vec<Value> {
    let call = |index: usize| {
        json!({"type": "function_call", "id": format!("fc_0{index}"), "call_id": format!("call_x{index}"),
        "name": NAME, "arguments": ARGUMENTS[index], "status": "completed"})
    };
    vec![
        json!({"type": "reasoning", "id": "rs_01", "summary": [], "encrypted_content": "gAAAAABoISQ24OyV"}),
        json!({"type": "message", "id": "msg_01", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": words(), "annotations": [], "logprobs": []}]}),
        call(0),
        call(1),
    ]
}

fn response(status: &str, output: &[Value]) -> Value {
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

fn response_events() -> Vec<Value> {
    let mut begun = response("in_progress", &[]);
    begun["usage"] = Value::Null;
    let mut events = vec![
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.in_progress", "response": begun}),
    ];
    for (index, item) in items().into_iter().enumerate() {
        let mut added = item.clone();
        let mut deltas = Vec::new();
        if item["type"] == "message" {
            added["content"] = json!([]);
            added["status"] = "in_progress".into();
            let place = |mut event: Value| {
                event["item_id"] = "msg_01".into();
                event["output_index"] = index.into();
                event["content_index"] = 0.into();
                event
            };
            let empty = json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []});
            deltas.push(place(
                json!({"type": "response.content_part.added", "part": empty}),
            ));
            deltas.extend(WORDS.map(|words| {
                place(json!({"type": "response.output_text.delta", "delta": words, "logprobs": []}))
            }));
            deltas.push(place(
                json!({"type": "response.output_text.done", "text": words(), "logprobs": []}),
            ));
            deltas.push(place(
                json!({"type": "response.content_part.done", "part": item["content"][0]}),
            ));
        }
        if item["type"] == "function_call" {
            added["arguments"] = "".into();
            added["status"] = "in_progress".into();
            let (first, second) = item["arguments"].as_str().expect("a text").split_at(11);
            for part in [first, second] {
                deltas.push(
                    json!({"type": "response.function_call_arguments.delta", "item_id": item["id"],
                    "output_index": index, "delta": part}),
                );
            }
            deltas.push(
                json!({"type": "response.function_call_arguments.done", "item_id": item["id"],
                "output_index": index, "name": NAME, "arguments": item["arguments"]}),
            );
        }
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": added}));
        events.extend(deltas);
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    events.push(json!({"type": "response.completed", "response": response("completed", &items())}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    events
}

fn parts() -> Vec<Value> {
    vec![
        json!({"text": words()}),
        json!({"functionCall": {"name": NAME, "args": arguments(0)}, "thoughtSignature": "EpoBCpcBAb4+9vv6"}),
        json!({"functionCall": {"name": NAME, "args": arguments(1)}}),
    ]
}

fn gemini(parts: &[Value], is_last: bool) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if is_last {
        candidate["finishReason"] = "STOP".into();
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": 78, "cachedContentTokenCount": 50, "candidatesTokenCount": 20,
            "thoughtsTokenCount": 61, "totalTokenCount": 159,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 78}]},
        "modelVersion": "gemini-2.5-pro", "responseId": "Ojhd",
    })
}

fn gemini_events() -> String {
    let line = |parts: &[Value], is_last: bool| format!("data: {}\r\n\r\n", gemini(parts, is_last));
    let mut events: String = WORDS.map(|words| line(&[json!({"text": words})], false)).concat();
    events.push_str(&line(&parts()[1..], true));
    events
}
