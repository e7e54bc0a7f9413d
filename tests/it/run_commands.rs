//! Runs that slash commands start, of the Slack app of a channel and of another one, and their answers.

use crate::run_replies::steps_of_ended_runs;
use crate::secrets::commit;
use crate::support::app::{TestApp, visible_text};
use crate::support::sign;
use crate::support::world::{advance, now, world};
use drydock::base::model::RunId;
use drydock::engine::admin::{AdminReply, AdminRequest, RunOrder};
use drydock::simulation::demo::environment::{SLACK_CHANNEL, SLACK_SIGNING_SECRET};
use drydock::simulation::emulator::model::{AnswerFault, AnswerScript, ModelRequest, calls, queue, says};
use drydock::simulation::emulator::slack::SlackFault;
use drydock::state::access::{Grant, Role};
use gix::objs::tree::EntryKind;
use serde_json::json;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const DIRECT: &str = "DU0ALICE";
/// A private channel without the app.
const PRIVATE: &str = "C0PRIVATE";
const ODD: &str = r#"
pipelines:
  odd:
    triggers:
      - slash_command: {command: /odd}
        when: params.number > 0
    params: {number: {type: integer}}
    permissions: {role: viewer}
    steps:
      - name: look
        agent: {model: anthropic/demo, prompt: Is the number odd?, params: {number: "${params.number}"}}
      - name: answer
        reply: {to: slack-response, text: "${steps.look.output}"}
  change:
    triggers: [{slash_command: {command: /change}}]
    steps: [{name: change, agent: {model: anthropic/demo, prompt: Change something.}}]
"#;

/// Two pipelines with one command. Only the first one is started by its name as well.
const SHARED: &str = r#"
pipelines:
  number:
    triggers: [{slash_command: {command: /odd}}, {chat: {}}]
    params: {number: {type: integer}}
    permissions: {role: viewer}
    steps: [{name: look, agent: {model: anthropic/demo, prompt: Is it odd?, params: {number: "${params.number}"}}}]
  words:
    triggers: [{slash_command: {command: /odd}}]
    params: {words: {type: text}}
    permissions: {role: viewer}
    steps: [{name: look, agent: {model: anthropic/demo, prompt: Are they odd?, params: {words: "${params.words}"}}}]
"#;

/// Starts a gateway whose Slack app has two commands of pipelines.
async fn with_commands<const CLOCK: usize>(script: impl AnswerScript + 'static) -> TestApp {
    let settings = [
        (
            "channels.slack.slash_commands",
            "[\"/odd\", \"/change\", \"/absent\"]",
        ),
        ("pipelines.reply_targets", "[\"slack-response\"]"),
    ];
    let app = TestApp::with_host(script, world::<CLOCK>(), &settings).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    app.demo.slack.add_channel_without_bot(PRIVATE, &[ALICE]);
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, ODD)]);
    app
}

/// CI-16, CI-24
#[tokio::test]
async fn a_slash_command_starts_its_pipeline_and_its_person_alone_gets_the_answer() {
    let app = with_commands::<0>(queue([says("Seven is odd."), says("Nine is odd.")])).await;
    for (channel, words, answer) in [
        (SLACK_CHANNEL, "7", "Seven is odd."),
        (PRIVATE, "infra: number=9", "Nine is odd."),
    ] {
        let typed = ("/odd", words);
        app.demo.slack.slash_command(ALICE, channel, typed).await.unwrap();
        let seen = app
            .wait_for_slack(answer, |state| {
                let ephemerals = state.ephemerals.iter();
                let here = ephemerals.filter(|message| message.channel == channel && message.user == ALICE);
                let texts: Vec<String> = here.map(visible_text).collect();
                texts.iter().any(|text| text == answer).then_some(texts)
            })
            .await;
        assert!(seen[0].contains("/odd is run") && seen.len() == 2, "{seen:?}");
    }
    let steps = steps_of_ended_runs(&app, 2).await;
    assert_eq!(
        steps,
        [
            "look succeeded",
            "answer succeeded",
            "look succeeded",
            "answer succeeded"
        ]
    );
    assert_eq!(
        app.column("SELECT started_by FROM run"),
        ["slash_command /odd", "slash_command /odd"]
    );
    // Nobody else sees anything of it.
    let public = app.demo.slack.with_state(|state| {
        let messages = state.messages.iter().filter(|message| !message.request.is_null());
        messages.filter(|message| message.channel != DIRECT).count()
    });
    assert_eq!(public, 0);
    assert!(app.model_requests()[0].last_user_text().contains('7'));
    // The address is a credential, and is in no message.
    let held = app.column(
        "SELECT inbound FROM inbox UNION ALL SELECT body FROM outbox UNION ALL SELECT inputs FROM run",
    );
    assert!(held.iter().all(|text| !text.contains("/commands/")), "{held:?}");
}

