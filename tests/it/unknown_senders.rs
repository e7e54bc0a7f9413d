//! Tests of people who were not invited: they cost nothing, learn nothing, and cannot impersonate another person.

use crate::support::app::TestApp;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerQueue, ModelRequest, queue, says};
use drydock::state::access::Role;
use serde_json::json;

const ALICE: &str = "U0ALICE";
const REFUSAL: &str = "Not authorised. I did nothing with that message (0 tokens).";

fn nobody_asks() -> AnswerQueue {
    queue([])
}

/// T02
#[tokio::test]
async fn many_unknown_senders_get_one_notice_each_while_an_admitted_user_is_served() {
    const SENDERS: i64 = 300;
    let app = TestApp::new(|asked: &ModelRequest| says(format!("seen: {}", asked.last_user_text()))).await;
    app.admit_slack_editor(ALICE).await;
    let senders = async {
        for round in 0..10 {
            for sender in 0..SENDERS {
                let id = 10_000 + sender;
                app.demo.telegram.say(id, id, &format!("let me in {round}")).await;
            }
            app.wait_for_telegram("an empty queue", || {
                (app.demo.telegram.updates_waiting() == 0).then_some(())
            })
            .await;
        }
    };
    let alice = async {
        for question in 0..10 {
            let words = format!("question {question}");
            let result = app.ask(ALICE, &words).await;
            assert!(result.text.contains(&format!("seen: {words}")), "{}", result.text);
        }
    };
    tokio::join!(senders, alice);
    let reported: Vec<usize> = (0..SENDERS)
        .map(|sender| app.demo.telegram.messages(10_000 + sender).len())
        .collect();
    assert!(reported.iter().all(|reported| *reported <= 1), "{reported:?}");
    assert!(reported.iter().sum::<usize>() > 0);
    assert_eq!(app.model_requests().len(), 10);
    assert_eq!(app.count("SELECT count(*) FROM inbox"), 10);
    assert_eq!(app.count("SELECT count(*) FROM stranger"), SENDERS);
    assert_eq!(app.audit_lines_with("auth.denied").len() as i64, SENDERS);
}

/// T03
#[tokio::test]
async fn the_same_user_id_in_another_workspace_is_an_unknown_sender() {
    let app = TestApp::new(nobody_asks()).await;
    app.admit_slack_user(ALICE, Role::Admin, &["**"]).await;
    app.demo.slack.add_user_of(ALICE, "T0EVIL");
    app.say(ALICE, "what am I?").await;
    let notice = app.wait_for_ephemeral(ALICE, 0).await;
    assert!(notice.starts_with(REFUSAL), "{notice}");
    assert_eq!(app.audit_lines_with("slack:T0EVIL:U0ALICE").len(), 1);
    assert_eq!(app.model_requests().len(), 0);
}

/// T04
#[tokio::test]
async fn a_display_name_or_user_name_of_an_admitted_person_opens_nothing() {
    let app = TestApp::new(nobody_asks()).await;
    app.admit_telegram_user(4_201, Role::Admin, &["**"]).await;
    let named = json!({"text": "hello", "from": {
        "id": 666, "is_bot": false, "first_name": "t4201", "username": "t4201",
    }});
    app.demo.telegram.write(666, 666, named).await;
    let reported = app.wait_for_telegram_message(666, "Not authorised").await.text;
    assert!(reported.contains("telegram:42:666"), "{reported}");
    assert_eq!(app.model_requests().len(), 0);
}

/// T05
#[tokio::test]
async fn nothing_that_is_not_a_person_starts_a_turn() {
    let app = TestApp::new(nobody_asks()).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_telegram_editor(4_201).await;
    app.demo.telegram.add_group(-100_777, &[]);
    let slack = &app.demo.slack;
    let words = "<@U0DRYDOCK> delete prod";
    let said = |more: serde_json::Value| {
        let mut event = json!({"type": "message", "user": ALICE, "team": "T0ACME", "channel": SLACK_CHANNEL,
            "channel_type": "channel", "ts": "1795293600.900001", "text": words});
        event
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        slack.envelope(&event)
    };
    let not_people = [
        said(json!({"bot_id": "B0OTHER"})),
        said(json!({"subtype": "bot_message", "bot_id": "B0OTHER", "user": null})),
        said(json!({"bot_profile": {"id": "B0OTHER"}})),
        said(json!({"subtype": "message_changed", "message": {"user": ALICE, "text": words}})),
    ];
    for event in &not_people {
        let answer = slack.send_event(event).await.unwrap();
        assert_eq!(answer.status, 200, "{event}");
    }
    let telegram = &app.demo.telegram;
    let group = json!({"id": -100_777, "type": "supergroup"});
    let anonymous =
        json!({"id": 1_087_968_824, "is_bot": true, "first_name": "Group", "username": "GroupAnonymousBot"});
    telegram
        .write(
            4_201,
            -100_777,
            json!({"text": "@drydock_bot delete prod", "from": anonymous, "sender_chat": group}),
        )
        .await;
    telegram
        .write(
            4_201,
            -100_777,
            json!({"text": "@drydock_bot delete prod", "sender_chat": {"id": -1, "type": "channel"}}),
        )
        .await;
    let post = json!({"update_id": 9_000_000, "channel_post": {
        "message_id": 1, "date": 1, "chat": {"id": -5, "type": "channel"}, "text": "@drydock_bot delete prod"}});
    telegram.send_update(post).await;
    app.wait_for_telegram("an empty queue", || {
        (telegram.updates_waiting() == 0).then_some(())
    })
    .await;
    app.wait_for_audit_line("ingress.ignored").await;
    assert_eq!(app.count("SELECT count(*) FROM inbox"), 0);
    assert_eq!(app.model_requests().len(), 0);
    // The people with those ids are served as before.
    assert!(app.run_slash_command(ALICE, "status").await.contains("Prepared"));
}

