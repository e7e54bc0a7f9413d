//! Messages that waited for the private chat of a person whose access was revoked. They are not sent.

use crate::runs::{ALICE, DIRECT, posts, say};
use crate::secrets::commit;
use crate::support::app::{BOUND, TestApp};
use drydock::engine::admin::{AdminReply, AdminRequest, ScheduleOrder};
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, says};
use drydock::simulation::emulator::slack::SlackFault;
use drydock::state::access::Role;
use drydock::state::store::DeadLetterFilter;
use gix::objs::tree::EntryKind;
use std::time::{Duration, Instant};

const BOB: &str = "U0BOB";
const DIRECT_OF_BOB: &str = "DU0BOB";
const OF_ALICE: &str = "json_extract(body, '$.place.chat') = 'DU0ALICE'";
const WITHDRAWN: &str = "the access of its person was revoked";
const PIPELINES: &str = "
defaults: {model: anthropic/demo}
pipelines:
  quick:
    triggers: [{chat: {}}]
    permissions: {role: viewer}
    steps: [{name: look, agent: {prompt: Look once.}}]
";

fn by_words(asked: &ModelRequest) -> ScriptedAnswer {
    match asked.last_user_text().contains("Which images") {
        true => says("All images are current."),
        false => says("All is well."),
    }
}

/// Waits until a query has this result.
async fn wait_for(app: &TestApp, query: &str, expected: &[&str]) {
    let started = Instant::now();
    loop {
        let found = app.column(query);
        if found == expected {
            return;
        }
        assert!(started.elapsed() < BOUND, "{query}: {found:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Starts a gateway with the pipeline. Both people have written in private, and Alice has a schedule there.
async fn app() -> TestApp {
    let app = TestApp::new(by_words).await;
    commit(&app, &[(".drydock/pipelines.yaml", EntryKind::Blob, PIPELINES)]);
    for user in [ALICE, BOB] {
        app.admit_slack_user(user, Role::Viewer, &["**"]).await;
    }
    say(&app, BOB, "!runs").await;
    app.wait_for_slack_message(DIRECT_OF_BOB, "There is no run").await;
    let add = "!schedule add images \"daily 13:00\" \"Which images are old?\"";
    say(&app, ALICE, add).await;
    let offer = app
        .wait_for_slack_message(DIRECT, "Nothing is created yet.")
        .await;
    app.demo.slack.click(ALICE, &offer.ts, "Create").await.unwrap();
    app.wait_for_slack_message(DIRECT, "The schedule images is on")
        .await;
    app.wait_until_idle().await;
    app
}

/// Refuses the answer to a command of Alice, so that it and the line about it are dead letters.
async fn refuse_an_answer(app: &TestApp) {
    let refusal = SlackFault::Refuse("is_archived".to_owned());
    app.demo.slack.fail_all("chat.postMessage", refusal);
    say(app, ALICE, "!runs").await;
    let failed = "SELECT CAST(count(*) AS TEXT) FROM outbox WHERE state = 'failed'";
    wait_for(app, failed, &["2"]).await;
    app.wait_until_idle().await;
    app.demo.slack.recover("chat.postMessage");
}

/// Refuses the token of the channel while a run of each person, a command and a schedule of Alice end. Returns the query for what
/// waits for the chat of Alice.
async fn closed_channel_with_work(app: &TestApp) -> String {
    app.demo.slack.refuse_token("token_revoked");
    for (user, ended) in [(ALICE, &["succeeded"][..]), (BOB, &["succeeded", "succeeded"])] {
        say(app, user, "!run quick").await;
        wait_for(app, "SELECT status FROM run ORDER BY id", ended).await;
    }
    say(app, ALICE, "!runs").await;
    let trigger = AdminRequest::Schedule {
        which: "images".to_owned(),
        order: ScheduleOrder::Trigger,
    };
    let started = app.send_admin_request(trigger).await;
    assert!(
        matches!(started, AdminReply::ScheduleChanged { .. }),
        "{started:?}"
    );
    wait_for(
        app,
        "SELECT outcome FROM schedule_fire WHERE outcome IS NOT NULL",
        &["done"],
    )
    .await;
    let kinds = "CASE WHEN op LIKE 'run-1/message%' THEN 'run' ELSE substr(op, instr(op, '/') + 1) END";
    let open = format!("SELECT {kinds} AS kind FROM outbox WHERE done_at IS NULL AND {OF_ALICE}");
    let waiting =
        format!("SELECT DISTINCT kind FROM ({open}) WHERE kind IN ('answer', 'result', 'run') ORDER BY kind");
    wait_for(app, &waiting, &["answer", "result", "run"]).await;
    open
}

/// T06
#[tokio::test]
async fn what_waits_for_a_private_chat_is_never_sent_after_a_revocation_and_others_get_theirs() {
    let app = app().await;
    refuse_an_answer(&app).await;
    let before = posts(&app, DIRECT, "");
    let waits = closed_channel_with_work(&app).await;

    app.revoke(ALICE).await;
    assert_eq!(app.column(&waits), Vec::<String>::new());
    let states = format!("SELECT DISTINCT state FROM outbox WHERE why = '{WITHDRAWN}' AND {OF_ALICE}");
    let mut states = app.column(&states);
    states.sort();
    assert_eq!(states, ["dropped", "failed"]);
    // The operator sees what was given up before.
    let AdminReply::Outbox { letters, .. } = app
        .send_admin_request(AdminRequest::Outbox { channel: None })
        .await
    else {
        panic!("no outbox");
    };
    let reasons: Vec<&str> = letters.iter().map(|letter| letter.why.as_str()).collect();
    assert_eq!(reasons, [WITHDRAWN, WITHDRAWN]);

    // They are admitted again before the channel is back.
    let token = app.invite(ALICE, Role::Viewer, &["**"]).await;
    say(&app, ALICE, &format!("join {token}")).await;
    wait_for(
        &app,
        "SELECT name FROM users WHERE revoked_at IS NULL AND name LIKE 'U0%' ORDER BY id",
        &[BOB, ALICE],
    )
    .await;
    app.demo.slack.restore_token();
    app.demo.app.as_ref().unwrap().gateway.outgoing.retry("slack");
    app.wait_for_slack_message(DIRECT_OF_BOB, "Run 2 of quick on infra: succeeded")
        .await;
    app.wait_until_idle().await;
    let which = DeadLetterFilter::Channel("slack".to_owned());
    let again = app.send_admin_request(AdminRequest::OutboxRetry { which }).await;
    assert!(
        matches!(&again, AdminReply::Letters { count: 0, withdrawn } if withdrawn.len() == 2),
        "{again:?}"
    );
    app.wait_until_idle().await;
    let after = posts(&app, DIRECT, "");
    assert_eq!(after[..before.len()], before[..]);
    let [welcome] = &after[before.len()..] else {
        panic!("{:?}", &after[before.len()..]);
    };
    assert!(welcome.contains("You're in"), "{welcome}");
}
