//! The messages of earlier revisions: their buttons are gone, they name what replaced them, and a name of an old revision
//! does nothing.

use crate::support::app::{TestApp, step_number, visible_text};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, says};
use drydock::simulation::emulator::slack::SlackMessage;
use drydock::state::access::Role;
use serde_json::json;

const ALICE: &str = "U0ALICE";

/// Sets the replicas of dev: "from 2 to 4".
fn scale(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let numbers: Vec<&str> = words
        .split(' ')
        .filter(|word| word.parse::<u32>().is_ok())
        .collect();
    let of = |count: &str| format!("web:1.8.3',\n    replicas: {count},");
    match (step_number(asked), numbers.as_slice()) {
        (0, [from, to]) => calls(
            "file_edit",
            json!({"path": "environments/dev/main.jsonnet", "old": of(from), "new": of(to)}),
        ),
        _ => says("Done."),
    }
}

async fn message(app: &TestApp, ts: &str, line: &str) -> SlackMessage {
    app.wait_for_slack(line, |state| {
        let message = state.message(SLACK_CHANNEL, ts)?;
        visible_text(message).contains(line).then(|| message.clone())
    })
    .await
}

fn labels(message: &SlackMessage) -> Vec<String> {
    message.buttons().into_iter().map(|button| button.label).collect()
}

#[tokio::test]
async fn the_message_of_an_old_revision_loses_its_buttons_and_names_the_new_one() {
    let app = TestApp::new(scale).await;
    app.admit_slack_user(ALICE, Role::Editor, &["dev"]).await;
    let first = app.ask(ALICE, "from 2 to 4 in dev").await;
    assert_eq!(
        labels(&first.message),
        ["Get patch", "Full diff", "Revise", "Discard"]
    );
    let second = app.ask_in(ALICE, &first.thread, "from 4 to 5 in dev").await;
    assert!(second.text.contains("CHG-1 rev 2 is ready"), "{}", second.text);
    let old = message(&app, &first.message.ts, "Replaced by CHG-1 rev 2 below.").await;
    assert_eq!(labels(&old), Vec::<String>::new());
    // Its content stays.
    for words in ["CHG-1 is ready", "+    replicas: 4,", " tokens · "] {
        assert!(
            visible_text(&old).contains(words),
            "no `{words}` in {}",
            visible_text(&old)
        );
    }
    for command in ["!patch CHG-1 rev 1", "!diff CHG-1 rev 1", "!discard CHG-1 rev 1"] {
        let answer = app.run_command_in(ALICE, &first.thread, command).await;
        let stale = "That was rev 1, so nothing was done; CHG-1 rev 2 is the newest, and diff shows it.";
        assert_eq!(answer, stale, "{command}");
    }
    let files = app.demo.slack.with_state(|state| state.files.len());
    assert_eq!(files, 0);
    // The newest revision still has its buttons, until the change is discarded.
    let newest = message(&app, &second.message.ts, "CHG-1 rev 2 is ready").await;
    assert_eq!(
        labels(&newest),
        ["Get patch", "Full diff", "Revise", "Undo", "Discard"]
    );
    app.demo.slack.click(ALICE, &newest.ts, "Discard").await.unwrap();
    let gone = message(&app, &newest.ts, "CHG-1 rev 2 is discarded.").await;
    assert_eq!(labels(&gone), Vec::<String>::new());
    app.wait_until_idle().await;
}

#[tokio::test]
async fn the_result_of_a_change_that_was_undone_or_taken_back_has_no_buttons() {
    let app = TestApp::new(scale).await;
    app.admit_slack_user(ALICE, Role::Editor, &["dev"]).await;
    let first = app.ask(ALICE, "from 2 to 4 in dev").await;
    app.ask_in(ALICE, &first.thread, "from 4 to 2 in dev").await;
    let closed = message(&app, &first.message.ts, "CHG-1 is closed.").await;
    assert_eq!(labels(&closed), Vec::<String>::new());
    let again = app.ask_in(ALICE, &first.thread, "from 2 to 6 in dev").await;
    app.run_command_in(ALICE, &first.thread, "!undo").await;
    let undone = message(&app, &again.message.ts, "the workspace equals the base again").await;
    assert_eq!(labels(&undone), Vec::<String>::new());
    app.wait_until_idle().await;
}

/// Every environment with its objects, and the numbers above them.
#[tokio::test]
async fn full_diff_shows_the_rendered_difference_of_every_environment() {
    let app = TestApp::new(scale).await;
    app.admit_slack_user(ALICE, Role::Editor, &["dev"]).await;
    let first = app.ask(ALICE, "from 2 to 4 in dev").await;
    app.demo
        .slack
        .click(ALICE, &first.message.ts, "Full diff")
        .await
        .unwrap();
    let shown = app
        .wait_for_slack_reply(&first.thread, "### environments/dev")
        .await;
    let shown = visible_text(&shown);
    for words in [
        "=== apps/Deployment dev/web (changed, +1 -1)",
        "-  replicas: 2",
        "+  replicas: 4",
    ] {
        assert!(shown.contains(words), "no `{words}` in {shown}");
    }
    let all = app.run_command_in(ALICE, &first.thread, "!diff all").await;
    assert!(all.contains("### environments/dev"), "{all}");
    app.wait_until_idle().await;
}

/// A turn that has edited further does not change what the buttons of the earlier result show.
#[tokio::test]
async fn full_diff_shows_its_revision_while_a_turn_edits_further() {
    let held = |asked: &ModelRequest| {
        let second = asked.last_user_text().contains("from 4 to 5");
        let fault = (second && step_number(asked) == 1).then_some(AnswerFault::Held);
        ScriptedAnswer {
            fault,
            ..scale(asked)
        }
    };
    let app = TestApp::new(held).await;
    app.admit_slack_user(ALICE, Role::Editor, &["dev"]).await;
    let first = app.ask(ALICE, "from 2 to 4 in dev").await;
    let requests = app.model_requests().len();
    app.say_in(ALICE, &first.thread, "from 4 to 5 in dev").await;
    app.wait_for_model_requests(requests + 2).await;
    let slack = &app.demo.slack;
    slack.click(ALICE, &first.message.ts, "Full diff").await.unwrap();
    let shown = app
        .wait_for_slack_reply(&first.thread, "### environments/dev")
        .await;
    let shown = visible_text(&shown);
    assert!(shown.contains("+  replicas: 4"), "{shown}");
    // Neither turns nor other commands wait for it.
    let alone = "SELECT count(*) FROM inbox WHERE lane = 'command' AND inbound LIKE '%\"kind\":\"click\"%'";
    assert_eq!(app.count(alone), 1);
    app.demo.model.release();
    app.wait_for_result(&first.thread, 2).await;
    app.wait_until_idle().await;
}
