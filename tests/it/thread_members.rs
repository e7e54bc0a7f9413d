//! Several people in one thread: it belongs to the person who began it. Others are asked whether they want to join, which
//! that person allows, or to have a conversation of their own.

use crate::support::app::{TestApp, visible_text};
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use drydock::simulation::emulator::slack::SlackMessage;
use drydock::state::access::Role;
use serde_json::json;

pub(crate) const ALICE: &str = "U0ALICE";
pub(crate) const BOB: &str = "U0BOB";
const QUESTION: &str = "This thread belongs to U0ALICE. I keep your message until you choose; nothing was done with it \
                        yet (0 tokens).";

/// Sets the replicas of dev: "from 2 to 4". Anything else is answered with everything that the model was sent.
pub(crate) fn scale(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    let of = |count: &str| format!("web:1.8.3',\n    replicas: {count},");
    let edit = words
        .split_once("from ")
        .and_then(|(_, rest)| rest.split_once(" to "));
    match (asked.last_results(), edit) {
        ([], Some((from, to))) => calls(
            "file_edit",
            json!({"path": "environments/dev/main.jsonnet", "old": of(from), "new": of(to)}),
        ),
        _ => says(format!("I read: {words}")),
    }
}

async fn wait_for_question(app: &TestApp, user: &str) -> SlackMessage {
    app.wait_for_slack("the question whose thread it is", |state| {
        let mut shown = state.ephemerals.iter().rev();
        shown
            .find(|message| message.user == user && visible_text(message).contains("This thread belongs to"))
            .cloned()
    })
    .await
}

fn labels(message: &SlackMessage) -> Vec<String> {
    message.buttons().into_iter().map(|button| button.label).collect()
}

pub(crate) async fn press_privately(
    app: &TestApp,
    user: &str,
    message: &SlackMessage,
    label: &str,
) -> String {
    let seen = app.ephemeral_messages(user).len();
    app.demo.slack.click_as_seen(user, message, label).await.unwrap();
    app.wait_for_ephemeral(user, seen).await
}

/// Returns how often somebody read that they were removed, in the thread or alone.
fn count_refusals(app: &TestApp, thread: &str) -> usize {
    let shown = [app.thread_messages(thread), app.ephemeral_messages(BOB)].concat();
    let refusal = "You are not part of this conversation any more.";
    shown.iter().filter(|text| text.contains(refusal)).count()
}

/// Returns the thread of a change of Alice, in which Bob has asked for something.
pub(crate) async fn asked_in_the_thread_of_alice(
    app: &TestApp,
    role: Role,
    words: &str,
) -> (String, SlackMessage) {
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_user(BOB, role, &["**"]).await;
    let result = app.ask(ALICE, "from 2 to 4").await;
    app.say_in(BOB, &result.thread, &format!("@drydock {words}"))
        .await;
    let question = wait_for_question(app, BOB).await;
    (result.thread, question)
}

