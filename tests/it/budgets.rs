//! Budgets: what model calls may cost, who allows more, and what people see of it.

use crate::support::app::{TestApp, visible_text};
use drydock::base::model::Usage;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, queue, says};
use drydock::state::access::Role;
use serde_json::json;
use std::time::{Duration, Instant};

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const CAROL: &str = "U0CAROL";

/// An answer that used almost as many tokens as are reserved for its request.
fn expensive(_: &ModelRequest) -> ScriptedAnswer {
    let usage = Usage {
        input: 15_000,
        output: 1_000,
        ..Usage::default()
    };
    says("Two replicas.").with_usage(usage)
}

/// T92
#[tokio::test]
async fn over_budget_an_administrator_is_asked_and_allows_more_with_one_button() {
    let app = TestApp::with_settings(expensive, &[("budgets.person_day_tokens_max", "30_000")]).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor(BOB).await;
    app.admit_slack_user(CAROL, Role::Admin, &["**"]).await;
    let first = app.ask(ALICE, "how many replicas has web?").await;
    assert!(first.text.contains("Two replicas."), "{}", first.text);
    let refused = app.ask_in(ALICE, &first.thread, "and api?").await;
    let expected = "I stopped: the budget of a person for one day is 30,000 tokens; 16,000 of them are used, and the \
                    next model call may take up to ";
    assert!(refused.text.contains(expected), "{}", refused.text);
    assert!(
        refused.text.contains("I asked the administrators to allow more."),
        "{}",
        refused.text
    );
    assert_eq!(app.model_requests().len(), 1);
    // Everybody has a budget of their own.
    app.ask(BOB, "how many replicas has web?").await;

    let question = app
        .wait_for_slack_reply(&first.thread, "needs an administrator")
        .await;
    let label = "Allow 15,000 tokens more for today";
    for (person, answer) in [
        (ALICE, "This button belongs to the administrators."),
        (BOB, "This button belongs to the administrators."),
    ] {
        let seen = app.ephemeral_messages(person).len();
        app.demo.slack.click(person, &question.ts, label).await.unwrap();
        assert_eq!(app.wait_for_ephemeral(person, seen).await, answer);
    }
    app.demo.slack.click(CAROL, &question.ts, label).await.unwrap();
    let allowed = app
        .wait_for_slack_reply(&first.thread, "allowed 15,000 tokens more")
        .await;
    assert!(visible_text(&allowed).ends_with("for today. Press Retry or ask again, and I go on."));
    app.wait_for_audit_line("budget.allowed").await;
    let next = app.ask_in(ALICE, &first.thread, "and api?").await;
    assert!(next.text.contains("Two replicas."), "{}", next.text);
    let spent = app.run_command_in(ALICE, &first.thread, "!budget").await;
    assert!(spent.contains("32,000 of 45,000 tokens"), "{spent}");
}

/// T92: the request is in another channel than the refused message.
#[tokio::test]
async fn administrators_are_asked_at_once_in_the_chat_that_is_configured() {
    let settings = [
        ("budgets.person_day_tokens_max", "30_000"),
        ("budgets.ask_in.channel", "slack"),
        ("budgets.ask_in.chat", SLACK_CHANNEL),
    ];
    let app = TestApp::with_settings(expensive, &settings).await;
    app.admit_telegram_editor(4_201).await;
    app.admit_slack_user(CAROL, Role::Admin, &["**"]).await;
    app.ask_telegram(4_201, "how many replicas has web?").await;
    let refused = app.ask_telegram(4_201, "and api?").await;
    assert!(
        refused.text.contains("I asked the administrators to allow more."),
        "{}",
        refused.text
    );
    let answered = Instant::now();
    let question = app
        .wait_for_slack_message(SLACK_CHANNEL, "needs an administrator")
        .await;
    // A channel without a signal looks for work once in a minute.
    assert!(
        answered.elapsed() < Duration::from_secs(30),
        "{:?}",
        answered.elapsed()
    );
    let label = "Allow 15,000 tokens more for today";
    app.demo.slack.click(CAROL, &question.ts, label).await.unwrap();
    app.wait_for_telegram_message(4_201, "U0CAROL allowed 15,000 tokens more for today.")
        .await;
    app.demo
        .telegram
        .click(4_201, 4_201, refused.id, "Retry")
        .await
        .unwrap();
    let answer = app
        .wait_for_telegram("a third result", || {
            app.telegram_results(4_201).into_iter().nth(2)
        })
        .await;
    assert!(answer.text.contains("Two replicas."), "{}", answer.text);
}

