//! Changes of hooks that a person takes over, continues or discards.

use crate::hooks::{ONE, TWO, deliver, edit, release};
use crate::support::app::{TestApp, step_number, visible_text};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use drydock::simulation::emulator::slack::SlackMessage;
use drydock::state::access::Role;

fn labels(message: &SlackMessage) -> Vec<String> {
    message.buttons().into_iter().map(|button| button.label).collect()
}

/// Prepares a release for dev and staging, and what a person asks for in prod.
fn promote_and_continue(asked: &ModelRequest) -> ScriptedAnswer {
    match (
        step_number(asked),
        asked.last_user_text().contains("also in prod"),
    ) {
        (0, true) => calls("file_edit", edit("prod")),
        (0, false) => calls("file_edit", edit("dev")).with_call("file_edit", edit("staging")),
        _ => says("Prepared."),
    }
}

#[tokio::test]
async fn a_person_with_the_grants_takes_the_change_of_a_hook_over_and_goes_on() {
    let mut app = TestApp::new(promote_and_continue).await;
    app.admit_slack_editor("U0ALICE").await;
    app.admit_slack_user("U0BOB", Role::Viewer, &["**"]).await;
    assert_eq!(deliver(&app, "release", ONE, &release("one")).await.0, 200);
    let post = app
        .wait_for_slack_message(SLACK_CHANNEL, "is ready: 2 environments")
        .await;
    app.wait_until_idle().await;
    assert_eq!(labels(&post), ["Get patch", "Full diff", "Take over", "Discard"]);
    let slack = &app.demo.slack;
    // What shows the change can be pressed by everybody, and again.
    for (user, button) in ["U0BOB", "U0ALICE"]
        .into_iter()
        .flat_map(|user| [(user, "Full diff"), (user, "Get patch")])
    {
        let before = app.thread_messages(&post.ts).len();
        slack.click(user, &post.ts, button).await.unwrap();
        app.wait_for_slack("the difference", |state| {
            (state.replies(SLACK_CHANNEL, &post.ts).count() > before).then_some(())
        })
        .await;
        app.wait_until_idle().await;
    }
    let patches = slack.with_state(|state| {
        let sent = state.files.iter().filter(|file| file.name == "CHG-1.patch");
        sent.count()
    });
    assert_eq!(patches, 2, "that of the hook, and that of Alice");
    slack.click("U0BOB", &post.ts, "Take over").await.unwrap();
    app.wait_for_slack_reply(&post.ts, "your grant").await;
    app.restart().await;
    app.demo
        .slack
        .click("U0ALICE", &post.ts, "Take over")
        .await
        .unwrap();
    app.wait_for_slack_reply(&post.ts, "CHG-1 is yours now.").await;
    app.wait_until_idle().await;
    let shown = app.demo.slack.with_state(|state| {
        let mut messages = state.messages.iter();
        messages.find(|message| message.ts == post.ts).unwrap().clone()
    });
    assert_eq!(labels(&shown), [""; 0]);
    let line = "U0ALICE goes on with CHG-1 in this thread.";
    assert!(visible_text(&shown).contains(line), "{}", visible_text(&shown));
    assert_eq!(app.audit_lines_with("change.taken").len(), 1);

    // Without a mention, and on the edits of the hook.
    let result = app.ask_in("U0ALICE", &post.ts, "also in prod").await;
    assert!(
        result
            .text
            .contains("CHG-1 rev 2 is ready: 3 environments, 3 files"),
        "{}",
        result.text
    );
    // The next event prepares a change of its own.
    assert_eq!(deliver(&app, "release", TWO, &release("two")).await.0, 200);
    app.wait_for_slack_message(SLACK_CHANNEL, "CHG-2 is ready: 2 environments")
        .await;
    app.wait_until_idle().await;
}

/// Waits for the question that the press of [Discard] asks, and presses one of its buttons.
async fn decide(app: &TestApp, user: &str, thread: &str, label: &str) {
    let question = app
        .wait_for_slack_reply(thread, "Discard CHG-1 rev 1? Its edits are removed")
        .await;
    app.demo.slack.click(user, &question.ts, label).await.unwrap();
    app.wait_until_idle().await;
}

/// T29
#[tokio::test]
async fn the_change_of_a_hook_is_discarded_only_by_somebody_who_could_take_it_over() {
    let mut app = TestApp::new(promote_and_continue).await;
    app.admit_slack_editor("U0ALICE").await;
    app.admit_slack_user("U0BOB", Role::Viewer, &["**"]).await;
    app.admit_slack_user("U0CAROL", Role::Editor, &["dev"]).await;
    assert_eq!(deliver(&app, "release", ONE, &release("one")).await.0, 200);
    let post = app
        .wait_for_slack_message(SLACK_CHANNEL, "is ready: 2 environments")
        .await;
    app.wait_until_idle().await;
    let open = "SELECT count(*) FROM conversation WHERE change_number = 1";
    // Of two environments, Carol may change one.
    for user in ["U0BOB", "U0CAROL"] {
        let before = app.thread_messages(&post.ts).len();
        app.demo.slack.click(user, &post.ts, "Discard").await.unwrap();
        app.wait_until_idle().await;
        let said = app.thread_messages(&post.ts)[before..].to_vec();
        assert!(
            said.len() == 1 && said[0].contains("your grant covers"),
            "{user}: {said:?}"
        );
    }
    assert_eq!(app.count(open), 1);
    app.demo
        .slack
        .click("U0ALICE", &post.ts, "Discard")
        .await
        .unwrap();
    decide(&app, "U0ALICE", &post.ts, "Keep it").await;
    assert_eq!(app.count(open), 1);
    app.demo
        .slack
        .click("U0ALICE", &post.ts, "Discard")
        .await
        .unwrap();
    app.wait_until_idle().await;
    app.restart().await;
    // Only who asked decides, and only with the grants that they have then.
    let question = app
        .wait_for_slack("the question", |state| {
            let mut asked = state.replies(SLACK_CHANNEL, &post.ts);
            asked.find(|message| !message.buttons().is_empty()).cloned()
        })
        .await;
    let seen = app.ephemeral_messages("U0BOB").len();
    let press = app.demo.slack.click("U0BOB", &question.ts, "Discard CHG-1 rev 1");
    press.await.unwrap();
    let refused = app.wait_for_ephemeral("U0BOB", seen).await;
    assert_eq!(refused, "This button belongs to U0ALICE.");
    let press = app
        .demo
        .slack
        .click("U0ALICE", &question.ts, "Discard CHG-1 rev 1");
    press.await.unwrap();
    app.wait_for_slack_reply(&post.ts, "CHG-1 is discarded").await;
    app.wait_until_idle().await;
    assert_eq!(app.count(open), 0);
    assert_eq!(app.audit_lines_with("change.discarded").len(), 1);
    let shown = app.demo.slack.with_state(|state| {
        let mut messages = state.messages.iter();
        messages.find(|message| message.ts == post.ts).unwrap().clone()
    });
    assert_eq!(labels(&shown), [""; 0]);
    assert!(visible_text(&shown).contains("CHG-1 is discarded."));
    // The next event begins another change.
    assert_eq!(deliver(&app, "release", TWO, &release("two")).await.0, 200);
    app.wait_for_slack_message(SLACK_CHANNEL, "CHG-2 is ready: 2 environments")
        .await;
    app.wait_until_idle().await;
}
