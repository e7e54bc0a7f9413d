//! Tests of streams: the rules of Slack, and what the real channel makes of them.

use super::*;
use crate::base::model::WorkStatus;
use crate::simulation::emulator::slack::tests::strictness::call;
use serde_json::Value;

fn with(good: &Value, change: &Value) -> Value {
    let mut body = good.clone();
    for (name, value) in change.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// Shows work in the thread of a new message, so that a stream may begin there. Returns the thread.
async fn working(emulator: &SlackEmulator, channel: &dyn Channel) -> String {
    let root = emulator.write("U0ALICE", "C0OPS", None, "hello").ts;
    let show = Action::ShowWork {
        status: WorkStatus::Running,
        title: None,
    };
    channel.deliver(&op("C0OPS", Some(&root), show)).await.unwrap();
    root
}

fn card(thread: &str) -> Op {
    let stream = Action::Stream {
        reply: Reply::default().with(ReplyPart::Heading {
            text: "Working".to_owned(),
        }),
        reply_to: None,
        to: alice(),
    };
    Op {
        id: format!("inbox-{thread}/card"),
        ..op("C0OPS", Some(thread), stream)
    }
}

fn edit(thread: &str, message: MessageRef) -> Op {
    let action = Action::Edit {
        message,
        reply: Reply::text("Done"),
    };
    op("C0OPS", Some(thread), action)
}

/// The rules of the three methods, as Slack documents them.
#[tokio::test]
async fn a_stream_takes_what_slack_documents_and_nothing_after_its_end() {
    let emulator = workspace().await;
    let root = emulator.write("U0ALICE", "C0OPS", None, "hello").ts;
    let reply = emulator.write("U0ALICE", "C0OPS", Some(&root), "and").ts;
    let task = json!({"type": "task_update", "id": "1", "title": "a", "status": "complete"});
    let good = json!({"channel": "C0OPS", "thread_ts": root, "recipient_user_id": "U0ALICE",
        "recipient_team_id": "T0ACME", "task_display_mode": "plan", "chunks": [task]});
    let words = json!({"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [
        {"type": "text", "text": "a"}]}]});
    let chunk = |chunk: Value| json!({"chunks": [chunk]});
    for (change, expected) in [
        (json!({}), "ok"),
        (json!({"chunks": [], "markdown_text": "x".repeat(12_000)}), "ok"),
        (
            json!({"chunks": [], "markdown_text": "x".repeat(12_001)}),
            "msg_too_long",
        ),
        (json!({"chunks": []}), "no_text"),
        (json!({"thread_ts": reply}), "invalid_arguments"),
        (json!({"thread_ts": "1.000001"}), "invalid_arguments"),
        (json!({"recipient_user_id": ""}), "missing_recipient_user_id"),
        (json!({"recipient_team_id": ""}), "missing_recipient_team_id"),
        (json!({"recipient_user_id": "U0NOBODY"}), "user_not_found"),
        (json!({"task_display_mode": "list"}), "invalid_arguments"),
        (json!({"channel": "C0NOWHERE"}), "channel_not_found"),
        (chunk(json!({"type": "banner", "text": "a"})), "invalid_chunks"),
        (chunk(with(&task, &json!({"status": "done"}))), "invalid_chunks"),
        (
            chunk(with(&task, &json!({"title": "x".repeat(257)}))),
            "invalid_chunks",
        ),
        (chunk(with(&task, &json!({"words": "a"}))), "invalid_chunks"),
        (
            chunk(json!({"type": "plan_update", "title": ""})),
            "invalid_chunks",
        ),
        (
            chunk(json!({"type": "blocks", "blocks": vec![words.clone(); 50]})),
            "ok",
        ),
        (
            chunk(json!({"type": "blocks", "blocks": vec![words.clone(); 51]})),
            "invalid_chunks",
        ),
        (
            chunk(json!({"type": "blocks", "blocks": [{"type": "banner"}]})),
            "invalid_chunks",
        ),
    ] {
        let body = with(&good, &change);
        assert_eq!(
            call(&emulator, "chat.startStream", &body).await,
            expected,
            "{body}"
        );
    }
    let ts = emulator.with_state(|state| state.messages[2].ts.clone());
    let append = json!({"channel": "C0OPS", "ts": ts, "chunks": [
        with(&task, &json!({"title": "b", "status": "error"})), {"type": "blocks", "blocks": [words]}]});
    assert_eq!(call(&emulator, "chat.appendStream", &append).await, "ok");
    let shown = emulator
        .with_state(|state| state.message("C0OPS", &ts).cloned())
        .unwrap();
    assert_eq!(shown.visible(), ["\n✗ b", "a"]);
    assert_eq!(shown.before_edits().count(), 1);
    let update = json!({"channel": "C0OPS", "ts": ts, "text": "x"});
    assert_eq!(
        call(&emulator, "chat.update", &update).await,
        "streaming_state_conflict"
    );
    let stop = json!({"channel": "C0OPS", "ts": ts});
    let status = with(&stop, &json!({"session_status": "busy"}));
    assert_eq!(
        call(&emulator, "chat.stopStream", &status).await,
        "invalid_arguments"
    );
    assert_eq!(call(&emulator, "chat.stopStream", &stop).await, "ok");
    for (method, body) in [("chat.appendStream", &append), ("chat.stopStream", &stop)] {
        let refused = call(&emulator, method, body).await;
        assert_eq!(refused, "message_not_in_streaming_state", "{method}");
    }
    let not_there = with(&stop, &json!({"ts": "1.000001"}));
    assert_eq!(
        call(&emulator, "chat.stopStream", &not_there).await,
        "message_not_found"
    );
    assert_eq!(call(&emulator, "chat.update", &update).await, "ok");
    for (withdrawn, expected) in [
        ("assistant:write", "access_denied"),
        ("chat:write", "missing_scope"),
    ] {
        emulator.withdraw(withdrawn);
        assert_eq!(call(&emulator, "chat.startStream", &good).await, expected);
    }
}