#[tokio::test]
async fn a_slash_command_starts_nothing_without_a_grant_and_says_the_same_as_for_none() {
    let app = with_commands::<0>(queue([])).await;
    app.admit_slack_user(BOB, Role::Editor, &["**"]).await;
    let request = AdminRequest::Grant {
        which: BOB.to_owned(),
        grant: Grant {
            role: Role::Editor,
            repositories: "other".to_owned(),
            environments: vec!["**".to_owned()],
        },
    };
    app.send_admin_request(request).await;
    let unknown = |command: &str| format!("There is no pipeline that {command} starts for you here.");
    for (user, command, words, answer) in [
        (BOB, "/odd", "7", unknown("/odd")),
        (BOB, "/odd", "infra: 7", unknown("/odd")),
        (ALICE, "/absent", "", unknown("/absent")),
        (ALICE, "/odd", "", "number is required".to_owned()),
        (ALICE, "/odd", "seven", "number: is no integer".to_owned()),
        (
            ALICE,
            "/odd",
            "-7",
            "the condition of its trigger is false".to_owned(),
        ),
        (ALICE, "/change", "", "the role in infra is viewer".to_owned()),
        // The command of Drydock has the same words as before.
        (ALICE, "/drydock", "odd 7", "I don't know the command".to_owned()),
    ] {
        let seen = app.ephemeral_messages(user).len();
        let typed = (command, words);
        app.demo
            .slack
            .slash_command(user, SLACK_CHANNEL, typed)
            .await
            .unwrap();
        let told = app.wait_for_ephemeral(user, seen).await;
        assert!(told.contains(&answer), "{user} {command} {words}: {told}");
    }
    app.wait_until_idle().await;
    assert_eq!(app.count("SELECT count(*) FROM run"), 0);
    assert!(app.model_requests().is_empty());
}

#[tokio::test]
async fn a_slash_command_of_two_pipelines_starts_none_and_tells_those_with_a_grant_what_starts_one() {
    let app = with_commands::<0>(queue([says("Seven is odd.")])).await;
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, SHARED)]);
    app.admit_slack_editor(BOB).await;
    let elsewhere = AdminRequest::Grant {
        which: BOB.to_owned(),
        grant: Grant {
            role: Role::Editor,
            repositories: "other".to_owned(),
            environments: vec!["**".to_owned()],
        },
    };
    app.send_admin_request(elsewhere).await;
    let both = "Nothing was started: 2 pipelines of infra have the command /odd: number, words. Write !run infra: number \
                instead.";
    let unknown = "There is no pipeline that /odd starts for you here.";
    // Words that fit the parameters of one of them alone do not choose it.
    for (user, words, answer) in [
        (ALICE, "7", both),
        (ALICE, "number=7", both),
        (ALICE, "infra: seven", both),
        (ALICE, "", both),
        (BOB, "7", unknown),
        (BOB, "infra: 7", unknown),
    ] {
        let seen = app.ephemeral_messages(user).len();
        let typed = ("/odd", words);
        let sent = app.demo.slack.slash_command(user, SLACK_CHANNEL, typed);
        sent.await.unwrap();
        let told = app.wait_for_ephemeral(user, seen).await.replace('`', "");
        assert_eq!(told, answer, "{user} {words}");
    }
    assert_eq!(app.count("SELECT count(*) FROM run"), 0);
    app.demo
        .slack
        .dm(ALICE, "!run infra: number number=7")
        .await
        .unwrap();
    assert_eq!(steps_of_ended_runs(&app, 1).await, ["look succeeded"]);
    assert_eq!(
        app.column("SELECT pipeline || ' ' || started_by FROM run"),
        ["number chat"]
    );
}

