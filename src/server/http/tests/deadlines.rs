//! Tests of the costs that one address can cause: slow, many or large requests.

use super::{RecordingIngress, RunningListener, bounds, github_headers, post_request, rest, without_dates};
use crate::server::http::ServeSummary;
use crate::server::http::bounds::ListenerBounds;
use crate::server::http::deadline_stream::{DeadlineStream, Phase};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SOON: Duration = Duration::from_millis(60);

async fn running(change: impl FnOnce(&mut ListenerBounds)) -> RunningListener {
    let mut bounds = bounds();
    change(&mut bounds);
    RunningListener::with(bounds, RecordingIngress::new()).await
}

/// T91, R22
#[tokio::test]
async fn a_connection_that_says_nothing_is_cut() {
    let running = running(|bounds| bounds.header_time_max = SOON).await;
    assert_eq!(rest(&mut running.connect().await).await, "");
}

/// T91, R22
#[tokio::test]
async fn dripping_headers_do_not_move_the_deadline() {
    let running = running(|bounds| bounds.header_time_max = SOON).await;
    let mut stream = running.connect().await;
    let mut drops = tokio::time::interval(Duration::from_millis(5));
    stream
        .write_all(b"POST /in/github HTTP/1.1\r\nx: ")
        .await
        .unwrap();
    // Writes to a cut connection fail soon; without the cut, 20 s would allow 4,000 writes.
    for _drop in 0..4_000 {
        drops.tick().await;
        if stream.write_all(b"a").await.is_err() {
            return;
        }
    }
    panic!("the connection was never cut");
}

/// T91, R22
#[tokio::test]
async fn a_dripping_body_is_answered_408_and_cut() {
    let running = running(|bounds| bounds.body_time_max = SOON).await;
    let answer = running
        .send(b"POST /in/github HTTP/1.1\r\nhost: d\r\ncontent-length: 10\r\n\r\nabc")
        .await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\n{\"error\":\"too slow\"}"), "{answer}");
}

/// T91
#[tokio::test]
async fn an_idle_connection_is_cut_and_a_later_request_has_its_own_header_deadline() {
    let one = b"GET /livez HTTP/1.1\r\nhost: d\r\n\r\n";
    let idle = running(|bounds| bounds.idle_time_max = SOON).await;
    assert!(idle.send(one).await.ends_with("{\"alive\":true}"));

    let slow = running(|bounds| bounds.header_time_max = SOON).await;
    let mut stream = slow.connect().await;
    stream.write_all(one).await.unwrap();
    let mut answer = [0; 1_024];
    let read = stream.read(&mut answer).await.unwrap();
    assert!(String::from_utf8_lossy(answer.get(..read).unwrap()).ends_with("{\"alive\":true}"));
    stream.write_all(b"GET /livez HT").await.unwrap();
    assert_eq!(rest(&mut stream).await, "");
}

/// T91
#[tokio::test]
async fn one_address_has_a_bounded_number_of_connections() {
    let running = running(|bounds| bounds.connections_per_ip_max = 2).await;
    let first = running.connect().await;
    let _second = running.connect().await;
    let answer = rest(&mut running.connect().await).await;
    assert!(
        answer.starts_with("HTTP/1.1 429 ") && answer.contains("\r\nconnection: close\r\n"),
        "{answer}"
    );

    drop(first);
    let request = b"GET /livez HTTP/1.1\r\nhost: d\r\nconnection: close\r\n\r\n";
    let mut tries = tokio::time::interval(Duration::from_millis(5));
    for _try in 0..1_000 {
        tries.tick().await;
        let mut stream = running.connect().await;
        if stream.write_all(request).await.is_ok() && rest(&mut stream).await.ends_with("{\"alive\":true}") {
            return;
        }
    }
    panic!("the slot was never released");
}

/// T91
#[tokio::test]
async fn the_listener_has_a_bounded_number_of_connections() {
    let running = running(|bounds| bounds.connections_max = 1).await;
    let _first = running.connect().await;
    let answer = rest(&mut running.connect().await).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}

/// T91
#[tokio::test]
async fn a_large_body_is_refused_announced_or_not() {
    let running = RunningListener::start().await;
    let announced = running
        .send(b"POST /in/github HTTP/1.1\r\nhost: d\r\ncontent-length: 1073741824\r\n\r\n")
        .await;
    assert!(announced.starts_with("HTTP/1.1 413 "), "{announced}");
    assert!(
        announced.ends_with("\r\n\r\n{\"error\":\"too large\"}"),
        "{announced}"
    );

    let mut chunked = b"POST /in/github HTTP/1.1\r\nhost: d\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    chunked.extend_from_slice(b"1001\r\n");
    chunked.extend_from_slice(&[b' '; 4_097]);
    assert_eq!(running.send(&chunked).await, announced);
}

