//! The HTTP side of the emulator: reads calls, checks the token and applies faults.

use super::SharedDiscord;
use super::check::DiscordRefusal;
use super::rates::with_rates;
use super::rest::{self, DiscordCall};
use super::state::DiscordFault;
use super::{form, gateway, sent_files};
use crate::simulation::emulator::answer::{Severed, answer, typed_answer, whole_body, with_date};
use crate::simulation::emulator::server::{Closing, serve};
use crate::simulation::emulator::traffic::record;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::any;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::Instant;

/// The maximum number of bytes of a request: 25 MiB.
const REQUEST_BYTES_MAX: usize = 25 << 20;
const JSON: &str = "application/json";

/// Serves until the emulator is stopped.
pub(super) async fn accept(listener: TcpListener, shared: Arc<SharedDiscord>) {
    let routes = Router::new()
        .route("/gateway/", any(open_gateway))
        .route("/gateway", any(open_gateway))
        .route("/attachments/{*path}", any(give_content))
        .route("/api/v10/{*path}", any(call_api))
        .layer(from_fn_with_state(shared.traffic.clone(), record));
    let stop = shared.stopped.clone();
    serve(listener, Closing::Reset, stop, routes.with_state(shared)).await;
}

async fn open_gateway(State(shared): State<Arc<SharedDiscord>>, request: Request) -> Response {
    gateway::open_socket(&shared, request)
}

async fn give_content(
    State(shared): State<Arc<SharedDiscord>>,
    request: Request,
) -> Result<Response, Severed> {
    let (head, body) = request.into_parts();
    whole_body(body, REQUEST_BYTES_MAX).await?;
    // No token of the bot is needed there, and none may go there.
    let path = head
        .uri
        .path()
        .strip_prefix(sent_files::CONTENT_PATH)
        .unwrap_or_default();
    Ok(shared.change(|state| {
        if head.headers.contains_key(AUTHORIZATION) {
            state
                .problems
                .push("a token beside the address of a file".to_owned());
        }
        sent_files::content(state, path)
    }))
}

async fn call_api(State(shared): State<Arc<SharedDiscord>>, request: Request) -> Result<Response, Severed> {
    let (head, body) = request.into_parts();
    let body = whole_body(body, REQUEST_BYTES_MAX).await?;
    let path = head.uri.path().strip_prefix("/api/v10/").unwrap_or_default();
    let path: Vec<String> = path.split('/').map(str::to_owned).collect();
    let query = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes());
    let query = query.map(|(key, value)| (key.into_owned(), value.into_owned()));
    let mut call = DiscordCall {
        method: head.method.to_string(),
        path,
        query: query.collect(),
        body: Value::Null,
        files: Vec::new(),
    };
    if let Some(refusal) = token_refusal(&shared, &head.headers, &call) {
        return Ok(refused(&shared, &call, &refusal));
    }
    if !body.is_empty() {
        let content_type = head
            .headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default();
        let read = match content_type.starts_with("multipart/") {
            true => form::read(content_type, &body),
            false if content_type == JSON => {
                serde_json::from_slice(&body).ok().map(|body| (body, Vec::new()))
            }
            false => None,
        };
        let Some((body, files)) = read else {
            let refusal = DiscordRefusal::invalid("body", "CONTENT_TYPE_INVALID", "not readable");
            return Ok(refused(&shared, &call, &refusal));
        };
        (call.body, call.files) = (body, files);
    }
    let counted = shared.change(|state| match &mut state.rates {
        Some(rates) => rates.count(&call, Instant::now()),
        None => Ok(None),
    });
    let rate = match counted {
        Ok(rate) => rate,
        Err(refused) => {
            let answer = too_many(refused.milliseconds, refused.scope);
            return Ok(with_rates(answer, refused.bucket.as_ref()));
        }
    };
    let route = call.route();
    let bucket = format!("{} {}", call.method, head.uri.path());
    let fault = shared.change(|state| {
        let empty = state.empty_buckets.get(&bucket);
        if empty.is_some_and(|until| *until > Instant::now()) {
            state
                .problems
                .push(format!("{route} was called although its bucket is empty"));
        }
        state.calls.push((route.clone(), call.body.clone()));
        state.take_fault(&route)
    });
    match fault {
        None => {}
        Some(DiscordFault::Status(status)) => {
            return Ok(answer(status, "<html>Bad Gateway</html>".into()));
        }
        Some(DiscordFault::TooMany {
            milliseconds,
            is_global,
        }) => return Ok(too_many(milliseconds, if is_global { "global" } else { "user" })),
        Some(DiscordFault::Reset) => return Err(Severed),
        Some(DiscordFault::Late(milliseconds)) => {
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        }
        Some(DiscordFault::LastOfBucket(milliseconds)) => {
            let until = Instant::now() + Duration::from_millis(milliseconds);
            shared.change(|state| state.empty_buckets.insert(bucket.clone(), until));
        }
        Some(DiscordFault::ResetAfterEffect) => {
            let _lost = shared.change(|state| rest::run(state, &shared, &call));
            return Err(Severed);
        }
    }
    let ran = shared.change(|state| rest::run(state, &shared, &call));
    let empty = shared.change(|state| state.empty_buckets.get(&bucket).copied());
    let answer = match ran {
        Ok((204, _)) => answer(204, axum::body::Body::empty()),
        Ok((status, body)) => {
            let body = typed_answer(status, JSON, body.to_string().into());
            with_date(body, Some((shared.options.at)()))
        }
        Err(refusal) => refused(&shared, &call, &refusal),
    };
    Ok(with_bucket(with_rates(answer, rate.as_ref()), empty))
}

