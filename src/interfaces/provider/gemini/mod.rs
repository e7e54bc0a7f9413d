//! `gemini-generate`: the wire format of the Gemini API, `models.generateContent` and `streamGenerateContent`.

mod decode;
mod encode;
mod part;
#[cfg(test)]
mod recorded;
mod stream;

use super::codec::{AnswerDecoder, AnswerMode, Codec, DecodeError, secret_header};
use super::{Completion, TurnRequest};
use crate::base::model::Secret;
use http::{HeaderName, HeaderValue};
use std::fmt::Write;

/// The Gemini API of one provider.
#[derive(Clone, Debug)]
pub(super) struct GeminiGenerate {
    /// The label of its raw blocks.
    pub(super) label: String,
}

impl Codec for GeminiGenerate {
    fn path(&self, model: &str, delivery: AnswerMode) -> String {
        // A tuned model is named with its collection.
        let (collection, name) = match model.split_once('/') {
            Some((collection @ ("models" | "tunedModels"), name)) => (collection, name),
            Some(_) | None => ("models", model),
        };
        let method = match delivery {
            AnswerMode::Streamed => "streamGenerateContent?alt=sse",
            AnswerMode::Whole => "generateContent",
        };
        format!("/{collection}/{}:{method}", segment(name))
    }

    fn headers(&self, api_key: Option<&Secret>) -> Option<Vec<(HeaderName, HeaderValue)>> {
        let Some(api_key) = api_key else {
            return Some(Vec::new());
        };
        let name = HeaderName::from_static("x-goog-api-key");
        Some(vec![(name, secret_header(api_key.expose())?)])
    }

    fn encode(&self, request: &TurnRequest<'_>, _: AnswerMode) -> Result<Vec<u8>, serde_json::Error> {
        encode::encode(&self.label, request)
    }

    fn decode(&self, body: &[u8]) -> Result<Completion, DecodeError> {
        decode::decode(&self.label, body)
    }

    fn decoder(&self) -> Box<dyn AnswerDecoder> {
        Box::new(stream::GeminiStreamDecoder::new(self.label.clone()))
    }

    #[cfg(test)]
    fn recorded_answer(&self) -> String {
        recorded::gemini_answer()
    }
}

/// Returns a name as one segment of a path.
fn segment(name: &str) -> String {
    let mut segment = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => segment.push(byte.into()),
            // Writing to a string cannot fail.
            _ => drop(write!(segment, "%{byte:02X}")),
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::GeminiGenerate;
    use crate::interfaces::provider::codec::{AnswerMode, Codec};

    #[test]
    fn the_model_and_the_answer_mode_are_in_the_path() {
        let label = String::new();
        let path = |model: &str, mode| GeminiGenerate { label: label.clone() }.path(model, mode);
        assert_eq!(
            path("gemini-2.5-pro", AnswerMode::Streamed),
            "/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
        );
        assert_eq!(
            path("tunedModels/ours-1", AnswerMode::Whole),
            "/tunedModels/ours-1:generateContent"
        );
        assert_eq!(
            path("a/b:c?key=1#ü", AnswerMode::Whole),
            "/models/a%2Fb%3Ac%3Fkey%3D1%23%C3%BC:generateContent"
        );
    }
}
