//! Measures the memory of the server during and after the largest renderings: `cargo bench --bench memory`.
//!
//! It starts the release binary, with a repository of few environments, between an emulated Slack and an emulated model
//! on loopback. Eight people ask at once, each in a conversation of their own, three times. Each model writes a short
//! program that creates very many objects, then shows and compares it, and ends. Then the gateway compares the change
//! with both engines and prepares its patch. The kernel reports the memory of the server process alone: `VmRSS`, and
//! `VmHWM` for the peak. Evaluation runs in other processes, which have their own limits.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

mod support;

use drydock::base::http_client::api_client;
use drydock::simulation::emulator::model::{ModelEmulator, ModelRequest, ScriptedAnswer, calls, says};
use drydock::simulation::emulator::slack::{RateLimits, SlackEmulator, SlackOptions, SlackState};
use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::server::{BenchServer, Settings};
use support::{header, slack, value};

const PEOPLE: usize = 8;
/// The number of conversations of each person, one after another.
const ROUNDS: usize = 3;
const ROUNDS_QUICK: usize = 1;
const CHANNEL: &str = "C0BENCH";
const DONE: &str = "All of it is rendered.";
const IDLE_DELAY: Duration = Duration::from_secs(5);
/// The seconds after the last answer at which memory is measured again.
const AFTERWARDS: [u64; 2] = [5, 30];
const ANSWER_MAX: Duration = Duration::from_secs(300);
const LIMITS: &str = "repairs_max = 0";
const TARGET: &str = "<= 256";

/// The programs that are rendered.
const PROGRAMS: [(&str, &str); 3] = [
    // More objects than `sandbox.objects_max`.
    (
        "60,000 ConfigMaps",
        "{ ['c%d' % n]: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'c%d' % n }, data: { a: 'b' } } for n in \
         std.range(1, 60000) }\n",
    ),
    // The maximum number of objects, and nearly as many values: the most memory for its bytes.
    (
        "9,999 ConfigMaps of 17 entries",
        "local d = { ['k%d' % i]: '' for i in std.range(1, 17) };\n{ ['c%d' % n]: { apiVersion: 'v1', kind: 'ConfigMap', \
         metadata: { name: 'c%d' % n }, data: d } for n in std.range(1, 9999) }\n",
    ),
    // Nearly the maximum number of bytes.
    (
        "80 ConfigMaps of 98 KB",
        "{ ['c%d' % n]: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'c%d' % n }, data: { a: std.repeat('line \
         of text\\n', 7000) } } for n in std.range(1, 80) }\n",
    ),
];

fn main() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run());
}

async fn run() {
    header("memory");
    let rounds = match std::env::args().any(|argument| argument == "--quick") {
        true => ROUNDS_QUICK,
        false => ROUNDS,
    };
    for (what, program) in PROGRAMS {
        measure(what, program, rounds).await;
    }
}

async fn measure(what: &str, program: &'static str, rounds: usize) {
    let directory = tempfile::tempdir().unwrap();
    drydock::simulation::demo::repository::create(&directory.path().join("infra.git")).unwrap();
    let model = ModelEmulator::start(move |asked: &ModelRequest| answer(asked, program)).unwrap();
    let slack = workspace().await;
    let address = slack
        .api_base_url()
        .trim_start_matches("http://")
        .trim_end_matches("/api")
        .parse()
        .unwrap();
    let settings = Arc::new(Settings::write(directory.path(), address, model.url(), LIMITS));
    let starting = Arc::clone(&settings);
    let served = tokio::task::spawn_blocking(move || {
        let mut served = starting.start();
        served.wait_for("/readyz");
        let tokens: Vec<String> = (0..PEOPLE)
            .map(|person| starting.invite(&account(person)))
            .collect();
        (served, tokens)
    });
    let (served, tokens) = served.await.unwrap();
    slack.connect_to(&format!("http://{}/in/slack", served.address));
    for (person, token) in tokens.iter().enumerate() {
        slack
            .dm(&account(person), &format!("join {token}"))
            .await
            .unwrap();
    }
    // A warm-up turn of each person is not counted: a person's first turn needs more memory than waiting.
    ask_all(&slack, "warm up").await;
    tokio::time::sleep(IDLE_DELAY).await;
    let idle = served.rss_kib();
    let started = Instant::now();
    for round in 0..rounds {
        ask_all(&slack, &format!("render it, round {round}")).await;
    }
    let took = started.elapsed().as_secs_f64();
    print_memory(what, &served, idle, took).await;
    assert_eq!(slack.problems(), Vec::<String>::new());
    assert_eq!(model.problems(), Vec::<String>::new());
}

