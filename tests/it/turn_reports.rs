//! Tests of the report of a turn: it states what the turn did, counted by the gateway, and is sent once.

use crate::support::app::{TestApp, step_number, visible_text};
use crate::support::{sign, world};
use drydock::simulation::demo::environment::{SLACK_CHANNEL, SLACK_SIGNING_SECRET};
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, says};
use drydock::simulation::emulator::slack::SlackMessage;
use drydock::state::access::Role;
use serde_json::json;

const ALICE: &str = "U0ALICE";
const VERA: &str = "U0VERA";

/// Sets the replicas of dev from two to four.
fn edit() -> ScriptedAnswer {
    let of = |count: u32| format!("web:1.8.3',\n    replicas: {count},");
    let path = "environments/dev/main.jsonnet";
    calls("file_edit", json!({"path": path, "old": of(2), "new": of(4)}))
}

/// Edits what the person names and claims success, whatever the result.
fn claims(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let (is_prod, is_dev) = (words.contains("prod"), words.contains("dev"));
    match step_number(asked) {
        0 if is_prod => calls("file_delete", json!({"path": "environments/prod/main.jsonnet"})),
        0 if is_dev => edit(),
        _ if is_prod || is_dev => says("It now has four replicas."),
        _ => says("Because two were too few."),
    }
}

async fn app() -> TestApp {
    let app = TestApp::new(claims).await;
    app.admit_slack_user(ALICE, Role::Editor, &["dev"]).await;
    app
}

#[tokio::test]
async fn a_follow_up_that_changed_nothing_says_so_and_does_not_repeat_the_change() {
    let app = app().await;
    let first = app.ask(ALICE, "four replicas in dev").await;
    assert!(
        first.text.contains("CHG-1 is ready: dev, 1 file, +1 −1"),
        "{}",
        first.text
    );
    let shown = [
        "is ready",
        "+    replicas",
        "every affected environment",
        "Get patch",
    ];

    let refused = app.ask_in(ALICE, &first.thread, "four in prod").await.text;
    let lines: Vec<&str> = refused.lines().collect();
    assert_eq!(lines[0], "<@U0ALICE> *Nothing was changed.*", "{refused}");
    for line in [
        "1 write was refused: environments/prod is not in your grant (dev).",
        "CHG-1 stays as it was; diff shows it.",
    ] {
        assert!(lines.contains(&line), "no `{line}` in {refused}");
    }
    let failed = app.ask_in(ALICE, &first.thread, "four in dev, please").await.text;
    for line in [
        "1 write was not possible: found 0 matches of old in environments/dev/main.jsonnet.",
        "CHG-1 stays as it was; diff shows it.",
    ] {
        assert!(
            failed.lines().any(|shown| shown == line),
            "no `{line}` in {failed}"
        );
    }
    let answered = app.ask_in(ALICE, &first.thread, "why four?").await.text;
    assert!(answered.starts_with("<@U0ALICE>"), "{answered}");
    assert!(answered.contains("Because two were too few."), "{answered}");
    assert!(
        answered.contains("CHG-1 stays as it was; diff shows it."),
        "{answered}"
    );
    assert!(!answered.contains("Nothing was changed."), "{answered}");
    for text in [&refused, &failed, &answered] {
        assert!(text.contains("no file changed · "), "{text}");
        let repeated = shown.iter().find(|words| text.contains(**words));
        assert_eq!(repeated, None, "{text}");
    }
    // The buttons are missing as well, and the change is as before.
    let buttons = app.demo.slack.with_state(|state| {
        let replies = state.replies(SLACK_CHANNEL, &first.thread);
        let offering =
            |message: &&SlackMessage| message.buttons().iter().any(|button| button.label == "Get patch");
        replies.filter(offering).count()
    });
    assert_eq!(buttons, 1);
    let diff = app.run_command_in(ALICE, &first.thread, "!diff").await;
    assert!(
        diff.contains("CHG-1: 1 file, +1 −1") && diff.contains("+    replicas: 4,"),
        "{diff}"
    );
}

#[tokio::test]
async fn a_telegram_follow_up_that_changed_nothing_says_so_too() {
    let app = TestApp::new(claims).await;
    app.admit_telegram_user(4_201, Role::Editor, &["dev"]).await;
    let first = app.ask_telegram(4_201, "four replicas in dev").await;
    assert!(
        first.text.contains("CHG-1 is ready: dev, 1 file, +1 −1"),
        "{}",
        first.text
    );
    let second = app.ask_telegram(4_201, "four in prod").await;
    for words in [
        "Nothing was changed.",
        "1 write was refused: environments/prod is not in your grant (dev).",
        "CHG-1 stays as it was; diff shows it.",
    ] {
        assert!(second.text.contains(words), "no `{words}` in {}", second.text);
    }
    assert!(!second.text.contains("+    replicas: 4,"), "{}", second.text);
    let keys = second.keyboard.iter().flatten();
    let labels: Vec<&str> = keys.map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["Show CHG-1"]);
}

