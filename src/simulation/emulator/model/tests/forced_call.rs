//! Tests of forced calls: the request of each format is accepted, wrong ones are refused as the services refuse them, and a
//! service that cannot force a call is asked again without it.

use super::{KEY, ModelFixture, Way, asking, failure_kind_of, streamed, ways};
use crate::base::http_client::api_client;
use crate::base::model::StopReason;
use crate::interfaces::provider::{ProviderFailureKind, ToolChoice};
use crate::simulation::emulator::model::{
    AnswerFault, AnswerScript, ModelEmulator, ModelRequest, RequestedCalls, ScriptedAnswer, calls, queue,
    says,
};
use serde_json::{Value, json};

fn forcing(way: Way, script: impl AnswerScript + 'static) -> ModelFixture {
    ModelFixture {
        tool_choice: ToolChoice::Forced("file_read"),
        ..ModelFixture::new(way, script)
    }
}

fn refusing(status: u16, why: &str) -> ScriptedAnswer {
    says("").with_fault(AnswerFault::Status {
        status,
        headers: Vec::new(),
        body: json!({"error": {"type": "invalid_request_error", "message": why}}).to_string(),
    })
}

/// Chat completions say that such an answer ended by itself; it is a call all the same.
#[tokio::test]
async fn a_forced_call_is_requested_and_read_in_every_way() {
    for way in ways() {
        let mut fixture = forcing(way, queue([calls("file_read", json!({"path": "a"}))]));
        let answer = fixture.ask(&asking("hello")).await.expect("answer");
        let names: Vec<&str> = answer.assistant.calls().map(|call| call.name.as_str()).collect();
        assert_eq!(
            (names, answer.assistant.stop),
            (vec!["file_read"], StopReason::ToolUse)
        );
        let asked = fixture.emulator.requests();
        assert_eq!(
            asked[0].tool_choice.forced_tool(),
            Some("file_read"),
            "{}",
            way.0.name
        );
        fixture.assert_in_order();
    }
}

#[tokio::test]
async fn a_service_that_refuses_to_force_a_call_is_asked_again_without_it() {
    for way in ways() {
        for (status, why) in [
            (
                400,
                "Thinking may not be enabled when tool_choice forces tool use.",
            ),
            (400, "Thinking mode does not support this tool_choice"),
            (
                404,
                "No endpoints found that support the provided 'tool_choice' value.",
            ),
            (400, "Unknown name \"toolConfig.functionCallingConfig\""),
        ] {
            let script = move |asked: &ModelRequest| match asked.tool_choice.forced_tool() {
                Some(_) => refusing(status, why),
                None => calls("file_read", json!({"path": "a"})),
            };
            let mut fixture = forcing(way, script);
            let answer = fixture.ask(&asking("hello")).await.expect("answer");
            assert_eq!(answer.assistant.calls().count(), 1);
            // The refusal has cost nothing.
            assert_eq!(answer.side, Default::default());
            let asked = fixture.emulator.requests();
            let forced: Vec<bool> = asked
                .iter()
                .map(|asked| asked.tool_choice.forced_tool().is_some())
                .collect();
            assert_eq!(forced, [true, false], "{} {why}", way.0.name);
            assert_eq!(asked[0].messages, asked[1].messages);
            fixture.assert_in_order();
        }
    }
}

