//! Measures the start time and the memory of the gateway: `cargo bench --bench start`.
//!
//! It starts the release binary with a repository of 300 environments and a Slack channel on loopback. The time runs
//! from before the process is created to the first 200. The kernel reports the memory: idle, 5 s after the gateway was
//! ready, and again after 2,000 conversations of one turn each. The same server is also started with 1,000 schedules, and
//! it is counted how often its threads wake up while none of them is due.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

mod support;

use drydock::base::http_client::api_client;
use drydock::simulation::emulator::model::{ModelEmulator, ModelRequest, says};
use drydock::simulation::emulator::slack::{RateLimits, SlackEmulator, SlackOptions};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::server::Settings;
use support::{Times, header, repository, row, slack, value};

const ENVIRONMENTS: usize = 300;
const STARTS: usize = 21;
const CONVERSATIONS: usize = 2_000;
/// The number of people who talk at once.
const AT_ONCE: usize = 16;
const IDLE_DELAY: Duration = Duration::from_secs(5);
const SCHEDULES: usize = 1_000;
/// The time in which wake-ups are counted.
const WATCHED: Duration = Duration::from_secs(20);

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
    let directory = tempfile::tempdir().unwrap();
    let built = Instant::now();
    repository::of_environments(&directory.path().join("infra.git"), ENVIRONMENTS);
    let model = ModelEmulator::start(|_: &ModelRequest| says("There are 300 environments.")).unwrap();
    let slack = Arc::new(workspace().await);
    let address = slack
        .api_base_url()
        .trim_start_matches("http://")
        .trim_end_matches("/api")
        .parse()
        .unwrap();
    let settings = Arc::new(Settings::write(directory.path(), address, model.url(), ""));
    header("start");
    println!("made the repository in {:.1} s", built.elapsed().as_secs_f64());

    // The first start also packs the base, so it is reported separately.
    let (healthy, ready) = start(&settings).await;
    row("first start: exec to /healthz", &Times::new(vec![healthy]), "");
    row(
        "first start, packs 601 files: exec to /readyz",
        &Times::new(vec![ready]),
        "",
    );
    let (mut healthy, mut ready) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let (a, b) = start(&settings).await;
        healthy.push(a);
        ready.push(b);
    }
    row("exec to /healthz", &Times::new(healthy), "p50 <= 100 ms");
    row("exec to /readyz", &Times::new(ready), "p50 <= 100 ms");
    let none = waits(&settings).await;
    schedules((address, model.url()), none).await;
    memory(&settings, &slack).await;
    assert_eq!(slack.problems(), Vec::<String>::new());
    assert_eq!(model.problems(), Vec::<String>::new());
}

async fn start(settings: &Arc<Settings>) -> (Duration, Duration) {
    let settings = Arc::clone(settings);
    let timed = move || {
        let started = Instant::now();
        let mut served = settings.start();
        let healthy = served.wait_for("/healthz");
        let ready = served.wait_for("/readyz");
        (healthy - started, ready - started)
    };
    tokio::task::spawn_blocking(timed).await.unwrap()
}

/// Measures the start of a server with schedules, and its wake-ups while it is idle. `none` are those without schedules.
async fn schedules((slack, model): (SocketAddr, &str), none: u64) {
    let directory = tempfile::tempdir().unwrap();
    repository::of_environments(&directory.path().join("infra.git"), ENVIRONMENTS);
    let settings = Settings::write_with(directory.path(), (slack, model), "", sections());
    let settings = Arc::new(settings);
    let (_, first) = start(&settings).await;
    row(
        "first start with 1,000 schedules: exec to /readyz",
        &Times::new(vec![first]),
        "",
    );
    let mut ready = Vec::new();
    for _ in 0..STARTS {
        ready.push(start(&settings).await.1);
    }
    row(
        "exec to /readyz, 1,000 schedules",
        &Times::new(ready),
        "p50 <= 40 ms",
    );
    let some = waits(&settings).await;
    for (what, waits) in [("without schedules", none), ("with 1,000 schedules", some)] {
        let rate = waits as f64 / WATCHED.as_secs_f64();
        value(&format!("idle, wake-ups {what}"), rate, "times/s", "");
    }
    let added = (some as f64 - none as f64) / WATCHED.as_secs_f64();
    value("idle, wake-ups added by the schedules", added, "times/s", "<= 1");
}