/// T92
#[tokio::test]
async fn budgets_in_money_use_the_prices_of_the_model_and_count_for_the_whole_server() {
    let settings = [
        ("budgets.day_cents_max", "25"),
        ("models.anthropic/demo.price_input", "3"),
        ("models.anthropic/demo.price_output", "15"),
    ];
    let app = TestApp::with_settings(expensive, &settings).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_user(CAROL, Role::Admin, &["**"]).await;
    for _ in 0..2 {
        let answered = app.ask(ALICE, "how many replicas has web?").await;
        assert!(answered.text.contains("Two replicas."), "{}", answered.text);
    }
    // 15,000 tokens for $3 and 1,000 tokens for $15 a million.
    let used = app.run_slash_command(ALICE, "usage").await;
    assert!(used.contains("32,000 tokens in 2 model calls, $0.1200"), "{used}");
    let refused = app.ask(ALICE, "and db?").await;
    let expected = "the budget of this server for one day is $0.2500; $0.1200 of it is used, and the next model call may \
                    cost up to $0.";
    assert!(refused.text.contains(expected), "{}", refused.text);
    let thread = &refused.thread;
    let denied = app.run_command_in(ALICE, thread, "!budget allow server 1").await;
    assert_eq!(denied, "Only an administrator allows more.");
    let denied = app.run_command_in(ALICE, thread, "!usage people").await;
    assert_eq!(denied, "Only an administrator sees what others used.");
    let allowed = app.run_slash_command(CAROL, "budget allow server 1.50").await;
    assert_eq!(allowed, "This server may spend $1.50 more for today.");
    let answered = app.ask(ALICE, "and db?").await;
    assert!(answered.text.contains("Two replicas."), "{}", answered.text);
    let people = app.run_slash_command(CAROL, "usage people").await;
    assert!(
        people.contains("48,000 tokens in 3 model calls, $0.1800"),
        "{people}"
    );
    let budgets = app.run_slash_command(CAROL, "budget").await;
    assert_eq!(budgets, "This server, today  $0.1800 of $1.75");
}

/// T92
#[tokio::test]
async fn many_turns_at_once_stay_within_the_budget_of_the_day() {
    let app = TestApp::with_settings(expensive, &[("budgets.day_tokens_max", "100_000")]).await;
    for number in 0..10 {
        app.admit_slack_editor(&format!("U0P{number}")).await;
    }
    let asked = (0..50).map(|number| {
        let app = &app;
        async move {
            app.ask(&format!("U0P{}", number % 10), "how many replicas has web?")
                .await
                .text
        }
    });
    let said = futures_util::future::join_all(asked).await;
    let answered = said.iter().filter(|text| text.contains("Two replicas.")).count();
    let refused = said
        .iter()
        .filter(|text| text.contains("the budget of this server for one day is 100,000 tokens"))
        .count();
    assert!(answered >= 2 && answered + refused == 50, "{said:?}");
    let tokens = app.count("SELECT SUM(input + output) FROM usage");
    assert!(tokens <= 100_000, "{tokens}");
}

/// T92
#[tokio::test]
async fn a_call_whose_answer_broke_off_counts_in_full_and_a_refused_one_counts_nothing() {
    let status = |status: u16| AnswerFault::Status {
        status,
        headers: vec![("retry-after".to_owned(), "0".to_owned())],
        body: String::new(),
    };
    let script = queue([
        says("never").with_fault(status(401)),
        says("Never whole.").with_fault(AnswerFault::EndAfter(400)),
        says("Two replicas."),
    ]);
    let app = TestApp::with_settings(script, &[("budgets.person_day_tokens_max", "1_000_000")]).await;
    app.admit_slack_editor(ALICE).await;
    let refused = app.ask(ALICE, "how many replicas has web?").await;
    assert!(
        refused.text.contains("was not accepted (401)"),
        "{}",
        refused.text
    );
    assert_eq!(app.count("SELECT COUNT(*) FROM reservation"), 0);
    let answered = app.ask(ALICE, "how many replicas has web?").await;
    assert!(answered.text.contains("Two replicas."), "{}", answered.text);
    app.wait_until_idle().await;
    // The answer that arrived is paid, and for the lost one the most that it may have cost is counted.
    assert_eq!(app.count("SELECT SUM(input + output) FROM usage"), 1_050);
    let reserved = app.count("SELECT SUM(tokens) FROM reservation");
    assert!(reserved > 8_192, "{reserved}");
    let spent = app.run_command_in(ALICE, &answered.thread, "!budget").await;
    let counted = drydock::base::model::group_thousands(u64::try_from(reserved + 1_050).unwrap());
    assert!(
        spent.contains(&format!("{counted} of 1,000,000 tokens")),
        "{spent}"
    );
}

