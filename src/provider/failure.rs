//! Why one attempt failed, and what an operator is told about it. A body is looked at to classify it
//! and never shown: it may repeat the request.

use super::ProviderError;
use super::codec::DecodeError;
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use std::time::Duration;

/// One failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// What the policy goes by.
    pub(super) kind: FailureKind,
    /// What the provider asked us to wait.
    pub(super) retry_after: Option<Duration>,
    /// What people are told if this is the last word.
    pub(super) text: String,
}

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// Too many requests, or overloaded: everybody should wait.
    Limited(u16),
    /// The provider has a fault of its own.
    Faulty(u16),
    /// No answer began.
    Unreached,
    /// An answer began and was not finished.
    Broken,
    /// The key, the account or the model.
    Refused,
    /// The request.
    Invalid,
}

impl Failure {
    /// No answer began: connection, TLS, name, or time.
    pub(super) fn unreached(text: String) -> Self {
        Self {
            kind: FailureKind::Unreached,
            retry_after: None,
            text,
        }
    }

    /// An answer began and was not finished.
    pub(super) fn broken(text: &str) -> Self {
        Self {
            kind: FailureKind::Broken,
            retry_after: None,
            text: text.to_owned(),
        }
    }

    /// A few words for the person who waits.
    pub(super) fn why(&self) -> &'static str {
        match self.kind {
            FailureKind::Limited(429) => "the provider is rate-limiting",
            FailureKind::Limited(_) => "the provider is overloaded",
            FailureKind::Faulty(_) => "the provider has a fault",
            FailureKind::Unreached => "the provider could not be reached",
            FailureKind::Broken => "the answer broke off",
            FailureKind::Refused | FailureKind::Invalid => "the provider refused",
        }
    }

    /// As the error of a whole call.
    pub(super) fn into_error(self) -> ProviderError {
        match self.kind {
            FailureKind::Limited(status) | FailureKind::Faulty(status) => ProviderError::Busy {
                status,
                retry_after: self.retry_after,
            },
            FailureKind::Unreached | FailureKind::Broken => ProviderError::Unreachable(self.text),
            FailureKind::Refused => ProviderError::Refused(self.text),
            FailureKind::Invalid => ProviderError::Invalid(self.text),
        }
    }
}

/// What a failure's text names, so that an operator knows where to look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    /// The provider's name in the configuration.
    pub(super) provider: &'a str,
    /// The model asked.
    pub(super) model: &'a str,
}

/// Classifies an answer with a status of failure.
pub(super) fn from_status(
    subject: Subject<'_>,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Failure {
    let mut failure = classify(subject, status.as_u16(), &Reported::read(body));
    failure.retry_after = retry_after(headers);
    failure
}

/// Classifies an answer that could not be decoded.
pub(super) fn from_decoding(subject: Subject<'_>, error: DecodeError) -> Failure {
    match error {
        DecodeError::Incomplete => Failure::broken("the answer broke off"),
        DecodeError::Malformed => Failure::broken(&format!(
            "the answer is not in the provider's format; check `providers.{}.base_url`",
            subject.provider
        )),
        DecodeError::TooLong => Failure::broken("the answer is longer than 16 MiB"),
        DecodeError::Reported { status, kind } => classify(
            subject,
            status,
            &Reported {
                kind,
                message: String::new(),
            },
        ),
    }
}

/// What an error body says, for classification only.
#[derive(Debug, Default)]
struct Reported {
    kind: String,
    message: String,
}

impl Reported {
    fn read(body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        // Google wraps its error in a list.
        let error = if body.is_array() {
            &body[0]["error"]
        } else {
            &body["error"]
        };
        let field = |name: &str| error[name].as_str().map(str::to_owned);
        Self {
            kind: [field("code"), field("type")]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" "),
            message: field("message").unwrap_or_default().to_ascii_lowercase(),
        }
    }

    /// The provider's word for the error, if it is no more than a word.
    fn shown_kind(&self) -> String {
        let is_word = |kind: &&str| {
            kind.len() <= 64 && kind.chars().all(|char| char.is_ascii_lowercase() || char == '_')
        };
        let kind = self.kind.split(' ').find(is_word).filter(|kind| !kind.is_empty());
        kind.map(|kind| format!(" {kind}")).unwrap_or_default()
    }

    fn says_spent(&self) -> bool {
        const KINDS: [&str; 4] = [
            "enforced_spend_limit_reached",
            "insufficient_quota",
            "billing_error",
            "billing_hard_limit_reached",
        ];
        KINDS
            .iter()
            .any(|kind| self.kind.contains(kind) || self.message.contains(kind))
            || self.message.contains("credit balance is too low")
            || self.message.contains("exceeded your current quota")
    }

    fn says_too_long(&self) -> bool {
        self.kind.contains("context_length_exceeded")
            || self.message.contains("prompt is too long")
            || self.message.contains("maximum context length")
            || self.message.contains("exceed context limit")
    }
}

