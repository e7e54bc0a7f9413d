//! Members of a thread who may only ask: their requests are asked back or answered, and change nothing.

use crate::support::app::TestApp;
use crate::thread_members::{ALICE, BOB, asked_in_the_thread_of_alice, press_privately, scale};
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, says};
use drydock::state::access::Role;
use serde_json::json;

/// Asks the person back, except about replicas.
fn asks_back(asked: &ModelRequest) -> ScriptedAnswer {
    match asked.last_results() {
        _ if asked.last_user_text().contains("from ") => scale(asked),
        [] => calls(
            "ask_user",
            json!({"question": "Which environment?", "choices": ["dev", "prod"], "default": "dev", "minutes": 600}),
        ),
        [.., last] => says(format!("I was told: {}", last.content)),
    }
}

/// T29
#[tokio::test]
async fn a_member_who_may_only_ask_is_asked_back_and_the_change_stays_as_it_is() {
    let mut app = TestApp::new(asks_back).await;
    let (thread, question) = asked_in_the_thread_of_alice(&app, Role::Viewer, "where is it?").await;
    press_privately(&app, BOB, &question, "Ask U0ALICE to join").await;
    let request = app.wait_for_slack_reply(&thread, "U0BOB asks to join").await;
    app.demo
        .slack
        .click(ALICE, &request.ts, "Let U0BOB join")
        .await
        .unwrap();
    let asked = app.wait_for_slack_reply(&thread, "Which environment?").await;
    app.restart().await;
    app.demo.slack.click(BOB, &asked.ts, "prod").await.unwrap();
    let result = app.wait_for_result(&thread, 2).await;
    for line in [
        "I was told: The person chose: prod",
        "You can only ask here, because CHG-1 is prepared: ",
        "no file changed",
    ] {
        assert!(result.text.contains(line), "{line}: {}", result.text);
    }
    app.wait_until_idle().await;
    assert_eq!(
        app.column("SELECT revision || ' ' || number FROM change"),
        ["1 1"]
    );
    let prepared = app.run_command_in(ALICE, &thread, "!diff").await;
    assert!(prepared.contains("CHG-1"), "{prepared}");
    // His own thread is not affected.
    let own = app.ask(BOB, "from 2 to 5").await;
    assert!(!own.text.contains("You can only ask here"), "{}", own.text);
}

/// Sets replicas, and answers nothing else.
fn stalls(asked: &ModelRequest) -> ScriptedAnswer {
    match asked.last_user_text().contains("from ") {
        true => scale(asked),
        false => says("Never.").with_fault(AnswerFault::Stall),
    }
}

/// T29
#[tokio::test]
async fn a_member_who_may_only_ask_stops_their_own_turn_and_no_other() {
    let app = TestApp::new(stalls).await;
    let (thread, question) = asked_in_the_thread_of_alice(&app, Role::Viewer, "where is it?").await;
    press_privately(&app, BOB, &question, "Ask U0ALICE to join").await;
    let request = app.wait_for_slack_reply(&thread, "U0BOB asks to join").await;
    app.demo
        .slack
        .click(ALICE, &request.ts, "Let U0BOB join")
        .await
        .unwrap();
    app.wait_for_model_requests(3).await;
    app.say_in(BOB, &thread, "!status").await;
    app.wait_for_slack_reply(&thread, "U0BOB since 2026-").await;
    app.say_in(BOB, &thread, "!stop").await;
    let own = app.wait_for_result(&thread, 2).await;
    assert!(own.text.contains("Stopped"), "{}", own.text);
    app.wait_until_idle().await;

    // Slack's own button reaches it as well.
    app.say_in(BOB, &thread, "and now?").await;
    app.wait_for_model_requests(4).await;
    let key = (SLACK_CHANNEL.to_owned(), thread.clone());
    app.wait_for_slack("running work", |state| {
        let session = state.sessions.get(&key);
        session
            .is_some_and(|session| session.status() == "processing")
            .then_some(())
    })
    .await;
    app.demo
        .slack
        .stop_session(BOB, SLACK_CHANNEL, &thread)
        .await
        .unwrap();
    let own = app.wait_for_result(&thread, 3).await;
    assert!(own.text.contains("Stopped"), "{}", own.text);
    app.wait_until_idle().await;

    app.say_in(ALICE, &thread, "what is prepared?").await;
    app.wait_for_model_requests(5).await;
    app.say_in(BOB, &thread, "!stop").await;
    app.wait_for_slack_reply(&thread, "CHG-1 is prepared in this conversation")
        .await;
    assert_eq!(
        app.count("SELECT count(*) FROM turn WHERE finished_at IS NULL"),
        1
    );
    app.say_in(ALICE, &thread, "!stop").await;
    let stopped = app.wait_for_result(&thread, 4).await;
    assert!(stopped.text.contains("Stopped"), "{}", stopped.text);
    app.wait_until_idle().await;
    let prepared = app.run_command_in(ALICE, &thread, "!diff").await;
    assert!(prepared.contains("CHG-1"), "{prepared}");
}
