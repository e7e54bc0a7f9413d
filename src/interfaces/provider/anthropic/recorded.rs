//! A recorded answer of the Messages API, for tests. Its events have the form of those in
//! <https://platform.claude.com/docs/en/build-with-claude/streaming>; lines end with CRLF, as the format of event streams
//! allows: <https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>.

/// Returns a streamed answer with thinking, text and two calls.
pub(in crate::interfaces::provider) fn anthropic_answer() -> String {
    let words = "grüße 🚢 ".repeat(40);
    let mut stream = String::new();
    let mut event = |data: String| {
        // The name of an event is its type.
        let kind = data.split('"').nth(3).unwrap_or_default();
        stream.push_str(&format!("event: {kind}\r\ndata: {data}\r\n\r\n"));
    };
    event(r#"{"type":"message_start","message":{"id":"msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyS","type":"message","role":"assistant","content":[],"model":"claude-opus-4-6","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":3,"cache_read_input_tokens":5,"output_tokens":1}}}"#.into());
    event(r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#.into());
    event(
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}"#
            .into(),
    );
    event(
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#
            .into(),
    );
    event(r#"{"type":"content_block_stop","index":0}"#.into());
    event(r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"b64"}}"#.into());
    event(r#"{"type":"content_block_stop","index":1}"#.into());
    event(r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#.into());
    event(r#"{"type":"ping"}"#.into());
    for _ in 0..4 {
        event(format!(
            r#"{{"type":"content_block_delta","index":2,"delta":{{"type":"text_delta","text":"{words}"}}}}"#
        ));
    }
    event(r#"{"type":"content_block_stop","index":2}"#.into());
    event(r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"file_read","input":{}}}"#.into());
    event(
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}"#
            .into(),
    );
    event(r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}"#.into());
    event(r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"\"a\"}"}}"#.into());
    event(r#"{"type":"content_block_stop","index":3}"#.into());
    event(r#"{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_2","name":"git_status","input":{}}}"#.into());
    event(r#"{"type":"content_block_stop","index":4}"#.into());
    event(
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":42}}"#.into(),
    );
    event(r#"{"type":"message_stop"}"#.into());
    stream
}