/// T29
#[tokio::test]
async fn a_person_joins_a_thread_only_when_its_owner_lets_them_and_keeps_their_own_role() {
    let mut app = TestApp::new(scale).await;
    let (thread, question) = asked_in_the_thread_of_alice(&app, Role::Viewer, "from 4 to 5").await;
    assert!(
        visible_text(&question).starts_with(QUESTION),
        "{}",
        visible_text(&question)
    );
    assert_eq!(labels(&question), ["Ask U0ALICE to join", "Start my own"]);
    app.wait_until_idle().await;
    let before = app.model_requests().len();
    assert_eq!(before, 2, "the message of Bob reached the model");

    assert_eq!(
        press_privately(&app, BOB, &question, "Ask U0ALICE to join").await,
        "I asked U0ALICE."
    );
    let request = app.wait_for_slack_reply(&thread, "U0BOB asks to join").await;
    assert_eq!(labels(&request), ["Let U0BOB join", "No"]);
    // Nobody lets themselves in, and all of it is kept over a restart.
    app.restart().await;
    assert_eq!(
        press_privately(&app, BOB, &request, "Let U0BOB join").await,
        "This button belongs to U0ALICE."
    );
    app.demo
        .slack
        .click(ALICE, &request.ts, "Let U0BOB join")
        .await
        .unwrap();
    let uncovered = "environments/dev/main.jsonnet is edited, which requires a grant for environments/dev; your grant \
                     covers no environment.";
    // A viewer may ask, and nothing is written for them.
    let answered = app.wait_for_result(&thread, 2).await;
    assert!(
        answered.text.contains("I read: U0BOB writes:\nfrom 4 to 5"),
        "{}",
        answered.text
    );
    let remark = format!("You can only ask here, because CHG-1 is prepared: {uncovered}");
    assert!(answered.text.contains(&remark), "{}", answered.text);
    assert_eq!(labels(&answered.message), [""; 0]);
    app.wait_until_idle().await;
    let asked = app.model_requests().pop().unwrap();
    assert!(asked.raw.contains("The person has role viewer"), "{}", asked.raw);
    assert_eq!(
        app.column("SELECT revision || ' ' || number FROM change"),
        ["1 1"]
    );
    let edits = "SELECT count(DISTINCT edits_after) FROM turn";
    assert_eq!(app.count(edits), 1, "the turn of Bob edited files");
    assert_eq!(app.audit_lines_with("thread.joined").len(), 1);
    let status = app.run_command_in(ALICE, &thread, "!status").await;
    assert!(status.contains("U0BOB since 2026-"), "{status}");
    let refusal = format!("CHG-1 is prepared in this conversation: {uncovered} Nothing was done");
    // Neither do the commands of Bob touch what his grants do not cover.
    for command in ["!discard", "!undo", "!clear", "!patch", "!context"] {
        let answer = app.run_command_in(BOB, &thread, command).await;
        assert!(answer.starts_with(&refusal), "{command}: {answer}");
    }
    let prepared = app.run_command_in(ALICE, &thread, "!diff").await;
    assert!(prepared.contains("CHG-1"), "{prepared}");

    app.grant(BOB, Role::Editor, &["**"]).await;
    let count = app.results(&thread).len();
    app.say_in(BOB, &thread, "from 4 to 5").await;
    let result = app.wait_for_result(&thread, count + 1).await;
    assert!(result.text.starts_with("<@U0BOB>"), "{}", result.text);
    assert!(result.text.contains("CHG-1 rev 2 is ready"), "{}", result.text);
    let last = app.model_requests().pop().unwrap();
    assert_eq!(last.last_user_text(), "U0BOB writes:\nfrom 4 to 5");
    assert!(
        last.raw.contains("from 2 to 4"),
        "the history of Alice is missing"
    );
    // The cost of his two turns is that of their person.
    let bob = "SELECT count(*) FROM usage JOIN users ON users.id = usage.user_id WHERE users.name = 'U0BOB'";
    assert_eq!(app.count(bob), 4);

    // Further messages of Bob reach the conversation without a mention, and he can be removed.
    let read = app.ask_in(BOB, &thread, "what is prepared?").await;
    assert!(
        read.text.contains("I read: U0BOB writes:\nwhat is prepared?"),
        "{}",
        read.text
    );
    let joined = app
        .wait_for_slack_reply(&thread, "U0BOB has joined this conversation.")
        .await;
    assert_eq!(
        (joined.ts.clone(), labels(&joined)),
        (request.ts, vec!["Remove U0BOB".to_owned()])
    );
    app.demo
        .slack
        .click(ALICE, &joined.ts, "Remove U0BOB")
        .await
        .unwrap();
    app.wait_for_slack_reply(&thread, "U0BOB is not part of this conversation any more.")
        .await;
    // The buttons of his revision do nothing any more.
    for button in ["Discard", "Undo", "Full diff"] {
        app.wait_until_idle().await;
        let refusals = count_refusals(&app, &thread);
        app.demo
            .slack
            .click_as_seen(BOB, &result.message, button)
            .await
            .unwrap();
        app.wait_until_idle().await;
        assert_eq!(count_refusals(&app, &thread), refusals + 1, "{button}");
    }
    assert_eq!(
        app.count("SELECT count(*) FROM conversation WHERE change_number = 1"),
        1
    );
    let asked = app.model_requests().len();
    app.say_in(BOB, &thread, "@drydock and now?").await;
    let again = app
        .wait_for_slack("another question", |state| {
            let mut questions = state
                .ephemerals
                .iter()
                .filter(|message| visible_text(message).starts_with(QUESTION));
            questions.nth(1).cloned()
        })
        .await;
    assert_eq!(again.user, BOB);
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), asked);
}

