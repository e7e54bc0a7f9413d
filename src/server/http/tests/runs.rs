//! Tests of the requests of programs about runs: the whole answer to each.

use super::personal::{answer, answered};
use super::{RecordingIngress, TOKEN_REFUSED, now};
use crate::base::model::RunId;
use crate::engine::gateway::{FieldProblem, HandoverAnswer, RunFilter, RunStartRequest, RunWatch};
use crate::server::http::RunRequests;
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::json;

const RIGHT: &str = "authorization: Bearer right";
const NOT_FOUND: &str = r#"{"error":"not found"}"#;

/// Knows the token `right` and the run 1. The request to start a run says what its answer is.
#[async_trait]
impl RunRequests for RecordingIngress {
    async fn start_run(&self, token: &str, request: RunStartRequest, at: Timestamp) -> HandoverAnswer {
        assert_eq!((token, at), ("right", now()));
        match request.pipeline.as_str() {
            "new" => HandoverAnswer::Created {
                location: "/api/runs/1".to_owned(),
                document: json!({ "key": request.key, "params": request.params }).to_string(),
            },
            "again" => HandoverAnswer::Document(r#"{"id":1}"#.to_owned()),
            "many" => HandoverAnswer::TooMany {
                why: "too many".to_owned(),
                seconds: 30,
            },
            "wrong" => HandoverAnswer::Unprocessable {
                why: "wrong".to_owned(),
                problems: vec![FieldProblem {
                    field: "number".to_owned(),
                    problem: "is missing".to_owned(),
                }],
            },
            _ => HandoverAnswer::NotFound,
        }
    }

    async fn list_runs(&self, _token: &str, filter: RunFilter, _at: Timestamp) -> HandoverAnswer {
        HandoverAnswer::Document(json!({ "limit": filter.limit }).to_string())
    }

    async fn show_run(&self, _token: &str, id: RunId, _at: Timestamp) -> HandoverAnswer {
        match id.0 {
            1 => HandoverAnswer::Document(r#"{"id":1}"#.to_owned()),
            _ => HandoverAnswer::NotFound,
        }
    }

    async fn cancel_run(&self, _token: &str, _id: RunId, _at: Timestamp) -> HandoverAnswer {
        HandoverAnswer::Refused("it has ended".to_owned())
    }

    async fn retry_run(&self, _token: &str, id: RunId, key: Option<&str>, _at: Timestamp) -> HandoverAnswer {
        HandoverAnswer::Document(json!({ "id": id, "key": key }).to_string())
    }

    async fn watch_run(
        &self,
        _token: &str,
        _id: RunId,
        _at: Timestamp,
    ) -> Result<Box<RunWatch>, HandoverAnswer> {
        Err(HandoverAnswer::NotFound)
    }
}

async fn started(lines: &[&str], body: &str) -> String {
    answered("POST /api/runs", &[&[RIGHT][..], lines].concat(), body).await
}

#[tokio::test]
async fn a_run_is_started_by_a_body_of_its_form_and_a_key_of_its_form() {
    let body = r#"{"pipeline":"new","params":{"number":7}}"#;
    for (lines, key) in [(&[][..], "null"), (&["idempotency-key: one"][..], r#""one""#)] {
        let document = format!(r#"{{"key":{key},"params":{{"number":7}}}}"#);
        let expected = answer("201 Created", "location: /api/runs/1\r\n", &document);
        assert_eq!(started(lines, body).await, expected);
    }
    let again = started(&[], r#"{"pipeline":"again","repository":"infra"}"#).await;
    assert_eq!(again, answer("200 OK", "", r#"{"id":1}"#));
    let unknown = started(&[], r#"{"pipeline":"absent"}"#).await;
    assert_eq!(unknown, answer("404 Not Found", "", NOT_FOUND));
    let many = started(&[], r#"{"pipeline":"many"}"#).await;
    let why = r#"{"detail":"too many","error":"too many"}"#;
    assert_eq!(many, answer("429 Too Many Requests", "retry-after: 30\r\n", why));
    let wrong = started(&[], r#"{"pipeline":"wrong"}"#).await;
    let problems = r#"{"detail":"wrong","error":"unprocessable","problems":[{"field":"number","problem":"is missing"}]}"#;
    assert_eq!(wrong, answer("422 Unprocessable Entity", "", problems));
    for (lines, body) in [
        (&[][..], "{}"),
        (&[][..], r#"["new"]"#),
        (&[][..], r#"{"pipeline":1}"#),
        (&[][..], r#"{"pipeline":"new","more":1}"#),
        (&[][..], r#"{"pipeline":"new","params":[]}"#),
        (&["idempotency-key: two words"][..], body),
        (&["idempotency-key: one", "idempotency-key: one"][..], body),
    ] {
        let refused = started(lines, body).await;
        assert!(
            refused.starts_with("HTTP/1.1 400 Bad Request\r\n"),
            "{lines:?} {body}: {refused}"
        );
    }
    let large = format!(r#"{{"pipeline":"{}"}}"#, "x".repeat(5_000));
    let large = started(&[], &large).await;
    assert!(large.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{large}");
}

#[tokio::test]
async fn every_request_about_runs_needs_a_token_and_a_number_of_its_form() {
    for (start, expected) in [
        ("GET /api/runs/1", answer("200 OK", "", r#"{"id":1}"#)),
        ("GET /api/runs/2", answer("404 Not Found", "", NOT_FOUND)),
        ("GET /api/runs?limit=7", answer("200 OK", "", r#"{"limit":7}"#)),
        ("GET /api/runs/1/events", answer("404 Not Found", "", NOT_FOUND)),
        (
            "POST /api/runs/1/cancel",
            answer(
                "409 Conflict",
                "",
                r#"{"detail":"it has ended","error":"refused"}"#,
            ),
        ),
        (
            "POST /api/runs/1/retry",
            answer("200 OK", "", r#"{"id":1,"key":null}"#),
        ),
    ] {
        assert_eq!(answered(start, &[RIGHT], "").await, expected, "{start}");
        for lines in [&[][..], &["authorization: right"], &[RIGHT, RIGHT]] {
            assert_eq!(answered(start, lines, "").await, TOKEN_REFUSED, "{start}");
        }
    }
    for path in ["x", "-1", "1%31", "1/", "1/cancel/", "%31/events", "1/x"] {
        let found = answered(&format!("GET /api/runs/{path}"), &[RIGHT], "").await;
        assert_eq!(found, answer("404 Not Found", "", NOT_FOUND), "{path}");
    }
    let wrong = answered("GET /api/runs?limit=0", &[RIGHT], "").await;
    assert!(wrong.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{wrong}");
    for (start, allow) in [
        ("PUT /api/runs", "GET, HEAD, POST"),
        ("POST /api/runs/1", "GET, HEAD"),
        ("POST /api/runs/1/events", "GET, HEAD"),
        ("GET /api/runs/1/cancel", "POST"),
    ] {
        let expected = answer(
            "405 Method Not Allowed",
            &format!("allow: {allow}\r\n"),
            r#"{"error":"method not allowed"}"#,
        );
        assert_eq!(answered(start, &[RIGHT], "").await, expected, "{start}");
    }
}