/// Adds the headers of an empty bucket.
fn with_bucket(mut response: Response, empty_until: Option<Instant>) -> Response {
    let wait = empty_until.and_then(|until| until.checked_duration_since(Instant::now()));
    if let Some(wait) = wait
        && let Ok(reset) = HeaderValue::from_str(&format!("{:.3}", wait.as_secs_f64()))
    {
        let headers = response.headers_mut();
        headers.insert("x-ratelimit-remaining", HeaderValue::from_static("0"));
        headers.insert("x-ratelimit-reset-after", reset);
    }
    response
}

/// Returns the refusal of a call without the token that its route needs. The routes of interactions need none.
fn token_refusal(shared: &SharedDiscord, headers: &HeaderMap, call: &DiscordCall) -> Option<DiscordRefusal> {
    let is_of_interaction = matches!(
        call.path.first().map(String::as_str),
        Some("interactions" | "webhooks")
    );
    let sent = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let expected = format!("Bot {}", shared.options.bot_token);
    let is_refused = shared.change(|state| state.is_token_refused);
    match (is_of_interaction, sent) {
        (true, None) => None,
        (true, Some(_)) => Some(DiscordRefusal::invalid(
            "authorization",
            "TOKEN",
            "a token that is not needed",
        )),
        (false, Some(sent)) if sent == expected && !is_refused => None,
        (false, _) => Some(DiscordRefusal::expected(401, 0, "401: Unauthorized")),
    }
}

fn refused(shared: &SharedDiscord, call: &DiscordCall, refusal: &DiscordRefusal) -> Response {
    if refusal.is_problem {
        let body = refusal.body();
        let problem = format!("{}: {body}: {}", call.route(), call.body);
        shared.change(|state| state.problems.push(problem));
    }
    typed_answer(refusal.status, JSON, refusal.body().to_string().into())
}

fn too_many(milliseconds: u64, scope: &'static str) -> Response {
    let seconds = Duration::from_millis(milliseconds).as_secs_f64();
    let body = json!({"message": "You are being rate limited.", "retry_after": seconds, "global": scope == "global"});
    let mut response = typed_answer(429, JSON, body.to_string().into());
    let whole = HeaderValue::from(milliseconds.div_ceil(1_000));
    response.headers_mut().insert(RETRY_AFTER, whole);
    response
        .headers_mut()
        .insert("x-ratelimit-scope", HeaderValue::from_static(scope));
    response
}
