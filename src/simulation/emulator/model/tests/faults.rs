//! Tests of failures: of the wire, of the provider, and of invalid requests.

use super::{KEY, ModelFixture, asking, failure_kind_of, streamed, ways};
use crate::base::http_client::api_client;
use crate::interfaces::provider::{ProviderError, ProviderFailureKind, SideCosts, StreamEvent};
use crate::simulation::emulator::model::{AnswerFault, calls, queue, says};
use http::Method;
use serde_json::json;
use std::time::{Duration, Instant};

/// The text for a service to which there is no connection.
const UNREACHED: &str = "the model provider could not be reached: no connection; check the network and `providers.anthropic.base_url`";

fn line() -> crate::simulation::emulator::model::ScriptedAnswer {
    says("Words that are cut.").with_call("file_read", json!({"path": "environments/prod/main.jsonnet"}))
}

/// R11: the codecs' own tests cut at every byte; here the connection is real.
#[tokio::test]
async fn an_answer_that_breaks_off_is_never_an_answer() {
    for way in ways() {
        for bytes in [0, 1, 100, 400] {
            for fault in [AnswerFault::EndAfter(bytes), AnswerFault::ResetAfter(bytes)] {
                let mut fixture = ModelFixture::new(way, queue([line().with_fault(fault.clone())]));
                let outcome = fixture.ask(&asking("hello")).await;
                let kind = failure_kind_of(&outcome);
                let is_cut = matches!(
                    kind,
                    Some(
                        ProviderFailureKind::Broken
                            | ProviderFailureKind::Silent
                            | ProviderFailureKind::Malformed
                    )
                );
                assert!(is_cut, "{way:?} {fault:?}: {outcome:?}");
                fixture.assert_in_order();
            }
        }
    }
}

/// R11
#[tokio::test]
async fn an_answer_that_stalls_is_given_up_after_the_idle_time() {
    let mut fixture = ModelFixture::new(
        streamed("anthropic"),
        queue([line().with_fault(AnswerFault::StallAfter(300))]),
    );
    let begun = Instant::now();
    let outcome = fixture.ask(&asking("hello")).await;
    let error = outcome.expect_err("stalled").to_string();
    let expected = "the answer of the model provider was interrupted: no more data arrived for ";
    assert!(error.starts_with(expected), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(3));
}

/// R11
#[tokio::test]
async fn an_error_inside_a_stream_is_an_error() {
    for (way, kind, expected) in [
        (
            streamed("anthropic"),
            "overloaded_error",
            "the model provider is overloaded (529)",
        ),
        (
            streamed("openai"),
            "rate_limit_exceeded",
            "the model provider is rate-limiting (429)",
        ),
        (
            streamed("google"),
            "UNAVAILABLE",
            "the model provider is overloaded (503)",
        ),
        (
            streamed("openrouter"),
            "server_error",
            "the model provider has a fault (500)",
        ),
    ] {
        let mut fixture = ModelFixture::new(
            way,
            queue([line().with_fault(AnswerFault::ErrorEvent(kind.to_owned()))]),
        );
        let outcome = fixture.ask(&asking("hello")).await;
        assert_eq!(outcome.expect_err("an error").to_string(), expected);
    }
}

/// R11
#[tokio::test]
async fn a_body_that_is_not_the_format_is_no_answer() {
    for way in ways() {
        let mut fixture = ModelFixture::new(way, queue([line().with_fault(AnswerFault::Malformed)]));
        let outcome = fixture.ask(&asking("hello")).await;
        let error = outcome.expect_err("malformed").to_string();
        let expected = format!(
            "the answer is not in the provider's format: ask again; if the failure remains, check that \
             `providers.{}.base_url` is the address of the API",
            way.0.name
        );
        assert_eq!(error, expected);
    }
}

#[tokio::test]
async fn the_beginning_of_an_answer_arrives_while_the_rest_is_held_back() {
    let answer = line().with_fault(AnswerFault::HeldBefore("content_block_stop"));
    let fixture = ModelFixture::new(streamed("anthropic"), queue([answer]));
    let emulator = std::sync::Arc::clone(&fixture.emulator.shared);
    let history = asking("hello");
    let mut words = String::new();
    let mut sink = |event| {
        if let StreamEvent::Text(text) = event {
            // The rest cannot arrive before this.
            assert_eq!(emulator.requests()[0].answered_at.get(), None);
            words.push_str(&text);
            emulator.release();
        }
    };
    let outcome = fixture.ask_with(&history, &mut sink).await;
    assert_eq!(outcome.unwrap().assistant.text(), words);
    assert!(!words.is_empty());
    fixture.assert_in_order();
}

