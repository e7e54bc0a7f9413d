//! Slack's signed requests: events, slash commands and button presses on one address, distinguished by their content
//! type. The signature over the raw bytes is verified before anything is decoded. This module makes no decisions
//! about permissions.

mod delivery_time;
mod event;
mod form;
mod text;

use delivery_time::DeliveryTime;

use crate::base::config::SlackSettings;
use crate::base::model::{Account, ChatPlace, Inbound, InboundKind, Installation, Platform, Secret, Sender};
use crate::base::webhook::{
    Received, Rejected, Webhook, refuse_other_schemes, require_fresh, single_header, verify_hex_hmac_sha256,
};
use bytes::Bytes;
use http::{HeaderMap, Request, header};
use jiff::Timestamp;
use serde_json::Value;
use std::sync::Arc;

const SIGNATURE: &str = Platform::Slack.signature_header();
const TIMESTAMP: &str = "x-slack-request-timestamp";

/// Returns the webhook of a channel; `None` if it receives over Socket Mode alone.
pub(super) fn webhook(
    name: &str,
    settings: &SlackSettings,
    installation: &Installation,
) -> Option<Arc<dyn Webhook>> {
    Some(Arc::new(SlackWebhook {
        signing_secret: settings.signing_secret.clone()?,
        installation: SlackInstallation::new(name, installation, &settings.slash_commands),
    }))
}

/// Decodes the payload of an envelope of Socket Mode of this type, which has the content of a request.
pub(super) fn decode_payload(
    kind: &str,
    payload: &Value,
    installed: &SlackInstallation,
    at: Timestamp,
) -> Result<Received, Rejected> {
    match kind {
        "events_api" => event::decode_json(payload, installed, DeliveryTime::over_socket(at)),
        "interactive" => form::interaction(payload, installed),
        "slash_commands" => {
            form::slash_command(|name| payload.get(name).and_then(Value::as_str), installed, at)
        }
        _ => Ok(Received::Ignored("unknown type of envelope")),
    }
}

struct SlackWebhook {
    signing_secret: Secret,
    installation: SlackInstallation,
}

/// The identity of this installation, which decoding compares with.
pub(super) struct SlackInstallation {
    pub(super) channel: String,
    account: Account,
    bot: String,
    /// The commands that start pipelines.
    commands: Vec<String>,
}

impl SlackInstallation {
    pub(super) fn new(name: &str, installation: &Installation, commands: &[String]) -> Self {
        Self {
            channel: name.to_owned(),
            account: installation.account.clone(),
            bot: installation.bot_id.clone(),
            commands: commands.to_vec(),
        }
    }

    /// Returns what a person did in a chat, outside of threads. A delivery of the same name is the same request.
    fn inbound(&self, name: &str, (team, user): (&str, &str), chat: &str, kind: InboundKind) -> Inbound {
        Inbound {
            channel: self.channel.clone(),
            delivery: vec![format!("slack:{}:{name}", self.channel)],
            sender: Sender {
                platform: Platform::Slack,
                account: team.to_owned(),
                id: user.to_owned(),
            },
            place: ChatPlace {
                account: self.account.clone(),
                chat: chat.to_owned(),
                thread: None,
            },
            direct: is_direct_id(chat),
            message: None,
            kind,
            files: Vec::new(),
            about: None,
            response_url: None,
        }
    }
}

impl Webhook for SlackWebhook {
    fn receive(&self, request: &Request<Bytes>, at: Timestamp) -> Result<Received, Rejected> {
        let headers = request.headers();
        // The signature is checked first, so that a sender without the secret gets the same answer as for an unknown
        // name.
        self.verify(headers, request.body(), at)?;
        if headers.contains_key(header::CONTENT_ENCODING) {
            return Err(Rejected::Unsupported("encoded bodies are not accepted"));
        }
        match content_type(headers).as_deref() {
            Some("application/json") => {
                let time = DeliveryTime::of_request(headers, at);
                event::decode(request.body(), &self.installation, time)
            }
            Some("application/x-www-form-urlencoded") => form::decode(request.body(), &self.installation, at),
            Some(_) | None => Err(Rejected::Unsupported("neither JSON nor a form")),
        }
    }
}

impl SlackWebhook {
    fn verify(&self, headers: &HeaderMap, body: &[u8], at: Timestamp) -> Result<(), Rejected> {
        refuse_other_schemes(headers, &[SIGNATURE])?;
        let sent = single_header(headers, TIMESTAMP)?;
        let hex = single_header(headers, SIGNATURE)?
            .strip_prefix("v0=")
            .ok_or(Rejected::Unauthenticated("the signature is not of version 0"))?;
        let parts: [&[u8]; 4] = [b"v0:", sent.as_bytes(), b":", body];
        if !verify_hex_hmac_sha256(&[&self.signing_secret], &parts, hex) {
            return Err(Rejected::Unauthenticated("hook.forged"));
        }
        // The time is checked after the signature, so that the audit log can distinguish a replay from a forgery.
        require_fresh(sent, at)
    }
}

fn content_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next().unwrap_or_default();
    Some(essence.trim().to_ascii_lowercase())
}

/// Returns the text at a path such as `/event/user`; `None` if it is missing, empty or not a text.
pub(super) fn text_at<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    // `Value::pointer` would allocate two strings for each name to undo escapes that our names do not have.
    path.split('/')
        .skip(1)
        .try_fold(value, |value, name| value.get(name))
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// Returns true for the id of a one-to-one chat. Used for payloads without the kind of the chat.
fn is_direct_id(channel: &str) -> bool {
    channel.starts_with('D')
}

#[cfg(test)]
mod tests;