/// The services write text if calls are forbidden. A server that does not know that is asked again without it.
#[tokio::test]
async fn calls_are_forbidden_in_every_way_and_a_server_that_cannot_is_asked_again() {
    for way in ways() {
        for is_refused in [false, true] {
            let script = move |asked: &ModelRequest| match asked.tool_choice {
                RequestedCalls::Forbidden if is_refused => {
                    refusing(400, "Unknown parameter: tool_choice, toolConfig")
                }
                RequestedCalls::Forbidden => says("It holds.").with_call("file_read", json!({"path": "a"})),
                _ => says("It holds."),
            };
            let mut fixture = ModelFixture {
                tool_choice: ToolChoice::Text,
                ..ModelFixture::new(way, script)
            };
            let answer = fixture.ask(&asking("hello")).await.expect("answer");
            let said = (answer.assistant.text(), answer.assistant.calls().count());
            assert_eq!(said, ("It holds.".to_owned(), 0));
            let asked = fixture.emulator.requests();
            let choices: Vec<&RequestedCalls> = asked.iter().map(|asked| &asked.tool_choice).collect();
            // A server that ignores the choice is offered no tools.
            let ignores = asked[0].tools.is_empty();
            let expected: &[&RequestedCalls] = match (ignores, is_refused) {
                (true, _) => &[&RequestedCalls::Free],
                (false, false) => &[&RequestedCalls::Forbidden],
                (false, true) => &[&RequestedCalls::Forbidden, &RequestedCalls::Free],
            };
            assert_eq!(choices, expected, "{}", way.0.name);
            assert_eq!(ignores, way.0.name == "ollama");
            assert!(asked.iter().all(|each| each.tools == asked[0].tools));
            fixture.assert_in_order();
        }
    }
}

#[tokio::test]
async fn a_refusal_for_another_reason_is_not_repeated() {
    let (way, too_long) = (streamed("anthropic"), "prompt is too long: 9 > 8");
    let forced = "Thinking mode does not support this tool_choice";
    for (status, why) in [(400, too_long), (401, forced), (429, forced), (500, forced)] {
        let mut fixture = forcing(way, queue([refusing(status, why)]));
        fixture.ask(&asking("hello")).await.expect_err("refused");
        assert_eq!(fixture.emulator.requests().len(), 1, "{status} {why}");
    }
    // What is refused twice is reported.
    let mut fixture = forcing(way, queue([refusing(400, forced), refusing(400, forced)]));
    let outcome = fixture.ask(&asking("hello")).await;
    assert_eq!(failure_kind_of(&outcome), Some(ProviderFailureKind::Rejected));
    assert_eq!(fixture.emulator.requests().len(), 2);
    // A request that forces nothing is not repeated either.
    let mut fixture = ModelFixture::new(way, queue([refusing(400, forced)]));
    fixture.ask(&asking("hello")).await.expect_err("refused");
    assert_eq!(fixture.emulator.requests().len(), 1);
}

