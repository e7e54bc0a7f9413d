//! Models and their providers. A provider answers one [`TurnRequest`] with one [`Completion`]. The codecs are pure,
//! and the answer is the same with or without streaming.

// The wire formats.
mod anthropic;
mod gemini;
mod openai_chat;
mod responses;
// The code that they share.
mod answer;
mod codec;
mod data_url;
mod error_report;
mod failure;
mod gate;
mod http;
#[cfg(test)]
pub(crate) mod in_process;
mod own_blocks;
mod providers;
mod raw_fields;
mod refusals;
mod retry;
mod schema;
#[cfg(test)]
pub(crate) mod scripted;
mod side_costs;
mod sse;
mod failure_kind;
mod wording;

pub use failure::ProviderFailure;
pub use failure_kind::ProviderFailureKind;
pub use providers::{Providers, build, default_model};
pub use schema::ToolSchema;
pub use side_costs::{LostCharge, SideCosts, UnusedAnswer};

#[cfg(test)]
use crate::base::config::KnownProvider;
use crate::base::config::{ProviderId, WireFormat};
use crate::base::model::{Assistant, Turn, Usage, json_bytes};
use crate::state::access::Identity;
use anthropic::AnthropicMessages;
use async_trait::async_trait;
#[cfg(test)]
use codec::AnswerMode;
use codec::Codec;
use gemini::GeminiGenerate;
use openai_chat::{AnswerBound, KeyHeader, OpenaiChat, ToolChoiceSupport};
use responses::OpenaiResponses;
use serde::Serialize;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Returns the codec of a wire format for a provider, which is called `name` in the configuration.
fn codec(wire: WireFormat, provider: ProviderId, name: &str) -> Box<dyn Codec> {
    let label = raw_label(wire, provider, name);
    match wire {
        WireFormat::AnthropicMessages => Box::new(AnthropicMessages { label: label.into() }),
        WireFormat::OpenaiResponses => Box::new(OpenaiResponses { label }),
        WireFormat::GeminiGenerate => Box::new(GeminiGenerate { label }),
        WireFormat::OpenaiChat => {
            let (bound, key) = match provider {
                ProviderId::Openai => (AnswerBound::MaxCompletionTokens, KeyHeader::Bearer),
                ProviderId::Azure => (AnswerBound::MaxCompletionTokens, KeyHeader::ApiKey),
                _ => (AnswerBound::MaxTokens, KeyHeader::Bearer),
            };
            let tool_choice = match provider {
                ProviderId::Ollama => ToolChoiceSupport::Ignored,
                _ => ToolChoiceSupport::Obeyed,
            };
            Box::new(OpenaiChat {
                provider: label.into(),
                bound,
                key,
                tool_choice,
            })
        }
    }
}

/// Returns the label of raw blocks: they are sent back only to the provider and in the format that they came from. The
/// formats that were there first have the name of the provider alone, which stored conversations contain.
fn raw_label(wire: WireFormat, provider: ProviderId, name: &str) -> String {
    let first = match provider {
        ProviderId::Anthropic => WireFormat::AnthropicMessages,
        _ => WireFormat::OpenaiChat,
    };
    match wire == first {
        true => name.to_owned(),
        false => format!("{name} {}", wire.word()),
    }
}

/// Returns the first known provider of each wire format.
#[cfg(test)]
pub(crate) fn first_of_each_format() -> Vec<&'static KnownProvider> {
    let first = |wire: &WireFormat| {
        let mut known = crate::base::config::KNOWN_PROVIDERS.iter();
        known.find(|known| known.wire == *wire)
    };
    WireFormat::ALL.iter().filter_map(first).collect()
}

/// Returns a request in each wire format.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) fn encode_in_each_format(request: &TurnRequest<'_>) -> Vec<Vec<u8>> {
    let codecs = codecs().into_iter();
    codecs
        .map(|codec| codec.encode(request, AnswerMode::Streamed).unwrap())
        .collect()
}

/// Returns the codec of each wire format once.
#[cfg(test)]
fn codecs() -> Vec<Box<dyn Codec>> {
    let formats = WireFormat::ALL.iter();
    formats
        .map(|wire| codec(*wire, ProviderId::Custom, "house"))
        .collect()
}

/// The description of a tool for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSpec {
    /// The name, such as `file_read`.
    pub name: &'static str,
    /// The description, of one or two sentences.
    pub description: &'static str,
    /// The JSON Schema of its arguments: an object, `additionalProperties: false`, rendered once at start-up.
    pub schema: ToolSchema,
}

/// A model call. It requires an [`Identity`], so unknown senders can never use tokens.
#[derive(Clone, Copy, Debug)]
pub struct TurnRequest<'a> {
    /// The user who makes the request.
    pub identity: &'a Identity,
    /// The model's name without its provider: `claude-sonnet-4-5`.
    pub model: &'a str,
    /// The system prompt; the same bytes in every call of a conversation.
    pub system: &'a str,
    /// The offered tools; the same in every call of a conversation.
    pub tools: &'a [ToolSpec],
    /// The calls that the answer may or has to make.
    pub tool_choice: ToolChoice<'a>,
    /// Whole turns, oldest first; the last one is open.
    pub turns: &'a [Turn],
    /// The maximum number of tokens of the answer.
    pub answer_tokens_max: u32,
    /// The patience with a provider that does not answer.
    pub patience: Patience,
}

