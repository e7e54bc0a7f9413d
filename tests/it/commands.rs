//! Commands are answered without a model, and the same on every surface that accepts them.

use crate::secrets::commit;
use crate::support::app::{TestApp, step_number};
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use gix::objs::tree::EntryKind;
use serde_json::json;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const VERBS: [&str; 12] = [
    "help", "status", "diff", "risk", "patch", "envs", "undo", "discard", "clear", "context", "usage", "stop",
];

/// Returns the answer of the model. The first turn sets four replicas in dev, the second three there and in staging.
fn replicas(asked: &ModelRequest) -> ScriptedAnswer {
    let first = asked.last_user_text().contains("four");
    let edit = |environment: &str, from: u32, to: u32| {
        let of = |count: u32| format!("web:1.8.3',\n    replicas: {count},");
        json!({"path": format!("environments/{environment}/main.jsonnet"), "old": of(from), "new": of(to)})
    };
    match (first, step_number(asked)) {
        (true, 0) => calls("file_edit", edit("dev", 2, 4)),
        (false, 0) => calls("file_edit", edit("dev", 4, 3)).with_call("file_edit", edit("staging", 2, 3)),
        _ => says("Done."),
    }
}

#[tokio::test]
async fn a_follow_up_is_a_revision_and_undo_goes_back_one() {
    let app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "four replicas in dev").await;
    assert!(
        first.text.contains("CHG-1 is ready: dev, 1 file, +1 −1"),
        "{}",
        first.text
    );
    let second = app
        .ask_in(ALICE, &first.thread, "make it three, staging too")
        .await;
    assert!(
        second
            .text
            .contains("CHG-1 rev 2 is ready: 2 environments, 2 files, +2 −2"),
        "{}",
        second.text
    );
    assert!(
        second.text.contains("Nothing was applied, committed or pushed."),
        "{}",
        second.text
    );
    let undone = app.run_command_in(ALICE, &first.thread, "!undo").await;
    assert_eq!(undone, "Undone. CHG-1 rev 3 is now 1 file, +1 −1; diff shows it.");
    let diff = app.run_command_in(ALICE, &first.thread, "!diff").await;
    assert!(
        diff.contains("+    replicas: 4,") && !diff.contains("staging"),
        "{diff}"
    );
    let undone = app.run_command_in(ALICE, &first.thread, "!undo").await;
    assert!(
        undone.starts_with("Undone; the workspace equals the base again"),
        "{undone}"
    );
    let nothing = app.run_command_in(ALICE, &first.thread, "!undo").await;
    assert_eq!(nothing, "There is nothing to undo.");
}

#[tokio::test]
async fn every_command_is_answered_on_every_surface_and_no_model_is_asked() {
    let app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_telegram_editor(4_201).await;
    let thread = app.ask(ALICE, "four replicas in dev").await.thread;
    app.ask_telegram(4_201, "four replicas in dev").await;
    let asked = app.model_requests().len();
    // Each surface answers the same question about the same state alike, with its own counts.
    for verb in VERBS {
        let expected = expected(verb);
        // Undo empties the workspace. The surfaces after it find nothing to undo.
        let slash = app.run_slash_command(ALICE, verb).await;
        let bang = app.run_command_in(ALICE, &thread, &format!("!{verb}")).await;
        let mention = app
            .run_command_in(ALICE, &thread, &format!("@drydock {verb}"))
            .await;
        let telegram = app.run_telegram_command(4_201, &format!("/{verb}")).await;
        for (surface, text) in [
            ("slash", slash),
            ("bang", bang),
            ("mention", mention),
            ("telegram", telegram),
        ] {
            assert!(
                expected.iter().any(|expected| text.contains(expected)),
                "{verb} by {surface}: {text}"
            );
        }
    }
    assert_eq!(app.model_requests().len(), asked, "a command called the model");
    let unknown = app.run_slash_command(ALICE, "statsu").await;
    assert!(unknown.contains("Did you mean status?"), "{unknown}");
}

