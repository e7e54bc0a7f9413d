//! Anthropic's Messages API.

pub(super) mod answer;
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

/// The Messages API, which requires a key.
pub(super) struct Messages;

impl EmulatedFormat for Messages {
    fn wire(&self) -> WireFormat {
        WireFormat::AnthropicMessages
    }

    fn base_path(&self) -> &'static str {
        "/v1"
    }

    fn paths(&self) -> &'static [(&'static str, KeyPolicy)] {
        &[("/v1/messages", KeyPolicy::Required)]
    }

    fn read(
        &self,
        _: &Uri,
        headers: &HeaderMap,
        body: &Value,
        _: KeyPolicy,
    ) -> Result<ParsedRequest, ModelRefusal> {
        request::read(headers, body)
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
