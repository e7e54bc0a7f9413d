//! The real program, ended at the moments that matter and started again. Slack and the model live in
//! this process, so they remember what was said before.

use drydock::admin::{self, Answer, Request};
use drydock::emulator::model::{Asked, AskedRole, Fault, ModelEmulator, calls, says};
use drydock::emulator::slack::{
    Fault as SlackFault, Message, RateLimits, SlackEmulator, SlackOptions, State,
};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;

const ALICE: &str = "U0ALICE";
const CHANNEL: &str = "C0PLATFORM";
const REQUEST: &str = "@drydock add the two notes";
/// How long anything on loopback may take; the machine may be busy.
const BOUND: Duration = Duration::from_secs(60);
/// No step of the model.
const NONE: usize = usize::MAX;

/// What Alice gets in the end, whatever happened on the way.
const PATCH: [&str; 2] = ["+one\n", "+two\n"];

/// R1: the message was acknowledged, and nothing else happened.
#[tokio::test]
async fn a_message_is_answered_when_the_program_is_killed_right_after_the_acknowledgement() {
    let mut world = World::build().await;
    world.hold_at(0);
    let said = world.says(REQUEST).await;
    world.kill();
    world.hold_at(NONE);
    world.start().await;
    world.is_answered_once(&said).await;
}

/// R1: the model was asked and had not answered.
#[tokio::test]
async fn a_message_is_answered_when_the_program_is_killed_while_the_model_thinks() {
    let mut world = World::build().await;
    world.hold_at(0);
    let said = world.says(REQUEST).await;
    world.model_holds(1).await;
    world.shows(|message| message.text.contains("Working")).await;
    world.kill();
    world.hold_at(NONE);
    world.start().await;
    world.is_answered_once(&said).await;
}

/// R1: two files were written and recorded.
#[tokio::test]
async fn edits_survive_when_the_program_is_killed_at_the_third_step() {
    let mut world = World::build().await;
    world.hold_at(2);
    let said = world.says(REQUEST).await;
    world.model_holds(1).await;
    world.kill();
    // The model is asked again from the start, and sees what it did before.
    world.start().await;
    world.model_holds(2).await;
    let asked = world.model.asked();
    let last = asked.last().expect("a request");
    let before: usize = last.messages.iter().map(|message| message.results.len()).sum();
    assert_eq!(before, 4, "two results before the crash and two after it");
    world.kill();
    world.hold_at(NONE);
    world.start().await;
    world.is_answered_once(&said).await;
}

/// R1, P3: the placeholder of the card was shown, and nobody heard that it was.
#[tokio::test]
async fn a_message_is_answered_once_when_the_card_was_lost_on_the_way_back() {
    let mut world = World::build().await;
    world
        .slack
        .fail_next("chat.postMessage", 1, SlackFault::ResetAfter);
    world.hold_at(0);
    let said = world.says(REQUEST).await;
    world.model_holds(1).await;
    world.shows(|message| message.text.contains("Working")).await;
    world.kill();
    world.hold_at(NONE);
    world.start().await;
    world.is_answered_once(&said).await;
    world.has_one("Done in").await;
    assert!(!world.slack.look(texts).contains("Working"));
}

/// R1, P3: the result was shown, and nobody heard that it was.
#[tokio::test]
async fn a_result_is_shown_once_when_word_of_it_was_lost_on_the_way_back() {
    let mut world = World::build().await;
    world
        .slack
        .fail_next("chat.postMessage", 1, SlackFault::ResetAfter);
    let said = world.says(REQUEST).await;
    world.shows(|message| message.text.contains("is ready")).await;
    world.kill();
    world.start().await;
    world.is_answered_once(&said).await;
    world.has_one("is ready").await;
}

/// R1: everything was done.
#[tokio::test]
async fn nothing_is_said_twice_when_the_program_is_killed_after_the_result() {
    let mut world = World::build().await;
    let said = world.says(REQUEST).await;
    world.shows(is_result).await;
    world.kill();
    world.start().await;
    world.is_answered_once(&said).await;
}

/// R3: a message that ends the program again and again is given up, and says so.
#[tokio::test]
async fn a_message_that_is_cut_short_three_times_is_given_up_aloud() {
    let mut world = World::build().await;
    world.hold_at(0);
    world.says(REQUEST).await;
    for attempt in 1..=3 {
        world.model_holds(attempt).await;
        world.kill();
        world.start().await;
    }
    let gave_up = world.shows(|message| message.text.contains("(ref ")).await;
    assert!(
        gave_up.text.starts_with("Something of mine failed"),
        "{}",
        gave_up.text
    );
    assert_eq!(world.model.asked().len(), 3);
    world.hold_at(NONE);
    let other = world.says("@drydock add the two notes again").await;
    world.is_answered_once(&other).await;
}

