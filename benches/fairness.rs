//! Measures one person's wait for a change while another evaluates endless programs: `cargo bench --bench fairness`.
//!
//! One person asks in the emulated Slack for one-line changes, one after another, each in a separate thread. Each takes
//! two requests to a model that answers at once, an edit, and the comparison of the environment. A change is timed from
//! the moment its event is sent until the whole result is in the thread. The first run has no other user. In the next
//! runs, another person has several conversations open. The model of each evaluates fifteen endless programs per
//! answer, as often as a turn allows. None of those conversations ends before the last change. Everything except the
//! sandbox runs in this process, on loopback, with the real gateway and its durable store.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

mod support;

use drydock::engine::admin::{AdminReply as AdminAnswer, AdminRequest};
use drydock::rendering::sandbox::ProgramPath;
use drydock::server::app::Host;
use drydock::simulation::demo::environment::DemoEnvironment;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use drydock::simulation::emulator::slack::SlackState;
use drydock::state::access::Role;
use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;
use std::time::{Duration, Instant};
use support::{Times, header, row, standstill, value};

const PERSON: &str = "U0ALICE";
const ABUSER: &str = "U0MALLORY";
const CHANNEL: &str = "C0BENCH";
/// The number of changes. The first few are not counted.
const CHANGES: usize = 200;
const CHANGES_QUICK: usize = 60;
const WARM_UP: usize = 5;
/// The numbers of simultaneous conversations of the abuser: fewer and more than the sandbox has places.
const CONVERSATIONS: [usize; 2] = [4, 24];
/// The number of tool calls in each answer of the abuser's model.
const CALLS: usize = 5;
/// The longest a change may take before the benchmark fails.
const CHANGE_MAX: Duration = Duration::from_secs(60);
const TARGET: &str = "p99 <= 2 s";
/// The text that marks a message of the abuser.
const ABUSE: &str = "without end";
const DONE: &str = "It has 3 replicas.";
const ENDLESS: &str = "local f(n) = if n == 0 then 0 else f(n - 1) + f(n - 1); f(60)\n";

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
    let count = match std::env::args().any(|argument| argument == "--quick") {
        true => CHANGES_QUICK,
        false => CHANGES,
    };
    header("fairness");
    changes("nobody else", count, 0, "").await;
    for conversations in CONVERSATIONS {
        let what = format!("beside {conversations} conversations of endless programs");
        changes(&what, count, conversations, TARGET).await;
    }
    standstill();
}

/// Times `count` changes in a new demo environment, with `conversations` simultaneous conversations of an abuser.
async fn changes(what: &str, count: usize, conversations: usize, target: &str) {
    let world = Host {
        now: Timestamp::now,
        random,
        program: worker_program,
        host_overrides: &[],
    };
    let settings = [("limits.identical_calls_max", "20"), ("limits.steps_max", "200")];
    let mut demo = DemoEnvironment::build(script, world, &settings).await.unwrap();
    demo.slack.add_channel(CHANNEL, &[PERSON, ABUSER]);
    admit(&demo, PERSON).await;
    admit(&demo, ABUSER).await;
    for number in 0..conversations {
        let words = format!("@drydock {ABUSE}, conversation {number}");
        demo.slack.say(ABUSER, CHANNEL, &words).await.unwrap();
    }
    let mut times = Vec::new();
    for number in 0..WARM_UP + count {
        let took = change(&demo, number).await;
        if number >= WARM_UP {
            times.push(took);
        }
    }
    assert_eq!(
        in_work(&demo),
        conversations,
        "the abuser was done before the person was"
    );
    assert_eq!(demo.slack.problems(), Vec::<String>::new());
    assert_eq!(demo.model.problems(), Vec::<String>::new());
    let times = Times::new(times);
    row(&format!("{what}: a one-line change"), &times, target);
    value(
        &format!("{what}: the slowest"),
        support::millis(times.at(1_000)),
        "ms",
        "",
    );
    demo.stop().await;
}

/// Times one change, from its event to the whole result.
async fn change(demo: &DemoEnvironment, number: usize) -> Duration {
    let words = format!("@drydock set web to 3 replicas in staging, change {number}");
    let said = demo.slack.say(PERSON, CHANNEL, &words).await.unwrap();
    let started = Instant::now();
    while started.elapsed() < CHANGE_MAX {
        let shown = demo.slack.wait_until(|state| result_in(state, &said.ts));
        if let Some(shown_at) = shown.await {
            return shown_at - said.sent_at;
        }
    }
    panic!("change {number} is not answered within {CHANGE_MAX:?}");
}

/// Returns the moment the result of a thread was shown.
fn result_in(state: &SlackState, thread: &str) -> Option<Instant> {
    let mut replies = state.replies(CHANNEL, thread);
    let result = replies.find(|message| message.visible().join("\n").contains(DONE))?;
    Some(result.shown_at)
}

/// Counts the messages without an answer.
fn in_work(demo: &DemoEnvironment) -> usize {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(demo.data().join("drydock.db"), flags).unwrap();
    database.busy_timeout(CHANGE_MAX).unwrap();
    let open = "SELECT count(*) FROM inbox WHERE done_at IS NULL";
    let open: i64 = database.query_row(open, [], |row| row.get(0)).unwrap();
    usize::try_from(open).unwrap()
}

/// Returns the next answer of the model. Each step of a turn follows from the last request.
fn script(asked: &ModelRequest) -> ScriptedAnswer {
    let is_abuse = asked.messages.iter().any(|message| message.text.contains(ABUSE));
    let is_first = asked.last_results().is_empty();
    match (is_abuse, is_first) {
        (false, true) => calls(
            "file_edit",
            json!({ "path": "environments/staging/main.jsonnet", "old": "replicas: 2,\n    memory: '256Mi'", "new": "replicas: 3,\n    memory: '256Mi'" }),
        ),
        (false, false) => says(DONE),
        (true, true) => calls(
            "file_write",
            json!({ "path": "environments/dev/main.jsonnet", "content": ENDLESS }),
        ),
        (true, false) => endless(),
    }
}

fn endless() -> ScriptedAnswer {
    let environment = json!({ "env_path": "environments/dev" });
    let file = json!({ "file_path": "environments/dev/main.jsonnet" });
    let mut answer = says("");
    for _ in 0..CALLS {
        answer = answer
            .with_call("tanka_show", environment.clone())
            .with_call("tanka_diff", environment.clone())
            .with_call("tanka_validate_jsonnet", file.clone());
    }
    answer
}

async fn admit(demo: &DemoEnvironment, user: &str) {
    demo.slack.add_user(user);
    let request = AdminRequest::Invite {
        name: user.to_owned(),
        role: Role::Editor,
        repositories: "*".to_owned(),
        environments: vec!["**".to_owned()],
        hours: 1,
    };
    let AdminAnswer::Invite { token, .. } = demo.app.as_ref().unwrap().admin.answer(request).await else {
        panic!("no invite")
    };
    demo.slack.dm(user, &format!("join {token}")).await.unwrap();
    let direct = format!("D{user}");
    let welcome = demo.slack.wait_until(|state| {
        let mut messages = state.messages.iter();
        messages
            .any(|message| message.channel == direct && message.text.contains("You're in"))
            .then_some(())
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
