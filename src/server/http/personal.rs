//! The handlers of `/api/`: the requests of people's machines. They carry a one-time code or a personal token, and no
//! cookie, so no page of a browser can make them for a person.

use super::answer::{self, Answer};
use super::event::read_body;
use super::routes::RouteState;
use crate::base::model::{ChangeName, ChangeNumber};
use crate::engine::gateway::HandoverAnswer;
use async_trait::async_trait;
use axum::extract::{Request, State};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The path of a change, before its number.
pub(super) const CHANGES: &str = "/api/changes/";
/// The maximum number of characters of a code or token.
pub(super) const SECRET_CHARS_MAX: usize = 200;

/// The receiver of the requests of people's machines.
#[async_trait]
pub trait PersonalApi: Send + Sync {
    /// Exchanges a code for a token.
    async fn log_in(&self, code: &str, at: Timestamp) -> HandoverAnswer;

    /// Ends the login of a token.
    async fn log_out(&self, token: &str, at: Timestamp) -> HandoverAnswer;

    /// Returns a change for the person to whom a token belongs.
    async fn change(&self, token: &str, number: ChangeNumber, at: Timestamp) -> HandoverAnswer;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginRequest {
    code: String,
}

/// Exchanges the code in the body.
pub(super) async fn log_in(State(state): State<Arc<RouteState>>, request: Request) -> Answer {
    let request = match read_body(&state, request).await {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    let Some(LoginRequest { code }) = json_object(request.body()) else {
        return answer::malformed("the body is not {\"code\": \"...\"}");
    };
    if code.chars().count() > SECRET_CHARS_MAX {
        return answer::malformed("the code is too long");
    }
    let ingress = &state.ingress;
    shown(ingress.log_in(&code, ingress.now()).await)
}

/// Ends the login of the token in the header.
pub(super) async fn log_out(State(state): State<Arc<RouteState>>, request: Request) -> Answer {
    let ingress = &state.ingress;
    match token(request.headers()) {
        Some(token) => shown(ingress.log_out(token, ingress.now()).await),
        None => answer::token_refused(),
    }
}

/// Returns the change of the number in the path.
pub(super) async fn change(State(state): State<Arc<RouteState>>, request: Request) -> Answer {
    let Some(token) = token(request.headers()) else {
        return answer::token_refused();
    };
    // The number as it was sent: the parameter of the router is decoded, and would give a change further names.
    let name = request.uri().path().strip_prefix(CHANGES).unwrap_or_default();
    let Some(number) = number(name) else {
        return answer::not_found();
    };
    let ingress = &state.ingress;
    shown(ingress.change(token, number, ingress.now()).await)
}

/// Returns the number of a change that is written as `42` or `CHG-42`.
fn number(name: &str) -> Option<ChangeNumber> {
    let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    match is_number {
        true => name.parse().ok().map(ChangeNumber),
        false => {
            let name: ChangeName = name.parse().ok()?;
            name.revision.is_none().then_some(name.number)
        }
    }
}

/// Reads the JSON object of a body. A list is none, although serde would read its values in the order of the fields.
pub(super) fn json_object<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    let is_object = body.trim_ascii_start().starts_with(b"{");
    is_object.then(|| serde_json::from_slice(body).ok()).flatten()
}

/// Returns the token of a request with exactly one header for it.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, more) = (values.next()?, values.next());
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let is_token = scheme.eq_ignore_ascii_case("bearer") && (1..=SECRET_CHARS_MAX).contains(&token.len());
    (is_token && more.is_none()).then_some(token)
}

/// Returns the HTTP answer to a request of a person's machine or program.
pub(super) fn shown(answer: HandoverAnswer) -> Answer {
    match answer {
        HandoverAnswer::Document(document) => answer::acknowledged(document),
        HandoverAnswer::Created { location, document } => answer::created(&location, document),
        HandoverAnswer::Unprocessable { why, problems } => answer::unprocessable(&why, &problems),
        HandoverAnswer::TooMany { why, seconds } => answer::too_many(&why, seconds),
        HandoverAnswer::Ended => answer::accepted(),
        HandoverAnswer::Unauthenticated => answer::token_refused(),
        HandoverAnswer::Forbidden(why) => answer::forbidden(&why),
        HandoverAnswer::TooManyAttempts(seconds) => answer::too_many_attempts(seconds),
        HandoverAnswer::NotFound => answer::not_found(),
        HandoverAnswer::Refused(why) => answer::refused(&why),
        HandoverAnswer::Unavailable => answer::unavailable(),
    }
}

#[cfg(test)]
mod tests {
    use super::{number, token};
    use crate::base::model::ChangeNumber;
    use http::header::AUTHORIZATION;
    use http::{HeaderMap, HeaderValue};

    #[test]
    fn a_change_of_a_path_is_one_number() {
        for text in ["42", "CHG-42", "chg-42"] {
            assert_eq!(number(text), Some(ChangeNumber(42)), "{text}");
        }
        for text in [
            "",
            "+42",
            "-1",
            "4 2",
            "42/",
            "%34%32",
            "CHG-42%20rev%201",
            "99999999999999999999",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn a_request_has_exactly_one_token() {
        let found = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                let value = HeaderValue::from_str(value).unwrap_or(HeaderValue::from_static(""));
                headers.append(AUTHORIZATION, value);
            }
            token(&headers).map(str::to_owned)
        };
        assert_eq!(found(&["Bearer t"]).as_deref(), Some("t"));
        assert_eq!(found(&["bearer t"]).as_deref(), Some("t"));
        let long = format!("Bearer {}", "t".repeat(201));
        for values in [
            &[][..],
            &["t"],
            &["Basic t"],
            &["Bearer "],
            &["Bearer t", "Bearer t"],
            &[&long],
        ] {
            assert_eq!(found(values), None, "{values:?}");
        }
    }
}
