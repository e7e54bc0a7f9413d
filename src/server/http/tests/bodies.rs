//! Tests of when a body is read: before the name of a hook is looked up, and for no other answer.

use super::routing::Expected::{Alive, GetOnly, NotFound, PostOnly, Ready};
use super::routing::{CONTINUE, refused, request};
use super::{RunningListener, UNAUTHENTICATED, rest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const TOO_LARGE: &str = r#"{"error":"too large"}"#;
const ENCODED: &str = r#"{"detail":"no content encoding is accepted","error":"unsupported"}"#;

/// A sender does not learn from the time of its answer whether a name exists.
#[tokio::test]
async fn a_name_is_looked_up_only_after_the_last_byte_of_the_body() {
    for name in ["github", "nobody", "", "github/x"] {
        let running = RunningListener::start().await;
        let whole = request("POST", &format!("/in/{name}"));
        let mut stream = running.connect().await;
        stream
            .write_all(whole.get(..whole.len() - 1).unwrap())
            .await
            .unwrap();
        let mut continues = vec![0; CONTINUE.len()];
        stream.read_exact(&mut continues).await.unwrap();
        assert_eq!(String::from_utf8(continues).unwrap(), CONTINUE);
        assert_eq!(*running.ingress.looked_up.lock().unwrap(), Vec::<String>::new());
        stream
            .write_all(whole.get(whole.len() - 1..).unwrap())
            .await
            .unwrap();
        let answer = rest(&mut stream).await;
        let expected = if name == "github" {
            "HTTP/1.1 200 "
        } else {
            UNAUTHENTICATED
        };
        assert!(answer.starts_with(expected), "{name}: {answer}");
        assert_eq!(*running.ingress.looked_up.lock().unwrap(), [name]);
    }
}

/// T91: the head of a request is enough for these answers; the body that it announces is never sent.
#[tokio::test]
async fn an_answer_that_needs_no_body_does_not_wait_for_it() {
    for (start, line, expected) in [
        ("POST /nothing", "content-length: 10", NotFound.answer("POST")),
        ("POST /healthz", "content-length: 10", GetOnly.answer("POST")),
        ("GET /healthz", "content-length: 10", Alive.answer("GET")),
        ("GET /readyz", "transfer-encoding: chunked", Ready.answer("GET")),
        ("PUT /in/github", "content-length: 10", PostOnly.answer("PUT")),
        (
            "BREW /in/nobody",
            "transfer-encoding: chunked",
            PostOnly.answer("BREW"),
        ),
        (
            "POST /in/github",
            "content-length: 4097",
            refused("413 Payload Too Large", TOO_LARGE),
        ),
        (
            "POST /in/nobody",
            "content-length: 4097",
            refused("413 Payload Too Large", TOO_LARGE),
        ),
        (
            "POST /in/",
            "content-length: 4097",
            refused("413 Payload Too Large", TOO_LARGE),
        ),
        (
            "POST /in/github",
            "content-length: 10\r\ncontent-encoding: gzip",
            refused("415 Unsupported Media Type", ENCODED),
        ),
        (
            "POST /in/a/b",
            "content-length: 10\r\ncontent-encoding: gzip",
            refused("415 Unsupported Media Type", ENCODED),
        ),
    ] {
        let running = RunningListener::start().await;
        let head = format!("{start} HTTP/1.1\r\nhost: d\r\nconnection: close\r\n{line}\r\n\r\n");
        assert_eq!(running.send(head.as_bytes()).await, expected, "{start}");
        assert_eq!(*running.ingress.looked_up.lock().unwrap(), Vec::<String>::new());
    }
}

/// A body that no handler read is neither the next request nor a reason to end the connection.
#[tokio::test]
async fn the_next_request_on_a_connection_is_the_one_after_the_body() {
    let running = RunningListener::start().await;
    let mut requests = String::new();
    for start in [
        "POST /nothing",
        "POST /healthz",
        "GET /in/github",
        "POST /in/nobody",
        "GET /livez",
    ] {
        let body = "GET /readyz HTTP/1.1\r\n\r\n";
        let length = body.len();
        requests.push_str(&format!(
            "{start} HTTP/1.1\r\nhost: d\r\ncontent-length: {length}\r\n\r\n{body}"
        ));
    }
    requests.push_str("HEAD /healthz HTTP/1.1\r\nhost: d\r\nconnection: close\r\n\r\n");
    let expected = [
        NotFound.answer("POST"),
        GetOnly.answer("POST"),
        PostOnly.answer("GET"),
        UNAUTHENTICATED.to_owned(),
        Alive.answer("GET"),
    ]
    .concat()
    .replace("connection: close\r\n", "");
    assert_eq!(
        running.send(requests.as_bytes()).await,
        expected + &Alive.answer("HEAD")
    );
}
