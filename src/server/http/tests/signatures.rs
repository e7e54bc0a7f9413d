//! Tests of forged and replayed requests: all of them get the same answer.

use super::{NOW, RunningListener, SECRET, UNAUTHENTICATED, generic_headers, github_headers, hmac_hex};
use crate::base::webhook::{HookScheme, signature_headers};
use jiff::Timestamp;
use std::io::Write;
use std::sync::{Arc, Mutex};

const BODY: &[u8] = br#"{"action":"published","repository":{"full_name":"acme/api"}}"#;

fn github(signature_lines: &[&str]) -> Vec<String> {
    let mut headers = vec![
        "x-github-event: release".to_owned(),
        "x-github-delivery: d-1".to_owned(),
    ];
    headers.extend(signature_lines.iter().map(|line| (*line).to_owned()));
    headers
}

/// Returns the header lines of an authentic request of a scheme.
fn authentic(scheme: HookScheme, secret: &str) -> Vec<String> {
    let at = Timestamp::from_second(NOW).unwrap();
    let headers = (scheme.definition().sign)(secret, BODY, at);
    let lines = headers.iter().map(|(name, value)| format!("{name}: {value}"));
    lines.collect()
}

/// Sends each request and checks that it gets the common answer and the expected audit reason.
async fn refused(path: &str, cases: Vec<(Vec<String>, &'static str)>) {
    let running = RunningListener::start().await;
    for (headers, reason) in cases {
        assert_eq!(
            running.post(path, &headers, BODY).await,
            UNAUTHENTICATED,
            "{headers:?}"
        );
        let heard = running.ingress.rejected.lock().unwrap().pop();
        assert_eq!(heard.map(|(_, reason)| reason), Some(reason), "{headers:?}");
    }
    assert_eq!(*running.ingress.accepted.lock().unwrap(), []);
    assert_eq!(*running.ingress.ignored.lock().unwrap(), []);
}

/// T10, T11, T12
#[tokio::test]
async fn every_unauthenticated_github_request_reads_the_same() {
    let valid = format!("x-hub-signature-256: sha256={}", hmac_hex(SECRET, BODY));
    let wrong = format!("x-hub-signature-256: sha256={}", hmac_hex("another", BODY));
    let generic = format!("x-webhook-signature: {}", hmac_hex(SECRET, BODY));
    let sha1 = "x-hub-signature: sha1=0123456789012345678901234567890123456789";
    let missing = "a signature header is missing";
    let repeated = "a signature header is repeated";
    refused(
        "/in/github",
        vec![
            (vec![], missing),
            (github(&[]), missing),
            (github(&[sha1]), missing),
            (github(&[&wrong]), "hook.forged"),
            (github(&[&valid, &wrong]), repeated),
            (github(&[&wrong, &valid]), repeated),
            (github(&[&valid, &valid]), repeated),
            (github(&[&valid, "x-github-delivery: d-2"]), repeated),
            (github(&[&valid, "x-github-event: push"]), repeated),
            (vec![valid.clone()], missing),
            (github(&[&generic]), "hook.mixed"),
            (github(&[&valid, &generic]), "hook.mixed"),
            (github(&[&generic, &valid]), "hook.mixed"),
            (github(&[&valid, "x-slack-signature: v0=00"]), "hook.mixed"),
            (
                github(&[&valid, "x-telegram-bot-api-secret-token: a"]),
                "hook.mixed",
            ),
        ],
    )
    .await;
}

/// T10, T11, T12: a new scheme is included automatically.
#[tokio::test]
async fn every_scheme_refuses_what_it_did_not_sign_with_the_same_answer() {
    for scheme in HookScheme::ALL {
        let definition = scheme.definition();
        let path = format!("/in/{}", definition.word);
        let valid = authentic(*scheme, SECRET);
        let running = RunningListener::start().await;
        let answer = running.post(&path, &valid, BODY).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");

        let missing = "a signature header is missing";
        let mut cases = vec![(vec![], missing), (authentic(*scheme, "another"), "hook.forged")];
        for position in 0..valid.len() {
            let mut without = valid.clone();
            let removed = without.remove(position);
            cases.push((without, missing));
            let twice = [valid.clone(), vec![removed]].concat();
            cases.push((twice, "a signature header is repeated"));
        }
        for header in signature_headers() {
            if !definition.signature_headers.contains(&header) {
                let mixed = [valid.clone(), vec![format!("{header}: 00")]].concat();
                cases.push((mixed, "hook.mixed"));
            }
        }
        refused(&path, cases).await;
    }
}

/// T10
#[tokio::test]
async fn a_name_nobody_configured_reads_like_a_wrong_signature() {
    let running = RunningListener::start().await;
    for path in [
        "/in/nobody",
        "/in/",
        "/in/github/x",
        "/in/GITHUB",
        "/in/github%00",
        "/in/../in/github",
    ] {
        assert_eq!(
            running
                .post(path, &github_headers("release", "d-1", BODY), BODY)
                .await,
            UNAUTHENTICATED,
            "{path}"
        );
        let heard = running.ingress.rejected.lock().unwrap().pop();
        assert_eq!(heard, Some(("?".to_owned(), "hook.unknown")));
    }
}

/// T11: the SHA-1 header that GitHub sends in addition is ignored.
#[tokio::test]
async fn the_old_header_beside_the_real_one_changes_nothing() {
    let running = RunningListener::start().await;
    let headers = [
        github_headers("release", "d-1", BODY),
        vec!["x-hub-signature: sha1=00".to_owned()],
    ]
    .concat();
    assert!(
        running
            .post("/in/github", &headers, BODY)
            .await
            .starts_with("HTTP/1.1 200 ")
    );
}

/// T11, T12, T16, CI-28, CI-25
#[tokio::test]
async fn every_unauthenticated_generic_request_reads_the_same() {
    let valid = generic_headers("evt-1", NOW, BODY);
    let with = |position: usize, line: &str| {
        let mut headers = valid.clone();
        headers[position] = line.to_owned();
        headers
    };
    let without = |position: usize| {
        let mut headers = valid.clone();
        headers.remove(position);
        headers
    };
    let github = format!("x-hub-signature-256: sha256={}", hmac_hex(SECRET, BODY));
    let body_only = format!("x-webhook-signature: {}", hmac_hex(SECRET, BODY));
    let mut forged_and_stale = generic_headers("evt-1", NOW - 301, BODY);
    forged_and_stale[2] = format!("x-webhook-signature: {}", "0".repeat(64));
    refused(
        "/in/generic",
        vec![
            (without(0), "a signature header is missing"),
            (without(1), "a signature header is missing"),
            (without(2), "a signature header is missing"),
            (with(0, "x-webhook-id: evt-2"), "hook.forged"),
            (
                with(1, &format!("x-webhook-timestamp: {}", NOW + 1)),
                "hook.forged",
            ),
            (with(2, &body_only), "hook.forged"),
            (vec![github.clone()], "hook.mixed"),
            ([valid.clone(), vec![github]].concat(), "hook.mixed"),
            (
                [valid.clone(), vec![body_only]].concat(),
                "a signature header is repeated",
            ),
            (generic_headers("evt-1", NOW - 301, BODY), "hook.stale"),
            (generic_headers("evt-1", NOW + 301, BODY), "hook.stale"),
            (forged_and_stale, "hook.forged"),
        ],
    )
    .await;
    let running = RunningListener::start().await;
    for (id, seconds) in [("evt-1", NOW - 300), ("evt-2", NOW + 300)] {
        let body = br#"{"event":"deploy","repository":{"full_name":"acme/api"}}"#;
        let answer = running
            .post("/in/generic", &generic_headers(id, seconds, body), body)
            .await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    assert_eq!(running.ingress.accepted.lock().unwrap().len(), 2);
    // A clock difference is recorded only for requests with a valid signature.
    let late = generic_headers("evt-3", NOW - 7_200, BODY);
    let mut forged = late.clone();
    forged[2] = format!("x-webhook-signature: {}", "0".repeat(64));
    for headers in [late, forged] {
        assert_eq!(running.post("/in/generic", &headers, BODY).await, UNAUTHENTICATED);
    }
    assert_eq!(
        *running.ingress.stale.lock().unwrap(),
        [("generic".to_owned(), -7_200)]
    );
}

/// T13
#[tokio::test]
async fn forty_malformed_signatures_read_the_same() {
    let right = hmac_hex(SECRET, BODY);
    let upper = right.to_uppercase();
    let cut = |count: usize| right.chars().take(count).collect::<String>();
    let mut values: Vec<String> = [
        "",
        "=",
        "sha256",
        "sha256=",
        "sha256==",
        "null",
        "undefined",
        "0",
        "true",
        "sha256=null",
        "sha256= ",
        "v0=",
        "sha1=",
        "sha512=",
        "Bearer",
        "*",
        "sha256=*",
        "sha256=\"\"",
        "sha256=%00",
        "{}",
    ]
    .map(str::to_owned)
    .to_vec();
    values.extend([
        right.clone(),
        format!("SHA256={right}"),
        format!("Sha256={right}"),
        format!("sha256:{right}"),
        format!("sha256 ={right}"),
        format!("sha256= {right}"),
        format!("sha256=={right}"),
        format!("sha256=0x{right}"),
        format!("sha256={}", cut(63)),
        format!("sha256={}", cut(62)),
        format!("sha256={}g", cut(63)),
        format!("sha256={right}0"),
        format!("sha256={right}00"),
        format!("sha256={right},sha256={right}"),
        format!("sha256={right};"),
        format!("sha256=\"{right}\""),
        format!("sha1={right}"),
        format!("v0={right}"),
        format!("sha256={}", "0".repeat(64)),
        format!("sha256={}", upper.repeat(100)),
    ]);
    assert_eq!(values.len(), 40);
    let running = RunningListener::start().await;
    let mut count = 0;
    for scheme in HookScheme::ALL {
        let definition = scheme.definition();
        let valid = authentic(*scheme, SECRET);
        for value in &values {
            let mut headers = valid.clone();
            let mut lines = headers.iter_mut();
            let signature = lines
                .find(|line| line.starts_with(definition.signature_headers[0]))
                .unwrap();
            let malformed = format!("{}: {value}", definition.signature_headers[0]);
            // The signature of one scheme may be malformed in another.
            if *signature == malformed {
                continue;
            }
            *signature = malformed;
            let path = format!("/in/{}", definition.word);
            assert_eq!(
                running.post(&path, &headers, BODY).await,
                UNAUTHENTICATED,
                "{path}: {value}"
            );
            count += 1;
        }
    }
    assert!(count >= 39 * HookScheme::ALL.len(), "{count}");
    assert_eq!(running.ingress.rejected.lock().unwrap().len(), count);
    assert_eq!(running.ingress.unauthenticated.lock().unwrap().len(), count);
    assert_eq!(*running.ingress.accepted.lock().unwrap(), []);
}

/// T13: a signature of a megabyte is refused at the parser's bound, before it is read completely.
#[tokio::test]
async fn a_megabyte_of_signature_is_not_read() {
    let running = RunningListener::start().await;
    let mut stream = running.connect().await;
    let request = [
        b"POST /in/github HTTP/1.1\r\nhost: d\r\nx-hub-signature-256: sha256=".to_vec(),
        vec![b'a'; 1 << 20],
        b"\r\n\r\n".to_vec(),
    ]
    .concat();
    let (mut reading, mut writing) = stream.split();
    let (_cut_off, read) = tokio::join!(
        tokio::io::AsyncWriteExt::write_all(&mut writing, &request),
        async {
            let mut head = [0; 12];
            tokio::io::AsyncReadExt::read_exact(&mut reading, &mut head)
                .await
                .map(|_| head)
        }
    );
    // The connection may end with a reset; if there is an answer, it is the parser's.
    assert!(read.is_err() || read.is_ok_and(|head| &head == b"HTTP/1.1 431"));
    assert_eq!(*running.ingress.accepted.lock().unwrap(), []);
}

/// T17
#[tokio::test]
async fn a_body_changed_after_signing_is_refused() {
    let running = RunningListener::start().await;
    let headers = github_headers("release", "d-1", BODY);
    for position in [0, BODY.len() / 2, BODY.len() - 1] {
        let mut body = BODY.to_vec();
        body[position] ^= 1;
        assert_eq!(running.post("/in/github", &headers, &body).await, UNAUTHENTICATED);
    }
    let reencoded = String::from_utf8(BODY.to_vec()).unwrap().replace(':', ": ");
    assert_eq!(
        running.post("/in/github", &headers, reencoded.as_bytes()).await,
        UNAUTHENTICATED
    );
    assert_eq!(*running.ingress.accepted.lock().unwrap(), []);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// T20
#[tokio::test]
async fn the_right_signature_is_nowhere_to_be_read() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let running = RunningListener::start().await;
    let wrong = format!("x-hub-signature-256: sha256={}", "0".repeat(64));
    let answer = running.post("/in/github", &github(&[&wrong]), BODY).await;
    assert_eq!(answer, UNAUTHENTICATED);

    tracing::trace!("the last line of the log");
    let right = hmac_hex(SECRET, BODY);
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(
        logged.contains("drydock") || logged.contains("hyper"),
        "the log was captured"
    );
    assert!(!logged.contains(&right) && !logged.contains(SECRET));
    assert_eq!(
        *running.ingress.rejected.lock().unwrap(),
        [("github".to_owned(), "hook.forged")]
    );
}
