//! Tests of the channel with the emulator: the shown messages, and the effects of connection failures.

mod gateway;

use super::{DiscordEmulator, DiscordFault, DiscordOptions};
use crate::base::config::{ChannelSettings, DiscordSettings, ServerSettings};
use crate::base::model::{
    Account, Action, Button, ButtonStyle, ChatPlace, MessageRef, Op, Platform, Reply, ReplyPart, ResponseUrl,
    Secret, Sender,
};
use crate::interfaces::channel::{self, Channel, Delivered, DeliveryLookup, SendError, connect};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::{ProptestConfig, any, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::{Just, Strategy};
use std::collections::BTreeSet;
use std::sync::Arc;

const TOKEN: &str = "MTEwMDAwMDAwMDAwMDAwMDAwMQ.stage.canary-of-the-bot-token";
const ALICE: u64 = 7001;
const PLATFORM: u64 = 501;

fn now() -> Timestamp {
    Timestamp::from_second(1_795_262_400).unwrap()
}

fn client() -> reqwest::Client {
    // Fails only if another test has already installed the same provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn settings(api_base_url: &str) -> ChannelSettings {
    ChannelSettings::Discord(DiscordSettings {
        bot_token: Secret::new(TOKEN.to_owned()),
        public_key: None,
        previous_public_key: None,
        api_base_url: api_base_url.to_owned(),
        paced: true,
        repository: None,
    })
}

fn server() -> ServerSettings {
    ServerSettings {
        listen: "127.0.0.1:0".parse().unwrap(),
        behind_proxy: true,
        public_url: "https://drydock.example.com/".to_owned(),
        body_bytes_max: 1 << 20,
        header_seconds_max: 5,
        body_seconds_max: 10,
        idle_seconds_max: 30,
        connections_max: 64,
        connections_per_ip_max: 64,
        link_hosts: vec!["docs.example.com".to_owned()],
        zone: "UTC".to_owned(),
    }
}

/// A channel, its emulator, and a message of Alice in a text channel.
struct Setup {
    discord: DiscordEmulator,
    channel: Arc<dyn Channel>,
    asked: u64,
}

impl Setup {
    async fn new() -> Self {
        let options = DiscordOptions {
            application: 1001,
            bot: 1002,
            bot_token: TOKEN.to_owned(),
            guild: 900,
            signing_seed: [9; 32],
            closed_to: BTreeSet::from([7003]),
            at: now,
            http: client(),
        };
        let discord = DiscordEmulator::start(options).await.unwrap();
        discord.add_channel(PLATFORM, 0);
        let asked = discord.say(ALICE, PLATFORM, "@drydock scale web");
        let settings = settings(&discord.api_base_url());
        let channel = connect("discord", &settings, &server(), &client()).await.unwrap();
        Self {
            discord,
            channel,
            asked,
        }
    }

    fn op(&self, action: Action) -> Op {
        Op {
            id: "inbox-1/result".to_owned(),
            channel: "discord".to_owned(),
            place: ChatPlace {
                account: Account {
                    platform: Platform::Discord,
                    id: "1001".to_owned(),
                },
                chat: PLATFORM.to_string(),
                thread: Some(self.asked.to_string()),
            },
            action,
            response_url: None,
        }
    }

    async fn deliver(&self, action: Action) -> Result<Delivered, SendError> {
        self.channel.deliver(&self.op(action)).await
    }
}

fn post(reply: Reply) -> Action {
    Action::Post {
        reply,
        reply_to: None,
        placeholder: false,
    }
}

fn split(reply: &Reply) -> Vec<Reply> {
    channel::split(&settings("http://127.0.0.1:1"), &server(), reply)
}

fn nasty() -> impl Strategy<Value = String> {
    let bits = prop_oneof![
        any::<String>(),
        Just("@everyone".to_owned()),
        Just("<@7002>".to_owned()),
        Just("<@&5>".to_owned()),
        Just("<#4>".to_owned()),
        Just("https://".to_owned()),
        Just("evil.example/x".to_owned()),
        Just("discord.gg/abc".to_owned()),
        Just("[a](https://evil.example)".to_owned()),
        Just("```".to_owned()),
        Just("`".to_owned()),
        Just("**".to_owned()),
        Just("\\".to_owned()),
        Just("\n# ".to_owned()),
        Just("\n-# ".to_owned()),
        Just("\n> ".to_owned()),
        Just("||".to_owned()),
        Just("<t:1:R>".to_owned()),
    ];
    proptest::collection::vec(bits, 0..8).prop_map(|bits| bits.concat())
}

fn parts(text: &str) -> Reply {
    let text = || text.to_owned();
    Reply {
        parts: vec![
            ReplyPart::Heading { text: text() },
            ReplyPart::Text { text: text() },
            ReplyPart::Markdown { text: text() },
            ReplyPart::Code {
                language: text(),
                text: text(),
            },
            ReplyPart::Facts {
                rows: vec![(text(), text()), ("b".to_owned(), text())],
            },
            ReplyPart::Fold {
                title: text(),
                state: crate::base::model::FoldState::Closed,
                parts: vec![ReplyPart::Markdown { text: text() }],
            },
            ReplyPart::Footer { text: text() },
        ],
    }
}

/// T43, T58
#[test]
fn no_words_ping_anybody_or_become_a_link() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let setup = runtime.block_on(Setup::new());
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(150)
    };
    proptest!(config, |(text in nasty())| {
        for page in split(&parts(&text)) {
            runtime.block_on(setup.deliver(post(page))).unwrap();
            // Each post is another operation for Discord.
            setup.discord.shared.change(|state| {
                let sent = state.messages.last_mut().unwrap();
                sent.nonce = None;
            });
            let shown = setup.discord.with_state(|state| state.messages.last().unwrap().shown());
            prop_assert_eq!(shown.people, Vec::<u64>::new());
            prop_assert_eq!(shown.other_mentions, Vec::<String>::new());
            prop_assert_eq!(shown.links, Vec::<String>::new());
        }
    });
    assert_eq!(setup.discord.problems(), Vec::<String>::new());
}