#[tokio::test]
async fn a_slash_command_means_the_newest_conversation_of_its_sender_in_that_channel() {
    let app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor(BOB).await;
    for (user, change) in [(ALICE, "CHG-1"), (ALICE, "CHG-2"), (BOB, "CHG-3")] {
        let said = app.ask(user, "four replicas in dev").await;
        assert!(said.text.contains(change), "{}", said.text);
    }
    let alices = app.run_slash_command(ALICE, "status").await;
    assert!(alices.contains("CHG-2") && !alices.contains("CHG-3"), "{alices}");
    let bobs = app.run_slash_command(BOB, "status").await;
    assert!(bobs.contains("CHG-3"), "{bobs}");
}

/// Checks the order of effects: a request directly after a discard begins from the base.
#[tokio::test]
async fn a_discard_comes_before_the_request_that_follows_it_at_once() {
    let app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    for change in 1..=8 {
        let first = app.ask(ALICE, "four replicas in dev").await;
        assert!(
            first.text.contains("is ready: dev, 1 file, +1 −1"),
            "{}",
            first.text
        );
        let discard = app.say_in(ALICE, &first.thread, "!discard");
        let follow = app.say_in(ALICE, &first.thread, "four replicas again");
        tokio::join!(discard, follow);
        let second = app.wait_for_result(&first.thread, 2).await;
        let reported = app.thread_messages(&first.thread).join("\n");
        // In either order of arrival at the gateway, no discarded edit may return.
        let discarded = reported.contains("is discarded; the workspace equals the base again.");
        let expected = match discarded {
            true => format!("CHG-{} is ready: dev, 1 file, +1 −1", 2 * change),
            false => "A turn is running; stop it first.".to_owned(),
        };
        assert!(
            reported.contains(&expected) || second.text.contains(&expected),
            "{reported}"
        );
        app.run_command_in(ALICE, &first.thread, "!discard").await;
        if !discarded {
            return;
        }
    }
}

/// Checks that a command that shows the prepared change waits for the command before it, even while that command
/// renders.
#[tokio::test]
async fn a_patch_that_is_asked_for_right_after_an_undo_is_of_what_the_undo_left() {
    let app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "four replicas in dev").await;
    app.ask_in(ALICE, &first.thread, "make it three, staging too")
        .await;
    app.wait_until_idle().await;
    app.say_in(ALICE, &first.thread, "!undo").await;
    app.say_in(ALICE, &first.thread, "!patch").await;
    app.wait_until_idle().await;
    let reported = app.thread_messages(&first.thread);
    let at = |words: &str| {
        let found = reported.iter().position(|text| text.starts_with(words));
        found.unwrap_or_else(|| panic!("no `{words}` in {reported:#?}"))
    };
    assert!(
        at("Undone. CHG-1 rev 3 is now 1 file") < at("CHG-1 rev 3, against"),
        "{reported:#?}"
    );
    let patches = app.demo.slack.with_state(|state| {
        let patches = state.files.iter().filter(|file| file.name == "CHG-1.patch");
        patches
            .map(|file| String::from_utf8_lossy(&file.content).into_owned())
            .collect::<Vec<_>>()
    });
    assert!(
        patches.len() == 1 && patches[0].contains("+    replicas: 4,") && !patches[0].contains("staging"),
        "{patches:#?}"
    );
}

/// Checks that a command that changes something is not carried out after a restart if it is old.
#[tokio::test]
async fn an_old_command_that_a_restart_finds_is_asked_for_again() {
    let mut app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    let first = app.ask(ALICE, "four replicas in dev").await;
    for minutes in [1, 10] {
        app.run_command_in(ALICE, &first.thread, "!help").await;
        app.wait_until_idle().await;
        app.demo.stop().await;
        // The state that a process leaves if it ends before the command is carried out.
        app.alter_database(&format!(
            "UPDATE inbox SET lane = 'change', done_at = NULL, accepted_at = accepted_at - {},
               inbound = replace(inbound, '!help', '!discard') WHERE id = (SELECT MAX(id) FROM inbox);
             DELETE FROM outbox WHERE op LIKE 'inbox-' || (SELECT MAX(id) FROM inbox) || '/%'",
            minutes * 60_000
        ));
        if minutes == 1 {
            app.alter_database(
                "UPDATE inbox SET inbound = replace(inbound, '!discard', '!diff') WHERE done_at IS NULL",
            );
        }
        app.demo.start().await.unwrap();
        app.wait_until_idle().await;
    }
    app.wait_for_slack_reply(&first.thread, "I was restarted before I could do this")
        .await;
    let diff = app.run_command_in(ALICE, &first.thread, "!diff").await;
    assert!(diff.contains("+    replicas: 4,"), "{diff}");
}

