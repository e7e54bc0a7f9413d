//! Reads the body of an error, which is used only to classify the error.

use http::StatusCode;
use serde_json::Value;
use std::time::Duration;

/// The kind and message of an error body, and the facts that services put beside them.
#[derive(Debug, Default)]
pub(super) struct ErrorReport {
    /// The service's names for the error, separated by spaces.
    pub(super) kind: String,
    /// The message in lower case.
    pub(super) message: String,
    /// The wait that the body requires.
    pub(super) retry_after: Option<Duration>,
    /// The names of the limits that were reached.
    limits: String,
}

impl ErrorReport {
    /// Reads a body of any content.
    pub(super) fn read(body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        // Google wraps its error in a list at its address for chat completions.
        let error = if body.is_array() {
            &body[0]["error"]
        } else {
            &body["error"]
        };
        let details = error["details"].as_array().map_or(&[][..], Vec::as_slice);
        let names = [&error["code"], &error["type"], &error["status"]].into_iter();
        let reasons = details.iter().map(|detail| &detail["reason"]);
        let kinds: Vec<String> = names
            .chain(reasons)
            .filter_map(Value::as_str)
            .map(constant_in_lower_case)
            .collect();
        let violations = details
            .iter()
            .filter_map(|detail| detail["violations"].as_array());
        let limits: Vec<&str> = violations
            .flatten()
            .filter_map(|violation| violation["quotaId"].as_str())
            .collect();
        Self {
            kind: kinds.join(" "),
            message: error["message"].as_str().unwrap_or_default().to_ascii_lowercase(),
            retry_after: details
                .iter()
                .find_map(|detail| retry_delay(&detail["retryDelay"])),
            limits: limits.join(" ").to_ascii_lowercase(),
        }
    }

    /// Creates a report of an error inside an answer, of which only the name is known.
    pub(super) fn of_kind(kind: String) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }

    /// Returns the provider's name for the error if it is a single word.
    pub(super) fn shown_kind(&self) -> String {
        let is_word = |kind: &&str| {
            kind.len() <= 64 && kind.chars().all(|char| char.is_ascii_lowercase() || char == '_')
        };
        let kind = self.kind.split(' ').find(is_word).filter(|kind| !kind.is_empty());
        kind.map(|kind| format!(" {kind}")).unwrap_or_default()
    }

    /// Returns true if the key is invalid. Google reports that as an invalid request.
    pub(super) fn says_key_refused(&self) -> bool {
        self.kind.split(' ').any(|kind| kind == "api_key_invalid")
    }

    /// Returns true if only an operator can end the limit. Google has one message for all of its limits: a limit of a
    /// minute has a wait, and one of a day has its name.
    pub(super) fn says_spent(&self) -> bool {
        const KINDS: [&str; 4] = [
            "enforced_spend_limit_reached",
            "insufficient_quota",
            "billing_error",
            "billing_hard_limit_reached",
        ];
        let is_short = self.retry_after.is_some() && !self.limits.contains("perday");
        KINDS
            .iter()
            .any(|kind| self.kind.contains(kind) || self.message.contains(kind))
            || self.message.contains("credit balance is too low")
            || self.message.contains("spending cap")
            || (self.message.contains("exceeded your current quota") && !is_short)
    }

    /// Returns true if the conversation is too long for the model.
    pub(super) fn says_too_long(&self) -> bool {
        self.kind.contains("context_length_exceeded")
            || self.message.contains("prompt is too long")
            || self.message.contains("maximum context length")
            || self.message.contains("exceed context limit")
            || self.message.contains("exceeds the context window")
            || self.message.contains("exceeds the maximum number of tokens")
    }
}

/// Returns true if a service refuses a request because of its choice of tools. Their texts differ, but all of them name the
/// parameter; routers answer 404 if no service of a model knows it.
pub(super) fn refuses_tool_choice(status: StatusCode, body: &[u8]) -> bool {
    const NAMES: [&str; 6] = [
        "tool_choice",
        "toolchoice",
        "tool choice",
        "function_calling_config",
        "functioncallingconfig",
        "function calling config",
    ];
    let may_name_a_parameter = matches!(status.as_u16(), 400 | 404 | 422 | 501);
    let body = String::from_utf8_lossy(body).to_ascii_lowercase();
    may_name_a_parameter && NAMES.iter().any(|name| body.contains(name))
}

/// Returns a name such as `RESOURCE_EXHAUSTED` in lower case, and others unchanged.
fn constant_in_lower_case(name: &str) -> String {
    match name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') {
        true => name.to_ascii_lowercase(),
        false => name.to_owned(),
    }
}

/// Returns a wait in the form of protocol buffers: `34.07s`.
fn retry_delay(delay: &Value) -> Option<Duration> {
    let seconds: f64 = delay.as_str()?.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}
