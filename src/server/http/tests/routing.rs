//! Tests of the routes: a table of requests with their whole answers. The paths, methods and forms of targets are those
//! that a router could treat in a way of its own.

use super::{RecordingIngress, RunningListener, UNAUTHENTICATED, bounds, github_headers};
use crate::server::http::answer::Answer;
use crate::server::http::bounds::HEADER_BYTES_MAX;
use axum::response::IntoResponse;
use http::StatusCode;

const BODY: &str = r#"{"action":"published","repository":{"full_name":"acme/api"}}"#;

/// The first bytes of an answer if the body was read: the sender asks for them with `expect: 100-continue`.
pub(super) const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

const JSON: &str =
    "cache-control: no-store\r\nx-content-type-options: nosniff\r\ncontent-type: application/json\r\n";

/// An expected answer.
#[derive(Clone, Copy)]
pub(super) enum Expected {
    Alive,
    Ready,
    NotFound,
    GetOnly,
    PostOnly,
    /// The body was read, and then this name was looked up, which nobody configured.
    UnknownName(&'static str),
    /// The body was read, and the event stored.
    Stored,
    /// The parser refused the request.
    Unparsable,
}
use Expected::{Alive, GetOnly, NotFound, PostOnly, Ready, Stored, UnknownName, Unparsable};

impl Expected {
    /// Returns the whole answer to a request whose connection ends, without its date.
    pub(super) fn answer(self, method: &str) -> String {
        let (status, allow, body) = match self {
            Alive => ("200 OK", "", r#"{"alive":true}"#),
            Ready => ("200 OK", "", r#"{"ready":true}"#),
            NotFound => ("404 Not Found", "", r#"{"error":"not found"}"#),
            GetOnly => (
                "405 Method Not Allowed",
                "allow: GET, HEAD\r\n",
                r#"{"error":"method not allowed"}"#,
            ),
            PostOnly => (
                "405 Method Not Allowed",
                "allow: POST\r\n",
                r#"{"error":"method not allowed"}"#,
            ),
            UnknownName(_) => return format!("{CONTINUE}{UNAUTHENTICATED}"),
            Stored => {
                return format!(
                    "{CONTINUE}HTTP/1.1 200 OK\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\n\
                     connection: close\r\ncontent-length: 0\r\n\r\n"
                );
            }
            Unparsable => {
                return "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
                    .to_owned();
            }
        };
        let length = body.len();
        let body = if method == "HEAD" { "" } else { body };
        format!(
            "HTTP/1.1 {status}\r\n{JSON}{allow}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    }

    fn name(self) -> Option<&'static str> {
        match self {
            UnknownName(name) => Some(name),
            Stored => Some("github"),
            Alive | Ready | NotFound | GetOnly | PostOnly | Unparsable => None,
        }
    }
}

/// Returns the whole answer of a refusal.
pub(super) fn refused(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{JSON}connection: close\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// Returns a request that the hook `github` accepts, whose sender asks whether to send the body.
pub(super) fn request(method: &str, target: &str) -> Vec<u8> {
    let mut request = format!(
        "{method} {target} HTTP/1.1\r\nhost: drydock\r\nconnection: close\r\nexpect: 100-continue\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n",
        BODY.len()
    );
    for line in github_headers("release", "d-1", BODY.as_bytes()) {
        request.push_str(&line);
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    request.push_str(BODY);
    request.into_bytes()
}

/// Sends each request to a listener of its own, and compares the whole answer and the names that were looked up.
async fn answers(table: &[(&str, &str, Expected)]) {
    for &(method, target, expected) in table {
        let running = RunningListener::start().await;
        let shown: String = target.chars().take(80).collect();
        assert_eq!(
            running.send(&request(method, target)).await,
            expected.answer(method),
            "{method} {shown}"
        );
        let looked_up = running.ingress.looked_up.lock().unwrap().clone();
        assert_eq!(looked_up, Vec::from_iter(expected.name()), "{method} {shown}");
        let accepted = running.ingress.accepted.lock().unwrap().len();
        assert_eq!(
            accepted,
            usize::from(matches!(expected, Stored)),
            "{method} {shown}"
        );
    }
}

#[tokio::test]
async fn a_path_is_a_route_only_if_it_is_written_exactly_so() {
    answers(&[
        ("GET", "/healthz", Alive),
        ("GET", "/livez", Alive),
        ("GET", "/readyz", Ready),
        ("GET", "/healthz?", Alive),
        ("GET", "/healthz?a=/in/github", Alive),
        ("GET", "/healthz#a", Alive),
        ("GET", "/", NotFound),
        ("GET", "//", NotFound),
        ("GET", "/?/healthz", NotFound),
        ("GET", "/healthz/", NotFound),
        ("GET", "/healthz//", NotFound),
        ("GET", "//healthz", NotFound),
        ("GET", "/./healthz", NotFound),
        ("GET", "/a/../healthz", NotFound),
        ("GET", "/HEALTHZ", NotFound),
        ("GET", "/%68ealthz", NotFound),
        ("GET", "/healthz%2f", NotFound),
        ("GET", "/healthz%00", NotFound),
        ("GET", "/healthz;a", NotFound),
        ("GET", "/healthz/a", NotFound),
        ("GET", "/health", NotFound),
        ("GET", "/healthzz", NotFound),
        ("GET", "/livez/readyz", NotFound),
        ("GET", "/{*name}", NotFound),
        ("POST", "/", NotFound),
        ("POST", "/in", NotFound),
        ("POST", "/in?/github", NotFound),
        ("POST", "/in%2fgithub", NotFound),
        ("POST", "/IN/github", NotFound),
        ("POST", "//in/github", NotFound),
        ("POST", "/./in/github", NotFound),
        ("POST", "/a/in/github", NotFound),
        ("POST", "/a/../in/github", NotFound),
        ("POST", "/inn/github", NotFound),
        ("POST", "/github", NotFound),
    ])
    .await;
}

/// Everything below `/in/` is a name, and none is looked up before the body has been read.
#[tokio::test]
async fn the_name_of_a_hook_is_the_rest_of_the_path_as_it_was_sent() {
    answers(&[
        ("POST", "/in/github", Stored),
        ("POST", "/in/github?", Stored),
        ("POST", "/in/github?name=nobody&a=%2f", Stored),
        ("POST", "/in/github#a", Stored),
        ("POST", "/in/", UnknownName("")),
        ("POST", "/in/?github", UnknownName("")),
        ("POST", "/in/nobody", UnknownName("nobody")),
        ("POST", "/in//", UnknownName("/")),
        ("POST", "/in//github", UnknownName("/github")),
        ("POST", "/in/github/", UnknownName("github/")),
        ("POST", "/in/github//", UnknownName("github//")),
        ("POST", "/in/github/x", UnknownName("github/x")),
        ("POST", "/in/github/../github", UnknownName("github/../github")),
        ("POST", "/in/../in/github", UnknownName("../in/github")),
        ("POST", "/in/../healthz", UnknownName("../healthz")),
        ("POST", "/in/./github", UnknownName("./github")),
        ("POST", "/in/..", UnknownName("..")),
        ("POST", "/in/in/github", UnknownName("in/github")),
        ("POST", "/in/GITHUB", UnknownName("GITHUB")),
        ("POST", "/in/%67ithub", UnknownName("%67ithub")),
        ("POST", "/in/git%68ub", UnknownName("git%68ub")),
        ("POST", "/in/github%2f", UnknownName("github%2f")),
        ("POST", "/in/github%20", UnknownName("github%20")),
        ("POST", "/in/github%00", UnknownName("github%00")),
        ("POST", "/in/%2e%2e", UnknownName("%2e%2e")),
        ("POST", "/in/%ff", UnknownName("%ff")),
        ("POST", "/in/%", UnknownName("%")),
        ("POST", "/in/%zz", UnknownName("%zz")),
        ("POST", "/in/+github", UnknownName("+github")),
        ("POST", "/in/github;a=b", UnknownName("github;a=b")),
        ("POST", "/in/*", UnknownName("*")),
        ("POST", "/in/:name", UnknownName(":name")),
        ("POST", "/in/{*name}", UnknownName("{*name}")),
        ("POST", "/in/{name}", UnknownName("{name}")),
        ("POST", "/in/gïthub", UnknownName("gïthub")),
    ])
    .await;
}

#[tokio::test]
async fn a_wrong_method_is_answered_with_the_right_ones_and_its_body_is_not_read() {
    let mut table = vec![
        ("HEAD", "/healthz", Alive),
        ("HEAD", "/livez", Alive),
        ("HEAD", "/readyz", Ready),
        ("HEAD", "/nothing", NotFound),
        ("HEAD", "/in/github", PostOnly),
        ("GET", "/in/github", PostOnly),
        ("post", "/in/github", PostOnly),
        ("get", "/healthz", GetOnly),
    ];
    for method in [
        "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "PROPFIND", "BREW", "M-SEARCH",
    ] {
        table.extend([
            (method, "/healthz", GetOnly),
            (method, "/livez", GetOnly),
            (method, "/readyz", GetOnly),
            (method, "/in/", PostOnly),
            (method, "/in/github", PostOnly),
            (method, "/in/nobody", PostOnly),
            (method, "/in/github/x", PostOnly),
            (method, "/in", NotFound),
            (method, "/nothing", NotFound),
        ]);
    }
    table.extend([
        ("POST", "/healthz", GetOnly),
        ("POST", "/livez?a", GetOnly),
        ("POST", "/readyz", GetOnly),
    ]);
    answers(&table).await;
}

#[tokio::test]
async fn a_target_with_a_host_or_without_a_path_is_no_other_route() {
    answers(&[
        ("GET", "http://drydock/healthz", Alive),
        ("GET", "https://other.example:8443/readyz?a", Ready),
        ("GET", "http://drydock", NotFound),
        ("GET", "http://drydock?/healthz", NotFound),
        ("GET", "http://drydock//healthz", NotFound),
        ("GET", "http://drydock/in/github", PostOnly),
        ("POST", "http://drydock/in/github", Stored),
        ("POST", "http://drydock/in/", UnknownName("")),
        ("POST", "http://drydock/in/github/", UnknownName("github/")),
        ("OPTIONS", "*", NotFound),
        ("GET", "*", NotFound),
        ("POST", "*", NotFound),
        ("CONNECT", "drydock:443", NotFound),
        ("CONNECT", "drydock", NotFound),
        ("GET", "drydock:443", NotFound),
        ("GET", "healthz", NotFound),
        ("POST", "in/github", Unparsable),
        ("GET", "/healthz\u{1}", Unparsable),
        ("GET", "http://", Unparsable),
    ])
    .await;
}

#[tokio::test]
async fn a_very_long_path_is_a_name_or_no_route() {
    let long = "a/".repeat(14_000);
    let encoded = "%41".repeat(9_000);
    let (event, other) = (format!("/in/{long}"), format!("/{long}"));
    let (encoded_event, query) = (format!("/in/{encoded}"), format!("/healthz?{long}"));
    answers(&[
        ("POST", &event, UnknownName(long.clone().leak())),
        ("POST", &encoded_event, UnknownName(encoded.leak())),
        ("GET", &event, PostOnly),
        ("POST", &other, NotFound),
        ("GET", &query, Alive),
    ])
    .await;
    let running = RunningListener::start().await;
    let too_long = format!("/in/{}", "a".repeat(2 * HEADER_BYTES_MAX));
    assert_eq!(
        running.send(&request("POST", &too_long)).await,
        "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    );
}

#[tokio::test]
async fn an_old_client_gets_the_same_answers() {
    let running = RunningListener::start().await;
    for (start, expected) in [
        ("GET /healthz", Alive.answer("GET")),
        ("HEAD /readyz", Ready.answer("HEAD")),
        ("GET /nothing", NotFound.answer("GET")),
        ("GET /in/github", PostOnly.answer("GET")),
        ("POST /in/github", UNAUTHENTICATED.to_owned()),
    ] {
        let request = format!("{start} HTTP/1.0\r\n\r\n");
        let expected = expected
            .replace("HTTP/1.1", "HTTP/1.0")
            .replace("connection: close\r\n", "");
        assert_eq!(running.send(request.as_bytes()).await, expected, "{start}");
    }
}

/// T90
#[tokio::test]
async fn a_panic_in_any_handler_is_answered_in_the_same_words() {
    let mut ingress = RecordingIngress::new();
    ingress.readiness_panics = true;
    let running = RunningListener::with(bounds(), ingress).await;
    let failed = refused("500 Internal Server Error", r#"{"error":"internal"}"#);
    let event = running.send(&request("POST", "/in/panics")).await;
    assert_eq!(event, format!("{CONTINUE}{failed}"));
    assert_eq!(running.send(&request("GET", "/readyz")).await, failed);
    let head = failed.strip_suffix(r#"{"error":"internal"}"#).unwrap();
    assert_eq!(running.send(&request("HEAD", "/readyz")).await, head);
    assert_eq!(running.send(&request("GET", "/livez")).await, Alive.answer("GET"));
}

/// axum answers by itself if a handler rejects a request, or a route lacks a handler. No client reads such an answer.
#[test]
fn an_answer_of_the_router_itself_never_reaches_a_client() {
    for status in [200, 400, 404, 405, 413, 415] {
        let routed = StatusCode::from_u16(status).unwrap().into_response();
        let answer = Answer::of(routed);
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR, "{status}");
        assert_eq!(answer.headers()["connection"], "close", "{status}");
    }
    let answer = Answer::of(crate::server::http::answer::alive().into_response());
    assert_eq!(answer.status(), StatusCode::OK);
}