/// T07: a press that a restart finds too late has done nothing, says what to do, and leaves its button as it was.
#[tokio::test]
async fn an_old_press_that_a_restart_finds_can_be_repeated() {
    let mut app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "four replicas in dev").await;
    let press = "(SELECT MAX(id) FROM inbox)";
    for (expires_in, advice) in [
        (600_000, "Press the button again if you still want it."),
        (
            -600_000,
            "If the button does not work any more, write what you want instead.",
        ),
    ] {
        let seen = app.ephemeral_messages(ALICE).len();
        app.demo
            .slack
            .click(ALICE, &result.message.ts, "Get patch")
            .await
            .unwrap();
        app.wait_for_ephemeral(ALICE, seen).await;
        app.wait_until_idle().await;
        app.demo.stop().await;
        // The state that a process leaves if it ends after the button is used and before the command is carried out.
        app.alter_database(&format!(
            "UPDATE inbox SET done_at = NULL, accepted_at = accepted_at - 600000 WHERE id = {press};
             UPDATE action SET expires_at = used_at + {expires_in} WHERE used_by = {press};
             DELETE FROM outbox WHERE op LIKE 'inbox-' || {press} || '/%'"
        ));
        app.demo.start().await.unwrap();
        app.wait_for_slack_reply(&result.thread, advice).await;
        app.wait_until_idle().await;
        let used = app.count("SELECT COUNT(*) FROM action WHERE verb = 'patch' AND used_by IS NOT NULL");
        assert_eq!(used, 0);
    }
}

