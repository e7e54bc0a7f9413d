//! The listener on real loopback sockets, with an ingress that records its calls.
#![allow(clippy::unwrap_used)]

mod bodies;
mod deadlines;
mod events;
mod personal;
mod probes;
mod routing;
mod runs;
mod signatures;

use super::bounds::ListenerBounds;
use super::connection::accept_until;
use super::{Ingress, IngressResult, PersonalApi, Readiness, Route, ServeSummary, Unavailable};
use crate::base::config::{Grants, HookChange, HookScheme, HookSettings, PostTo};
use crate::base::model::{ChangeNumber, Inbound, Secret};
use crate::base::webhook::{Received, Rejected, SecretPairs, Webhook, hook_webhook};
use crate::engine::gateway::HandoverAnswer;
use crate::state::access::Role;
use async_trait::async_trait;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::Sha256;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(super) const SECRET: &str = "It's a Secret to Everybody";
pub(super) const NOW: i64 = 1_800_000_000;
pub(super) const UNAUTHENTICATED: &str = "HTTP/1.1 401 Unauthorized\r\ncache-control: no-store\r\n\
     x-content-type-options: nosniff\r\ncontent-type: application/json\r\nconnection: close\r\n\
     content-length: 27\r\n\r\n{\"error\":\"unauthenticated\"}";

/// The answer of the API to a request without a valid code or token.
pub(super) const TOKEN_REFUSED: &str = "HTTP/1.1 401 Unauthorized\r\ncache-control: no-store\r\n\
     x-content-type-options: nosniff\r\ncontent-type: application/json\r\nwww-authenticate: Bearer\r\n\
     connection: close\r\ncontent-length: 27\r\n\r\n{\"error\":\"unauthenticated\"}";

