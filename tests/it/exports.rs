//! `export`: a person gets their own conversation as a file, in their private chat, and nobody else gets it.

use crate::support::app::{TestApp, visible_text};
use drydock::engine::admin::{AdminReply, AdminRequest};
use drydock::simulation::demo::environment::{SLACK_CHANNEL, SLACK_SIGNING_SECRET};
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use drydock::simulation::emulator::slack::{SharedFile, SlackFault};
use drydock::state::access::{AuditorRight, Grant, Role};
use serde_json::{Value, json};

pub(crate) const ALICE: &str = "U0ALICE";
pub(crate) const BOB: &str = "U0BOB";
pub(crate) const UNKNOWN: &str =
    "No such session. !export in the thread of your own conversation says what to write.";

/// Sets the replicas of dev to four, and only answers other requests.
pub(crate) fn scale(asked: &ModelRequest) -> ScriptedAnswer {
    match (
        asked.last_results(),
        asked.last_user_text().contains("four replicas"),
    ) {
        ([], true) => calls(
            "file_edit",
            json!({"path": "environments/dev/main.jsonnet", "old": "web:1.8.3',\n    replicas: 2,",
                   "new": "web:1.8.3',\n    replicas: 4,"}),
        ),
        _ => says("Scaled as you asked."),
    }
}

pub(crate) fn files(app: &TestApp) -> Vec<SharedFile> {
    app.demo.slack.with_state(|state| {
        let files = state.files.iter();
        files
            .filter(|file| file.name.starts_with("conversation-"))
            .cloned()
            .collect()
    })
}

fn lines_of(file: &SharedFile) -> Vec<Value> {
    let text = std::str::from_utf8(&file.content).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Sends a message in the private chat of a person, and returns its answer.
pub(crate) async fn ask_privately(app: &TestApp, user: &str, words: &str) -> String {
    let sent = app.demo.slack.dm(user, words).await.unwrap();
    let shown = app
        .wait_for_slack("the private answer", |state| {
            state.replies(&format!("D{user}"), &sent.ts).next().cloned()
        })
        .await;
    app.wait_until_idle().await;
    visible_text(&shown)
}

/// Returns the number in the answer to `export` in a group.
pub(crate) fn number_in(answer: &str) -> String {
    let (_, rest) = answer.split_once("!export ").unwrap();
    rest.chars().take_while(char::is_ascii_digit).collect()
}

/// T33
#[tokio::test]
async fn a_conversation_is_exported_to_its_person_alone_with_everything_in_order() {
    let app = TestApp::new(scale).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "four replicas in dev, please").await;
    app.wait_until_idle().await;
    let asked = app.model_requests().len();
    let answer = app.run_command_in(ALICE, &result.thread, "!export").await;
    assert!(answer.starts_with("Others would see a file here."), "{answer}");
    assert!(files(&app).is_empty());
    let number = number_in(&answer);

    let answer = ask_privately(&app, ALICE, &format!("!export {number}")).await;
    let exported = files(&app);
    let [file] = exported.as_slice() else {
        panic!("{exported:?}");
    };
    assert_eq!(
        (file.name.as_str(), file.channel.as_str()),
        (format!("conversation-{number}.jsonl").as_str(), "DU0ALICE")
    );
    let lines = lines_of(file);
    let described = format!("Conversation {number}: {} lines of JSON, from ", lines.len());
    assert!(answer.starts_with(&described), "{answer}");
    assert!(!answer.contains("left out"), "{answer}");
    let events: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(
        events,
        ["began", "assistant", "result", "assistant", "change", "verdict"]
    );
    assert!(lines.iter().all(|line| line["at"].is_string()));
    assert!(
        lines[0]["user"]
            .as_str()
            .unwrap()
            .contains("four replicas in dev")
    );
    assert_eq!(lines[1]["calls"][0]["name"], "file_edit");
    assert!(
        lines[1]["calls"][0]["arguments"]
            .to_string()
            .contains("replicas: 4")
    );
    assert_eq!(lines[2]["is_error"], false);
    assert_eq!(lines[3]["text"], "Scaled as you asked.");
    assert!(lines[4]["change"].as_str().unwrap().starts_with("CHG-1"));

    // An operator reads the same lines.
    let which = "CHG-1".to_owned();
    let AdminReply::Session { records } = app.send_admin_request(AdminRequest::Session { which }).await
    else {
        panic!("a recording");
    };
    let read: Vec<Value> = records
        .iter()
        .map(|record| serde_json::to_value(record).unwrap())
        .collect();
    assert_eq!(read, lines);
    let audited = app.audit_lines_with("session.exported");
    assert_eq!(audited.len(), 2, "{audited:?}");
    assert!(
        audited[0].contains("\"command\":") && audited[1].contains("\"by\":\"operator\""),
        "{audited:?}"
    );

    // The name of a change means its conversation, and a conversation in the private chat needs no name.
    ask_privately(&app, ALICE, "!export CHG-1").await;
    let own = app.demo.slack.dm(ALICE, "what is dev?").await.unwrap();
    app.wait_until_idle().await;
    let calls = app.model_requests().len();
    app.demo
        .slack
        .reply_in_thread(ALICE, "DU0ALICE", &own.ts, "export")
        .await
        .unwrap();
    app.wait_until_idle().await;
    let exported = files(&app);
    assert_eq!(exported.len(), 3, "{exported:?}");
    assert_eq!(exported[1].content, exported[0].content);
    assert!(String::from_utf8_lossy(&exported[2].content).contains("what is dev?"));
    assert_eq!(exported[2].thread_ts.as_deref(), Some(own.ts.as_str()));
    assert_eq!((asked, app.model_requests().len()), (2, calls));
}

