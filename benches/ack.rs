//! Measures the time until a webhook is acknowledged, which happens after it is durable: `cargo bench --bench ack`.
//!
//! The release binary runs on one core, and the load generator on another. The load is open-loop: each event is due at
//! a fixed moment and is timed from that moment, so a slow answer does not delay the next event. Each event is a signed
//! Slack mention by an admitted person, and each starts a new conversation. Before the 200, the gateway checks the
//! signature and the admission, then writes and syncs two delivery names, a conversation and an inbox row. Turns cannot
//! disturb the measurement: only one turn may run at once, and its model never answers, so all others wait in the
//! inbox. The emulated Web API answers each receipt after 150 ms, like the real one. The gateway sends as many receipts
//! at once as its limit allows and drops the rest.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

mod support;

use drydock::simulation::emulator::model::{AnswerFault, ModelEmulator, ModelRequest, says};
use jiff::Timestamp;
use std::time::{Duration, Instant};
use support::server::Settings;
use support::{FsyncWatch, Times, fsync_floor, header, millis, repository, row, slack, standstill, value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// The number of keep-alive connections that carry the load.
const CONNECTIONS: usize = 64;
const LIMITS: &str = "turns_at_once_max = 1\nwaiting_messages_max = 100";
/// The share of the offered events that must be answered during the offer for a rate to count as sustained.
const SUSTAINED_MIN: f64 = 0.98;

fn main() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .unwrap();
    // One thread: the load generator must not use more cores than the gateway.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run());
}

async fn run() {
    let pinned = support::pin(std::process::id(), 1);
    let directory = tempfile::tempdir().unwrap();
    repository::of_environments(&directory.path().join("infra.git"), 3);
    let model =
        ModelEmulator::start(|_: &ModelRequest| says("never").with_fault(AnswerFault::Stall)).unwrap();
    let slack = slack::slow_web_api().await;
    let settings = Settings::write(directory.path(), slack, model.url(), LIMITS);
    let served = tokio::task::spawn_blocking(move || {
        let mut served = settings.start();
        served.wait_for("/readyz");
        (served, settings.invite("alice"))
    });
    let (served, token) = served.await.unwrap();
    let pinned = pinned && support::pin(served.process(), 0);
    let mut load = Load::connect(served.address).await;
    load.admit(&token).await;

    header("ack");
    if !pinned {
        println!("taskset is missing: gateway and load share all cores");
    }
    let seconds = if std::env::args().any(|argument| argument == "--quick") {
        2
    } else {
        10
    };
    let floor = fsync_floor(directory.path());
    row("floor: 4 KiB append and fdatasync, before", &floor, "");
    standstill();
    load.offer(1_000, 1).await;
    for rate in [1_000, 5_000] {
        let cpu = served.cpu();
        let disk = FsyncWatch::start(directory.path());
        let offered = load.offer(rate, seconds).await;
        let disk = disk.stop();
        offered.show(&floor);
        row(
            &format!("{rate}/s offered: 4 KiB append and fdatasync, meanwhile"),
            &disk,
            "",
        );
        let each = (served.cpu() - cpu).as_secs_f64() / offered.times.len() as f64;
        value(
            &format!("{rate}/s offered: CPU of the gateway"),
            each * 1e6,
            "us/ack",
            "<= 200",
        );
    }
    let floor = fsync_floor(directory.path());
    row("floor: 4 KiB append and fdatasync, between", &floor, "");
    standstill();
    let mut best = 0;
    for rate in [6_000, 8_000, 10_000, 12_000, 15_000, 20_000, 25_000, 30_000] {
        let offered = load.offer(rate, seconds.min(4)).await;
        offered.show(&floor);
        if offered.answered_in_time() < SUSTAINED_MIN {
            break;
        }
        best = rate;
    }
    value(
        "highest rate of these that was sustained",
        best as f64,
        "acks/s",
        ">= 5000",
    );
    value(
        "memory of the gateway after it",
        served.rss_kib() as f64 / 1_024.0,
        "MiB RSS",
        "",
    );
}

struct Load {
    connections: Vec<mpsc::Sender<(Instant, Vec<u8>)>>,
    answered: mpsc::Receiver<(Instant, Instant)>,
    sent: u64,
}

