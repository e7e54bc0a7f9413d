//! Questions of runs on a server: those who are asked answer once, with a button or with words, and nobody else does.

use crate::runs::{ended_runs, posts, say};
use crate::secrets::commit;
use crate::support::app::{TestApp, visible_text};
use crate::support::world::{advance, world};
use drydock::base::model::RunId;
use drydock::engine::admin::{AdminReply, AdminRequest, RunOrder};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::queue;
use drydock::simulation::emulator::slack::SlackMessage;
use drydock::state::access::{Grant, Role};
use drydock::state::store::OpenRuns;
use gix::objs::tree::EntryKind;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const CAROL: &str = "U0CAROL";
const PIPELINES: &str = r#"
pipelines:
  tell:
    triggers: [{chat: {}}]
    params: {words: {type: text}}
    steps:
      - name: approve
        ask:
          to: {group: editors}
          question: Tell the team?
          values: {words: "${params.words}"}
          choices: ["yes", "no"]
          deadline: 10m
          default: "no"
      - name: send
        when: steps.approve.output == 'yes'
        reply: {to: "channel:slack:C0PLATFORM", text: "${params.words}"}
  person:
    triggers: [{chat: {}}]
    steps:
      - name: approve
        ask: {to: {person: U0BOB}, question: Go on?, choices: ["yes", "no"], deadline: 10m}
  nobody:
    triggers: [{chat: {}}]
    steps:
      - name: approve
        ask: {to: {person: U0NOBODY}, question: Go on?, choices: ["yes", "no"], deadline: 10m}
  decide:
    triggers: [{slash_command: {command: /decide}}]
    steps:
      - name: approve
        ask: {to: {person: U0BOB}, question: Go on?, choices: ["yes", "no"], deadline: 10m}
  vote:
    triggers: [{slash_command: {command: /vote}}]
    steps:
      - name: approve
        ask: {to: {group: viewers}, question: Go on?, choices: ["yes", "no"], deadline: 10m}
  both:
    triggers: [{chat: {}}]
    steps:
      - name: asks
        parallel:
          - name: first
            ask: {to: {group: viewers}, question: First?, choices: ["yes", "no"], deadline: 10m}
          - name: second
            ask: {to: {group: viewers}, question: Second?, choices: ["yes", "no"], deadline: 10m}
"#;
/// The words of a question that is open.
const OPEN: &str = "needs a decision";

/// Starts a gateway whose repository has the pipelines, with clock number `CLOCK`. Alice only reads, and Bob is an editor.
async fn app<const CLOCK: usize>() -> TestApp {
    let settings = [
        ("pipelines.reply_targets", "[\"channel:slack:C0PLATFORM\"]"),
        ("channels.slack.slash_commands", "[\"/decide\", \"/vote\"]"),
    ];
    let app = TestApp::with_host(queue([]), world::<CLOCK>(), &settings).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    app.admit_slack_editor(BOB).await;
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, PIPELINES)]);
    app
}

/// Alice runs the pipeline in the channel. Returns its question.
async fn asked_in_channel(app: &TestApp) -> SlackMessage {
    let said = app.say(ALICE, "!run tell words=\"Ship it\"").await;
    app.wait_for_slack_reply(&said.ts, OPEN).await
}

/// Presses a button of a message as it was seen, and returns the answer that only this person sees.
async fn press(app: &TestApp, user: &str, message: &SlackMessage, label: &str) -> String {
    let seen = app.ephemeral_messages(user).len();
    let pressed = app.demo.slack.click_as_seen(user, message, label).await;
    pressed.unwrap();
    app.wait_for_ephemeral(user, seen).await
}

/// Returns the message as it is now.
fn now(app: &TestApp, message: &SlackMessage) -> SlackMessage {
    app.demo.slack.with_state(|state| {
        let mut messages = state.messages.iter();
        messages.find(|shown| shown.ts == message.ts).unwrap().clone()
    })
}

fn labels(message: &SlackMessage) -> Vec<String> {
    message.buttons().into_iter().map(|button| button.label).collect()
}

