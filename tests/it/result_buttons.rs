//! The buttons below a result: revise, undo and show, and the question before a change is discarded.

use crate::support::app::{TestApp, step_number, visible_text};
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use drydock::simulation::emulator::telegram::PostedMessage;
use drydock::state::access::Role;
use serde_json::json;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const ANNA: i64 = 4_201;
const BEN: i64 = 4_202;

/// Sets the replicas of dev: "from 2 to 4". Anything else is only answered.
fn scale(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let (_, asked_for) = words.split_once("from ").unwrap_or_default();
    let numbers: Vec<&str> = asked_for
        .split(|char: char| !char.is_ascii_digit())
        .filter(|word| !word.is_empty())
        .take(2)
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

fn keys(message: &PostedMessage) -> Vec<&str> {
    let keys = message.keyboard.iter().flatten();
    keys.map(|(label, _)| label.as_str()).collect()
}

async fn press(app: &TestApp, user: i64, chat: i64, message: i64, label: &str) {
    let pressed = app.demo.telegram.click(user, chat, message, label).await;
    pressed.unwrap();
}

fn open_changes(app: &TestApp) -> i64 {
    app.count("SELECT count(*) FROM conversation WHERE change_number IS NOT NULL")
}

/// The workspace asks before Slack sends the press.
#[tokio::test]
async fn slack_asks_before_a_change_is_discarded() {
    let app = TestApp::new(scale).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "from 2 to 4").await;
    let buttons = result.message.buttons();
    let asking: Vec<&str> = buttons
        .iter()
        .filter(|button| !button.confirm.is_null())
        .map(|button| button.label.as_str())
        .collect();
    assert_eq!(asking, ["Discard"]);
    let dialog = &buttons.last().unwrap().confirm;
    assert_eq!(dialog["title"]["text"], "Discard?");
    let question = "Discard CHG-1 rev 1? Its edits are removed from the workspace. That cannot be undone.";
    assert_eq!(dialog["text"]["text"], question);
    let slack = &app.demo.slack;
    slack.click(ALICE, &result.message.ts, "Discard").await.unwrap();
    app.wait_for_slack_reply(&result.thread, "CHG-1 is discarded")
        .await;
    assert_eq!(open_changes(&app), 0);
    app.wait_until_idle().await;
}

/// T07
#[tokio::test]
async fn telegram_asks_before_a_change_is_discarded_and_only_its_owner_answers() {
    let app = TestApp::new(scale).await;
    app.admit_telegram_editor(ANNA).await;
    app.admit_telegram_editor(BEN).await;
    let chat = -100_777;
    app.demo.telegram.add_group(chat, &[]);
    app.demo
        .telegram
        .say(ANNA, chat, "@drydock_bot from 2 to 4")
        .await;
    let result = app
        .wait_for_telegram("a result", || app.telegram_results(chat).pop())
        .await;
    assert_eq!(keys(&result), ["Get patch", "Full diff", "Revise", "Discard"]);

    let question = "Discard CHG-1 rev 1? Its edits are removed from the workspace. That cannot be undone.";
    press(&app, ANNA, chat, result.id, "Discard").await;
    let asked = app.wait_for_telegram_message(chat, question).await;
    assert_eq!(keys(&asked), ["Discard CHG-1 rev 1", "Keep it"]);
    press(&app, BEN, chat, asked.id, "Discard CHG-1 rev 1").await;
    let refusal = "This button belongs to t4201.";
    app.wait_for_telegram("a refusal", || {
        app.demo
            .telegram
            .answers()
            .into_iter()
            .find(|(_, text)| text == refusal)
    })
    .await;
    press(&app, ANNA, chat, asked.id, "Keep it").await;
    let kept = app.wait_for_telegram_message(chat, "CHG-1 rev 1 is kept.").await;
    assert_eq!((kept.id, keys(&kept)), (asked.id, Vec::new()));
    assert_eq!(open_changes(&app), 1);

    // The button below the result still works.
    press(&app, ANNA, chat, result.id, "Discard").await;
    let again = app.wait_for_telegram_message(chat, question).await;
    assert_ne!(again.id, asked.id);
    press(&app, ANNA, chat, again.id, "Discard CHG-1 rev 1").await;
    let done = "CHG-1 is discarded; the workspace equals the base again.";
    let discarded = app.wait_for_telegram_message(chat, done).await;
    assert_eq!((discarded.id, keys(&discarded)), (again.id, Vec::new()));
    let unused = "SELECT count(*) FROM action WHERE verb IN ('confirm-discard', 'keep') AND used_at IS NULL";
    assert_eq!(app.count(unused), 0);
    assert_eq!(open_changes(&app), 0);
    app.wait_until_idle().await;
}

