//! The bots of `clients/typescript/examples`: programs beside the server, which start the pipelines of two examples over HTTP.

use super::ask_in_slack::{self, ANSWER, BOB, QUESTION, ask};
use super::review::{self, FINDING, NUMBER, ONE, REPOSITORY, event, push};
use super::{concludes, steps};
use crate::runs::{ALICE, ended_runs};
use crate::runs_api::{READ, WRITE, token};
use crate::support::app::TestApp;
use crate::support::require::{Component, component};
use crate::support::shell::RunningProgram;
use crate::support::sign;
use crate::support::source::root;
use crate::support::world::now;
use crate::typescript_client::{DIRECTORY, build};
use drydock::base::http_client::api_client;
use drydock::simulation::demo::environment::{GITHUB_TOKEN, SLACK_CHANNEL, SLACK_SIGNING_SECRET};
use drydock::simulation::emulator::model::queue;
use drydock::state::access::Role;
use serde_json::{Value, json};
use std::path::Path;
use std::time::SystemTime;
use tokio::task::block_in_place;

/// The secret with which GitHub signs events for the bot.
const SECRET: &str = "b4d2f6081a3c5e7f9b0d1f3a5c7e9024";

/// The programs of the client, and the program of Node that runs them.
struct Programs {
    node: Component,
    directory: tempfile::TempDir,
}

/// A running bot.
struct Bot {
    program: RunningProgram,
    url: String,
}

impl Programs {
    /// Builds the client; `None` without the packages for that.
    fn built() -> Option<Self> {
        let node = component("openapi-typescript")?;
        let directory = tempfile::tempdir().unwrap();
        let built = build(&node, &root().join(DIRECTORY), directory.path());
        assert_eq!(built.code, Some(0), "{built:?}");
        write_clock(directory.path());
        Some(Self { node, directory })
    }

    /// Starts a bot for a server.
    fn start(&self, name: &str, app: &TestApp, token: &str, variables: &[(&str, &str)]) -> Bot {
        let place = self.directory.path();
        let mut command = self.node.command();
        command
            .arg("--import")
            .arg(place.join("clock.js"))
            .arg(place.join("examples").join(name))
            .env("DRYDOCK_URL", app.demo.url())
            .env("DRYDOCK_TOKEN", token)
            .env("LISTEN", "127.0.0.1:0")
            .envs(variables.iter().copied());
        block_in_place(|| {
            let mut program = RunningProgram::start(command);
            let line = program.wait_for_stdout_line("listening on ");
            let url = line.strip_prefix("listening on ").unwrap().to_owned();
            Bot { program, url }
        })
    }
}

/// Writes a module that gives a program the time of the emulators.
fn write_clock(directory: &Path) {
    let real = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let ahead = i128::from(now::<0>().as_millisecond()) - i128::try_from(real.as_millis()).unwrap();
    let module = format!("const real = Date.now;\nDate.now = () => real() + {ahead};\n");
    std::fs::write(directory.join("clock.js"), module).unwrap();
}

impl Bot {
    fn wait_for_line(&mut self, words: &str) {
        block_in_place(|| self.program.wait_for_stdout_line(words));
    }

