//! The interface of an emulated wire format. Formats are pure; the server reads requests and delivers answers.

use super::script::ScriptedAnswer;
use super::server::{KeyPolicy, ModelRefusal, ParsedRequest};
use crate::base::config::WireFormat;
use http::{HeaderMap, Uri};
use serde_json::Value;

/// A wire format as its service implements it.
pub(super) trait EmulatedFormat: Sync {
    /// Returns the format.
    fn wire(&self) -> WireFormat;

    /// Returns the path of the base URL at which requests with a key are accepted.
    fn base_path(&self) -> &'static str;

    /// Returns the paths of the format, with the rule for API keys at each.
    fn paths(&self) -> &'static [(&'static str, KeyPolicy)];

    /// Parses a request, or returns the error of the service.
    fn read(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        body: &Value,
        key: KeyPolicy,
    ) -> Result<ParsedRequest, ModelRefusal>;

    /// Returns the body of an answer. `number` counts the answers of the emulator.
    fn write(&self, answer: &ScriptedAnswer, request: &ParsedRequest, number: u64) -> String;

    /// Returns the body of an error.
    fn error_body(&self, status: u16, why: &str) -> String;

    /// Returns the properties of the format that tests of all formats compare with.
    #[cfg(test)]
    fn expectations(&self) -> FormatExpectations;
}

/// The properties in which the requests and answers of a format differ from those of other formats.
#[cfg(test)]
pub(super) struct FormatExpectations {
    /// The field of a request with the list of its messages.
    pub(super) messages: &'static str,
    /// The role of a message with results of calls, if it has one.
    pub(super) results_role: Option<&'static str>,
    /// Returns the content of a failed result as it is sent, and the flag of the failure, if the format has one.
    pub(super) failed_result: fn(&str) -> (String, bool),
    /// The number of the service's own blocks that are kept of an answer with thinking, text and a call; `None` if
    /// the format keeps none.
    pub(super) own_blocks: Option<usize>,
    /// The cache marker of a request, if the format has one.
    pub(super) cache_marker: Option<&'static str>,
    /// True if the arguments of a call are a text in an answer in one piece, so that they need not be JSON.
    pub(super) has_arguments_as_text: bool,
    /// True if the arguments of a call are a text in a streamed answer.
    pub(super) streams_arguments_as_text: bool,
    /// The reason of an answer that reached its token limit.
    pub(super) cut_reason: &'static str,
    /// The reason of an answer that the service refused.
    pub(super) refusal_reason: &'static str,
    /// An answer in one piece that contains the result of a call, as only users send it.
    pub(super) forged_answer: Value,
}
