//! Tests of the real channel with the workspace: the shown messages, unwanted notifications, and the meaning of
//! failures; and of the workspace's events with the real webhook.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod code_channels;
mod delivery;
mod events;
mod failures;
mod folds;
mod lookup;
mod plans;
mod rendering;
mod sockets;
mod streams;
mod strictness;
mod views;
mod ephemerals;

use super::{EventOrder, GatewayResponse, Mention, RateLimits, SlackEmulator, SlackFault, SlackOptions};
use crate::base::config::{ChannelSettings, ServerSettings, SlackSettings};
use crate::base::model::{
    Account, Action, Button, ButtonStyle, ChatPlace, FoldState, Inbound, InboundKind, MessageRef, Op,
    Platform, Receipt, Reply, ReplyPart, Secret, Sender,
};
use crate::base::webhook::{Received, Rejected, Webhook};
use crate::interfaces::channel::{self, Channel, SendError};
use crate::simulation::emulator::server::{Closing, serve};
use axum::Router;
use axum::extract::State;
use axum::routing;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
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
    // Another test may have installed the provider already; it is the same one.
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
        signing_secret: Some(Secret::new("shh".to_owned())),
        previous_signing_secret: None,
        app_token: None,
        code_channels: false,
        slash_commands: Vec::new(),
        api_base_url: api_base_url.to_owned(),
        paced: true,
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
        zone: "UTC".to_owned(),
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
        place: ChatPlace {
            account: Account {
                platform: Platform::Slack,
                id: "T0ACME".to_owned(),
            },
            chat: chat.to_owned(),
            thread: thread.map(str::to_owned),
        },
        action,
        response_url: None,
    }
}

fn post(reply: Reply) -> Op {
    op(
        "C0OPS",
        None,
        Action::Post {
            reply,
            reply_to: None,
            placeholder: false,
        },
    )
}

fn posted(text: &str) -> Op {
    post(Reply::text(text))
}

fn message_ref(id: &str) -> MessageRef {
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

fn limited(why: &str, seconds: Option<u64>) -> SendError {
    SendError::Limited {
        why: why.to_owned(),
        retry_after: seconds.map(Duration::from_secs),
    }
}

/// Returns replies with the words in every place for untrusted text.
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
    let mut parts: Vec<ReplyPart> = markdown
        .into_iter()
        .map(|text| ReplyPart::Markdown { text })
        .collect();
    parts.extend([
        ReplyPart::Text { text: owned() },
        ReplyPart::Text {
            text: format!("`{words}`"),
        },
        ReplyPart::Heading { text: owned() },
        ReplyPart::Heading {
            text: format!("*a* {words}"),
        },
        ReplyPart::Footer { text: owned() },
        ReplyPart::Footer {
            text: format!("base `{words}`"),
        },
        ReplyPart::Code {
            language: "diff".to_owned(),
            text: format!("+{words}\n--- a/{words}"),
        },
        ReplyPart::Facts {
            rows: vec![(owned(), owned())],
        },
        ReplyPart::Buttons {
            buttons: vec![button(words)],
        },
    ]);
    let details: Vec<ReplyPart> = parts.iter().rev().skip(1).take(6).cloned().collect();
    for state in [FoldState::Open, FoldState::Closed] {
        parts.push(ReplyPart::Fold {
            title: owned(),
            state,
            parts: details.clone(),
        });
    }
    parts
        .into_iter()
        .map(|part| Reply { parts: vec![part] })
        .collect()
}

/// Returns the kind of a message; for a press without its trigger, which it must have.
fn kind_without_trigger(inbound: &Inbound) -> InboundKind {
    let mut kind = inbound.kind.clone();
    if let InboundKind::Click { trigger, .. } = &mut kind {
        assert!(trigger.take().is_some(), "a press without a trigger");
    }
    kind
}

fn button(label: &str) -> Button {
    Button::new(label, "tok", ButtonStyle::Danger)
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
    assert_eq!(
        refused.err(),
        Some(SendError::Unauthorised("invalid_auth".to_owned()))
    );
}