/// R23, B28: a deployment is no reason to lose a request.
#[tokio::test]
async fn a_running_request_outlives_an_orderly_restart() {
    let mut world = World::build().await;
    world.hold_at(1);
    let said = world.says(REQUEST).await;
    world.model_holds(1).await;
    world.terminate().await;
    let stopped = world.slack.look(|state| texts(state).contains("Stopped"));
    assert!(!stopped, "nobody said stop");
    world.start().await;
    world.model_holds(2).await;
    world.says_that_it_was_restarted_and_answers(&said).await;
}

/// A restart finds its work before the platform answers again: the turn runs, and its card, posted
/// before, is kept current from then on.
#[tokio::test]
async fn a_request_taken_up_before_slack_is_connected_shows_on_its_card() {
    let mut world = World::build().await;
    world.hold_at(1);
    let said = world.says(REQUEST).await;
    world.model_holds(1).await;
    world.shows(|message| message.text.contains("Working")).await;
    world.knows_its_card(&said).await;
    world.kill();
    let unreachable = SlackFault::Status {
        status: 503,
        retry_after_seconds: None,
    };
    world.slack.fail_next("auth.test", 1_000, unreachable);
    let address = world.launch().await;
    world.model_holds(2).await;
    world.slack.recover("auth.test");
    world.is_ready(&address).await;
    world.says_that_it_was_restarted_and_answers(&said).await;
}

/// P2: messages that wait behind another are not lost with it.
#[tokio::test]
async fn messages_that_wait_are_answered_after_a_kill_each_on_its_own_card() {
    let mut world = World::build().await;
    world.hold_at(0);
    let said = world.says(REQUEST).await;
    world.model_holds(1).await;
    let follow_up = "add the two notes once more";
    let answer = world
        .slack
        .reply_in_thread(ALICE, CHANNEL, &said, follow_up)
        .await;
    assert_eq!(answer.expect("an answer").answers[0].status, 200);
    world
        .shows(|message| message.text.contains("Queued (1 ahead)."))
        .await;
    world.knows_its_card(&said).await;
    world.kill();
    world.hold_at(NONE);
    world.start().await;
    world
        .waits("two results", |state| (results(state).len() == 2).then_some(()))
        .await;
    world
        .waits("no card that still waits", |state| {
            (!texts(state).contains("Queued")).then_some(())
        })
        .await;
    world.is_sound().await;
}

/// Slack, the model, a repository, and the program between them.
struct World {
    slack: SlackEmulator,
    model: ModelEmulator,
    /// The step of a turn at which the model does not answer.
    hold: Arc<AtomicUsize>,
    /// How often it did not.
    held: watch::Receiver<usize>,
    program: Option<Program>,
    directory: TempDir,
    starts: usize,
}

