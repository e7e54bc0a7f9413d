//! Models. A provider turns one [`TurnRequest`] into one [`Completion`]; the codecs are pure, and the
//! answer is the same whether it was streamed or not.

mod anthropic;
mod answer;
mod codec;
mod failure;
mod gate;
mod http;
mod openai_chat;
mod providers;
mod retry;
mod schema;
#[cfg(test)]
pub(crate) mod scripted;
mod sse;
mod failure_kind;
mod wording;

pub use failure::ProviderFailure;
pub use failure_kind::ProviderFailureKind;
pub use http::{HttpClientError, download_client, http_client};
pub use providers::{Providers, build};
pub use schema::ToolSchema;

use crate::access::Identity;
use crate::model::{Assistant, Turn, json_bytes};
use async_trait::async_trait;
use serde::Serialize;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The description of a tool for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSpec {
    /// The name, such as `file_read`.
    pub name: &'static str,
    /// The description, of one or two sentences.
    pub description: &'static str,
    /// JSON Schema of its arguments: an object, `additionalProperties: false`, rendered once at start-up.
    pub schema: ToolSchema,
}

/// A model call. Needs an [`Identity`], so nobody who was not admitted ever costs a token.
#[derive(Clone, Copy, Debug)]
pub struct TurnRequest<'a> {
    /// The person who asks.
    pub identity: &'a Identity,
    /// The model's name without its provider: `claude-sonnet-4-5`.
    pub model: &'a str,
    /// The system prompt; the same bytes for every call of a conversation.
    pub system: &'a str,
    /// The tools offered; the same for every call of a conversation.
    pub tools: &'a [ToolSpec],
    /// Whole turns, oldest first; the last one is open.
    pub turns: &'a [Turn],
    /// Tokens the answer may have.
    pub answer_tokens_max: u32,
}

/// Bytes of a request beside its words: the names of the model and of the fields.
const REQUEST_BYTES: usize = 1_024;
/// Bytes that a tool takes in a request beside its description and its schema.
const TOOL_BYTES: usize = 192;

/// Bytes that a request takes beside its turns, at most.
pub fn fixed_bytes(system: &str, tools: &[ToolSpec]) -> usize {
    let tools = tools
        .iter()
        .map(|tool| TOOL_BYTES + json_bytes(tool.description) + tool.schema.bytes());
    REQUEST_BYTES + json_bytes(system) + tools.sum::<usize>()
}

impl TurnRequest<'_> {
    /// Writes the body of the request. There is room for all of it from the start: most of it is the same every time,
    /// and too large to be moved again and again while it grows.
    fn written(&self, body: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
        let turns = self.turns.iter().map(Turn::bytes);
        let bytes = fixed_bytes(self.system, self.tools) + turns.sum::<usize>();
        let mut written = Vec::with_capacity(bytes);
        serde_json::to_writer(&mut written, body)?;
        Ok(written)
    }
}

/// A finished answer.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The answer with its usage.
    pub assistant: Assistant,
    /// The model that wrote it, as the provider names it.
    pub model: String,
}

/// An event while an answer is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// More words of the answer.
    Text(String),
    /// A call begins; its arguments follow with the completion.
    CallStarted {
        /// The tool's name.
        name: String,
    },
    /// The attempt failed, and the next one starts after `wait`. Words told before belong to an answer that will not
    /// be.
    Retrying {
        /// The reason, in a few words for a person: `the model provider is rate-limiting`.
        why: String,
        /// The time until the next attempt.
        wait: Duration,
    },
}

/// Receives what happens while an answer is written. Must not block.
pub type EventSink<'a> = &'a mut (dyn FnMut(StreamEvent) + Send);

/// An error of a model call. The message is for people: no URL, no key, no body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The provider failed; already retried as far as the policy allows.
    #[error("{0}")]
    Failed(ProviderFailure),
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
}

/// A model behind an API.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The name in `provider/model`: `anthropic`.
    fn id(&self) -> &str;

    /// Asks once. Retries inside, as its policy says, and reports each wait to `sink`. Returns within
    /// a second of `cancel`.
    async fn turn(
        &self,
        request: TurnRequest<'_>,
        sink: EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError>;
}
