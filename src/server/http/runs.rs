//! The handlers of `/api/runs`: programs start, list, watch, cancel and repeat runs with the token of a person.

use super::answer::{self, Answer, StreamedAnswer};
use super::event::read_body;
use super::personal::{json_object, shown, token};
use super::routes::RouteState;
use crate::base::model::{RunId, RunStatus};
use crate::engine::gateway::{HandoverAnswer, RunFilter, RunStartRequest, RunWatch, RunWatchEvent};
use async_trait::async_trait;
use axum::body::Body;
use axum::extract::{Request, State};
use bytes::Bytes;
use futures_util::stream;
use http::HeaderMap;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The path of a run, before its number.
const RUNS: &str = "/api/runs/";
/// The most digits of the number of a run.
pub(super) const DIGITS_MAX: usize = 18;
/// The largest number of a run that has so many digits.
pub(super) const NUMBER_MAX: u64 = 999_999_999_999_999_999;
/// The header with the key of a request.
const KEY_HEADER: &str = "idempotency-key";
/// The most characters of a key.
pub(super) const KEY_CHARS_MAX: usize = 255;
/// The runs of a list if the request says nothing, and the most.
pub(super) const LISTED: (usize, usize) = (20, 100);

const BAD_BODY: &str = "the body is not {\"pipeline\": \"...\", \"repository\": \"...\", \"params\": {...}}; the last two are optional";
const BAD_KEY: &str = "the header `Idempotency-Key` is given once, with 1 to 255 visible ASCII characters";
const BAD_QUERY: &str = "the query has repository, pipeline, status, limit (1 to 100) and before (the number of a run), each at most once, and nothing else";

/// The receiver of the requests of programs about runs.
#[async_trait]
pub trait RunRequests: Send + Sync {
    /// Starts a run.
    async fn start_run(&self, token: &str, request: RunStartRequest, at: Timestamp) -> HandoverAnswer;

    /// Lists runs.
    async fn list_runs(&self, token: &str, filter: RunFilter, at: Timestamp) -> HandoverAnswer;

    /// Returns a run.
    async fn show_run(&self, token: &str, id: RunId, at: Timestamp) -> HandoverAnswer;

    /// Cancels a run.
    async fn cancel_run(&self, token: &str, id: RunId, at: Timestamp) -> HandoverAnswer;

    /// Repeats a run.
    async fn retry_run(&self, token: &str, id: RunId, key: Option<&str>, at: Timestamp) -> HandoverAnswer;

    /// Begins to watch a run. The error is the answer to the request.
    async fn watch_run(&self, token: &str, id: RunId, at: Timestamp)
    -> Result<Box<RunWatch>, HandoverAnswer>;
}

/// The reason why a request is refused before anything of it is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestProblem {
    /// It has no token.
    Token,
    /// Its path has no number of a run.
    Number,
    /// Its key is none.
    Key,
}

