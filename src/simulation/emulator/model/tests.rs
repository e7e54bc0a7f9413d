//! Tests of the codecs with the emulator: requests arrive correctly, and answers are decoded or refused.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod faults;
mod files;
mod forced_call;
mod mixed;
mod nonsense;
mod operations;
mod own_blocks;
mod size;
mod wire;

use super::wire_format::FormatExpectations;
use super::{AnswerScript, ModelEmulator, WIRE_FORMATS};
use crate::base::config::{AnswerMode, KNOWN_PROVIDERS, KnownProvider, ProviderSettings, known_provider};
use crate::base::http_client::api_client;
use crate::base::model::{Assistant, History, Secret, ToolCall, ToolResult};
use crate::interfaces::provider::{
    Completion, EventSink, Patience, Provider, ProviderError, ProviderFailureKind, StreamEvent, ToolChoice,
    ToolSpec, TurnRequest, build,
};
use crate::state::access::{Identity, Role, testing::identity};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use tokio_util::sync::CancellationToken;

/// The key of every provider.
const KEY: &str = "sk-ant-test";

/// The client is built once, because it reads the machine's certificates.
static CLIENT: LazyLock<reqwest::Client> = LazyLock::new(|| api_client().expect("client"));

/// A provider, and how its answers are delivered.
type Way = (&'static KnownProvider, AnswerMode);

/// Returns every known provider, with each answer mode.
fn ways() -> impl Iterator<Item = Way> {
    let modes = [AnswerMode::Streamed, AnswerMode::Whole];
    KNOWN_PROVIDERS
        .iter()
        .flat_map(move |known| modes.map(|mode| (known, mode)))
}

/// Returns the properties of the wire format of a provider. Every format is emulated.
fn expectations(known: &KnownProvider) -> FormatExpectations {
    let format = WIRE_FORMATS.iter().find(|format| format.wire() == known.wire);
    format.expect("an emulated format").expectations()
}

/// Returns a provider that streams its answers.
fn streamed(provider: &str) -> Way {
    (
        known_provider(provider).expect("a known provider"),
        AnswerMode::Streamed,
    )
}

/// An emulator and a provider that is connected to it.
struct ModelFixture {
    emulator: ModelEmulator,
    provider: Arc<dyn Provider>,
    model: String,
    identity: Identity,
    tools: Vec<ToolSpec>,
    tool_choice: ToolChoice<'static>,
    events: Vec<StreamEvent>,
    cancel: CancellationToken,
}

impl ModelFixture {
    fn new(way: Way, script: impl AnswerScript + 'static) -> Self {
        Self::at(way, script, |url| url)
    }

    /// Creates a fixture whose provider is at another address than the emulator. `address` gets that of the emulator.
    fn at(
        (known, mode): Way,
        script: impl AnswerScript + 'static,
        address: impl FnOnce(String) -> String,
    ) -> Self {
        let emulator = ModelEmulator::start(script).expect("emulator");
        // A provider without a key is at a path without a version.
        let needs_key = !known.variables.is_empty();
        let base_url = match (needs_key, mode) {
            (false, _) => emulator.url().to_owned(),
            (true, AnswerMode::Streamed) => format!("{}/", emulator.base_url(known.wire)),
            (true, AnswerMode::Whole) => emulator.base_url(known.wire),
        };
        let settings = ProviderSettings {
            api_key: needs_key.then(|| Secret::new(KEY.to_owned())),
            needs_key,
            wire: known.wire,
            base_url: address(base_url),
            request_seconds_max: 20,
            idle_seconds_max: 1,
            attempts_max: 1,
        };
        let settings = BTreeMap::from([(known.name.to_owned(), settings)]);
        let providers = build(&settings, CLIENT.clone(), mode);
        let name = format!("{}/maker/model:free", known.name);
        let (provider, model) = providers.resolve(&name).expect("provider");
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
            tool_choice: ToolChoice::Free,
            events: Vec::new(),
            cancel: CancellationToken::new(),
        }
    }

    async fn ask(&mut self, history: &History) -> Result<Completion, ProviderError> {
        let mut events = std::mem::take(&mut self.events);
        let answer = self.ask_with(history, &mut |event| events.push(event)).await;
        self.events = events;
        answer
    }

    async fn ask_with(&self, history: &History, sink: EventSink<'_>) -> Result<Completion, ProviderError> {
        let request = TurnRequest {
            identity: &self.identity,
            model: &self.model,
            system: "You prepare changes.",
            tools: &self.tools,
            tool_choice: self.tool_choice,
            turns: history.turns(),
            answer_tokens_max: 1_000,
            patience: Patience::Full,
        };
        self.provider.turn(request, sink, &self.cancel).await
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
        Err(ProviderError::Cancelled(_)) | Ok(_) => None,
    }
}

fn asking(text: &str) -> History {
    let mut history = History::default();
    history.begin(text).expect("turn");
    history
}

/// Returns a result for each call of an answer.
fn results(assistant: &Assistant, content: &str) -> Vec<ToolResult> {
    let result = |call: &ToolCall| ToolResult {
        call: call.id.clone(),
        content: content.to_owned(),
        is_error: false,
    };
    assistant.calls().map(result).collect()
}

/// Returns a failed result for each call of an answer.
fn failed_results(assistant: &Assistant, content: &str) -> Vec<ToolResult> {
    let mut results = results(assistant, content);
    results.iter_mut().for_each(|result| result.is_error = true);
    results
}
