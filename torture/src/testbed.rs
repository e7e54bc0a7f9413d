//! Slack, the model, a repository and the program between them, which is ended and started again. Slack and the model
//! live in this process, so they keep their state across restarts.

use crate::git_server::GitServer;
use crate::model::HoldableModel;
use crate::program::{BOT_TOKEN, SIGNING_SECRET, START_MAX, ServerLaunch, ServerProcess};
use crate::reserved_address::ReservedAddress;
use anyhow::{Context, bail};
use drydock::simulation::emulator::slack::{
    GatewayResponse, RateLimits, Retry, SayError, SlackEmulator, SlackOptions,
};
use jiff::Timestamp;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::watch;

pub(crate) const CHANNEL: &str = "C0PLATFORM";
/// The channel where events of hooks are answered.
pub(crate) const HOOK_CHANNEL: &str = "C0RELEASES";
pub(crate) const BOT: &str = "U0DRYDOCK";
/// The number of times Slack sends an event again.
const RETRIES: u8 = 3;
/// The time a delivery waits for a stopped program. It replaces the minutes that Slack waits.
const UP_MAX: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The seconds by which the clock of Slack is ahead of the machine's.
static SLACK_CLOCK: AtomicI64 = AtomicI64::new(0);

/// The options of a testbed.
#[derive(Clone, Debug)]
pub(crate) struct TestbedOptions {
    pub(crate) binary: PathBuf,
    /// The number of people, who are invited before anything else happens.
    pub(crate) people: usize,
    /// The longest time an answer of the model takes.
    pub(crate) slowest_answer: Duration,
    /// The sections of the configuration beside the usual ones.
    pub(crate) sections: String,
    /// The files of the repository beside those of the demo, with their texts.
    pub(crate) files: Vec<(&'static str, String)>,
    /// The lines of `[limits]`.
    pub(crate) limits: &'static str,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) open_files_max: Option<u64>,
    /// True if the repository is a mirrored remote, which needs git.
    pub(crate) is_remote: bool,
    /// The data directory, if it is not beside the rest.
    pub(crate) data: Option<PathBuf>,
    pub(crate) rate_limits: RateLimits,
    /// The time within which an acknowledged message must have its outcome while the program runs.
    pub(crate) patience: Duration,
    /// True if the storage below the program fails in the scenario, so that a turn may report a failure.
    pub(crate) may_fail: bool,
}

/// Slack, the model and the program.
pub(crate) struct Testbed {
    pub(crate) slack: SlackEmulator,
    pub(crate) model: HoldableModel,
    pub(crate) launch: Mutex<ServerLaunch>,
    /// The address of the program for all its starts, because the platforms know it.
    _reserved: ReservedAddress,
    people: usize,
    pub(crate) patience: Duration,
    pub(crate) may_fail: bool,
    program: tokio::sync::Mutex<Option<ServerProcess>>,
    /// The time since which the program runs.
    up: watch::Sender<Option<Instant>>,
    /// The number of acknowledged messages.
    acknowledged: watch::Sender<usize>,
    starts: AtomicUsize,
    ends: AtomicUsize,
    slowest_start: Mutex<Duration>,
    began: Instant,
    journal: Mutex<String>,
    violations: Mutex<Vec<String>>,
    directory: TempDir,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn slack_clock() -> Timestamp {
    let ahead = jiff::SignedDuration::from_secs(SLACK_CLOCK.load(Ordering::SeqCst));
    let now = Timestamp::now();
    now.checked_add(ahead).unwrap_or(now)
}

/// Sets the error of Slack's clock in seconds. Concurrent testbeds share it.
pub(crate) fn step_slack_clock(seconds: i64) {
    SLACK_CLOCK.store(seconds, Ordering::SeqCst);
}

/// Returns the user id of a person, by number.
pub(crate) fn person(number: usize) -> String {
    format!("U0PERSON{number}")
}

impl Testbed {
    /// Builds Slack, the model and a configuration. The program does not run yet, and no person is admitted.
    pub(crate) async fn build(plan: TestbedOptions) -> anyhow::Result<Self> {
        let directory = TempDir::with_prefix("drydock-torture-")?;
        create_repository(&directory.path().join("infra.git"), &plan.files)?;
        let slack = SlackEmulator::start(SlackOptions {
            team: "T0ACME".to_owned(),
            bot_user: BOT.to_owned(),
            bot_name: "drydock".to_owned(),
            bot_token: BOT_TOKEN.to_owned(),
            signing_secret: SIGNING_SECRET.to_owned(),
            rate_limits: plan.rate_limits,
            at: slack_clock,
            http: drydock::base::http_client::api_client()?,
        })
        .await?;
        let people: Vec<String> = (0..plan.people).map(person).collect();
        let people: Vec<&str> = people.iter().map(String::as_str).collect();
        slack.add_channel(CHANNEL, &people);
        slack.add_channel(HOOK_CHANNEL, &people);
        let model = HoldableModel::start(plan.slowest_answer)?;
        let reserved = ReservedAddress::reserve()?;
        let launch = ServerLaunch {
            binary: plan.binary,
            data: plan.data.unwrap_or_else(|| directory.path().join("data")),
            directory: directory.path().to_owned(),
            address: reserved.address,
            environment: plan.environment,
            open_files_max: plan.open_files_max,
        };
        let repository = match plan.is_remote {
            true => {
                let server = GitServer::start(directory.path()).context("git is not here")?;
                format!("url = \"{}infra.git\"", server.address)
            }
            false => format!("path = \"{}/infra.git\"", directory.path().display()),
        };
        launch.write_config(&config(
            &launch,
            (&slack, plan.rate_limits),
            &model,
            &repository,
            (&plan.sections, plan.limits),
        ))?;
        slack.connect_to(&format!("http://{}/in/slack", launch.address));
        Ok(Self {
            slack,
            model,
            launch: Mutex::new(launch),
            _reserved: reserved,
            people: plan.people,
            patience: plan.patience,
            may_fail: plan.may_fail,
            program: tokio::sync::Mutex::default(),
            up: watch::Sender::new(None),
            acknowledged: watch::Sender::new(0),
            starts: AtomicUsize::new(0),
            ends: AtomicUsize::new(0),
            slowest_start: Mutex::default(),
            began: Instant::now(),
            journal: Mutex::default(),
            violations: Mutex::default(),
            directory,
        })
    }

