//! Tests of the channel for comments against the emulator.

use super::{GithubEmulator, GithubFault, GithubOptions, IssueState};
use crate::base::config::ServerSettings;
use crate::base::http_client::api_client;
use crate::base::model::{Account, Action, ChatPlace, Op, Reply, ReplyPart, Secret};
use crate::base::webhook::GithubCommentSettings;
use crate::interfaces::channel::{Channel, DeliveryLookup, SendError, comment_channel, connect_comments};
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;

const TOKEN: &str = "ghp-emulated-token-of-the-bot";
const REPOSITORY: &str = "acme/web";

fn at() -> Timestamp {
    Timestamp::from_second(1_795_514_400).unwrap()
}

async fn github() -> GithubEmulator {
    let options = GithubOptions {
        token: TOKEN.to_owned(),
        login: "drydock-bot".to_owned(),
        at,
    };
    let emulator = GithubEmulator::start(options).await.unwrap();
    emulator.set_issue(REPOSITORY, 7, IssueState::Open);
    emulator
}

fn channel(emulator: &GithubEmulator, token: &str) -> Arc<dyn Channel> {
    let settings = GithubCommentSettings {
        token: Secret::new(token.to_owned()),
        api_base_url: emulator.api_base_url(),
    };
    connect_comments(
        "ci",
        &settings,
        &ServerSettings::default(),
        &api_client().unwrap(),
    )
}

fn post(id: &str, chat: &str, text: &str) -> Op {
    Op {
        id: id.to_owned(),
        channel: comment_channel("ci"),
        place: ChatPlace {
            account: Account::of_hook("ci"),
            chat: chat.to_owned(),
            thread: None,
        },
        action: Action::Post {
            reply: Reply {
                parts: vec![ReplyPart::Markdown {
                    text: text.to_owned(),
                }],
            },
            reply_to: None,
            placeholder: false,
        },
        response_url: None,
    }
}

#[tokio::test]
async fn a_comment_whose_answer_was_lost_is_found_by_its_mark_among_hundreds() {
    let emulator = github().await;
    let channel = channel(&emulator, TOKEN);
    for index in 0..150 {
        emulator.add_comment(REPOSITORY, 7, "alice", &format!("Comment {index}."));
    }
    // A person quotes the mark of another run, and guesses that of this one.
    emulator.add_comment(
        REPOSITORY,
        7,
        "mallory",
        "<!-- drydock:run-1-2 00112233445566778899aabbccddeeff -->",
    );
    let op = post("run-1-2/reply-1", "acme/web#7", "Looks good, @team.");
    assert_eq!(channel.find(&op, at()).await, Ok(DeliveryLookup::Nothing));
    emulator.fail_next("POST", 1, GithubFault::ResetAfterEffect);
    let lost = channel.deliver(&op).await;
    assert!(matches!(lost, Err(SendError::Ambiguous(_))), "{lost:?}");
    let found = channel.find(&op, at()).await.unwrap();
    let DeliveryLookup::Message(message) = &found else {
        panic!("{found:?}");
    };
    assert_eq!(
        (message.chat.as_str(), message.id.as_str()),
        ("acme/web#7", "1151")
    );
    let other = post("run-1-3/reply-1", "acme/web#7", "Looks good, @team.");
    assert_eq!(channel.find(&other, at()).await, Ok(DeliveryLookup::Nothing));
    let comments = emulator.comments(REPOSITORY, 7);
    let (text, mark) = comments[151].split_once("\n\n").unwrap();
    assert_eq!(text, "Looks good, @\u{200b}team.");
    assert!(
        mark.starts_with("<!-- drydock:run-1-2 ") && mark.ends_with(" -->"),
        "{mark}"
    );
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn each_failure_says_whether_the_comment_may_be_tried_again() {
    let emulator = github().await;
    let comments = channel(&emulator, TOKEN);
    let op = |number: u64| post("run-1-2/reply-1", &format!("acme/web#{number}"), "Done.");
    emulator.set_issue(REPOSITORY, 8, IssueState::Locked);
    emulator.set_issue(REPOSITORY, 9, IssueState::Deleted);
    for (number, status) in [(8, "403"), (9, "410"), (10, "404")] {
        let refused = comments.deliver(&op(number)).await;
        let Err(SendError::Refused(why)) = refused else {
            panic!("{refused:?}");
        };
        assert!(why.starts_with(&format!("github answered {status} ")), "{why}");
    }
    let limited = |seconds| {
        Err(SendError::Limited {
            why: "github limits the rate of calls".to_owned(),
            retry_after: Some(Duration::from_secs(seconds)),
        })
    };
    for (fault, seconds) in [
        (GithubFault::Limited(17), 17),
        (GithubFault::UsedUp(120), 121),
        (GithubFault::Status(429), 60),
    ] {
        emulator.fail_next("POST", 1, fault);
        assert_eq!(comments.deliver(&op(7)).await, limited(seconds), "{fault:?}");
    }
    for fault in [GithubFault::Status(502), GithubFault::Reset] {
        emulator.fail_next("POST", 1, fault);
        let unknown = comments.deliver(&op(7)).await;
        assert!(
            matches!(unknown, Err(SendError::Ambiguous(_))),
            "{fault:?}: {unknown:?}"
        );
        emulator.fail_next("GET", 1, fault);
        let unsent = comments.find(&op(7), at()).await;
        assert!(
            matches!(unsent, Err(SendError::NotSent { .. })),
            "{fault:?}: {unsent:?}"
        );
    }
    let other = channel(&emulator, "ghp-another-token");
    for refused in [other.deliver(&op(7)).await.map(drop), other.probe().await] {
        assert_eq!(
            refused,
            Err(SendError::Unauthorised("github answered 401".to_owned()))
        );
    }
    assert_eq!(comments.probe().await, Ok(()));
    let nowhere = comments
        .deliver(&post("run-1-2/reply-1", "acme/../x#7", "Done."))
        .await;
    assert!(matches!(nowhere, Err(SendError::Refused(_))), "{nowhere:?}");
    assert_eq!(emulator.comments(REPOSITORY, 7), Vec::<String>::new());
}

#[tokio::test]
async fn a_failure_shows_neither_the_address_nor_the_token() {
    let emulator = github().await;
    let closed = channel(&emulator, TOKEN);
    let address = emulator.api_base_url();
    drop(emulator);
    let error = closed
        .deliver(&post("run-1-2/reply-1", "acme/web#7", "Done."))
        .await
        .unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains(TOKEN) && !shown.contains(&address), "{shown}");
}

#[tokio::test]
async fn more_comments_than_github_allows_in_a_minute_are_a_problem() {
    let emulator = github().await;
    let channel = channel(&emulator, TOKEN);
    for number in 0..80 {
        let op = post(&format!("run-{number}-1/reply-1"), "acme/web#7", "Done.");
        assert!(channel.deliver(&op).await.is_ok(), "{number}");
    }
    let one_more = channel
        .deliver(&post("run-80-1/reply-1", "acme/web#7", "Done."))
        .await;
    assert!(matches!(one_more, Err(SendError::Limited { .. })), "{one_more:?}");
    assert_eq!(emulator.problems(), ["comments were made too fast"]);
}
