//! The calls of GitHub's REST API for comments. Each failure is classified by its effect. No error contains an address, the
//! token or a text of a comment. See <https://docs.github.com/en/rest/using-the-rest-api>.

use crate::base::http_client::{AnswerReadError, read_answer, server_date};
use crate::base::model::Secret;
use crate::base::webhook::GithubIssue;
use crate::interfaces::channel::api_error::{ApiError, shown_reason};
use jiff::Timestamp;
use reqwest::header::{self, HeaderMap};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::time::Duration;

/// The name of the platform in errors.
const PLATFORM: &str = "github";
/// Time limit of a call.
const CALL_TIME_MAX: Duration = Duration::from_secs(20);
/// The maximum number of bytes of an answer that are read; 100 comments of the greatest length are larger, and are rare.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// The version of the API that these calls are written for.
const API_VERSION: &str = "2022-11-28";
/// The media type of the answers.
const MEDIA_TYPE: &str = "application/vnd.github+json";
/// The wait after a refusal for too many calls that names no time, as GitHub asks for.
const LIMITED_WAIT: Duration = Duration::from_secs(60);
/// The longest wait that is accepted from GitHub.
const LIMITED_WAIT_MAX: Duration = Duration::from_secs(3_600);

/// A client of the API with one token.
pub(super) struct GithubApi {
    http: reqwest::Client,
    base: String,
    token: Secret,
}

/// A comment as the list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedComment {
    pub(super) id: u64,
    pub(super) body: String,
}

impl GithubApi {
    pub(super) fn new(http: reqwest::Client, base: &str, token: Secret) -> Self {
        Self {
            http,
            base: base.trim_end_matches('/').to_owned(),
            token,
        }
    }

    /// Creates a comment, and returns its id, if the answer has one.
    pub(super) async fn create_comment(
        &self,
        issue: &GithubIssue,
        body: &str,
    ) -> Result<Option<u64>, ApiError> {
        let request = self
            .request(Method::POST, &path(issue))
            .json(&json!({ "body": body }));
        // Any success means that the comment exists.
        Ok(self.call(request).await?["id"].as_u64())
    }

    /// Returns a page of the comments that were made or changed since a time, the oldest first. Pages count from 1.
    pub(super) async fn comments(
        &self,
        issue: &GithubIssue,
        since: Timestamp,
        (page, size): (usize, usize),
    ) -> Result<Vec<ListedComment>, ApiError> {
        let query = format!("since={since:.0}&per_page={size}&page={page}");
        let request = self.request(Method::GET, &format!("{}?{query}", path(issue)));
        let answer = self.call(request).await?;
        let listed = answer.as_array().ok_or_else(ApiError::unreadable)?;
        let listed = listed.iter().map(|comment| {
            Some(ListedComment {
                id: comment["id"].as_u64()?,
                body: comment["body"].as_str().unwrap_or_default().to_owned(),
            })
        });
        let listed: Option<Vec<_>> = listed.collect();
        listed.ok_or_else(ApiError::unreadable)
    }