/// Sends a valid request of a format with other fields, and returns the status and the text of the answer.
async fn sent(path: &str, mut body: Value, changes: Value) -> (u16, String) {
    let emulator = ModelEmulator::start(queue([says("ok")])).expect("emulator");
    for (field, value) in changes.as_object().expect("fields") {
        body[field] = value.clone();
    }
    let request = api_client()
        .expect("client")
        .post(format!("{}{path}", emulator.url()))
        .header("x-api-key", KEY)
        .header("x-goog-api-key", KEY)
        .header("anthropic-version", "2023-06-01")
        .bearer_auth(KEY)
        .header("content-type", "application/json")
        .body(body.to_string());
    let mut response = request.send().await.expect("response");
    let status = response.status().as_u16();
    // The emulator answers in one piece.
    let body = response.chunk().await.expect("chunk").expect("body");
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

async fn assert_rules(path: &str, body: &Value, rules: &[(Value, Option<&str>)]) {
    for (changes, why) in rules {
        let (status, text) = sent(path, body.clone(), changes.clone()).await;
        match why {
            None => assert_eq!(status, 200, "{changes}: {text}"),
            Some(why) => assert!(status == 400 && text.contains(why), "{changes}: {status} {text}"),
        }
    }
}

#[tokio::test]
async fn anthropic_accepts_a_forced_tool_that_is_offered_and_not_with_thinking() {
    let body = json!({
        "model": "m", "max_tokens": 9, "system": "s", "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"name": "a", "input_schema": {"type": "object"}}],
    });
    let named = |name: &str| json!({"type": "tool", "name": name});
    let thinks = Some("Thinking may not be enabled when tool_choice forces tool use.");
    let rules = [
        (json!({"tool_choice": named("a")}), None),
        (
            json!({"tool_choice": {"type": "auto"}, "thinking": {"type": "enabled"}}),
            None,
        ),
        (
            json!({"tool_choice": named("a"), "thinking": {"type": "disabled"}}),
            None,
        ),
        (
            json!({"tool_choice": named("a"), "thinking": {"type": "enabled"}}),
            thinks,
        ),
        (
            json!({"tool_choice": {"type": "any"}, "thinking": {"type": "adaptive"}}),
            thinks,
        ),
        (
            json!({"tool_choice": named("b")}),
            Some("Tool 'b' not found in provided tools"),
        ),
        (
            json!({"tool_choice": named("a"), "tools": []}),
            Some("only be specified while providing tools"),
        ),
        (
            json!({"tool_choice": {"type": "function"}}),
            Some("Input should be"),
        ),
        (
            json!({"tool_choice": {"type": "auto", "name": "a"}}),
            Some("Extra inputs are not permitted"),
        ),
    ];
    assert_rules("/v1/messages", &body, &rules).await;
}

#[tokio::test]
async fn openai_accepts_a_forced_function_that_is_offered() {
    let function = json!({"name": "a", "parameters": {"type": "object"}});
    let body = json!({
        "model": "m", "max_completion_tokens": 9, "tools": [{"type": "function", "function": function}],
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}],
    });
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    let rules = [
        (json!({"tool_choice": named("a")}), None),
        (json!({"tool_choice": "required"}), None),
        (json!({"tool_choice": named("b")}), Some("no function named 'b'")),
        (
            json!({"tool_choice": "conclude"}),
            Some("Invalid value for 'tool_choice'"),
        ),
        (
            json!({"tool_choice": {"type": "function", "name": "a"}}),
            Some("tool_choice.function.name"),
        ),
        (
            json!({"tool_choice": {"type": "tool", "name": "a"}}),
            Some("tool_choice.type"),
        ),
        (
            json!({"tool_choice": named("a"), "tools": []}),
            Some("only allowed when 'tools' are specified"),
        ),
    ];
    assert_rules("/v1/chat/completions", &body, &rules).await;

    let body = json!({
        "model": "m", "max_output_tokens": 16, "store": false, "instructions": "s", "input": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "name": "a", "parameters": {"type": "object"}, "strict": false}],
    });
    let rules = [
        (json!({"tool_choice": {"type": "function", "name": "a"}}), None),
        (
            json!({"tool_choice": {"type": "function", "name": "b"}}),
            Some("Tool choice 'b' not found"),
        ),
        (
            json!({"tool_choice": named("a")}),
            Some("Unknown parameter: 'tool_choice.function'"),
        ),
        (
            json!({"tool_choice": {"type": "function"}}),
            Some("tool_choice.name"),
        ),
        (
            json!({"tool_choice": "conclude"}),
            Some("Invalid value: 'tool_choice'"),
        ),
    ];
    assert_rules("/v1/responses", &body, &rules).await;
}

#[tokio::test]
async fn gemini_accepts_names_only_of_declared_functions_and_with_a_mode_that_binds() {
    let declaration = json!({"name": "a", "parametersJsonSchema": {"type": "object"}});
    let body = json!({
        "systemInstruction": {"parts": [{"text": "s"}]}, "tools": [{"functionDeclarations": [declaration]}],
        "generationConfig": {"maxOutputTokens": 9}, "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    });
    let config = |config: Value| json!({"toolConfig": {"functionCallingConfig": config}});
    let rules = [
        (
            config(json!({"mode": "ANY", "allowedFunctionNames": ["a"]})),
            None,
        ),
        (config(json!({"mode": "AUTO"})), None),
        (
            config(json!({"mode": "AUTO", "allowedFunctionNames": ["a"]})),
            Some("should only be set when"),
        ),
        (
            config(json!({"mode": "ANY", "allowedFunctionNames": ["b"]})),
            Some("is not one of"),
        ),
        (config(json!({"mode": "FORCED"})), Some("Invalid value")),
        (
            config(json!({"mode": "ANY", "names": ["a"]})),
            Some("Cannot find field"),
        ),
        (
            json!({"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}, "tools": []}),
            Some("without function_declarations"),
        ),
    ];
    assert_rules("/v1beta/models/m:generateContent", &body, &rules).await;
}