/// Returns the sections of schedules that are due on one day of the month, between ten and twenty days from now.
fn sections() -> String {
    let today = Timestamp::now().to_zoned(TimeZone::UTC).day();
    let day = (i32::from(today) + 14) % 28 + 1;
    let section = |number: usize| {
        let (hour, minute) = (number / 60 % 24, number % 60);
        format!(
            "[schedules.s{number}]\nwhen = \"monthly {day} {hour:02}:{minute:02}\"\nwords = \"Which images are old?\"\n\
             repository = \"infra\"\npost_to = {{ channel = \"slack\", chat = \"C0BENCH\" }}\ngrants.role = \"viewer\"\n\n"
        )
    };
    (0..SCHEDULES).map(section).collect()
}

/// Counts how often the threads of an idle server wake up.
async fn waits(settings: &Arc<Settings>) -> u64 {
    let starting = Arc::clone(settings);
    let served = tokio::task::spawn_blocking(move || {
        let mut served = starting.start();
        served.wait_for("/readyz");
        served
    });
    let served = served.await.unwrap();
    tokio::time::sleep(IDLE_DELAY).await;
    let before = served.waits();
    tokio::time::sleep(WATCHED).await;
    served.waits().saturating_sub(before)
}

async fn memory(settings: &Arc<Settings>, slack: &Arc<SlackEmulator>) {
    let starting = Arc::clone(settings);
    let served = tokio::task::spawn_blocking(move || {
        let mut served = starting.start();
        served.wait_for("/readyz");
        (served, starting.invite("alice"))
    });
    let (served, token) = served.await.unwrap();
    tokio::time::sleep(IDLE_DELAY).await;
    let mib = |kib: u64| kib as f64 / 1_024.0;
    value(
        "idle, 5 s after ready: RSS",
        mib(served.rss_kib()),
        "MiB",
        "<= 40",
    );
    value(
        "idle, 5 s after ready: Pss",
        mib(served.pss_kib()),
        "MiB",
        "<= 40",
    );
    value(
        "idle, 5 s after ready: anonymous",
        mib(served.anonymous_kib()),
        "MiB",
        "",
    );

    slack.connect_to(&format!("http://{}/in/slack", served.address));
    slack.dm(slack::PERSON, &format!("join {token}")).await.unwrap();
    talk(slack, CONVERSATIONS / 10).await;
    tokio::time::sleep(IDLE_DELAY).await;
    let (warm, warm_anonymous) = (served.rss_kib(), served.anonymous_kib());
    value("after 200 conversations: RSS", mib(warm), "MiB", "");
    talk(slack, CONVERSATIONS).await;
    tokio::time::sleep(IDLE_DELAY).await;
    value(
        "after 2,000 more conversations: RSS",
        mib(served.rss_kib()),
        "MiB",
        "",
    );
    let each = |now: u64, before: u64| now.saturating_sub(before) as f64 / CONVERSATIONS as f64;
    value(
        "memory per idle conversation, RSS",
        each(served.rss_kib(), warm),
        "KiB",
        "<= 64",
    );
    value(
        "memory per idle conversation, anonymous",
        each(served.anonymous_kib(), warm_anonymous),
        "KiB",
        "",
    );
}

/// Runs `count` conversations of one turn each, a limited number at a time.
async fn talk(slack: &Arc<SlackEmulator>, count: usize) {
    let seen = slack.with_state(|state| state.messages.len());
    let talkers = (0..AT_ONCE).map(|talker| {
        let slack = Arc::clone(slack);
        tokio::spawn(async move {
            for number in (talker..count).step_by(AT_ONCE) {
                let text = format!("@drydock which environments are there? {number}");
                let said = slack.say(slack::PERSON, "C0BENCH", &text).await.unwrap();
                let done = slack.wait_until(|state| {
                    let mut new = state.messages.iter().skip(seen).rev();
                    new.find(|message| {
                        message.thread_ts.as_deref() == Some(said.ts.as_str())
                            && message.text.contains("300 environments")
                    })
                    .map(|_| ())
                });
                done.await.expect("an answer in 10 s");
            }
        })
    });
    for talker in talkers.collect::<Vec<_>>() {
        talker.await.unwrap();
    }
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
    slack.add_user(slack::PERSON);
    slack.add_channel("C0BENCH", &[slack::PERSON]);
    slack
}