#[tokio::test]
async fn a_held_answer_is_sent_once_it_is_released() {
    let held = || line().with_fault(AnswerFault::Held);
    let mut fixture = ModelFixture::new(streamed("anthropic"), queue([held(), held()]));
    let emulator = std::sync::Arc::clone(&fixture.emulator.shared);
    let release = async {
        while emulator.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(emulator.requests()[0].answered_at.get(), None);
        emulator.release();
    };
    let history = asking("hello");
    let (outcome, ()) = tokio::join!(fixture.ask(&history), release);
    assert!(outcome.is_ok(), "{outcome:?}");
    // Nothing is held back any more.
    let outcome = fixture.ask(&history).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    fixture.assert_in_order();
}

#[tokio::test]
async fn cancelling_ends_a_call_at_once_wherever_it_is() {
    for fault in [AnswerFault::Stall, AnswerFault::StallAfter(300)] {
        let fixture = ModelFixture::new(streamed("anthropic"), queue([line().with_fault(fault)]));
        let cancel = fixture.cancel.clone();
        let begun = Instant::now();
        let emulator = &fixture.emulator;
        // The call is cancelled as soon as the request has arrived.
        let stop = async {
            while emulator.requests().is_empty() {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        };
        let history = asking("hello");
        let request = crate::interfaces::provider::TurnRequest {
            identity: &fixture.identity,
            model: &fixture.model,
            system: "s",
            tools: &[],
            tool_choice: crate::interfaces::provider::ToolChoice::Free,
            turns: history.turns(),
            answer_tokens_max: 1,
            patience: crate::interfaces::provider::Patience::Full,
        };
        let mut sink = |_: StreamEvent| ();
        let (outcome, ()) = tokio::join!(fixture.provider.turn(request, &mut sink, &fixture.cancel), stop);
        // The request had arrived, so it may be charged.
        let expected = ProviderError::Cancelled(SideCosts::of_lost_answer());
        assert_eq!(outcome.expect_err("cancelled"), expected);
        assert!(begun.elapsed() < Duration::from_secs(1));
    }
}

/// R9
#[tokio::test]
async fn a_refusal_names_what_to_do_and_no_secret() {
    for way in ways() {
        for status in [400, 401, 402, 403, 404] {
            let body = format!(r#"{{"error":{{"type":"x","message":"{KEY} in a body"}}}}"#);
            let fault = AnswerFault::Status {
                status,
                headers: vec![],
                body,
            };
            let mut fixture = ModelFixture::new(way, queue([says("never").with_fault(fault)]));
            let error = fixture.ask(&asking("hello")).await.expect_err("refused");
            assert!(matches!(
                &error,
                ProviderError::Failed(failure) if matches!(failure.kind, ProviderFailureKind::Refused | ProviderFailureKind::Rejected)
            ));
            let text = format!("{error} {error:?}");
            assert!(
                text.contains(&fixture.model) || text.contains("api_key"),
                "{text}"
            );
            assert!(!text.contains("sk-") && !text.contains("http://"), "{text}");
        }
    }
}

/// R9
#[tokio::test]
async fn a_service_without_the_responses_api_is_told_apart_by_what_to_set() {
    let missing = || AnswerFault::Status {
        status: 404,
        headers: vec![],
        body: String::new(),
    };
    let mut texts = Vec::new();
    for provider in ["openai", "openrouter"] {
        let script = queue([says("never").with_fault(missing())]);
        let mut fixture = ModelFixture::new(streamed(provider), script);
        texts.push(
            fixture
                .ask(&asking("hello"))
                .await
                .expect_err("missing")
                .to_string(),
        );
    }
    insta::assert_snapshot!(texts.join("\n"), @r#"
    the model provider refused the request: there is no model `maker/model:free` (404); check `model.default` and `providers.openai.base_url`; if the service supports only chat completions, set `wire = "openai-chat"` in `[providers.openai]`
    the model provider refused the request: there is no model `maker/model:free` (404); check `model.default` and `providers.openrouter.base_url`
    "#);
}

/// R8
#[tokio::test]
async fn what_the_provider_asks_us_to_wait_reaches_the_caller() {
    let headers = vec![("retry-after".to_owned(), "7".to_owned())];
    let fault = AnswerFault::Status {
        status: 429,
        headers,
        body: String::new(),
    };
    let mut fixture = ModelFixture::new(streamed("anthropic"), queue([says("never").with_fault(fault)]));
    let outcome = fixture.ask(&asking("hello")).await;
    let seven = Some(Duration::from_secs(7));
    assert!(matches!(&outcome, Err(ProviderError::Failed(failure)) if failure.retry_after == seven));
    let error = outcome.expect_err("limited").to_string();
    assert_eq!(
        error,
        "the model provider is rate-limiting (429); it requests a wait of 7 s"
    );
}

/// R10
#[tokio::test]
async fn nobody_listening_is_said_without_the_address() {
    let mut fixture = ModelFixture::new(streamed("anthropic"), queue([]));
    let stopped = super::ModelEmulator::start(queue([])).expect("emulator");
    std::mem::replace(&mut fixture.emulator, stopped).shutdown().await;
    let error = fixture.ask(&asking("hello")).await.expect_err("nobody");
    assert_eq!(error.to_string(), UNREACHED);
}

/// R10: a service that does not speak TLS, and a name that does not resolve.
#[tokio::test]
async fn a_failed_handshake_and_an_unknown_name_are_said_without_the_address() {
    let without_tls = |url: String| url.replacen("http://", "https://", 1);
    // No resolver sends a question for a name with such a long part, so the test stays on this machine.
    let unknown_name = |_: String| format!("http://{}.invalid", "n".repeat(64));
    let addresses: [fn(String) -> String; 2] = [without_tls, unknown_name];
    for address in addresses {
        let mut fixture = ModelFixture::at(streamed("anthropic"), queue([]), address);
        let outcome = fixture.ask(&asking("hello")).await;
        assert_eq!(failure_kind_of(&outcome), Some(ProviderFailureKind::Unreached));
        assert_eq!(outcome.expect_err("unreached").to_string(), UNREACHED);
        assert_eq!(fixture.emulator.requests().len(), 0);
    }
}

#[tokio::test]
async fn a_malformed_conversation_is_answered_and_recorded_as_a_problem() {
    let ok = json!({"role": "user", "content": "hi"});
    let used =
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "t", "input": {}}]});
    let result = json!({"type": "tool_result", "tool_use_id": "a", "content": "c"});
    let messages = [
        json!([]),
        json!([{"role": "assistant", "content": "hi"}]),
        json!([ok, ok]),
        json!([{"role": "user", "content": [{"type": "text", "text": ""}]}]),
        json!([ok, used, ok]),
        json!([ok, used, {"role": "user", "content": [result, result]}]),
        json!([{"role": "user", "content": [result]}]),
    ];
    let emulator = super::ModelEmulator::start(queue([says("unused")])).expect("emulator");
    let client = api_client().expect("client");
    for messages in messages {
        let body = json!({"model": "m", "max_tokens": 1, "system": "s", "messages": messages});
        let request = client.post(format!("{}/v1/messages", emulator.url())).json(&body);
        let response = request
            .header("x-api-key", "k")
            .header("anthropic-version", "2023-06-01")
            .send();
        let mut response = response.await.expect("response");
        assert_eq!(response.status(), 400, "{body}");
        let body = response.chunk().await.expect("chunk").expect("body");
        let body: serde_json::Value = serde_json::from_slice(&body).expect("json");
        assert_eq!(
            (&body["type"], &body["error"]["type"]),
            (&json!("error"), &json!("invalid_request_error"))
        );
    }
    let keyless = client
        .post(format!("{}/v1/chat/completions", emulator.url()))
        .json(&json!({}))
        .send()
        .await;
    assert_eq!(keyless.expect("response").status(), 401);
    for (method, path) in [
        (Method::GET, "/v1/models"),
        (Method::GET, "/v1/messages"),
        (Method::POST, "/v1/messages/"),
        (Method::POST, "/messages"),
    ] {
        let lost = client.request(method, format!("{}{path}", emulator.url()));
        assert_eq!(lost.send().await.expect("response").status(), 404, "{path}");
    }
    insta::assert_snapshot!(emulator.problems().join("\n"), @r"
    messages: the first and the last must be of the user
    messages: the first and the last must be of the user
    messages.1: roles must alternate
    messages.0: text content blocks must be non-empty
    messages.2: the call `a` has no result
    messages.2: a call is answered twice
    messages.0: the result `a` has no call in the message before
    You didn't provide an API key.
    GET /v1/models: no such address
    GET /v1/messages: no such address
    POST /v1/messages/: no such address
    POST /messages: no such address
    ");
    assert_eq!(emulator.unused(), ["says \"unused\""]);
    assert_eq!(emulator.requests().len(), 0);
    emulator.shutdown().await;
}

#[tokio::test]
async fn a_request_without_a_script_line_is_recorded_as_a_problem() {
    let mut fixture = ModelFixture::new(streamed("anthropic"), queue([calls("file_read", json!({}))]));
    fixture.ask(&asking("hello")).await.expect("answer");
    let outcome = fixture.ask(&asking("hello")).await;
    assert_eq!(failure_kind_of(&outcome), Some(ProviderFailureKind::Rejected));
    assert_eq!(
        fixture.emulator.problems(),
        ["the script has no line for this request"]
    );
}