/// An ingress that records everything and stores nothing.
pub(super) struct RecordingIngress {
    routes: BTreeMap<&'static str, Route>,
    /// Permits for making events durable, one for each event.
    pub(super) durable: Semaphore,
    /// Permits for events that were passed on, one for each event.
    pub(super) entered: Semaphore,
    pub(super) down: bool,
    /// True if the probe of readiness meets a defect.
    pub(super) readiness_panics: bool,
    pub(super) waiting_for: Vec<String>,
    pub(super) degraded: Vec<String>,
    /// The names that were looked up.
    pub(super) looked_up: Mutex<Vec<String>>,
    pub(super) stale: Mutex<Vec<(String, i64)>>,
    pub(super) unauthenticated: Mutex<Vec<(String, &'static str)>>,
    pub(super) authentic: Mutex<Vec<String>>,
    pub(super) accepted: Mutex<Vec<Inbound>>,
    pub(super) rejected: Mutex<Vec<(String, &'static str)>>,
    pub(super) ignored: Mutex<Vec<(String, &'static str)>>,
}

impl RecordingIngress {
    /// Creates the ingress of a gateway with one hook of each scheme, and some test doubles.
    pub(super) fn new() -> Self {
        let hook = |name, scheme| {
            Route::Webhook(hook_webhook(
                name,
                &hook_settings(scheme),
                &SecretPairs::default(),
            ))
        };
        let mut routes = BTreeMap::from([
            ("body", hook("body", HookScheme::GenericBody)),
            ("panics", Route::Webhook(Arc::new(WebhookDouble::Panics))),
            ("answers", Route::Webhook(Arc::new(WebhookDouble::Answers))),
            (
                "connecting",
                Route::Connecting(hook_webhook(
                    "connecting",
                    &hook_settings(HookScheme::Github),
                    &SecretPairs::default(),
                )),
            ),
        ]);
        for scheme in HookScheme::ALL {
            let word = scheme.definition().word;
            routes.insert(word, hook(word, *scheme));
        }
        Self {
            routes,
            durable: Semaphore::new(1_000),
            entered: Semaphore::new(0),
            down: false,
            readiness_panics: false,
            waiting_for: Vec::new(),
            degraded: Vec::new(),
            looked_up: Mutex::default(),
            stale: Mutex::default(),
            unauthenticated: Mutex::default(),
            authentic: Mutex::default(),
            accepted: Mutex::default(),
            rejected: Mutex::default(),
            ignored: Mutex::default(),
        }
    }
}

/// Knows the code `right`, the token `right`, and the changes 1 and 2, of which 2 may not be given.
#[async_trait]
impl PersonalApi for RecordingIngress {
    async fn log_in(&self, code: &str, at: Timestamp) -> HandoverAnswer {
        assert_eq!(at, now());
        match code {
            "right" => HandoverAnswer::Document(r#"{"token":"right"}"#.to_owned()),
            "flood" => HandoverAnswer::TooManyAttempts(7),
            _ => HandoverAnswer::Unauthenticated,
        }
    }

    async fn log_out(&self, token: &str, at: Timestamp) -> HandoverAnswer {
        assert_eq!(at, now());
        match token {
            "right" => HandoverAnswer::Ended,
            _ => HandoverAnswer::Unauthenticated,
        }
    }

    async fn change(&self, token: &str, number: ChangeNumber, at: Timestamp) -> HandoverAnswer {
        assert_eq!(at, now());
        match (token, number.0) {
            ("right", 1) => HandoverAnswer::Document(r#"{"change":1}"#.to_owned()),
            ("right", 2) => HandoverAnswer::Refused("withheld".to_owned()),
            ("right", 3) => HandoverAnswer::Unavailable,
            ("right", _) => HandoverAnswer::NotFound,
            _ => HandoverAnswer::Unauthenticated,
        }
    }
}

#[async_trait]
impl Ingress for RecordingIngress {
    async fn accept(&self, inbound: Inbound, at: Timestamp) -> Result<IngressResult, Unavailable> {
        assert_eq!(at, now());
        self.entered.add_permits(1);
        self.durable.acquire().await.unwrap().forget();
        if self.down {
            return Err(Unavailable);
        }
        let mut accepted = self.accepted.lock().unwrap();
        if accepted.iter().any(|earlier| {
            earlier
                .delivery
                .iter()
                .any(|name| inbound.delivery.contains(name))
        }) {
            return Ok(IngressResult::Duplicate);
        }
        accepted.push(inbound);
        Ok(IngressResult::New)
    }

    fn webhook(&self, name: &str) -> Route {
        self.looked_up.lock().unwrap().push(name.to_owned());
        self.routes.get(name).cloned().unwrap_or(Route::Unknown)
    }

    fn rejected(&self, name: &str, reason: &'static str, _at: Timestamp) {
        self.rejected.lock().unwrap().push((name.to_owned(), reason));
    }

    fn unauthenticated(&self, name: &str, reason: &'static str, _at: Timestamp) {
        self.unauthenticated
            .lock()
            .unwrap()
            .push((name.to_owned(), reason));
    }

    fn authentic(&self, name: &str) {
        self.authentic.lock().unwrap().push(name.to_owned());
    }

    fn stale(&self, name: &str, seconds: i64) {
        self.stale.lock().unwrap().push((name.to_owned(), seconds));
    }

    fn ignored(&self, name: &str, reason: &'static str, _at: Timestamp) {
        self.ignored.lock().unwrap().push((name.to_owned(), reason));
    }

    fn ready(&self) -> Readiness {
        assert!(!self.readiness_panics, "a defect");
        Readiness {
            waiting_for: self.waiting_for.clone(),
            degraded: self.degraded.clone(),
        }
    }

    fn now(&self) -> Timestamp {
        now()
    }
}

enum WebhookDouble {
    Panics,
    Answers,
}

impl Webhook for WebhookDouble {
    fn receive(&self, _request: &http::Request<Bytes>, _at: Timestamp) -> Result<Received, Rejected> {
        match self {
            Self::Panics => panic!("a defect"),
            Self::Answers => Ok(Received::Answer("<script>alert(1)</script>".to_owned())),
        }
    }
}

/// A running listener. Dropping it ends the listener and all its connections.
pub(super) struct RunningListener {
    pub(super) ingress: Arc<RecordingIngress>,
    pub(super) address: SocketAddr,
    pub(super) cancel: CancellationToken,
    pub(super) served: JoinHandle<ServeSummary>,
}

impl Drop for RunningListener {
    fn drop(&mut self) {
        self.served.abort();
    }
}

impl RunningListener {
    pub(super) async fn start() -> Self {
        Self::with(bounds(), RecordingIngress::new()).await
    }

    pub(super) async fn with(bounds: ListenerBounds, ingress: RecordingIngress) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ingress = Arc::new(ingress);
        let cancel = CancellationToken::new();
        let as_ingress: Arc<dyn Ingress> = Arc::<RecordingIngress>::clone(&ingress);
        let served = tokio::spawn(accept_until(listener, bounds, as_ingress, cancel.clone()));
        Self {
            ingress,
            address,
            cancel,
            served,
        }
    }

    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends one complete request on its own connection and returns the complete answer without its date.
    pub(super) async fn send(&self, request: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request).await.unwrap();
        rest(&mut stream).await
    }

    /// Sends a `POST` request with a JSON body; `headers` are complete lines.
    pub(super) async fn post(&self, path: &str, headers: &[String], body: &[u8]) -> String {
        self.send(&post_request(path, headers, body)).await
    }
}

/// Reads the rest of a connection until it ends, and removes dates.
pub(super) async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut bytes));
    // A reset after the answer is a normal end.
    let _ended = read.await.unwrap();
    without_dates(&String::from_utf8(bytes).unwrap())
}