/// T33
#[tokio::test]
async fn an_auditor_exports_the_conversation_of_another_person_to_their_own_chat_alone() {
    let app = TestApp::new(scale).await;
    app.admit_slack_editor(ALICE).await;
    // No role includes the right.
    app.admit_slack_user(BOB, Role::Admin, &["**"]).await;
    let result = app.ask(ALICE, "four replicas in dev").await;
    app.wait_until_idle().await;
    let set = async |right| {
        let which = BOB.to_owned();
        let answer = app
            .send_admin_request(AdminRequest::Auditor { which, right })
            .await;
        let is_auditor = right == AuditorRight::Given;
        assert!(
            matches!(&answer, AdminReply::Auditor { user } if user.is_auditor == is_auditor),
            "{answer:?}"
        );
    };
    let answer = ask_privately(&app, BOB, "!export CHG-1").await;
    assert_eq!(answer.replace('`', ""), UNKNOWN);
    set(AuditorRight::Given).await;
    // The right depends on no grant for a repository.
    let grant = Grant {
        role: Role::Viewer,
        repositories: "apps".to_owned(),
        environments: vec!["dev".to_owned()],
    };
    let which = BOB.to_owned();
    let answer = app.send_admin_request(AdminRequest::Grant { which, grant }).await;
    assert!(matches!(answer, AdminReply::Granted { .. }), "{answer:?}");

    let answer = app
        .run_command_in(BOB, &result.thread, "@drydock !export CHG-1")
        .await;
    assert!(answer.starts_with("Others would see a file here."), "{answer}");
    assert!(files(&app).is_empty());
    let number = number_in(&answer);
    let answer = ask_privately(&app, BOB, &format!("!export {number}"))
        .await
        .replace('`', "");
    let described = format!("Conversation {number} of slack:T0ACME:{ALICE}: 6 lines of JSON, from ");
    assert!(answer.starts_with(&described), "{answer}");
    let answer = ask_privately(&app, BOB, "!export 987654").await;
    assert_eq!(answer.replace('`', ""), UNKNOWN);
    let exported = files(&app);
    assert_eq!((exported.len(), exported[0].channel.as_str()), (1, "DU0BOB"));
    assert_eq!(lines_of(&exported[0]).len(), 6);
    let audited = app.audit_lines_with("session.exported");
    assert_eq!(audited.len(), 1, "{audited:?}");
    for part in [
        format!("\"by\":\"{BOB}\""),
        format!("\"conversation\":{number}"),
        format!("\"owner\":\"slack:T0ACME:{ALICE}\""),
    ] {
        assert!(audited[0].contains(&part), "{audited:?}");
    }
    set(AuditorRight::Withdrawn).await;
    set(AuditorRight::Withdrawn).await;
    let answer = ask_privately(&app, BOB, "!export CHG-1").await;
    assert_eq!(answer.replace('`', ""), UNKNOWN);
    assert_eq!(files(&app).len(), 1);
    assert_eq!(app.audit_lines_with("\"auditor\"").len(), 2);
}

