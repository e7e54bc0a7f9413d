//! Times the way of streamed answers from the connection to their receiver: `cargo bench --bench stream`.
//!
//! A server in this process sends the bytes of the emulated model frame by frame. First one answer after another in each
//! wire format, as fast as the connection takes them: the time of a chunk is its share of the whole answer, which includes
//! the server's part. A bare HTTP client reads the same bytes alternately; the difference is what Drydock adds. Then 1,000 answers at the same time, a frame of each every 50 ms: the delay of a chunk counts from
//! the moment that the server passed it to the connection until the receiver has its text. Every answer is compared with
//! the text that was sent.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

mod support;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use drydock::base::config::{AnswerMode, Config, ConfigSources, WireFormat};
use drydock::base::http_client::api_client;
use drydock::base::model::History;
use drydock::interfaces::provider::{self, Patience, Provider, StreamEvent, ToolChoice, TurnRequest};
use drydock::simulation::emulator::model::{ModelEmulator, queue, says};
use drydock::state::access::{Access, Identity};
use futures_util::{StreamExt, future, stream};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{Times, header, row, value};
use tokio_util::sync::CancellationToken;

/// The number of characters of text that the emulated model puts into one event.
const CHUNK_CHARS: usize = 40;
/// The time between two frames of a paced answer.
const PACE: Duration = Duration::from_millis(50);
/// A word of every chunk of text, which is nowhere else in a frame of any format.
const MARK: &str = "stanza";

/// The wire formats, each with a provider that has it.
const FORMATS: [(WireFormat, &str); 4] = [
    (WireFormat::AnthropicMessages, "anthropic"),
    (WireFormat::OpenaiChat, "openrouter"),
    (WireFormat::OpenaiResponses, "openai"),
    (WireFormat::GeminiGenerate, "google"),
];

/// The pace of the frames.
#[derive(Clone, Copy)]
enum Pace {
    AtOnce,
    Slow,
}

/// The server that replays the emulator's answers.
struct Replay {
    emulator: String,
    pace: Pace,
    client: reqwest::Client,
    /// The frames of the answer, each with `true` if it has text.
    frames: tokio::sync::OnceCell<Vec<(Bytes, bool)>>,
    /// The times at which the chunks of text were passed to the connections, by request.
    sent: Mutex<Vec<Arc<Mutex<Vec<Instant>>>>>,
}

fn main() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .unwrap();
    let quick = std::env::args().any(|argument| argument == "--quick");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    header("stream");
    let (chunks, answers) = if quick { (200, 3) } else { (2_000, 30) };
    for (wire, provider) in FORMATS {
        let (ours, bare) = runtime.block_on(one_after_another(wire, provider, chunks, answers));
        let what = format!("a chunk of a streamed answer, {}", wire.word());
        row(&what, &Times::new(ours), "<= 0.020 ms");
        row("... read by a bare HTTP client", &Times::new(bare), "");
    }
    let (streams, chunks) = if quick { (50, 20) } else { (1_000, 100) };
    for (wire, provider) in FORMATS {
        let delays = runtime.block_on(at_once(wire, provider, streams, chunks));
        assert_eq!(delays.len(), streams * chunks, "a chunk was lost or doubled");
        let what = format!("delay of a chunk, {streams} streams, {}", wire.word());
        row(&what, &Times::new(delays), "");
    }
    value("chunks lost or doubled", 0.0, "chunks", "0");
}

/// Returns the time of a chunk for each answer: read by Drydock, and by a bare HTTP client.
async fn one_after_another(
    wire: WireFormat,
    provider: &str,
    chunks: usize,
    answers: usize,
) -> (Vec<Duration>, Vec<Duration>) {
    let text = text(chunks);
    let (url, _emulator, replay) = serve(wire, &text, Pace::AtOnce).await;
    let caller = Caller::new(wire, provider, &url);
    let client = api_client().unwrap();
    let per_chunk = |took: Duration| took / u32::try_from(chunks).unwrap();
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    // The first answers open the connections and are not counted.
    for number in 0..=answers {
        let started = Instant::now();
        let (answer, received) = caller.call().await;
        let our_time = started.elapsed();
        assert_eq!((answer.as_str(), received.len()), (text.as_str(), chunks));
        let started = Instant::now();
        let length = read_bare(&client, &url).await;
        let bare_time = started.elapsed();
        let frames = replay.frames.get().unwrap().iter();
        assert_eq!(length, frames.map(|(frame, _)| frame.len()).sum::<usize>());
        if number > 0 {
            ours.push(per_chunk(our_time));
            bare.push(per_chunk(bare_time));
        }
    }
    (ours, bare)
}

/// Reads an answer with the HTTP client alone. Returns the number of its bytes.
async fn read_bare(client: &reqwest::Client, url: &str) -> usize {
    let mut answer = client.post(url).send().await.unwrap();
    let mut length = 0;
    while let Some(bytes) = answer.chunk().await.unwrap() {
        length += bytes.len();
    }
    length
}

