//! `slack-bot.yaml`: a slash command, and an answer for the person who typed it.

use super::{Example, concludes, last_results, steps};
use crate::runs::{ALICE, ended_runs};
use crate::support::app::{TestApp, visible_text};
use crate::support::world::world;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerScript, calls, queue};
use drydock::state::access::Role;
use serde_json::json;

pub(super) const BOB: &str = "U0BOB";
pub(super) const QUESTION: &str = "which image does web have in prod?";
pub(super) const ANSWER: &str = "web has version 1.8.3 in prod.";

pub(super) async fn start(script: impl AnswerScript + 'static) -> TestApp {
    let app = Example::read("slack-bot.yaml")
        .start(script, world::<0>(), &[])
        .await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    app
}

pub(super) async fn ask(app: &TestApp, user: &str, words: &str) {
    let typed = app.demo.slack.slash_command(user, SLACK_CHANNEL, ("/ask", words));
    typed.await.unwrap();
}

/// CI-16
#[tokio::test]
async fn a_question_in_slack_is_answered_for_the_one_who_asks_whatever_its_verdict_is() {
    let renders = json!({"env_path": "environments/prod", "include": ["deployment/web"]});
    let answers = [
        calls("tanka_show", renders),
        concludes("pass", ANSWER),
        concludes("fail", "prod has no limit for the memory of cache."),
    ];
    let app = start(queue(answers)).await;
    ask(&app, ALICE, QUESTION).await;
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    let asked = app.model_requests()[0].last_user_text().to_owned();
    let (instructions, data) = asked.split_once("<untrusted_data>").unwrap();
    assert!(
        !instructions.contains(QUESTION) && data.contains(QUESTION),
        "{asked}"
    );
    assert!(last_results(&app, 1).contains("web:1.8.3"));
    let told = app.ephemeral_messages(ALICE);
    assert_eq!(told.iter().filter(|text| *text == ANSWER).count(), 1, "{told:?}");

    ask(&app, ALICE, "what is missing in prod?").await;
    assert_eq!(ended_runs(&app, 2).await, ["succeeded", "failed"]);
    assert_eq!(steps(&app, 2), ["answer failed", "respond succeeded"]);
    let told = app.ephemeral_messages(ALICE);
    let missing = |text: &&String| text.as_str() == "prod has no limit for the memory of cache.";
    assert_eq!(told.iter().filter(missing).count(), 1, "{told:?}");
    // Nobody else reads anything of it.
    let public = app.demo.slack.with_state(|state| {
        let messages = state.messages.iter();
        let bots = messages.filter(|message| message.channel == SLACK_CHANNEL && !message.request.is_null());
        bots.map(visible_text).collect::<Vec<_>>()
    });
    assert_eq!(public, Vec::<String>::new());
}

#[tokio::test]
async fn a_question_of_somebody_who_is_not_admitted_and_one_without_words_start_nothing() {
    let app = start(queue([])).await;
    app.add_slack_account(BOB);
    ask(&app, BOB, QUESTION).await;
    app.wait_for_audit_line("auth.denied").await;
    let seen = app.ephemeral_messages(ALICE).len();
    ask(&app, ALICE, "").await;
    let told = app.wait_for_ephemeral(ALICE, seen).await;
    assert!(told.contains("question is required"), "{told}");
    app.wait_until_idle().await;
    assert_eq!(app.count("SELECT count(*) FROM run"), 0);
    assert!(app.model_requests().is_empty());
}