#[tokio::test]
async fn an_answer_after_half_an_hour_fails_and_its_person_is_told_in_a_chat_with_the_bot() {
    const CLOCK: usize = 29;
    let late = |_: &ModelRequest| {
        advance::<CLOCK>(1_900);
        says("Seven is odd.")
    };
    let app = with_commands::<CLOCK>(late).await;
    let seen = app.ephemeral_messages(ALICE).len();
    app.demo
        .slack
        .slash_command(ALICE, SLACK_CHANNEL, ("/odd", "7"))
        .await
        .unwrap();
    let told = app.wait_for_ephemeral(ALICE, seen + 1).await;
    assert!(told.contains("Run 1 of odd on infra: failed"), "{told}");
    let steps = steps_of_ended_runs(&app, 1).await;
    let why = "answer failed: the address for answers to the command has expired, half an hour after it";
    assert_eq!(steps, ["look succeeded", why]);
    assert_eq!(app.ephemeral_messages(ALICE).len(), seen + 2);
}

#[tokio::test]
async fn an_answer_that_may_have_arrived_is_not_sent_again_and_none_follows_a_revocation() {
    let app = with_commands::<0>(queue([says("Seven is odd.")])).await;
    app.demo
        .slack
        .fail_next("response_url", 1, SlackFault::ResetAfter);
    app.demo
        .slack
        .slash_command(ALICE, SLACK_CHANNEL, ("/odd", "7"))
        .await
        .unwrap();
    steps_of_ended_runs(&app, 1).await;
    let answers = app.ephemeral_messages(ALICE).into_iter();
    assert_eq!(answers.filter(|text| text == "Seven is odd.").count(), 1);
    let outcome = app.column("SELECT state || ' ' || why FROM outbox WHERE op = 'run-1-1/reply-1'");
    assert_eq!(outcome, ["ambiguous it is unknown whether it was sent"]);

    let stalls = |_: &ModelRequest| says("Never.").with_fault(AnswerFault::Stall);
    let app = with_commands::<0>(stalls).await;
    app.demo
        .slack
        .slash_command(ALICE, SLACK_CHANNEL, ("/odd", "7"))
        .await
        .unwrap();
    app.wait_for_model_requests(1).await;
    app.wait_for_ephemeral(ALICE, 0).await;
    app.revoke(ALICE).await;
    steps_of_ended_runs(&app, 1).await;
    assert_eq!(app.column("SELECT status FROM run"), ["cancelled"]);
    assert_eq!(app.ephemeral_messages(ALICE).len(), 1);
}

#[tokio::test]
async fn a_repeated_run_of_a_slash_command_answers_its_person() {
    let verdict = json!({ "verdict": "fail", "summary": "It is not readable." });
    let app = with_commands::<0>(queue([calls("conclude", verdict), says("Seven is odd.")])).await;
    app.demo
        .slack
        .slash_command(ALICE, PRIVATE, ("/odd", "7"))
        .await
        .unwrap();
    let told = app.wait_for_ephemeral(ALICE, 1).await;
    assert!(told.contains("Run 1 of odd on infra: failed"), "{told}");
    steps_of_ended_runs(&app, 1).await;
    let again = AdminRequest::Run {
        id: RunId(1),
        order: RunOrder::Retry,
    };
    let changed = app.send_admin_request(again).await;
    assert!(matches!(changed, AdminReply::RunChanged { .. }), "{changed:?}");
    let steps = steps_of_ended_runs(&app, 2).await;
    assert_eq!(steps[2..], ["look succeeded", "answer succeeded"]);
    let told = app.ephemeral_messages(ALICE);
    assert_eq!((told.len(), told[2].as_str()), (3, "Seven is odd."));
}