impl From<RequestProblem> for Answer {
    fn from(problem: RequestProblem) -> Self {
        match problem {
            RequestProblem::Token => answer::token_refused(),
            RequestProblem::Number => answer::not_found(),
            RequestProblem::Key => answer::malformed(BAD_KEY),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartBody {
    pipeline: String,
    #[serde(default)]
    repository: Option<String>,
    #[serde(default)]
    params: BTreeMap<String, Value>,
}

/// Starts the run of the body.
pub(super) async fn start(State(state): State<Arc<RouteState>>, request: Request) -> Answer {
    let request = match read_body(&state, request).await {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    let Some(token) = token(request.headers()) else {
        return answer::token_refused();
    };
    let key = match key(request.headers()) {
        Ok(key) => key.map(str::to_owned),
        Err(problem) => return problem.into(),
    };
    let Some(body) = json_object::<StartBody>(request.body()) else {
        return answer::malformed(BAD_BODY);
    };
    let start = RunStartRequest {
        pipeline: body.pipeline,
        repository: body.repository,
        params: body.params,
        key,
    };
    let ingress = &state.ingress;
    shown(ingress.start_run(token, start, ingress.now()).await)
}

/// Lists the runs of the query.
pub(super) async fn list(State(state): State<Arc<RouteState>>, request: Request) -> Answer {
    let Some(token) = token(request.headers()) else {
        return answer::token_refused();
    };
    let Some(filter) = filter(request.uri().query().unwrap_or_default()) else {
        return answer::malformed(BAD_QUERY);
    };
    let ingress = &state.ingress;
    shown(ingress.list_runs(token, filter, ingress.now()).await)
}

/// Returns the run of the number in the path.
pub(super) async fn show(State(state): State<Arc<RouteState>>, request: Request) -> Answer {
    let (token, id) = match asked(&request, "") {
        Ok(asked) => asked,
        Err(problem) => return problem.into(),
    };
    let ingress = &state.ingress;
    shown(ingress.show_run(token, id, ingress.now()).await)
}

/// Cancels the run of the number in the path.
pub(super) async fn cancel(State(state): State<Arc<RouteState>>, request: Request) -> Answer {
    let (token, id) = match asked(&request, "/cancel") {
        Ok(asked) => asked,
        Err(problem) => return problem.into(),
    };
    let ingress = &state.ingress;
    shown(ingress.cancel_run(token, id, ingress.now()).await)
}

/// Repeats the run of the number in the path.
pub(super) async fn retry(State(state): State<Arc<RouteState>>, request: Request) -> Answer {
    let (token, id) = match asked(&request, "/retry") {
        Ok(asked) => asked,
        Err(problem) => return problem.into(),
    };
    let key = match key(request.headers()) {
        Ok(key) => key,
        Err(problem) => return problem.into(),
    };
    let ingress = &state.ingress;
    shown(ingress.retry_run(token, id, key, ingress.now()).await)
}

/// Sends the events of the run of the number in the path, up to its end or the end of the server.
pub(super) async fn watch(
    State(state): State<Arc<RouteState>>,
    request: Request,
) -> Result<StreamedAnswer, Answer> {
    let (token, id) = asked(&request, "/events")?;
    let ingress = &state.ingress;
    let watch = ingress.watch_run(token, id, ingress.now()).await.map_err(shown)?;
    Ok(StreamedAnswer::new(events(watch, state.cancel.clone())))
}

fn events(watch: Box<RunWatch>, cancel: CancellationToken) -> Body {
    let all = stream::unfold((watch, cancel), |(mut watch, cancel)| async move {
        let event = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            event = watch.next() => event,
        };
        event.map(|event| (Ok::<Bytes, Infallible>(encoded(event)), (watch, cancel)))
    });
    Body::from_stream(all)
}

/// Returns an event in the form of server-sent events. JSON on one line has no line feed.
fn encoded(event: RunWatchEvent) -> Bytes {
    Bytes::from(match event {
        RunWatchEvent::State(document) => format!("event: run\ndata: {document}\n\n"),
        RunWatchEvent::Silence => ": nothing has changed\n\n".to_owned(),
        RunWatchEvent::End => "event: end\ndata: {}\n\n".to_owned(),
    })
}

/// Returns the token of a request, and the run of its path, which ends with `suffix`.
fn asked<'a>(request: &'a Request, suffix: &str) -> Result<(&'a str, RunId), RequestProblem> {
    let token = token(request.headers()).ok_or(RequestProblem::Token)?;
    // The number as it was sent: the parameter of the router is decoded, and would give a run further names.
    let number = request.uri().path().strip_prefix(RUNS);
    let id = number.and_then(|number| run_id(number.strip_suffix(suffix)?));
    Ok((token, id.ok_or(RequestProblem::Number)?))
}

fn run_id(number: &str) -> Option<RunId> {
    let is_number =
        (1..=DIGITS_MAX).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    let id = is_number.then(|| number.parse().ok()).flatten()?;
    Some(RunId(id))
}

/// Returns the key of a request, if it has one.
fn key(headers: &HeaderMap) -> Result<Option<&str>, RequestProblem> {
    let mut values = headers.get_all(KEY_HEADER).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let is_visible = |byte: &u8| byte.is_ascii_graphic();
    let fits = |key: &&str| (1..=KEY_CHARS_MAX).contains(&key.len()) && key.as_bytes().iter().all(is_visible);
    match (value.to_str().ok().filter(fits), values.next()) {
        (Some(key), None) => Ok(Some(key)),
        _ => Err(RequestProblem::Key),
    }
}

/// Returns the runs that a query asks for.
fn filter(query: &str) -> Option<RunFilter> {
    let mut given = BTreeMap::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if given.insert(name.into_owned(), value.into_owned()).is_some() {
            return None;
        }
    }
    let mut take = |name: &str| given.remove(name);
    let (repository, pipeline) = (take("repository"), take("pipeline"));
    let (status, limit, before) = (take("status"), take("limit"), take("before"));
    if !given.is_empty() {
        return None;
    }
    let status = status.map(|word| RunStatus::ALL.into_iter().find(|status| status.word() == word));
    let limit = limit.map_or(Some(LISTED.0), |limit| limit.parse().ok())?;
    let before = before.map(|number| run_id(&number));
    (1..=LISTED.1).contains(&limit).then_some(RunFilter {
        repository,
        pipeline,
        status: status.map_or(Some(None), |status| status.map(Some))?,
        before: before.map_or(Some(None), |before| before.map(Some))?,
        limit,
    })
}

#[cfg(test)]
mod tests {
    use super::{KEY_HEADER, NUMBER_MAX, encoded, filter, key, run_id};
    use crate::base::model::{RunId, RunStatus};
    use crate::engine::gateway::{RunFilter, RunWatchEvent};
    use http::{HeaderMap, HeaderValue};