/// T29
#[tokio::test]
async fn a_person_in_the_thread_of_another_can_begin_a_conversation_of_their_own() {
    let app = TestApp::new(scale).await;
    let (thread, question) = asked_in_the_thread_of_alice(&app, Role::Editor, "hello").await;
    let own = "This is a conversation of your own now; I work on your message.";
    assert_eq!(press_privately(&app, BOB, &question, "Start my own").await, own);
    let result = app.wait_for_slack_reply(&thread, "I read: hello").await;
    assert!(
        visible_text(&result).starts_with("<@U0BOB>"),
        "{}",
        visible_text(&result)
    );
    app.wait_until_idle().await;
    let last = app.model_requests().pop().unwrap();
    assert!(!last.raw.contains("from 2 to 4"), "Bob got the history of Alice");
    // The other button does nothing any more, and he is not asked again.
    let late = press_privately(&app, BOB, &question, "Ask U0ALICE to join").await;
    assert!(late.starts_with("That was decided already"), "{late}");
    let next = app.ask_in(BOB, &thread, "more").await;
    assert!(next.text.contains("I read: more"), "{}", next.text);
    let prepared = app.run_command_in(BOB, &thread, "!diff").await;
    assert!(prepared.contains("Nothing is prepared"), "{prepared}");
}

#[tokio::test]
async fn an_owner_who_declines_keeps_the_thread_and_the_message_stays() {
    let app = TestApp::new(scale).await;
    let (thread, question) = asked_in_the_thread_of_alice(&app, Role::Editor, "hello").await;
    press_privately(&app, BOB, &question, "Ask U0ALICE to join").await;
    let request = app.wait_for_slack_reply(&thread, "U0BOB asks to join").await;
    let seen = app.ephemeral_messages(BOB).len();
    app.demo.slack.click(ALICE, &request.ts, "No").await.unwrap();
    let told = app.wait_for_ephemeral(BOB, seen).await;
    assert!(
        told.starts_with("U0ALICE keeps this conversation. Press Start my own"),
        "{told}"
    );
    app.wait_for_slack_reply(&thread, "U0BOB does not join this conversation.")
        .await;
    press_privately(&app, BOB, &question, "Start my own").await;
    app.wait_for_slack_reply(&thread, "I read: hello").await;
    assert_eq!(app.count("SELECT count(*) FROM thread_member"), 0);
}