async fn print_memory(what: &str, served: &BenchServer, idle: u64, took: f64) {
    let mib = |kib: u64| kib as f64 / 1_024.0;
    let more = |kib: u64| mib(kib.saturating_sub(idle));
    value(
        &format!("{what}: idle, after a turn of each"),
        mib(idle),
        "MiB RSS",
        "",
    );
    let highest = more(served.highest_kib());
    value(&format!("{what}: the most above it"), highest, "MiB", TARGET);
    let ended = Instant::now();
    for seconds in AFTERWARDS {
        tokio::time::sleep(Duration::from_secs(seconds).saturating_sub(ended.elapsed())).await;
        let now = more(served.rss_kib());
        value(&format!("{what}: {seconds} s after it"), now, "MiB", "");
    }
    value(&format!("{what}: all conversations took"), took, "s", "");
}

/// Sends one request for every person at the same time, and waits for all results.
async fn ask_all(slack: &SlackEmulator, words: &str) {
    let asking = (0..PEOPLE).map(|person| async move {
        let text = format!("@drydock {words} of person {person}");
        let said = slack.say(&account(person), CHANNEL, &text).await.unwrap();
        let started = Instant::now();
        while started.elapsed() < ANSWER_MAX {
            if slack
                .wait_until(|state| result_in(state, &said.ts))
                .await
                .is_some()
            {
                return;
            }
        }
        panic!("no result within {ANSWER_MAX:?}");
    });
    join_all(asking).await;
}

fn result_in(state: &SlackState, thread: &str) -> Option<()> {
    let mut replies = state.replies(CHANNEL, thread);
    replies
        .any(|message| message.visible().join("\n").contains(DONE))
        .then_some(())
}

fn answer(asked: &ModelRequest, program: &str) -> ScriptedAnswer {
    let environment = json!({ "env_path": "environments/dev" });
    let last: Vec<&str> = asked
        .last_results()
        .iter()
        .map(|result| result.content.as_str())
        .collect();
    match (
        last.is_empty(),
        asked.last_user_text().contains("warm up"),
        last.len(),
    ) {
        (true, true, _) => calls("tanka_show", environment),
        (true, false, _) => calls(
            "file_write",
            json!({ "path": "environments/dev/main.jsonnet", "content": own(asked, program) }),
        ),
        (false, false, 1) => calls("tanka_show", environment.clone()).with_call("tanka_diff", environment),
        (false, _, _) => says(DONE),
    }
}

/// Returns the program of one conversation. No two are the same, so a cached rendering never serves another one.
fn own(asked: &ModelRequest, program: &str) -> String {
    let name: String = asked
        .last_user_text()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    format!("// {name}\n{program}")
}

fn account(person: usize) -> String {
    format!("U0ABUSER{person}")
}

async fn workspace() -> SlackEmulator {
    let slack = SlackEmulator::start(SlackOptions {
        team: slack::TEAM.to_owned(),
        bot_user: slack::BOT.to_owned(),
        bot_name: "drydock".to_owned(),
        bot_token: slack::BOT_TOKEN.to_owned(),
        signing_secret: slack::SIGNING_SECRET.to_owned(),
        rate_limits: RateLimits::Off,
        at: Timestamp::now,
        http: api_client().unwrap(),
    })
    .await
    .unwrap();
    let accounts: Vec<String> = (0..PEOPLE).map(account).collect();
    accounts.iter().for_each(|account| slack.add_user(account));
    let accounts: Vec<&str> = accounts.iter().map(String::as_str).collect();
    slack.add_channel(CHANNEL, &accounts);
    slack
}