    /// Sends a request, and returns the status of its answer.
    async fn post(&self, headers: &[(&str, &str)], body: &str) -> u16 {
        let mut request = api_client().unwrap().post(&self.url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.body(body.to_owned()).send().await.unwrap();
        answer.status().as_u16()
    }

    /// Sends an event like GitHub.
    async fn deliver(&self, event: &Value, secret: &str) -> u16 {
        let body = event.to_string();
        let signature = sign::github(secret, body.as_bytes());
        let headers = [
            ("content-type", "application/json"),
            ("x-github-event", "pull_request"),
            ("x-github-delivery", ONE),
            ("x-hub-signature-256", signature.as_str()),
        ];
        self.post(&headers, &body).await
    }
}

/// CI-15, CI-16
#[tokio::test(flavor = "multi_thread")]
async fn a_program_reviews_pull_requests_over_http_and_comments_once_also_after_its_restart() {
    let Some(programs) = Programs::built() else {
        return;
    };
    let (app, github) = review::start(review::review).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    let token = token(&app, ALICE, &[READ, WRITE]).await;
    let url = github.api_base_url();
    let variables = [
        ("GITHUB_WEBHOOK_SECRET", SECRET),
        ("GITHUB_REPOSITORY", REPOSITORY),
        ("GITHUB_TOKEN", GITHUB_TOKEN),
        ("GITHUB_URL", url.as_str()),
    ];
    let start = || programs.start("review-bot.js", &app, &token, &variables);
    let mut bot = start();
    let opened = event("opened", &push(&app, 1));
    assert_eq!(bot.deliver(&opened, "another secret of somebody").await, 401);
    let mut elsewhere = opened.clone();
    elsewhere["repository"]["full_name"] = json!("acme/other");
    assert_eq!(bot.deliver(&elsewhere, SECRET).await, 204);
    assert_eq!(app.count("SELECT count(*) FROM run"), 0);

    assert_eq!(bot.deliver(&opened, SECRET).await, 202);
    bot.wait_for_line("run 1: commented on acme/infra#7");
    assert_eq!(ended_runs(&app, 1).await, ["failed"]);
    // The server itself has no event to comment on.
    assert_eq!(steps(&app, 1), ["review failed", "comment skipped"]);
    assert_eq!(bot.deliver(&opened, SECRET).await, 202);
    bot.wait_for_line("run 1: has its comment");
    drop(bot);
    let mut bot = start();
    assert_eq!(bot.deliver(&opened, SECRET).await, 202);
    bot.wait_for_line("run 1: has its comment");

    let comments = github.comments(REPOSITORY, NUMBER);
    let [comment] = comments.as_slice() else {
        panic!("{comments:?}");
    };
    assert!(comment.starts_with(FINDING), "{comment}");
    assert_eq!(github.problems(), Vec::<String>::new());
    assert_eq!(app.column("SELECT started_by FROM run"), ["api"]);
}

/// CI-15, CI-16
#[tokio::test(flavor = "multi_thread")]
async fn a_program_answers_a_slash_command_over_http_for_the_people_of_its_list() {
    let Some(programs) = Programs::built() else {
        return;
    };
    let app = ask_in_slack::start(queue([concludes("pass", ANSWER)])).await;
    app.add_slack_account(BOB);
    let token = token(&app, ALICE, &[READ, WRITE]).await;
    let api = app.demo.slack.api_base_url();
    let variables = [
        ("SLACK_SIGNING_SECRET", SLACK_SIGNING_SECRET),
        ("SLACK_USERS", ALICE),
        ("SLACK_RESPONSES", api.strip_suffix("/api").unwrap()),
    ];
    let mut bot = programs.start("slack-bot.js", &app, &token, &variables);
    // From now on, Slack sends commands to the bot.
    app.demo.slack.connect_to(&bot.url);
    let refused = app
        .demo
        .slack
        .slash_command(BOB, SLACK_CHANNEL, ("/ask", QUESTION));
    let refused = refused.await.unwrap();
    assert_eq!(refused.status, 200);
    assert!(refused.body.contains("You may not ask me here."), "{refused:?}");
    ask(&app, ALICE, QUESTION).await;
    bot.wait_for_line("run 1: answered");
    let told = app
        .wait_for_slack(ANSWER, |state| {
            let mut shown = state.ephemerals.iter();
            shown.find(|message| message.text == ANSWER).cloned()
        })
        .await;
    assert_eq!(
        (told.user.as_str(), told.channel.as_str()),
        (ALICE, SLACK_CHANNEL)
    );

    // A request that is old, or that somebody else has signed, starts nothing.
    let body = "command=%2Fask&text=x&user_id=U0ALICE&trigger_id=t&response_url=https%3A%2F%2Fexample.com%2F";
    let seconds = now::<0>().as_second();
    for (secret, seconds, expected) in [
        (SLACK_SIGNING_SECRET, seconds - 600, 401),
        ("another secret of somebody", seconds, 401),
        // The address is none of Slack.
        (SLACK_SIGNING_SECRET, seconds, 400),
    ] {
        let (time, signature) = (seconds.to_string(), sign::slack(secret, seconds, body.as_bytes()));
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("x-slack-request-timestamp", time.as_str()),
            ("x-slack-signature", signature.as_str()),
        ];
        assert_eq!(bot.post(&headers, body).await, expected, "{secret} {seconds}");
    }
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert_eq!(steps(&app, 1), ["answer succeeded", "respond skipped"]);
    assert_eq!(app.column("SELECT started_by FROM run"), ["api"]);
}
