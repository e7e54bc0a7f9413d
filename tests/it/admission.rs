//! The ID in the notice to an unknown sender: an operator or an administrator admits the sender by it.

use crate::support::app::{TestApp, visible_text};
use drydock::simulation::emulator::model::{ModelRequest, says};
use drydock::simulation::emulator::slack::SlackMessage;
use drydock::state::access::Role;

const ADA: &str = "U0ADA";
const BOB: &str = "U0BOB";
const EVE: &str = "U0EVE";

async fn app() -> TestApp {
    let app = TestApp::new(|asked: &ModelRequest| says(format!("seen: {}", asked.last_user_text()))).await;
    app.admit_slack_user(ADA, Role::Admin, &["**"]).await;
    app
}

/// Returns the ID in the notice to an unknown sender.
fn id_in(reported: &str) -> &str {
    let rest = reported.split("Your ID is ").nth(1).unwrap();
    rest.split(": give it to an administrator").next().unwrap()
}

/// T01, T06
#[tokio::test]
async fn an_administrator_admits_an_unknown_sender_by_the_id_in_their_notice() {
    let app = app().await;
    app.add_slack_account(EVE);
    app.say(EVE, "let me in").await;
    let reported = app.wait_for_ephemeral(EVE, 0).await;
    assert_eq!(id_in(&reported), "slack:T0ACME:U0EVE");
    let add = format!("user add {} Eve of Ops --role editor --env dev", id_in(&reported));
    let added = app.run_slash_command(ADA, &add).await;
    let expected =
        "Eve of Ops is admitted: editor for all repositories, environments dev. They can write to me now.";
    assert_eq!(added, expected);
    let answered = app.ask(EVE, "and now?").await;
    assert!(answered.text.contains("seen: and now?"), "{}", answered.text);
    assert_eq!(
        app.audit_lines_with("user.created")
            .iter()
            .filter(|line| line.contains(ADA))
            .count(),
        1
    );
    let again = app.run_slash_command(ADA, &add).await;
    let expected = "No person was admitted: slack:T0ACME:U0EVE already belongs to Eve of Ops; drydock user grant \
                    changes the grant.";
    assert_eq!(again, expected);

    // On the other platform, in a thread, in the spelling of a phone keyboard.
    app.demo.telegram.say(666, 666, "let me in").await;
    let reported = app.wait_for_telegram_message(666, "Not authorised").await.text;
    assert_eq!(id_in(&reported), "telegram:42:666");
    let thread = app.ask(ADA, "who is that?").await.thread;
    let add = format!("!user add {} Vera —role viewer", id_in(&reported));
    let added = app.run_command_in(ADA, &thread, &add).await;
    let expected =
        "Vera is admitted: viewer for all repositories and all environments. They can write to me now.";
    assert_eq!(added, expected);
    let answered = app.ask_telegram(666, "and now?").await;
    assert!(answered.text.contains("seen: and now?"), "{}", answered.text);
}

/// T05, T06
#[tokio::test]
async fn nobody_is_admitted_without_the_right_or_by_an_invalid_id() {
    let app = app().await;
    app.admit_slack_editor(BOB).await;
    app.add_slack_account(EVE);
    app.say(EVE, "let me in").await;
    app.wait_for_ephemeral(EVE, 0).await;
    let people = app.count("SELECT count(*) FROM users");
    let refused = app
        .run_slash_command(BOB, "user add slack:T0ACME:U0EVE eve --role admin")
        .await;
    assert_eq!(refused, "Only an administrator admits people.");
    for (typed, why) in [
        ("user", "Write !user add ID NAME --role ROLE"),
        (
            "user add slack:T0ACME:U0EVE eve",
            "Which role: viewer, editor or admin?",
        ),
        (
            "user add eve eve --role viewer",
            "No person was admitted: eve is not the ID of an account",
        ),
        (
            "user add slack:T0ACME:eve eve --role viewer",
            "No person was admitted: slack:T0ACME:eve is not the ID",
        ),
        (
            "user add mail:T0ACME:U0EVE eve --role viewer",
            "No person was admitted: mail:T0ACME:U0EVE is not the ID",
        ),
        (
            "user add slack:T0EVIL:U0EVE eve --role viewer",
            "No person was admitted: slack:T0EVIL:U0EVE belongs to no workspace",
        ),
        (
            "user add telegram:43:666 eve --role viewer",
            "No person was admitted: telegram:43:666 belongs to no workspace",
        ),
        (
            "user add slack:T0ACME:U0EVE eve --role viewer --repo [bad",
            "No person was admitted: [bad is not a glob",
        ),
        (
            "user add slack:T0ACME:U0BOB bob --role admin",
            "No person was admitted: slack:T0ACME:U0BOB already belongs to U0BOB",
        ),
    ] {
        let reported = app.run_slash_command(ADA, typed).await;
        assert!(reported.starts_with(why), "{typed}: {reported}");
    }
    assert_eq!(app.count("SELECT count(*) FROM users"), people);
    assert_eq!(app.model_requests().len(), 0);
    // The notice explains the command only to administrators.
    assert!(
        app.run_slash_command(ADA, "help")
            .await
            .contains("user add ID NAME")
    );
    assert!(
        !app.run_slash_command(BOB, "help")
            .await
            .contains("user add ID NAME")
    );
}