/// T58
#[test]
fn a_text_is_shown_as_it_was_written() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let setup = runtime.block_on(Setup::new());
    for text in [
        "a*b*c _d_ ~~e~~ ||f|| \\g",
        "- no list\n# no heading\n> no quote\n1. no number",
        "https://evil.example/x and discord.gg/abc",
        "@everyone <@7002> <#4> :smile:",
        "(nothing) [to](see)",
    ] {
        runtime.block_on(setup.deliver(post(Reply::text(text)))).unwrap();
        let shown = setup
            .discord
            .with_state(|state| state.messages.last().unwrap().text());
        setup
            .discord
            .shared
            .change(|state| state.messages.last_mut().unwrap().nonce = None);
        assert_eq!(shown, text);
    }
}

/// T77
#[test]
fn messages_joined_again_are_the_reply() {
    let emoji = "👨‍👩‍👧‍👦🇩🇪e\u{301}👍🏽";
    for text in [
        emoji.repeat(400),
        "x".repeat(9_000),
        "a line of words `code` and more\n".repeat(300),
        "*_*".repeat(2_000),
    ] {
        let source = |reply: &Reply| -> String {
            let texts = reply.parts.iter().map(|part| match part {
                ReplyPart::Text { text } | ReplyPart::Code { text, .. } => text.as_str(),
                other => panic!("{other:?}"),
            });
            texts.collect()
        };
        for part in [
            ReplyPart::Text { text: text.clone() },
            ReplyPart::Code {
                language: "yaml".to_owned(),
                text: text.clone(),
            },
        ] {
            let pages = split(&Reply { parts: vec![part] });
            assert!(pages.len() > 1);
            assert_eq!(pages.iter().map(source).collect::<String>(), text);
        }
    }
}

