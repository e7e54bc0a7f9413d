//! Tests of the unfinished work that a start finds, and of the state after a store refuses a write for a while. The
//! tests change the database to the state that such a process leaves.

use crate::support::app::{TestApp, step_number, visible_text};
use crate::support::world::now;
use drydock::base::model::{Account, ChatPlace, Inbound, InboundKind, Platform, Sender};
use drydock::engine::admin::AdminRequest;
use drydock::engine::gateway::ReceiveOutcome;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, says};
use drydock::state::access::{Grant, Role};
use serde_json::json;
use std::sync::Arc;

const ALICE: &str = "U0ALICE";
/// The statement that aborts the write of a trigger below.
const REFUSED: &str = "BEGIN SELECT RAISE(ABORT, 'no'); END";

/// Returns the model's answer: it sets the replicas of dev to four, then to three, and only answers other requests.
fn replicas(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let edit = |from: u32, to: u32| {
        let of = |count: u32| format!("web:1.8.3',\n    replicas: {count},");
        json!({ "path": "environments/dev/main.jsonnet", "old": of(from), "new": of(to) })
    };
    match step_number(asked) {
        0 if words.contains("four replicas") => calls("file_edit", edit(2, 4)),
        0 if words.contains("three replicas") => calls("file_edit", edit(4, 3)),
        _ => says("Done."),
    }
}

/// Leaves the newest command as a process does that ended before it was carried out, and replaces its text.
fn left_over(app: &TestApp, was: &str, is: &str) {
    left_over_row(app, "(SELECT MAX(id) FROM inbox WHERE lane <> 'turn')", was, is);
}

fn left_over_row(app: &TestApp, row: &str, was: &str, is: &str) {
    app.alter_database(&format!(
        "UPDATE inbox SET lane = 'change', done_at = NULL, effect = NULL, inbound = replace(inbound, '{was}', '{is}')
           WHERE id = {row};
         DELETE FROM outbox WHERE op LIKE 'inbox-' || {row} || '/%'"
    ));
}

/// Checks that a slash command refers to the conversation that was newest when it was typed, however late it is carried
/// out.
#[tokio::test]
async fn a_slash_command_that_is_carried_out_late_means_what_it_meant_when_it_was_typed() {
    let mut app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    let older = app.ask(ALICE, "four replicas in dev").await;
    let newest = app.ask(ALICE, "four replicas in dev").await;
    app.run_slash_command(ALICE, "status").await;
    // After the command, the person continued in the older thread.
    app.ask_in(ALICE, &older.thread, "three replicas in dev").await;
    app.wait_until_idle().await;
    let seen = app.ephemeral_messages(ALICE).len();
    app.demo.stop().await;
    left_over(&app, "status", "discard");
    app.demo.start().await.unwrap();
    let reported = app.wait_for_ephemeral(ALICE, seen).await;
    assert!(reported.starts_with("CHG-2 is discarded"), "{reported}");
    let kept = app.run_command_in(ALICE, &older.thread, "!diff").await;
    assert!(kept.contains("+    replicas: 3,"), "{kept}");
    let gone = app.run_command_in(ALICE, &newest.thread, "!diff").await;
    assert!(gone.starts_with("Nothing is prepared here."), "{gone}");
}

/// T06: the effect of a command before the process ended is reported as done, even if the person has lost the right
/// since.
#[tokio::test]
async fn an_undo_done_before_a_grant_was_removed_is_reported_as_done() {
    let mut app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "four replicas in dev").await;
    app.ask_in(ALICE, &first.thread, "three replicas in dev").await;
    let undone = app.run_command_in(ALICE, &first.thread, "!undo").await;
    assert!(undone.starts_with("Undone. CHG-1 rev 3 is now"), "{undone}");
    app.wait_until_idle().await;
    let grant = Grant {
        role: Role::Editor,
        repositories: "another".to_owned(),
        environments: vec!["**".to_owned()],
    };
    let which = ALICE.to_owned();
    app.send_admin_request(AdminRequest::Grant { which, grant }).await;
    app.demo.stop().await;
    let command = "(SELECT MAX(id) FROM inbox WHERE lane <> 'turn')";
    app.alter_database(&format!(
        "UPDATE inbox SET done_at = NULL WHERE id = {command};
         DELETE FROM outbox WHERE op LIKE 'inbox-' || {command} || '/%'"
    ));
    app.demo.start().await.unwrap();
    app.wait_until_idle().await;
    let reported = app.thread_messages(&first.thread).last().unwrap().clone();
    assert!(reported.starts_with("Undone. Remaining:"), "{reported}");
}