/// The pipeline without its command.
const UNPUBLISHED: &str = r#"
pipelines:
  odd:
    triggers: [{api: {}}]
    permissions: {role: viewer}
    steps: [{name: look, agent: {model: anthropic/demo, prompt: Is the number odd?}}]
"#;

#[tokio::test]
async fn a_person_repeats_the_run_of_their_slash_command_while_its_pipeline_has_that_command() {
    let verdict = json!({ "verdict": "fail", "summary": "It is not readable." });
    let app = with_commands::<0>(queue([calls("conclude", verdict), says("Seven is odd.")])).await;
    app.admit_slack_user(BOB, Role::Editor, &["**"]).await;
    let typed = app.demo.slack.slash_command(ALICE, SLACK_CHANNEL, ("/odd", "7"));
    typed.await.unwrap();
    steps_of_ended_runs(&app, 1).await;
    app.demo.slack.dm(BOB, "!runs retry 1").await.unwrap();
    app.wait_for_slack_message("DU0BOB", "There is no run 1 that you may see")
        .await;
    app.demo.slack.dm(ALICE, "!runs retry 1").await.unwrap();
    app.wait_for_slack_message(DIRECT, "Run 2 repeats run 1").await;
    let steps = steps_of_ended_runs(&app, 2).await;
    assert_eq!(steps[2..], ["look succeeded", "answer succeeded"]);
    assert!(
        app.ephemeral_messages(ALICE)
            .contains(&"Seven is odd.".to_owned())
    );

    // Programs may still start the pipeline, and people may not.
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, UNPUBLISHED)]);
    app.demo.slack.dm(ALICE, "!runs retry 1").await.unwrap();
    app.wait_for_slack_message(DIRECT, "that you can start here")
        .await;
    app.wait_until_idle().await;
    assert_eq!(app.count("SELECT count(*) FROM run"), 2);
}

const ASKS: &str = r#"
pipelines:
  odd:
    triggers: [{slash_command: {command: /odd}}]
    steps:
      - name: group
        ask: {to: {group: viewers}, question: Is it odd?, choices: ["yes", "no"], deadline: 10m}
      - name: person
        on: always
        ask: {to: {person: U0ALICE}, question: Is it even?, choices: ["yes", "no"], deadline: 10m}
"#;

/// A chat without the bot shows no question, and in any other everybody would read it.
#[tokio::test]
async fn a_question_of_a_slash_command_is_asked_in_private_and_no_group_is_asked() {
    let app = with_commands::<0>(queue([])).await;
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, ASKS)]);
    app.demo.slack.dm(ALICE, "!runs").await.unwrap();
    app.wait_for_slack_message(DIRECT, "There is no run that you may see.")
        .await;
    app.demo
        .slack
        .slash_command(ALICE, SLACK_CHANNEL, ("/odd", ""))
        .await
        .unwrap();
    let asked = app.wait_for_slack_message(DIRECT, "needs a decision").await;
    app.demo.slack.click(ALICE, &asked.ts, "yes").await.unwrap();
    let steps = steps_of_ended_runs(&app, 1).await;
    let why =
        "group failed: a group is asked in the chat of its run, and this run has none; ask a person instead";
    assert_eq!(steps[0], why);
    assert!(steps[1].starts_with("person succeeded"), "{steps:?}");
    assert_eq!(messages_of_bot_in(&app, SLACK_CHANNEL), 0);
}

