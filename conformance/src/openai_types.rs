//! The types of OpenAI's specification, as async-openai has them.

use crate::{Stop, Understood, Wire};
use async_openai::types::chat::{CreateChatCompletionRequest, CreateChatCompletionResponse};
use async_openai::types::responses::{CreateResponse, Response};
use serde_json::Value;

/// Returns a request as the types write it again; none if the specification has no such format.
pub fn request(wire: Wire, request: &Value) -> Option<Value> {
    let request = request.clone();
    let unread = |error| -> ! { panic!("{wire:?}: {error}") };
    let written = match wire {
        Wire::Chat => {
            let read: CreateChatCompletionRequest =
                serde_json::from_value(request).unwrap_or_else(|error| unread(error));
            serde_json::to_value(read)
        }
        Wire::Responses => {
            let read: CreateResponse = serde_json::from_value(request).unwrap_or_else(|error| unread(error));
            serde_json::to_value(read)
        }
        Wire::Messages | Wire::Gemini => return None,
    };
    Some(written.expect("JSON"))
}

/// Returns what an answer in one piece says; none if the specification has no such format.
pub fn answer(wire: Wire, body: &str) -> Option<Understood> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let parsed = |arguments: &Value| serde_json::from_str(&text(arguments)).expect("arguments");
    match wire {
        Wire::Chat => {
            let read: CreateChatCompletionResponse = serde_json::from_str(body).expect("an answer");
            let read = serde_json::to_value(read).expect("JSON");
            let message = &read["choices"][0]["message"];
            let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
            Some(Understood {
                text: text(&message["content"]),
                calls: calls
                    .iter()
                    .map(|call| {
                        let function = &call["function"];
                        (
                            text(&call["id"]),
                            text(&function["name"]),
                            parsed(&function["arguments"]),
                        )
                    })
                    .collect(),
                stop: match read["choices"][0]["finish_reason"].as_str() {
                    Some("stop") if message["refusal"].is_string() => Stop::Refused,
                    Some("stop") => Stop::Finished,
                    Some("tool_calls") => Stop::Calls,
                    Some("length") => Stop::Cut,
                    Some("content_filter") => Stop::Refused,
                    _ => Stop::Unknown,
                },
                input: number(&read["usage"]["prompt_tokens"]),
                cache_read: number(&read["usage"]["prompt_tokens_details"]["cached_tokens"]),
                output: number(&read["usage"]["completion_tokens"]),
            })
        }
        Wire::Responses => {
            let read: Response = serde_json::from_str(body).expect("an answer");
            let read = serde_json::to_value(read).expect("JSON");
            let items = read["output"].as_array().cloned().unwrap_or_default();
            let of = |kind: &'static str| items.iter().filter(move |item| item["type"] == kind);
            Some(Understood {
                text: of("message")
                    .map(|item| text(&item["content"][0]["text"]))
                    .collect(),
                stop: match read["incomplete_details"]["reason"].as_str() {
                    Some("max_output_tokens") => Stop::Cut,
                    Some("content_filter") => Stop::Refused,
                    _ if of("message").any(|item| item["content"][0]["type"] == "refusal") => Stop::Refused,
                    _ if of("function_call").next().is_some() => Stop::Calls,
                    _ => Stop::Finished,
                },
                calls: of("function_call")
                    .map(|call| {
                        (
                            text(&call["call_id"]),
                            text(&call["name"]),
                            parsed(&call["arguments"]),
                        )
                    })
                    .collect(),
                input: number(&read["usage"]["input_tokens"]),
                cache_read: number(&read["usage"]["input_tokens_details"]["cached_tokens"]),
                output: number(&read["usage"]["output_tokens"]),
            })
        }
        Wire::Messages | Wire::Gemini => None,
    }
}
