//! `anthropic-messages`: the wire format of Anthropic's Messages API.

mod block;
mod decode;
mod encode;
#[cfg(test)]
mod recorded;
mod stream;

use super::codec::{AnswerDecoder, AnswerMode, Codec, DecodeError, secret_header};
use super::{Completion, TurnRequest};
use crate::base::model::Secret;
use http::{HeaderName, HeaderValue};
use std::borrow::Cow;

/// The Messages API of one provider.
#[derive(Clone, Debug)]
pub(super) struct AnthropicMessages {
    /// The label of its raw blocks.
    pub(super) label: Cow<'static, str>,
}

impl Codec for AnthropicMessages {
    fn path(&self, _: &str, _: AnswerMode) -> String {
        "/v1/messages".to_owned()
    }

    fn headers(&self, api_key: Option<&Secret>) -> Option<Vec<(HeaderName, HeaderValue)>> {
        let version = (
            HeaderName::from_static("anthropic-version"),
            HeaderValue::from_static("2023-06-01"),
        );
        let Some(api_key) = api_key else {
            return Some(vec![version]);
        };
        let key = (
            HeaderName::from_static("x-api-key"),
            secret_header(api_key.expose())?,
        );
        Some(vec![version, key])
    }

    fn encode(&self, request: &TurnRequest<'_>, delivery: AnswerMode) -> Result<Vec<u8>, serde_json::Error> {
        encode::encode(&self.label, request, delivery)
    }

    fn decode(&self, body: &[u8]) -> Result<Completion, DecodeError> {
        decode::decode(&self.label, body)
    }

    fn decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::new(stream::AnthropicStreamDecoder::new(self.label.clone()))
    }

    #[cfg(test)]
    fn recorded_answer(&self) -> String {
        recorded::anthropic_answer()
    }
}
