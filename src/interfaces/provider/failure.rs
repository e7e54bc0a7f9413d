//! Failures of attempts, and their texts for operators. The body of an error is used only to classify it and is never
//! shown: it may repeat the request.

use super::codec::DecodeError;
use super::error_report::ErrorReport;
use super::failure_kind::ProviderFailureKind;
use super::side_costs::{LostCharge, SideCosts};
use super::wording;
use http::{HeaderMap, StatusCode};
use std::fmt;
use std::time::Duration;

/// A failed attempt, or the last failed attempt of a whole call. Its text is for users: no URL, no key, no body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderFailure {
    /// The kind of failure, which determines whether to retry.
    pub kind: ProviderFailureKind,
    /// The status, if it adds information to the text.
    pub status: Option<u16>,
    /// The wait that the provider requires.
    pub retry_after: Option<Duration>,
    /// Details or advice in addition to the text of the kind; may be empty.
    pub detail: String,
    /// The costs of the attempts.
    pub side: SideCosts,
}

impl ProviderFailure {
    /// Creates a failure with details.
    pub(super) fn new(kind: ProviderFailureKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            retry_after: None,
            detail: detail.into(),
            side: SideCosts {
                unused: None,
                lost: kind.lost_charge(),
            },
        }
    }
}

impl fmt::Display for ProviderFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)?;
        if let Some(status) = self.status {
            write!(f, " ({status})")?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        match self.kind {
            ProviderFailureKind::RateLimiting
            | ProviderFailureKind::Overloaded
            | ProviderFailureKind::Faulty => f.write_str(&wording::asked_wait(self.retry_after)),
            // Waiting does not help against these failures.
            _ => Ok(()),
        }
    }
}

/// The provider and model named in a failure's text, so that an operator knows where to look.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailureSubject<'a> {
    /// The provider's name in the configuration.
    pub(super) provider: &'a str,
    /// The requested model.
    pub(super) model: &'a str,
    /// The key to set for a service that does not support the format.
    pub(super) other_format: Option<&'static str>,
}

/// Classifies an answer with an error status.
pub(super) fn from_status(
    subject: FailureSubject<'_>,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> ProviderFailure {
    let reported = ErrorReport::read(body);
    let mut failure = classify(subject, status.as_u16(), &reported);
    failure.retry_after = retry_after(headers).or(reported.retry_after);
    failure
}

/// Classifies an answer that could not be decoded.
pub(super) fn from_decoding(subject: FailureSubject<'_>, error: DecodeError) -> ProviderFailure {
    match error {
        DecodeError::Incomplete => ProviderFailure::new(ProviderFailureKind::Broken, ""),
        DecodeError::Malformed => ProviderFailure::new(
            ProviderFailureKind::Malformed,
            format!(
                "ask again; if the failure remains, check that `providers.{}.base_url` is the address of the API",
                subject.provider
            ),
        ),
        DecodeError::TooLong => ProviderFailure::new(ProviderFailureKind::Broken, "it is longer than 16 MiB"),
        DecodeError::Reported { status, kind } => {
            let mut failure = classify(subject, status, &ErrorReport::of_kind(kind));
            // The provider had begun to answer.
            failure.side.lost = LostCharge::Possible;
            failure
        }
    }
}

/// Returns true for a status with which a gateway says that it passed the request on and got no valid answer: 502 and 504
/// of RFC 9110, and 520, 524, 598 and 599 of common proxies.
fn is_lost_behind_gateway(status: u16) -> bool {
    matches!(status, 502 | 504 | 520 | 524 | 598 | 599)
}

fn classify(subject: FailureSubject<'_>, status: u16, reported: &ErrorReport) -> ProviderFailure {
    let FailureSubject { provider, model, .. } = subject;
    if reported.says_key_refused() {
        let text = format!("the key was not accepted ({status}); check `providers.{provider}.api_key`");
        return ProviderFailure::new(ProviderFailureKind::Refused, text);
    }
    if reported.says_spent() {
        let text = format!(
            "the account of `providers.{provider}.api_key` reached its spend limit or has no credit ({status})"
        );
        return ProviderFailure::new(ProviderFailureKind::Refused, text);
    }
    if reported.says_too_long() || status == 413 {
        let text = format!("the conversation is too long for `{model}`; `/clear` starts a new one");
        return ProviderFailure::new(ProviderFailureKind::Rejected, text);
    }
    if let Some(kind) = ProviderFailureKind::from_status(status) {
        let mut failure = ProviderFailure::new(kind, "");
        failure.status = Some(status);
        if is_lost_behind_gateway(status) {
            failure.side.lost = LostCharge::Possible;
        }
        return failure;
    }
    let refused = match status {
        401 => format!("the key was not accepted (401); check `providers.{provider}.api_key`"),
        402 => format!("the account of `providers.{provider}.api_key` requires a payment (402)"),
        403 => format!("`providers.{provider}.api_key` may not use `{model}` (403)"),
        404 => {
            let other = subject.other_format.map(|other| {
                format!("; if the service supports only chat completions, set `{other}` in `[providers.{provider}]`")
            });
            format!(
                "there is no model `{model}` (404); check `model.default` and `providers.{provider}.base_url`{}",
                other.unwrap_or_default()
            )
        }
        300..=399 => {
            format!(
                "the address redirects ({status}); set `providers.{provider}.base_url` to the address that it \
                 redirects to"
            )
        }
        _ => {
            let text = format!("`{model}` does not accept it ({status}{})", reported.shown_kind());
            return ProviderFailure::new(ProviderFailureKind::Rejected, text);
        }
    };
    ProviderFailure::new(ProviderFailureKind::Refused, refused)
}

