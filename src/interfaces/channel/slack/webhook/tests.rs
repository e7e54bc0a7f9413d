//! Tests of genuine and forged Slack requests.
#![allow(clippy::unwrap_used, clippy::panic)]

mod decoding;
mod signatures;

use super::{Received, Rejected, Webhook, webhook};
use crate::base::config::SlackSettings;
use crate::base::model::{
    Account, ChatPlace, Inbound, InboundKind, Installation, MessageRef, Platform, Secret, Sender,
};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::Request;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::Sha256;
use std::sync::Arc;

const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
const AT: i64 = 1_531_420_618;
const DOCUMENTED_BODY: &str = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
const DOCUMENTED_SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";

fn slack() -> Arc<dyn Webhook> {
    slack_named("ops")
}

fn slack_named(name: &str) -> Arc<dyn Webhook> {
    let secret = |text: &str| Secret::new(text.to_owned());
    let settings = SlackSettings {
        bot_token: secret("xoxb-1"),
        signing_secret: Some(secret(SECRET)),
        previous_signing_secret: None,
        app_token: None,
        code_channels: false,
        slash_commands: Vec::new(),
        api_base_url: String::new(),
        paced: true,
        repository: None,
    };
    let installation = Installation {
        account: Account {
            platform: Platform::Slack,
            id: "T0ACME".to_owned(),
        },
        bot_id: "UBOT".to_owned(),
        bot_name: "drydock".to_owned(),
    };
    webhook(name, &settings, &installation).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn sign(secret: &str, seconds: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("v0:{seconds}:").as_bytes());
    mac.update(body);
    format!("v0={}", hex::encode(mac.finalize().into_bytes()))
}

fn request(headers: &[(&str, &[u8])], body: &[u8]) -> Request<Bytes> {
    let mut builder = Request::post("/in/slack");
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Bytes::copy_from_slice(body)).unwrap()
}

fn signed(content_type: &str, body: &[u8]) -> Request<Bytes> {
    let seconds = AT.to_string();
    let signature = sign(SECRET, &seconds, body);
    request(
        &[
            ("x-slack-request-timestamp", seconds.as_bytes()),
            ("x-slack-signature", signature.as_bytes()),
            ("content-type", content_type.as_bytes()),
            ("x-slack-retry-num", b"1"),
        ],
        body,
    )
}

fn receive_json(body: &Value) -> Result<Received, Rejected> {
    slack().receive(&signed("application/json", body.to_string().as_bytes()), at(AT))
}

fn receive_form(fields: &[(&str, &str)]) -> Result<Received, Rejected> {
    let body = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish();
    slack().receive(
        &signed("application/x-www-form-urlencoded", body.as_bytes()),
        at(AT),
    )
}

fn envelope(event: Value) -> Value {
    json!({"type": "event_callback", "team_id": "T0ACME", "api_app_id": "A1", "event_id": "Ev1",
        "authorizations": [{"team_id": "T0ACME", "user_id": "UBOT", "is_bot": true}], "event": event})
}

fn mention() -> Value {
    json!({"type": "app_mention", "user": "UALICE", "team": "T0ACME", "channel": "C1",
        "ts": "1795293800.000300", "client_msg_id": "c-1", "text": "<@UBOT> scale web"})
}

fn with(mut event: Value, name: &str, value: Value) -> Value {
    event[name] = value;
    event
}

fn inbound_of(event: Value) -> Inbound {
    match receive_json(&envelope(event)) {
        Ok(Received::Inbound(inbound)) => *inbound,
        other => panic!("{other:?}"),
    }
}

fn kind_of(event: Value) -> InboundKind {
    inbound_of(event).kind
}

fn unauthenticated(result: &Result<Received, Rejected>) -> bool {
    matches!(result, Err(Rejected::Unauthenticated(_)))
}