/// T92: a call that is stopped before its request is sent costs nothing; one whose request was sent counts in full.
#[tokio::test]
async fn a_stopped_call_counts_only_if_its_request_was_sent() {
    let limited = AnswerFault::Status {
        status: 429,
        headers: vec![("retry-after".to_owned(), "45".to_owned())],
        body: String::new(),
    };
    let script = queue([
        says("Never.").with_fault(AnswerFault::Stall),
        says("never").with_fault(limited),
    ]);
    let app = TestApp::with_settings(script, &[("budgets.person_day_tokens_max", "1_000_000")]).await;
    app.admit_slack_editor(ALICE).await;
    let sent = app.say(ALICE, "how many replicas has web?").await;
    app.wait_for_model_requests(1).await;
    let used = app.run_slash_command(ALICE, "usage").await;
    assert!(!used.contains("Cost not known"), "the call runs: {used}");
    app.say_in(ALICE, &sent.ts, "!stop").await;
    app.wait_for_result(&sent.ts, 1).await;
    app.wait_until_idle().await;
    assert_eq!(app.count("SELECT COUNT(*) FROM reservation"), 1);
    let expected = "1 model call of the last 24 hours ended without an answer";
    let used = app.run_slash_command(ALICE, "usage").await;
    assert!(used.contains(expected), "{used}");

    let waits = app.say(ALICE, "and api?").await;
    app.wait_for_slack_reply(&waits.ts, "rate-limiting").await;
    assert_eq!(app.count("SELECT COUNT(*) FROM reservation"), 2);
    app.say_in(ALICE, &waits.ts, "!stop").await;
    app.wait_for_result(&waits.ts, 1).await;
    app.wait_until_idle().await;
    assert_eq!(app.count("SELECT COUNT(*) FROM reservation"), 1);
    let used = app.run_slash_command(ALICE, "usage").await;
    assert!(used.contains(expected), "{used}");
}

/// The model of a request reads once, while calls are still covered, that its budget is nearly used.
///
/// T92
#[tokio::test]
async fn the_model_is_told_once_that_the_budget_of_a_request_is_nearly_used() {
    let told = "Of the budget of one request, $";
    let answers = move |asked: &ModelRequest| {
        let usage = Usage {
            input: 30_000,
            ..Usage::default()
        };
        let steps = asked
            .messages
            .iter()
            .filter(|message| !message.results.is_empty())
            .count();
        let was_told_before = asked.raw.contains(told)
            && !asked
                .last_results()
                .iter()
                .any(|result| result.content.contains(told));
        match was_told_before {
            true => says("I came to an end in time."),
            false => calls("file_read", json!({ "path": format!("nothing-{steps}") })),
        }
        .with_usage(usage)
    };
    let settings = [
        ("budgets.turn_cents_max", "100"),
        ("models.anthropic/demo.price_input", "3"),
        ("models.anthropic/demo.price_output", "15"),
    ];
    let app = TestApp::with_settings(answers, &settings).await;
    app.admit_slack_editor(ALICE).await;
    let answered = app.ask(ALICE, "how many replicas has web?").await;
    assert!(
        answered.text.contains("I came to an end in time."),
        "{}",
        answered.text
    );
    let asked = app.model_requests();
    assert!(asked.len() > 3, "{}", asked.len());
    assert!(!asked[1].raw.contains(told));
    let last = &asked.last().unwrap().raw;
    assert_eq!(last.matches(told).count(), 1, "{last}");
    assert!(
        last.contains(" of $1.00 are used. The work ends without an answer"),
        "{last}"
    );
}

/// The model reads once of each budget that it is nearly used: not again after a question, in the next request of the
/// conversation, or after a restart.
///
/// T92
#[tokio::test]
async fn the_model_is_told_once_of_each_budget_whatever_its_work_waits_for() {
    const NOTES: [&str; 2] = [
        "Of the budget of one request, $",
        "Of the budget of this conversation, $",
    ];
    let mut after_notes = 0;
    let answers = move |asked: &ModelRequest| {
        let (input, read) = match asked.raw.contains(NOTES[1]) {
            true => (10, format!("later-{after_notes}")),
            false => (30_000, format!("nothing-{}", asked.messages.len())),
        };
        let usage = Usage {
            input,
            ..Usage::default()
        };
        let question =
            json!({ "question": "More?", "choices": ["Yes", "No"], "default": "No", "minutes": 60 });
        let answer = match asked.raw.contains(NOTES[1]) {
            false => calls("file_read", json!({ "path": read })),
            true => {
                after_notes += 1;
                match after_notes {
                    1 => calls("ask_user", question),
                    number if number % 2 == 0 => calls("file_read", json!({ "path": read })),
                    _ => says("Done."),
                }
            }
        };
        answer.with_usage(usage)
    };
    let settings = [
        ("budgets.turn_cents_max", "100"),
        ("budgets.conversation_cents_max", "100"),
        ("models.anthropic/demo.price_input", "3"),
        ("models.anthropic/demo.price_output", "15"),
    ];
    let mut app = TestApp::with_settings(answers, &settings).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "how many replicas has web?").await;
    let asked = app.wait_for_slack_reply(&said.ts, "I need your decision.").await;
    app.demo.slack.click(ALICE, &asked.ts, "Yes").await.unwrap();
    app.wait_for_result(&said.ts, 1).await;
    let told = |app: &TestApp| {
        let asked = app.model_requests();
        NOTES.map(|note| asked.last().unwrap().raw.matches(note).count())
    };
    assert_eq!(told(&app), [1, 1]);
    app.ask_in(ALICE, &said.ts, "and api?").await;
    assert_eq!(told(&app), [1, 1]);
    app.wait_until_idle().await;
    app.restart().await;
    let third = app.ask_in(ALICE, &said.ts, "and db?").await;
    assert!(third.text.contains("Done."), "{}", third.text);
    assert_eq!(told(&app), [1, 1]);
}