/// Sets the replicas of dev to four, and back to two.
fn set_or_reset_replicas(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let (from, to) = if words.contains("back") { (4, 2) } else { (2, 4) };
    let of = |count: u32| format!("web:1.8.3',\n    replicas: {count},");
    let path = "environments/dev/main.jsonnet";
    match step_number(asked) {
        0 if words.contains("write down") => calls(
            "file_write",
            json!({"path": "environments/dev/notes.txt", "content": "four\n"}),
        ),
        0 if words.contains("dev") => {
            calls("file_edit", json!({"path": path, "old": of(from), "new": of(to)}))
        }
        1 if words.contains("and stall") => says("Never said.").with_fault(AnswerFault::Stall),
        _ => says("Done."),
    }
}

/// Presses a button and waits for the new messages in its thread.
async fn press_and_wait(app: &TestApp, message: &SlackMessage, label: &str) -> String {
    app.wait_until_idle().await;
    let thread = message.thread_ts.clone().unwrap();
    let seen = app
        .demo
        .slack
        .with_state(|state| state.replies(SLACK_CHANNEL, &thread).count());
    let slack = &app.demo.slack;
    slack.click_as_seen(ALICE, message, label).await.unwrap();
    app.wait_for_slack(label, |state| {
        state.replies(SLACK_CHANNEL, &thread).nth(seen).map(visible_text)
    })
    .await
}

#[tokio::test]
async fn the_buttons_of_a_discarded_change_do_not_act_on_a_later_one() {
    let app = TestApp::new(set_or_reset_replicas).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "four replicas in dev").await;
    app.run_command_in(ALICE, &first.thread, "!discard").await;
    let second = app.ask_in(ALICE, &first.thread, "four replicas in dev").await;
    assert!(second.text.contains("CHG-2 is ready"), "{}", second.text);
    assert_eq!(
        press_and_wait(&app, &first.message, "Get patch").await,
        "CHG-1 rev 1 is not prepared here any more; patch alone is about CHG-2."
    );
    assert_eq!(
        press_and_wait(&app, &first.message, "Discard").await,
        "CHG-1 rev 1 is not prepared here any more, so nothing is discarded; discard removes CHG-2."
    );
    // A button of an earlier revision does nothing either.
    let third = app.ask_in(ALICE, &first.thread, "write down dev").await;
    assert_eq!(
        press_and_wait(&app, &second.message, "Discard").await,
        "That was rev 1, so nothing was done; CHG-2 rev 2 is the newest, and diff shows it."
    );
    let reported = press_and_wait(&app, &third.message, "Discard").await;
    assert!(reported.starts_with("CHG-2 rev 2 is discarded"), "{reported}");
}

#[tokio::test]
async fn a_follow_up_that_edits_everything_back_closes_the_change_and_says_so() {
    let app = TestApp::new(set_or_reset_replicas).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "four replicas in dev").await;
    assert!(first.text.contains("CHG-1 is ready"), "{}", first.text);
    let back = app.ask_in(ALICE, &first.thread, "back to two in dev").await.text;
    let lines: Vec<&str> = back.lines().collect();
    assert_eq!(lines[0], "<@U0ALICE> *CHG-1 is closed.*", "{back}");
    let line = "Nothing differs from the base any more, so nothing is prepared.";
    assert!(lines.contains(&line), "{back}");
    for wrong in ["stays as it was", "no file changed", "is ready"] {
        assert!(!back.contains(wrong), "{back}");
    }
    for command in ["!diff", "!patch"] {
        let reported = app.run_command_in(ALICE, &first.thread, command).await;
        assert!(reported.starts_with("Nothing is prepared here."), "{reported}");
    }
    assert!(
        app.audit_lines_with("turn.finished")
            .iter()
            .any(|line| line.contains(r#""closed":"CHG-1""#))
    );
    // It is a message like any other, and a number is never used twice.
    let undone = app.run_command_in(ALICE, &first.thread, "!undo").await;
    assert_eq!(undone, "Undone. CHG-2 is now 1 file, +1 −1; diff shows it.");
    let again = app.ask_in(ALICE, &first.thread, "why?").await.text;
    assert!(again.contains("CHG-2 stays as it was"), "{again}");
}

/// Checks that the state after an undo may be the base as well.
#[tokio::test]
async fn an_undo_that_leaves_the_base_closes_the_change() {
    let app = TestApp::new(set_or_reset_replicas).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "four replicas in dev").await;
    app.ask_in(ALICE, &first.thread, "back to two in dev").await;
    let third = app
        .ask_in(ALICE, &first.thread, "four replicas in dev")
        .await
        .text;
    assert!(third.contains("CHG-2 is ready"), "{third}");
    let undone = app.run_command_in(ALICE, &first.thread, "!undo").await;
    assert_eq!(
        undone,
        "Undone; the workspace equals the base again, and nothing is prepared."
    );
    let reported = app.run_command_in(ALICE, &first.thread, "!diff").await;
    assert!(reported.starts_with("Nothing is prepared here."), "{reported}");
}