/// R3: a command that was not answered when the process ended three times is given up, and its person is notified.
#[tokio::test]
async fn a_command_interrupted_three_times_is_given_up_with_a_notice() {
    let mut app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "four replicas in dev").await;
    for (crashes, is_given_up) in [(2, false), (3, true)] {
        app.run_command_in(ALICE, &first.thread, "!status").await;
        app.wait_until_idle().await;
        app.demo.stop().await;
        left_over(&app, "!status", "!undo");
        app.alter_database(&format!(
            "UPDATE inbox SET crashes = {crashes} WHERE done_at IS NULL"
        ));
        app.demo.start().await.unwrap();
        app.wait_until_idle().await;
        let reported = app.thread_messages(&first.thread).last().unwrap().clone();
        match is_given_up {
            false => {
                assert!(
                    reported.starts_with("Undone; the workspace equals the base again"),
                    "{reported}"
                );
                let again = app.ask_in(ALICE, &first.thread, "four replicas in dev").await;
                assert!(again.text.contains("is ready"), "{}", again.text);
            }
            true => assert!(
                reported.starts_with("I was restarted 3 times before I could answer this"),
                "{reported}"
            ),
        }
    }
    let kept = app.run_command_in(ALICE, &first.thread, "!diff").await;
    assert!(kept.contains("+    replicas: 4,"), "{kept}");
}

/// Returns an application after a restart that found a leftover command and cannot store the answer to it. Also returns
/// the thread of that command.
async fn unanswerable(was: &str, is: &str) -> (TestApp, String) {
    let mut app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "hello").await;
    app.run_command_in(ALICE, &first.thread, "!status").await;
    app.wait_until_idle().await;
    app.demo.stop().await;
    left_over(&app, was, is);
    app.alter_database(&format!(
        "CREATE TRIGGER unanswered BEFORE UPDATE OF done_at ON inbox WHEN new.lane = 'change' {REFUSED}"
    ));
    app.demo.start().await.unwrap();
    (app, first.thread)
}

/// P2: an unreadable command is answered as soon as the answer can be stored, and its conversation still accepts
/// messages until then.
#[tokio::test]
async fn a_command_that_cannot_be_read_is_answered_once_the_store_takes_the_answer() {
    let (app, thread) = unanswerable("{", "[").await;
    // The first attempt to answer it is over by the time a later command is answered.
    let other = app.say(ALICE, "!help").await;
    app.wait_for_slack_reply(&other.ts, "These are answered without a model")
        .await;
    app.alter_database("DROP TRIGGER unanswered");
    app.wait_for_slack_reply(&thread, "This command cannot be read any more; send it again.")
        .await;
    let next = app.ask_in(ALICE, &thread, "hello again").await;
    assert!(next.text.contains("Done."), "{}", next.text);
}

/// P2: a stop that cannot be stored delays no message, and is carried out as soon as it can be stored.
#[tokio::test]
async fn a_stop_that_cannot_be_stored_after_a_restart_keeps_nobody_waiting() {
    let (app, thread) = unanswerable("status", "stop").await;
    let other = app.ask(ALICE, "hello elsewhere").await;
    assert!(other.text.contains("Done."), "{}", other.text);
    app.alter_database("DROP TRIGGER unanswered");
    app.wait_for_slack_reply(&thread, "Nothing").await;
}

/// P2: a waiting message shows its state on its card, and its final report appears there.
#[tokio::test]
async fn an_unreadable_waiting_message_is_reported_on_its_card() {
    let mut app = TestApp::new(
        |asked: &ModelRequest| match asked.last_user_text().contains("stall") {
            true => says("Never.").with_fault(AnswerFault::Stall),
            false => says("Done."),
        },
    )
    .await;
    app.admit_slack_editor(ALICE).await;
    let first = app.say(ALICE, "stall").await;
    app.wait_for_model_requests(1).await;
    app.say_in(ALICE, &first.ts, "queue: the second").await;
    let card = app.wait_for_slack_reply(&first.ts, "Queued (1 ahead)").await;
    app.demo.stop().await;
    app.alter_database("UPDATE inbox SET inbound = '[' WHERE id = (SELECT MAX(id) FROM inbox)");
    app.demo.start().await.unwrap();
    app.wait_for_model_requests(2).await;
    app.say_in(ALICE, &first.ts, "!stop").await;
    let reported = app
        .wait_for_slack_reply(&first.ts, "This message cannot be read any more; send it again.")
        .await;
    assert_eq!(reported.ts, card.ts, "{}", visible_text(&reported));
}

