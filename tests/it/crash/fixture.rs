//! Slack, the model, a repository, and the program between them, which is ended and started again.

use super::posts::{bot_messages, results, texts};
use drydock::engine::admin::{self, AdminReply, AdminRequest};
use drydock::simulation::emulator::model::{
    AnswerFault, ModelEmulator, ModelRequest, RequestRole, calls, says,
};
use drydock::simulation::emulator::slack::{
    RateLimits, SlackEmulator, SlackMessage, SlackOptions, SlackState,
};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;

pub(crate) const ALICE: &str = "U0ALICE";
pub(crate) const CHANNEL: &str = "C0PLATFORM";
pub(crate) const REQUEST: &str = "@drydock add the two notes";
/// The longest time any step on loopback may take on a busy machine.
const BOUND: Duration = Duration::from_secs(60);
/// A number that is no step of the model.
pub(crate) const NO_STEP: usize = usize::MAX;

/// The lines of Alice's patch in the end, whatever happened before.
const PATCH: [&str; 2] = ["+one\n", "+two\n"];

/// Slack, the model, a repository, and the program between them.
pub(crate) struct CrashFixture {
    pub(crate) slack: SlackEmulator,
    pub(crate) model: ModelEmulator,
    /// The step of a turn at which the model does not answer.
    held_step: Arc<AtomicUsize>,
    /// The number of requests that the model held.
    held_count: watch::Receiver<usize>,
    program: Option<GatewayProcess>,
    /// The command that starts the program, or empty if it is started directly.
    wrapper: Vec<String>,
    directory: TempDir,
    starts: usize,
}

