//! The check of sent requests by libraries of other authors. Where `DRYDOCK_TEST_REQUIRE` names the libraries, the
//! traffic of every test with an emulated platform is checked. The tests here check whenever they are installed.

use crate::shown_results::{REQUESTS, script};
use crate::support::app::TestApp;
use crate::support::discord::{self, DiscordApp};
use crate::support::schemas::SchemaChecker;
use drydock::simulation::emulator::SentRequest;
use drydock::simulation::emulator::slack::{HomeTab, SlackMessage};
use drydock::simulation::emulator::telegram::PostedMessage;
use drydock::state::access::Role;
use serde_json::{Value, json};

const ALICE: &str = "U0ALICE";
const EVE: &str = "U0EVE";
const ANNA: i64 = 4_201;

fn call(method: &str, path: &str, body: &Value) -> SentRequest {
    SentRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        query: String::new(),
        content_type: "application/json".to_owned(),
        body: body.to_string(),
    }
}

/// Asserts that a checker accepts a call, and that it names each planted mistake.
fn assert_notices(checker: &mut SchemaChecker, good: &SentRequest, planted: &[(SentRequest, &str)]) {
    assert_eq!(checker.problems(std::slice::from_ref(good)), Vec::<String>::new());
    for (request, named) in planted {
        let found = checker.problems(&[good.clone(), request.clone()]);
        assert!(
            found.iter().any(|problem| problem.contains(named)),
            "{named}: {request:?}: {found:?}"
        );
    }
}

/// Asserts that checkers accept the traffic of a story, which needs all of their exceptions.
fn assert_accepted(checkers: &mut [SchemaChecker], traffic: &[SentRequest]) {
    assert!(traffic.len() > 20, "{traffic:?}");
    for checker in checkers {
        let found = checker.problems(traffic);
        assert!(found.is_empty(), "{}", found.join("\n"));
        assert_eq!(checker.unused_exceptions(), Vec::<String>::new());
    }
}

fn slack_call(method: &str, body: &Value) -> SentRequest {
    call("POST", &format!("/api/{method}"), body)
}

#[test]
fn a_checker_of_slack_names_an_unknown_method_field_and_type_and_a_text_that_is_too_long() {
    let words = |text: &str| json!({"type": "section", "text": {"type": "mrkdwn", "text": text}});
    let post = |fields: Value| {
        let mut body =
            json!({"channel": "C1", "text": "words", "unfurl_links": false, "blocks": [words("a")]});
        body.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        slack_call("chat.postMessage", &body)
    };
    let both = [
        (
            slack_call("chat.postMessages", &json!({"channel": "C1", "text": "a"})),
            "chat.postMessages",
        ),
        (post(json!({"unfurl_link": false})), "unfurl_link"),
        (
            slack_call(
                "agents.conversations.setView",
                &json!({"channel_id": "C1", "type": "diff", "content": "a", "head_name": "b"}),
            ),
            "head_name",
        ),
        (
            post(json!({"blocks": [{"type": "section", "words": "a"}]})),
            "section",
        ),
        (
            post(json!({"blocks": [{"type": "banner", "text": "a"}]})),
            "banner",
        ),
    ];
    if let Some(mut checker) = SchemaChecker::start("slack_sdk") {
        let long = [
            (post(json!({"blocks": [words(&"a".repeat(3_001))]})), "3000"),
            (
                slack_call("chat.postMessage", &json!({"text": "a"})),
                "channel: missing",
            ),
        ];
        assert_notices(&mut checker, &post(json!({})), &[&both[..], &long[..]].concat());
    }
    if let Some(mut checker) = SchemaChecker::start("slack-types") {
        let typed = [
            (post(json!({"unfurl_links": "no"})), "unfurl_links"),
            (slack_call("chat.postMessage", &json!({"text": "a"})), "channel"),
        ];
        assert_notices(&mut checker, &post(json!({})), &[&both[..], &typed[..]].concat());
    }
}