/// T06: the rights of an administrator are checked in the transaction that uses them.
#[tokio::test]
async fn a_former_administrator_admits_nobody() {
    let app = app().await;
    app.add_slack_account(EVE);
    app.say(EVE, "let me in").await;
    app.wait_for_ephemeral(EVE, 0).await;
    app.grant(ADA, Role::Editor, &["**"]).await;
    let refused = app
        .run_slash_command(ADA, "user add slack:T0ACME:U0EVE eve --role viewer")
        .await;
    assert_eq!(refused, "Only an administrator admits people.");
    app.revoke(ADA).await;
    app.demo
        .slack
        .slash(
            ADA,
            drydock::simulation::demo::environment::SLACK_CHANNEL,
            "user add slack:T0ACME:U0EVE eve --role viewer",
        )
        .await
        .unwrap();
    app.wait_for_audit_line("auth.denied").await;
    assert_eq!(
        app.count("SELECT count(*) FROM identity WHERE sender LIKE '%U0EVE%'"),
        0
    );
}

/// T06: an admission committed before the process ended is reported as done, even if the administrator has lost the
/// right since.
#[tokio::test]
async fn an_admission_done_before_the_process_ended_is_confirmed_after_the_restart() {
    let mut app = app().await;
    app.add_slack_account(EVE);
    app.say(EVE, "let me in").await;
    app.wait_for_ephemeral(EVE, 0).await;
    let add = "user add slack:T0ACME:U0EVE eve --role viewer";
    let added = app.run_slash_command(ADA, add).await;
    assert!(added.starts_with("eve is admitted: viewer"), "{added}");
    app.grant(ADA, Role::Editor, &["**"]).await;
    app.wait_until_idle().await;
    let seen = app.ephemeral_messages(ADA).len();
    app.demo.stop().await;
    let command = "(SELECT MAX(id) FROM inbox WHERE lane <> 'turn')";
    app.alter_database(&format!(
        "UPDATE inbox SET done_at = NULL WHERE id = {command};
         DELETE FROM outbox WHERE op LIKE 'inbox-' || {command} || '/%'"
    ));
    app.demo.start().await.unwrap();
    assert_eq!(app.wait_for_ephemeral(ADA, seen).await, added);
    assert_eq!(
        app.run_slash_command(ADA, add).await,
        "Only an administrator admits people."
    );
    assert_eq!(app.count("SELECT count(*) FROM users WHERE name = 'eve'"), 1);
}

/// T06: an administrator in a chat cannot undo a revocation by the operator.
#[tokio::test]
async fn an_administrator_cannot_readmit_a_person_the_operator_revoked() {
    let app = app().await;
    app.admit_slack_editor(EVE).await;
    app.revoke(EVE).await;
    let refused = app
        .run_slash_command(ADA, "user add slack:T0ACME:U0EVE eve --role viewer")
        .await;
    assert_eq!(
        refused,
        "No person was admitted: slack:T0ACME:U0EVE belongs to U0EVE, whose access was revoked; only the operator of \
         this server can admit them again, with drydock user add or drydock invite."
    );
    let forged = app
        .run_slash_command(ADA, "user add slack:T0ACME:U0EVE operator --role viewer")
        .await;
    assert!(
        forged.starts_with("No person was admitted: operator cannot be a name"),
        "{forged}"
    );
    app.demo.slack.dm(EVE, "and now?").await.unwrap();
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), 0);
}

/// Returns the direct messages of the bot to a person.
async fn wait_for_direct_message(app: &TestApp, user: &str, text: &str) -> SlackMessage {
    let chat = format!("D{user}");
    app.wait_for_slack_message(&chat, text).await
}

fn labels(message: &SlackMessage) -> Vec<String> {
    message.buttons().into_iter().map(|button| button.label).collect()
}