#[tokio::test]
async fn the_end_of_a_stream_sets_the_status_of_its_session() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let thread = working(&emulator, &*channel).await;
    let session = |status: &[&str]| {
        let key = ("C0OPS".to_owned(), thread.clone());
        assert_eq!(
            emulator.with_state(|state| state.sessions[&key].statuses.clone()),
            status
        );
    };
    let message = channel.deliver(&card(&thread)).await.unwrap().message.unwrap();
    channel.deliver(&edit(&thread, message)).await.unwrap();
    // The work goes on until its end is shown.
    session(&["processing"]);
    let message = channel.deliver(&card(&thread)).await.unwrap().message.unwrap();
    let stop = json!({"channel": "C0OPS", "ts": message.id});
    assert_eq!(call(&emulator, "chat.stopStream", &stop).await, "ok");
    session(&["processing", "active"]);
}

#[tokio::test]
async fn streamed_markdown_mentions_and_links_what_it_names() {
    let emulator = workspace().await;
    let root = emulator.write("U0ALICE", "C0OPS", None, "hello").ts;
    let body = json!({"channel": "C0OPS", "thread_ts": root, "recipient_user_id": "U0ALICE",
        "recipient_team_id": "T0ACME", "markdown_text": "<@U0ALICE> @here https://evil.example"});
    assert_eq!(call(&emulator, "chat.startStream", &body).await, "ok");
    let shown = emulator
        .with_state(|state| state.messages.last().cloned())
        .unwrap();
    assert_eq!(
        shown.mentions(),
        [
            Mention::User("U0ALICE".to_owned()),
            Mention::Broadcast("@here".to_owned()),
            Mention::Link("https://evil.example".to_owned()),
        ]
    );
}

/// Any refusal leads to a message in the same delivery. What is about one conversation, person or content is no reason to ask no more.
#[tokio::test]
async fn a_refused_stream_is_a_message_and_is_remembered_if_the_workspace_refuses_all() {
    for (code, is_remembered) in [
        ("access_denied", true),
        ("channel_type_not_supported", false),
        ("feature_not_enabled", true),
        ("invalid_chunks", false),
        ("method_deprecated", true),
        ("missing_recipient_user_id", false),
        ("missing_scope", true),
        ("no_permission", true),
        ("not_allowed", true),
        ("not_allowed_token_type", true),
        ("restricted_action_thread_locked", false),
        ("unknown_method", true),
        ("user_not_found", false),
    ] {
        let emulator = workspace().await;
        let channel = connected(&emulator).await;
        let thread = working(&emulator, &*channel).await;
        emulator.fail_next("chat.startStream", 1, SlackFault::Refuse(code.to_owned()));
        let posted = channel.deliver(&card(&thread)).await.unwrap().message.unwrap();
        assert!(
            emulator.with_state(|state| state.stream("C0OPS", &posted.id).is_none()),
            "{code}"
        );
        assert_eq!(channel.streams(&card(&thread).place), !is_remembered, "{code}");
        let again = channel.deliver(&card(&thread)).await.unwrap().message.unwrap();
        let is_stream = emulator.with_state(|state| state.stream("C0OPS", &again.id).is_some());
        assert_eq!(is_stream, !is_remembered, "{code}");
        channel.deliver(&edit(&thread, again)).await.unwrap();
    }
}