    /// Builds a testbed like [`Testbed::build`], with the program running and all people admitted.
    pub(crate) async fn start_with_people(plan: TestbedOptions) -> anyhow::Result<Self> {
        let world = Self::build(plan).await?;
        world.start().await?;
        world.invite_all().await?;
        Ok(world)
    }

    /// Invites all people.
    pub(crate) async fn invite_all(&self) -> anyhow::Result<()> {
        for number in 0..self.people {
            self.invite(number).await?;
        }
        Ok(())
    }

    async fn invite(&self, number: usize) -> anyhow::Result<()> {
        let token = self.launch().invite(&format!("person {number}"))?;
        self.slack.dm(&person(number), &format!("join {token}")).await?;
        let channel = format!("D{}", person(number));
        let welcome = self.slack.wait_until(|state| {
            let mut messages = state.messages.iter();
            messages.find(|message| {
                message.channel == channel && message.visible().concat().contains("You're in")
            })?;
            Some(())
        });
        welcome.await.context("an invited person was not welcomed")
    }

    pub(crate) fn launch(&self) -> ServerLaunch {
        lock(&self.launch).clone()
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Sets or removes an environment variable of the next starts.
    pub(crate) fn set_variable(&self, name: &str, value: Option<&str>) {
        let mut launch = lock(&self.launch);
        launch.environment.retain(|(known, _)| known != name);
        launch
            .environment
            .extend(value.map(|value| (name.to_owned(), value.to_owned())));
    }

    /// Starts the program and waits until it is ready. R1: in time.
    pub(crate) async fn start(&self) -> anyhow::Result<()> {
        match self.start_unless_it_ends().await? {
            true => Ok(()),
            false => bail!(
                "the program ended while it started; its log ends with\n{}",
                self.log_tail().await
            ),
        }
    }

    /// Starts the program like [`Testbed::start`]. Returns false if it ended before it was ready, as at a crash point.
    pub(crate) async fn start_unless_it_ends(&self) -> anyhow::Result<bool> {
        let began = Instant::now();
        let number = self.starts.fetch_add(1, Ordering::SeqCst) + 1;
        let launch = self.launch();
        *self.program.lock().await = Some(launch.start(number)?);
        self.note(&format!("start {number}"));
        let client = drydock::base::http_client::api_client()?;
        let url = format!("http://{}/readyz", launch.address);
        loop {
            if client
                .get(&url)
                .send()
                .await
                .is_ok_and(|answer| answer.status().is_success())
            {
                break;
            }
            if self.has_ended().await? {
                return Ok(false);
            }
            if began.elapsed() > START_MAX * 4 {
                bail!(
                    "not ready {} s after a start; its log ends with\n{}",
                    began.elapsed().as_secs(),
                    self.log_tail().await
                );
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let elapsed = began.elapsed();
        if elapsed > START_MAX {
            self.report_violation(format!(
                "the first answer came {:.1} s after a start",
                elapsed.as_secs_f64()
            ));
        }
        let mut slowest = lock(&self.slowest_start);
        *slowest = slowest.max(elapsed);
        drop(slowest);
        self.up.send_replace(Some(Instant::now()));
        Ok(true)
    }

    /// Returns true if the program has ended by itself.
    pub(crate) async fn has_ended(&self) -> anyhow::Result<bool> {
        match self.program.lock().await.as_mut() {
            Some(program) => Ok(program.ended()?.is_some()),
            None => Ok(true),
        }
    }

    /// Waits for the program to end by itself. Returns its exit code.
    pub(crate) async fn wait_for_exit(&self, within: Duration) -> anyhow::Result<Option<i32>> {
        let deadline = Instant::now() + within;
        loop {
            let mut program = self.program.lock().await;
            let ended = match program.as_mut() {
                Some(program) => program.ended()?,
                None => bail!("nothing runs"),
            };
            if let Some(status) = ended {
                *program = None;
                self.record_end("ended by itself");
                return Ok(status.code());
            }
            drop(program);
            if Instant::now() > deadline {
                bail!("the program did not end within {} s", within.as_secs());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn record_end(&self, how: &str) {
        self.up.send_replace(None);
        self.ends.fetch_add(1, Ordering::SeqCst);
        self.note(how);
    }

    /// Sends `kill -9`.
    pub(crate) async fn kill(&self) {
        if let Some(mut program) = self.program.lock().await.take() {
            program.kill();
            self.record_end("kill -9");
        }
    }

    /// Sends SIGTERM. R23: the program ends with 0 in time.
    pub(crate) async fn terminate(&self) {
        if let Some(program) = self.program.lock().await.take() {
            self.note("SIGTERM ...");
            self.up.send_replace(None);
            if let Err(error) = program.terminate().await {
                self.report_violation(format!("{error:#}"));
            }
            self.record_end("... ended");
        }
    }

    /// Sends SIGTERM and does not wait for the end.
    pub(crate) async fn ask_to_stop(&self) -> anyhow::Result<()> {
        match self.program.lock().await.as_ref() {
            Some(program) => program.ask_to_stop(),
            None => Ok(()),
        }
    }

    pub(crate) async fn log_tail(&self) -> String {
        match self.program.lock().await.as_ref() {
            Some(program) => program.log_tail(),
            None => String::new(),
        }
    }

    /// Waits until the program runs, and returns the time since which it does.
    pub(crate) async fn wait_until_up(&self) -> Option<Instant> {
        let mut up = self.up.subscribe();
        let up = tokio::time::timeout(UP_MAX, up.wait_for(Option::is_some)).await;
        *up.ok()?.ok()?
    }

    /// Returns the time since which the program runs, if it does.
    pub(crate) fn up_since(&self) -> Option<Instant> {
        *self.up.borrow()
    }

    /// Delivers an event like Slack: up to three more times, until it is acknowledged. Slack's waits of one and five
    /// minutes are replaced by the time the program is down. Returns true if the event was acknowledged.
    pub(crate) async fn deliver(&self, event: &Value) -> bool {
        let mut reason = None;
        for attempt in 0..=RETRIES {
            if attempt > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
                self.wait_until_up().await;
            }
            let retry = reason.map(|reason| Retry {
                number: attempt,
                reason,
            });
            reason = match self.slack.deliver(event, retry).await {
                Ok(GatewayResponse {
                    status: 200..=299, ..
                }) => return true,
                Ok(GatewayResponse { status, body }) => {
                    self.note(&format!("answered {status} {body}"));
                    Some("http_error")
                }
                Err(SayError::NoAnswer) => Some("connection_failed"),
                Err(error) => {
                    self.report_violation(format!("an event could not be sent: {error}"));
                    return false;
                }
            };
        }
        self.note("an event was given up by Slack");
        false
    }

    pub(crate) fn count_acknowledged(&self) {
        self.acknowledged.send_modify(|count| *count += 1);
    }

    /// Returns the number of acknowledged messages, as a channel that changes with each.
    pub(crate) fn acknowledged(&self) -> watch::Receiver<usize> {
        self.acknowledged.subscribe()
    }

    /// Returns how often the process ended so far.
    pub(crate) fn ends(&self) -> usize {
        self.ends.load(Ordering::SeqCst)
    }

    pub(crate) fn slowest_start(&self) -> Duration {
        *lock(&self.slowest_start)
    }

    /// Adds a line to the schedule that a violation shows.
    pub(crate) fn note(&self, what: &str) {
        let mut journal = lock(&self.journal);
        // Writing to a string does not fail.
        let _ = writeln!(journal, "{:>8.3} {what}", self.began.elapsed().as_secs_f64());
    }

    /// Records a broken promise.
    pub(crate) fn report_violation(&self, what: String) {
        self.note(&format!("VIOLATION {what}"));
        lock(&self.violations).push(what);
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        lock(&self.violations).clone()
    }

    pub(crate) fn journal(&self) -> String {
        lock(&self.journal).clone()
    }

    /// Keeps the directory of a testbed in which a promise was broken, and returns its path.
    pub(crate) fn keep(self, keep: Option<&Path>) -> PathBuf {
        // The server must have ended before its directory moves.
        drop(self.program.into_inner());
        let kept = self.directory.keep();
        let Some(parent) = keep else { return kept };
        let name = kept.file_name().unwrap_or_default();
        let target = parent.join(name);
        match std::fs::create_dir_all(parent).and_then(|()| std::fs::rename(&kept, &target)) {
            Ok(()) => target,
            Err(_) => kept,
        }
    }
}

/// Creates the repository of the demo, with a commit that adds files if there are any.
fn create_repository(git: &Path, files: &[(&'static str, String)]) -> anyhow::Result<()> {
    use drydock::simulation::demo::repository;
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    match files.is_empty() {
        true => repository::create(git)?,
        false => repository::create_with(git, &files)?,
    };
    Ok(())
}

fn config(
    launch: &ServerLaunch,
    (slack, rate_limits): (&SlackEmulator, RateLimits),
    model: &HoldableModel,
    repository: &str,
    (sections, limits): (&str, &str),
) -> String {
    format!(
        r#"
[server]
listen = "{address}"
connections_per_ip_max = 1024

[data]
directory = "{data}"

[model]
default = "anthropic/script"

[providers.anthropic]
api_key = {{ env = "TORTURE_MODEL_KEY" }}
base_url = "{model}"

[repositories.infra]
{repository}

[channels.slack]
kind = "slack"
paced = {is_paced}
bot_token = {{ env = "TORTURE_BOT_TOKEN" }}
signing_secret = {{ env = "TORTURE_SIGNING_SECRET" }}
api_base_url = "{slack}"

{sections}
[hooks.release]
scheme = "github"
secret = {{ env = "TORTURE_HOOK_SECRET" }}
repository = "infra"
prompt = "prompts/release.md"
fields = {{ what = "/what" }}
post_to = {{ channel = "slack", chat = "{HOOK_CHANNEL}" }}
grants = {{ role = "editor", environments = ["**"] }}

[hooks.signed]
scheme = "generic"
secret = {{ env = "TORTURE_GENERIC_SECRET" }}
repository = "infra"
prompt = "prompts/release.md"
fields = {{ what = "/what" }}
post_to = {{ channel = "slack", chat = "{HOOK_CHANNEL}" }}
grants = {{ role = "editor", environments = ["**"] }}

[limits]
{limits}
"#,
        address = launch.address,
        data = launch.data.display(),
        model = model.emulator.url(),
        is_paced = rate_limits == RateLimits::Slack,
        slack = slack.api_base_url(),
    )
}
