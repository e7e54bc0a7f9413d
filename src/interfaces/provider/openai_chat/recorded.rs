//! A recorded answer of a chat completions API, for tests.

/// Returns a streamed answer with text and two calls.
pub(in crate::interfaces::provider) fn openai_answer() -> String {
    let words = "grüße 🚢 ".repeat(60);
    let mut stream = String::from("\u{feff}: connected\n\n");
    let mut chunk = |choices: &str, more: &str| {
        stream.push_str(&format!(
            "data: {{\"id\":\"c\",\"model\":\"gpt-1\",\"choices\":[{choices}]{more}}}\n\n"
        ));
    };
    let delta = |delta: &str| format!(r#"{{"index":0,"delta":{delta},"finish_reason":null}}"#);
    chunk(&delta(r#"{"role":"assistant","content":""}"#), "");
    for _ in 0..4 {
        chunk(&delta(&format!(r#"{{"content":"{words}"}}"#)), "");
    }
    chunk(
        &delta(
            r#"{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"file_read","arguments":""}}]}"#,
        ),
        "",
    );
    chunk(
        &delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}"#),
        "",
    );
    chunk(
        &delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"a\"}"}}]}"#),
        "",
    );
    chunk(
        &delta(
            r#"{"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"git_status","arguments":"{}"}}]}"#,
        ),
        "",
    );
    chunk(r#"{"index":0,"delta":{},"finish_reason":"tool_calls"}"#, "");
    let usage =
        r#","usage":{"prompt_tokens":18,"completion_tokens":42,"prompt_tokens_details":{"cached_tokens":8}}"#;
    chunk("", usage);
    stream.push_str("data: [DONE]\n\n");
    stream
}
