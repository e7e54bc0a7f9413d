//! A recorded answer of the Gemini API, for tests. Its chunks have the form of those in
//! <https://ai.google.dev/gemini-api/docs/text-generation> and, for signed calls,
//! <https://ai.google.dev/gemini-api/docs/thought-signatures>.

/// Returns a streamed answer with a thought, text and two calls.
pub(in crate::interfaces::provider) fn gemini_answer() -> String {
    let words = "grüße 🚢 ".repeat(60);
    let mut stream = String::new();
    let mut chunk = |parts: &str, end: &str| {
        stream.push_str(&format!(
            "data: {{\"candidates\": [{{\"content\": {{\"parts\": [{parts}],\"role\": \"model\"}},{end}\"index\": 0}}],\"usageMetadata\": {{\"promptTokenCount\": 18,\"cachedContentTokenCount\": 8,\"candidatesTokenCount\": 30,\"thoughtsTokenCount\": 12,\"totalTokenCount\": 60,\"promptTokensDetails\": [{{\"modality\": \"TEXT\",\"tokenCount\": 18}}]}},\"modelVersion\": \"gemini-3.1-pro-preview\",\"responseId\": \"aGVsbG8\"}}\r\n\r\n"
        ));
    };
    chunk(r#"{"text": "**Checking","thought": true}"#, "");
    chunk(r#"{"text": " the files**","thought": true}"#, "");
    for _ in 0..4 {
        chunk(&format!(r#"{{"text": "{words}"}}"#), "");
    }
    chunk(
        r#"{"functionCall": {"name": "file_read","args": {"path": "a"}},"thoughtSignature": "EpoBCpcBAb4+9vv6"},{"functionCall": {"name": "git_status"}}"#,
        "",
    );
    chunk(
        r#"{"text": "","thoughtSignature": "ErQBCrEBAb4+9vuA"}"#,
        r#""finishReason": "STOP","#,
    );
    stream
}
