//! Tests that every kind of channel accepts the previous secret of its requests beside the current one, and only while it
//! is configured.

use crate::base::config::{
    ChannelSettings, DiscordSettings, RichMessages, SlackSettings, TelegramMode, TelegramSettings,
};
use crate::base::model::{Account, Installation, Platform, Secret};
use crate::base::webhook::{Received, Rejected, SecretPairs, Webhook};
use crate::interfaces::channel::{unconnected_webhook, webhook};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::Request;
use jiff::Timestamp;
use ring::signature::{Ed25519KeyPair, KeyPair};
use sha2::Sha256;
use std::sync::Arc;

const AT: i64 = 1_795_293_600;
const SLACK_BODY: &str = r#"{"type":"url_verification","challenge":"c"}"#;
const DISCORD_BODY: &str = r#"{"id":"1","application_id":"1001","type":1,"token":"t","version":1}"#;

/// A secret by its number, of which 1 is the current one and 0 the previous one.
type SecretNumber = u8;

/// A kind of channel with its previous secret, if any, and its request that is signed with a secret.
struct SignedKind {
    settings: fn(previous: Option<SecretNumber>) -> ChannelSettings,
    headers: fn(secret: SecretNumber) -> Vec<(&'static str, String)>,
    body: &'static str,
}

const KINDS: [SignedKind; 3] = [
    SignedKind {
        settings: |previous| {
            ChannelSettings::Slack(SlackSettings {
                bot_token: secret(9),
                signing_secret: Some(secret(1)),
                previous_signing_secret: previous.map(secret),
                app_token: None,
                code_channels: false,
                slash_commands: Vec::new(),
                api_base_url: String::new(),
                paced: true,
                repository: None,
            })
        },
        headers: |number| {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret(number).expose().as_bytes()).unwrap();
            mac.update(format!("v0:{AT}:{SLACK_BODY}").as_bytes());
            let signature = hex::encode(mac.finalize().into_bytes());
            vec![
                ("x-slack-signature", format!("v0={signature}")),
                ("x-slack-request-timestamp", AT.to_string()),
            ]
        },
        body: SLACK_BODY,
    },
    SignedKind {
        settings: |previous| {
            ChannelSettings::Telegram(TelegramSettings {
                bot_token: secret(9),
                mode: TelegramMode::Webhook,
                rich_messages: RichMessages::Auto,
                secret_token: Some(secret(1)),
                previous_secret_token: previous.map(secret),
                api_base_url: String::new(),
                paced: true,
                repository: None,
            })
        },
        headers: |number| {
            vec![(
                "x-telegram-bot-api-secret-token",
                secret(number).expose().to_owned(),
            )]
        },
        body: r#"{"update_id":1,"edited_message":{}}"#,
    },
    SignedKind {
        settings: |previous| {
            ChannelSettings::Discord(DiscordSettings {
                bot_token: secret(9),
                public_key: Some(public_key(1)),
                previous_public_key: previous.map(public_key),
                api_base_url: String::new(),
                paced: true,
                repository: None,
            })
        },
        headers: |number| {
            let signature = key_pair(number).sign(format!("{AT}{DISCORD_BODY}").as_bytes());
            vec![
                ("x-signature-ed25519", hex::encode(signature)),
                ("x-signature-timestamp", AT.to_string()),
            ]
        },
        body: DISCORD_BODY,
    },
];

fn secret(number: SecretNumber) -> Secret {
    Secret::new(format!("canary-secret-{number}"))
}

fn key_pair(number: SecretNumber) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[number; 32]).unwrap()
}

fn public_key(number: SecretNumber) -> [u8; 32] {
    key_pair(number).public_key().as_ref().try_into().unwrap()
}

fn connected(settings: &ChannelSettings) -> Arc<dyn Webhook> {
    let installation = Installation {
        account: Account {
            platform: settings.common().platform(),
            id: "1001".to_owned(),
        },
        bot_id: "UBOT".to_owned(),
        bot_name: "drydock".to_owned(),
    };
    webhook("team", settings, &installation, &SecretPairs::default()).unwrap()
}

fn unconnected(settings: &ChannelSettings) -> Arc<dyn Webhook> {
    unconnected_webhook("team", settings, &SecretPairs::default()).unwrap()
}

fn receive(
    webhook: &Arc<dyn Webhook>,
    headers: &[(&'static str, String)],
    body: &'static str,
) -> Result<Received, Rejected> {
    let mut request = Request::post("/in/team").header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let request = request.body(Bytes::from_static(body.as_bytes())).unwrap();
    webhook.receive(&request, Timestamp::from_second(AT).unwrap())
}

fn is_refused(received: &Result<Received, Rejected>) -> bool {
    matches!(received, Err(Rejected::Unauthenticated(_)))
}

/// T22
#[test]
fn the_previous_secret_of_a_channel_is_accepted_beside_the_current_one_until_it_is_removed() {
    for kind in &KINDS {
        let (pair, single) = ((kind.settings)(Some(0)), (kind.settings)(None));
        let platform = pair.common().platform();
        let of_pair = [connected(&pair), unconnected(&pair)];
        let of_one = [connected(&single), unconnected(&single)];
        for (webhooks, number, expected) in [
            (&of_pair, 1, false),
            (&of_pair, 0, false),
            (&of_pair, 2, true),
            (&of_one, 1, false),
            (&of_one, 0, true),
        ] {
            for webhook in webhooks {
                let received = receive(webhook, &(kind.headers)(number), kind.body);
                assert_eq!(
                    is_refused(&received),
                    expected,
                    "{platform:?} {number} {received:?}"
                );
            }
        }
        // Both secrets give the same result.
        let [current, previous] =
            [1, 0].map(|number| receive(&of_pair[0], &(kind.headers)(number), kind.body));
        assert_eq!(current, previous, "{platform:?}");
    }
}

/// T22
#[test]
fn a_channel_with_two_secrets_refuses_a_request_that_is_signed_with_both() {
    for kind in &KINDS {
        let pair = connected(&(kind.settings)(Some(0)));
        for numbers in [[0, 1], [1, 0]] {
            let [mut headers, other] = numbers.map(kind.headers);
            headers.extend(other.into_iter().take(1));
            let received = receive(&pair, &headers, kind.body);
            assert!(is_refused(&received), "{received:?}");
        }
        let mut headers = (kind.headers)(0);
        let foreign = Platform::chats()
            .map(|chat| chat.signature_header)
            .find(|header| !header.is_empty() && *header != headers[0].0)
            .unwrap();
        headers.push((foreign, "v0=00".to_owned()));
        let mixed = Err(Rejected::Unauthenticated("hook.mixed"));
        assert_eq!(receive(&pair, &headers, kind.body), mixed);
    }
}