/// A change that was replaced in the meantime is neither asked about nor discarded.
#[tokio::test]
async fn a_question_before_a_discard_is_about_one_revision() {
    let app = TestApp::new(scale).await;
    app.admit_telegram_editor(ANNA).await;
    let first = app.ask_telegram(ANNA, "from 2 to 4").await;
    press(&app, ANNA, ANNA, first.id, "Discard").await;
    let asked = app.wait_for_telegram_message(ANNA, "Discard CHG-1 rev 1?").await;
    app.ask_telegram(ANNA, "from 4 to 5").await;
    press(&app, ANNA, ANNA, asked.id, "Discard CHG-1 rev 1").await;
    let stale = "That was rev 1, so nothing was done; CHG-1 rev 2 is the newest, and diff shows it.";
    app.wait_for_telegram_message(ANNA, stale).await;
    assert_eq!(open_changes(&app), 1);
    app.wait_until_idle().await;
}

#[tokio::test]
async fn revise_opens_a_form_in_slack_and_its_words_are_a_request_in_the_thread() {
    let app = TestApp::new(scale).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "from 2 to 4").await;
    let slack = &app.demo.slack;
    slack.click(ALICE, &first.message.ts, "Revise").await.unwrap();
    let title = app
        .wait_for_slack("a form", |state| {
            state.views.last().map(|view| view.title().to_owned())
        })
        .await;
    assert_eq!(title, "Revise CHG-1");
    let form = slack.with_state(|state| state.views.last().cloned().unwrap());
    let answer = slack
        .submit(ALICE, "from 4 to 5, *please* <@U0BOB>")
        .await
        .unwrap();
    // Anything but an empty answer would keep the form open.
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    let shown = app
        .wait_for_slack_reply(&first.thread, "U0ALICE about CHG-1:")
        .await;
    assert!(
        visible_text(&shown).contains("from 4 to 5, *please* <@U0BOB>"),
        "{shown:?}"
    );
    assert_eq!(shown.mentions(), Vec::new());
    let second = app.wait_for_result(&first.thread, 2).await;
    assert!(second.text.contains("CHG-1 rev 2 is ready"), "{}", second.text);

    assert!(slack.with_state(|state| state.views.is_empty()));

    // The same form again, as after an answer that was lost, does nothing, and closes as well.
    let requests = app.model_requests().len();
    let again = slack.submit_view(ALICE, form, "from 5 to 6").await.unwrap();
    assert_eq!((again.status, again.body.as_str()), (200, ""));
    assert_eq!(app.model_requests().len(), requests);

    // The press of a button that is seconds old opens no form, so the question is a message.
    let seen = app.ephemeral_messages(ALICE).len();
    slack.delay_triggers();
    slack.click(ALICE, &second.message.ts, "Revise").await.unwrap();
    let question = app.wait_for_ephemeral(ALICE, seen).await;
    assert_eq!(
        question,
        "What should be different in CHG-1 rev 2? Write it in this conversation."
    );
    app.wait_until_idle().await;
}

