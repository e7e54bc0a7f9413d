//! A recorded answer of a chat completions API, for tests. Its chunks have the form of those in
//! <https://platform.openai.com/docs/api-reference/chat-streaming>. It begins with a byte order mark and a comment, as the
//! format of event streams allows: <https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>.

/// Returns a streamed answer with text and two calls.
pub(in crate::interfaces::provider) fn openai_answer() -> String {
    let words = "grüße 🚢 ".repeat(60);
    let mut stream = String::from("\u{feff}: connected\n\n");
    let mut chunk = |choices: &str, more: &str| {
        stream.push_str(&format!(
            "data: {{\"id\":\"chatcmpl-123\",\"object\":\"chat.completion.chunk\",\"created\":1694268190,\"model\":\"gpt-4o-mini\",\
             \"system_fingerprint\":\"fp_44709d6fcb\",\"choices\":[{choices}]{more}}}\n\n"
        ));
    };
    let delta =
        |delta: &str| format!(r#"{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":null}}"#);
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
    chunk(
        r#"{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}"#,
        "",
    );
    let usage = r#","usage":{"prompt_tokens":18,"completion_tokens":42,"total_tokens":60,"prompt_tokens_details":{"cached_tokens":8}}"#;
    chunk("", usage);
    stream.push_str("data: [DONE]\n\n");
    stream
}