fn classify(subject: Subject<'_>, status: u16, reported: &Reported) -> Failure {
    let Subject { provider, model } = subject;
    let failure = |kind, text: String| Failure {
        kind,
        retry_after: None,
        text,
    };
    if reported.says_spent() {
        return failure(
            FailureKind::Refused,
            format!(
                "the account of `providers.{provider}.api_key` reached its spend limit or has no credit ({status})"
            ),
        );
    }
    if reported.says_too_long() || status == 413 {
        let text = format!("the conversation is too long for `{model}`; `/clear` starts a new one");
        return failure(FailureKind::Invalid, text);
    }
    let (kind, text) = match status {
        429 | 503 | 529 => (FailureKind::Limited(status), String::new()),
        408 | 409 | 500 | 502 | 504 => (FailureKind::Faulty(status), String::new()),
        401 => (
            FailureKind::Refused,
            format!("the key was not accepted (401); check `providers.{provider}.api_key`"),
        ),
        402 => (
            FailureKind::Refused,
            format!("the account of `providers.{provider}.api_key` has to be paid (402)"),
        ),
        403 => (
            FailureKind::Refused,
            format!("`providers.{provider}.api_key` may not use `{model}` (403)"),
        ),
        404 => (
            FailureKind::Refused,
            format!(
                "there is no model `{model}` (404); check `model.default` and `providers.{provider}.base_url`"
            ),
        ),
        300..=399 => (
            FailureKind::Refused,
            format!(
                "the address redirects ({status}); set `providers.{provider}.base_url` to where it leads"
            ),
        ),
        520..=599 => (FailureKind::Faulty(status), String::new()),
        _ => (
            FailureKind::Invalid,
            format!("`{model}` does not take it ({status}{})", reported.shown_kind()),
        ),
    };
    failure(kind, text)
}

/// What the provider asks us to wait: `retry-after-ms`, or `retry-after` in seconds or as a date.
/// A date counts from the provider's own `date`, so that no clock of ours is involved.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |text: &str| {
        text.parse::<f64>()
            .ok()
            .filter(|number| number.is_finite() && *number >= 0.0)
    };
    let duration = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
    if let Some(millis) = header("retry-after-ms").and_then(number) {
        return duration(millis / 1_000.0);
    }
    let value = header("retry-after")?;
    if let Some(seconds) = number(value) {
        return duration(seconds);
    }
    let date = |text: &str| {
        jiff::fmt::rfc2822::parse(text)
            .ok()
            .map(|zoned| zoned.timestamp())
    };
    let wait = date(value)?.duration_since(date(header("date")?)?);
    Some(Duration::try_from(wait).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::{FailureKind, Subject, from_status, retry_after};
    use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
    use std::time::Duration;

    const SUBJECT: Subject<'_> = Subject {
        provider: "anthropic",
        model: "claude",
    };

    fn said(status: u16, body: &str) -> (FailureKind, String) {
        let status = StatusCode::from_u16(status).expect("status");
        let failure = from_status(SUBJECT, status, &HeaderMap::new(), body.as_bytes());
        let text = failure.text.clone();
        (
            failure.kind,
            if text.is_empty() {
                failure.into_error().to_string()
            } else {
                text
            },
        )
    }

    /// R9
    #[test]
    fn what_an_operator_has_to_do_is_said() {
        let spent = r#"{"error":{"type":"rate_limit_error","code":"enforced_spend_limit_reached","message":"secret words"}}"#;
        let quota = r#"{"error":{"type":"insufficient_quota","message":"secret words"}}"#;
        let credit = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#;
        let long = r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}"#;
        let told: Vec<String> = [
            (429, spent),
            (429, quota),
            (400, credit),
            (400, long),
            (400, "{\"error\":{\"message\":\"secret words\"}}"),
            (
                422,
                r#"{"error":{"code":"Secret Words!","type":"invalid_request_error"}}"#,
            ),
            (401, ""),
            (402, ""),
            (403, "<html>"),
            (404, "[]"),
            (301, ""),
            (429, ""),
            (529, ""),
            (500, "\u{0}"),
        ]
        .iter()
        .map(|(status, body)| {
            let (kind, text) = said(*status, body);
            format!("{kind:?}: {text}")
        })
        .collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        Refused: the account of `providers.anthropic.api_key` reached its spend limit or has no credit (429)
        Refused: the account of `providers.anthropic.api_key` reached its spend limit or has no credit (429)
        Refused: the account of `providers.anthropic.api_key` reached its spend limit or has no credit (400)
        Invalid: the conversation is too long for `claude`; `/clear` starts a new one
        Invalid: `claude` does not take it (400)
        Invalid: `claude` does not take it (422 invalid_request_error)
        Refused: the key was not accepted (401); check `providers.anthropic.api_key`
        Refused: the account of `providers.anthropic.api_key` has to be paid (402)
        Refused: `providers.anthropic.api_key` may not use `claude` (403)
        Refused: there is no model `claude` (404); check `model.default` and `providers.anthropic.base_url`
        Refused: the address redirects (301); set `providers.anthropic.base_url` to where it leads
        Limited(429): the model provider is overloaded or rate-limiting (429)
        Limited(529): the model provider is overloaded or rate-limiting (529)
        Faulty(500): the model provider is overloaded or rate-limiting (500)
        ");
    }

    fn waits(headers: &[(&'static str, &'static str)]) -> Option<Duration> {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        retry_after(&headers.iter().map(header).collect())
    }

    /// R8
    #[test]
    fn every_way_to_say_how_long_is_understood() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(waits(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(waits(&[("retry-after", "0.5")]), Some(Duration::from_millis(500)));
        assert_eq!(
            waits(&[("retry-after", "7"), ("retry-after-ms", "1500")]),
            Some(Duration::from_millis(1_500))
        );
        let later = ("retry-after", "Sun, 06 Nov 1994 08:49:49 GMT");
        assert_eq!(waits(&[date, later]), Some(Duration::from_secs(12)));
        let earlier = ("retry-after", "Sun, 06 Nov 1994 08:49:00 GMT");
        assert_eq!(waits(&[date, earlier]), Some(Duration::ZERO));
        for nonsense in [
            "",
            "-1",
            "NaN",
            "inf",
            "soon",
            "1e300",
            "Sun, 06 Nov 1994 08:49:49 GMT",
        ] {
            assert_eq!(waits(&[("retry-after", nonsense)]), None, "{nonsense}");
        }
    }
}