/// Checks that the message of a closed question has no buttons, and has these words.
fn assert_closed(app: &TestApp, asked: &SlackMessage, words: &str) {
    let closed = now(app, asked);
    assert_eq!(labels(&closed), Vec::<String>::new());
    let text = visible_text(&closed);
    assert!(text.contains(words), "{text}");
}

async fn answer_of_operator(app: &TestApp, choice: &str) -> AdminReply {
    let request = AdminRequest::Run {
        id: RunId(1),
        order: RunOrder::Answer {
            step: None,
            choice: choice.to_owned(),
        },
    };
    app.send_admin_request(request).await
}

/// T07
#[tokio::test]
async fn one_of_those_who_are_asked_answers_once_and_nobody_else_can() {
    let app = app::<0>().await;
    app.admit_slack_editor(CAROL).await;
    let elsewhere = AdminRequest::Grant {
        which: CAROL.to_owned(),
        grant: Grant {
            role: Role::Editor,
            repositories: "other".to_owned(),
            environments: vec!["**".to_owned()],
        },
    };
    app.send_admin_request(elsewhere).await;
    let asked = asked_in_channel(&app).await;
    let text = visible_text(&asked);
    for words in [
        "Run 1 of tell needs a decision.",
        "Tell the team?",
        "Ship it",
        "1. yes",
        "2. no",
        "Asked is an editor of infra: press a button, or write !runs answer 1 CHOICE. After 10m without an answer the \
         default counts: no.",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(labels(&asked), ["yes", "no"]);

    // The owner of the run only reads, and Carol has no grant for the repository.
    assert_eq!(
        press(&app, ALICE, &asked, "yes").await,
        "Nothing was answered: this question is for an editor of infra."
    );
    assert_eq!(
        press(&app, CAROL, &asked, "yes").await,
        "That button is too old; type the command instead."
    );
    say(&app, CAROL, "!runs answer 1 yes").await;
    app.wait_for_slack_message("DU0CAROL", "There is no run 1 that you may see")
        .await;
    assert_eq!(
        app.count("SELECT COUNT(*) FROM run_question WHERE closed_at IS NULL"),
        1
    );
    assert_eq!(
        posts(&app, SLACK_CHANNEL, "Ship it").len(),
        1,
        "the question alone"
    );

    assert_eq!(press(&app, BOB, &asked, "yes").await, "Your answer: yes");
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert_closed(&app, &asked, "U0BOB answered: yes.");
    let shown = posts(&app, SLACK_CHANNEL, "Run 1 of tell on infra: succeeded");
    assert!(
        shown.len() == 1 && shown[0].contains("succeeded · yes"),
        "{shown:?}"
    );
    assert_eq!(
        press(&app, BOB, &asked, "no").await,
        "That question is closed already. U0BOB answered: yes."
    );
    app.wait_until_idle().await;
    let sent = "SELECT COUNT(*) FROM outbox WHERE op LIKE 'run-1-1/reply-%' AND state = 'delivered'";
    assert_eq!(app.count(sent), 1);
    let output = "SELECT json_extract(result, '$.output') FROM run_step WHERE run = 1 AND step = 0";
    assert_eq!(app.column(output), ["yes"]);
    let closed = app.audit_lines_with("question.closed");
    let [closed] = closed.as_slice() else {
        panic!("{closed:?}");
    };
    assert!(
        closed.contains(r#""by":"U0BOB""#) && closed.contains(":U0BOB\""),
        "{closed}"
    );
}

#[tokio::test]
async fn a_person_is_asked_in_private_and_answers_after_a_restart() {
    let mut app = app::<0>().await;
    app.admit_slack_user(CAROL, Role::Viewer, &[]).await;
    say(&app, BOB, "!runs").await;
    app.wait_for_slack_message("DU0BOB", "There is no run that you may see.")
        .await;
    say(&app, ALICE, "!run person").await;
    let asked = app.wait_for_slack_message("DU0BOB", OPEN).await;
    assert!(visible_text(&asked).contains("Asked is U0BOB"), "{asked:?}");
    app.wait_for_slack_message("DU0ALICE", "waits for an answer")
        .await;
    assert_eq!(posts(&app, "DU0ALICE", OPEN), Vec::<String>::new());
    for (user, answer) in [
        (ALICE, "Nothing was answered: this question is for U0BOB."),
        (CAROL, "There is no run 1 that you may see"),
    ] {
        say(&app, user, "!runs answer 1 yes").await;
        app.wait_for_slack_message(&format!("D{user}"), answer).await;
    }
    app.restart().await;
    app.demo.slack.click(BOB, &asked.ts, "yes").await.unwrap();
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert_closed(&app, &asked, "U0BOB answered: yes.");
    assert_eq!(posts(&app, "DU0BOB", "asked for a decision").len(), 1);

    // Nobody has this name.
    say(&app, ALICE, "!run nobody").await;
    assert_eq!(ended_runs(&app, 2).await, ["succeeded", "failed"]);
    app.wait_for_slack_message("DU0ALICE", "nobody here has the name U0NOBODY")
        .await;
}

#[tokio::test]
async fn a_person_who_can_read_the_chat_of_a_run_is_mentioned_there() {
    let app = app::<0>().await;
    let said = app.say(ALICE, "!run person").await;
    let asked = app.wait_for_slack_reply(&said.ts, OPEN).await;
    let text = visible_text(&asked);
    assert!(
        text.starts_with("<@U0BOB>") && text.contains("After 10m without an answer the step fails."),
        "{text}"
    );
    assert_eq!(press(&app, BOB, &asked, "no").await, "Your answer: no");
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert_closed(&app, &asked, "U0BOB answered: no.");
}

/// The chat of a command may be one without the bot, and its answers are for its person alone.
#[tokio::test]
async fn the_run_of_a_slash_command_asks_a_person_in_private_and_no_group() {
    let app = app::<0>().await;
    say(&app, BOB, "!runs").await;
    app.wait_for_slack_message("DU0BOB", "There is no run that you may see.")
        .await;
    let slack = &app.demo.slack;
    let typed = slack.slash_command(ALICE, SLACK_CHANNEL, ("/decide", ""));
    typed.await.unwrap();
    let asked = app.wait_for_slack_message("DU0BOB", OPEN).await;
    slack.click(BOB, &asked.ts, "yes").await.unwrap();
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    let typed = slack.slash_command(ALICE, SLACK_CHANNEL, ("/vote", ""));
    typed.await.unwrap();
    assert_eq!(ended_runs(&app, 2).await, ["succeeded", "failed"]);
    let told = app.ephemeral_messages(ALICE).join("\n");
    for words in [
        "Run 1 of decide on infra: succeeded",
        "a group is asked in the chat of its run, and this run has none",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert_eq!(posts(&app, SLACK_CHANNEL, "Run "), Vec::<String>::new());
}

#[tokio::test]
async fn a_question_of_a_run_gets_its_default_when_its_time_is_over() {
    const CLOCK: usize = 24;
    let app = app::<CLOCK>().await;
    let asked = asked_in_channel(&app).await;
    advance::<CLOCK>(601);
    app.demo.app.as_ref().unwrap().gateway.runs.wake();
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert_closed(&app, &asked, "Nobody answered in time; the default counts: no.");
    assert_eq!(
        press(&app, BOB, &asked, "yes").await,
        "That question is closed already. Nobody answered in time; the default counts: no."
    );
    let statuses = "SELECT status FROM run_step WHERE run = 1 ORDER BY step";
    assert_eq!(app.column(statuses), ["succeeded", "skipped"]);
}

#[tokio::test]
async fn the_question_of_a_cancelled_run_loses_its_buttons_and_says_why() {
    let app = app::<0>().await;
    let asked = asked_in_channel(&app).await;
    say(&app, ALICE, "!runs cancel 1").await;
    assert_eq!(ended_runs(&app, 1).await, ["cancelled"]);
    assert_closed(
        &app,
        &asked,
        "No answer is needed any more: cancelled by U0ALICE.",
    );
    assert_eq!(
        press(&app, BOB, &asked, "yes").await,
        "That question is closed already. No answer is needed any more: cancelled by U0ALICE."
    );
    let refused = answer_of_operator(&app, "yes").await;
    let AdminReply::Failed { why } = &refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("run 1 waits for no answer"), "{why}");
}

#[tokio::test]
async fn nothing_more_of_a_question_reaches_the_private_chat_of_a_revoked_person() {
    let app = app::<0>().await;
    say(&app, BOB, "!runs").await;
    app.wait_for_slack_message("DU0BOB", "There is no run that you may see.")
        .await;
    say(&app, ALICE, "!run person").await;
    let of_bob = app.wait_for_slack_message("DU0BOB", OPEN).await;
    app.revoke(BOB).await;
    let answered = answer_of_operator(&app, "yes").await;
    assert!(matches!(answered, AdminReply::RunChanged { .. }), "{answered:?}");
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);

    // The end of the owner's access ends their runs, one in their private chat and one where others read.
    say(&app, ALICE, "!run tell words=Ship").await;
    let of_alice = app.wait_for_slack_message("DU0ALICE", OPEN).await;
    let in_channel = asked_in_channel(&app).await;
    app.revoke(ALICE).await;
    assert_eq!(ended_runs(&app, 3).await, ["succeeded", "cancelled", "cancelled"]);
    assert_closed(&app, &in_channel, "No answer is needed any more");
    for asked in [&of_bob, &of_alice] {
        let shown = now(&app, asked);
        assert_eq!(labels(&shown), ["yes", "no"]);
        assert_eq!(visible_text(&shown), visible_text(asked));
    }
    let edits = "SELECT op || ' ' || state FROM outbox WHERE op LIKE '%/question/closed' ORDER BY op";
    assert_eq!(
        app.column(edits),
        [
            "run-1-0/question/closed dropped",
            "run-2-0/question/closed dropped",
            "run-3-0/question/closed delivered",
        ]
    );
}

#[tokio::test]
async fn the_operator_answers_in_the_place_of_those_who_are_asked() {
    let app = app::<0>().await;
    let asked = asked_in_channel(&app).await;
    let refused = answer_of_operator(&app, "maybe").await;
    assert!(
        format!("{refused:?}").contains("a choice is yes, no"),
        "{refused:?}"
    );
    let answered = answer_of_operator(&app, "2").await;
    let AdminReply::RunChanged { done, .. } = &answered else {
        panic!("{answered:?}");
    };
    assert_eq!(done, "answered: no");
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert_closed(&app, &asked, "the operator answered: no.");
}

#[tokio::test]
async fn words_answer_the_question_of_the_step_that_they_name() {
    let app = app::<0>().await;
    say(&app, ALICE, "!run both").await;
    app.wait_for_slack_message("DU0ALICE", "Second?").await;
    for (words, answer) in [
        ("yes", "Run 1 asks in first, second."),
        ("second: maybe", "write one of yes, no, or its number"),
        ("second: no", "Your answer: no"),
        ("1", "Your answer: yes"),
        ("yes", "Run 1 waits for no answer."),
    ] {
        say(&app, ALICE, &format!("!runs answer 1 {words}")).await;
        app.wait_for_slack_message("DU0ALICE", answer).await;
    }
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    let outputs =
        "SELECT json_extract(result, '$.output') FROM run_step WHERE run = 1 AND kind = 'ask' ORDER BY step";
    assert_eq!(app.column(outputs), ["yes", "no"]);
}

/// STK-14
#[tokio::test]
async fn the_status_counts_the_runs_that_wait_for_a_person() {
    let app = app::<0>().await;
    let counted = async || match app.send_admin_request(AdminRequest::Status).await {
        AdminReply::Status { status } => status.runs.unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(counted().await, OpenRuns::default());
    asked_in_channel(&app).await;
    let asking = OpenRuns {
        waiting_for_person: 1,
        ..OpenRuns::default()
    };
    assert_eq!(counted().await, asking);
    let answered = answer_of_operator(&app, "no").await;
    assert!(matches!(answered, AdminReply::RunChanged { .. }), "{answered:?}");
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    assert_eq!(counted().await, OpenRuns::default());
}