    const ALL: RunFilter = RunFilter {
        repository: None,
        pipeline: None,
        status: None,
        before: None,
        limit: 20,
    };

    #[test]
    fn a_query_asks_for_runs_and_for_nothing_else() {
        assert_eq!(filter(""), Some(ALL));
        let all = "repository=infra&pipeline=a%20b&status=failed&limit=100&before=12";
        let asked = RunFilter {
            repository: Some("infra".to_owned()),
            pipeline: Some("a b".to_owned()),
            status: Some(RunStatus::Failed),
            before: Some(RunId(12)),
            limit: 100,
        };
        assert_eq!(filter(all), Some(asked));
        for wrong in [
            "status=over",
            "status=",
            "limit=0",
            "limit=101",
            "limit=+1x",
            "before=-1",
            "before=",
            "after=1",
            "limit=1&limit=1",
            "token=secret",
        ] {
            assert_eq!(filter(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_key_is_one_header_of_visible_characters() {
        let found = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                let value = HeaderValue::from_str(value).unwrap_or(HeaderValue::from_static(""));
                headers.append(KEY_HEADER, value);
            }
            key(&headers).map(|key| key.map(str::to_owned)).ok()
        };
        assert_eq!(found(&[]), Some(None));
        assert_eq!(found(&["\"one\""]), Some(Some("\"one\"".to_owned())));
        let (longest, longer) = ("k".repeat(255), "k".repeat(256));
        assert_eq!(found(&[&longest]), Some(Some(longest.clone())));
        for values in [&[""][..], &["two words"], &["é"], &[&longer], &["one", "one"]] {
            assert_eq!(found(values), None, "{values:?}");
        }
    }

    #[test]
    fn the_number_of_a_run_has_one_name_and_an_event_has_its_form() {
        assert_eq!(run_id("12"), Some(RunId(12)));
        for wrong in ["", "+1", "-1", "1/", "%31", "1234567890123456789"] {
            assert_eq!(run_id(wrong), None, "{wrong}");
        }
        assert!(run_id(&NUMBER_MAX.to_string()).is_some());
        assert_eq!(run_id(&(NUMBER_MAX + 1).to_string()), None);
        for (event, form) in [
            (
                RunWatchEvent::State(r#"{"id":1}"#.to_owned()),
                "event: run\ndata: {\"id\":1}\n\n",
            ),
            (RunWatchEvent::Silence, ": nothing has changed\n\n"),
            (RunWatchEvent::End, "event: end\ndata: {}\n\n"),
        ] {
            assert_eq!(encoded(event), form.as_bytes());
        }
    }
}
