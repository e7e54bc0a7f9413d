//! Tests of the choice of tools in requests, byte for byte. The forms are those of the documentation of the services:
//!
//! - Anthropic: <https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use>
//! - OpenAI: <https://developers.openai.com/api/docs/guides/function-calling>
//! - Gemini: <https://ai.google.dev/gemini-api/docs/function-calling>

use crate::base::config::{ProviderId, WireFormat};
use crate::base::model::History;
use crate::interfaces::provider::codec::AnswerMode;
use crate::interfaces::provider::{Patience, ToolChoice, ToolSpec, TurnRequest, codec};
use crate::state::access::{Role, testing::identity};
use serde_json::json;

/// Returns the body of a request in each format, with the word of the format.
fn encoded(tool_choice: ToolChoice<'_>) -> String {
    encoded_for(ProviderId::Custom, tool_choice)
}

fn encoded_for(provider: ProviderId, tool_choice: ToolChoice<'_>) -> String {
    let mut history = History::default();
    history.begin("Is it safe?").expect("turn");
    let tools = ["file_read", "conclude"].map(|name| ToolSpec {
        name,
        description: "",
        schema: json!({"type": "object"}).into(),
    });
    let request = TurnRequest {
        identity: &identity(Role::Editor, &["**"]),
        model: "m",
        system: "",
        tools: &tools,
        tool_choice,
        turns: history.turns(),
        answer_tokens_max: 100,
        patience: Patience::Full,
    };
    let bodies = WireFormat::ALL.iter().map(|wire| {
        let codec = codec(*wire, provider, "house");
        let body = codec.encode(&request, AnswerMode::Whole).expect("a body");
        format!("{}: {}", wire.word(), String::from_utf8(body).expect("UTF-8"))
    });
    bodies.collect::<Vec<_>>().join("\n")
}

/// All tools stay in the request, because a prompt cache begins with them. Only many servers of chat completions ignore a
/// forced call, so they get the one tool.
#[test]
fn a_choice_of_tools_has_the_form_of_each_format() {
    insta::assert_snapshot!(encoded(ToolChoice::Forced("conclude")), @r#"
    anthropic-messages: {"model":"m","max_tokens":100,"stream":false,"tools":[{"name":"file_read","description":"","input_schema":{"type":"object"}},{"name":"conclude","description":"","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"conclude","disable_parallel_tool_use":true},"messages":[{"role":"user","content":[{"type":"text","text":"Is it safe?","cache_control":{"type":"ephemeral"}}]}]}
    openai-chat: {"model":"m","max_tokens":100,"stream":false,"tools":[{"type":"function","function":{"name":"conclude","description":"","parameters":{"type":"object"}}}],"tool_choice":{"type":"function","function":{"name":"conclude"}},"messages":[{"role":"user","content":"Is it safe?"}]}
    openai-responses: {"model":"m","max_output_tokens":100,"store":false,"stream":false,"tools":[{"type":"function","name":"file_read","description":"","parameters":{"type":"object"},"strict":false},{"type":"function","name":"conclude","description":"","parameters":{"type":"object"},"strict":false}],"tool_choice":{"type":"function","name":"conclude"},"input":[{"role":"user","content":"Is it safe?"}]}
    gemini-generate: {"tools":[{"functionDeclarations":[{"name":"file_read","description":"","parametersJsonSchema":{"type":"object"}},{"name":"conclude","description":"","parametersJsonSchema":{"type":"object"}}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["conclude"]}},"generationConfig":{"maxOutputTokens":100},"contents":[{"role":"user","parts":[{"text":"Is it safe?"}]}]}
    "#);
    insta::assert_snapshot!(encoded(ToolChoice::Text), @r#"
    anthropic-messages: {"model":"m","max_tokens":100,"stream":false,"tools":[{"name":"file_read","description":"","input_schema":{"type":"object"}},{"name":"conclude","description":"","input_schema":{"type":"object"}}],"tool_choice":{"type":"none"},"messages":[{"role":"user","content":[{"type":"text","text":"Is it safe?","cache_control":{"type":"ephemeral"}}]}]}
    openai-chat: {"model":"m","max_tokens":100,"stream":false,"tools":[{"type":"function","function":{"name":"file_read","description":"","parameters":{"type":"object"}}},{"type":"function","function":{"name":"conclude","description":"","parameters":{"type":"object"}}}],"tool_choice":"none","messages":[{"role":"user","content":"Is it safe?"}]}
    openai-responses: {"model":"m","max_output_tokens":100,"store":false,"stream":false,"tools":[{"type":"function","name":"file_read","description":"","parameters":{"type":"object"},"strict":false},{"type":"function","name":"conclude","description":"","parameters":{"type":"object"},"strict":false}],"tool_choice":"none","input":[{"role":"user","content":"Is it safe?"}]}
    gemini-generate: {"tools":[{"functionDeclarations":[{"name":"file_read","description":"","parametersJsonSchema":{"type":"object"}},{"name":"conclude","description":"","parametersJsonSchema":{"type":"object"}}]}],"toolConfig":{"functionCallingConfig":{"mode":"NONE"}},"generationConfig":{"maxOutputTokens":100},"contents":[{"role":"user","parts":[{"text":"Is it safe?"}]}]}
    "#);
}

/// A server that ignores the choice gets no tools if the model has to write text.
#[test]
fn a_server_that_ignores_the_choice_of_tools_is_offered_none() {
    let [custom, ollama] =
        [ProviderId::Custom, ProviderId::Ollama].map(|provider| encoded_for(provider, ToolChoice::Text));
    let chat = |requests: &str| {
        let line = requests.lines().find(|line| line.starts_with("openai-chat: "));
        line.expect("a request").to_owned()
    };
    assert!(chat(&custom).contains(r#""tool_choice":"none""#), "{custom}");
    assert!(!chat(&ollama).contains("tool"), "{ollama}");
    let forced = encoded_for(ProviderId::Ollama, ToolChoice::Forced("conclude"));
    assert!(!chat(&forced).contains("file_read"), "{forced}");
}

#[test]
fn a_free_request_says_nothing_about_it() {
    let free = encoded(ToolChoice::Free);
    assert!(!free.contains("choice") && !free.contains("toolConfig"), "{free}");
    // A service refuses the name of a tool that is not offered.
    assert_eq!(encoded(ToolChoice::Forced("file_write")), free);
}