/// T01, T06
#[tokio::test]
async fn an_administrator_admits_with_one_press_exactly_the_person_who_asked() {
    let mut app = app().await;
    app.admit_slack_editor(BOB).await;
    app.add_slack_account(EVE);
    // Without an administrator who can be asked, there is no button.
    app.add_slack_account("U0OSCAR");
    app.say("U0OSCAR", "hello").await;
    let told = app.wait_for_ephemeral("U0OSCAR", 0).await;
    assert!(
        told.ends_with("give it to an administrator, or ask for an invite."),
        "{told}"
    );
    app.demo.slack.dm(ADA, "status").await.unwrap();
    app.wait_until_idle().await;

    app.say(EVE, "let me in").await;
    let notice = app
        .wait_for_slack("a notice with a button", |state| {
            let mut shown = state.ephemerals.iter();
            shown.find(|message| message.user == EVE).cloned()
        })
        .await;
    assert_eq!(labels(&notice), ["Request access"]);
    let shown = visible_text(&notice);
    assert!(
        shown.contains("Your ID is slack:T0ACME:U0EVE: ask for access with the button"),
        "{shown}"
    );
    app.demo
        .slack
        .click(EVE, &notice.ts, "Request access")
        .await
        .unwrap();
    let said = app.wait_for_ephemeral(EVE, 1).await;
    assert_eq!(
        said,
        "I asked the administrators. You hear from me if one of them admits you."
    );
    app.demo
        .slack
        .click(EVE, &notice.ts, "Request access")
        .await
        .unwrap();
    let again = app.wait_for_ephemeral(EVE, 2).await;
    assert_eq!(again, "You have asked already. An administrator decides.");
    let asked = wait_for_direct_message(&app, ADA, "An unknown person asks for access.").await;
    assert_eq!(labels(&asked), ["Admit as viewer", "Admit as editor", "Ignore"]);
    app.restart().await;
    assert_eq!(
        app.count("SELECT count(*) FROM outbox WHERE op LIKE 'access/%'"),
        1
    );
    assert_eq!(app.audit_lines_with("access.requested").len(), 1);

    app.demo
        .slack
        .click(ADA, &asked.ts, "Admit as viewer")
        .await
        .unwrap();
    wait_for_direct_message(
        &app,
        ADA,
        "U0EVE is admitted: viewer for all repositories and all environments.",
    )
    .await;
    let welcome = app.wait_for_ephemeral(EVE, 3).await;
    assert!(welcome.contains("You're in, U0EVE."), "{welcome}");
    let answered = app.ask(EVE, "and now?").await;
    assert!(answered.text.contains("seen: and now?"), "{}", answered.text);
    let roles = "SELECT users.name || ' ' || role FROM user_grant JOIN users ON users.id = user_id WHERE users.name = 'U0EVE'";
    assert_eq!(app.column(roles), ["U0EVE viewer"]);
    // The press of an admitted person asks for nothing.
    app.demo
        .slack
        .click(EVE, &notice.ts, "Request access")
        .await
        .unwrap();
    let old = app.wait_for_ephemeral(EVE, 4).await;
    assert!(old.starts_with("That button is too old"), "{old}");
}

/// T05: an administrator who lost the right admits nobody, and a request can be ignored.
#[tokio::test]
async fn a_request_is_decided_only_by_somebody_who_administers() {
    let app = app().await;
    app.demo.slack.dm(ADA, "status").await.unwrap();
    let people = app.count("SELECT count(*) FROM users");
    app.demo.telegram.say(666, 666, "let me in").await;
    app.wait_until_idle().await;
    let notice = app.wait_for_telegram_message(666, "Not authorised").await;
    let pressed = app
        .demo
        .telegram
        .click(666, 666, notice.id, "Request access")
        .await;
    pressed.unwrap();
    let asked = wait_for_direct_message(&app, ADA, "An unknown person asks for access.").await;
    assert!(
        visible_text(&asked).contains("telegram:42:666"),
        "{}",
        visible_text(&asked)
    );
    app.grant(ADA, Role::Editor, &["**"]).await;
    app.demo
        .slack
        .click(ADA, &asked.ts, "Admit as editor")
        .await
        .unwrap();
    wait_for_direct_message(&app, ADA, "No person was admitted: you are not an administrator").await;
    assert_eq!(app.count("SELECT count(*) FROM users"), people);

    app.grant(ADA, Role::Admin, &["**"]).await;
    app.demo.telegram.say(667, 667, "me too").await;
    let notice = app.wait_for_telegram_message(667, "Not authorised").await;
    let pressed = app
        .demo
        .telegram
        .click(667, 667, notice.id, "Request access")
        .await;
    pressed.unwrap();
    let asked = wait_for_direct_message(&app, ADA, "telegram:42:667").await;
    app.demo.slack.click(ADA, &asked.ts, "Ignore").await.unwrap();
    wait_for_direct_message(&app, ADA, "The request of telegram:42:667 is ignored.").await;
    assert_eq!(app.count("SELECT count(*) FROM users"), people);

    app.demo.telegram.say(668, 668, "and me").await;
    let notice = app.wait_for_telegram_message(668, "Not authorised").await;
    let pressed = app
        .demo
        .telegram
        .click(668, 668, notice.id, "Request access")
        .await;
    pressed.unwrap();
    let asked = wait_for_direct_message(&app, ADA, "telegram:42:668").await;
    app.demo
        .slack
        .click(ADA, &asked.ts, "Admit as editor")
        .await
        .unwrap();
    app.wait_for_telegram_message(668, "You're in, telegram-668.")
        .await;
}
