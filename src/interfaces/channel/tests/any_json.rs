//! A property test: any signed request is received, ignored or refused; no content stops the server.

use crate::base::config::{
    ChannelSettings, DiscordSettings, Grants, HookChange, HookScheme, HookSettings, PostTo, RichMessages,
    SlackSettings, TelegramMode, TelegramSettings,
};
use crate::base::model::{Account, Installation, Platform, Role, Secret};
use crate::base::webhook::{Rejected, SecretPairs, Webhook, hook_webhook};
use crate::interfaces::channel::webhook as channel_webhook;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::Request;
use jiff::Timestamp;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_oneof, proptest};
use proptest::sample::Index;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::sync::Arc;

const SECRET: &str = "shared";
const AT: i64 = 1_795_293_600;

/// Generates any JSON. Its strings and names include the words that decoders look for.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        any::<String>(),
        prop_oneof![
            Just("message"),
            Just("app_mention"),
            Just("event_callback"),
            Just("im"),
            Just("<@UBOT> <!here> <https://a.example|b>"),
            Just("/start@drydock_bot x"),
            Just("private"),
            Just("block_actions"),
            Just("1795293600.000100"),
        ]
        .prop_map(str::to_owned),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(word.clone(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Returns the value with up to three of its parts replaced.
fn mutated(base: Value) -> impl Strategy<Value = Value> {
    let changes = proptest::collection::vec((any::<Index>(), any_json()), 0..4);
    changes.prop_map(move |changes| {
        let mut value = base.clone();
        for (index, replacement) in changes {
            let pointers = pointers(&value, "");
            if let Some(part) = value.pointer_mut(&pointers[index.index(pointers.len())]) {
                *part = replacement;
            }
        }
        value
    })
}

/// Returns the pointers to every part of a value, beginning with the whole value.
fn pointers(value: &Value, at: &str) -> Vec<String> {
    let mut found = vec![at.to_owned()];
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                found.extend(pointers(inner, &format!("{at}/{name}")));
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                found.extend(pointers(inner, &format!("{at}/{index}")));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    found
}

fn installation(platform: Platform) -> Installation {
    let account = Account {
        platform,
        id: "T0ACME".to_owned(),
    };
    Installation {
        account,
        bot_id: "UBOT".to_owned(),
        bot_name: "drydock_bot".to_owned(),
    }
}

fn secret() -> Secret {
    Secret::new(SECRET.to_owned())
}

fn slack() -> Arc<dyn Webhook> {
    let settings = ChannelSettings::Slack(SlackSettings {
        bot_token: secret(),
        signing_secret: Some(secret()),
        previous_signing_secret: None,
        app_token: None,
        code_channels: false,
        slash_commands: Vec::new(),
        api_base_url: String::new(),
        paced: true,
        repository: None,
    });
    channel_webhook(
        "team",
        &settings,
        &installation(Platform::Slack),
        &SecretPairs::default(),
    )
    .unwrap()
}

fn telegram() -> Arc<dyn Webhook> {
    let settings = ChannelSettings::Telegram(TelegramSettings {
        bot_token: secret(),
        mode: TelegramMode::Webhook,
        rich_messages: RichMessages::Auto,
        secret_token: Some(secret()),
        previous_secret_token: None,
        api_base_url: String::new(),
        paced: true,
        repository: None,
    });
    channel_webhook(
        "phone",
        &settings,
        &installation(Platform::Telegram),
        &SecretPairs::default(),
    )
    .unwrap()
}

fn discord() -> Arc<dyn Webhook> {
    let key = Ed25519KeyPair::from_seed_unchecked(&[9; 32]).unwrap();
    let settings = ChannelSettings::Discord(DiscordSettings {
        bot_token: secret(),
        public_key: Some(key.public_key().as_ref().try_into().unwrap()),
        previous_public_key: None,
        api_base_url: String::new(),
        paced: true,
        repository: None,
    });
    channel_webhook(
        "guild",
        &settings,
        &installation(Platform::Discord),
        &SecretPairs::default(),
    )
    .unwrap()
}

fn hook(scheme: HookScheme) -> Arc<dyn Webhook> {
    let settings = HookSettings {
        scheme,
        secret: secret(),
        previous_secret: None,
        events: Vec::new(),
        sources: Vec::new(),
        repository: "infra".to_owned(),
        prompt: "hooks/release.md".to_owned(),
        fields: BTreeMap::from([("tag".to_owned(), "/release/tag_name".to_owned())]),
        starts_pipelines: false,
        change: HookChange::New,
        comments: None,
        post_to: PostTo {
            channel: "team".to_owned(),
            chat: "C0OPS".to_owned(),
        },
        grants: Grants {
            role: Role::Editor,
            environments: Vec::new(),
        },
    };
    hook_webhook("release", &settings, &SecretPairs::default())
}

fn hmac(parts: &[&[u8]]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    for part in parts {
        mac.update(part);
    }
    hex::encode(mac.finalize().into_bytes())
}

/// Returns true if the signature of the body was accepted.
fn is_authentic(webhook: &Arc<dyn Webhook>, headers: &[(&str, &str)], body: &str) -> bool {
    let mut request = Request::post("/in/any");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Bytes::copy_from_slice(body.as_bytes())).unwrap();
    let received = webhook.receive(&request, Timestamp::from_second(AT).unwrap());
    !matches!(received, Err(Rejected::Unauthenticated(_)))
}

fn as_slack(content_type: &str, body: &str) -> bool {
    let seconds = AT.to_string();
    let signature = hmac(&[b"v0:", seconds.as_bytes(), b":", body.as_bytes()]);
    let headers = [
        ("x-slack-request-timestamp", seconds.as_str()),
        ("x-slack-signature", &format!("v0={signature}")),
        ("content-type", content_type),
    ];
    is_authentic(&slack(), &headers, body)
}

fn as_discord(body: &str) -> bool {
    let seconds = AT.to_string();
    let key = Ed25519KeyPair::from_seed_unchecked(&[9; 32]).unwrap();
    let signature = hex::encode(key.sign(format!("{seconds}{body}").as_bytes()));
    let headers = [
        ("x-signature-ed25519", signature.as_str()),
        ("x-signature-timestamp", &seconds),
        ("content-type", "application/json"),
    ];
    is_authentic(&discord(), &headers, body)
}

fn discord_press() -> Value {
    json!({
        "type": 3, "id": "9", "application_id": "1001", "token": "t-1", "guild_id": "900", "channel_id": "501",
        "channel": {"id": "501", "type": 11, "parent_id": "500"}, "data": {"custom_id": "token", "component_type": 2},
        "member": {"user": {"id": "7"}}, "message": {"id": "8", "flags": 64},
    })
}

fn slack_event() -> Value {
    json!({
        "type": "event_callback", "event_id": "Ev1", "team_id": "T0ACME",
        "authorizations": [{"team_id": "T0ACME", "user_id": "UBOT"}],
        "event": {"type": "app_mention", "user": "U0ALICE", "team": "T0ACME", "channel": "C1",
            "channel_type": "channel", "ts": "1795293800.000300", "thread_ts": "1795293700.000100",
            "client_msg_id": "c-1", "text": "<@UBOT> scale <https://a.example|web> &amp; api",
            "files": [{"id": "F1"}], "attachments": [{"text": "forwarded"}],
            "blocks": [{"type": "rich_text", "elements": [{"type": "rich_text_section",
                "elements": [{"type": "user", "user_id": "UBOT"}, {"type": "text", "text": " scale"}]}]}]},
    })
}

fn slack_press() -> Value {
    json!({
        "type": "block_actions", "trigger_id": "9.9", "team": {"id": "T0ACME"},
        "user": {"id": "U0ALICE", "team_id": "T0ACME"}, "channel": {"id": "C1"},
        "container": {"message_ts": "1.2", "thread_ts": "1.1", "is_ephemeral": false},
        "actions": [{"action_id": "dd.1", "action_ts": "3.3", "value": "token"}],
    })
}

fn telegram_update() -> Value {
    json!({
        "update_id": 9,
        "message": {"message_id": 101, "date": 1, "message_thread_id": 5, "is_topic_message": true,
            "chat": {"id": -100, "type": "supergroup"},
            "from": {"id": 7, "is_bot": false, "first_name": "Alice", "username": "alice"},
            "text": "@drydock_bot /status äö", "quote": {"text": "q"},
            "entities": [{"type": "mention", "offset": 0, "length": 12}, {"type": "bot_command", "offset": 13, "length": 7}],
            "reply_to_message": {"message_id": 100, "date": 1, "chat": {"id": -100, "type": "supergroup"},
                "from": {"id": 42, "is_bot": true, "first_name": "Drydock"}, "text": "before"}},
        "callback_query": {"id": "c", "data": "token", "chat_instance": "i",
            "from": {"id": 7, "is_bot": false, "first_name": "Alice"},
            "message": {"message_id": 3, "date": 1, "chat": {"id": 7, "type": "private"}}},
    })
}

fn release() -> Value {
    json!({"action": "published", "repository": {"full_name": "acme/web"}, "release": {"tag_name": "v1.2.3"}})
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn any_slack_event_is_decided(event in mutated(slack_event())) {
        prop_assert!(as_slack("application/json", &event.to_string()));
    }

    #[test]
    fn any_slack_form_is_decided(press in mutated(slack_press()), words in any::<[String; 4]>()) {
        let [team, user, chat, text] = words;
        let payload = press.to_string();
        let fields = [("payload", payload.as_str())];
        let command = [
            ("command", "/drydock"), ("team_id", team.as_str()), ("user_id", &user),
            ("channel_id", &chat), ("trigger_id", "1.2.3"), ("text", &text),
        ];
        for fields in [&fields[..], &command[..]] {
            let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
            prop_assert!(as_slack("application/x-www-form-urlencoded", &body));
        }
    }

    #[test]
    fn any_telegram_update_is_decided(update in mutated(telegram_update())) {
        let headers = [("x-telegram-bot-api-secret-token", SECRET), ("content-type", "application/json")];
        prop_assert!(is_authentic(&telegram(), &headers, &update.to_string()));
    }

    #[test]
    fn any_discord_interaction_is_decided(press in mutated(discord_press())) {
        prop_assert!(as_discord(&press.to_string()));
    }

    #[test]
    fn any_github_event_is_decided(event in mutated(release()), name in "[a-z_]{0,12}") {
        let body = event.to_string();
        let signature = format!("sha256={}", hmac(&[body.as_bytes()]));
        let headers = [
            ("x-hub-signature-256", signature.as_str()), ("x-github-event", &name),
            ("x-github-delivery", "d-1"), ("content-type", "application/json"),
        ];
        prop_assert!(is_authentic(&hook(HookScheme::Github), &headers, &body));
    }

    #[test]
    fn any_generic_event_is_decided(event in mutated(release())) {
        let body = event.to_string();
        let signature = hmac(&[body.as_bytes()]);
        let headers = [("x-webhook-signature", signature.as_str()), ("content-type", "application/json")];
        prop_assert!(is_authentic(&hook(HookScheme::GenericBody), &headers, &body));
    }
}
