//! The real channel against the workspace: what people see, what nobody is pinged by, what failures
//! mean; and the workspace's events against the real webhook.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{Answer, EventOrder, Fault, Mention, RateLimits, SlackEmulator, SlackOptions};
use crate::channel::{self, Channel, SendError};
use crate::config::{ChannelSettings, ServerSettings, SlackSettings};
use crate::emulator::server::{Closing, serve};
use crate::model::{
    Account, Action, Button, ButtonStyle, Inbound, Kind, MessageRef, Op, Part, Place, Platform, Receipt,
    Reply, Secret, Sender,
};
use crate::webhook::{self, Received, Rejected, Webhook};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use jiff::Timestamp;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const FORMS: [&str; 9] = [
    "<!channel>",
    "<!here>",
    "<!everyone>",
    "<@U0ALICE>",
    "<!subteam^S0TEAM>",
    "<#C0OPS>",
    "<https://evil.example|https://github.com/acme>",
    "@channel @here @everyone #ops",
    "https://evil.example/?k=CANARY",
];

fn now() -> Timestamp {
    Timestamp::from_second(1_795_293_600).unwrap()
}

fn http() -> reqwest::Client {
    // Another test may have been first; either way there is one provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

async fn workspace_with(rate_limits: RateLimits) -> SlackEmulator {
    let emulator = SlackEmulator::start(SlackOptions {
        team: "T0ACME".to_owned(),
        bot_user: "U0BOT".to_owned(),
        bot_name: "drydock".to_owned(),
        bot_token: "xoxb-1".to_owned(),
        signing_secret: "shh".to_owned(),
        rate_limits,
        at: now,
        http: http(),
    })
    .await
    .unwrap();
    emulator.add_user("U0ALICE");
    emulator.add_channel("C0OPS", &["U0ALICE"]);
    emulator
}

async fn workspace() -> SlackEmulator {
    workspace_with(RateLimits::Off).await
}

fn settings(api_base_url: &str) -> SlackSettings {
    SlackSettings {
        bot_token: Secret::new("xoxb-1".to_owned()),
        signing_secret: Secret::new("shh".to_owned()),
        api_base_url: api_base_url.to_owned(),
        repository: None,
    }
}

fn server() -> ServerSettings {
    ServerSettings {
        listen: ([127, 0, 0, 1], 0).into(),
        behind_proxy: false,
        public_url: String::new(),
        body_bytes_max: 1 << 20,
        header_seconds_max: 5,
        body_seconds_max: 10,
        idle_seconds_max: 30,
        connections_max: 64,
        connections_per_ip_max: 64,
        link_hosts: vec!["github.com".to_owned()],
    }
}

async fn connected(emulator: &SlackEmulator) -> Arc<dyn Channel> {
    let settings = ChannelSettings::Slack(settings(&emulator.api_base_url()));
    channel::connect("slack", &settings, &server(), &http())
        .await
        .unwrap()
}

fn split(reply: &Reply) -> Vec<Reply> {
    let settings = ChannelSettings::Slack(settings("http://127.0.0.1:1"));
    channel::split(&settings, &server(), reply)
}

fn alice() -> Sender {
    Sender {
        platform: Platform::Slack,
        account: "T0ACME".to_owned(),
        id: "U0ALICE".to_owned(),
    }
}

fn op(chat: &str, thread: Option<&str>, action: Action) -> Op {
    Op {
        id: "turn-7/result".to_owned(),
        channel: "slack".to_owned(),
        place: Place {
            account: Account {
                platform: Platform::Slack,
                id: "T0ACME".to_owned(),
            },
            chat: chat.to_owned(),
            thread: thread.map(str::to_owned),
        },
        action,
    }
}

fn post(reply: Reply) -> Op {
    op(
        "C0OPS",
        None,
        Action::Post {
            reply,
            reply_to: None,
        },
    )
}

fn posted(text: &str) -> Op {
    post(Reply::text(text))
}

fn on(id: &str) -> MessageRef {
    MessageRef {
        chat: "C0OPS".to_owned(),
        id: id.to_owned(),
    }
}

fn not_sent(why: &str, seconds: Option<u64>) -> SendError {
    SendError::NotSent {
        why: why.to_owned(),
        retry_after: seconds.map(Duration::from_secs),
    }
}

/// Every place in a reply where foreign words may stand.
fn surfaces(words: &str) -> Vec<Reply> {
    let owned = || words.to_owned();
    let markdown = [
        words.to_owned(),
        format!("# {words}"),
        format!("- {words}\n  1. {words}"),
        format!("> {words}\n> > {words}"),
        format!("**{words}** _{words}_ ~~{words}~~ `{words}`"),
        format!("```\n{words}\n```"),
        format!("| a |\n|---|\n| {words} |"),
        format!("[{words}](https://evil.example)"),
        format!("![{words}](https://evil.example/x.png)"),
        format!("<b>{words}</b>"),
    ];
    let mut parts: Vec<Part> = markdown.into_iter().map(|text| Part::Markdown { text }).collect();
    parts.extend([
        Part::Text { text: owned() },
        Part::Text {
            text: format!("`{words}`"),
        },
        Part::Heading { text: owned() },
        Part::Heading {
            text: format!("*a* {words}"),
        },
        Part::Footer { text: owned() },
        Part::Footer {
            text: format!("base `{words}`"),
        },
        Part::Code {
            language: "diff".to_owned(),
            text: format!("+{words}\n--- a/{words}"),
        },
        Part::Facts {
            rows: vec![(owned(), owned())],
        },
        Part::Buttons {
            buttons: vec![button(words)],
        },
    ]);
    parts
        .into_iter()
        .map(|part| Reply { parts: vec![part] })
        .collect()
}

fn button(label: &str) -> Button {
    Button {
        label: label.to_owned(),
        token: "tok".to_owned(),
        style: ButtonStyle::Danger,
    }
}

#[tokio::test]
async fn connecting_learns_who_we_are() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let installation = channel.installation();
    assert_eq!(
        (
            &*installation.account.id,
            &*installation.bot_id,
            &*installation.bot_name
        ),
        ("T0ACME", "U0BOT", "drydock")
    );
    let wrong = SlackSettings {
        bot_token: Secret::new("xoxb-2".to_owned()),
        ..settings(&emulator.api_base_url())
    };
    let refused = channel::connect("slack", &ChannelSettings::Slack(wrong), &server(), &http()).await;
    assert_eq!(refused.err(), Some(SendError::Refused("invalid_auth".to_owned())));
}