/// P2: the change after an undo is prepared again or reported as not prepared. The command is answered in either case.
#[tokio::test]
async fn an_undo_whose_change_cannot_be_stored_is_answered() {
    let app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "four replicas in dev").await;
    app.ask_in(ALICE, &first.thread, "three replicas in dev").await;
    app.wait_until_idle().await;
    app.alter_database(&format!(
        "CREATE TRIGGER unstored BEFORE INSERT ON change {REFUSED}"
    ));
    app.say_in(ALICE, &first.thread, "!undo").await;
    app.wait_for_slack_reply(
        &first.thread,
        "Undone. The remaining edits could not be prepared again",
    )
    .await;
    app.alter_database("DROP TRIGGER unstored");
    let undone = app.run_command_in(ALICE, &first.thread, "!undo").await;
    assert!(
        undone.starts_with("Undone; the workspace equals the base again"),
        "{undone}"
    );
}

/// Checks that a change with a damaged patch is discarded like any other.
#[tokio::test]
async fn a_change_that_cannot_be_read_is_discarded() {
    let app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "four replicas in dev").await;
    app.wait_until_idle().await;
    app.alter_database("UPDATE blob SET content = 'x' WHERE hash = (SELECT patch FROM change)");
    let reported = app.run_command_in(ALICE, &first.thread, "!discard").await;
    assert_eq!(
        reported,
        "CHG-1 is discarded; the workspace equals the base again."
    );
    let again = app.ask_in(ALICE, &first.thread, "four replicas in dev").await;
    assert!(again.text.contains("CHG-2 is ready"), "{}", again.text);
}

/// R3: a process records that it handles messages before it claims one. Otherwise its crashes would not be counted.
#[tokio::test]
async fn no_message_is_claimed_before_the_running_process_is_on_record() {
    let mut app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    app.wait_until_idle().await;
    app.demo.stop().await;
    assert_eq!(app.count("SELECT works FROM process"), 0);
    app.alter_database(&format!(
        "CREATE TRIGGER idle BEFORE UPDATE OF works ON process {REFUSED}"
    ));
    app.demo.start().await.unwrap();
    let said = app.say(ALICE, "four replicas in dev").await;
    assert!(said.answers.iter().all(|answer| answer.status == 200), "{said:?}");
    assert_eq!(app.model_requests().len(), 0);
    app.alter_database("DROP TRIGGER idle");
    app.wait_for_result(&said.ts, 1).await;
    assert_eq!(app.count("SELECT works FROM process"), 1);
    let shown = app.wait_for_slack_message(SLACK_CHANNEL, "CHG-1 is ready").await;
    assert!(visible_text(&shown).contains("+    replicas: 4,"));
}

/// R23: the tokens of a message from before the restart count against the limit of its turn.
#[tokio::test]
async fn a_turn_that_goes_on_after_a_restart_counts_the_tokens_it_spent_before() {
    let mut number = 0;
    let script = move |_: &ModelRequest| {
        number += 1;
        let line = calls("file_read", json!({ "path": format!("environments/{number}") }));
        match number {
            2 => line.with_fault(AnswerFault::Stall),
            _ => line,
        }
    };
    let mut app = TestApp::with_settings(script, &[("limits.turn_tokens_max", "2_000")]).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "read on").await;
    app.wait_for_model_requests(2).await;
    app.restart().await;
    // Each call costs 1,050 tokens. The second answered call is the last, whichever process made the first.
    let reported = app
        .wait_for_slack_reply(&said.ts, "I stopped at 2100 tokens")
        .await;
    assert!(
        visible_text(&reported).contains("the limit of one turn is 2000"),
        "{}",
        visible_text(&reported)
    );
    assert_eq!(app.model_requests().len(), 3);
}

