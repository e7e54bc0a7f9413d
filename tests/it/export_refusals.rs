//! Exports that are refused: of the conversations of other people, and about repositories without a grant.

use crate::exports::{ALICE, BOB, UNKNOWN, ask_privately, files, number_in, scale};
use crate::support::app::{TestApp, visible_text};
use drydock::engine::admin::{AdminReply, AdminRequest};
use drydock::state::access::{Grant, Role};
use serde_json::{Value, json};

/// T33
#[tokio::test]
async fn nobody_exports_the_conversation_of_another_person() {
    let app = TestApp::new(scale).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor(BOB).await;
    let result = app.ask(ALICE, "four replicas in dev").await;
    app.wait_until_idle().await;
    let number = number_in(&app.run_command_in(ALICE, &result.thread, "!export").await);
    let session = app
        .column("SELECT session FROM conversation ORDER BY id LIMIT 1")
        .remove(0);

    // The answer is the same for an id that exists and for one that does not.
    let made_up = "0".repeat(32);
    for id in [
        number.as_str(),
        "CHG-1",
        session.as_str(),
        "987654",
        "CHG-77",
        made_up.as_str(),
    ] {
        let answer = ask_privately(&app, BOB, &format!("!export {id}")).await;
        assert_eq!(answer.replace('`', ""), UNKNOWN, "{id}");
    }
    // In the thread of Alice, Bob has a conversation of his own, without a turn.
    let answer = app.run_command_in(BOB, &result.thread, "@drydock !export").await;
    assert_eq!(answer, "There is nothing to export in this conversation.");

    // Somebody who joined acts in it, and still cannot export it.
    app.say_in(BOB, &result.thread, "@drydock what is dev?").await;
    let question = app
        .wait_for_slack("the question whose thread it is", |state| {
            let mut shown = state.ephemerals.iter().rev();
            shown
                .find(|message| {
                    message.user == BOB && visible_text(message).contains("This thread belongs to")
                })
                .cloned()
        })
        .await;
    app.demo
        .slack
        .click_as_seen(BOB, &question, "Ask U0ALICE to join")
        .await
        .unwrap();
    let request = app
        .wait_for_slack_reply(&result.thread, "U0BOB asks to join")
        .await;
    app.demo
        .slack
        .click(ALICE, &request.ts, "Let U0BOB join")
        .await
        .unwrap();
    app.wait_for_slack_reply(&result.thread, "U0BOB has joined this conversation.")
        .await;
    app.wait_until_idle().await;
    let answer = app.run_command_in(BOB, &result.thread, "@drydock !export").await;
    assert_eq!(answer.replace('`', ""), UNKNOWN);
    for id in [number.as_str(), "987654"] {
        let answer = app
            .run_command_in(BOB, &result.thread, &format!("@drydock !export {id}"))
            .await;
        assert_eq!(answer.replace('`', ""), UNKNOWN, "{id}");
        let answer = ask_privately(&app, BOB, &format!("!export {id}")).await;
        assert_eq!(answer.replace('`', ""), UNKNOWN, "{id}");
    }

    // An unknown sender gets the usual notice only, and a revoked person nothing.
    app.add_slack_account("U0MALLORY");
    app.demo
        .slack
        .dm("U0MALLORY", &format!("!export {number}"))
        .await
        .unwrap();
    app.revoke(ALICE).await;
    app.demo
        .slack
        .dm(ALICE, &format!("!export {number}"))
        .await
        .unwrap();
    app.wait_until_idle().await;
    assert!(files(&app).is_empty());
    assert!(app.audit_lines_with("session.exported").is_empty());
}