/// T71, T61, T72
#[tokio::test]
async fn no_words_ping_anybody_or_become_a_link() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    for words in FORMS {
        for reply in surfaces(words) {
            let delivered = channel.deliver(&post(reply.clone())).await.expect(words);
            let ts = delivered.message.unwrap().id;
            let edit = Action::Edit {
                message: on(&ts),
                reply: reply.clone(),
            };
            channel.deliver(&op("C0OPS", None, edit)).await.expect(words);
            let notice = Action::Notice {
                to: alice(),
                reply: reply.clone(),
            };
            channel.deliver(&op("C0OPS", None, notice)).await.expect(words);
            emulator.look(|state| {
                let seen = [state.message("C0OPS", &ts), state.ephemerals.last()];
                for message in seen.into_iter().flatten() {
                    assert_eq!(message.mentions(), vec![], "{words}: {reply:?}");
                    for flag in ["unfurl_links", "unfurl_media", "link_names"] {
                        assert_eq!(message.request[flag], false, "{flag}");
                    }
                    assert_eq!(message.request["parse"], "none");
                    assert!(!message.text.contains("<http"), "{}", message.text);
                }
            });
        }
        let upload = Action::Upload {
            file_name: format!("{words}.patch"),
            content: Bytes::from_static(b"x"),
            caption: words.to_owned(),
        };
        channel.deliver(&op("C0OPS", None, upload)).await.expect(words);
        let last = emulator.look(|state| state.messages.last().cloned()).unwrap();
        assert_eq!(last.mentions(), vec![], "{words}");
    }
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

/// T71
#[tokio::test]
async fn what_would_have_pinged_is_still_there_to_read() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    for words in FORMS.iter().take(6) {
        let parts = vec![
            Part::Heading {
                text: (*words).to_owned(),
            },
            Part::Text {
                text: (*words).to_owned(),
            },
            Part::Code {
                language: String::new(),
                text: (*words).to_owned(),
            },
            Part::Footer {
                text: (*words).to_owned(),
            },
        ];
        channel.deliver(&post(Reply { parts })).await.unwrap();
        let last = emulator.look(|state| state.messages.last().cloned()).unwrap();
        let bold = format!("*{words}*");
        assert_eq!(last.visible(), vec![bold.as_str(), *words, *words, *words]);
    }
}

