//! The HTTP side of the emulator: checks the token and the headers, applies faults, and answers.

use super::SharedGithub;
use super::state::{GithubFault, GithubRefusal};
use crate::simulation::emulator::answer::{Severed, typed_answer, whole_body, with_date};
use crate::simulation::emulator::server::{Closing, serve};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, LINK, RETRY_AFTER, USER_AGENT};
use http::request::Parts;
use http::{HeaderValue, Method};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::net::TcpListener;

/// The maximum number of bytes of a request.
const REQUEST_BYTES_MAX: usize = 1 << 20;
const JSON: &str = "application/json; charset=utf-8";
/// The versions of the API.
const VERSIONS: [&str; 1] = ["2022-11-28"];
const VERSION: &str = "x-github-api-version";

/// Serves until the emulator is stopped.
pub(super) async fn accept(listener: TcpListener, shared: Arc<SharedGithub>) {
    let routes = Router::new()
        .route("/rate_limit", any(rate_limit))
        .route("/repos/{owner}/{name}/issues/{number}/comments", any(comments))
        .fallback(no_such_path);
    let stop = shared.stopped.clone();
    serve(listener, Closing::Reset, stop, routes.with_state(shared)).await;
}

async fn no_such_path(
    State(shared): State<Arc<SharedGithub>>,
    request: Request,
) -> Result<Response, Severed> {
    let (head, body) = request.into_parts();
    whole_body(body, REQUEST_BYTES_MAX).await?;
    let problem = format!("no such path: {} {}", head.method, head.uri.path());
    shared.change(|state| state.problems.push(problem));
    Ok(refused(&shared, &GithubRefusal::new(404, "Not Found")))
}

async fn rate_limit(State(shared): State<Arc<SharedGithub>>, request: Request) -> Result<Response, Severed> {
    let (head, body) = request.into_parts();
    whole_body(body, REQUEST_BYTES_MAX).await?;
    Ok(match refusal_of(&shared, &head) {
        Some(refusal) => refused(&shared, &refusal),
        None => answered(
            &shared,
            200,
            &json!({"resources": {"core": {"limit": 5_000, "remaining": 5_000}}}),
        ),
    })
}

async fn comments(
    State(shared): State<Arc<SharedGithub>>,
    Path((owner, name, number)): Path<(String, String, String)>,
    request: Request,
) -> Result<Response, Severed> {
    let (head, body) = request.into_parts();
    let body = whole_body(body, REQUEST_BYTES_MAX).await?;
    let call = format!("{} {}", head.method, head.uri.path());
    shared.change(|state| state.calls.push(call));
    if let Some(refusal) = refusal_of(&shared, &head) {
        return Ok(refused(&shared, &refusal));
    }
    let fault = shared.change(|state| state.take_fault(head.method.as_str()));
    match fault {
        None | Some(GithubFault::ResetAfterEffect) => {}
        Some(GithubFault::Reset) => return Err(Severed),
        Some(GithubFault::Status(status)) => {
            return Ok(refused(&shared, &GithubRefusal::new(status, "failed on purpose")));
        }
        Some(GithubFault::Limited(seconds)) => return Ok(refused(&shared, &GithubRefusal::limited(seconds))),
        Some(GithubFault::UsedUp(seconds)) => return Ok(used_up(&shared, seconds)),
    }
    let repository = format!("{owner}/{name}");
    let number: u64 = number.parse().unwrap_or_default();
    let answer = answer_call(&shared, &head, (&repository, number), &body);
    match fault {
        Some(_) => Err(Severed),
        None => Ok(answer),
    }
}

fn answer_call(shared: &SharedGithub, head: &Parts, issue: (&str, u64), body: &Bytes) -> Response {
    let at = (shared.options.at)();
    if head.method == Method::POST {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let login = shared.options.login.as_str();
        let created = shared.change(|state| state.create(issue, (login, &body["body"]), at));
        return match created {
            Ok(comment) => answered(shared, 201, &comment),
            Err(refusal) => refused(shared, &refusal),
        };
    }
    let query = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes());
    let query: BTreeMap<String, String> = query.into_owned().collect();
    match shared.change(|state| state.list(issue, &query)) {
        Ok((listed, next)) => {
            let mut answer = answered(shared, 200, &listed);
            if let Some(page) = next {
                let path = head.uri.path();
                let next = format!("<http://{}{path}?page={page}>; rel=\"next\"", shared.address);
                add(&mut answer, LINK, &next);
            }
            answer
        }
        Err(refusal) => refused(shared, &refusal),
    }
}

/// Returns the refusal of a call that is not formed as GitHub requires or recommends.
fn refusal_of(shared: &SharedGithub, head: &Parts) -> Option<GithubRefusal> {
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let mut problems = Vec::new();
    if header(ACCEPT.as_str()) != Some("application/vnd.github+json") {
        problems.push("a call without the media type of GitHub".to_owned());
    }
    let version = header(VERSION);
    if version.is_none() {
        problems.push("a call without the version of the API".to_owned());
    }
    if ![Method::GET, Method::POST].contains(&head.method) {
        problems.push(format!("a call with the method {}", head.method));
    }
    if head.method == Method::POST && header(CONTENT_TYPE.as_str()) != Some("application/json") {
        problems.push("a body that is no JSON".to_owned());
    }
    shared.change(|state| state.problems.append(&mut problems));
    if header(USER_AGENT.as_str()).is_none() {
        return Some(GithubRefusal::new(
            403,
            "Request forbidden by administrative rules.",
        ));
    }
    if version.is_some_and(|version| !VERSIONS.contains(&version)) {
        return Some(GithubRefusal::new(400, "The API version is not supported."));
    }
    let expected = format!("Bearer {}", shared.options.token);
    match header(AUTHORIZATION.as_str()) == Some(expected.as_str()) {
        true => None,
        false => Some(GithubRefusal::new(401, "Bad credentials")),
    }
}

/// Returns the answer to a client that has made all calls of its hour.
fn used_up(shared: &SharedGithub, seconds: u64) -> Response {
    let mut answer = refused(shared, &GithubRefusal::new(403, "API rate limit exceeded"));
    let now = u64::try_from((shared.options.at)().as_second()).unwrap_or_default();
    add(&mut answer, HeaderName::from_static("x-ratelimit-remaining"), "0");
    let reset = (now + seconds).to_string();
    add(&mut answer, HeaderName::from_static("x-ratelimit-reset"), &reset);
    answer
}

fn refused(shared: &SharedGithub, refusal: &GithubRefusal) -> Response {
    let mut answer = answered(shared, refusal.status, &json!({"message": refusal.message}));
    if let Some(seconds) = refusal.retry_after {
        add(&mut answer, RETRY_AFTER, &seconds.to_string());
    }
    answer
}

fn answered(shared: &SharedGithub, status: u16, body: &Value) -> Response {
    let answer = typed_answer(status, JSON, body.to_string().into());
    with_date(answer, Some((shared.options.at)()))
}

fn add(answer: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}