/// Returns the delay of every chunk of all streams.
async fn at_once(wire: WireFormat, provider: &str, streams: usize, chunks: usize) -> Vec<Duration> {
    let text = text(chunks);
    let (url, _emulator, replay) = serve(wire, &text, Pace::Slow).await;
    let caller = Caller::new(wire, provider, &url);
    let calls = (0..streams).map(|_| async {
        let (answer, received) = caller.call().await;
        assert_eq!(answer, text);
        received
    });
    let mut received: Vec<Vec<Instant>> = future::join_all(calls).await;
    let sent = replay.sent.lock().unwrap();
    let mut sent: Vec<Vec<Instant>> = sent.iter().map(|times| times.lock().unwrap().clone()).collect();
    // A call does not know its request: those with the earliest first chunk belong together. The chunks of one request
    // are in order.
    received.sort();
    sent.sort();
    let pairs = received.iter().flatten().zip(sent.iter().flatten());
    pairs
        .map(|(received, sent)| received.saturating_duration_since(*sent))
        .collect()
}

/// Returns a text of `count` chunks.
fn text(count: usize) -> String {
    (0..count)
        .map(|number| format!("{:<CHUNK_CHARS$}", format!("{MARK} {number}")))
        .collect()
}

/// Starts the emulated model with one answer, and the server that replays it. Returns the base URL of that server.
async fn serve(wire: WireFormat, text: &str, pace: Pace) -> (String, ModelEmulator, Arc<Replay>) {
    let emulator = ModelEmulator::start(queue([says(text)])).unwrap();
    let replay = Arc::new(Replay {
        emulator: emulator.url().to_owned(),
        pace,
        client: reqwest::Client::new(),
        frames: tokio::sync::OnceCell::new(),
        sent: Mutex::default(),
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new().fallback(replayed).with_state(Arc::clone(&replay));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let service = TowerToHyperService::new(routes.clone());
            // The connection ends with its client.
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    let base_url = emulator
        .base_url(wire)
        .replace(emulator.url(), &format!("http://{address}"));
    (base_url, emulator, replay)
}

async fn replayed(State(replay): State<Arc<Replay>>, request: Request) -> Response {
    let frames = replay
        .frames
        .get_or_init(|| record(&replay, request))
        .await
        .clone();
    let sent = Arc::new(Mutex::new(Vec::new()));
    replay.sent.lock().unwrap().push(Arc::clone(&sent));
    let pace = replay.pace;
    let frames = stream::iter(frames).then(move |(frame, has_text)| {
        let sent = Arc::clone(&sent);
        async move {
            if let Pace::Slow = pace {
                tokio::time::sleep(PACE).await;
            }
            if has_text {
                sent.lock().unwrap().push(Instant::now());
            }
            Ok::<_, std::convert::Infallible>(frame)
        }
    });
    Response::builder()
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(frames))
        .unwrap()
}

/// Passes the first request to the emulated model and returns the frames of its answer.
async fn record(replay: &Replay, request: Request) -> Vec<(Bytes, bool)> {
    let (parts, body) = request.into_parts();
    let url = format!("{}{}", replay.emulator, parts.uri);
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let mut headers = parts.headers;
    headers.remove("host");
    let answer = replay.client.post(url).headers(headers).body(body).send();
    let answer = answer.await.unwrap().error_for_status().unwrap();
    let answer = answer.text().await.unwrap();
    let end = if answer.contains("\r\n\r\n") {
        "\r\n\r\n"
    } else {
        "\n\n"
    };
    let frames = answer.split_inclusive(end);
    // Some formats repeat the whole text in their last events.
    let has_text = |frame: &str| frame.matches(MARK).count() == 1;
    frames
        .map(|frame| (Bytes::from(frame.to_owned()), has_text(frame)))
        .collect()
}

/// A caller of the model.
struct Caller {
    provider: Arc<dyn Provider>,
    model: String,
    identity: Identity,
    history: History,
}

impl Caller {
    fn new(wire: WireFormat, provider: &str, url: &str) -> Self {
        let flags = [
            ("model.default".to_owned(), format!("{provider}/model")),
            (format!("providers.{provider}.wire"), wire.word().to_owned()),
            (format!("providers.{provider}.base_url"), url.to_owned()),
            (format!("providers.{provider}.api_key.env"), "KEY".to_owned()),
        ];
        let sources = ConfigSources {
            environment: BTreeMap::from([("KEY".to_owned(), "sent-to-nobody-0123456789".to_owned())]),
            flags: flags.into(),
            ..ConfigSources::default()
        };
        let config = Config::for_terminal(sources).unwrap();
        let providers = provider::build(&config.providers, api_client().unwrap(), AnswerMode::Streamed);
        let (provider, model) = providers.resolve(&config.model.default).unwrap();
        let mut history = History::default();
        history.begin("Say it.").unwrap();
        Self {
            provider,
            model,
            identity: Access::terminal_identity("bench"),
            history,
        }
    }

    /// Makes a call. Returns the text of the answer, and the times at which its chunks were received.
    async fn call(&self) -> (String, Vec<Instant>) {
        let request = TurnRequest {
            identity: &self.identity,
            model: &self.model,
            system: "You are brief.",
            tools: &[],
            tool_choice: ToolChoice::Free,
            turns: self.history.turns(),
            answer_tokens_max: 1_000,
            patience: Patience::Full,
        };
        let (mut text, mut times) = (String::new(), Vec::new());
        let mut sink = |event| {
            if let StreamEvent::Text(more) = event {
                times.push(Instant::now());
                text.push_str(&more);
            }
        };
        let cancel = CancellationToken::new();
        let completion = self.provider.turn(request, &mut sink, &cancel).await.unwrap();
        assert_eq!(completion.assistant.text(), text);
        (text, times)
    }
}