/// The calls that an answer may or has to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolChoice<'a> {
    /// Any: the model writes text, calls tools, or does both.
    Free,
    /// None, although tools are offered, so that a prompt cache stays valid. A service may ignore this.
    Text,
    /// One call of the offered tool of this name. A service that cannot force calls is asked again without it.
    Forced(&'a str),
}

/// The patience with a provider that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// No other model can answer: the call waits as long as the provider asks for, within the bounds of retries.
    Full,
    /// Another model can answer: the call ends before a longer wait. A provider that recently refused everyone gets one
    /// attempt, or none.
    Short,
}

/// The overhead of a request in bytes: the names of the model and of the fields.
const REQUEST_BYTES: usize = 1_024;
/// The overhead of a tool in a request, in bytes, without its description and schema.
const TOOL_BYTES: usize = 192;

/// Returns the maximum number of bytes of a request without its turns.
pub fn fixed_bytes(system: &str, tools: &[ToolSpec]) -> usize {
    let tools = tools
        .iter()
        .map(|tool| TOOL_BYTES + json_bytes(tool.description) + tool.schema.bytes());
    REQUEST_BYTES + json_bytes(system) + tools.sum::<usize>()
}

impl<'a> TurnRequest<'a> {
    /// Returns the name of the tool that the answer has to call. Services refuse the name of a tool that is not offered.
    fn forced_tool(&self) -> Option<&'a str> {
        match self.tool_choice {
            ToolChoice::Free | ToolChoice::Text => None,
            ToolChoice::Forced(name) => self.tools.iter().map(|tool| tool.name).find(|tool| *tool == name),
        }
    }

    /// Returns true if the answer has to be text. Services refuse to be told so without tools.
    fn forbids_calls(&self) -> bool {
        self.tool_choice == ToolChoice::Text && !self.tools.is_empty()
    }

    /// Returns the offered tools without those that the answer cannot call: all but the forced one.
    fn callable_tools(&self) -> &'a [ToolSpec] {
        let forced = self.forced_tool();
        let forced = forced.and_then(|name| self.tools.iter().find(|tool| tool.name == name));
        forced.map_or(self.tools, std::slice::from_ref)
    }

    /// Serialises the body of the request. The buffer is allocated with the full size: most of the body is the same
    /// every time, and too large to be copied repeatedly while it grows.
    fn written(&self, body: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
        let turns = self.turns.iter().map(|turn| turn.bytes() + turn.base64_bytes());
        let bytes = fixed_bytes(self.system, self.tools) + turns.sum::<usize>();
        let mut written = Vec::with_capacity(bytes);
        serde_json::to_writer(&mut written, body)?;
        Ok(written)
    }
}

/// A complete answer.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The answer with its usage.
    pub assistant: Assistant,
    /// The model that wrote the answer, as named by the provider.
    pub model: String,
    /// The costs of the call beside those of the answer.
    pub side: SideCosts,
}

impl Completion {
    /// Returns the tokens of the answer and of the answer that was not used.
    pub fn usage(&self) -> Usage {
        let mut usage = self.assistant.usage;
        usage += self
            .side
            .unused
            .as_ref()
            .map(|unused| unused.usage)
            .unwrap_or_default();
        usage
    }
}

/// An event of an answer that is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// More text of the answer.
    Text(String),
    /// A call begins; its arguments follow with the completion.
    CallStarted {
        /// The tool's name.
        name: String,
    },
    /// The attempt failed, and the next one starts after `wait`. The text received so far belongs to a discarded
    /// answer.
    Retrying {
        /// The reason, as a short text for users: `the model provider is rate-limiting`.
        why: String,
        /// The time until the next attempt.
        wait: Duration,
    },
}

/// A receiver of events of an answer. Must not block.
pub type EventSink<'a> = &'a mut (dyn FnMut(StreamEvent) + Send);

/// An error of a model call. The message is for users: no URL, no key, no body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The provider failed, after all retries that the policy allows.
    #[error("{0}")]
    Failed(ProviderFailure),
    /// The caller cancelled. The costs are those up to then: while an attempt runs, they contain a possible charge.
    #[error("cancelled")]
    Cancelled(SideCosts),
}

/// A model behind an API.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Returns the name in `provider/model`: `anthropic`.
    fn id(&self) -> &str;

    /// Makes one call. It retries according to its policy and reports each wait to `sink`. Returns within a second of
    /// `cancel`.
    async fn turn(
        &self,
        request: TurnRequest<'_>,
        sink: EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError>;
}

#[cfg(test)]
mod tests {
    use super::raw_label;
    use crate::base::config::{KNOWN_PROVIDERS, ProviderId, WireFormat};
    use std::collections::BTreeSet;

    #[test]
    fn blocks_are_sent_back_only_to_their_provider_and_in_their_format() {
        let labels: BTreeSet<String> = KNOWN_PROVIDERS
            .iter()
            .flat_map(|known| {
                WireFormat::ALL
                    .iter()
                    .map(|wire| raw_label(*wire, known.id, known.name))
            })
            .collect();
        assert_eq!(labels.len(), KNOWN_PROVIDERS.len() * WireFormat::ALL.len());
        // Stored conversations have these labels.
        assert!(labels.contains("anthropic") && labels.contains("openai") && labels.contains("google"));
        let house = raw_label(WireFormat::AnthropicMessages, ProviderId::Custom, "house");
        assert_eq!(house, "house anthropic-messages");
    }
}