#[test]
fn a_checker_of_slack_names_an_unknown_method_field_and_type_of_a_stream() {
    let start = |chunks: Value| {
        slack_call(
            "chat.startStream",
            &json!({"channel": "C1", "thread_ts": "1.0", "recipient_user_id": "U1",
                "recipient_team_id": "T1", "task_display_mode": "plan", "chunks": chunks}),
        )
    };
    let task = json!({"type": "task_update", "id": "task-1", "title": "a", "status": "complete"});
    let words = json!({"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [
        {"type": "text", "text": "a"}]}]});
    let good =
        start(json!([{"type": "plan_update", "title": "a"}, task, {"type": "blocks", "blocks": [words]}]));
    let planted = [
        (
            slack_call("chat.openStream", &json!({"channel": "C1"})),
            "chat.openStream",
        ),
        (
            slack_call(
                "chat.appendStream",
                &json!({"channel": "C1", "ts": "1.0", "words": "a"}),
            ),
            "words",
        ),
        (start(json!([{"type": "banner", "text": "a"}])), "banner"),
        (
            start(json!([{"type": "plan_update", "title": "a", "words": "a"}])),
            "words",
        ),
        (
            start(json!([{"type": "blocks", "blocks": [{"type": "banner", "text": "a"}]}])),
            "banner",
        ),
    ];
    for checker in ["slack_sdk", "slack-types"] {
        if let Some(mut checker) = SchemaChecker::start(checker) {
            assert_notices(&mut checker, &good, &planted);
        }
    }
    if let Some(mut checker) = SchemaChecker::start("slack-types") {
        let status = start(json!([{"type": "task_update", "id": "1", "title": "a", "status": "done"}]));
        assert_notices(&mut checker, &good, &[(status, "done")]);
    }
}

#[test]
fn a_checker_of_telegram_names_an_unknown_method_field_and_type_and_a_text_that_is_too_long() {
    let Some(mut checker) = SchemaChecker::start("aiogram") else {
        return;
    };
    let send = |body: Value| call("POST", "/bot7:token/sendMessage", &body);
    let rich = |block: &Value| {
        let message = json!({"blocks": [block], "skip_entity_detection": true});
        let body = json!({"chat_id": 7, "rich_message": message});
        call("POST", "/bot7:token/sendRichMessage", &body)
    };
    let key = |data: &str| json!([[{"text": "Get patch", "callback_data": data}]]);
    let good = send(
        json!({"chat_id": 7, "text": "words", "reply_markup": {"inline_keyboard": key("a")},
        "entities": [{"type": "bold", "offset": 0, "length": 5}]}),
    );
    let planted = [
        (
            call("POST", "/bot7:token/sendMessages", &json!({})),
            "unknown method",
        ),
        (
            send(json!({"chat_id": 7, "text": "a", "silent": true})),
            "sendMessage.silent: unknown field",
        ),
        (
            send(
                json!({"chat_id": 7, "text": "a", "entities": [{"type": "bold", "at": 0, "offset": 0, "length": 1}]}),
            ),
            "sendMessage.entities.at: unknown field",
        ),
        (send(json!({"chat_id": 7})), "Field required"),
        (
            send(
                json!({"chat_id": 7, "text": "a", "entities": [{"type": "bold", "offset": "0", "length": 1}]}),
            ),
            "valid integer",
        ),
        (
            send(json!({"chat_id": 7, "text": "a".repeat(4_097)})),
            "4097 characters",
        ),
        (
            rich(&json!({"type": "paragraph", "text": "a", "at": 0})),
            "blocks.at: unknown field",
        ),
        (
            rich(&json!({"type": "paragraph", "text": {"type": "bold", "text": "a", "at": 0}})),
            "text.at: unknown field",
        ),
        (rich(&json!({"type": "banner", "text": "a"})), "banner"),
        (
            rich(&json!({"type": "paragraph", "text": {"type": "shout", "text": "a"}})),
            "shout",
        ),
        (rich(&json!({"type": "heading", "text": "a"})), "heading.size"),
        (
            send(
                json!({"chat_id": 7, "text": "a", "reply_markup": {"inline_keyboard": key(&"a".repeat(65))}}),
            ),
            "65 bytes",
        ),
    ];
    assert_notices(&mut checker, &good, &planted);
}

