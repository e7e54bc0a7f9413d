//! The Gemini API: `models.generateContent` and `streamGenerateContent`.

mod answer;
#[cfg(test)]
mod expectations;
mod request;

use super::script::ScriptedAnswer;
use super::server::{KeyPolicy, ModelRefusal, ParsedRequest};
use super::wire_format::EmulatedFormat;
#[cfg(test)]
use super::wire_format::FormatExpectations;
use crate::base::config::WireFormat;
use http::{HeaderMap, Uri};
use serde_json::Value;

/// The Gemini API, which requires a key. The model and the method are in the path.
pub(super) struct GeminiApi;

impl EmulatedFormat for GeminiApi {
    fn wire(&self) -> WireFormat {
        WireFormat::GeminiGenerate
    }

    fn base_path(&self) -> &'static str {
        "/v1beta"
    }

    fn paths(&self) -> &'static [(&'static str, KeyPolicy)] {
        &[("/v1beta/models/{call}", KeyPolicy::Required)]
    }

    fn read(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        body: &Value,
        _: KeyPolicy,
    ) -> Result<ParsedRequest, ModelRefusal> {
        request::read(uri, headers, body)
    }

    fn write(&self, answer: &ScriptedAnswer, request: &ParsedRequest, number: u64) -> String {
        match request.is_streamed {
            true => answer::stream(answer, &request.model, number),
            false => answer::whole(answer, &request.model, number),
        }
    }

    fn error_body(&self, status: u16, why: &str) -> String {
        answer::error_body(status, why)
    }

    #[cfg(test)]
    fn expectations(&self) -> FormatExpectations {
        expectations::expectations()
    }
}
