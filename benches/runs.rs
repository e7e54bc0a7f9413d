//! Measures pipelines and their runs: `cargo bench --bench runs`.
//!
//! The real gateway runs between the emulators, in this process, on loopback. First, the pipelines that people can start are
//! listed for each of 100 repositories with 100 pipelines each, after they were read once. Then a person starts runs in the
//! emulated Slack, and the same agent step runs without a pipeline, as a turn. (a) runs from the moment the event is sent until
//! the emulated model has read the request. (b) runs from the moment it writes the last byte of its answer until the message
//! of the run shows the end, or the result of the turn is in its thread. The model answers at once, so (a + b) of a run
//! without that of a turn is what the run adds to its step.
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
use drydock::simulation::demo::repository::HOOK_PROMPT;
use drydock::simulation::emulator::model::{ModelRequest, says};
use drydock::state::access::Role;
use drydock::state::store::RunWork;
use jiff::Timestamp;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use support::{Times, fsync_floor, header, millis, repository, row, standstill, value};
use tokio_util::sync::CancellationToken;

const REPOSITORIES: usize = 100;
const PIPELINES: usize = 100;
const LISTS: usize = 40;
const RUNS: usize = 400;
/// The number of agent steps of the long pipeline.
const STEPS: usize = 5;
const PERSON: &str = "U0ALICE";
const CHANNEL: &str = "C0BENCH";
const ANSWER: &str = "There are three environments.";
const FILE: &str = ".drydock/pipelines.yaml";
/// The words of the message of a run that has succeeded.
const SUCCEEDED: &str = "on infra: succeeded";

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
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    header("runs");
    let (lists, runs) = if is_quick { (10, 60) } else { (LISTS, RUNS) };
    lists_of_pipelines(lists).await;
    let bench = RunBench::build().await;
    bench.compare(runs).await;
    bench.replies(runs / 4).await;
    bench.close().await;
}

/// Measures the list of the pipelines of all repositories.
async fn lists_of_pipelines(lists: usize) {
    let directory = tempfile::tempdir().unwrap();
    let settings = (0..REPOSITORIES).map(|number| {
        let path = directory.path().join(format!("r{number}.git"));
        repository::of(&path, [(FILE.to_owned(), many(number))].into_iter());
        (format!("repositories.r{number}.path"), path.display().to_string())
    });
    let settings: Vec<(String, String)> = settings.collect();
    let settings: Vec<(&str, &str)> = settings
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .chain([("sandbox.renders_ahead", "false")])
        .collect();
    let script = |_: &ModelRequest| says(ANSWER);
    let mut environment = DemoEnvironment::build(script, host(), &settings).await.unwrap();
    let first = listed(&environment).await;
    row(
        "10,000 pipelines in 100 repositories, read and listed",
        &Times::new(vec![first]),
        "",
    );
    let mut times = Vec::new();
    for _ in 0..lists {
        times.push(listed(&environment).await);
    }
    row(
        "10,000 pipelines in 100 repositories, listed",
        &Times::new(times),
        "<= 50 ms",
    );
    environment.stop().await;
}

/// Lists the pipelines of each repository, as the command `run` in a chat does for one. Returns the time.
async fn listed(environment: &DemoEnvironment) -> Duration {
    let runs = &environment.app.as_ref().unwrap().gateway.runs;
    let cancel = CancellationToken::new();
    let began = Instant::now();
    let mut count = 0;
    for number in 0..REPOSITORIES {
        let startable = runs.startable(&format!("r{number}"), &cancel).await;
        count += startable.unwrap().len();
    }
    let took = began.elapsed();
    assert_eq!(count, REPOSITORIES * PIPELINES);
    took
}

/// Returns the file of a repository with many pipelines.
fn many(repository: usize) -> String {
    let pipeline = |number: usize| {
        format!(
            "  pipeline-{number}:\n    description: Looks at part {number} of repository {repository}, and says what it is.\n    \
             triggers: [{{chat: {{}}}}]\n    params: {{number: {{type: integer, default: {number}}}}}\n    \
             concurrency: {{group: \"${{params.number}}\", on_conflict: cancel}}\n    steps:\n      \
             - {{name: look, agent: {{prompt: Look at it., params: {{number: \"${{params.number}}\"}}}}}}\n      \
             - {{name: sum, agent: {{prompt: Sum it up., params: {{seen: \"${{steps.look.output}}\"}}}}}}\n"
        )
    };
    let pipelines: String = (0..PIPELINES).map(pipeline).collect();
    format!("defaults: {{model: anthropic/demo}}\npipelines:\n{pipelines}")
}

