//! The interface of an emulated wire format. Formats are pure; the server reads requests and delivers answers.

use super::script::ScriptedAnswer;
use super::server::{KeyPolicy, ModelRefusal, ParsedRequest};
use http::HeaderMap;
use serde_json::Value;

/// A wire format as its service implements it.
pub(super) trait EmulatedFormat: Sync {
    /// Returns the paths of the format, with the rule for API keys at each.
    fn paths(&self) -> &'static [(&'static str, KeyPolicy)];

    /// Parses a request, or returns the error of the service.
    fn read(&self, headers: &HeaderMap, body: &Value, key: KeyPolicy) -> Result<ParsedRequest, ModelRefusal>;

    /// Returns the body of an answer. `number` counts the answers of the emulator.
    fn write(&self, answer: &ScriptedAnswer, request: &ParsedRequest, number: u64) -> String;

    /// Returns the body of an error.
    fn error_body(&self, status: u16, why: &str) -> String;
}