/// A running program. It is killed when it is dropped.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl World {
    async fn build() -> Self {
        let directory = TempDir::new().expect("a directory");
        drydock::demo::repository::create(&directory.path().join("infra.git")).expect("a repository");
        let slack = SlackEmulator::start(SlackOptions {
            team: "T0ACME".to_owned(),
            bot_user: "U0DRYDOCK".to_owned(),
            bot_name: "drydock".to_owned(),
            bot_token: "xoxb-220033004400-crash-bot-token".to_owned(),
            signing_secret: "7e1d1c9a7be24c6f8a1b3d5e7f904321".to_owned(),
            rate_limits: RateLimits::Off,
            at: jiff::Timestamp::now,
            http: drydock::provider::http_client().expect("a client"),
        });
        let slack = slack.await.expect("an emulator");
        slack.add_channel(CHANNEL, &[ALICE]);
        let hold = Arc::new(AtomicUsize::new(NONE));
        let (told, held) = watch::channel(0);
        let holds = Arc::clone(&hold);
        let script = move |asked: &Asked| {
            let step = step_of(asked);
            if step == holds.load(Ordering::SeqCst) {
                told.send_modify(|count| *count += 1);
                return says("").but(Fault::Stall);
            }
            match step {
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
            hold,
            held,
            program: None,
            directory,
            starts: 0,
        };
        world.start().await;
        world.invite().await;
        world
    }

    /// Starts the program and waits until it is ready.
    async fn start(&mut self) {
        let address = self.launch().await;
        self.is_ready(&address).await;
    }

    /// Starts the program and waits until it listens.
    async fn launch(&mut self) -> String {
        let directory = self.directory.path();
        let config = directory.join("drydock.toml");
        std::fs::write(&config, self.toml()).expect("a configuration");
        self.starts += 1;
        let log = directory.join(format!("log-{}", self.starts));
        let child = Command::new(env!("CARGO_BIN_EXE_drydock"))
            .args(["serve", "--config"])
            .arg(&config)
            .env("CRASH_BOT_TOKEN", "xoxb-220033004400-crash-bot-token")
            .env("CRASH_SIGNING_SECRET", "7e1d1c9a7be24c6f8a1b3d5e7f904321")
            .env("CRASH_MODEL_KEY", "sk-ant-crash-000000000000000000000000")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).expect("a log"))
            .spawn();
        self.program = Some(Program(child.expect("the program starts")));
        let address = bounded("the program listens", poll(|| address_in(&log))).await;
        self.slack.connect_to(&format!("http://{address}/in/slack"));
        address
    }

    async fn is_ready(&self, address: &str) {
        let client = drydock::provider::http_client().expect("a client");
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

    /// `kill -9`.
    fn kill(&mut self) {
        drop(self.program.take().expect("a running program"));
    }

    /// `kill`, as an orchestrator does, and the program ends well.
    async fn terminate(&mut self) {
        let mut program = self.program.take().expect("a running program");
        let id = i32::try_from(program.0.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(id.expect("an id"), rustix::process::Signal::TERM).expect("a signal");
        let status = bounded(
            "the program ends",
            poll(|| program.0.try_wait().expect("a status")),
        )
        .await;
        assert_eq!(status.code(), Some(0));
    }

    fn hold_at(&self, step: usize) {
        self.hold.store(step, Ordering::SeqCst);
    }

    /// Waits until the model was held for the `count`th time.
    async fn model_holds(&mut self, count: usize) {
        let held = self.held.wait_for(|held| *held >= count);
        bounded("the model is asked", held)
            .await
            .expect("the model is there");
    }

    async fn invite(&self) {
        let invite = Request::Invite {
            name: "alice".to_owned(),
            role: drydock::access::Role::Editor,
            repositories: "*".to_owned(),
            environments: vec!["**".to_owned()],
            hours: 1,
        };
        let Some(Answer::Invite { token, .. }) = self.ask(&invite).await else {
            panic!("no invite");
        };
        self.slack
            .dm(ALICE, &format!("join {token}"))
            .await
            .expect("an answer");
        self.shows(|message| message.text.contains("You're in")).await;
    }

    async fn ask(&self, request: &Request) -> Option<Answer> {
        admin::ask(&self.data(), request).await.expect("an answer")
    }

    /// Alice says something, and it is acknowledged.
    async fn says(&self, text: &str) -> String {
        let said = self.slack.say(ALICE, CHANNEL, text).await.expect("an answer");
        assert!(said.answers.iter().all(|answer| answer.status == 200), "{said:?}");
        said.ts
    }

    async fn waits<T>(&self, what: &str, look: impl Fn(&State) -> Option<T>) -> T {
        for _ in 0..6 {
            if let Some(found) = self.slack.wait_until(&look).await {
                return found;
            }
        }
        panic!(
            "waited for {what}; Slack shows\n{}\n{}",
            self.slack.look(texts),
            self.log()
        );
    }

    async fn shows(&self, is_it: impl Fn(&Message) -> bool) -> Message {
        let found = |state: &State| bot(state).find(|message| is_it(message)).cloned();
        self.waits("a message", found).await
    }

    /// Answers of a thread go out in order: once another one shows, it is durable which message is the card.
    async fn knows_its_card(&self, thread: &str) {
        let answer = self
            .slack
            .reply_in_thread(ALICE, CHANNEL, thread, "!status")
            .await;
        assert_eq!(answer.expect("an answer").answers[0].status, 200);
        self.shows(|message| message.visible().join("\n").contains("Delivery"))
            .await;
    }

    /// The card of a held turn says that it was taken up again; after another kill there is its result.
    async fn says_that_it_was_restarted_and_answers(&mut self, said: &str) {
        let resumed = "I was restarted and picked this up again.";
        self.shows(|message| message.visible().join("\n").contains(resumed))
            .await;
        self.hold_at(NONE);
        self.kill();
        self.start().await;
        self.is_answered_once(said).await;
    }

    /// Exactly one result in the thread, with the whole change, and nothing wrong anywhere.
    async fn is_answered_once(&self, said: &str) {
        let result = |state: &State| {
            let found = results(state)
                .into_iter()
                .find(|message| message.thread_ts.as_deref() == Some(said));
            found.cloned()
        };
        let result = self.waits("the result", result).await;
        assert!(
            result.visible().join("\n").contains("Both notes are there."),
            "{result:?}"
        );
        // The answer to a command is the last word of its thread: nothing follows that is still on its way.
        let answer = self
            .slack
            .reply_in_thread(ALICE, CHANNEL, said, "!patch")
            .await
            .expect("an answer");
        assert_eq!(answer.answers[0].status, 200);
        let patch = self
            .waits("the patch", |state| {
                state.files.first().map(|file| file.content.clone())
            })
            .await;
        let patch = String::from_utf8_lossy(&patch).into_owned();
        assert_eq!(patch.matches("diff --git ").count(), 2, "{patch}");
        assert!(PATCH.iter().all(|line| patch.contains(line)), "{patch}");
        let count = self.slack.look(|state| {
            let results = results(state);
            results
                .iter()
                .filter(|message| message.thread_ts.as_deref() == Some(said))
                .count()
        });
        assert_eq!(count, 1, "{}", self.slack.look(texts));
        self.is_sound().await;
    }

    /// One message of the bot says so, and no other.
    async fn has_one(&self, words: &str) {
        self.shows(|message| message.visible().join("\n").contains(words))
            .await;
        let count = self.slack.look(|state| {
            let said = bot(state).filter(|message| message.visible().join("\n").contains(words));
            said.count()
        });
        assert_eq!(count, 1, "{}", self.slack.look(texts));
    }

    async fn is_sound(&self) {
        let audit = self.ask(&Request::Audit).await;
        assert!(
            matches!(audit, Some(Answer::Audit { rows }) if rows > 0),
            "{audit:?}"
        );
        let problems = [self.slack.problems(), self.model.problems()].concat();
        assert_eq!(problems, [""; 0]);
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn log(&self) -> String {
        let log = self.directory.path().join(format!("log-{}", self.starts));
        std::fs::read_to_string(log).unwrap_or_default()
    }

    fn toml(&self) -> String {
        let directory = self.directory.path().display();
        format!(
            r#"
[server]
listen = "127.0.0.1:0"

[data]
directory = "{directory}/data"

[model]
default = "anthropic/script"

[providers.anthropic]
api_key = {{ env = "CRASH_MODEL_KEY" }}
base_url = "{model}"

[repositories.infra]
path = "{directory}/infra.git"

[channels.slack]
kind = "slack"
bot_token = {{ env = "CRASH_BOT_TOKEN" }}
signing_secret = {{ env = "CRASH_SIGNING_SECRET" }}
api_base_url = "{slack}"
"#,
            model = self.model.url(),
            slack = self.slack.api_base_url(),
        )
    }
}

/// The step of the turn that is asked about: results since the person last spoke.
fn step_of(asked: &Asked) -> usize {
    let messages = asked.messages.iter().rev();
    let answered = messages.filter(|message| message.role == AskedRole::User);
    answered.take_while(|message| !message.results.is_empty()).count()
}

fn bot(state: &State) -> impl Iterator<Item = &Message> {
    state
        .messages
        .iter()
        .filter(|message| message.user == "U0DRYDOCK")
}

fn is_result(message: &Message) -> bool {
    message
        .visible()
        .join("\n")
        .contains("Nothing was applied or committed.")
}

fn results(state: &State) -> Vec<&Message> {
    bot(state).filter(|message| is_result(message)).collect()
}

fn texts(state: &State) -> String {
    let texts: Vec<String> = bot(state).map(|message| message.visible().join("\n")).collect();
    texts.join("\n---\n")
}

/// The address a log names.
fn address_in(log: &Path) -> Option<String> {
    let text = std::fs::read_to_string(log).ok()?;
    let (_, rest) = text.split_once("listening on http://")?;
    let address: String = rest
        .chars()
        .take_while(|next| next.is_ascii_digit() || ".:".contains(*next))
        .collect();
    Some(address)
}

/// Looks again and again.
async fn poll<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn bounded<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(BOUND, future).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not within {} s", BOUND.as_secs()),
    }
}
