//! A recorded answer of the Responses API, for tests. Its events have the form of those in
//! <https://platform.openai.com/docs/api-reference/responses-streaming> and
//! <https://platform.openai.com/docs/guides/function-calling#streaming>.

/// Returns a streamed answer with reasoning, text and two calls.
pub(in crate::interfaces::provider) fn responses_answer() -> String {
    let words = "grüße 🚢 ".repeat(30);
    let reasoning = r#"{"id":"rs_67ccf18f64008190","type":"reasoning","summary":[],"encrypted_content":"gAAAAABoISQ24OyV"}"#;
    let message = |text: &str, status: &str| {
        format!(
            r#"{{"id":"msg_67ccf190ca3881","type":"message","status":"{status}","content":[{{"type":"output_text","annotations":[],"logprobs":[],"text":"{text}"}}],"role":"assistant"}}"#
        )
    };
    let call = |number: u8, name: &str, arguments: &str| {
        format!(
            r#"{{"id":"fc_{number}2345xyz","type":"function_call","status":"completed","arguments":"{arguments}","call_id":"call_{number}2345xyz","name":"{name}"}}"#
        )
    };
    let text = words.repeat(4);
    let read = r#"{\"path\":\"a\"}"#;
    let response = |status: &str, output: &str, usage: &str| {
        format!(
            r#"{{"id":"resp_67ccf18ef5fc8190","object":"response","created_at":1741484430,"status":"{status}","error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"model":"gpt-5-2025-08-07","output":[{output}],"parallel_tool_calls":true,"previous_response_id":null,"store":false,"usage":{usage}}}"#
        )
    };
    let mut stream = String::new();
    let mut number = 0;
    let mut event = |kind: &str, fields: &str| {
        stream.push_str(&format!(
            "event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{number},{fields}}}\n\n"
        ));
        number += 1;
    };
    let begun = response("in_progress", "", "null");
    event("response.created", &format!(r#""response":{begun}"#));
    event("response.in_progress", &format!(r#""response":{begun}"#));
    event(
        "response.output_item.added",
        &format!(r#""output_index":0,"item":{reasoning}"#),
    );
    event(
        "response.output_item.done",
        &format!(r#""output_index":0,"item":{reasoning}"#),
    );
    let empty = message("", "in_progress");
    event(
        "response.output_item.added",
        &format!(r#""output_index":1,"item":{empty}"#),
    );
    for _ in 0..4 {
        event(
            "response.output_text.delta",
            &format!(
                r#""item_id":"msg_67ccf190ca3881","output_index":1,"content_index":0,"delta":"{words}""#
            ),
        );
    }
    let whole = message(&text, "completed");
    event(
        "response.output_item.done",
        &format!(r#""output_index":1,"item":{whole}"#),
    );
    let begun = call(1, "file_read", "");
    event(
        "response.output_item.added",
        &format!(r#""output_index":2,"item":{begun}"#),
    );
    event(
        "response.function_call_arguments.delta",
        r#""item_id":"fc_12345xyz","output_index":2,"delta":"{\"path\":\"a\"}""#,
    );
    let (first, second) = (call(1, "file_read", read), call(2, "git_status", "{}"));
    event(
        "response.output_item.done",
        &format!(r#""output_index":2,"item":{first}"#),
    );
    event(
        "response.output_item.added",
        &format!(r#""output_index":3,"item":{second}"#),
    );
    event(
        "response.output_item.done",
        &format!(r#""output_index":3,"item":{second}"#),
    );
    let output = [reasoning, &whole, &first, &second].join(",");
    let usage = r#"{"input_tokens":18,"input_tokens_details":{"cached_tokens":8},"output_tokens":42,"output_tokens_details":{"reasoning_tokens":12},"total_tokens":60}"#;
    let last = response("completed", &output, usage);
    event("response.completed", &format!(r#""response":{last}"#));
    stream
}
