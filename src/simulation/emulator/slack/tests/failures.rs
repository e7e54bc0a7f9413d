//! Tests of the classification of each failure for retries.

use super::*;
use crate::base::model::ResponseUrl;

/// R17
#[tokio::test]
async fn each_failure_says_whether_it_may_be_repeated() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let ts = channel.deliver(&posted("x")).await.unwrap().message.unwrap().id;
    let edit = op(
        "C0OPS",
        None,
        Action::Edit {
            message: message_ref(&ts),
            reply: Reply::text("y"),
        },
    );
    let react = op(
        "C0OPS",
        None,
        Action::React {
            message: message_ref(&ts),
            receipt: Receipt::Started,
        },
    );
    let upload = op(
        "C0OPS",
        None,
        Action::Upload {
            file_name: "x".to_owned(),
            content: Bytes::from_static(b"x"),
            caption: String::new(),
        },
    );
    let status = |status, retry_after_seconds| SlackFault::Status {
        status,
        retry_after_seconds,
    };
    let refuse = |code: &str| SlackFault::Refuse(code.to_owned());
    let broke = "the connection to slack was lost";
    let unknown = |why: &str| SendError::Ambiguous(why.to_owned());
    let table = [
        (
            posted("a"),
            "chat.postMessage",
            status(429, Some(7)),
            limited("slack answered 429", Some(7)),
        ),
        (
            posted("a"),
            "chat.postMessage",
            status(503, None),
            unknown("slack answered 503"),
        ),
        (
            posted("a"),
            "chat.postMessage",
            status(404, None),
            SendError::Refused("slack answered 404".to_owned()),
        ),
        (
            posted("a"),
            "chat.postMessage",
            refuse("ratelimited"),
            limited("ratelimited", None),
        ),
        (
            posted("a"),
            "chat.postMessage",
            refuse("internal_error"),
            unknown("internal_error"),
        ),
        (
            posted("a"),
            "chat.postMessage",
            refuse("service_unavailable"),
            not_sent("service_unavailable", None),
        ),
        (
            posted("a"),
            "chat.postMessage",
            refuse("request_timeout"),
            not_sent("request_timeout", None),
        ),
        (
            edit.clone(),
            "chat.update",
            refuse("org_login_required"),
            not_sent("org_login_required", None),
        ),
        (
            edit.clone(),
            "chat.update",
            refuse("team_added_to_org"),
            not_sent("team_added_to_org", None),
        ),
        (
            posted("a"),
            "chat.postMessage",
            refuse("token_revoked"),
            SendError::Unauthorised("token_revoked".to_owned()),
        ),
        (
            posted("a"),
            "chat.postMessage",
            refuse("is_archived"),
            SendError::Refused("is_archived".to_owned()),
        ),
        (
            posted("a"),
            "chat.postMessage",
            SlackFault::ResetBefore,
            unknown(broke),
        ),
        (
            posted("a"),
            "chat.postMessage",
            SlackFault::ResetAfter,
            unknown(broke),
        ),
        (
            edit.clone(),
            "chat.update",
            SlackFault::ResetAfter,
            not_sent(broke, None),
        ),
        (
            edit.clone(),
            "chat.update",
            status(503, Some(3)),
            not_sent("slack answered 503", Some(3)),
        ),
        (
            edit.clone(),
            "chat.update",
            refuse("fatal_error"),
            not_sent("fatal_error", None),
        ),
        (
            edit,
            "chat.update",
            status(429, Some(1)),
            limited("slack answered 429", Some(1)),
        ),
        (
            react.clone(),
            "reactions.add",
            SlackFault::ResetAfter,
            not_sent(broke, None),
        ),
        (
            react,
            "reactions.remove",
            SlackFault::ResetAfter,
            not_sent(broke, None),
        ),
        (
            upload.clone(),
            "files.getUploadURLExternal",
            SlackFault::ResetAfter,
            not_sent(broke, None),
        ),
        (
            upload,
            "files.completeUploadExternal",
            SlackFault::ResetAfter,
            unknown(broke),
        ),
    ];
    for (op, method, fault, expected) in table {
        emulator.fail_next(method, 1, fault.clone());
        assert_eq!(channel.deliver(&op).await, Err(expected), "{method} {fault:?}");
    }
    drop(emulator);
    tokio::task::yield_now().await;
    let refused = channel.deliver(&posted("a")).await;
    assert!(
        matches!(&refused, Err(SendError::Unreachable(_) | SendError::Ambiguous(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn nobody_listening_is_not_sent() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let settings = ChannelSettings::Slack(settings(&format!("http://{free}/api")));
    let error = channel::connect("slack", &settings, &server(), &http())
        .await
        .err();
    assert_eq!(
        error,
        Some(SendError::Unreachable("slack cannot be reached".to_owned()))
    );
}

#[tokio::test]
async fn rate_limits_are_answered_with_a_wait() {
    let emulator = workspace_with(RateLimits::Slack).await;
    let channel = connected(&emulator).await;
    let ts = channel.deliver(&posted("x")).await.unwrap().message.unwrap().id;
    let edit = op(
        "C0OPS",
        None,
        Action::Edit {
            message: message_ref(&ts),
            reply: Reply::text("y"),
        },
    );
    for _ in 0..50 {
        channel.deliver(&edit).await.unwrap();
    }
    assert_eq!(
        channel.deliver(&edit).await,
        Err(limited("slack answered 429", Some(60)))
    );
}

/// R17
#[tokio::test]
async fn posts_come_too_fast_within_a_few_seconds_and_removed_reactions_within_a_minute() {
    let emulator = workspace_with(RateLimits::Slack).await;
    let channel = connected(&emulator).await;
    let mut message = None;
    for _ in 0..10 {
        message = channel.deliver(&posted("x")).await.unwrap().message;
    }
    assert_eq!(
        channel.deliver(&posted("x")).await,
        Err(limited("slack answered 429", Some(5)))
    );
    let react = Action::React {
        message: message.unwrap(),
        receipt: Receipt::Started,
    };
    let react = op("C0OPS", None, react);
    for _ in 0..20 {
        channel.deliver(&react).await.unwrap();
    }
    assert_eq!(
        channel.deliver(&react).await,
        Err(limited("slack answered 429", Some(60)))
    );
}

#[tokio::test]
async fn posts_to_channels_without_the_bot_are_refused() {
    let emulator = workspace().await;
    emulator.add_channel_without_bot("C0PRIVATE", &["U0ALICE"]);
    let channel = connected(&emulator).await;
    for (chat, code) in [("C0NONE", "channel_not_found"), ("C0PRIVATE", "not_in_channel")] {
        let action = Action::Post {
            reply: Reply::text("x"),
            reply_to: None,
            placeholder: false,
        };
        assert_eq!(
            channel.deliver(&op(chat, None, action)).await,
            Err(SendError::Refused(code.to_owned()))
        );
    }
    assert_eq!(emulator.problems().len(), 2);
}

/// A failure of another host of Slack says nothing about Slack's own API, the token or its limits.
#[tokio::test]
async fn a_failure_of_another_host_is_not_treated_as_one_of_slack() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let upload = op(
        "C0OPS",
        None,
        Action::Upload {
            file_name: "CHG-7.diff".to_owned(),
            content: Bytes::from_static(b"+1"),
            caption: String::new(),
        },
    );
    emulator.add_channel_without_bot("C0ELSE", &["U0ALICE"]);
    let url = emulator.response_url("U0ALICE", "C0ELSE");
    let answer = Op {
        response_url: Some(ResponseUrl::new(url, jiff::Timestamp::MAX)),
        ..op("C0ELSE", None, posted("Here.").action)
    };
    let status = |status, retry_after_seconds| SlackFault::Status {
        status,
        retry_after_seconds,
    };
    let other = |why: &str, seconds: Option<u64>| SendError::OtherHost {
        why: why.to_owned(),
        retry_after: seconds.map(Duration::from_secs),
    };
    let refused = |why: &str| SendError::Refused(why.to_owned());
    for (fault, expected) in [
        (
            SlackFault::ResetBefore,
            other("the connection to slack was lost", None),
        ),
        (
            SlackFault::ResetAfter,
            other("the connection to slack was lost", None),
        ),
        (status(503, Some(3)), other("slack answered 503", Some(3))),
        (status(429, Some(9)), other("slack answered 429", Some(9))),
        (status(401, None), refused("slack answered 401")),
        (status(404, None), refused("slack answered 404")),
    ] {
        for (op, host) in [(&upload, "upload_url"), (&answer, "response_url")] {
            emulator.fail_next(host, 1, fault.clone());
            assert_eq!(
                channel.deliver(op).await,
                Err(expected.clone()),
                "{host} {fault:?}"
            );
        }
    }
}