pub(super) fn without_dates(answer: &str) -> String {
    answer
        .split_inclusive("\r\n")
        .filter(|line| !line.starts_with("date: "))
        .collect()
}

pub(super) fn post_request(path: &str, headers: &[String], body: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: drydock\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    );
    if !headers.iter().any(|line| line.starts_with("content-type")) {
        request.push_str("content-type: application/json\r\n");
    }
    for line in headers {
        request.push_str(line);
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    let mut request = request.into_bytes();
    request.extend_from_slice(body);
    request
}

pub(super) fn bounds() -> ListenerBounds {
    ListenerBounds {
        header_time_max: Duration::from_secs(20),
        body_time_max: Duration::from_secs(20),
        idle_time_max: Duration::from_secs(20),
        drain_time_max: Duration::from_secs(20),
        body_bytes_max: 4_096,
        connections_max: 100,
        connections_per_ip_max: 50,
    }
}

pub(super) fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

pub(super) fn hmac_hex(secret: &str, message: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(message);
    hex::encode(mac.finalize().into_bytes())
}

/// Returns the headers of an authentic GitHub request.
pub(super) fn github_headers(event: &str, delivery: &str, body: &[u8]) -> Vec<String> {
    vec![
        format!("x-github-event: {event}"),
        format!("x-github-delivery: {delivery}"),
        format!("x-hub-signature-256: sha256={}", hmac_hex(SECRET, body)),
    ]
}

/// Returns the headers of an authentic generic request.
pub(super) fn generic_headers(id: &str, seconds: i64, body: &[u8]) -> Vec<String> {
    let message = [format!("{id}.{seconds}.").as_bytes(), body].concat();
    vec![
        format!("x-webhook-id: {id}"),
        format!("x-webhook-timestamp: {seconds}"),
        format!("x-webhook-signature: {}", hmac_hex(SECRET, &message)),
    ]
}

fn hook_settings(scheme: HookScheme) -> HookSettings {
    HookSettings {
        scheme,
        secret: Secret::new(SECRET.to_owned()),
        previous_secret: None,
        events: vec!["release".to_owned(), "deploy".to_owned()],
        sources: vec!["acme/api".to_owned()],
        repository: "infra".to_owned(),
        prompt: "hooks/release.md".to_owned(),
        fields: BTreeMap::from([
            ("tag".to_owned(), "/release/tag_name".to_owned()),
            ("notes".to_owned(), "/release/body".to_owned()),
            ("draft".to_owned(), "/release/draft".to_owned()),
            ("number".to_owned(), "/release/id".to_owned()),
            ("author".to_owned(), "/release/author".to_owned()),
            ("absent".to_owned(), "/release/nothing".to_owned()),
        ]),
        starts_pipelines: false,
        change: HookChange::New,
        comments: None,
        post_to: PostTo {
            channel: "slack".to_owned(),
            chat: "C0OPS".to_owned(),
        },
        grants: Grants {
            role: Role::Editor,
            environments: vec!["**".to_owned()],
        },
    }
}
