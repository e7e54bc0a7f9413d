//! The gateway with aimock, model APIs of another author: Anthropic's Messages, OpenAI's chat completions and Responses,
//! and Gemini, both in its own format and at its address for chat completions. It plays its own failures.

use crate::support::app::TestApp;
use crate::support::third_party_emulator::ThirdPartyEmulator;
use drydock::simulation::demo::environment::MODEL_KEY;
use drydock::simulation::emulator::model::queue;
use serde_json::{Value, json};

const ALICE: &str = "U0ALICE";
const EVE: &str = "U0EVE";
/// The seconds that aimock asks to wait.
const RETRY_AFTER_SECONDS: i64 = 2;
/// The words of a request, and the failure of the first answer to it.
const FAILURES: [&str; 5] = [
    "meet an overloaded server",
    "meet a limit of requests",
    "meet an answer nobody can read",
    "meet a connection that is cut at once",
    "meet a connection that is cut in the answer",
];

/// Returns the answers of aimock: a change in three steps, and one failure of each kind before an answer.
fn fixtures() -> Value {
    let usage =
        json!({"input_tokens": 100, "output_tokens": 20, "prompt_tokens": 100, "completion_tokens": 20});
    let main = "environments/dev/main.jsonnet";
    let edit =
        json!({"path": main, "old": "web:1.8.3',\n    replicas: 2,", "new": "web:1.8.3',\n    replicas: 4,"});
    let call = |id: &str, name: &str, arguments: Value| json!({"usage": usage, "toolCalls": [{"id": id, "name": name, "arguments": arguments}]});
    let mut fixtures = vec![
        json!({"match": {"userMessage": "four replicas", "hasToolResult": false},
            "response": call("call_read", "file_read", json!({"path": main}))}),
        json!({"match": {"toolCallId": "call_read"}, "response": call("call_edit", "file_edit", edit)}),
        json!({"match": {"toolCallId": "call_edit"},
            "response": {"usage": usage, "content": "Four replicas of web in dev."}}),
    ];
    let error = |status: u16| json!({"error": {"message": "not now"}, "status": status, "retryAfter": RETRY_AFTER_SECONDS});
    let long = json!({"content": "This answer is much longer than two of its pieces, so that it is cut before its end."});
    let failures = [
        json!({"response": error(503)}),
        json!({"response": error(429)}),
        json!({"response": long, "chaos": {"malformedRate": 1}}),
        json!({"response": long, "chaos": {"disconnectRate": 1}}),
        json!({"response": long, "truncateAfterChunks": 2}),
    ];
    for (words, mut failure) in FAILURES.into_iter().zip(failures) {
        failure["match"] = json!({"userMessage": words, "sequenceIndex": 0});
        fixtures.push(failure);
        fixtures.push(json!({"match": {"userMessage": words, "sequenceIndex": 1},
            "response": {"usage": usage, "content": format!("You did: {words}.")}}));
    }
    json!({"fixtures": fixtures})
}

/// Returns the requests that aimock received, oldest first.
async fn journal(aimock: &ThirdPartyEmulator) -> Vec<Value> {
    let http = drydock::base::http_client::api_client().unwrap();
    let asked = http.get(format!("{}/__aimock/journal?method=POST", aimock.address));
    let entries: Value = asked
        .header("x-api-key", MODEL_KEY)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    entries.as_array().unwrap().clone()
}

/// A way to call a model API of aimock.
struct ApiWay {
    provider: &'static str,
    base: &'static str,
    /// The wire format; empty for that of the provider.
    wire: &'static str,
    path: &'static str,
    stream: &'static str,
}