/// P2: after a restart, no model gets a request for a message that was stopped before, whichever way the stop was sent
/// and however long the process was down. A slash command is outside any thread, so it refers to another conversation.
#[tokio::test]
async fn no_model_is_asked_for_what_was_stopped_before_the_process_ended() {
    for (stop, is_slash) in [("stop", true), ("!stop", false)] {
        let stalled = |asked: &ModelRequest| match asked.last_user_text().contains("slow") {
            true => says("Never.").with_fault(AnswerFault::Stall),
            false => replicas(asked),
        };
        let mut app = TestApp::new(stalled).await;
        app.admit_slack_editor(ALICE).await;
        let said = app.say(ALICE, "slow").await;
        app.wait_for_model_requests(1).await;
        // The command that is carried out below is the newest one: an answered command, in another form.
        match is_slash {
            true => drop(app.run_slash_command(ALICE, "status").await),
            false => {
                app.say_in(ALICE, &said.ts, "!status").await;
                app.wait_for_slack_reply(&said.ts, "ends it").await;
            }
        }
        app.demo.stop().await;
        left_over(&app, "status", "stop");
        let of_hours_ago = "UPDATE inbox SET accepted_at = accepted_at - 10800000 WHERE lane = 'change'";
        app.alter_database(of_hours_ago);
        app.demo.start().await.unwrap();
        app.wait_until_idle().await;
        assert_eq!(app.model_requests().len(), 1, "{stop}");
        let reported = app.thread_messages(&said.ts).join("\n");
        assert!(reported.contains("Stopped"), "{reported}");
    }
}

/// Packages may have very many files, so a step stores the edits only if they are others than those of the step before.
#[tokio::test]
async fn edits_that_did_not_change_are_not_stored_again_by_the_next_step() {
    let path = "environments/dev/main.jsonnet";
    let script = move |asked: &ModelRequest| match step_number(asked) {
        1 => calls("file_write", json!({ "path": "notes/a.txt", "content": "first" })),
        4 => calls(
            "file_write",
            json!({ "path": "notes/a.txt", "content": "second" }),
        ),
        0..=5 => calls("file_read", json!({ "path": path })),
        _ => says("Done."),
    };
    let app = TestApp::new(script).await;
    app.admit_slack_editor(ALICE).await;
    app.alter_database(
        "CREATE TABLE stored_edits (snapshot TEXT);
         CREATE TRIGGER storing AFTER UPDATE OF edits ON conversation
           WHEN (SELECT finished_at IS NULL FROM turn ORDER BY id DESC LIMIT 1)
           BEGIN INSERT INTO stored_edits VALUES (NEW.edits); END",
    );
    let ready = app.ask(ALICE, "write notes").await;
    assert!(ready.text.contains("CHG-1 is ready: 1 file"), "{}", ready.text);
    let steps = "SELECT COUNT(*) FROM step WHERE is_final = 0";
    let stored = app.column("SELECT snapshot FROM stored_edits ORDER BY rowid");
    assert_eq!((app.count(steps), stored.len()), (6, 3), "{stored:?}");
    assert_eq!(stored[0], "{}");
    assert!(stored[1].contains("notes/a.txt") && stored[2].contains("notes/a.txt") && stored[1] != stored[2]);
}

/// Returns a command of Alice in a thread of its own.
fn usage(number: usize) -> Inbound {
    let (platform, account) = (Platform::Slack, "T0ACME".to_owned());
    Inbound {
        channel: "slack".to_owned(),
        delivery: vec![format!("slack:stopping:{number}")],
        sender: Sender {
            platform,
            account: account.clone(),
            id: ALICE.to_owned(),
        },
        place: ChatPlace {
            account: Account {
                platform,
                id: account,
            },
            chat: SLACK_CHANNEL.to_owned(),
            thread: None,
        },
        direct: false,
        message: None,
        about: None,
        kind: InboundKind::Text {
            text: "!usage".to_owned(),
            quoted: None,
            addressed: true,
        },
        files: Vec::new(),
        response_url: None,
    }
}

/// B28: each accepted message is processed before the stop ends or after the next start.
#[tokio::test]
async fn a_stopping_process_ends_what_it_accepted_and_accepts_nothing_more() {
    let mut app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    let gateway = Arc::clone(&app.demo.app.as_ref().unwrap().gateway);
    let received: Vec<_> = (0..20)
        .map(|number| gateway.receive(usage(number), now::<0>()))
        .collect();
    app.demo.stop().await;
    let mut accepted = 0;
    for received in received {
        assert!(received.is_finished());
        accepted += i64::from(received.await.unwrap() == Ok(ReceiveOutcome::New));
    }
    let late = gateway.receive(usage(20), now::<0>()).await.unwrap();
    let refused = late.unwrap_err().to_string();
    assert_eq!(refused, "the store is unavailable: the process stops");
    drop(gateway);
    // Nothing of it keeps the data directory.
    app.demo.start().await.unwrap();
    app.wait_until_idle().await;
    assert_eq!(app.count("SELECT count(*) FROM inbox"), accepted);
    assert_eq!(app.count("SELECT count(*) FROM inbox WHERE done_at IS NULL"), 0);
}
