//! A recorded answer of the Messages API, for tests.

/// Returns a streamed answer with thinking, text and two calls.
pub(in crate::interfaces::provider) fn anthropic_answer() -> String {
    let words = "grüße 🚢 ".repeat(40);
    let mut stream = String::new();
    let mut event = |data: String| stream.push_str(&format!("event: x\r\ndata: {data}\r\n\r\n"));
    event(r#"{"type":"message_start","message":{"model":"claude-1","usage":{"input_tokens":10,"cache_read_input_tokens":5,"cache_creation_input_tokens":3,"output_tokens":1}}}"#.into());
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
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":42}}"#.into(),
    );
    event(r#"{"type":"message_stop"}"#.into());
    stream
}