async fn the_whole_story(way: ApiWay) {
    let ApiWay {
        provider,
        base,
        wire,
        path,
        stream,
    } = way;
    let Some(aimock) = ThirdPartyEmulator::start("aimock", MODEL_KEY) else {
        return;
    };
    let http = drydock::base::http_client::api_client().unwrap();
    let reported = http.post(format!("{}/__aimock/fixtures", aimock.address));
    let reported = reported
        .header("x-api-key", MODEL_KEY)
        .json(&fixtures())
        .send()
        .await
        .unwrap();
    assert_eq!(reported.status().as_u16(), 200, "{:?}", reported.text().await);
    let mut settings = vec![
        ("model.default".to_owned(), format!("{provider}/some-model")),
        ("model.stream".to_owned(), stream.to_owned()),
        (
            format!("providers.{provider}.base_url"),
            format!("{}{base}", aimock.address),
        ),
        (
            format!("providers.{provider}.api_key.env"),
            "STAGE_MODEL_KEY".to_owned(),
        ),
    ];
    if !wire.is_empty() {
        settings.push((format!("providers.{provider}.wire"), wire.to_owned()));
    }
    let settings: Vec<(&str, &str)> = settings
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    let app = TestApp::with_settings(queue([]), &settings).await;
    app.add_slack_account(EVE);
    app.say(EVE, "four replicas of web in prod").await;
    let notice = app.wait_for_ephemeral(EVE, 0).await;
    assert!(notice.starts_with("Not authorised."), "{notice}");
    app.admit_slack_editor(ALICE).await;
    assert_eq!(journal(&aimock).await.len(), 0);

    let result = app.ask(ALICE, "four replicas of web in dev").await;
    for part in [
        "CHG-1 is ready: dev, 1 file, +1 −1",
        "Four replicas of web in dev.",
        "3 steps · 360 tokens",
    ] {
        assert!(result.text.contains(part), "{part}: {}", result.text);
    }
    app.demo
        .slack
        .click(ALICE, &result.message.ts, "Get patch")
        .await
        .unwrap();
    app.wait_until_idle().await;
    let files = app.demo.slack.with_state(|state| state.files.clone());
    let patch = String::from_utf8_lossy(&files[0].content).into_owned();
    assert!(
        patch.contains("-    replicas: 2,\n") && patch.contains("+    replicas: 4,\n"),
        "{patch}"
    );
    let before = journal(&aimock).await.len();
    assert_eq!(before, 3);

    // Aimock does not cut an answer in one piece.
    let failures = if stream == "true" {
        &FAILURES[..]
    } else {
        &FAILURES[..4]
    };
    for (number, words) in failures.iter().enumerate() {
        let result = app.ask(ALICE, words).await;
        assert!(
            result.text.contains(&format!("You did: {words}.")),
            "{}",
            result.text
        );
        assert_eq!(journal(&aimock).await.len(), before + 2 * (number + 1), "{words}");
    }
    let entries = journal(&aimock).await;
    assert!(
        entries
            .iter()
            .all(|entry| entry["path"] == path && entry["body"]["model"] == "some-model"),
        "{entries:#?}"
    );
    let written = |index: usize| entries[index]["timestamp"].as_i64().unwrap();
    let waited = written(before + 3) - written(before + 2);
    assert!(waited >= 1_000 * RETRY_AFTER_SECONDS, "{waited} ms");
    assert_eq!(app.model_requests().len(), 0);
}

/// TK-75: the runs are concurrent, because each mostly waits.
#[tokio::test]
async fn model_apis_of_another_author_play_the_whole_story() {
    let way = |provider, base, wire, path, stream| ApiWay {
        provider,
        base,
        wire,
        path,
        stream,
    };
    let chat = "/v1/chat/completions";
    let stories = [
        way("anthropic", "", "", "/v1/messages", "true"),
        way("anthropic", "", "", "/v1/messages", "false"),
        way("openai", "/v1", "openai-chat", chat, "true"),
        way("openai", "/v1", "openai-chat", chat, "false"),
        way("openai", "/v1", "", "/v1/responses", "true"),
        way("openai", "/v1", "", "/v1/responses", "false"),
        way(
            "google",
            "/v1beta",
            "",
            "/v1beta/models/some-model:streamGenerateContent?alt=sse",
            "true",
        ),
        way(
            "google",
            "/v1beta",
            "",
            "/v1beta/models/some-model:generateContent",
            "false",
        ),
        way(
            "google",
            "/v1beta/openai",
            "",
            "/v1beta/openai/chat/completions",
            "true",
        ),
    ]
    .map(|way| Box::pin(the_whole_story(way)));
    futures_util::future::join_all(stories).await;
}
