//! Writes answers of the Gemini API.

use crate::simulation::emulator::model::anthropic::answer::pieces;
use crate::simulation::emulator::model::script::{AnswerFault, ScriptedAnswer};
use serde_json::{Value, json};
use std::fmt::Write;

/// Returns an error in the format of the API.
pub(in crate::simulation::emulator::model) fn error_body(status: u16, why: &str) -> String {
    let name = match status {
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        _ => "INVALID_ARGUMENT",
    };
    json!({"error": {"code": status, "message": why, "status": name}}).to_string()
}

/// Returns an answer in one piece. `number` is used for ids.
pub(in crate::simulation::emulator::model) fn whole(
    answer: &ScriptedAnswer,
    model: &str,
    number: u64,
) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(thinking) = &answer.thinking {
        parts.push(json!({"text": thinking, "thought": true}).to_string());
    }
    if !answer.text.is_empty() {
        parts.push(json!({"text": answer.text}).to_string());
    }
    parts.extend((0..answer.calls.len()).map(|index| call(answer, number, index)));
    chunk(answer, (model, number), &parts, Some(answer.stop("STOP", "STOP")))
}

/// Returns an answer as events. A call arrives in one piece.
pub(in crate::simulation::emulator::model) fn stream(
    answer: &ScriptedAnswer,
    model: &str,
    number: u64,
) -> String {
    let mut events = String::new();
    let mut event = |data: &str| {
        // Writing to a string cannot fail.
        let _ = write!(events, "data: {data}\r\n\r\n");
    };
    for piece in pieces(answer.thinking.as_deref().unwrap_or_default()) {
        event(&chunk(
            answer,
            (model, number),
            &[json!({"text": piece, "thought": true}).to_string()],
            None,
        ));
    }
    for piece in pieces(&answer.text) {
        event(&chunk(
            answer,
            (model, number),
            &[json!({"text": piece}).to_string()],
            None,
        ));
    }
    if let Some(AnswerFault::ErrorEvent(kind)) = &answer.fault {
        event(&json!({"error": {"code": 503, "message": "scripted", "status": kind}}).to_string());
    }
    for index in 0..answer.calls.len() {
        event(&chunk(
            answer,
            (model, number),
            &[call(answer, number, index)],
            None,
        ));
    }
    event(&chunk(
        answer,
        (model, number),
        &[],
        Some(answer.stop("STOP", "STOP")),
    ));
    events
}

/// Formatted by hand so that intentionally broken arguments stay as they are.
fn chunk(
    answer: &ScriptedAnswer,
    (model, number): (&str, u64),
    parts: &[String],
    reason: Option<&str>,
) -> String {
    let usage = usage(answer);
    let end = reason.map(|reason| format!("\"finishReason\":{},", json!(reason)));
    format!(
        "{{\"candidates\":[{{\"content\":{{\"parts\":[{}],\"role\":\"model\"}},{}\"index\":0}}],\"usageMetadata\":{usage},\"modelVersion\":{},\"responseId\":\"{number:016x}\"}}",
        parts.join(","),
        end.unwrap_or_default(),
        json!(model),
    )
}

/// Returns a call. The first of an answer is signed.
fn call(answer: &ScriptedAnswer, number: u64, index: usize) -> String {
    let (name, arguments) = match answer.calls.get(index) {
        Some((name, arguments)) => (name.as_str(), answer.arguments(arguments)),
        None => ("", "{}".to_owned()),
    };
    let id = answer.call_id(format!("{number:04x}{index:04x}"));
    let signature = match index {
        0 => format!(",\"thoughtSignature\":\"c2lnbmVk{number:08}\""),
        _ => String::new(),
    };
    format!(
        "{{\"functionCall\":{{\"id\":{},\"name\":{},\"args\":{arguments}}}{signature}}}",
        json!(id),
        json!(name)
    )
}

fn usage(answer: &ScriptedAnswer) -> Value {
    let usage = &answer.usage;
    let prompt = usage.input + usage.cache_read;
    let thoughts = if answer.thinking.is_some() {
        usage.output / 2
    } else {
        0
    };
    let mut body = json!({
        "promptTokenCount": prompt, "candidatesTokenCount": usage.output - thoughts,
        "totalTokenCount": prompt + usage.output,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt}],
    });
    // A count of zero is absent.
    if usage.cache_read > 0 {
        body["cachedContentTokenCount"] = usage.cache_read.into();
    }
    if thoughts > 0 {
        body["thoughtsTokenCount"] = thoughts.into();
    }
    body
}