/// Returns the file of the repository whose pipelines are started.
fn started() -> String {
    let steps: String = (0..STEPS)
        .map(|number| {
            format!("      - {{name: look_{number}, agent: {{prompt: Which environments are there?}}}}\n")
        })
        .collect();
    format!(
        "defaults: {{model: anthropic/demo}}\npermissions: {{role: viewer}}\npipelines:\n  one:\n    triggers: [{{chat: {{}}}}]\n    \
         steps: [{{name: look, agent: {{prompt: Which environments are there?}}}}]\n  several:\n    triggers: [{{chat: {{}}}}]\n    \
         steps:\n{steps}  reply:\n    triggers: [{{chat: {{}}}}]\n    \
         steps: [{{name: tell, reply: {{to: \"channel:slack:{CHANNEL}\", text: Nothing to do.}}}}]\n"
    )
}

/// The times of one run or turn: before the model, between its answers, and after it.
struct RunTimes {
    before: Duration,
    between: Vec<Duration>,
    after: Duration,
}

struct RunBench {
    environment: DemoEnvironment,
    moments: Moments,
    /// The directory of the repository.
    directory: tempfile::TempDir,
}

impl RunBench {
    async fn build() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let git = directory.path().join("infra.git");
        let files = [
            (FILE.to_owned(), started()),
            (HOOK_PROMPT.to_owned(), "Nothing.\n".to_owned()),
        ];
        repository::of(&git, files.into_iter());
        let moments = Moments::default();
        let reported = Arc::clone(&moments);
        let script = move |asked: &ModelRequest| {
            let moment = (asked.at, Arc::clone(&asked.answered_at));
            reported.lock().unwrap().push(moment);
            says(ANSWER)
        };
        let path = git.display().to_string();
        let targets = format!("[\"channel:slack:{CHANNEL}\"]");
        let settings = [
            ("repositories.infra.path", path.as_str()),
            ("pipelines.reply_targets", targets.as_str()),
            ("sandbox.renders_ahead", "false"),
        ];
        let environment = DemoEnvironment::build(script, host(), &settings).await.unwrap();
        admit(&environment).await;
        Self {
            environment,
            moments,
            directory,
        }
    }

    /// Compares runs of one agent step with turns, and measures the time between the steps of longer runs.
    async fn compare(&self, count: usize) {
        for number in 0..10 {
            self.one(&format!("which environments are there? {number}"), ANSWER)
                .await;
            self.one("!run one", SUCCEEDED).await;
        }
        let (mut turns, mut runs) = (Vec::new(), Vec::new());
        // Alternately, because the speed of the machine varies.
        for number in 0..count {
            let turn = format!("which environments are there, please? {number}");
            turns.push(self.one(&turn, ANSWER).await);
            runs.push(self.one("!run one", SUCCEEDED).await);
        }
        let turn = added("a turn", &turns);
        let run = added("a run of one agent step", &runs);
        value(
            "a run adds to its agent step (p50 of a + b)",
            millis(run.p50()) - millis(turn.p50()),
            "ms",
            "<= 5",
        );
        let mut between = Vec::new();
        for _ in 0..(count / STEPS).max(10) {
            between.extend(self.one("!run several", SUCCEEDED).await.between);
        }
        row(
            "from the last byte of a step to the request of the next",
            &Times::new(between),
            "<= 5 ms",
        );
    }

    /// Measures runs that have no agent step: all of their time is that of the run and of Slack.
    async fn replies(&self, count: usize) {
        let mut times = Vec::new();
        for _ in 0..count {
            let slack = &self.environment.slack;
            let said = slack.say(PERSON, CHANNEL, "@drydock !run reply").await.unwrap();
            let shown = self.shown(&said.ts, SUCCEEDED).await;
            times.push(shown - said.sent_at);
            self.rest().await;
        }
        row(
            "a run of one reply: event sent to its end shown",
            &Times::new(times),
            "",
        );
    }

    /// Starts a turn or a run in a thread of its own, and waits until these words are shown there.
    async fn one(&self, words: &str, shown: &str) -> RunTimes {
        let slack = &self.environment.slack;
        let asked = self.moments.lock().unwrap().len();
        let said = slack
            .say(PERSON, CHANNEL, &format!("@drydock {words}"))
            .await
            .unwrap();
        let shown_at = self.shown(&said.ts, shown).await;
        let moments = self.moments.lock().unwrap().split_off(asked);
        let answered = |moment: &(Instant, Arc<OnceLock<Instant>>)| *moment.1.get().expect("a whole answer");
        let (first, last) = (moments.first().unwrap(), moments.last().unwrap());
        let times = RunTimes {
            before: first.0 - said.sent_at,
            between: moments
                .windows(2)
                .map(|pair| pair[1].0 - answered(&pair[0]))
                .collect(),
            after: shown_at - answered(last),
        };
        self.rest().await;
        times
    }

    /// Waits until a message of a thread shows these words. Returns the time at which it was written.
    async fn shown(&self, thread: &str, words: &str) -> Instant {
        let shown = self.environment.slack.wait_until(|state| {
            let mut replies = state.replies(CHANNEL, thread);
            replies
                .find(|message| message.visible().concat().contains(words))
                .map(|message| message.shown_at)
        });
        shown.await.expect("the words in 10 s")
    }

    /// Waits until everything is delivered and every run has ended, so that they do not overlap.
    async fn rest(&self) {
        let store = &self.environment.app.as_ref().unwrap().admin.store;
        let started = Instant::now();
        while store.unsent_count("slack").await.unwrap() > 0
            || store.run_work(Timestamp::now(), 1).await.unwrap() != RunWork::default()
        {
            assert!(started.elapsed().as_secs() < 10, "something never ends");
            tokio::task::yield_now().await;
        }
    }

    async fn close(mut self) {
        row(
            "floor: 4 KiB append and fdatasync",
            &fsync_floor(self.directory.path()),
            "",
        );
        standstill();
        assert_eq!(self.environment.slack.problems(), Vec::<String>::new());
        assert_eq!(self.environment.model.problems(), Vec::<String>::new());
        self.environment.stop().await;
    }
}