/// T91
#[tokio::test]
async fn large_headers_are_refused_by_the_parser() {
    let running = RunningListener::start().await;
    let many: Vec<String> = (0..100).map(|number| format!("x-{number}: a")).collect();
    let answer = running.post("/in/github", &many, b"{}").await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

/// T91
#[tokio::test]
async fn a_length_that_lies_is_never_an_event() {
    let running = RunningListener::start().await;
    let body = br#"{"action":"published"}"#;
    let headers = github_headers("release", "d-1", body);
    let whole = post_request("/in/github", &headers, body);

    let mut stream = running.connect().await;
    stream
        .write_all(whole.get(..whole.len() - 1).unwrap())
        .await
        .unwrap();
    stream.shutdown().await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");

    let twice = b"POST /in/github HTTP/1.1\r\nhost: d\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}";
    assert!(running.send(twice).await.starts_with("HTTP/1.1 400 "));
    assert_eq!(*running.ingress.accepted.lock().unwrap(), []);
}

/// P1
#[tokio::test]
async fn nothing_is_answered_before_the_event_is_durable_and_shutdown_waits_for_it() {
    let mut ingress = RecordingIngress::new();
    ingress.durable = tokio::sync::Semaphore::new(0);
    let mut running = RunningListener::with(bounds(), ingress).await;
    let body = br#"{"action":"published","repository":{"full_name":"acme/api"}}"#;
    let mut stream = running.connect().await;
    let request = post_request("/in/github", &github_headers("release", "d-1", body), body);
    stream.write_all(&request).await.unwrap();
    running.ingress.entered.acquire().await.unwrap().forget();
    assert_eq!(
        stream.try_read(&mut [0; 1]).map_err(|err| err.kind()),
        Err(std::io::ErrorKind::WouldBlock)
    );

    running.cancel.cancel();
    running.ingress.durable.add_permits(1);
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(
        (&mut running.served).await.unwrap(),
        ServeSummary { connections_cut: 0 }
    );
    assert!(tokio::net::TcpStream::connect(running.address).await.is_err());
}

/// P1: neither an unused connection nor an idle one between two requests delays a shutdown.
#[tokio::test]
async fn shutdown_does_not_wait_for_silent_connections() {
    let mut running = RunningListener::start().await;
    let mut unused = running.connect().await;
    let mut used = running.connect().await;
    used.write_all(b"GET /livez HTTP/1.1\r\nhost: d\r\n\r\n")
        .await
        .unwrap();
    let mut answer = [0; 1_024];
    assert!(used.read(&mut answer).await.unwrap() > 0);
    running.cancel.cancel();
    let served = tokio::time::timeout(Duration::from_secs(10), &mut running.served).await;
    assert_eq!(served.unwrap().unwrap(), ServeSummary { connections_cut: 0 });
    assert_eq!(
        (rest(&mut unused).await.as_str(), rest(&mut used).await.as_str()),
        ("", "")
    );
}

/// P1
#[tokio::test]
async fn shutdown_does_not_wait_for_ever() {
    let mut ingress = RecordingIngress::new();
    ingress.durable = tokio::sync::Semaphore::new(0);
    let mut running = RunningListener::with(
        ListenerBounds {
            drain_time_max: SOON,
            ..bounds()
        },
        ingress,
    )
    .await;
    let body = br#"{"action":"published","repository":{"full_name":"acme/api"}}"#;
    let mut stream = running.connect().await;
    let request = post_request("/in/github", &github_headers("release", "d-1", body), body);
    stream.write_all(&request).await.unwrap();
    running.ingress.entered.acquire().await.unwrap().forget();
    running.cancel.cancel();
    assert_eq!(
        (&mut running.served).await.unwrap(),
        ServeSummary { connections_cut: 1 }
    );
    assert_eq!(rest(&mut stream).await, "");
    assert_eq!(without_dates("date: x\r\na: b\r\n"), "a: b\r\n");
}

/// T91, R22
#[tokio::test(start_paused = true)]
async fn an_answer_that_goes_on_waits_for_its_next_part_and_not_for_a_client_that_does_not_read() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let phase = Phase::new();
    let mut timed = DeadlineStream::new(stream, Arc::clone(&phase), &bounds());
    phase.streaming();
    let hour = Duration::from_secs(3_600);
    let silent = tokio::time::timeout(hour, timed.read_u8()).await;
    assert!(silent.is_err(), "an hour without a part");
    let part = vec![b'x'; 64 << 10];
    for _ in 0..4_000 {
        if let Err(error) = timed.write_all(&part).await {
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            drop(client);
            return;
        }
    }
    panic!("a client that reads nothing took 256 MB");
}
