//! Tests of revocation: it takes effect at once, also in a running turn. No further request, write, change or message
//! is made for a revoked person, and no change is prepared that a reduced grant does not cover.

use crate::support::app::TestApp;
use drydock::simulation::emulator::model::{AnswerFault, ScriptedAnswer, calls, queue, says};
use drydock::state::access::Role;
use serde_json::json;
use std::time::Duration;

const ALICE: &str = "U0ALICE";
const WITHHELD: &str = "Withheld, and not prepared: environments/prod/main.jsonnet is edited, which requires a grant \
                        for environments/prod; your grant covers only dev.";

fn edit(environment: &str, before: u32) -> ScriptedAnswer {
    let arguments = json!({"path": format!("environments/{environment}/main.jsonnet"),
        "old": format!("web:1.8.3',\n    replicas: {before},"), "new": "web:1.8.3',\n    replicas: 4,"});
    calls("file_edit", arguments)
}

fn write(environment: &str) -> ScriptedAnswer {
    let path = format!("environments/{environment}/more.libsonnet");
    calls("file_write", json!({"path": path, "content": "{}\n"}))
}

/// Delays an answer, so that an operator can act in the meantime.
fn slowly(answer: ScriptedAnswer) -> ScriptedAnswer {
    answer.with_fault(AnswerFault::Delay(Duration::from_secs(4)))
}

/// T06
#[tokio::test]
async fn a_turn_that_runs_ends_with_one_line_when_its_person_is_revoked() {
    let app = TestApp::new(queue([
        edit("dev", 2),
        says("Four replicas.").with_fault(AnswerFault::Stall),
    ]))
    .await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "four replicas in dev").await;
    // The first edit is recorded, and the model gets its next request.
    app.wait_for_model_requests(2).await;
    app.revoke(ALICE).await;
    app.wait_for_slack_reply(&said.ts, "Access was revoked.").await;
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), 2);
    let written = app.thread_messages(&said.ts);
    assert!(
        written.iter().all(|line| line.contains("Access was revoked.")),
        "{written:?}"
    );
    assert_eq!(app.count("SELECT count(*) FROM change"), 0);
    assert_eq!(
        app.count("SELECT count(*) FROM conversation WHERE edits <> '{}'"),
        0
    );
    let files = app.demo.slack.with_state(|state| state.files.len());
    assert_eq!(files, 0);
}

/// T06
#[tokio::test]
async fn a_revoked_person_gets_one_line_in_telegram_too() {
    let app = TestApp::new(queue([
        edit("dev", 2),
        says("Four replicas.").with_fault(AnswerFault::Stall),
    ]))
    .await;
    app.admit_telegram_editor(4_201).await;
    app.demo.telegram.say(4_201, 4_201, "four replicas in dev").await;
    app.wait_for_model_requests(2).await;
    app.revoke("t4201").await;
    app.wait_for_telegram_message(4_201, "Access was revoked.").await;
    app.wait_until_idle().await;
    assert!(app.telegram_results(4_201).is_empty());
    assert_eq!(
        (
            app.model_requests().len(),
            app.count("SELECT count(*) FROM change")
        ),
        (2, 0)
    );
}

/// T06
#[tokio::test]
async fn a_smaller_grant_counts_in_a_turn_that_runs_and_withholds_what_it_does_not_cover_until_that_is_gone()
{
    let mut app = TestApp::new(queue([
        edit("prod", 6),
        slowly(write("prod")),
        says("Done."),
        says("It cannot be mended."),
        says("It is as it was."),
        says("It is as it was, again."),
        says("Now it is yours."),
    ]))
    .await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "four replicas in prod").await;
    app.wait_for_model_requests(2).await;
    app.grant(ALICE, Role::Editor, &["dev"]).await;
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(result.text.contains(WITHHELD), "{}", result.text);
    assert!(!result.text.contains("replicas: 4"), "{}", result.text);
    let asked = app.model_requests();
    let refused = &asked[2].last_results()[0];
    assert!(
        refused.is_error
            && refused
                .content
                .contains("`environments/prod` is not in your grant (dev)"),
        "{refused:?}"
    );
    for words in ["!patch", "!diff", "!status"] {
        let answer = app.run_command_in(ALICE, &said.ts, words).await;
        assert!(
            answer.contains("requires a grant for environments/prod"),
            "{words}: {answer}"
        );
    }
    // Neither a later message nor a restart prepares it.
    app.say_in(ALICE, &said.ts, "and now?").await;
    assert!(app.wait_for_result(&said.ts, 2).await.text.contains(WITHHELD));
    app.restart().await;
    let answer = app.run_command_in(ALICE, &said.ts, "!patch").await;
    assert!(answer.contains("Withheld"), "{answer}");
    app.say_in(ALICE, &said.ts, "and after a restart?").await;
    assert!(app.wait_for_result(&said.ts, 3).await.text.contains(WITHHELD));
    assert_eq!(app.count("SELECT count(*) FROM change"), 0);
    assert_eq!(app.demo.slack.with_state(|state| state.files.len()), 0);

    app.grant(ALICE, Role::Editor, &["**"]).await;
    app.say_in(ALICE, &said.ts, "I have the grant again").await;
    let result = app.wait_for_result(&said.ts, 4).await;
    assert!(result.text.contains("CHG-1 is ready"), "{}", result.text);
    // A person cannot fetch a prepared change that the reduced grant does not cover.
    app.grant(ALICE, Role::Editor, &["dev"]).await;
    let answer = app.run_command_in(ALICE, &said.ts, "!patch").await;
    assert!(answer.contains(WITHHELD), "{answer}");
    let answer = app.run_command_in(ALICE, &said.ts, "!undo").await;
    assert!(answer.contains("Undone"), "{answer}");
    let answer = app.run_command_in(ALICE, &said.ts, "!diff").await;
    assert!(answer.contains("Nothing is prepared here."), "{answer}");

    // The recording has the same ends of turns as the store.
    app.wait_until_idle().await;
    let sessions = app.recordings();
    let [(_, recording)] = sessions.as_slice() else {
        panic!("one conversation has one recording")
    };
    let ends = recording
        .lines()
        .filter(|line| line.contains(r#""event":"verdict""#))
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let ends: Vec<String> = ends
        .map(|end| {
            format!(
                "{} {}",
                end["verdict"].as_str().unwrap(),
                end["source"].as_str().unwrap()
            )
        })
        .collect();
    let withheld = "fail verified";
    assert_eq!(ends[..3], [withheld, withheld, withheld], "{recording}");
    assert_eq!(ends.len(), 4, "{recording}");
}

/// T06
#[tokio::test]
async fn a_turn_ends_when_its_person_loses_the_repository() {
    let app = TestApp::new(queue([says("Here is all of it.").with_fault(AnswerFault::Stall)])).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "what is in prod?").await;
    app.wait_for_model_requests(1).await;
    let grant = drydock::state::access::Grant {
        role: Role::Editor,
        repositories: "elsewhere".to_owned(),
        environments: vec!["**".to_owned()],
    };
    let request = drydock::engine::admin::AdminRequest::Grant {
        which: ALICE.to_owned(),
        grant,
    };
    app.send_admin_request(request).await;
    app.wait_for_slack_reply(&said.ts, "You have no grant for infra any more.")
        .await;
    app.wait_until_idle().await;
    assert!(app.results(&said.ts).is_empty());
}