/// A running program. It is killed on drop.
struct GatewayProcess(Child);

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl CrashFixture {
    pub(crate) async fn build() -> Self {
        let directory = TempDir::new().expect("a directory");
        drydock::simulation::demo::repository::create(&directory.path().join("infra.git"))
            .expect("a repository");
        let slack = SlackEmulator::start(SlackOptions {
            team: "T0ACME".to_owned(),
            bot_user: "U0DRYDOCK".to_owned(),
            bot_name: "drydock".to_owned(),
            bot_token: "xoxb-220033004400-crash-bot-token".to_owned(),
            signing_secret: "7e1d1c9a7be24c6f8a1b3d5e7f904321".to_owned(),
            rate_limits: RateLimits::Off,
            at: jiff::Timestamp::now,
            http: drydock::base::http_client::api_client().expect("a client"),
        });
        let slack = slack.await.expect("an emulator");
        slack.add_channel(CHANNEL, &[ALICE]);
        let hold = Arc::new(AtomicUsize::new(NO_STEP));
        let (reported, held) = watch::channel(0);
        let holds = Arc::clone(&hold);
        let script = move |asked: &ModelRequest| {
            let step = step_of(asked);
            if step == holds.load(Ordering::SeqCst) {
                reported.send_modify(|count| *count += 1);
                return says("").with_fault(AnswerFault::Stall);
            }
            if asked.last_user_text().contains("tell bob") {
                let message = serde_json::json!({"person": "bob", "text": "the freeze ends"});
                return match step {
                    0 => calls("send_user_message", message),
                    _ => says("I told bob."),
                };
            }
            let again = asked.last_user_text().contains("third");
            if asked.messages.len() == 1 && asked.last_user_text().contains("slowly") {
                let arguments = serde_json::json!({"path": "notes/one.md", "content": "one\n"});
                let slow = AnswerFault::Delay(Duration::from_secs(2));
                return calls("file_write", arguments).with_fault(slow);
            }
            match step {
                0 if again => calls(
                    "file_write",
                    serde_json::json!({"path": "notes/three.md", "content": "three\n"}),
                ),
                _ if again => says("The third note is there."),
                0 => calls(
                    "file_write",
                    serde_json::json!({"path": "notes/one.md", "content": "one\n"}),
                ),
                1 => calls(
                    "file_write",
                    serde_json::json!({"path": "notes/two.md", "content": "two\n"}),
                ),
                _ => says("Both notes are there."),
            }
        };
        let model = ModelEmulator::start(script).expect("an emulator");
        let mut world = Self {
            slack,
            model,
            held_step: hold,
            held_count: held,
            program: None,
            wrapper: Vec::new(),
            directory,
            starts: 0,
        };
        world.start().await;
        world.invite("alice", ALICE).await;
        world
    }

    /// Starts the program and waits until it is ready.
    pub(crate) async fn start(&mut self) {
        let address = self.launch().await;
        self.wait_until_ready(&address).await;
    }

    /// Starts the program and waits until it listens.
    pub(crate) async fn launch(&mut self) -> String {
        let log = self.spawn();
        let address = bounded("the program listens", poll(|| address_in(&log))).await;
        self.slack.connect_to(&format!("http://{address}/in/slack"));
        address
    }

    /// Starts the program and does not wait. Returns the path of its log.
    pub(crate) fn spawn(&mut self) -> PathBuf {
        let directory = self.directory.path();
        let config = directory.join("drydock.toml");
        std::fs::write(&config, self.toml()).expect("a configuration");
        self.starts += 1;
        let log = directory.join(format!("log-{}", self.starts));
        let program = env!("CARGO_BIN_EXE_drydock").to_owned();
        let words: Vec<String> = self.wrapper.iter().cloned().chain([program]).collect();
        let child = Command::new(&words[0])
            .args(&words[1..])
            .args(["serve", "--config"])
            .arg(&config)
            .env("SERVER_BOT_TOKEN", "xoxb-220033004400-crash-bot-token")
            .env("SERVER_SIGNING_SECRET", "7e1d1c9a7be24c6f8a1b3d5e7f904321")
            .env("SERVER_MODEL_KEY", "sk-ant-crash-000000000000000000000000")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).expect("a log"))
            .spawn();
        self.program = Some(GatewayProcess(child.expect("the program starts")));
        log
    }

    pub(crate) async fn wait_until_ready(&self, address: &str) {
        let client = drydock::base::http_client::api_client().expect("a client");
        let ready = async {
            let url = format!("http://{address}/readyz");
            while !client
                .get(&url)
                .send()
                .await
                .is_ok_and(|answer| answer.status().is_success())
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        bounded("the program is ready", ready).await;
    }

    /// Makes later starts use another program as a wrapper.
    pub(crate) fn start_through(&mut self, wrapper: &[&str]) {
        self.wrapper = wrapper.iter().map(|word| (*word).to_owned()).collect();
    }

    /// Returns the id of the started process.
    pub(crate) fn id(&self) -> u32 {
        self.program.as_ref().expect("a running program").0.id()
    }

    /// Returns the exit code, once the program has ended by itself.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        let program = self.program.as_mut().expect("a running program");
        let status = program.0.try_wait().expect("a status")?;
        self.program = None;
        status.code()
    }

    /// Starts the program, which fails. Returns its exit code and its last output.
    pub(crate) async fn start_and_fail(&mut self) -> (i32, String) {
        self.spawn();
        let code = bounded("the program ends", poll(|| self.exit_code())).await;
        (code, self.log())
    }

    /// Delivers a message again, as Slack does after a refusal.
    pub(crate) async fn redeliver(&self, ts: &str) -> Option<u16> {
        let said = |message: &&SlackMessage| message.ts == ts;
        let said = self
            .slack
            .with_state(|state| state.messages.iter().find(said).cloned());
        let said = said.expect("a message");
        let event = self
            .slack
            .envelope(&serde_json::json!({"type": "app_mention", "user": said.user,
            "team": "T0ACME", "channel": said.channel, "ts": ts, "event_ts": ts, "text": said.text}));
        Some(self.slack.send_event(&event).await.ok()?.status)
    }

    /// Sends `kill -9`.
    pub(crate) fn kill(&mut self) {
        drop(self.program.take().expect("a running program"));
    }

    /// Sends SIGTERM like an orchestrator, and checks that the program ends normally.
    pub(crate) async fn terminate(&mut self) {
        let id = i32::try_from(self.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        let mut program = self.program.take().expect("a running program");
        rustix::process::kill_process(id.expect("an id"), rustix::process::Signal::TERM).expect("a signal");
        let status = bounded(
            "the program ends",
            poll(|| program.0.try_wait().expect("a status")),
        )
        .await;
        assert_eq!(status.code(), Some(0));
    }

    pub(crate) fn hold_at(&self, step: usize) {
        self.held_step.store(step, Ordering::SeqCst);
    }

    /// Waits until the model held `count` requests.
    pub(crate) async fn wait_until_model_holds(&mut self, count: usize) {
        let held = self.held_count.wait_for(|held| *held >= count);
        bounded("the model is called", held)
            .await
            .expect("the model runs");
    }

    /// Waits until the model has a request.
    pub(crate) async fn wait_for_model_request(&self) {
        let asked = || (!self.model.requests().is_empty()).then_some(());
        bounded("the model is called", poll(asked)).await;
    }

    /// Invites and admits an account.
    pub(crate) async fn invite(&self, name: &str, account: &str) {
        let invite = AdminRequest::Invite {
            name: name.to_owned(),
            role: drydock::state::access::Role::Editor,
            repositories: "*".to_owned(),
            environments: vec!["**".to_owned()],
            hours: 1,
        };
        let Some(AdminReply::Invite { token, .. }) = self.send_admin_request(&invite).await else {
            panic!("no invite");
        };
        self.slack
            .dm(account, &format!("join {token}"))
            .await
            .expect("an answer");
        let direct = format!("D{account}");
        self.wait_for_message(|message| message.channel == direct && message.text.contains("You're in"))
            .await;
    }

    async fn send_admin_request(&self, request: &AdminRequest) -> Option<AdminReply> {
        admin::ask(&self.data_directory(), request)
            .await
            .expect("an answer")
    }

    /// Sends a message of Alice, and checks that it is acknowledged.
    pub(crate) async fn say(&self, text: &str) -> String {
        let said = self.slack.say(ALICE, CHANNEL, text).await.expect("an answer");
        assert!(said.answers.iter().all(|answer| answer.status == 200), "{said:?}");
        said.ts
    }

    pub(crate) async fn wait_for<T>(&self, what: &str, look: impl Fn(&SlackState) -> Option<T>) -> T {
        for _ in 0..6 {
            if let Some(found) = self.slack.wait_until(&look).await {
                return found;
            }
        }
        panic!(
            "waited for {what}; Slack shows\n{}\n{}",
            self.slack.with_state(texts),
            self.log()
        );
    }

    pub(crate) async fn wait_for_message(&self, is_it: impl Fn(&SlackMessage) -> bool) -> SlackMessage {
        let found = |state: &SlackState| bot_messages(state).find(|message| is_it(message)).cloned();
        self.wait_for("a message", found).await
    }

    /// Waits until the id of the card is stored. Answers of a thread are sent in order: once another one shows, the id
    /// of the card is durable.
    pub(crate) async fn wait_until_card_is_stored(&self, thread: &str) {
        let answer = self
            .slack
            .reply_in_thread(ALICE, CHANNEL, thread, "!status")
            .await;
        assert_eq!(answer.expect("an answer").answers[0].status, 200);
        self.wait_for_message(|message| message.visible().join("\n").contains("Delivery"))
            .await;
    }

    /// Checks that the card of a held turn says that the turn was resumed, and that its result appears after another
    /// kill.
    pub(crate) async fn assert_restarted_and_answered(&mut self, said: &str) {
        let resumed = "I was restarted and continue with this message.";
        self.wait_for_message(|message| message.visible().join("\n").contains(resumed))
            .await;
        self.hold_at(NO_STEP);
        self.kill();
        self.start().await;
        self.assert_answered_once(said).await;
    }

    /// Checks that the thread has exactly one result, with the whole change, and that nothing else is wrong.
    pub(crate) async fn assert_answered_once(&self, said: &str) {
        let result = |state: &SlackState| {
            let found = results(state)
                .into_iter()
                .find(|message| message.thread_ts.as_deref() == Some(said));
            found.cloned()
        };
        let result = self.wait_for("the result", result).await;
        assert!(
            result.visible().join("\n").contains("Both notes are there."),
            "{result:?}"
        );
        // The answer to a command is the last message of its thread: nothing else is in delivery.
        let answer = self
            .slack
            .reply_in_thread(ALICE, CHANNEL, said, "!patch")
            .await
            .expect("an answer");
        assert_eq!(answer.answers[0].status, 200);
        let patch = self
            .wait_for("the patch", |state| {
                state.files.first().map(|file| file.content.clone())
            })
            .await;
        let patch = String::from_utf8_lossy(&patch).into_owned();
        assert_eq!(patch.matches("diff --git ").count(), 2, "{patch}");
        assert!(PATCH.iter().all(|line| patch.contains(line)), "{patch}");
        let count = self.slack.with_state(|state| {
            let results = results(state);
            results
                .iter()
                .filter(|message| message.thread_ts.as_deref() == Some(said))
                .count()
        });
        assert_eq!(count, 1, "{}", self.slack.with_state(texts));
        self.assert_database_sound().await;
    }

    /// Checks that exactly one message of the bot contains these words.
    pub(crate) async fn assert_one_message_with(&self, words: &str) {
        self.wait_for_message(|message| message.visible().join("\n").contains(words))
            .await;
        let count = self.slack.with_state(|state| {
            let said = bot_messages(state).filter(|message| message.visible().join("\n").contains(words));
            said.count()
        });
        assert_eq!(count, 1, "{}", self.slack.with_state(texts));
    }

    pub(crate) async fn assert_database_sound(&self) {
        let audit = self.send_admin_request(&AdminRequest::Audit).await;
        assert!(
            matches!(audit, Some(AdminReply::Audit { rows, .. }) if rows > 0),
            "{audit:?}"
        );
        let problems = [self.slack.problems(), self.model.problems()].concat();
        assert_eq!(problems, [""; 0]);
    }

    pub(crate) fn data_directory(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn log(&self) -> String {
        let log = self.directory.path().join(format!("log-{}", self.starts));
        std::fs::read_to_string(log).unwrap_or_default()
    }

    fn toml(&self) -> String {
        include_str!("../support/server.toml")
            .replace("<listen>", "127.0.0.1:0")
            .replace("<directory>", &self.directory.path().display().to_string())
            .replace("<model>", self.model.url())
            .replace("<slack>", &self.slack.api_base_url())
    }
}

/// Returns the step of the turn for a request: the number of results since the last message of the person.
fn step_of(asked: &ModelRequest) -> usize {
    let messages = asked.messages.iter().rev();
    let answered = messages.filter(|message| message.role == RequestRole::User);
    answered.take_while(|message| !message.results.is_empty()).count()
}

/// Returns the address in a log.
fn address_in(log: &Path) -> Option<String> {
    let text = std::fs::read_to_string(log).ok()?;
    let (_, rest) = text.split_once("listening on http://")?;
    let address: String = rest
        .chars()
        .take_while(|next| next.is_ascii_digit() || ".:".contains(*next))
        .collect();
    Some(address)
}

/// Polls until `look` returns a value.
pub(crate) async fn poll<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn bounded<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(BOUND, future).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not within {} s", BOUND.as_secs()),
    }
}