/// The form of one person does not let another one speak: the words count for who sends them.
#[tokio::test]
async fn nobody_speaks_for_somebody_else_in_a_form() {
    let app = TestApp::new(scale).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_user(BOB, Role::Admin, &["**"]).await;
    let first = app.ask(ALICE, "from 2 to 4").await;
    let seen = app.ephemeral_messages(BOB).len();
    app.demo
        .slack
        .click(BOB, &first.message.ts, "Revise")
        .await
        .unwrap();
    let refused = app.wait_for_ephemeral(BOB, seen).await;
    assert_eq!(refused, "This button belongs to U0ALICE.");
    let slack = &app.demo.slack;
    assert!(slack.with_state(|state| state.views.is_empty()));

    // The words of a form are those of the person who sends it, in their own conversation.
    slack.click(ALICE, &first.message.ts, "Revise").await.unwrap();
    let form = app
        .wait_for_slack("a form", |state| state.views.last().cloned())
        .await;
    slack.submit_view(BOB, form, "what is this?").await.unwrap();
    app.start_own(BOB).await;
    app.wait_for_result(&first.thread, 2).await;
    // Everybody in the thread sees what was asked.
    let shown = app
        .wait_for_slack_reply(&first.thread, "U0BOB about CHG-1:")
        .await;
    assert!(visible_text(&shown).contains("what is this?"), "{shown:?}");
    app.wait_until_idle().await;
    let conversations = "SELECT count(DISTINCT conversation) FROM turn";
    assert_eq!(app.count(conversations), 2);
}

/// The words of a form are a request, also if they are the word of a command.
#[tokio::test]
async fn the_words_of_a_form_are_never_a_command() {
    let app = TestApp::new(scale).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "from 2 to 4").await;
    let slack = &app.demo.slack;
    slack.click(ALICE, &first.message.ts, "Revise").await.unwrap();
    app.wait_for_slack("a form", |state| state.views.last().cloned())
        .await;
    slack.submit(ALICE, "discard").await.unwrap();
    app.wait_for_slack_reply(&first.thread, "U0ALICE about CHG-1:")
        .await;
    let second = app.wait_for_result(&first.thread, 2).await;
    assert!(second.text.contains("CHG-1 stays as it was"), "{}", second.text);
    assert_eq!(open_changes(&app), 1);
    app.wait_until_idle().await;
}

#[tokio::test]
async fn revise_opens_the_input_field_in_telegram() {
    let app = TestApp::new(scale).await;
    app.admit_telegram_editor(ANNA).await;
    let chat = -100_777;
    app.demo.telegram.add_group(chat, &[]);
    app.demo
        .telegram
        .say(ANNA, chat, "@drydock_bot from 2 to 4")
        .await;
    let first = app
        .wait_for_telegram("a result", || app.telegram_results(chat).pop())
        .await;
    press(&app, ANNA, chat, first.id, "Revise").await;
    let question = "What should be different in CHG-1?";
    let asked = app.wait_for_telegram_message(chat, question).await;
    let calls = app.demo.telegram.calls();
    let field = calls.iter().rev().find_map(|(method, parameters)| {
        (method == "sendMessage").then(|| parameters["reply_markup"].clone())
    });
    assert_eq!(
        field.unwrap(),
        json!({"force_reply": true, "selective": true, "input_field_placeholder": question})
    );
    app.demo.telegram.reply(ANNA, chat, asked.id, "from 4 to 5").await;
    let second = app
        .wait_for_telegram("a second result", || {
            app.telegram_results(chat).into_iter().nth(1)
        })
        .await;
    assert!(second.text.contains("CHG-1 rev 2 is ready"), "{second:?}");
    assert_eq!(
        keys(&second),
        ["Get patch", "Full diff", "Revise", "Undo", "Discard"]
    );
    app.wait_until_idle().await;
}

#[tokio::test]
async fn undo_below_a_revision_reverts_that_revision_only() {
    let app = TestApp::new(scale).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "from 2 to 4").await;
    let second = app.ask_in(ALICE, &first.thread, "from 4 to 5").await;
    let third = app.ask_in(ALICE, &first.thread, "from 5 to 6").await;
    let slack = &app.demo.slack;
    slack.click_as_seen(ALICE, &second.message, "Undo").await.unwrap();
    let stale = "That was rev 2, so nothing was done; CHG-1 rev 3 is the newest, and diff shows it.";
    app.wait_for_slack_reply(&first.thread, stale).await;
    slack.click(ALICE, &third.message.ts, "Undo").await.unwrap();
    app.wait_for_slack_reply(&first.thread, "Undone. CHG-1 rev 4 is now 1 file, +1 −1")
        .await;
    let diff = app.run_command_in(ALICE, &first.thread, "!diff").await;
    assert!(diff.contains("replicas: 5"), "{diff}");
    app.wait_until_idle().await;
}
