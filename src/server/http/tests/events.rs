//! Tests of authentic events: their decoding and their answers.

use super::{
    NOW, RecordingIngress, RunningListener, SECRET, UNAUTHENTICATED, bounds, generic_headers, github_headers,
    hmac_hex, without_dates,
};
use crate::base::model::{Account, ChatPlace, Inbound, InboundKind, Platform, Sender};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

fn content_identity(body: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(body)))
}

fn head(answer: &str) -> &str {
    answer.lines().next().unwrap_or_default()
}

fn hook_inbound(name: &str, deliveries: &[&str], event: &str, fields: &[(&str, &str)]) -> Inbound {
    let fields: BTreeMap<_, _> = fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Inbound {
        channel: name.to_owned(),
        delivery: deliveries
            .iter()
            .map(|delivery| format!("hook:{name}:{delivery}"))
            .collect(),
        sender: Sender {
            platform: Platform::Hook,
            account: name.to_owned(),
            id: name.to_owned(),
        },
        place: ChatPlace {
            account: Account {
                platform: Platform::Hook,
                id: name.to_owned(),
            },
            chat: "C0OPS".to_owned(),
            thread: deliveries.first().map(|delivery| (*delivery).to_owned()),
        },
        direct: false,
        message: None,
        kind: InboundKind::Hook {
            event: event.to_owned(),
            fields,
            payload: None,
        },
        files: Vec::new(),
        about: None,
        response_url: None,
    }
}

#[tokio::test]
async fn a_release_becomes_one_inbound_of_the_hook_and_a_redelivery_none() {
    let running = RunningListener::start().await;
    let body = format!(
        r#"{{"action":"published","repository":{{"full_name":"acme/api"}},"release":{{"tag_name":"v1.2.3",
           "draft":false,"id":7,"author":{{"login":"eve"}},"body":"{}"}}}}"#,
        "ä".repeat(1_500)
    );
    let headers = github_headers("release", "72d3162e-cc78-11e3-81ab-4c9367dc0958", body.as_bytes());
    let answer = running.post("/in/github", &headers, body.as_bytes()).await;
    assert_eq!(head(&answer), "HTTP/1.1 200 OK");
    assert!(answer.ends_with("\r\n\r\n"), "no body: {answer}");
    let again = running.post("/in/github", &headers, body.as_bytes()).await;
    assert!(again.ends_with("\r\n\r\n{\"duplicate\":true}"), "{again}");
    assert_eq!(
        *running.ingress.accepted.lock().unwrap(),
        [hook_inbound(
            "github",
            &[
                "72d3162e-cc78-11e3-81ab-4c9367dc0958",
                &content_identity(body.as_bytes())
            ],
            "release.published",
            &[
                ("tag", "v1.2.3"),
                ("notes", &"ä".repeat(1_000)),
                ("draft", "false"),
                ("number", "7")
            ],
        )]
    );
}

/// T15, CI-27: the delivery id is not signed, so a captured body stays the same event under another id.
#[tokio::test]
async fn a_captured_body_under_a_new_delivery_id_is_a_duplicate() {
    let running = RunningListener::start().await;
    let body = br#"{"action":"published","repository":{"full_name":"acme/api"}}"#;
    let first = running
        .post("/in/github", &github_headers("release", "d-1", body), body)
        .await;
    assert!(
        first.starts_with("HTTP/1.1 200 ") && first.ends_with("\r\n\r\n"),
        "{first}"
    );
    let replayed = running
        .post("/in/github", &github_headers("release", "d-2", body), body)
        .await;
    assert!(replayed.ends_with("\r\n\r\n{\"duplicate\":true}"), "{replayed}");
}