/// R17
#[tokio::test]
async fn the_21st_stream_in_a_minute_is_a_message_and_no_end_has_to_wait() {
    let emulator = workspace_with(RateLimits::Slack).await;
    let channel = connected(&emulator).await;
    let mut cards = Vec::new();
    for _ in 0..21 {
        let thread = working(&emulator, &*channel).await;
        let place = card(&thread).place;
        let may_stream = channel.streams(&place);
        let posted = channel.deliver(&card(&thread)).await.unwrap().message.unwrap();
        let is_stream = emulator.with_state(|state| state.stream("C0OPS", &posted.id).is_some());
        assert_eq!((may_stream, is_stream), (cards.len() < 20, cards.len() < 20));
        cards.push((thread, posted));
    }
    for (thread, message) in cards {
        channel.deliver(&edit(&thread, message.clone())).await.unwrap();
        let shown = emulator
            .with_state(|state| state.message("C0OPS", &message.id).cloned())
            .unwrap();
        assert_eq!(shown.text, "Done");
    }
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

/// Two people work in one thread, which shows one session.
#[tokio::test]
async fn a_card_gets_its_button_when_its_thread_shows_no_work_any_more() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let thread = working(&emulator, &*channel).await;
    let message = channel.deliver(&card(&thread)).await.unwrap().message.unwrap();
    let work = |text: &str| {
        let reply = Reply::default().with(ReplyPart::Heading {
            text: text.to_owned(),
        });
        let stop = ReplyPart::Buttons {
            buttons: vec![button("Stop")],
        };
        let progress = Action::Progress {
            message: message.clone(),
            reply: reply.clone().with(stop),
            whole: reply,
        };
        op("C0OPS", Some(&thread), progress)
    };
    let shown = || {
        emulator
            .with_state(|state| state.message("C0OPS", &message.id).cloned())
            .unwrap()
    };
    channel.deliver(&work("Working, step 1")).await.unwrap();
    assert_eq!(
        (shown().visible(), shown().buttons()),
        (vec!["Working, step 1".to_owned()], Vec::new())
    );
    let ended = Action::ShowWork {
        status: WorkStatus::Ended,
        title: None,
    };
    channel.deliver(&op("C0OPS", Some(&thread), ended)).await.unwrap();
    channel.deliver(&work("Working, step 2")).await.unwrap();
    assert_eq!(
        (shown().text.as_str(), shown().buttons().len()),
        ("Working, step 2", 1)
    );
    assert!(emulator.with_state(|state| !state.is_streaming("C0OPS", &message.id)));
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn the_end_of_a_stream_that_slack_limits_waits_alone() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let thread = working(&emulator, &*channel).await;
    let message = channel.deliver(&card(&thread)).await.unwrap().message.unwrap();
    let limit = SlackFault::Status {
        status: 429,
        retry_after_seconds: Some(7),
    };
    emulator.fail_next("chat.stopStream", 1, limit);
    let edit = edit(&thread, message);
    let waits = channel.deliver(&edit).await.err();
    assert_eq!(waits, Some(not_sent("slack answered 429", Some(7))));
    channel.deliver(&edit).await.unwrap();
}

/// Slack's own limit, such as that of another process with the token.
#[tokio::test]
async fn a_limited_stream_is_a_message_at_once() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let thread = working(&emulator, &*channel).await;
    let limit = SlackFault::Status {
        status: 429,
        retry_after_seconds: Some(7),
    };
    emulator.fail_next("chat.startStream", 1, limit);
    let posted = channel.deliver(&card(&thread)).await.unwrap().message.unwrap();
    assert!(emulator.with_state(|state| state.stream("C0OPS", &posted.id).is_none()));
    assert!(!channel.streams(&card(&thread).place));
}