/// Returns the wait that the provider requires: `retry-after-ms`, or `retry-after` in seconds or as a date. A date is
/// relative to the provider's own `date` header, so this machine's clock does not matter.
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

    use super::{FailureSubject, LostCharge, ProviderFailure, from_status, retry_after};
    use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
    use std::time::Duration;

    const SUBJECT: FailureSubject<'_> = FailureSubject {
        provider: "anthropic",
        model: "claude",
        other_format: None,
    };

    fn failure(status: u16, body: &str) -> ProviderFailure {
        let status = StatusCode::from_u16(status).expect("status");
        from_status(SUBJECT, status, &HeaderMap::new(), body.as_bytes())
    }

    fn failure_text(status: u16, body: &str) -> String {
        let failure = failure(status, body);
        format!("{:?}: {failure}", failure.kind)
    }

    /// R9
    #[test]
    fn what_an_operator_has_to_do_is_said() {
        let spent = r#"{"error":{"type":"rate_limit_error","code":"enforced_spend_limit_reached","message":"secret words"}}"#;
        let quota = r#"{"error":{"type":"insufficient_quota","message":"secret words"}}"#;
        let credit = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#;
        let long = r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}"#;
        let texts: Vec<String> = [
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
            (503, ""),
            (500, "\u{0}"),
            (502, ""),
            (524, ""),
        ]
        .iter()
        .map(|(status, body)| failure_text(*status, body))
        .collect();
        insta::assert_snapshot!(texts.join("\n"), @r"
        Refused: the model provider refused the request: the account of `providers.anthropic.api_key` reached its spend limit or has no credit (429)
        Refused: the model provider refused the request: the account of `providers.anthropic.api_key` reached its spend limit or has no credit (429)
        Refused: the model provider refused the request: the account of `providers.anthropic.api_key` reached its spend limit or has no credit (400)
        Rejected: the model provider rejected the request: the conversation is too long for `claude`; `/clear` starts a new one
        Rejected: the model provider rejected the request: `claude` does not accept it (400)
        Rejected: the model provider rejected the request: `claude` does not accept it (422 invalid_request_error)
        Refused: the model provider refused the request: the key was not accepted (401); check `providers.anthropic.api_key`
        Refused: the model provider refused the request: the account of `providers.anthropic.api_key` requires a payment (402)
        Refused: the model provider refused the request: `providers.anthropic.api_key` may not use `claude` (403)
        Refused: the model provider refused the request: there is no model `claude` (404); check `model.default` and `providers.anthropic.base_url`
        Refused: the model provider refused the request: the address redirects (301); set `providers.anthropic.base_url` to the address that it redirects to
        RateLimiting: the model provider is rate-limiting (429)
        Overloaded: the model provider is overloaded (529)
        Overloaded: the model provider is overloaded (503)
        Faulty: the model provider has a fault (500)
        Faulty: the model provider has a fault (502)
        Faulty: the model provider has a fault (524)
        ");
    }

    #[test]
    fn what_a_gateway_gave_up_may_have_been_charged() {
        for (status, lost) in [
            (500, LostCharge::None),
            (502, LostCharge::Possible),
            (503, LostCharge::None),
            (504, LostCharge::Possible),
            (524, LostCharge::Possible),
            (529, LostCharge::None),
        ] {
            assert_eq!(failure(status, "").side.lost, lost, "{status}");
        }
    }

    /// Bodies as the Gemini API sends them. R8, R9
    #[test]
    fn a_limit_of_a_minute_is_waited_for_and_one_of_a_day_is_not() {
        let limited = |quota: &str, wait: &str| {
            format!(
                r#"{{"error":{{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{{"quotaId":"{quota}"}}]}},{{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"{wait}"}}]}}}}"#
            )
        };
        let failure = |status: u16, body: &str| {
            let status = StatusCode::from_u16(status).expect("status");
            let failure = from_status(SUBJECT, status, &HeaderMap::new(), body.as_bytes());
            (failure.retry_after, format!("{:?}: {failure}", failure.kind))
        };
        let minute = limited("GenerateRequestsPerMinutePerProjectPerModel", "34.074824224s");
        let day = limited("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "41s");
        let spent = r#"{"error":{"code":429,"message":"Your project has exceeded its monthly spending cap.","status":"RESOURCE_EXHAUSTED"}}"#;
        let key = r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}"#;
        let long = r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#;
        let bad = r#"{"error":{"code":400,"message":"secret words","status":"INVALID_ARGUMENT"}}"#;
        assert_eq!(
            failure(429, &minute).0,
            Some(Duration::from_nanos(34_074_824_224))
        );
        let texts = [
            (429, minute.as_str()),
            (429, &day),
            (429, spent),
            (400, key),
            (400, long),
            (400, bad),
        ]
        .map(|(status, body)| failure(status, body).1);
        insta::assert_snapshot!(texts.join("\n"), @r"
        RateLimiting: the model provider is rate-limiting (429); it requests a wait of 34 s
        Refused: the model provider refused the request: the account of `providers.anthropic.api_key` reached its spend limit or has no credit (429)
        Refused: the model provider refused the request: the account of `providers.anthropic.api_key` reached its spend limit or has no credit (429)
        Refused: the model provider refused the request: the key was not accepted (400); check `providers.anthropic.api_key`
        Rejected: the model provider rejected the request: the conversation is too long for `claude`; `/clear` starts a new one
        Rejected: the model provider rejected the request: `claude` does not accept it (400 invalid_argument)
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