#[tokio::test]
async fn the_end_of_a_run_of_a_slash_command_that_cannot_be_read_is_for_its_person_alone() {
    let app = with_commands::<0>(queue([says("Never said.").with_fault(AnswerFault::Stall)])).await;
    app.demo
        .slack
        .slash_command(ALICE, SLACK_CHANNEL, ("/odd", "7"))
        .await
        .unwrap();
    app.wait_for_model_requests(1).await;
    app.wait_for_ephemeral(ALICE, 0).await;
    // As if a later version had stored it, and this one took its place again.
    app.alter_database(
        "UPDATE run_step SET status = 'resting' WHERE run = 1 AND step = 1; UPDATE run SET due = 1 WHERE id = 1;",
    );
    app.demo.app.as_ref().unwrap().gateway.runs.wake();
    let told = app.wait_for_ephemeral(ALICE, 1).await;
    let end = "Run 1 of odd on infra: failed: it cannot be read by this version; start it again";
    assert!(told.contains(end), "{told}");
    assert_eq!(messages_of_bot_in(&app, SLACK_CHANNEL), 0);
}

fn messages_of_bot_in(app: &TestApp, channel: &str) -> usize {
    app.demo.slack.with_state(|state| {
        let messages = state.messages.iter().filter(|message| !message.request.is_null());
        messages.filter(|message| message.channel == channel).count()
    })
}

const SIGNED: &str = r#"
pipelines:
  odd:
    triggers:
      - hook: {name: signed, params: {number: /text}, fields: {who: {pointer: /user_id}}}
        when: event.command == '/odd'
    params: {number: {type: integer}}
    permissions: {role: viewer}
    steps:
      - name: look
        agent:
          model: anthropic/demo
          prompt: Is the number odd?
          params: {number: "${params.number}", who: "${trigger.who}"}
"#;

/// CI-24
#[tokio::test]
async fn a_command_that_slack_signs_starts_its_pipeline_with_typed_fields_and_without_its_credentials() {
    let settings = [
        ("hooks.signed.scheme", "slack"),
        ("hooks.signed.secret.env", "STAGE_SLACK_SIGNING_SECRET"),
        ("hooks.signed.repository", "infra"),
        ("hooks.signed.prompt", ".drydock/release.md"),
        ("hooks.signed.pipelines", "true"),
        ("hooks.signed.post_to.channel", "slack"),
        ("hooks.signed.post_to.chat", SLACK_CHANNEL),
    ];
    let app = TestApp::with_settings(queue([says("Seven is odd.")]), &settings).await;
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, SIGNED)]);
    let seconds = now::<0>().as_second();
    let send = async |body: &str, secret: &str| {
        let (time, signature) = (seconds.to_string(), sign::slack(secret, seconds, body.as_bytes()));
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("x-slack-request-timestamp", time.as_str()),
            ("x-slack-signature", &signature),
        ];
        app.post("/in/signed", &headers, body.as_bytes()).await.0
    };
    let body = "command=%2Fodd&text=7&user_id=U0MALLORY&trigger_id=1.2.3&token=CANARY1&\
                response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FCANARY2";
    assert_eq!(send(body, "another secret of 32 characters.").await, 401);
    assert_eq!(send(body, SLACK_SIGNING_SECRET).await, 200);
    assert_eq!(steps_of_ended_runs(&app, 1).await, ["look succeeded"]);
    assert_eq!(send(body, SLACK_SIGNING_SECRET).await, 200);
    app.wait_until_idle().await;
    assert_eq!(app.column("SELECT started_by FROM run"), ["hook signed"]);
    let asked = app.model_requests()[0].last_user_text().to_owned();
    let (_, data) = asked.split_once("<untrusted_data>").unwrap();
    assert!(data.contains('7') && data.contains("U0MALLORY"), "{asked}");
    for canary in ["CANARY1", "CANARY2"] {
        assert_eq!(app.data_files_with(canary), Vec::<String>::new());
    }
}
