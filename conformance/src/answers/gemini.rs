//! Generated content of Gemini:
//!
//! - <https://ai.google.dev/api/generate-content>, also for blocked prompts and reasons to finish
//! - <https://ai.google.dev/gemini-api/docs/thought-signatures> and `/thinking`, "Thought summaries"

use super::{Answer, NAME, THOUGHTS, arguments};
use serde_json::{Value, json};

/// Returns the parts of an answer whose words come in these pieces.
fn parts(answer: Answer, words: &[String]) -> Vec<Value> {
    let mut parts = Vec::new();
    if answer == Answer::Thoughts {
        parts.push(json!({"text": THOUGHTS, "thought": true}));
    }
    parts.extend(words.iter().map(|words| json!({"text": words})));
    parts.extend((0..answer.calls()).map(|index| {
        let mut part = json!({"functionCall": {"name": NAME, "args": arguments(index)}});
        if index == 0 {
            part["thoughtSignature"] = SIGNATURE.into();
        }
        part
    }));
    parts
}

pub(super) const SIGNATURE: &str = "EpoBCpcBAb4+9vv6";

fn finish_reason(answer: Answer) -> &'static str {
    match answer {
        Answer::Calls | Answer::Thoughts | Answer::Empty => "STOP",
        Answer::Cut => "MAX_TOKENS",
        Answer::Refused => "SAFETY",
    }
}

fn with_parts(parts: &[Value], finish_reason: Option<&str>) -> Value {
    let mut content = json!({"role": "model"});
    if !parts.is_empty() {
        content["parts"] = parts.into();
    }
    let mut candidate = json!({"content": content, "index": 0});
    if let Some(reason) = finish_reason {
        candidate["finishReason"] = reason.into();
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": 78, "cachedContentTokenCount": 50, "candidatesTokenCount": 20,
            "thoughtsTokenCount": 61, "totalTokenCount": 159,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 78}]},
        "modelVersion": "gemini-2.5-pro", "responseId": "Ojhd",
    })
}

/// Returns the answer in one piece.
pub(super) fn generated(answer: Answer) -> Value {
    let words = match answer.words() {
        [] => vec![],
        words => vec![words.concat()],
    };
    with_parts(&parts(answer, &words), Some(finish_reason(answer)))
}

/// Returns the answer as events. The last one has the reason.
pub(super) fn events(answer: Answer) -> String {
    let line = |generated: Value| format!("data: {generated}\r\n\r\n");
    let words: Vec<String> = answer.words().iter().map(|words| (*words).to_owned()).collect();
    let parts = parts(answer, &words);
    let in_last = answer.calls().max(1).min(parts.len());
    let (first, last) = parts.split_at(parts.len() - in_last);
    let mut events: String = first
        .iter()
        .map(|part| line(with_parts(std::slice::from_ref(part), None)))
        .collect();
    events.push_str(&line(with_parts(last, Some(finish_reason(answer)))));
    events
}