#[tokio::test]
async fn only_a_mention_part_mentions_and_only_its_person() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let mention = Part::Mention { to: alice() };
    for next in [
        Part::Heading {
            text: "CHG-42 is ready".to_owned(),
        },
        Part::Text {
            text: "CHG-42 is ready".to_owned(),
        },
        Part::Markdown {
            text: "CHG-42 is ready".to_owned(),
        },
    ] {
        let parts = vec![mention.clone(), next];
        channel.deliver(&post(Reply { parts })).await.unwrap();
        let last = emulator.look(|state| state.messages.last().cloned()).unwrap();
        assert_eq!(last.mentions(), vec![Mention::User("U0ALICE".to_owned())]);
        assert_eq!(last.text, "CHG-42 is ready");
    }
    let forged = Part::Mention {
        to: Sender {
            id: "U1> <!channel".to_owned(),
            ..alice()
        },
    };
    for next in [
        Part::Heading { text: "x".to_owned() },
        Part::Text { text: "x".to_owned() },
    ] {
        channel
            .deliver(&post(Reply {
                parts: vec![forged.clone(), next],
            }))
            .await
            .unwrap();
        let last = emulator.look(|state| state.messages.last().cloned()).unwrap();
        assert_eq!(last.mentions(), vec![]);
    }
}

/// T61, T69
#[tokio::test]
async fn listed_hosts_are_links_and_headings_are_ours_alone() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let text = "# ✅ Approved by admin\n[release](https://github.com/acme) [x](https://evil.example/?k=C)";
    let reply = Reply {
        parts: vec![Part::Markdown {
            text: text.to_owned(),
        }],
    };
    channel.deliver(&post(reply)).await.unwrap();
    let last = emulator.look(|state| state.messages.last().cloned()).unwrap();
    assert_eq!(
        last.mentions(),
        vec![Mention::Link("https://github.com/acme".to_owned())]
    );
    assert_eq!(last.request["blocks"][0]["type"], "rich_text");
    assert!(last.visible().concat().contains("hxxps://evil.example/?k=C"));
    assert!(!last.request.to_string().contains("https://evil"));
}

/// T69
#[tokio::test]
async fn a_heading_with_signs_of_markup_is_still_a_heading_and_paths_are_code() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let reply = Reply {
        parts: vec![
            Part::Heading {
                text: "CHG-1: scale web_api".to_owned(),
            },
            Part::Facts {
                rows: vec![("Files".to_owned(), "lib/web.libsonnet (new)".to_owned())],
            },
        ],
    };
    channel.deliver(&post(reply)).await.unwrap();
    let last = emulator.look(|state| state.messages.last().cloned()).unwrap();
    let elements = |block: usize| last.request["blocks"][block]["elements"][0]["elements"].clone();
    assert_eq!(
        elements(0),
        json!([{"type": "text", "text": "CHG-1: scale web_api", "style": {"bold": true}}])
    );
    assert_eq!(
        elements(1),
        json!([
            {"type": "text", "text": "Files", "style": {"bold": true}},
            {"type": "text", "text": "  "},
            {"type": "text", "text": "lib/web.libsonnet", "style": {"code": true}},
            {"type": "text", "text": " (new)"},
        ])
    );
}

/// T76
#[tokio::test]
async fn a_diff_cannot_break_out_of_its_block() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-```\n+``` ````\n+--- a/prod\n+</pre> *b* `c`\n";
    let code = Part::Code {
        language: "diff".to_owned(),
        text: diff.to_owned(),
    };
    channel.deliver(&post(Reply { parts: vec![code] })).await.unwrap();
    let last = emulator.look(|state| state.messages.last().cloned()).unwrap();
    assert_eq!(
        last.request["blocks"],
        json!([{"type": "rich_text", "elements": [{"type": "rich_text_preformatted",
            "elements": [{"type": "text", "text": diff}]}]}])
    );
}

