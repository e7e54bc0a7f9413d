//! Drydock's side: the example `model_call` of the repository, which makes one call.

use crate::transcript::{
    ABOUT, ABOUT_FILE, ANSWER, ANSWER_TOKENS, CALLS, Conversation, FIRST, LOOKS, RESULTS, SECOND, SYSTEM,
    TOOL, schema,
};
use crate::{Reading, Stop, Understood, Wire};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Returns the program of the example.
fn program() -> PathBuf {
    let named = std::env::var_os("DRYDOCK_MODEL_CALL").map(PathBuf::from);
    let built = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/debug/examples/model_call");
    let program = named.unwrap_or_else(built);
    assert!(
        program.is_file(),
        "{} is missing; run `cargo build --example model_call` in the repository",
        program.display()
    );
    program
}

/// Makes a call of the service at this address, and returns what Drydock made of the answer.
pub async fn call(wire: Wire, address: &str, is_streamed: bool, conversation: Conversation) -> Reading {
    let turns = match (conversation, conversation.file()) {
        (Conversation::Continued, _) => json!([{"user": FIRST, "steps": []}]),
        (_, None) => turns(),
        (_, Some(file)) => json!([{
            "user": ABOUT_FILE, "steps": [],
            "files": [{"name": file.name, "media_type": file.media_type, "base64": file.base64}],
        }]),
    };
    let then: Vec<Value> = match conversation {
        Conversation::Continued => RESULTS
            .map(|content| json!({"content": content, "is_error": false}))
            .into(),
        _ => Vec::new(),
    };
    let input = json!({
        "provider": if wire == Wire::Messages { "anthropic" } else { "openai" },
        "wire": wire.word(), "base_url": format!("{address}{}", wire.base_path()), "model": wire.model(),
        "stream": is_streamed, "system": SYSTEM, "answer_tokens_max": ANSWER_TOKENS,
        "tools": [{"name": TOOL, "description": ABOUT, "schema": schema()}],
        "turns": turns, "then": then,
    });
    let output = tokio::task::spawn_blocking(move || run(&input))
        .await
        .expect("a thread");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if !output["error"].is_null() {
        return Reading::Failed(text(&output["error"]));
    }
    let calls = output["calls"].as_array().expect("calls").iter();
    let number = |field: &str| output["usage"][field].as_u64().expect("a number");
    Reading::Answer(Understood {
        text: text(&output["text"]),
        calls: calls
            .map(|call| {
                let arguments = serde_json::from_str(&text(&call["arguments"])).expect("arguments");
                (text(&call["id"]), text(&call["name"]), arguments)
            })
            .collect(),
        stop: match output["stop"].as_str().expect("a word") {
            "EndTurn" => Stop::Finished,
            "ToolUse" => Stop::Calls,
            "MaxTokens" => Stop::Cut,
            "Refusal" => Stop::Refused,
            other => panic!("{other}"),
        },
        input: number("input") + number("cache_read") + number("cache_write"),
        cache_read: number("cache_read"),
        output: number("output"),
    })
}

/// Returns the turns with calls.
fn turns() -> Value {
    let calls: Vec<Value> = CALLS
        .iter()
        .map(|(id, arguments, _, _)| json!({"id": id, "name": TOOL, "arguments": arguments}))
        .collect();
    let results: Vec<Value> = CALLS
        .iter()
        .map(|(_, _, content, is_error)| json!({"content": content, "is_error": is_error}))
        .collect();
    json!([
        {"user": FIRST, "steps": [
            {"text": LOOKS, "calls": calls, "results": results},
            {"text": ANSWER, "calls": [], "results": []},
        ]},
        {"user": SECOND, "steps": []},
    ])
}

fn run(input: &Value) -> Value {
    let mut child = Command::new(program())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(input.to_string().as_bytes())
        .expect("the program reads");
    drop(stdin);
    let output = child.wait_with_output().expect("the program ends");
    serde_json::from_slice(&output.stdout).expect("JSON")
}