/// T33
#[tokio::test]
async fn an_export_is_bounded_says_what_is_missing_and_shows_no_secret() {
    let app = TestApp::new(scale).await;
    app.admit_slack_editor(ALICE).await;
    app.ask(ALICE, "four replicas in dev").await;
    app.wait_until_idle().await;
    let (name, recorded) = app.recordings().remove(0);
    let record = |text: &str| {
        let event = json!({"at": "2026-11-24T10:00:00Z", "turn": null, "event": "message", "text": text});
        format!("{event}\n")
    };
    let mut long = recorded.clone();
    for number in 0..400 {
        long.push_str(&record(&format!("{number} {}", "x".repeat(8 << 10))));
    }
    // A secret that was configured after the line was written, and a line that a crash cut.
    long.push_str(&record(&format!("the secret is {SLACK_SIGNING_SECRET}")));
    long.push_str("{\"at\":");
    let file = app.demo.data().join("sessions").join(name);
    std::fs::write(&file, long).unwrap();
    let answer = ask_privately(&app, ALICE, "!export CHG-1").await;
    assert!(
        answer.ends_with("Older lines are left out, because the file has at most 1 MiB."),
        "{answer}"
    );
    let exported = files(&app);
    let content = &exported[0].content;
    assert!(
        content.len() <= 1 << 20 && content.len() > 900_000,
        "{}",
        content.len()
    );
    let lines = lines_of(&exported[0]);
    let last = lines.last().unwrap()["text"].as_str().unwrap();
    assert!(
        last.starts_with("the secret is ") && !last.contains(SLACK_SIGNING_SECRET),
        "{last}"
    );
    assert!(
        lines[lines.len() - 2]["text"]
            .as_str()
            .unwrap()
            .starts_with("399 ")
    );
    // A file without a line is never sent.
    std::fs::write(&file, recorded + &record(&"x".repeat(1 << 20))).unwrap();
    let answer = ask_privately(&app, ALICE, "!export CHG-1").await;
    assert!(
        answer.starts_with("The newest line of this conversation is longer than 1 MiB"),
        "{answer}"
    );
    assert_eq!(files(&app).len(), 1);
}

/// T33
#[tokio::test]
async fn an_export_waits_for_the_file_of_the_last_one_whose_content_is_not_kept() {
    let app = TestApp::new(scale).await;
    app.admit_slack_editor(ALICE).await;
    app.ask(ALICE, "four replicas in dev").await;
    app.wait_until_idle().await;
    let fault = SlackFault::Status {
        status: 503,
        retry_after_seconds: None,
    };
    app.demo.slack.fail_all("files.getUploadURLExternal", fault);
    let mut answers = Vec::new();
    for _ in 0..2 {
        let sent = app.demo.slack.dm(ALICE, "!export CHG-1").await.unwrap();
        let shown = app
            .wait_for_slack("the answer", |state| {
                state.replies("DU0ALICE", &sent.ts).next().cloned()
            })
            .await;
        answers.push(visible_text(&shown));
    }
    assert!(answers[0].starts_with("Conversation "), "{answers:?}");
    assert_eq!(
        answers[1],
        "The file of your last export is not delivered yet, so nothing is exported. Ask again once you have it."
    );
    let stored = "SELECT body FROM outbox WHERE op LIKE '%/export'";
    let waiting = app.column(stored);
    assert!(
        waiting.len() == 1 && waiting[0].contains(".jsonl"),
        "{}",
        waiting.len()
    );
    app.demo.slack.recover("files.getUploadURLExternal");
    app.wait_until_idle().await;
    assert_eq!(files(&app).len(), 1);
    let delivered = app.column(stored);
    assert!(
        delivered.len() == 1 && delivered[0].contains("is not kept here") && !delivered[0].contains(".jsonl"),
        "{delivered:?}"
    );
    ask_privately(&app, ALICE, "!export CHG-1").await;
    assert_eq!(files(&app).len(), 2);
    assert_eq!(app.audit_lines_with("session.exported").len(), 2);
}

/// T33
#[tokio::test]
async fn an_export_that_a_restart_interrupts_is_sent_and_recorded_once() {
    let mut app = TestApp::new(scale).await;
    app.admit_slack_editor(ALICE).await;
    app.ask(ALICE, "four replicas in dev").await;
    app.wait_until_idle().await;
    // The file cannot be sent before the restart.
    let fault = SlackFault::Status {
        status: 503,
        retry_after_seconds: None,
    };
    app.demo.slack.fail_all("files.getUploadURLExternal", fault);
    let sent = app.demo.slack.dm(ALICE, "!export CHG-1").await.unwrap();
    app.wait_for_slack("the answer", |state| {
        state.replies("DU0ALICE", &sent.ts).next().cloned()
    })
    .await;
    app.demo.stop().await;
    assert!(files(&app).is_empty());
    app.demo.slack.recover("files.getUploadURLExternal");
    // The process ended after the answer was stored, and the command was accepted again.
    app.demo.start().await.unwrap();
    app.wait_until_idle().await;
    assert_eq!(files(&app).len(), 1);
    // The process ended before the answer was stored.
    app.demo.stop().await;
    app.alter_database(
        "DELETE FROM outbox WHERE op LIKE 'inbox-' || (SELECT MAX(id) FROM inbox) || '/%';
         UPDATE inbox SET done_at = NULL WHERE id = (SELECT MAX(id) FROM inbox)",
    );
    app.demo.start().await.unwrap();
    app.wait_until_idle().await;
    app.restart().await;
    app.wait_until_idle().await;
    let exported = files(&app);
    assert_eq!(exported.len(), 2, "{exported:?}");
    assert_eq!(exported[0].content, exported[1].content);
    assert_eq!(app.audit_lines_with("session.exported").len(), 2);
    assert!(exported.iter().all(|file| file.channel != SLACK_CHANNEL));
}
