//! Chat completions of OpenAI:
//!
//! - <https://platform.openai.com/docs/api-reference/chat/create> and `/chat-streaming`, "Functions"
//! - <https://platform.openai.com/docs/guides/structured-outputs>, "Refusals"
//!
//! The format shows no thoughts.

use super::{ARGUMENTS, Answer, NAME, REFUSAL};
use serde_json::{Value, json};

fn usage() -> Value {
    json!({
        "prompt_tokens": 82, "completion_tokens": 17, "total_tokens": 99,
        "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 5, "audio_tokens": 0, "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0},
    })
}

fn refusal(answer: Answer) -> Option<&'static str> {
    (answer == Answer::Refused).then_some(REFUSAL)
}

fn finish_reason(answer: Answer) -> &'static str {
    match answer {
        Answer::Calls => "tool_calls",
        Answer::Cut => "length",
        Answer::Thoughts | Answer::Refused | Answer::Empty => "stop",
    }
}

/// Returns the answer in one piece.
pub(super) fn completion(answer: Answer) -> Value {
    let call = |index: usize| {
        json!({"id": format!("call_abc{index}"), "type": "function",
        "function": {"name": NAME, "arguments": ARGUMENTS[index]}})
    };
    let content = match answer {
        Answer::Refused => Value::Null,
        answer => answer.words().concat().into(),
    };
    let mut message =
        json!({"role": "assistant", "content": content, "refusal": refusal(answer), "annotations": []});
    if answer.calls() > 0 {
        message["tool_calls"] = (0..answer.calls()).map(call).collect();
    }
    let choice =
        json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(answer)});
    json!({
        "id": "chatcmpl-abc123", "object": "chat.completion", "created": 1_699_896_916, "model": "gpt-4o-2024-08-06",
        "choices": [choice], "usage": usage(),
    })
}

/// Returns the answer as events.
pub(super) fn events(answer: Answer) -> String {
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
    for words in answer.words() {
        events.push_str(&delta(json!({"content": words})));
    }
    if let Some(refusal) = refusal(answer) {
        events.push_str(&delta(json!({"refusal": refusal})));
    }
    for (index, arguments) in ARGUMENTS.iter().take(answer.calls()).enumerate() {
        let begun = json!({"index": index, "id": format!("call_abc{index}"), "type": "function",
            "function": {"name": NAME, "arguments": ""}});
        events.push_str(&delta(json!({"tool_calls": [begun]})));
        let (first, second) = arguments.split_at(11);
        for part in [first, second] {
            events.push_str(&delta(
                json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]}),
            ));
        }
    }
    let end = json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": finish_reason(answer)}]);
    events.push_str(&chunk(end, Value::Null));
    events.push_str(&chunk(json!([]), usage()));
    events.push_str("data: [DONE]\n\n");
    events
}
