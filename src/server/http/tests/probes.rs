//! Tests of the probes and of unknown routes.

use super::{RecordingIngress, RunningListener, bounds};

const PLAIN: &str = "cache-control: no-store\r\nx-content-type-options: nosniff\r\n\
     content-type: application/json\r\n";

async fn get(running: &RunningListener, method: &str, path: &str) -> String {
    let request = format!("{method} {path} HTTP/1.1\r\nhost: drydock\r\nconnection: close\r\n\r\n");
    running.send(request.as_bytes()).await
}

#[tokio::test]
async fn a_living_process_says_so() {
    let running = RunningListener::start().await;
    let alive = format!(
        "HTTP/1.1 200 OK\r\n{PLAIN}connection: close\r\ncontent-length: 14\r\n\r\n{{\"alive\":true}}"
    );
    assert_eq!(get(&running, "GET", "/healthz").await, alive);
    assert_eq!(get(&running, "GET", "/livez").await, alive);
    assert_eq!(
        get(&running, "GET", "/readyz").await,
        format!(
            "HTTP/1.1 200 OK\r\n{PLAIN}connection: close\r\ncontent-length: 14\r\n\r\n{{\"ready\":true}}"
        )
    );
}

/// R20, R36
#[tokio::test]
async fn a_process_that_works_says_what_does_not_work_as_it_should() {
    let mut ingress = RecordingIngress::new();
    ingress.degraded = vec!["mirror infra: it cannot be fetched".to_owned()];
    let running = RunningListener::with(bounds(), ingress).await;
    let answer = get(&running, "GET", "/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let body = r#"{"degraded":["mirror infra: it cannot be fetched"],"ready":true}"#;
    assert!(answer.ends_with(body), "{answer}");
}

#[tokio::test]
async fn a_process_that_cannot_work_yet_says_what_it_waits_for() {
    let mut ingress = RecordingIngress::new();
    ingress.waiting_for = vec!["channel slack".to_owned()];
    let running = RunningListener::with(bounds(), ingress).await;
    let body = r#"{"ready":false,"waiting_for":["channel slack"]}"#;
    assert_eq!(
        get(&running, "GET", "/readyz").await,
        format!(
            "HTTP/1.1 503 Service Unavailable\r\n{PLAIN}connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    );
    assert!(
        get(&running, "GET", "/healthz")
            .await
            .starts_with("HTTP/1.1 200 ")
    );
}

#[tokio::test]
async fn what_is_no_route_is_not_found_and_a_wrong_method_says_the_right_one() {
    let running = RunningListener::start().await;
    for path in [
        "/",
        "/in",
        "/IN/github",
        "/metrics",
        "/healthz/",
        "/../etc/passwd",
        "/in%2fgithub",
    ] {
        let answer = get(&running, "GET", path).await;
        assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
        assert!(
            answer.ends_with("\r\n\r\n{\"error\":\"not found\"}"),
            "{path}: {answer}"
        );
    }
    let answer = get(&running, "GET", "/in/github").await;
    assert!(
        answer.starts_with("HTTP/1.1 405 ") && answer.contains("\r\nallow: POST\r\n"),
        "{answer}"
    );
    assert_eq!(answer, get(&running, "GET", "/in/nobody").await.as_str());
    let answer = get(&running, "DELETE", "/readyz").await;
    assert!(
        answer.starts_with("HTTP/1.1 405 ") && answer.contains("\r\nallow: GET, HEAD\r\n"),
        "{answer}"
    );
}
