//! `openai-responses`: the wire format of OpenAI's Responses API. Nothing is stored at the service: each request has the
//! whole conversation, with the reasoning of the model as the service encrypted it.

mod decode;
mod encode;
mod item;
#[cfg(test)]
mod recorded;
mod stream;

use super::codec::{AnswerDecoder, AnswerMode, Codec, DecodeError, bearer_header};
use super::{Completion, TurnRequest};
use crate::base::model::Secret;
use http::{HeaderName, HeaderValue};

/// The Responses API of one provider.
#[derive(Clone, Debug)]
pub(super) struct OpenaiResponses {
    /// The label of its raw items.
    pub(super) label: String,
}

impl Codec for OpenaiResponses {
    fn path(&self, _: &str, _: AnswerMode) -> String {
        "/responses".to_owned()
    }

    fn rarely_supported(&self) -> Option<&'static str> {
        Some("wire = \"openai-chat\"")
    }

    fn headers(&self, api_key: Option<&Secret>) -> Option<Vec<(HeaderName, HeaderValue)>> {
        match api_key {
            Some(api_key) => Some(vec![bearer_header(api_key)?]),
            None => Some(Vec::new()),
        }
    }

    fn encode(&self, request: &TurnRequest<'_>, delivery: AnswerMode) -> Result<Vec<u8>, serde_json::Error> {
        encode::encode(&self.label, request, delivery)
    }

    fn decode(&self, body: &[u8]) -> Result<Completion, DecodeError> {
        decode::decode(&self.label, body)
    }

    fn decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::new(stream::ResponsesStreamDecoder::new(self.label.clone()))
    }

    #[cfg(test)]
    fn recorded_answer(&self) -> String {
        recorded::responses_answer()
    }
}
