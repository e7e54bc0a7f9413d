//! Mirrors of a remote that is unreachable, hangs, recovers, or whose local copy is damaged: people get answers that
//! state the age of the data.

use crate::support::app::TestApp;
use crate::support::git_server::GitServer;
use crate::support::require::component;
use crate::support::world::world;
use drydock::base::config::{Config, RepositorySettings};
use drydock::server::app::App;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::demo::repository;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, says};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const BOUND: Duration = Duration::from_secs(60);
const READY: &str = r#"{"ready":true}"#;

/// The gateway with a remote repository beside its local one.
struct RemoteMirrorFixture {
    app: TestApp,
    server: GitServer,
    remotes: TempDir,
    first: String,
    config: Config,
}

/// Returns the configuration of the demo environment, with a remote on this machine, which no configuration file may
/// name.
fn config(app: &TestApp, url: String) -> Config {
    let mut config = app.demo.config().unwrap();
    let remote = RepositorySettings {
        path: None,
        url: Some(url),
        token: None,
        branch: "main".to_owned(),
    };
    config.repositories.insert("remote".to_owned(), remote);
    config.limits.mirror_age_max = Duration::from_secs(1);
    config.limits.fetch_wait_max = Duration::from_secs(1);
    config.limits.turn.turn_time_max = Duration::from_secs(5);
    config
}

/// Makes Slack send to the current gateway.
fn connect(app: &TestApp) {
    let demo = &app.demo;
    demo.slack.connect_to(&format!("{}/in/slack", demo.url()));
}

/// Never answers a request to stall.
fn here_or_stalls(asked: &ModelRequest) -> ScriptedAnswer {
    match asked.last_user_text().contains("stall") {
        true => says("Never.").with_fault(AnswerFault::Stall),
        false => says("Here."),
    }
}

impl RemoteMirrorFixture {
    /// Starts the gateway. A mirror may be a second old, and a turn waits a second for a fetch. Returns `None` without
    /// git.
    async fn start() -> Option<Self> {
        let remotes = tempfile::tempdir().unwrap();
        let first = repository::create(&remotes.path().join("remote.git")).unwrap();
        let server = GitServer::start(remotes.path())?;
        let url = format!("{}remote.git", server.address);
        let mut app = TestApp::with_settings(here_or_stalls, &[]).await;
        app.demo.stop().await;
        let config = config(&app, url);
        app.start_with(config.clone()).await;
        connect(&app);
        app.admit_slack_editor(ALICE).await;
        app.admit_slack_editor(BOB).await;
        Some(Self {
            app,
            server,
            remotes,
            first,
            config,
        })
    }