struct LoadResult {
    rate: u64,
    /// The times from due to answered.
    times: Times,
    /// The times from due to sent: the delay that the load generator's own core adds to the other times.
    late: Times,
    /// The times from the first due event until the last was due, and until the last was answered.
    due: Duration,
    done: Duration,
}

impl Load {
    async fn connect(address: std::net::SocketAddr) -> Self {
        let (answers, answered) = mpsc::channel(1 << 20);
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (requests, due) = mpsc::channel(1 << 14);
            tokio::spawn(converse(stream, due, answers.clone()));
            connections.push(requests);
        }
        Self {
            connections,
            answered,
            sent: 0,
        }
    }

    async fn admit(&mut self, token: &str) {
        let request = slack::direct(9_999_999, Timestamp::now(), &format!("join {token}"));
        self.connections[0].send((Instant::now(), request)).await.unwrap();
        self.answered.recv().await.unwrap();
    }

    /// Offers `rate` events a second for `seconds` seconds. Returns once all are acknowledged.
    async fn offer(&mut self, rate: u64, seconds: u64) -> LoadResult {
        let count = rate * seconds;
        // Requests are signed before the clock starts. A signature is valid for five minutes.
        let at = Timestamp::now();
        let requests: Vec<Vec<u8>> = (0..count)
            .map(|number| slack::mention(self.sent + number, at))
            .collect();
        self.sent += count;
        let start = Instant::now() + Duration::from_millis(50);
        let mut times = Vec::with_capacity(requests.len());
        let mut last = start;
        let connections = self.connections.clone();
        // A thread sleeps until the next event is due, because timers of the runtime have a resolution of one
        // millisecond. A busy loop would leave the kernel's own threads only the gateway's core.
        let sending = tokio::task::spawn_blocking(move || {
            let mut late = Vec::with_capacity(requests.len());
            for (number, request) in requests.into_iter().enumerate() {
                let due = start
                    + Duration::from_secs(1) * u32::try_from(number).unwrap() / u32::try_from(rate).unwrap();
                let early = due.saturating_duration_since(Instant::now());
                if !early.is_zero() {
                    std::thread::sleep(early);
                }
                late.push(due.elapsed());
                connections[number % CONNECTIONS]
                    .blocking_send((due, request))
                    .unwrap();
            }
            late
        });
        for _ in 0..count {
            let (due, answered) = self.answered.recv().await.unwrap();
            times.push(answered.saturating_duration_since(due));
            last = last.max(answered);
        }
        let late = sending.await.unwrap();
        LoadResult {
            rate,
            late: Times::new(late),
            times: Times::new(times),
            due: Duration::from_secs(seconds),
            done: last - start,
        }
    }
}

impl LoadResult {
    fn answered_in_time(&self) -> f64 {
        self.due.as_secs_f64() / self.done.as_secs_f64()
    }

    fn show(&self, floor: &Times) {
        let target = match self.rate {
            1_000 | 5_000 => format!("p99 <= {:.1} ms", millis(floor.p99()) + 5.0),
            _ => String::new(),
        };
        row(
            &format!("{}/s offered, due to acknowledged", self.rate),
            &self.times,
            &target,
        );
        row(
            &format!("{}/s offered: the load itself was late by", self.rate),
            &self.late,
            "",
        );
        let rate = self.times.len() as f64 / self.done.as_secs_f64();
        value(
            &format!("{}/s offered: acknowledged", self.rate),
            rate,
            "acks/s",
            "",
        );
    }
}

/// Sends the due events of one connection, one at a time, and reads the answers.
async fn converse(
    mut stream: TcpStream,
    mut due: mpsc::Receiver<(Instant, Vec<u8>)>,
    answers: mpsc::Sender<(Instant, Instant)>,
) {
    let mut answer = Vec::with_capacity(1_024);
    while let Some((at, request)) = due.recv().await {
        stream.write_all(&request).await.unwrap();
        answer.clear();
        loop {
            assert!(
                stream.read_buf(&mut answer).await.unwrap() > 0,
                "the gateway hung up"
            );
            let Some(end) = memchr::memmem::find(&answer, b"\r\n\r\n") else {
                continue;
            };
            let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
            assert!(head.starts_with("http/1.1 200"), "{head}");
            let length: usize = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok())
                .unwrap_or(0);
            if answer.len() >= end + 4 + length {
                break;
            }
        }
        answers.send((at, Instant::now())).await.unwrap();
    }
}