#[tokio::test]
async fn the_first_message_creates_its_thread_and_the_second_uses_it() {
    let setup = Setup::new().await;
    let first = setup
        .deliver(post(Reply::text("one")))
        .await
        .unwrap()
        .message
        .unwrap();
    assert_eq!(first.chat, setup.asked.to_string());
    let mut op = setup.op(post(Reply::text("two")));
    op.id = "inbox-1/result-2".to_owned();
    setup.channel.deliver(&op).await.unwrap();
    let threads = setup.discord.with_state(|state| {
        let calls = state.calls.iter();
        calls
            .filter(|(route, _)| route == "POST channels/messages/threads")
            .count()
    });
    assert_eq!(threads, 1);
    assert_eq!(setup.discord.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_repeated_post_is_the_same_message() {
    let setup = Setup::new().await;
    setup
        .discord
        .fail_next("POST channels/messages", 0, &DiscordFault::ResetAfterEffect);
    let first = setup.deliver(post(Reply::text("one"))).await.unwrap();
    let again = setup.deliver(post(Reply::text("one"))).await.unwrap();
    assert_eq!(first, again);
}

#[tokio::test]
async fn a_lost_post_is_found_by_its_content_once_its_nonce_may_be_forgotten() {
    let setup = Setup::new().await;
    setup.deliver(post(Reply::text("before"))).await.unwrap();
    let mut op = setup.op(post(Reply::text("one")));
    op.id = "inbox-1/result-2".to_owned();
    setup
        .discord
        .fail_next("POST channels/messages", 1, &DiscordFault::ResetAfterEffect);
    let lost = setup.channel.deliver(&op).await;
    assert!(matches!(lost, Err(SendError::Ambiguous(_))), "{lost:?}");
    // At once, a repetition is safe.
    assert_eq!(setup.channel.find(&op, now()).await, Ok(DeliveryLookup::Nothing));
    let earlier = now() - SignedDuration::from_mins(30);
    let found = setup.channel.find(&op, earlier).await.unwrap();
    assert!(matches!(found, DeliveryLookup::Message(_)), "{found:?}");
    let mut other = op.clone();
    other.action = post(Reply::text("two"));
    assert_eq!(
        setup.channel.find(&other, earlier).await,
        Ok(DeliveryLookup::Nothing)
    );
    setup.discord.hide_history();
    assert_eq!(
        setup.channel.find(&op, earlier).await,
        Ok(DeliveryLookup::CannotTell)
    );
}

#[tokio::test]
async fn failures_are_classified_by_whether_they_may_be_retried() {
    let setup = Setup::new().await;
    setup.deliver(post(Reply::text("before"))).await.unwrap();
    let edit = |id: u64| Action::Edit {
        message: MessageRef {
            chat: PLATFORM.to_string(),
            id: id.to_string(),
        },
        reply: Reply::text("x"),
    };
    let limited = |milliseconds| DiscordFault::TooMany {
        milliseconds,
        is_global: true,
    };
    let mut op = setup.op(post(Reply::text("one")));
    op.id = "inbox-2/result".to_owned();
    for (fault, expected) in [
        (DiscordFault::Status(502), "unknown outcome: discord answered 502"),
        (DiscordFault::Reset, "unknown outcome: the connection broke"),
        (limited(1_500), "limited: discord limits the rate of calls"),
    ] {
        setup.discord.fail_next("POST channels/messages", 1, &fault);
        let failed = setup.channel.deliver(&op).await.unwrap_err();
        assert_eq!(failed.to_string(), expected);
        if let SendError::Limited { retry_after, .. } = failed {
            assert_eq!(retry_after, Some(std::time::Duration::from_millis(1_500)));
        }
    }
    setup
        .discord
        .fail_next("PATCH channels/messages", 1, &DiscordFault::Status(502));
    let failed = setup.deliver(edit(1)).await.unwrap_err();
    assert!(matches!(failed, SendError::NotSent { .. }), "{failed:?}");
    let refused = setup.deliver(edit(1)).await.unwrap_err();
    assert_eq!(refused, SendError::Refused("10008 Unknown Message".to_owned()));
    setup.discord.refuse_token();
    let refused = setup.channel.probe().await.unwrap_err();
    assert!(matches!(refused, SendError::Unauthorised(_)), "{refused:?}");
}

#[tokio::test]
async fn no_failure_of_discord_ever_shows_the_token() {
    let setup = Setup::new().await;
    let mut op = setup.op(Action::AnswerClick {
        callback: None,
        to: Sender {
            platform: Platform::Discord,
            account: "1001".to_owned(),
            id: "7003".to_owned(),
        },
        text: "hello".to_owned(),
    });
    op.response_url = Some(ResponseUrl::new(
        "webhooks/1001/canary-of-an-answer".to_owned(),
        now(),
    ));
    let refused = setup.channel.deliver(&op).await.unwrap_err().to_string();
    assert!(!refused.contains("canary"), "{refused}");
    let gone = connect(
        "discord",
        &settings("http://127.0.0.1:1/api/v10"),
        &server(),
        &client(),
    )
    .await;
    let Err(gone) = gone else { panic!("connected") };
    assert!(!gone.to_string().contains("canary"), "{gone}");
}

#[tokio::test]
async fn buttons_reactions_and_files_arrive() {
    let setup = Setup::new().await;
    let label = "long ".repeat(40);
    let buttons = (0..6).map(|n| Button::new(&label, format!("t{n}"), ButtonStyle::Primary));
    let reply = Reply::text("choose").with(ReplyPart::Buttons {
        buttons: buttons.collect(),
    });
    setup.deliver(post(reply)).await.unwrap();
    let shown = setup
        .discord
        .with_state(|state| state.messages.last().unwrap().clone());
    assert_eq!(shown.buttons().len(), 6);
    let message = MessageRef {
        chat: PLATFORM.to_string(),
        id: setup.asked.to_string(),
    };
    for receipt in [
        crate::base::model::Receipt::Queued,
        crate::base::model::Receipt::Started,
    ] {
        let message = message.clone();
        setup.deliver(Action::React { message, receipt }).await.unwrap();
    }
    let mut op = setup.op(Action::Upload {
        file_name: "CHG-1.patch".to_owned(),
        content: Bytes::from_static(b"--- a\n+++ b\n"),
        caption: "the `patch`".to_owned(),
    });
    op.id = "inbox-1/patch".to_owned();
    setup.channel.deliver(&op).await.unwrap();
    setup.discord.with_state(|state| {
        let asked = state
            .messages
            .iter()
            .find(|message| message.id == setup.asked)
            .unwrap();
        assert_eq!(asked.reactions.len(), 1);
        let file = &state.messages.last().unwrap().files;
        assert_eq!(
            file,
            &[("CHG-1.patch".to_owned(), Bytes::from_static(b"--- a\n+++ b\n"))]
        );
    });
    assert_eq!(setup.discord.problems(), Vec::<String>::new());
}