    /// Checks that the server answers and accepts the token. The call counts against no limit. A server without limits
    /// answers 404.
    pub(super) async fn probe(&self) -> Result<(), ApiError> {
        match self.call(self.request(Method::GET, "rate_limit")).await {
            Ok(_) | Err(ApiError::Refused { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("{}/{path}", self.base))
            .timeout(CALL_TIME_MAX)
            .bearer_auth(self.token.expose())
            .header(header::ACCEPT, MEDIA_TYPE)
            .header("x-github-api-version", API_VERSION)
    }

    async fn call(&self, request: RequestBuilder) -> Result<Value, ApiError> {
        let mut response = request.send().await.map_err(|error| failure(&error))?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let mut body = Vec::new();
        match read_answer(&mut response, ANSWER_BYTES_MAX, &mut body).await {
            Ok(()) => {}
            // The status alone shows the effect of a call.
            Err(_) if status >= 400 || status == 201 => body.clear(),
            Err(AnswerReadError::TooLong) => return Err(ApiError::unreadable()),
            Err(AnswerReadError::Broken(error)) => return Err(failure(&error)),
        }
        let answer: Option<Value> = serde_json::from_slice(&body).ok();
        match status {
            201 => Ok(answer.unwrap_or_default()),
            200..=299 => answer.ok_or_else(ApiError::unreadable),
            401 => Err(ApiError::Unauthorised("github answered 401".to_owned())),
            403 | 429 if is_limited(status, &headers, answer.as_ref()) => Err(ApiError::Limited {
                platform: PLATFORM,
                retry_after: Some(requested_wait(&headers)),
            }),
            500.. => Err(ApiError::Ambiguous(format!("github answered {status}"))),
            _ => Err(self.refusal(status, answer.as_ref())),
        }
    }

    fn refusal(&self, status: u16, answer: Option<&Value>) -> ApiError {
        let reason = shown_reason(message(answer), &[self.token.expose()]);
        let hint = match status {
            403 => "; give the token write access to issues and pull requests of the repository",
            404 => "; the token may not see the repository, or the issue does not exist",
            301 | 302 | 307 | 308 => "; the repository has another name now",
            _ => "",
        };
        ApiError::refused(&format!("github answered {status} {reason}{hint}"))
    }
}

fn path(issue: &GithubIssue) -> String {
    format!("repos/{}/issues/{}/comments", issue.repository, issue.number)
}

/// Returns true if a refusal is about the rate of calls and not about the call.
fn is_limited(status: u16, headers: &HeaderMap, answer: Option<&Value>) -> bool {
    status == 429
        || headers.contains_key(header::RETRY_AFTER)
        || number(headers, "x-ratelimit-remaining") == Some(0)
        || message(answer).to_lowercase().contains("rate limit")
}

fn message(answer: Option<&Value>) -> &str {
    let message = answer.and_then(|answer| answer["message"].as_str());
    message.unwrap_or_default()
}

/// Returns the wait that GitHub asks for: in seconds, or until a time of its own clock.
fn requested_wait(headers: &HeaderMap) -> Duration {
    let after = number(headers, header::RETRY_AFTER.as_str());
    let until_reset = || {
        let is_used_up = number(headers, "x-ratelimit-remaining") == Some(0);
        let reset = number(headers, "x-ratelimit-reset").filter(|_| is_used_up)?;
        let now = u64::try_from(server_date(headers)?.as_second()).ok()?;
        Some(reset.saturating_sub(now) + 1)
    };
    let wait = after.or_else(until_reset).map(Duration::from_secs);
    wait.unwrap_or(LIMITED_WAIT).min(LIMITED_WAIT_MAX)
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

fn failure(error: &reqwest::Error) -> ApiError {
    match error.is_builder() {
        true => ApiError::refused("`github_url` or the token is not part of a valid request"),
        false => ApiError::of_transport(PLATFORM, error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{LIMITED_WAIT, LIMITED_WAIT_MAX, is_limited, requested_wait};
    use reqwest::header::HeaderMap;
    use serde_json::json;
    use std::time::Duration;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|&(name, value)| {
            let name = reqwest::header::HeaderName::from_static(name);
            (name, value.parse().unwrap())
        });
        pairs.collect()
    }

    #[test]
    fn the_wait_is_that_of_github_within_an_hour() {
        let date = ("date", "Tue, 24 Nov 2026 10:00:00 GMT");
        let (remaining, reset) = (
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1795514520"),
        );
        for (found, seconds) in [
            (headers(&[("retry-after", "7")]), 7),
            (headers(&[("retry-after", "7"), date, remaining, reset]), 7),
            (headers(&[date, remaining, reset]), 121),
            (headers(&[("retry-after", "99999")]), LIMITED_WAIT_MAX.as_secs()),
            // Without the time of the server, or with calls left, the time of the reset says nothing.
            (headers(&[remaining, reset]), LIMITED_WAIT.as_secs()),
            (headers(&[date, reset]), LIMITED_WAIT.as_secs()),
            (headers(&[("retry-after", "soon")]), LIMITED_WAIT.as_secs()),
        ] {
            assert_eq!(requested_wait(&found), Duration::from_secs(seconds), "{found:?}");
        }
    }

    #[test]
    fn a_refusal_is_about_the_rate_only_if_github_says_so() {
        let said = |message: &str| Some(json!({ "message": message }));
        let none = HeaderMap::new();
        assert!(is_limited(429, &none, None));
        assert!(is_limited(403, &headers(&[("retry-after", "1")]), None));
        assert!(is_limited(403, &headers(&[("x-ratelimit-remaining", "0")]), None));
        let secondary = said("You have exceeded a secondary rate limit.");
        assert!(is_limited(403, &none, secondary.as_ref()));
        let denied = said("Resource not accessible by personal access token");
        assert!(!is_limited(
            403,
            &headers(&[("x-ratelimit-remaining", "12")]),
            denied.as_ref()
        ));
    }
}
