//! Measures the time that the gateway adds to one turn of a model that answers at once: `cargo bench --bench turn`.
//!
//! A person writes in the emulated Slack. (a) runs from the moment the event is sent until the emulated model has read
//! the request. (b) runs from the moment it writes the last byte of its answer until the whole result is in the thread,
//! which is two Slack calls later. The emulators record all four moments. Everything runs in this process, on loopback,
//! with the real gateway and its durable store. The times include the work of the emulators. `--set=KEY=VALUE` sets a key
//! of the configuration, for example `--set=limits.history_turns_max=40`.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

mod support;

use drydock::engine::admin::{AdminReply, AdminRequest};
use drydock::rendering::sandbox::ProgramPath;
use drydock::server::app::Host;
use drydock::simulation::demo::environment::DemoEnvironment;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, says};
use drydock::state::access::Role;
use jiff::Timestamp;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use support::{Times, fsync_floor, header, row, standstill, value};

const TURNS: usize = 1_000;
const PERSON: &str = "U0ALICE";
const CHANNEL: &str = "C0BENCH";
/// The word that makes the model answer slowly.
const SLOWLY: &str = "slowly";
const ANSWER: &str = "There are three environments.";
const TARGET: &str = "p50 <= 2 ms, p99 <= 10 ms";

/// The word that makes the model write a long answer and stop in the middle of it.
const AT_LENGTH: &str = "at length";
/// The bytes of the long answer that arrive.
const ARRIVING_BYTES: usize = 2_000;
/// The word that makes the model begin its long answer when the card is already shown.
const LATE: &str = "late";
/// The time until then.
const CARD_IS_SHOWN: Duration = Duration::from_millis(700);

/// The time of the model in turns with a card.
const THOUGHT: Duration = Duration::from_millis(500);
/// The number of turns with the slow model.
const SLOW_TURNS: usize = 40;

/// The time each request reached the model, and the time its answer was complete.
type Moments = Arc<Mutex<Vec<(Instant, Arc<OnceLock<Instant>>)>>>;

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
    let moments = Moments::default();
    let reported = Arc::clone(&moments);
    let script = move |asked: &ModelRequest| {
        reported
            .lock()
            .unwrap()
            .push((asked.at, Arc::clone(&asked.answered_at)));
        let text = asked.last_user_text();
        if text.contains(AT_LENGTH) {
            let bytes = ARRIVING_BYTES;
            let stall = match text.contains(LATE) {
                true => AnswerFault::StallLate {
                    delay: CARD_IS_SHOWN,
                    bytes,
                },
                false => AnswerFault::StallAfter(bytes),
            };
            return says(format!("{ANSWER} ").repeat(100)).with_fault(stall);
        }
        match text.contains(SLOWLY) {
            true => says(ANSWER).with_fault(AnswerFault::Delay(THOUGHT)),
            false => says(ANSWER),
        }
    };
    let world = Host {
        now: Timestamp::now,
        random,
        // The newest commit is prerendered in processes of the real program. This process would start the benchmark
        // again.
        program: worker_program,
        host_overrides: &[],
    };
    let settings: Vec<String> = std::env::args().collect();
    let settings = settings
        .iter()
        .filter_map(|argument| argument.strip_prefix("--set=")?.split_once('='));
    let settings: Vec<(&str, &str)> = settings.collect();
    let demo = DemoEnvironment::build(script, world, &settings).await.unwrap();
    admit(&demo).await;
    header("turn");
    let bench = TurnBench {
        environment: demo,
        moments,
    };
    let turns = if std::env::args().any(|argument| argument == "--quick") {
        100
    } else {
        TURNS
    };
    bench
        .turns("a new conversation each", turns, "", &ConversationMode::NewThread)
        .await;
    let thread = bench
        .one(&ConversationMode::NewThread, "the first of many")
        .await
        .thread;
    let place = ConversationMode::Thread(thread);
    bench.turns("one conversation", turns, "", &place).await;
    let slow = turns.min(SLOW_TURNS);
    bench
        .turns(
            "a model that takes 500 ms",
            slow,
            SLOWLY,
            &ConversationMode::NewThread,
        )
        .await;
    for (what, when) in [
        ("words from the model to a new card", ""),
        ("words from the model to a card that is shown", LATE),
    ] {
        let words = bench.first_words(slow, when).await;
        row(what, &Times::new(words), "<= 300 ms");
    }
    row(
        "floor: 4 KiB append and fdatasync",
        &fsync_floor(bench.environment.directory()),
        "",
    );
    standstill();
    assert_eq!(bench.environment.slack.problems(), Vec::<String>::new());
    assert_eq!(bench.environment.model.problems(), Vec::<String>::new());
    let TurnBench {
        environment: mut demo,
        ..
    } = bench;
    demo.stop().await;
}

enum ConversationMode {
    NewThread,
    Thread(String),
}

/// The times of one turn before and after the model, and its thread.
struct TurnTimes {
    before: Duration,
    after: Duration,
    thread: String,
}

struct TurnBench {
    environment: DemoEnvironment,
    moments: Moments,
}