/// T77
#[tokio::test]
async fn a_thousand_texts_arrive_whole() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let word =
        "(👩‍👩‍👧‍👦|🏴󠁧󠁢󠁥󠁮󠁧󠁿|🇩🇪|e\u{301}|é|\\*|_|&|<!here>|\"|\\\\|\n|\n\n| |  |[a-z]{1,12} |[^`\\pC\\pZ]{1,8}){1,50}";
    let strategy = (proptest::string::string_regex(word).unwrap(), 0_u32..100);
    for round in 0..1_000 {
        let (text, length) = strategy.new_tree(&mut runner).unwrap().current();
        let text = if length >= 97 { text.repeat(30) } else { text };
        let part = if round % 2 == 0 {
            Part::Text { text: text.clone() }
        } else {
            Part::Code {
                language: String::new(),
                text: text.clone(),
            }
        };
        let before = emulator.look(|state| state.messages.len());
        for reply in split(&Reply { parts: vec![part] }) {
            channel
                .deliver(&post(reply))
                .await
                .unwrap_or_else(|error| panic!("{error}: {text:?}"));
        }
        let shown: String = emulator.look(|state| {
            let new = state.messages.iter().skip(before);
            new.flat_map(|message| message.visible()).collect()
        });
        assert_eq!(shown, text);
    }
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_long_reply_is_several_messages_with_its_buttons_on_the_last() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let code: String = (0..4_000).map(|line| format!("+line {line}\n")).collect();
    let reply = Reply {
        parts: vec![
            Part::Mention { to: alice() },
            Part::Heading {
                text: "CHG-42".to_owned(),
            },
            Part::Buttons {
                buttons: vec![button("Discard")],
            },
            Part::Markdown {
                text: format!("Before.\n\n```diff\n{code}```\n\nAfter."),
            },
            Part::Footer {
                text: "base `a1b2c3d`".to_owned(),
            },
        ],
    };
    let replies = split(&reply);
    assert!(replies.len() > 2, "{}", replies.len());
    for reply in &replies {
        channel.deliver(&post(reply.clone())).await.unwrap();
    }
    let messages = emulator.look(|state| state.messages.clone());
    let mentions: Vec<usize> = messages.iter().map(|message| message.mentions().len()).collect();
    assert_eq!(mentions.iter().sum::<usize>(), 1);
    assert_eq!(mentions.first(), Some(&1));
    let buttons: Vec<usize> = messages.iter().map(|message| message.buttons().len()).collect();
    assert_eq!((buttons.iter().sum::<usize>(), buttons.last()), (1, Some(&1)));
    let shown: String = messages.iter().flat_map(|message| message.visible()).collect();
    let lines = code.trim_end();
    assert_eq!(
        shown,
        format!("<@U0ALICE> *CHG-42*Before.{lines}After.Discardbase `a1b2c3d`")
    );
}

#[tokio::test]
async fn a_receipt_replaces_the_other() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let ts = channel.deliver(&posted("x")).await.unwrap().message.unwrap().id;
    let react = |receipt| {
        op(
            "C0OPS",
            None,
            Action::React {
                message: on(&ts),
                receipt,
            },
        )
    };
    let reactions = || emulator.look(|state| state.message("C0OPS", &ts).unwrap().reactions.clone());
    for (receipt, name) in [
        (Receipt::Queued, "hourglass_flowing_sand"),
        (Receipt::Queued, "hourglass_flowing_sand"),
        (Receipt::Started, "eyes"),
        (Receipt::Started, "eyes"),
        (Receipt::Seen, "eyes"),
    ] {
        channel.deliver(&react(receipt)).await.unwrap();
        assert_eq!(reactions().into_iter().collect::<Vec<_>>(), vec![name]);
    }
}

