//! Tests of both codecs with the emulator: requests arrive correctly, and answers are decoded or refused.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod faults;
mod size;
mod wire;

use super::{AnswerScript, ModelEmulator};
use crate::access::{Identity, Role, testing::identity};
use crate::config::ProviderSettings;
use crate::http_client::api_client;
use crate::model::{History, Secret};
use crate::provider::{
    Completion, Provider, ProviderError, ProviderFailureKind, StreamEvent, ToolSpec, TurnRequest, build,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use tokio_util::sync::CancellationToken;

/// The client is built once, because it reads the machine's certificates.
static CLIENT: LazyLock<reqwest::Client> = LazyLock::new(|| api_client().expect("client"));

/// The tested models, each with or without streaming.
const WAYS: [(&str, bool); 8] = [
    ("anthropic/claude-test", true),
    ("anthropic/claude-test", false),
    ("openai/gpt-test", true),
    ("openai/gpt-test", false),
    ("google/gemini-test", true),
    ("google/gemini-test", false),
    ("ollama/llama-test", true),
    ("openrouter/maker/model:free", true),
];

/// An emulator and a provider that is connected to it.
struct ModelFixture {
    emulator: ModelEmulator,
    provider: Arc<dyn Provider>,
    model: String,
    identity: Identity,
    tools: Vec<ToolSpec>,
    events: Vec<StreamEvent>,
    cancel: CancellationToken,
}

impl ModelFixture {
    fn new((name, is_streamed): (&str, bool), script: impl AnswerScript + 'static) -> Self {
        let emulator = ModelEmulator::start(script).expect("emulator");
        let settings = |path: &str, api_key: Option<&str>| ProviderSettings {
            api_key: api_key.map(|key| Secret::new(key.to_owned())),
            needs_key: api_key.is_some(),
            base_url: format!("{}{path}", emulator.url()),
            request_seconds_max: 20,
            idle_seconds_max: 1,
            attempts_max: 1,
        };
        let settings = BTreeMap::from([
            ("anthropic".to_owned(), settings("", Some("sk-ant-test"))),
            ("openai".to_owned(), settings("/v1", Some("sk-test"))),
            ("google".to_owned(), settings("/v1", Some("AIza-test"))),
            ("openrouter".to_owned(), settings("/v1/", Some("sk-or-test"))),
            ("ollama".to_owned(), settings("", None)),
        ]);
        let providers = build(&settings, CLIENT.clone(), is_streamed);
        let (provider, model) = providers.resolve(name).expect("provider");
        let tools = vec![ToolSpec {
            name: "file_read",
            description: "Reads a file.",
            schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}).into(),
        }];
        Self {
            emulator,
            provider,
            model,
            identity: identity(Role::Editor, &["**"]),
            tools,
            events: Vec::new(),
            cancel: CancellationToken::new(),
        }
    }

    async fn ask(&mut self, history: &History) -> Result<Completion, ProviderError> {
        let request = TurnRequest {
            identity: &self.identity,
            model: &self.model,
            system: "You prepare changes.",
            tools: &self.tools,
            turns: history.turns(),
            answer_tokens_max: 1_000,
        };
        let events = &mut self.events;
        self.provider
            .turn(request, &mut |event| events.push(event), &self.cancel)
            .await
    }

    fn words(&self) -> String {
        let words = self.events.iter().filter_map(|event| match event {
            StreamEvent::Text(text) => Some(text.as_str()),
            StreamEvent::CallStarted { .. } | StreamEvent::Retrying { .. } => None,
        });
        words.collect()
    }

    fn assert_in_order(&self) {
        assert_eq!(self.emulator.problems(), Vec::<String>::new());
        assert_eq!(self.emulator.unused(), Vec::<String>::new());
    }
}

/// Returns the kind of failure that ended a call.
fn failure_kind_of(outcome: &Result<Completion, ProviderError>) -> Option<ProviderFailureKind> {
    match outcome {
        Err(ProviderError::Failed(failure)) => Some(failure.kind),
        Err(ProviderError::Cancelled) | Ok(_) => None,
    }
}

fn asking(text: &str) -> History {
    let mut history = History::default();
    history.begin(text).expect("turn");
    history
}