impl TurnBench {
    async fn turns(&self, what: &str, count: usize, how: &str, place: &ConversationMode) {
        for number in 0..10 {
            self.one(place, &format!("warm up {number} {how}")).await;
        }
        let (mut before, mut after, mut both) = (Vec::new(), Vec::new(), Vec::new());
        let cpu = support::cpu("/proc/self/stat");
        let started = Instant::now();
        for number in 0..count {
            let took = self
                .one(place, &format!("which environments are there? {number} {how}"))
                .await;
            before.push(took.before);
            after.push(took.after);
            both.push(took.before + took.after);
        }
        let took = started.elapsed();
        row(
            &format!("{what}: event sent to model asked (a)"),
            &Times::new(before),
            "",
        );
        row(
            &format!("{what}: model's last byte to whole result (b)"),
            &Times::new(after),
            "",
        );
        // The target applies to a model that answers at once.
        let target = if how == SLOWLY { "" } else { TARGET };
        row(
            &format!("{what}: added per turn (a + b)"),
            &Times::new(both.clone()),
            target,
        );
        let last = both.split_off(count - count / 10);
        row(&format!("{what}: the last tenth of them"), &Times::new(last), "");
        let rate = count as f64 / took.as_secs_f64();
        value(&format!("{what}: turns one after another"), rate, "turns/s", "");
        value(
            &format!("{what}: CPU of gateway and emulators"),
            support::millis(support::cpu("/proc/self/stat") - cpu) / count as f64,
            "ms/turn",
            "",
        );
    }

    /// Runs one turn, from the event to the whole result.
    async fn one(&self, place: &ConversationMode, text: &str) -> TurnTimes {
        let slack = &self.environment.slack;
        let (seen, asked) = (
            slack.with_state(|state| state.messages.len()),
            self.moments.lock().unwrap().len(),
        );
        let answered = slack.wait_until(|state| {
            let mut new = state.messages.iter().skip(seen);
            new.find(|message| message.text.contains(ANSWER)).cloned()
        });
        let (said, answered) = tokio::join!(
            async {
                match place {
                    ConversationMode::NewThread => {
                        slack.say(PERSON, CHANNEL, &format!("@drydock {text}")).await
                    }
                    ConversationMode::Thread(root) => {
                        slack.reply_in_thread(PERSON, CHANNEL, root, text).await
                    }
                }
            },
            answered
        );
        let said = said.unwrap();
        assert!(said.answers.iter().all(|answer| answer.status == 200));
        let message = answered.expect("an answer in 10 s");
        let thread = match place {
            ConversationMode::NewThread => said.ts,
            ConversationMode::Thread(root) => root.clone(),
        };
        assert_eq!(message.thread_ts.as_ref(), Some(&thread));
        let (read, answered) = {
            let moments = self.moments.lock().unwrap();
            assert_eq!(moments.len(), asked + 1, "one model request per turn");
            let (read, answered) = &moments[asked];
            (*read, *answered.get().expect("an answer that was written"))
        };
        self.rest().await;
        TurnTimes {
            before: read - said.sent_at,
            after: message.shown_at - answered,
            thread,
        }
    }

    /// Returns the times from the first words of the model until they are on a card in Slack.
    async fn first_words(&self, count: usize, when: &str) -> Vec<Duration> {
        let slack = &self.environment.slack;
        let mut times = Vec::new();
        for number in 0..count {
            let asked = self.moments.lock().unwrap().len();
            let words = format!("@drydock tell me {AT_LENGTH} {when} {number}");
            let thread = slack.say(PERSON, CHANNEL, &words).await.unwrap().ts;
            let shown = |text: &'static str| {
                let thread = thread.clone();
                slack.wait_until(move |state| {
                    let mut messages = state.messages.iter();
                    let here = |thread_ts: &Option<String>| thread_ts.as_ref() == Some(&thread);
                    messages
                        .find(|message| here(&message.thread_ts) && message.text.contains(text))
                        .map(|_| ())
                })
            };
            shown(ANSWER).await.expect("words on a card");
            let seen_at = Instant::now();
            let written_at = *self.moments.lock().unwrap()[asked].1.get().unwrap();
            times.push(seen_at - written_at);
            slack
                .reply_in_thread(PERSON, CHANNEL, &thread, "stop")
                .await
                .unwrap();
            shown("Stopped").await.expect("the end of the turn");
            self.rest().await;
        }
        times
    }

    /// Waits until all messages are delivered, so that turns do not overlap.
    async fn rest(&self) {
        let store = &self.environment.app.as_ref().unwrap().admin.store;
        let started = Instant::now();
        while store.unsent_count("slack").await.unwrap() > 0 {
            assert!(started.elapsed().as_secs() < 10, "something is never delivered");
            tokio::task::yield_now().await;
        }
    }
}

async fn admit(demo: &DemoEnvironment) {
    demo.slack.add_user(PERSON);
    demo.slack.add_channel(CHANNEL, &[PERSON]);
    let request = AdminRequest::Invite {
        name: "alice".to_owned(),
        role: Role::Editor,
        repositories: "*".to_owned(),
        environments: vec!["**".to_owned()],
        hours: 1,
    };
    let AdminReply::Invite { token, .. } = demo.app.as_ref().unwrap().admin.answer(request).await else {
        panic!("no invite")
    };
    demo.slack.dm(PERSON, &format!("join {token}")).await.unwrap();
    let welcome = demo.slack.wait_until(|state| {
        state
            .messages
            .iter()
            .find(|message| message.text.contains("You're in"))
            .map(|_| ())
    });
    welcome.await.expect("a welcome");
}

fn worker_program() -> ProgramPath {
    ProgramPath::at(env!("CARGO_BIN_EXE_drydock"))
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}