/// The history of a conversation may hold files that not everybody may read.
#[tokio::test]
async fn nobody_joins_a_conversation_of_several_repositories_or_of_one_without_a_grant() {
    let mut app = TestApp::new(scale).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_user(BOB, Role::Editor, &["**"]).await;
    app.demo.stop().await;
    let mut config = app.demo.config().unwrap();
    let infra = config.repositories["infra"].clone();
    config.repositories.insert("apps".to_owned(), infra);
    app.start_with(config).await;
    let url = format!("{}/in/slack", app.demo.url());
    app.demo.slack.connect_to(&url);
    let first = app.ask(ALICE, "infra: hello").await;
    app.ask_in(ALICE, &first.thread, "apps: hello").await;
    app.say_in(BOB, &first.thread, "@drydock what was said?").await;
    let question = wait_for_question(&app, BOB).await;
    press_privately(&app, BOB, &question, "Ask U0ALICE to join").await;
    let request = app
        .wait_for_slack_reply(&first.thread, "U0BOB asks to join")
        .await;
    app.demo
        .slack
        .click(ALICE, &request.ts, "Let U0BOB join")
        .await
        .unwrap();
    app.wait_for_slack_reply(&first.thread, "nobody can join it")
        .await;
    assert_eq!(app.count("SELECT count(*) FROM thread_member"), 0);

    let second = app.ask(ALICE, "infra: hello").await;
    app.say_in(BOB, &second.thread, "@drydock what was said here?")
        .await;
    let question = app
        .wait_for_slack("the second question", |state| {
            let mut questions = state
                .ephemerals
                .iter()
                .filter(|message| visible_text(message).starts_with(QUESTION));
            questions.nth(1).cloned()
        })
        .await;
    press_privately(&app, BOB, &question, "Ask U0ALICE to join").await;
    let request = app
        .wait_for_slack_reply(&second.thread, "U0BOB asks to join")
        .await;
    app.wait_until_idle().await;
    app.demo.stop().await;
    app.alter_database(
        "UPDATE user_grant SET repositories = 'apps' WHERE user_id = (SELECT id FROM users WHERE name = 'U0BOB')",
    );
    let mut config = app.demo.config().unwrap();
    let infra = config.repositories["infra"].clone();
    config.repositories.insert("apps".to_owned(), infra);
    app.start_with(config).await;
    let url = format!("{}/in/slack", app.demo.url());
    app.demo.slack.connect_to(&url);
    let asked = app.model_requests().len();
    app.demo
        .slack
        .click(ALICE, &request.ts, "Let U0BOB join")
        .await
        .unwrap();
    app.wait_for_slack_reply(
        &second.thread,
        "This conversation is about infra, and you have no grant for it.",
    )
    .await;
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), asked);
}

/// The answer to a member is in the history that both read.
#[tokio::test]
async fn a_member_leads_nobody_into_a_repository_that_they_may_not_read() {
    let mut app = TestApp::new(scale).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_user(BOB, Role::Editor, &["**"]).await;
    app.demo.stop().await;
    app.alter_database(
        "UPDATE user_grant SET repositories = 'infra' WHERE user_id = (SELECT id FROM users WHERE name = 'U0ALICE')",
    );
    let mut config = app.demo.config().unwrap();
    let infra = config.repositories["infra"].clone();
    config.repositories.insert("apps".to_owned(), infra);
    app.start_with(config).await;
    let url = format!("{}/in/slack", app.demo.url());
    app.demo.slack.connect_to(&url);
    let first = app.ask(ALICE, "hello").await;
    let thread = first.thread;
    app.say_in(BOB, &thread, "@drydock infra: hello too").await;
    let question = wait_for_question(&app, BOB).await;
    press_privately(&app, BOB, &question, "Ask U0ALICE to join").await;
    let request = app.wait_for_slack_reply(&thread, "U0BOB asks to join").await;
    app.demo
        .slack
        .click(ALICE, &request.ts, "Let U0BOB join")
        .await
        .unwrap();
    let joined = app.wait_for_result(&thread, 2).await;
    assert!(
        joined.text.contains("I read: U0BOB writes:\nhello too"),
        "{}",
        joined.text
    );
    app.wait_until_idle().await;
    let asked = app.model_requests().len();
    app.say_in(BOB, &thread, "apps: what is here?").await;
    app.wait_for_slack_reply(
        &thread,
        "The person of this conversation has no grant for apps; ask in another thread.",
    )
    .await;
    app.wait_until_idle().await;
    assert_eq!(app.model_requests().len(), asked);
    let bound = "SELECT repository FROM conversation WHERE repository IS NOT NULL";
    assert_eq!(app.column(bound), ["infra"]);
    // Alone, he may ask about it.
    let own = app.ask(BOB, "apps: what is here?").await;
    assert!(own.text.contains("I read: what is here?"), "{}", own.text);
}