/// R1: a turn that continues after a restart reports its earlier edits as well.
#[tokio::test]
async fn a_turn_that_goes_on_does_not_say_that_no_file_changed_if_one_did_before() {
    let mut app = TestApp::new(set_or_reset_replicas).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "four replicas in dev").await;
    app.say_in(ALICE, &first.thread, "back to two in dev and stall")
        .await;
    // The step with the edit is stored before the model gets the next request.
    app.wait_for_model_requests(4).await;
    app.demo.stop().await;
    app.alter_database("UPDATE inbox SET inbound = replace(inbound, 'in dev and stall', 'please')");
    app.demo.start().await.unwrap();
    let back = app.wait_for_result(&first.thread, 2).await.text;
    assert!(back.contains("CHG-1 is closed."), "{back}");
    assert!(!back.contains("no file changed"), "{back}");
}

/// Checks that refused writes are reported beside successful ones, with the resulting change.
#[tokio::test]
async fn refused_writes_are_counted_beside_a_change() {
    let app = TestApp::new(|asked: &ModelRequest| match step_number(asked) {
        0 => edit()
            .with_call("file_delete", json!({"path": "environments/prod/main.jsonnet"}))
            .with_call(
                "file_write",
                json!({"path": "environments/prod/a.txt", "content": "x"}),
            )
            .with_call("file_write", json!({"path": "README.md", "content": "x"})),
        _ => says("All of it is done."),
    })
    .await;
    app.admit_slack_user(ALICE, Role::Editor, &["dev"]).await;
    let result = app.ask(ALICE, "four replicas in dev, and empty prod").await.text;
    assert!(result.contains("CHG-1 is ready: dev, 1 file, +1 −1"), "{result}");
    let line = "3 writes were refused: environments/prod is not in your grant (dev); README.md is shared by all \
                environments; your grant covers only dev.";
    assert!(result.contains(line), "{result}");
}