    /// Adds one more commit to `main`.
    fn push(&self) -> String {
        let git = component("git").unwrap();
        let run = |arguments: &[&str]| {
            let mut command = git.command();
            command
                .arg("-C")
                .arg(self.remotes.path().join("remote.git"))
                .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"])
                .args(arguments);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let commit = run(&["commit-tree", "main^{tree}", "-p", "main", "-m", "one more"]);
        run(&["update-ref", "refs/heads/main", &commit]);
        commit
    }

    fn mirror(&self) -> PathBuf {
        self.app.demo.data().join("mirrors/remote.git")
    }

    async fn readiness(&self) -> (u16, String) {
        let client = drydock::base::http_client::api_client().unwrap();
        let url = format!("{}/readyz", self.app.demo.url());
        let mut answer = client.get(url).send().await.unwrap();
        let mut text = Vec::new();
        while let Some(chunk) = answer.chunk().await.unwrap() {
            text.extend_from_slice(&chunk);
        }
        (answer.status().as_u16(), String::from_utf8(text).unwrap())
    }

    /// Waits until `/readyz` contains a text.
    async fn until_readyz(&self, status: u16, says: &str) {
        let started = Instant::now();
        loop {
            let seen = self.readiness().await;
            if seen.0 == status && seen.1.contains(says) {
                return;
            }
            assert!(started.elapsed() < BOUND, "no `{status} {says}`: {seen:?}");
            // The end of a fetch causes no notification. A poll is bounded and ends as soon as possible.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn ask(&self, user: &str) -> String {
        let text = self.app.ask(user, "remote: hello").await.text;
        assert!(text.contains("Here."), "{text}");
        text
    }
}

#[tokio::test]
async fn an_answer_from_an_old_mirror_says_so_until_the_remote_is_back() {
    let Some(mirrored) = RemoteMirrorFixture::start().await else {
        return;
    };
    let text = mirrored.ask(ALICE).await;
    assert!(!text.contains("could not be fetched"), "{text}");
    mirrored.server.down();
    let newer = mirrored.push();
    // Without any request the failure is still noticed, and the gateway keeps using the existing data.
    mirrored
        .until_readyz(200, "\"degraded\":[\"remote could not be fetched since ")
        .await;
    let text = mirrored.ask(ALICE).await;
    let line = regex::Regex::new(&format!(
        r"(?m)^remote could not be fetched since [0-9: -]*UTC \([0-9]+ (s|min|h) ago\): the remote could not be reached; this is based on commit {}\.$",
        &mirrored.first[..7]
    ));
    assert!(line.unwrap().is_match(&text), "{text}");

    mirrored.server.up();
    mirrored.until_readyz(200, READY).await;
    let branches = std::fs::read_to_string(mirrored.mirror().join("packed-refs")).unwrap();
    assert!(branches.contains(&newer), "{branches}");
    let text = mirrored.ask(ALICE).await;
    assert!(!text.contains("could not be fetched"), "{text}");
}

/// R28
#[tokio::test]
async fn a_fetch_that_hangs_keeps_nobody_from_being_answered() {
    let Some(mirrored) = RemoteMirrorFixture::start().await else {
        return;
    };
    mirrored.server.hang();
    mirrored
        .until_readyz(200, "the remote has not answered for ")
        .await;
    let (alice, bob) = tokio::join!(mirrored.ask(ALICE), mirrored.ask(BOB));
    for text in [alice, bob] {
        assert!(text.contains("the remote has not answered for "), "{text}");
    }
    mirrored.server.up();
    mirrored.until_readyz(200, READY).await;
    let text = mirrored.ask(ALICE).await;
    assert!(!text.contains("has not answered"), "{text}");
}

/// R28, STK-43
#[tokio::test]
async fn a_repository_that_cannot_be_opened_within_the_time_of_a_turn_is_reported() {
    let Some(mut mirrored) = RemoteMirrorFixture::start().await else {
        return;
    };
    mirrored.app.demo.stop().await;
    std::fs::remove_dir_all(mirrored.mirror()).unwrap();
    mirrored.server.hang();
    let app = App::start(mirrored.config.clone(), world::<0>()).await.unwrap();
    mirrored.app.demo.app = Some(app);
    connect(&mirrored.app);
    mirrored
        .until_readyz(
            503,
            r#"{"ready":false,"waiting_for":["loading repository remote"]}"#,
        )
        .await;
    let said = mirrored.app.say(ALICE, "remote: hello").await;
    let expected =
        "remote could not be opened within 5 s. It is still being fetched or read; ask again later.";
    mirrored
        .app
        .wait_for_slack("that it took too long", |state| {
            let mut replies = state.replies(SLACK_CHANNEL, &said.ts);
            replies
                .any(|message| message.visible().join("\n").contains(expected))
                .then_some(())
        })
        .await;
    // A stop ends the wait earlier.
    let said = mirrored.app.say(ALICE, "remote: hello").await;
    mirrored.app.say_in(ALICE, &said.ts, "!stop").await;
    mirrored
        .app
        .wait_for_slack_reply(&said.ts, "Stopped before it began.")
        .await;
    mirrored.server.up();
    let started = Instant::now();
    // The attempt that hung must end first.
    while !mirrored.mirror().exists() {
        assert!(started.elapsed() < BOUND, "the remote is never fetched");
        mirrored.app.say(BOB, "remote: hello").await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    mirrored.ask(ALICE).await;
}

/// R28: an attempt that a restart interrupted has something to show, but a stop does not wait for the newest commit.
#[tokio::test]
async fn a_stop_ends_the_opening_of_an_earlier_attempt_at_once() {
    let Some(mut mirrored) = RemoteMirrorFixture::start().await else {
        return;
    };
    mirrored.ask(ALICE).await;
    let asked = mirrored.app.model_requests().len();
    let said = mirrored.app.say(ALICE, "remote: stall").await;
    mirrored.app.wait_for_model_requests(asked + 1).await;
    mirrored.app.demo.stop().await;
    mirrored.server.hang();
    let mut config = mirrored.config.clone();
    config.limits.mirror_age_max = Duration::ZERO;
    config.limits.fetch_wait_max = BOUND;
    config.limits.turn.turn_time_max = 2 * BOUND;
    // It is not ready before the fetch has ended, or was waited for.
    let app = App::start(config, world::<0>()).await.unwrap();
    mirrored.app.demo.app = Some(app);
    connect(&mirrored.app);
    let started = Instant::now();
    while mirrored.server.held() == 0 {
        assert!(started.elapsed() < BOUND, "the attempt does not fetch");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stopped = Instant::now();
    mirrored.app.say_in(ALICE, &said.ts, "!stop").await;
    mirrored.app.wait_for_slack_reply(&said.ts, "Stopped").await;
    let waited = stopped.elapsed();
    assert!(waited < BOUND / 4, "{waited:?}");
    assert_eq!(mirrored.app.model_requests().len(), asked + 1);
    mirrored.server.up();
}

#[tokio::test]
async fn a_mirror_that_is_damaged_while_it_serves_is_fetched_anew() {
    let Some(mirrored) = RemoteMirrorFixture::start().await else {
        return;
    };
    mirrored.ask(ALICE).await;
    std::fs::write(mirrored.mirror().join("packed-refs"), [0; 100]).unwrap();
    mirrored.ask(ALICE).await;
    mirrored.until_readyz(200, READY).await;
    let branches = std::fs::read_to_string(mirrored.mirror().join("packed-refs")).unwrap();
    assert!(branches.contains(&mirrored.first), "{branches}");
}