#[test]
fn a_checker_of_slack_names_an_unknown_field_block_and_argument_of_a_home_tab() {
    let words =
        |chars: usize| json!({"type": "section", "text": {"type": "mrkdwn", "text": "a".repeat(chars)}});
    let view = |block: Value| json!({"type": "home", "blocks": [block]});
    let publish = |view: Value| slack_call("views.publish", &json!({"user_id": "U1", "view": view}));
    let mut with_field = view(words(1));
    with_field["colour"] = json!("red");
    let planted = [
        (publish(with_field), "colour"),
        (publish(view(json!({"type": "banner", "text": "a"}))), "banner"),
        (
            slack_call(
                "views.publish",
                &json!({"user_id": "U1", "user": "U1", "view": view(words(1))}),
            ),
            "user",
        ),
    ];
    for name in ["slack_sdk", "slack-types"] {
        if let Some(mut checker) = SchemaChecker::start(name) {
            assert_notices(&mut checker, &publish(view(words(1))), &planted);
        }
    }
    if let Some(mut checker) = SchemaChecker::start("slack_sdk") {
        let long = [(publish(view(words(3_001))), "3000")];
        assert_notices(&mut checker, &publish(view(words(1))), &long);
    }
}

#[test]
fn a_checker_of_discord_names_an_unknown_route_field_and_type_and_a_text_that_is_too_long() {
    let Some(mut checker) = SchemaChecker::start("discord-api-types") else {
        return;
    };
    let post = |body: Value| call("POST", "/api/v10/channels/501/messages", &body);
    let button = |fields: Value| {
        let mut button = json!({"type": 2, "style": 2, "label": "Get patch", "custom_id": "a"});
        button
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        json!({"content": "a", "components": [{"type": 1, "components": [button]}]})
    };
    let good = button(json!({}));
    let planted = [
        (
            call("POST", "/api/v10/channels/501/message", &good),
            "unknown route",
        ),
        (
            call("PUT", "/api/v10/channels/501/messages", &good),
            "unknown route",
        ),
        (post(json!({"content": "a", "text": "a"})), "text"),
        (post(json!({"content": 7})), "number"),
        (post(button(json!({"custom_id": null}))), "custom_id"),
        (post(json!({"content": "a".repeat(2_001)})), "2001"),
        (post(button(json!({"label": "a".repeat(81)}))), "component 2"),
        (call("FRAME", "/gateway", &json!({"op": 1})), "gateway"),
    ];
    assert_notices(&mut checker, &post(good), &planted);
}

/// Presses each of these buttons of a result, if it has it, and waits for what follows.
async fn press_in_slack(app: &TestApp, message: &SlackMessage, labels: &[&str]) {
    for label in labels {
        let has = message.buttons().iter().any(|button| button.label == *label);
        if has {
            app.demo.slack.click(ALICE, &message.ts, label).await.unwrap();
            app.wait_until_idle().await;
        }
    }
}