/// Prints the times that Drydock adds, and returns those before and after the model together.
fn added(what: &str, times: &[RunTimes]) -> Times {
    let of = |of: fn(&RunTimes) -> Duration| Times::new(times.iter().map(of).collect());
    row(
        &format!("{what}: event sent to model asked (a)"),
        &of(|times| times.before),
        "",
    );
    row(
        &format!("{what}: model's last byte to its end shown (b)"),
        &of(|times| times.after),
        "",
    );
    let both = of(|times| times.before + times.after);
    row(&format!("{what}: a + b"), &both, "");
    both
}

async fn admit(environment: &DemoEnvironment) {
    environment.slack.add_user(PERSON);
    environment.slack.add_channel(CHANNEL, &[PERSON]);
    let request = AdminRequest::Invite {
        name: "alice".to_owned(),
        role: Role::Editor,
        repositories: "*".to_owned(),
        environments: vec!["**".to_owned()],
        hours: 1,
    };
    let app = environment.app.as_ref().unwrap();
    let AdminReply::Invite { token, .. } = app.admin.answer(request).await else {
        panic!("no invite")
    };
    environment
        .slack
        .dm(PERSON, &format!("join {token}"))
        .await
        .unwrap();
    let welcome = environment.slack.wait_until(|state| {
        let mut messages = state.messages.iter();
        messages
            .find(|message| message.text.contains("You're in"))
            .map(|_| ())
    });
    welcome.await.expect("a welcome");
}

fn host() -> Host {
    Host {
        now: Timestamp::now,
        random,
        // Programs run in processes of the real program. This process would start the benchmark again.
        program: worker_program,
        host_overrides: &[],
    }
}

fn worker_program() -> ProgramPath {
    ProgramPath::at(env!("CARGO_BIN_EXE_drydock"))
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}
