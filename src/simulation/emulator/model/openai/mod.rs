//! OpenAI's chat completions.

mod answer;
#[cfg(test)]
mod expectations;
mod request;

pub(super) use answer::error_body;

use super::script::ScriptedAnswer;
use super::server::{KeyPolicy, ModelRefusal, ParsedRequest};
use super::wire_format::EmulatedFormat;
#[cfg(test)]
use super::wire_format::FormatExpectations;
use crate::base::config::WireFormat;
use http::{HeaderMap, Uri};
use serde_json::Value;

/// Chat completions, with a version in the path and a key, or with neither.
pub(super) struct ChatCompletions;

impl EmulatedFormat for ChatCompletions {
    fn wire(&self) -> WireFormat {
        WireFormat::OpenaiChat
    }

    fn base_path(&self) -> &'static str {
        "/v1"
    }

    fn paths(&self) -> &'static [(&'static str, KeyPolicy)] {
        &[
            ("/v1/chat/completions", KeyPolicy::Required),
            ("/chat/completions", KeyPolicy::Optional),
        ]
    }

    fn read(
        &self,
        _: &Uri,
        headers: &HeaderMap,
        body: &Value,
        key: KeyPolicy,
    ) -> Result<ParsedRequest, ModelRefusal> {
        request::read(headers, body, key)
    }

    fn write(&self, answer: &ScriptedAnswer, request: &ParsedRequest, number: u64) -> String {
        match request.is_streamed {
            true => answer::stream(answer, request, number),
            false => answer::whole(answer, request, number),
        }
    }

    fn error_body(&self, _: u16, why: &str) -> String {
        answer::error_body(why)
    }

    #[cfg(test)]
    fn expectations(&self) -> FormatExpectations {
        expectations::expectations()
    }
}