#[tokio::test]
async fn libraries_of_slack_accept_each_state_and_each_button_of_a_result() {
    let started = ["slack_sdk", "slack-types"].map(SchemaChecker::start);
    let mut checkers: Vec<SchemaChecker> = started.into_iter().flatten().collect();
    if checkers.is_empty() {
        return;
    }
    let app = TestApp::new(script).await;
    app.add_slack_account(EVE);
    app.run_slash_command(EVE, "status").await;
    app.admit_slack_user(ALICE, Role::Editor, &["dev"]).await;
    let first = app.ask(ALICE, REQUESTS[0]).await;
    app.demo
        .slack
        .click(EVE, &first.message.ts, "Discard")
        .await
        .unwrap();
    press_in_slack(&app, &first.message, &["Full diff", "Get patch", "Revise"]).await;
    app.wait_for_slack("a form", |state| state.views.last().map(|_| ()))
        .await;
    app.demo.slack.submit(ALICE, "why?").await.unwrap();
    let mut last = app.wait_for_result(&first.thread, 2).await;
    for words in &REQUESTS[1..] {
        last = app.ask_in(ALICE, &first.thread, words).await;
    }
    press_in_slack(&app, &last.message, &["Show CHG-1", "Undo", "Discard"]).await;
    for words in ["!help", "!status", "!diff all", "!environments"] {
        app.run_command_in(ALICE, &first.thread, words).await;
    }
    app.run_slash_command(ALICE, "help").await;
    app.demo.slack.open_app_home(ALICE, HomeTab::Home).await.unwrap();
    app.wait_for_slack("the Home tab", |state| state.homes.get(ALICE).map(|_| ()))
        .await;
    // Where the bot is no member, a command is answered at its own address.
    let slack = &app.demo.slack;
    slack.add_channel_without_bot("C0ELSEWHERE", &[ALICE]);
    let seen = app.ephemeral_messages(ALICE).len();
    slack.slash(ALICE, "C0ELSEWHERE", "status").await.unwrap();
    app.wait_for_ephemeral(ALICE, seen).await;
    app.wait_until_idle().await;
    assert_accepted(&mut checkers, &app.demo.slack.traffic());
}

async fn press_in_telegram(app: &TestApp, message: &PostedMessage, labels: &[&str]) {
    for label in labels {
        let mut keys = message.keyboard.iter().flatten();
        if keys.any(|(shown, _)| shown == label) {
            let pressed = app.demo.telegram.click(ANNA, ANNA, message.id, label).await;
            pressed.unwrap();
            app.wait_until_idle().await;
        }
    }
}

#[tokio::test]
async fn aiogram_accepts_each_state_and_each_button_of_a_result_in_telegram() {
    let Some(checker) = SchemaChecker::start("aiogram") else {
        return;
    };
    let app = TestApp::new(script).await;
    app.demo.telegram.say(667, 667, "delete prod").await;
    app.admit_telegram_user(ANNA, Role::Editor, &["dev"]).await;
    let first = app.ask_telegram(ANNA, REQUESTS[0]).await;
    press_in_telegram(&app, &first, &["Full diff", "Get patch", "Revise"]).await;
    let mut last = first;
    for words in &REQUESTS[1..] {
        last = app.ask_telegram(ANNA, words).await;
    }
    press_in_telegram(&app, &last, &["Show CHG-1", "Undo", "Discard"]).await;
    for words in ["/help", "/status", "/diff all", "/environments"] {
        app.run_telegram_command(ANNA, words).await;
    }
    app.wait_until_idle().await;
    assert_accepted(&mut [checker], &app.demo.telegram.traffic());
}

#[tokio::test]
async fn the_types_of_discord_accept_each_state_and_each_button_of_a_result() {
    let Some(checker) = SchemaChecker::start("discord-api-types") else {
        return;
    };
    let app = DiscordApp::new(script).await;
    app.interact(&app.discord.slash(discord::EVE, discord::PLATFORM, "status"))
        .await;
    app.admit(discord::ALICE, Role::Editor).await;
    let (thread, first) = app.ask(discord::ALICE, REQUESTS[0]).await;
    for label in ["Full diff", "Get patch"] {
        app.press(discord::ALICE, &first, label).await;
        app.app.wait_until_idle().await;
    }
    let mut last = first;
    for (index, words) in REQUESTS.iter().enumerate().skip(1) {
        app.discord.say(discord::ALICE, thread, words);
        last = app.wait_for_result(thread, index + 1).await;
    }
    app.press(discord::ALICE, &last, "Discard").await;
    for words in ["help", "status", "diff all", "environments"] {
        app.interact(&app.discord.slash(discord::ALICE, discord::PLATFORM, words))
            .await;
    }
    app.app.wait_until_idle().await;
    assert_accepted(&mut [checker], &app.discord.traffic());
}
