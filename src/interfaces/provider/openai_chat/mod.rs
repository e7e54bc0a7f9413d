//! `openai-chat`: the wire format of OpenAI's chat completions, which many other providers support.

mod decode;
mod encode;
#[cfg(test)]
mod recorded;
mod stream;

use super::codec::{AnswerDecoder, AnswerMode, Codec, DecodeError, bearer_header, secret_header};
use super::{Completion, TurnRequest};
use crate::base::model::Secret;
use http::{HeaderName, HeaderValue};
use std::borrow::Cow;

/// The chat completions of one provider.
#[derive(Clone, Debug)]
pub(super) struct OpenaiChat {
    /// The provider's name, and the label of its raw blocks.
    pub(super) provider: Cow<'static, str>,
    /// The field for the limit of an answer.
    pub(super) bound: AnswerBound,
    /// The header for the key.
    pub(super) key: KeyHeader,
    /// The effect of `tool_choice`.
    pub(super) tool_choice: ToolChoiceSupport,
}

/// The effect of `tool_choice` in requests to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolChoiceSupport {
    /// The service obeys or refuses it.
    Obeyed,
    /// The service ignores it: <https://docs.ollama.com/api/openai-compatibility>.
    Ignored,
}

/// The field that limits an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerBound {
    /// `max_completion_tokens`: the newer models of OpenAI refuse the other field.
    MaxCompletionTokens,
    /// `max_tokens`: all other providers use it.
    MaxTokens,
}

/// The header that carries the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyHeader {
    /// `authorization: Bearer`
    Bearer,
    /// `api-key`
    ApiKey,
}

impl Codec for OpenaiChat {
    fn path(&self, _: &str, _: AnswerMode) -> String {
        "/chat/completions".to_owned()
    }

    fn headers(&self, api_key: Option<&Secret>) -> Option<Vec<(HeaderName, HeaderValue)>> {
        let Some(api_key) = api_key else {
            return Some(Vec::new());
        };
        Some(vec![match self.key {
            KeyHeader::Bearer => bearer_header(api_key)?,
            KeyHeader::ApiKey => (
                HeaderName::from_static("api-key"),
                secret_header(api_key.expose())?,
            ),
        }])
    }

    fn encode(&self, request: &TurnRequest<'_>, delivery: AnswerMode) -> Result<Vec<u8>, serde_json::Error> {
        encode::encode(self, request, delivery)
    }

    fn decode(&self, body: &[u8]) -> Result<Completion, DecodeError> {
        decode::decode(&self.provider, body)
    }

    fn decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::new(stream::OpenaiStreamDecoder::new(self.provider.clone()))
    }

    #[cfg(test)]
    fn recorded_answer(&self) -> String {
        recorded::openai_answer()
    }
}
