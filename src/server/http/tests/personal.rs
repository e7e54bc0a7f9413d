//! Tests of the requests of people's machines: the whole answer to each.

use super::{RunningListener, TOKEN_REFUSED};

const JSON: &str =
    "cache-control: no-store\r\nx-content-type-options: nosniff\r\ncontent-type: application/json\r\n";

pub(super) fn answer(status: &str, lines: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{JSON}{lines}connection: close\r\ncontent-length: {length}\r\n\r\n{body}")
}

pub(super) async fn answered(start: &str, lines: &[&str], body: &str) -> String {
    let running = RunningListener::start().await;
    let mut request = format!("{start} HTTP/1.1\r\nhost: drydock\r\nconnection: close\r\n");
    for line in lines {
        request.push_str(&format!("{line}\r\n"));
    }
    if !body.is_empty() {
        request.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    request.push_str(&format!("\r\n{body}"));
    running.send(request.as_bytes()).await
}

#[tokio::test]
async fn a_login_is_answered_with_a_token_or_with_the_same_words() {
    let login = async |body: &str| answered("POST /api/login", &[], body).await;
    assert_eq!(
        login(r#"{"code":"right"}"#).await,
        answer("200 OK", "", r#"{"token":"right"}"#)
    );
    assert_eq!(login(r#"{"code":"wrong"}"#).await, TOKEN_REFUSED);
    assert_eq!(login(r#"{"code":""}"#).await, TOKEN_REFUSED);
    assert_eq!(
        login(r#"{"code":"flood"}"#).await,
        answer(
            "429 Too Many Requests",
            "retry-after: 7\r\n",
            r#"{"error":"too many attempts"}"#
        )
    );
    for body in [
        "{}",
        "right",
        r#"{"code":1}"#,
        r#"{"code":"right","more":1}"#,
        r#"["right"]"#,
    ] {
        let refused = login(body).await;
        assert!(
            refused.starts_with("HTTP/1.1 400 Bad Request\r\n"),
            "{body}: {refused}"
        );
    }
    let longest = format!(r#"{{"code":"{}"}}"#, "ü".repeat(200));
    assert_eq!(login(&longest).await, TOKEN_REFUSED);
    let long = format!(r#"{{"code":"{}"}}"#, "x".repeat(201));
    assert!(
        login(&long)
            .await
            .ends_with(r#"{"detail":"the code is too long","error":"malformed"}"#)
    );
    let large = format!(r#"{{"code":"{}"}}"#, "x".repeat(5_000));
    assert!(
        login(&large)
            .await
            .starts_with("HTTP/1.1 413 Payload Too Large\r\n")
    );
    let gone = answered("GET /api/login", &[], "").await;
    assert_eq!(
        gone,
        answer(
            "405 Method Not Allowed",
            "allow: POST\r\n",
            r#"{"error":"method not allowed"}"#
        )
    );
}

#[tokio::test]
async fn a_change_is_answered_for_its_token_only() {
    let right = "authorization: Bearer right";
    let change =
        async |name: &str, lines: &[&str]| answered(&format!("GET /api/changes/{name}"), lines, "").await;
    let not_found = answer("404 Not Found", "", r#"{"error":"not found"}"#);
    for name in ["1", "CHG-1"] {
        assert_eq!(
            change(name, &[right]).await,
            answer("200 OK", "", r#"{"change":1}"#)
        );
    }
    for name in ["4", "0", "x", "CHG-1%20rev%201", "1%31", ""] {
        assert_eq!(change(name, &[right]).await, not_found, "{name}");
    }
    assert_eq!(
        change("2", &[right]).await,
        answer("409 Conflict", "", r#"{"detail":"withheld","error":"refused"}"#)
    );
    assert_eq!(
        change("3", &[right]).await,
        answer(
            "503 Service Unavailable",
            "retry-after: 5\r\n",
            r#"{"error":"unavailable"}"#
        )
    );
    for lines in [
        &[][..],
        &["authorization: Bearer wrong"],
        &["authorization: right"],
        &[right, right],
    ] {
        for name in ["1", "2", "4"] {
            assert_eq!(change(name, lines).await, TOKEN_REFUSED, "{lines:?}");
        }
    }
}

#[tokio::test]
async fn a_logout_ends_the_login_of_its_token() {
    let logout = async |lines: &[&str]| answered("POST /api/logout", lines, "").await;
    let ended = logout(&["authorization: Bearer right"]).await;
    assert!(ended.starts_with("HTTP/1.1 200 OK\r\n"), "{ended}");
    assert_eq!(logout(&["authorization: Bearer wrong"]).await, TOKEN_REFUSED);
    assert_eq!(logout(&[]).await, TOKEN_REFUSED);
}
