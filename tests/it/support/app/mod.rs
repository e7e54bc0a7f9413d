//! The whole gateway between emulators of everything outside, with helpers for the actions of people. On drop, a
//! [`TestApp`] fails the test if an emulator saw an error, if the script was not used up, or if the database or its
//! audit log is damaged.

mod data;
mod slack;

use super::schemas::{self, SentTo};
use super::world::Host;
use drydock::base::config::Config;
use drydock::engine::admin::{AdminReply, AdminRequest};
use drydock::engine::agent::REMARK_PREFIX;
use drydock::server::app::App;
use drydock::simulation::demo::environment::{DemoEnvironment, SLACK_CHANNEL};
use drydock::simulation::emulator::model::{AnswerScript, ModelRequest, RequestRole};
use drydock::simulation::emulator::slack::SlackMessage;
use drydock::simulation::emulator::telegram::PostedMessage;
use drydock::state::access::{Grant, Role};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

/// The longest time that any step on loopback takes on a busy machine.
pub(crate) const BOUND: Duration = Duration::from_secs(60);
/// The end of every result: steps, tokens, time.
const FOOTER: &str = " tokens · ";
/// The number of the newest calls that the failure of a wait shows.
pub(crate) const SHOWN_CALLS_MAX: usize = 10;

/// The gateway and the emulators around it.
pub(crate) struct TestApp {
    pub(crate) demo: DemoEnvironment,
    members: Mutex<BTreeSet<String>>,
}

/// A message in a Slack thread and the result below it.
#[derive(Debug)]
pub(crate) struct SlackResult {
    pub(crate) thread: String,
    pub(crate) text: String,
    pub(crate) message: SlackMessage,
}

impl TestApp {
    pub(crate) async fn new(script: impl AnswerScript + 'static) -> Self {
        Self::with_host(script, super::world::world::<0>(), &[]).await
    }

    pub(crate) async fn with_settings(
        script: impl AnswerScript + 'static,
        settings: &[(&str, &str)],
    ) -> Self {
        Self::with_host(script, super::world::world::<0>(), settings).await
    }

    /// Starts the program with settings. Nothing is prerendered unless the settings enable it, so a test sees only the
    /// requested work.
    pub(crate) async fn with_host(
        script: impl AnswerScript + 'static,
        world: Host,
        settings: &[(&str, &str)],
    ) -> Self {
        let settings = [&[("sandbox.renders_ahead", "false")], settings].concat();
        let mut demo = DemoEnvironment::prepare(script, world, &settings).await.unwrap();
        demo.slack.record_traffic();
        demo.telegram.record_traffic();
        demo.start().await.unwrap();
        demo.slack.add_channel(SLACK_CHANNEL, &[]);
        Self {
            demo,
            members: Mutex::default(),
        }
    }

    // People.

    pub(crate) async fn invite(&self, name: &str, role: Role, environments: &[&str]) -> String {
        let request = AdminRequest::Invite {
            name: name.to_owned(),
            role,
            repositories: "*".to_owned(),
            environments: environments.iter().map(|glob| (*glob).to_owned()).collect(),
            hours: 24,
        };
        match self.send_admin_request(request).await {
            AdminReply::Invite { token, .. } => token,
            other => panic!("no invite: {other:?}"),
        }
    }

    /// Adds a Slack account in the platform channel that was not invited.
    pub(crate) fn add_slack_account(&self, user: &str) {
        let mut members = self.members.lock().unwrap();
        members.insert(user.to_owned());
        self.demo.slack.add_user(user);
        let all: Vec<&str> = members.iter().map(String::as_str).collect();
        self.demo.slack.add_channel(SLACK_CHANNEL, &all);
    }

    /// Invites and admits a Slack account. Its name is its id.
    pub(crate) async fn admit_slack_user(&self, user: &str, role: Role, environments: &[&str]) {
        self.add_slack_account(user);
        let token = self.invite(user, role, environments).await;
        self.demo.slack.dm(user, &format!("join {token}")).await.unwrap();
        let direct = format!("D{user}");
        self.wait_for_slack_message(&direct, "You're in").await;
    }

    pub(crate) async fn admit_slack_editor(&self, user: &str) {
        self.admit_slack_user(user, Role::Editor, &["**"]).await;
    }

    pub(crate) async fn admit_telegram_user(&self, user: i64, role: Role, environments: &[&str]) {
        let token = self.invite(&format!("t{user}"), role, environments).await;
        self.demo
            .telegram
            .say(user, user, &format!("/start {token}"))
            .await;
        self.wait_for_telegram_message(user, "You're in").await;
    }

