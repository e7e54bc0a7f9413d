//! Tests of the channel with the emulator: the shown messages, and the effects of connection failures.

mod delivery;
mod faults;
mod polling;
mod rendering;
mod rich;
mod rich_refusals;
mod strictness;
mod webhook;

use super::TelegramEmulator;
use crate::base::config::{ChannelSettings, RichMessages, ServerSettings, TelegramMode, TelegramSettings};
use crate::base::model::{Account, Action, ChatPlace, MessageRef, Op, Platform, Reply, Secret, Sender};
use crate::interfaces::channel::{self, Channel, Delivered, SendError, connect};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const TOKEN: &str = "42:AAsecret-part_of-the-token";
const ALICE: i64 = 7;
const GROUP: i64 = -100;
const SOON: Duration = Duration::from_secs(10);

fn client() -> reqwest::Client {
    // Fails only if another test has already installed the same provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn settings(api_base_url: &str, mode: TelegramMode) -> ChannelSettings {
    ChannelSettings::Telegram(TelegramSettings {
        bot_token: Secret::new(TOKEN.to_owned()),
        mode,
        rich_messages: RichMessages::Auto,
        secret_token: Some(Secret::new("s3cret".to_owned())),
        previous_secret_token: None,
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

/// A channel in polling mode, its emulator, Alice's private chat with one message in it, and a forum.
struct Setup {
    telegram: TelegramEmulator,
    channel: Arc<dyn Channel>,
    asked: MessageRef,
    operations: AtomicU64,
}

impl Setup {
    async fn new() -> Self {
        Self::with(RichMessages::Auto).await
    }

    async fn with(rich_messages: RichMessages) -> Self {
        let telegram = TelegramEmulator::start(TOKEN, client()).await.unwrap();
        let mut settings = settings(&telegram.api_base_url(), TelegramMode::Polling);
        if let ChannelSettings::Telegram(settings) = &mut settings {
            settings.rich_messages = rich_messages;
        }
        let channel = connect("telegram", &settings, &server(), &client())
            .await
            .unwrap();
        telegram.add_group(GROUP, &[55]);
        let message = telegram.say(ALICE, ALICE, "scale web").await.message;
        let asked = reference(ALICE, message);
        Self {
            telegram,
            channel,
            asked,
            operations: AtomicU64::new(1),
        }
    }

    /// Returns a new operation.
    fn operation(&self, place: ChatPlace, action: Action) -> Op {
        let number = self.operations.fetch_add(1, Ordering::Relaxed);
        Op {
            id: format!("turn-{number}/result"),
            channel: "telegram".to_owned(),
            place,
            action,
            response_url: None,
        }
    }

    /// Delivers a new operation: again in a simpler form for each form that Telegram refuses, as the delivery does.
    async fn deliver(&self, place: ChatPlace, action: Action) -> Result<Delivered, SendError> {
        let op = self.operation(place, action);
        let mut delivered = self.channel.deliver(&op).await;
        for _ in 0..4 {
            if !matches!(delivered, Err(SendError::OtherForm(_))) {
                break;
            }
            delivered = self.channel.deliver(&op).await;
        }
        delivered
    }

    async fn post(&self, reply: &Reply) -> Result<Delivered, SendError> {
        let action = Action::Post {
            reply: reply.clone(),
            reply_to: None,
            placeholder: false,
        };
        self.deliver(place(ALICE, None), action).await
    }
}

fn split(reply: &Reply) -> Vec<Reply> {
    let settings = settings("http://127.0.0.1:1", TelegramMode::Polling);
    channel::split(&settings, &server(), reply)
}

fn place(chat: i64, thread: Option<&str>) -> ChatPlace {
    ChatPlace {
        account: Account {
            platform: Platform::Telegram,
            id: "42".to_owned(),
        },
        chat: chat.to_string(),
        thread: thread.map(str::to_owned),
    }
}

fn alice() -> Sender {
    Sender {
        platform: Platform::Telegram,
        account: "42".to_owned(),
        id: ALICE.to_string(),
    }
}

fn reference(chat: i64, message: i64) -> MessageRef {
    MessageRef {
        chat: chat.to_string(),
        id: message.to_string(),
    }
}