#[tokio::test]
async fn an_edit_replaces_and_only_our_own() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let ts = channel.deliver(&posted("one")).await.unwrap().message.unwrap().id;
    let edit = |id: &str| {
        let reply = Reply::text("two");
        op(
            "C0OPS",
            None,
            Action::Edit {
                message: on(id),
                reply,
            },
        )
    };
    for _ in 0..2 {
        channel.deliver(&edit(&ts)).await.unwrap();
    }
    let message = emulator
        .look(|state| state.message("C0OPS", &ts).cloned())
        .unwrap();
    assert_eq!((message.visible(), message.edits), (vec!["two".to_owned()], 2));
    assert_eq!(
        channel.deliver(&edit("1.1")).await,
        Err(SendError::Refused("message_not_found".to_owned()))
    );
    emulator.connect_to("http://127.0.0.1:1/");
    let _ = emulator.say("U0ALICE", "C0OPS", "mine").await;
    let hers = emulator.look(|state| state.messages.last().cloned()).unwrap();
    assert_eq!(
        channel.deliver(&edit(&hers.ts)).await,
        Err(SendError::Refused("cant_update_message".to_owned()))
    );
}

#[tokio::test]
async fn a_file_arrives_byte_for_byte_in_its_thread() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let ts = channel
        .deliver(&posted("root"))
        .await
        .unwrap()
        .message
        .unwrap()
        .id;
    let content = Bytes::from_static(b"\x00\xff<!channel>\r\n");
    let upload = |content: Bytes| Action::Upload {
        file_name: "CHG-42.patch".to_owned(),
        content,
        caption: "Patch".to_owned(),
    };
    channel
        .deliver(&op("C0OPS", Some(&ts), upload(content.clone())))
        .await
        .unwrap();
    let file = emulator.look(|state| state.files.last().cloned()).unwrap();
    assert_eq!(
        (file.name, file.content, file.thread_ts),
        ("CHG-42.patch".to_owned(), content, Some(ts))
    );
    assert_eq!(
        channel.deliver(&op("C0OPS", None, upload(Bytes::new()))).await,
        Err(SendError::Refused("invalid_arguments".to_owned()))
    );
}

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
            message: on(&ts),
            reply: Reply::text("y"),
        },
    );
    let react = op(
        "C0OPS",
        None,
        Action::React {
            message: on(&ts),
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
    let status = |status, retry_after_seconds| Fault::Status {
        status,
        retry_after_seconds,
    };
    let refuse = |code: &str| Fault::Refuse(code.to_owned());
    let broke = "the connection to slack broke";
    let ambiguous = || SendError::Ambiguous(broke.to_owned());
    let table = [
        (
            posted("a"),
            "chat.postMessage",
            status(429, Some(7)),
            not_sent("slack answered 429", Some(7)),
        ),
        (
            posted("a"),
            "chat.postMessage",
            status(503, None),
            not_sent("slack answered 503", None),
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
            not_sent("ratelimited", None),
        ),
        (
            posted("a"),
            "chat.postMessage",
            refuse("internal_error"),
            not_sent("internal_error", None),
        ),
        (
            posted("a"),
            "chat.postMessage",
            refuse("is_archived"),
            SendError::Refused("is_archived".to_owned()),
        ),
        (posted("a"), "chat.postMessage", Fault::ResetBefore, ambiguous()),
        (posted("a"), "chat.postMessage", Fault::ResetAfter, ambiguous()),
        (
            edit.clone(),
            "chat.update",
            Fault::ResetAfter,
            not_sent(broke, None),
        ),
        (
            edit,
            "chat.update",
            status(429, Some(1)),
            not_sent("slack answered 429", Some(1)),
        ),
        (
            react.clone(),
            "reactions.add",
            Fault::ResetAfter,
            not_sent(broke, None),
        ),
        (
            react,
            "reactions.remove",
            Fault::ResetAfter,
            not_sent(broke, None),
        ),
        (
            upload.clone(),
            "files.getUploadURLExternal",
            Fault::ResetAfter,
            not_sent(broke, None),
        ),
        (
            upload,
            "files.completeUploadExternal",
            Fault::ResetAfter,
            ambiguous(),
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
        matches!(&refused, Err(SendError::NotSent { .. } | SendError::Ambiguous(_))),
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
    assert_eq!(error, Some(not_sent("slack cannot be reached", None)));
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
            message: on(&ts),
            reply: Reply::text("y"),
        },
    );
    for _ in 0..50 {
        channel.deliver(&edit).await.unwrap();
    }
    assert_eq!(
        channel.deliver(&edit).await,
        Err(not_sent("slack answered 429", Some(60)))
    );
}

#[tokio::test]
async fn places_the_bot_is_not_in_are_refused() {
    let emulator = workspace().await;
    emulator.add_channel_without_bot("C0PRIVATE", &["U0ALICE"]);
    let channel = connected(&emulator).await;
    for (chat, code) in [("C0NONE", "channel_not_found"), ("C0PRIVATE", "not_in_channel")] {
        let action = Action::Post {
            reply: Reply::text("x"),
            reply_to: None,
        };
        assert_eq!(
            channel.deliver(&op(chat, None, action)).await,
            Err(SendError::Refused(code.to_owned()))
        );
    }
    assert_eq!(emulator.problems().len(), 2);
}

#[derive(Clone)]
struct Gateway {
    webhook: Arc<dyn Webhook>,
    received: Arc<Mutex<Vec<Inbound>>>,
}

async fn receive(
    gateway: Gateway,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let request = Request::from_parts(head, body.collect().await?.to_bytes());
    let (status, text) = match gateway.webhook.receive(&request, now()) {
        Ok(Received::Inbound(inbound)) => {
            gateway.received.lock().unwrap().push(*inbound);
            (200, String::new())
        }
        Ok(Received::Ignored(reason)) => (200, reason.to_owned()),
        Ok(Received::Answer(text)) => (200, text),
        Err(Rejected::Unauthenticated(_)) => (401, String::new()),
        Err(Rejected::Malformed(_)) => (400, String::new()),
        Err(Rejected::Unsupported(_)) => (415, String::new()),
    };
    let response = Response::builder().status(status);
    Ok(response.body(Full::new(Bytes::from(text))).unwrap())
}

async fn gateway(emulator: &SlackEmulator, channel: &Arc<dyn Channel>) -> Gateway {
    let settings = ChannelSettings::Slack(settings(&emulator.api_base_url()));
    let gateway = Gateway {
        webhook: webhook::of_channel("slack", &settings, channel.installation()).unwrap(),
        received: Arc::default(),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    emulator.connect_to(&format!("http://{}/in/slack", listener.local_addr().unwrap()));
    let answering = gateway.clone();
    let stop = CancellationToken::new();
    tokio::spawn(serve(listener, Closing::Ordinary, stop, move |request| {
        receive(answering.clone(), request)
    }));
    gateway
}

fn ok() -> Answer {
    Answer {
        status: 200,
        body: String::new(),
    }
}

#[tokio::test]
async fn what_people_do_reaches_the_gateway_signed() {
    let emulator = workspace().await;
    emulator.add_user_of("U0EVE", "T0EVIL");
    let channel = connected(&emulator).await;
    let gateway = gateway(&emulator, &channel).await;
    let said = emulator
        .say("U0ALICE", "C0OPS", "@drydock scale <web> & @here")
        .await
        .unwrap();
    assert_eq!(said.answers, vec![ok(), ok()]);
    emulator.send_first(EventOrder::MessageFirst);
    emulator
        .reply_in_thread("U0EVE", "C0OPS", &said.ts, "me too")
        .await
        .unwrap();
    emulator.dm("U0ALICE", "hello").await.unwrap();
    emulator.slash("U0ALICE", "C0OPS", "status").await.unwrap();
    let reply = Reply {
        parts: vec![
            Part::Text { text: "x".to_owned() },
            Part::Buttons {
                buttons: vec![button("Stop")],
            },
        ],
    };
    let action = Action::Post {
        reply,
        reply_to: None,
    };
    let ts = channel
        .deliver(&op("C0OPS", Some(&said.ts), action))
        .await
        .unwrap()
        .message
        .unwrap()
        .id;
    assert_eq!(emulator.click("U0ALICE", &ts, "Stop").await, Ok(ok()));

    let received = gateway.received.lock().unwrap().clone();
    let text = |text: &str, addressed| Kind::Text {
        text: text.to_owned(),
        quoted: None,
        addressed,
    };
    let kinds: Vec<Kind> = received.iter().map(|inbound| inbound.kind.clone()).collect();
    assert_eq!(
        kinds,
        vec![
            text("scale <web> & @here", true),
            text("scale <web> & @here", true),
            text("me too", false),
            text("hello", true),
            Kind::Command {
                verb: "status".to_owned(),
                arguments: String::new()
            },
            Kind::Click {
                token: "tok".to_owned(),
                callback: None
            },
        ]
    );
    assert_eq!(received[0].delivery[1..], received[1].delivery[1..]);
    assert_eq!(received[2].sender.to_string(), "slack:T0EVIL:U0EVE");
    assert_eq!(received[5].place.thread.as_deref(), Some(said.ts.as_str()));
    assert!(received[3].direct);
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn unsigned_requests_get_nowhere() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let gateway = gateway(&emulator, &channel).await;
    let body = json!({"type": "url_verification", "challenge": "abc"}).to_string();
    let headers = emulator.signed_headers("application/json", body.as_bytes());
    let answer = emulator.send(body.clone(), headers.clone()).await.unwrap();
    assert_eq!(
        answer,
        Answer {
            status: 200,
            body: "abc".to_owned()
        }
    );
    let answer = emulator.send(format!("{body} "), headers).await.unwrap();
    assert_eq!(answer.status, 401);
    assert_eq!(gateway.received.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn waiting_ends_when_it_shows() {
    let emulator = workspace().await;
    let (seen, ()) = tokio::join!(
        emulator.wait_until(|state| state.users.get("U0CAROL").cloned()),
        async { emulator.add_user("U0CAROL") }
    );
    assert_eq!(seen.as_deref(), Some("T0ACME"));
}

/// T77
#[tokio::test]
async fn whatever_a_model_writes_slack_takes_it() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let source = "([-*+>#`~_|!<\\[\\]()]|1\\. |\n|\n\n| {1,5}|\t|a|`{3}|\\*\\*|---|[|]-[|]|https://github.com/a|https://e.x|&nbsp;|\u{1b}|👩‍👩‍👧‍👦){0,60}";
    let strategy = proptest::string::string_regex(source).unwrap();
    for _ in 0..500 {
        let text = strategy.new_tree(&mut runner).unwrap().current();
        let reply = Reply {
            parts: vec![Part::Markdown { text: text.clone() }],
        };
        for reply in split(&reply) {
            let delivered = channel.deliver(&post(reply)).await;
            assert!(
                delivered.is_ok(),
                "{delivered:?}: {text:?} {:?}",
                emulator.problems()
            );
        }
    }
}

/// T77
#[tokio::test]
async fn the_largest_parts_fit() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let markdown = |text: String| Part::Markdown { text };
    let parts = [
        markdown("x".repeat(30_000)),
        markdown("*a*_b_".repeat(800)),
        markdown("👩‍👩‍👧‍👦".repeat(3_000)),
        markdown("- item `x`\n".repeat(500)),
        markdown("> quoted\n".repeat(1_000)),
        markdown("one\n\n".repeat(600)),
        markdown(format!("```\n{}\n```", "\"\\\u{1b}\u{202e}".repeat(5_000))),
        markdown("| a | b |\n|---|---|\n".to_owned() + &"| 1 | 2 |\n".repeat(3_000)),
        Part::Heading {
            text: "h".repeat(5_000),
        },
        Part::Heading {
            text: "& ".repeat(15_000),
        },
        Part::Footer {
            text: "<".repeat(20_000),
        },
        Part::Text {
            text: "`".repeat(3_001),
        },
        Part::Text { text: String::new() },
        Part::Code {
            language: String::new(),
            text: String::new(),
        },
        Part::Facts {
            rows: vec![("l".repeat(20_000), "v`x`".repeat(300)); 3],
        },
        Part::Facts { rows: vec![] },
        Part::Buttons {
            buttons: (0..120)
                .map(|n| button(&format!("{n}{}", "ü".repeat(90))))
                .collect(),
        },
        Part::Buttons { buttons: vec![] },
    ];
    let all = Reply {
        parts: [parts.to_vec(), vec![Part::Text { text: "x".to_owned() }; 120]].concat(),
    };
    let mut replies: Vec<Reply> = parts
        .into_iter()
        .map(|part| Reply { parts: vec![part] })
        .collect();
    replies.extend([all, Reply::default()]);
    for reply in replies {
        let pieces = split(&reply);
        assert!(!pieces.is_empty());
        for piece in pieces {
            let delivered = channel.deliver(&post(piece)).await;
            assert!(delivered.is_ok(), "{delivered:?}: {:?}", emulator.problems());
        }
    }
    assert_eq!(emulator.problems(), Vec::<String>::new());
}