    pub(crate) async fn admit_telegram_editor(&self, user: i64) {
        self.admit_telegram_user(user, Role::Editor, &["**"]).await;
    }

    pub(crate) async fn revoke(&self, which: &str) {
        let request = AdminRequest::Revoke {
            which: which.to_owned(),
        };
        let answer = self.send_admin_request(request).await;
        assert!(matches!(answer, AdminReply::Revoked { .. }), "{answer:?}");
    }

    pub(crate) async fn grant(&self, which: &str, role: Role, environments: &[&str]) {
        let grant = Grant {
            role,
            repositories: "*".to_owned(),
            environments: environments.iter().map(|glob| (*glob).to_owned()).collect(),
        };
        let request = AdminRequest::Grant {
            which: which.to_owned(),
            grant,
        };
        let answer = self.send_admin_request(request).await;
        assert!(matches!(answer, AdminReply::Granted { .. }), "{answer:?}");
    }

    pub(crate) async fn send_admin_request(&self, request: AdminRequest) -> AdminReply {
        self.demo.app.as_ref().unwrap().admin.answer(request).await
    }

    /// Waits until no work is left to run, to record or to deliver. A turn answers before the last part of its
    /// recording is written, and releases its conversation after that.
    pub(crate) async fn wait_until_idle(&self) {
        let started = std::time::Instant::now();
        loop {
            let open = self.open_work();
            if open.is_empty() {
                return;
            }
            assert!(started.elapsed() < BOUND, "the gateway is never idle: {open:#?}");
            // The database does not notify about changes. A poll is bounded and ends as soon as possible.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns the work that is left to run, to record or to deliver: messages, operations and claims.
    pub(crate) fn open_work(&self) -> Vec<String> {
        self.column(
            "SELECT 'message ' || id || ' of conversation ' || conversation FROM inbox WHERE done_at IS NULL
             UNION ALL
             SELECT 'operation ' || op || ' for ' || channel || ', ' || state || ' after ' || attempts || ' attempts'
                 || COALESCE(': ' || why, '') FROM outbox WHERE done_at IS NULL
             UNION ALL
             SELECT 'claim of conversation ' || id FROM conversation WHERE owner IS NOT NULL",
        )
    }

    // Telegram.

    /// Waits until Telegram shows something.
    pub(crate) async fn wait_for_telegram<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> T {
        self.demo.telegram.wait_until(BOUND, |_| look().is_some()).await;
        look().unwrap_or_else(|| {
            let calls = self.demo.telegram.calls();
            let newest: Vec<_> = calls.iter().rev().take(SHOWN_CALLS_MAX).collect();
            let open = self.open_work();
            panic!("Telegram never showed {what}; the newest calls: {newest:#?}\nopen: {open:#?}")
        })
    }

    /// Waits for a message of the bot in a chat.
    pub(crate) async fn wait_for_telegram_message(&self, chat: i64, text: &str) -> PostedMessage {
        self.wait_for_telegram(text, || {
            let messages = self.demo.telegram.messages(chat);
            messages.into_iter().find(|posted| posted.text.contains(text))
        })
        .await
    }

    /// Sends a request of a person in a direct chat with the bot, and waits for the result.
    pub(crate) async fn ask_telegram(&self, user: i64, words: &str) -> PostedMessage {
        let seen = self.telegram_results(user).len();
        self.demo.telegram.say(user, user, words).await;
        self.wait_for_telegram(words, || self.telegram_results(user).into_iter().nth(seen))
            .await
    }

    /// Returns the results in a chat so far.
    pub(crate) fn telegram_results(&self, chat: i64) -> Vec<PostedMessage> {
        let mut messages = self.demo.telegram.messages(chat);
        messages.retain(|posted| posted.text.contains(FOOTER));
        messages
    }

    /// Sends a command of a person in a direct chat with the bot. Returns the answer.
    pub(crate) async fn run_telegram_command(&self, user: i64, words: &str) -> String {
        let seen = self.demo.telegram.messages(user).len();
        self.demo.telegram.say(user, user, words).await;
        self.wait_for_telegram(words, || {
            let news = self.demo.telegram.messages(user).into_iter().nth(seen);
            news.map(|posted| posted.text)
        })
        .await
    }

    // The model.

    pub(crate) fn model_requests(&self) -> Vec<ModelRequest> {
        self.demo.model.requests()
    }

    /// Waits until the model got `count` requests. By then the gateway waits for its answer.
    pub(crate) async fn wait_for_model_requests(&self, count: usize) {
        let started = std::time::Instant::now();
        while self.model_requests().len() < count {
            assert!(
                started.elapsed() < BOUND,
                "the model was called {} times and not {count}; open: {:#?}",
                self.model_requests().len(),
                self.open_work()
            );
            // The emulator cannot notify. A poll is bounded and ends as soon as possible.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    // The gateway.

    /// Removes the bot's permission to read the history of the workspace, and restarts the gateway.
    pub(crate) async fn without_history(mut self) -> Self {
        self.demo.slack.withdraw("channels:history");
        self.restart().await;
        self
    }

    /// Stops the gateway and starts it again on the same data.
    pub(crate) async fn restart(&mut self) {
        self.demo.stop().await;
        self.demo.start().await.unwrap();
    }

    /// Starts the stopped gateway with another configuration, and waits until it is ready.
    pub(crate) async fn start_with(&mut self, config: Config) {
        self.start_with_host(config, super::world::world::<0>()).await;
    }

    /// Starts the stopped gateway with another configuration and a host, and waits until it is ready.
    pub(crate) async fn start_with_host(&mut self, config: Config, host: Host) {
        self.demo.app = Some(App::start(config, host).await.unwrap());
        let started = std::time::Instant::now();
        loop {
            let (status, body) = self.readyz().await;
            if status == 200 {
                return;
            }
            assert!(
                started.elapsed() < BOUND,
                "the gateway did not become ready: {body}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns the answer of `/readyz`.
    pub(crate) async fn readyz(&self) -> (u16, String) {
        let answer = reqwest_client().get(format!("{}/readyz", self.demo.url()));
        let answer = answer.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Sends a request to the gateway. Returns status and body.
    pub(crate) async fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
        let mut request = reqwest_client().post(format!("{}{path}", self.demo.url()));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut answer = request.body(body.to_vec()).send().await.unwrap();
        let status = answer.status().as_u16();
        let mut text = Vec::new();
        while let Some(chunk) = answer.chunk().await.unwrap() {
            text.extend_from_slice(&chunk);
        }
        (status, String::from_utf8(text).unwrap())
    }

    /// Returns the answer to a probe: status and body.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let request = reqwest_client().get(format!("{}{path}", self.demo.url()));
        let mut answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let mut text = Vec::new();
        while let Some(chunk) = answer.chunk().await.unwrap() {
            text.extend_from_slice(&chunk);
        }
        (status, String::from_utf8(text).unwrap())
    }

    /// Sends a request of a person's machine. Returns the status, the headers without the date, and the body.
    pub(crate) async fn get_with_token(
        &self,
        path: &str,
        token: &str,
    ) -> (u16, reqwest::header::HeaderMap, String) {
        let request = reqwest_client().get(format!("{}{path}", self.demo.url()));
        let answer = request.bearer_auth(token).send().await.unwrap();
        let mut headers = answer.headers().clone();
        headers.remove("date");
        (answer.status().as_u16(), headers, answer.text().await.unwrap())
    }

    fn problems(&self) -> Vec<String> {
        let demo = &self.demo;
        let mut problems = demo.slack.problems();
        problems.extend(demo.telegram.problems());
        problems.extend(demo.model.problems());
        problems.extend(
            demo.model
                .unused()
                .iter()
                .map(|line| format!("never asked for: {line}")),
        );
        problems.extend(schemas::problems(SentTo::Slack, &demo.slack.traffic()));
        problems.extend(schemas::problems(SentTo::Telegram, &demo.telegram.traffic()));
        problems.extend(self.damage());
        problems
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        // A failed test already has a reason. A second panic would hide it.
        if !std::thread::panicking() {
            let problems = self.problems();
            assert!(problems.is_empty(), "left behind:\n{}", problems.join("\n"));
        }
    }
}

/// Returns the text that a person reads in a Slack message.
pub(crate) fn visible_text(message: &SlackMessage) -> String {
    message.visible().join("\n")
}

fn reqwest_client() -> reqwest::Client {
    drydock::base::http_client::api_client().unwrap()
}

/// Returns the number of a request's step in its turn, from 0.
pub(crate) fn step_number(asked: &ModelRequest) -> usize {
    let words = asked.messages.iter().rposition(|message| {
        message.role == RequestRole::User
            && !message.text.is_empty()
            && !message.text.starts_with(REMARK_PREFIX)
    });
    let after = asked.messages.len() - words.map_or(asked.messages.len(), |index| index + 1);
    after / 2
}