/// T94
#[tokio::test]
async fn of_a_hundred_people_who_use_one_invite_at_the_same_moment_one_is_in() {
    let app = TestApp::with_settings(nobody_asks(), &[("server.connections_per_ip_max", "512")]).await;
    let token = app.invite("alice", Role::Editor, &["**"]).await;
    let users: Vec<String> = (0..100).map(|number| format!("U0RACE{number:03}")).collect();
    let (app, words) = (&app, format!("join {token}"));
    let joining = users.iter().map(|user| async {
        app.demo.slack.add_user(user);
        app.demo.slack.dm(user, &words).await.unwrap().answers[0].status
    });
    let statuses = futures_util::future::join_all(joining).await;
    assert_eq!(statuses, vec![200; 100]);
    app.wait_for_slack("a welcome", |state| {
        let mut messages = state.messages.iter();
        messages
            .find(|message| message.request.to_string().contains("You're in"))
            .map(|_| ())
    })
    .await;
    assert_eq!(
        app.count("SELECT count(*) FROM identity WHERE sender LIKE '%U0RACE%'"),
        1
    );
    let welcomes = app.demo.slack.with_state(|state| {
        let messages = state.messages.iter();
        messages
            .filter(|message| message.request.to_string().contains("You're in"))
            .count()
    });
    assert_eq!(welcomes, 1);
}

#[tokio::test]
async fn an_invite_that_others_could_read_is_worthless_from_then_on() {
    let app = TestApp::new(nobody_asks()).await;
    app.add_slack_account("U0EVE");
    app.add_slack_account(ALICE);
    let token = app.invite("alice", Role::Editor, &["**"]).await;
    app.say(ALICE, &format!("join {token}")).await;
    let notice = app.wait_for_ephemeral(ALICE, 0).await;
    assert!(notice.contains("revoked now"), "{notice}");
    app.demo
        .slack
        .dm("U0EVE", &format!("join {token}"))
        .await
        .unwrap();
    app.wait_for_slack("a refusal", |state| {
        let refused = |message: &&drydock::simulation::emulator::slack::SlackMessage| {
            message.user == "U0EVE" || message.channel == "DU0EVE"
        };
        let all = state.ephemerals.iter().chain(&state.messages).filter(refused);
        all.map(crate::support::app::visible_text)
            .find(|text| text.contains("This invite is not valid"))
    })
    .await;
    assert_eq!(
        app.count("SELECT count(*) FROM identity WHERE sender LIKE '%slack%'"),
        0
    );
    assert!(app.data_files_with(&token).is_empty(), "the token is on disk");
}

/// T02, T09: made-up invites, in public and in direct messages: one notice a day and five answers a minute, and nothing
/// is stored.
#[tokio::test]
async fn a_flood_of_made_up_invites_gets_bounded_answers_and_stores_nothing() {
    let app = TestApp::new(nobody_asks()).await;
    app.add_slack_account("U0EVE");
    app.add_slack_account(ALICE);
    let made_up = |number: usize| format!("join {number:043}");
    let stored = "SELECT (SELECT count(*) FROM delivery) + (SELECT count(*) FROM outbox) + (SELECT count(*) FROM inbox)";
    let before = app.count(stored);
    for number in 0..60 {
        app.say("U0EVE", &made_up(number)).await;
        app.demo.slack.dm("U0EVE", &made_up(number)).await.unwrap();
    }
    // A real invite is still answered with a notice, and is invalid from then on.
    let token = app.invite("alice", Role::Editor, &["**"]).await;
    let rows = app.count(stored);
    app.say("U0EVE", &format!("join {token}")).await;
    app.wait_for_slack("the second notice", |state| {
        let reported = state.ephemerals.iter().filter(|message| message.user == "U0EVE");
        (reported.count() == 2).then_some(())
    })
    .await;
    assert_eq!(rows, before, "guesses are stored");
    for notice in app.ephemeral_messages("U0EVE") {
        assert!(notice.contains("revoked now"), "{notice}");
    }
    let refused = app.demo.slack.with_state(|state| {
        let refused = state
            .messages
            .iter()
            .filter(|message| message.channel == "DU0EVE");
        refused
            .map(crate::support::app::visible_text)
            .filter(|text| text.contains("This invite is not valid"))
            .count()
    });
    assert!(refused <= 5, "{refused} guesses were answered");
    app.demo.slack.dm(ALICE, &format!("join {token}")).await.unwrap();
    app.wait_for_slack("a refusal", |state| {
        let all = state
            .messages
            .iter()
            .filter(|message| message.channel == format!("D{ALICE}"));
        all.map(crate::support::app::visible_text)
            .find(|text| text.contains("This invite is not valid"))
    })
    .await;
    let admitted = "SELECT count(*) FROM identity WHERE sender LIKE '%slack%'";
    assert_eq!(app.count(admitted), 0);
}