/// Checks that an impossible file name is reported as such, alone and beside a change.
#[tokio::test]
async fn a_refused_file_name_is_reported_to_the_person() {
    let app = TestApp::new(|asked: &ModelRequest| {
        let named = says("").with_call("file_write", json!({"path": "notes\\a.txt", "content": "x"}));
        let both = edit().with_call("file_write", json!({"path": "notes\\a.txt", "content": "x"}));
        match (step_number(asked), asked.last_user_text().contains("replicas")) {
            (0, false) => named,
            (0, true) => both,
            _ => says("Done."),
        }
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    let reported =
        "1 write was refused: notes\\a.txt is outside the repository, where no name has a backslash";
    let alone = app.ask(ALICE, "write the note").await.text;
    assert!(alone.contains("Nothing was changed."), "{alone}");
    assert!(alone.contains(reported), "{alone}");
    let beside = app.ask(ALICE, "the note, and four replicas").await.text;
    assert!(beside.contains("CHG-1 is ready: dev, 1 file"), "{beside}");
    assert!(beside.contains(reported), "{beside}");
}

#[tokio::test]
async fn a_viewer_whose_model_claims_a_change_is_told_that_nothing_was_changed() {
    let app = TestApp::new(claims).await;
    app.admit_slack_user(VERA, Role::Viewer, &["**"]).await;
    let claimed = app.ask(VERA, "four replicas in dev").await.text;
    let lines: Vec<&str> = claimed.lines().collect();
    assert_eq!(lines[0], "<@U0VERA> *Nothing was changed.*", "{claimed}");
    let refused = "1 write was refused: you are a viewer here, and file_edit changes files.";
    assert!(lines.contains(&refused), "{claimed}");
    assert!(claimed.contains("no file changed · 2 steps · "), "{claimed}");
    // An answer without calls makes the same claim.
    let answered = app.ask(VERA, "why two?").await.text;
    assert!(answered.contains("no file changed · 1 step · "), "{answered}");
    assert_eq!(app.count("SELECT count(*) FROM change"), 0);
}

#[tokio::test]
async fn a_viewer_is_offered_what_a_viewer_can_do() {
    let app = TestApp::new(claims).await;
    app.admit_slack_user(VERA, Role::Viewer, &["**"]).await;
    app.admit_slack_editor(ALICE).await;
    for (user, offer, other) in [
        (VERA, "Ask about the files", "Say what should change"),
        (ALICE, "Say what should change", "Ask about the files"),
    ] {
        let welcome = app.wait_for_slack_message(&format!("D{user}"), "You're in").await;
        let help = app.run_slash_command(user, "help").await;
        for text in [visible_text(&welcome), help] {
            assert!(text.contains(offer) && !text.contains(other), "{text}");
        }
    }
}

#[tokio::test]
async fn a_mistyped_command_is_answered_with_the_nearest_and_asks_no_model() {
    let app = app().await;
    app.admit_telegram_editor(4_201).await;
    let thread = app.ask(ALICE, "why two?").await.thread;
    let asked = app.model_requests().len();
    for (typed, reported) in [
        (
            "!staus",
            "I don't know the command staus. Did you mean status? I know help, ",
        ),
        (
            "!nonsense of mine",
            "I don't know the command nonsense. I know help, ",
        ),
        ("!", "Which command? I know help, "),
    ] {
        let slack = app.run_command_in(ALICE, &thread, typed).await;
        let telegram = app.run_telegram_command(4_201, typed).await;
        assert!(
            slack.starts_with(reported) && telegram.starts_with(reported),
            "{slack}\n{telegram}"
        );
    }
    assert_eq!(app.model_requests().len(), asked, "a command called the model");
    // A message that only looks like a command is a request.
    app.ask_in(ALICE, &thread, "!= is which operator?").await;
    assert_eq!(app.model_requests().len(), asked + 1);
}

/// Presses a button of a card as Slack does for a person who still sees its earlier state.
async fn press(app: &TestApp, card: &SlackMessage) {
    let button = card.buttons().into_iter().next().unwrap();
    let payload = json!({
        "type": "block_actions",
        "user": {"id": ALICE, "team_id": "T0ACME"},
        "team": {"id": "T0ACME"},
        "api_app_id": "A0DRYDOCK",
        "container": {"type": "message", "message_ts": card.ts, "channel_id": card.channel,
            "thread_ts": card.thread_ts, "is_ephemeral": false},
        "channel": {"id": card.channel},
        "trigger_id": "trigger.old",
        "actions": [{"type": "button", "action_id": button.action_id, "block_id": "b", "value": button.value,
            "action_ts": "1795293600.900001"}],
    });
    let body = form_urlencoded::Serializer::new(String::new())
        .append_pair("payload", &payload.to_string())
        .finish();
    let seconds = world::now::<0>().as_second();
    let signature = sign::slack(SLACK_SIGNING_SECRET, seconds, body.as_bytes());
    let time = seconds.to_string();
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("x-slack-request-timestamp", time.as_str()),
        ("x-slack-signature", signature.as_str()),
    ];
    assert_eq!(app.post("/in/slack", &headers, body.as_bytes()).await.0, 200);
}

#[tokio::test]
async fn the_stop_button_of_a_turn_that_has_ended_stops_no_later_one() {
    let app = TestApp::new(|asked: &ModelRequest| match asked.last_user_text() {
        words if words.contains("stall") => says("Never said.").with_fault(AnswerFault::Stall),
        _ => says("Here I am."),
    })
    .await;
    app.admit_slack_editor(ALICE).await;
    app.demo.slack.forget_method("chat.startStream");
    let said = app.say(ALICE, "stall").await;
    let old = app.wait_for_slack_reply(&said.ts, "Working").await;
    app.say_in(ALICE, &said.ts, "!stop").await;
    app.wait_for_result(&said.ts, 1).await;
    app.wait_until_idle().await;

    app.say_in(ALICE, &said.ts, "stall again").await;
    app.wait_for_model_requests(2).await;
    press(&app, &old).await;
    app.wait_for_slack_reply(
        &said.ts,
        "That turn has ended. A later turn is running; stop ends it.",
    )
    .await;
    let running = "SELECT count(*) FROM turn WHERE finished_at IS NULL";
    assert_eq!(app.count(running), 1);
    app.say_in(ALICE, &said.ts, "!stop").await;
    let stopped = app.wait_for_result(&said.ts, 2).await;
    assert!(stopped.text.contains("Stopped at step 1."), "{}", stopped.text);
}