fn expected(verb: &str) -> &'static [&'static str] {
    match verb {
        "help" => &["These are answered without a model"],
        "status" => &["CHG-1: 1 file, +1 −1", "CHG-2: 1 file, +1 −1"],
        "diff" => &["+    replicas: 4,"],
        "risk" => &["1 of 4 environments changes;"],
        "envs" => &["environments/dev [changed]: namespace dev"],
        "patch" => &["git apply CHG-1.patch", "git apply CHG-2.patch"],
        "undo" => &[
            "Undone; the workspace equals the base again",
            "There is nothing to undo.",
        ],
        "discard" => &["Nothing is prepared here."],
        "clear" => &["I cleared our conversation."],
        "context" => &["The model sees nothing of this conversation yet."],
        "usage" => &["2,100 tokens in 2 model calls"],
        "stop" => &["Nothing is running."],
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn clear_forgets_the_words_and_keeps_the_change_and_discard_throws_it_away() {
    let app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    let thread = app.ask(ALICE, "four replicas in dev").await.thread;
    let context = app.run_command_in(ALICE, &thread, "!context").await;
    assert!(context.contains("four replicas in dev"), "{context}");
    assert!(context.contains("2 steps, 1 tool calls"), "{context}");
    app.run_command_in(ALICE, &thread, "!clear").await;
    let status = app.run_command_in(ALICE, &thread, "!status").await;
    assert!(status.contains("CHG-1: 1 file, +1 −1"), "{status}");
    app.ask_in(ALICE, &thread, "make it three").await;
    let last = app.model_requests().pop().unwrap();
    assert!(!last.raw.contains("four replicas in dev"), "{}", last.raw);
    let discarded = app.run_command_in(ALICE, &thread, "!discard").await;
    assert!(discarded.contains("is discarded"), "{discarded}");
    let diff = app.run_command_in(ALICE, &thread, "!diff").await;
    assert_eq!(diff, "Nothing is prepared here.");
}

/// T68: the files of a turn are limited and listed. The number of rewritten lines is not limited.
#[tokio::test]
async fn fifty_files_of_a_turn_may_go_and_undo_brings_every_one_back() {
    const FILES: usize = 52;
    let name = |number: usize| format!("environments/dev/old/{number:02}.txt");
    let app = TestApp::new(move |asked: &ModelRequest| {
        let deletes = |from: usize| {
            let numbers = (from..(from + 13).min(FILES)).map(|number| json!({ "path": name(number) }));
            numbers.fold(says(""), |answer, path| answer.with_call("file_delete", path))
        };
        match step_number(asked) {
            number if number < 4 => deletes(13 * number),
            _ => says("They are gone."),
        }
    })
    .await;
    let texts: Vec<(String, String)> = (0..FILES)
        .map(|number| (name(number), format!("text {number}\r\nwithout an end")))
        .collect();
    let files: Vec<_> = texts
        .iter()
        .map(|(path, text)| (path.as_str(), EntryKind::Blob, text.as_str()))
        .collect();
    commit(&app, &files);
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "delete all that is old").await;
    assert!(
        result.text.contains("CHG-1 is ready: 50 files, +0 −100"),
        "{}",
        result.text
    );
    assert!(
        result.text.contains("environments/dev/old/00.txt"),
        "{}",
        result.text
    );
    let labels: Vec<String> = result
        .message
        .buttons()
        .into_iter()
        .map(|button| button.label)
        .collect();
    assert!(labels.contains(&"Discard".to_owned()), "{labels:?}");
    let asked = app.model_requests();
    let refused: Vec<String> = asked
        .iter()
        .flat_map(|asked| asked.last_results())
        .filter(|result| result.is_error)
        .map(|result| result.content.clone())
        .collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    for (number, reported) in refused.iter().enumerate() {
        let expected = format!(
            "the change budget of 50 files is used up: `{}`",
            name(50 + number)
        );
        assert!(reported.contains(&expected), "{reported}");
    }
    app.run_command_in(ALICE, &result.thread, "!patch").await;
    app.wait_until_idle().await;
    let patch = app
        .demo
        .slack
        .with_state(|state| state.files.last().unwrap().content.clone());
    let patch = String::from_utf8_lossy(&patch).into_owned();
    for number in 0..50 {
        assert!(
            patch.contains("deleted file mode 100644") && patch.contains(&name(number)),
            "{patch}"
        );
    }
    let undone = app.run_command_in(ALICE, &result.thread, "!undo").await;
    assert!(
        undone.starts_with("Undone; the workspace equals the base again"),
        "{undone}"
    );
    assert_eq!(app.column("SELECT edits FROM conversation"), ["{}"]);
    let diff = app.run_command_in(ALICE, &result.thread, "!diff").await;
    assert_eq!(diff, "Nothing is prepared here.");
}

/// Checks that a mistyped command has no effect, and in particular none on the prepared change.
#[tokio::test]
async fn a_mistyped_change_is_neither_discarded_nor_sent() {
    let app = TestApp::new(replicas).await;
    app.admit_slack_editor(ALICE).await;
    let thread = app.ask(ALICE, "four replicas in dev").await.thread;
    for mistyped in ["chg42", "CHG-1x", "it please"] {
        for (word, done) in [("discard", "discarded"), ("patch", "sent")] {
            let reported = app
                .run_command_in(ALICE, &thread, &format!("!{word} {mistyped}"))
                .await;
            let expected = format!(
                "That names no change, so nothing is {done}. Write {word} alone for the change that is prepared \
                 here, or add a name, such as {word} CHG-42."
            );
            assert_eq!(reported, expected, "{mistyped}");
        }
    }
    let another = app.run_command_in(ALICE, &thread, "!discard CHG-2").await;
    assert!(
        another.starts_with("CHG-2 is not prepared here any more, so nothing is discarded"),
        "{another}"
    );
    let discarded = app.run_command_in(ALICE, &thread, "!discard chg-1 rev 1").await;
    assert!(discarded.starts_with("CHG-1 is discarded"), "{discarded}");
}