/// T33
#[tokio::test]
async fn a_conversation_about_a_repository_without_a_grant_is_not_exported() {
    let app = TestApp::new(scale).await;
    app.admit_slack_editor(ALICE).await;
    app.ask(ALICE, "four replicas in dev").await;
    app.wait_until_idle().await;
    app.grant(ALICE, Role::Editor, &["staging"]).await;
    let answer = ask_privately(&app, ALICE, "!export CHG-1").await;
    assert!(
        answer.contains("is prepared in this conversation: ") && answer.contains("Nothing is exported"),
        "{answer}"
    );
    let grant = Grant {
        role: Role::Editor,
        repositories: "apps".to_owned(),
        environments: vec!["**".to_owned()],
    };
    let which = ALICE.to_owned();
    let answer = app.send_admin_request(AdminRequest::Grant { which, grant }).await;
    assert!(matches!(answer, AdminReply::Granted { .. }), "{answer:?}");
    let answer = ask_privately(&app, ALICE, "!export CHG-1").await;
    assert_eq!(
        answer.replace('`', ""),
        "This conversation is about infra, and you have no grant for it any more."
    );
    assert!(files(&app).is_empty());
}

/// T33
#[tokio::test]
async fn a_conversation_that_read_another_repository_is_exported_only_with_a_grant_for_it() {
    let mut app = TestApp::new(scale).await;
    app.admit_slack_editor(ALICE).await;
    app.ask(ALICE, "four replicas in dev").await;
    app.wait_until_idle().await;
    let grant = Grant {
        role: Role::Editor,
        repositories: "infra".to_owned(),
        environments: vec!["**".to_owned()],
    };
    let which = ALICE.to_owned();
    let answer = app.send_admin_request(AdminRequest::Grant { which, grant }).await;
    assert!(matches!(answer, AdminReply::Granted { .. }), "{answer:?}");
    let (name, recorded) = app.recordings().remove(0);
    let file = app.demo.data().join("sessions").join(name);
    let (began, rest) = recorded.split_once('\n').unwrap();
    let began: Value = serde_json::from_str(began).unwrap();
    assert_eq!(began["repository"], "infra");
    let write_began = |began: &Value| std::fs::write(&file, format!("{began}\n{rest}")).unwrap();

    // The conversation was switched from a repository whose grant was revoked since.
    let mut switched = began.clone();
    switched["repository"] = json!("apps");
    write_began(&switched);
    let answer = ask_privately(&app, ALICE, "!export CHG-1").await;
    assert_eq!(
        answer.replace('`', ""),
        "This conversation is about apps, and you have no grant for it any more."
    );
    assert!(files(&app).is_empty());

    // An older recording names no repository. It is exported to a person with a grant for all of them.
    let mut older = began.clone();
    older.as_object_mut().unwrap().remove("repository");
    write_began(&older);
    ask_privately(&app, ALICE, "!export CHG-1").await;
    assert_eq!(files(&app).len(), 1);
    app.demo.stop().await;
    let mut config = app.demo.config().unwrap();
    let infra = config.repositories["infra"].clone();
    config.repositories.insert("apps".to_owned(), infra);
    app.start_with(config).await;
    let url = format!("{}/in/slack", app.demo.url());
    app.demo.slack.connect_to(&url);
    let answer = ask_privately(&app, ALICE, "!export CHG-1").await;
    assert!(
        answer.starts_with("A part of this conversation does not say which repository it is about"),
        "{answer}"
    );
    assert_eq!(files(&app).len(), 1);

    // Edits that are withheld are in the recording as well.
    write_began(&began);
    app.alter_database("UPDATE conversation SET withheld = 'the grant is missing'");
    let answer = ask_privately(&app, ALICE, "!export CHG-1").await;
    assert!(
        answer.starts_with("Edits in this conversation are withheld: the grant is missing."),
        "{answer}"
    );
    assert_eq!(files(&app).len(), 1);
}

/// T33
#[tokio::test]
async fn a_slash_command_exports_nothing_where_the_chat_may_be_that_of_two_people() {
    let app = TestApp::new(scale).await;
    app.admit_slack_editor(ALICE).await;
    app.ask(ALICE, "four replicas in dev").await;
    app.wait_until_idle().await;
    app.demo
        .slack
        .slash(ALICE, "DU0ALICE", "export CHG-1")
        .await
        .unwrap();
    let answer = app
        .wait_for_slack_message("DU0ALICE", "Others may see a file here")
        .await;
    assert!(!number_in(&visible_text(&answer)).is_empty());
    app.wait_until_idle().await;
    assert!(files(&app).is_empty());
    assert!(app.audit_lines_with("session.exported").is_empty());
}