/// T23
#[tokio::test]
async fn authentic_events_that_are_not_for_us_are_acknowledged_and_forgotten() {
    let running = RunningListener::start().await;
    for (event, body) in [
        ("ping", r#"{"zen":"Design for failure."}"#),
        ("push", r#"{"repository":{"full_name":"acme/api"}}"#),
        ("release", r#"{"repository":{"full_name":"evil/fork"}}"#),
        ("release", r#"{"repository":{"full_name":["acme/api"]}}"#),
        ("release", r#"{"repository":{"full_name":"ACME/api"}}"#),
        ("release", "{}"),
    ] {
        let headers = github_headers(event, "d-1", body.as_bytes());
        let answer = running.post("/in/github", &headers, body.as_bytes()).await;
        assert_eq!(head(&answer), "HTTP/1.1 200 OK", "{body}");
    }
    let github = "github".to_owned();
    let mut expected = vec![(github.clone(), "hook.ping")];
    expected.resize(6, (github, "hook.not_allowed"));
    assert_eq!(*running.ingress.ignored.lock().unwrap(), expected);
    assert_eq!(*running.ingress.accepted.lock().unwrap(), []);
    assert_eq!(*running.ingress.rejected.lock().unwrap(), []);
}

/// T12: a request with a valid signature is recorded as authentic, whatever happens to it afterwards.
#[tokio::test]
async fn every_request_signed_with_the_right_secret_is_recorded_as_authentic() {
    let running = RunningListener::start().await;
    let signed = |body: &[u8]| github_headers("release", "d-1", body);
    let forged = signed(b"another body");
    let mut unsupported = signed(b"{}");
    unsupported.push("content-type: text/plain".to_owned());
    for (path, headers, body, status, is_authentic) in [
        ("/in/github", signed(b"{}"), "{}", "200 OK", true),
        ("/in/github", signed(b"{"), "{", "400 Bad Request", true),
        (
            "/in/github",
            unsupported,
            "{}",
            "415 Unsupported Media Type",
            true,
        ),
        ("/in/answers", Vec::new(), "{}", "200 OK", true),
        (
            "/in/connecting",
            signed(b"{}"),
            "{}",
            "503 Service Unavailable",
            true,
        ),
        (
            "/in/connecting",
            signed(b"{"),
            "{",
            "503 Service Unavailable",
            true,
        ),
        ("/in/github", forged.clone(), "{}", "401 Unauthorized", false),
        ("/in/connecting", forged, "{}", "401 Unauthorized", false),
        ("/in/nobody", signed(b"{}"), "{}", "401 Unauthorized", false),
        (
            "/in/generic",
            generic_headers("evt-1", NOW - 301, b"{}"),
            "{}",
            "401 Unauthorized",
            false,
        ),
    ] {
        running.ingress.authentic.lock().unwrap().clear();
        let answer = running.post(path, &headers, body.as_bytes()).await;
        assert_eq!(head(&answer), format!("HTTP/1.1 {status}"), "{path} {body}");
        let noted = running.ingress.authentic.lock().unwrap().clone();
        let name = path.trim_start_matches("/in/").to_owned();
        let expected = if is_authentic { vec![name] } else { Vec::new() };
        assert_eq!(noted, expected, "{path} {body}");
    }
}

#[tokio::test]
async fn a_generic_event_is_named_by_its_signed_id() {
    let running = RunningListener::start().await;
    let body = br#"{"event":"deploy","repository":{"full_name":"acme/api"},"release":{"tag_name":"v2"}}"#;
    let answer = running
        .post("/in/generic", &generic_headers("evt-1", NOW, body), body)
        .await;
    assert_eq!(head(&answer), "HTTP/1.1 200 OK");
    assert_eq!(
        *running.ingress.accepted.lock().unwrap(),
        [hook_inbound("generic", &["evt-1"], "deploy", &[("tag", "v2")])]
    );
}

/// T18, CI-25
#[tokio::test]
async fn a_body_only_event_counts_once_whatever_its_unsigned_headers_say() {
    let running = RunningListener::start().await;
    let body = br#"{"event":"deploy","repository":{"full_name":"acme/api"}}"#;
    let signature = format!("x-webhook-signature: {}", hmac_hex(SECRET, body));
    let first = running
        .post(
            "/in/body",
            &[signature.clone(), "idempotency-key: a".to_owned()],
            body,
        )
        .await;
    assert_eq!(head(&first), "HTTP/1.1 200 OK");
    let second = running
        .post("/in/body", &[signature, "idempotency-key: b".to_owned()], body)
        .await;
    assert!(
        second.starts_with("HTTP/1.1 200 ") && second.ends_with("{\"duplicate\":true}"),
        "{second}"
    );
    let delivery = "sha256:27dc6a04d1240287619b81cee1a8448ae4ee2c4894103a531962d54f2f2c7b4a";
    assert_eq!(
        *running.ingress.accepted.lock().unwrap(),
        [hook_inbound("body", &[delivery], "deploy", &[])]
    );
}

#[tokio::test]
async fn a_chunked_event_is_an_event() {
    let running = RunningListener::start().await;
    let body = br#"{"action":"published","repository":{"full_name":"acme/api"}}"#;
    let mut request =
        b"POST /in/github HTTP/1.1\r\nhost: d\r\nconnection: close\r\ntransfer-encoding: chunked\r\n"
            .to_vec();
    request.extend_from_slice(b"content-type: application/json; charset=utf-8\r\n");
    for line in github_headers("release", "d-1", body) {
        request.extend_from_slice(format!("{line}\r\n").as_bytes());
    }
    request.extend_from_slice(b"\r\n");
    for piece in body.chunks(7) {
        request.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        request.extend_from_slice(piece);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    assert_eq!(head(&running.send(&request).await), "HTTP/1.1 200 OK");
    assert_eq!(
        *running.ingress.accepted.lock().unwrap(),
        [hook_inbound(
            "github",
            &["d-1", &content_identity(body)],
            "release.published",
            &[]
        )]
    );
}

/// T17
#[tokio::test]
async fn only_plain_json_is_read() {
    let running = RunningListener::start().await;
    let body = br#"{"repository":{"full_name":"acme/api"}}"#;
    let headers = github_headers("release", "d-1", body);
    for line in [
        "content-encoding: gzip",
        "content-type: multipart/form-data; boundary=x",
        "content-type:",
    ] {
        let headers = [headers.clone(), vec![line.to_owned()]].concat();
        let answer = running.post("/in/github", &headers, body).await;
        assert_eq!(head(&answer), "HTTP/1.1 415 Unsupported Media Type", "{line}");
    }
    let deep = "[".repeat(2_000);
    for body in [
        "not json",
        "[]",
        "\"text\"",
        "{",
        "{\"a\":\"\u{0}\"}",
        &format!("{{\"a\":{deep}"),
    ] {
        let headers = github_headers("release", "d-1", body.as_bytes());
        let answer = running.post("/in/github", &headers, body.as_bytes()).await;
        assert_eq!(head(&answer), "HTTP/1.1 400 Bad Request", "{body}");
        assert!(answer.contains("{\"detail\":\"the body is not "), "{answer}");
    }
    let answer = running
        .post("/in/github", &github_headers("release", "a b", body), body)
        .await;
    assert_eq!(head(&answer), "HTTP/1.1 400 Bad Request");
    // All requests had a valid signature.
    assert_eq!(*running.ingress.unauthenticated.lock().unwrap(), []);
    assert_eq!(*running.ingress.accepted.lock().unwrap(), []);
}

/// P1
#[tokio::test]
async fn an_event_that_could_not_be_stored_is_answered_503_with_retry_after() {
    let mut ingress = RecordingIngress::new();
    ingress.down = true;
    let running = RunningListener::with(bounds(), ingress).await;
    let body = br#"{"repository":{"full_name":"acme/api"}}"#;
    let answer = running
        .post("/in/github", &github_headers("release", "d-1", body), body)
        .await;
    assert_eq!(head(&answer), "HTTP/1.1 503 Service Unavailable");
    assert!(answer.contains("\r\nretry-after: 5\r\n"), "{answer}");
}

/// P1, T12: signed requests are answered with "retry"; for other senders the channel seems not to exist.
#[tokio::test]
async fn a_channel_that_connects_is_seen_by_its_platform_alone() {
    let running = RunningListener::start().await;
    let body = br#"{"repository":{"full_name":"acme/api"}}"#;
    let headers = github_headers("release", "d-1", body);
    let answer = running.post("/in/connecting", &headers, body).await;
    assert_eq!(head(&answer), "HTTP/1.1 503 Service Unavailable");
    assert_eq!(*running.ingress.accepted.lock().unwrap(), []);
    let forged = running.post("/in/connecting", &headers, b"{}").await;
    let unsigned = running.post("/in/connecting", &[], b"{}").await;
    let unknown = running.post("/in/nobody", &headers, body).await;
    for answer in [forged, unsigned, unknown] {
        assert_eq!(without_dates(&answer), UNAUTHENTICATED);
    }
}

/// T21
#[tokio::test]
async fn an_answer_is_never_markup() {
    let running = RunningListener::start().await;
    let answer = running.post("/in/answers", &[], b"{}").await;
    assert!(
        answer.contains("\r\ncontent-type: text/plain; charset=utf-8\r\n"),
        "{answer}"
    );
    assert!(
        answer.contains("\r\nx-content-type-options: nosniff\r\n"),
        "{answer}"
    );
    assert!(answer.ends_with("\r\n\r\n<script>alert(1)</script>"), "{answer}");
}

/// T90
#[tokio::test]
async fn a_panic_is_one_failed_request_and_nothing_else() {
    let running = RunningListener::start().await;
    let answer = running.post("/in/panics", &[], b"{}").await;
    assert_eq!(head(&answer), "HTTP/1.1 500 Internal Server Error");
    assert!(answer.ends_with("\r\n\r\n{\"error\":\"internal\"}"), "{answer}");
    let body = br#"{"repository":{"full_name":"acme/api"}}"#;
    let next = running
        .post("/in/github", &github_headers("release", "d-1", body), body)
        .await;
    assert_eq!(head(&next), "HTTP/1.1 200 OK");
}
