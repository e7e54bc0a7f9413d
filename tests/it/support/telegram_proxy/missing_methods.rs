//! The methods that telegram-test-api lacks, as Telegram documents them.

use super::{ProxyCall, ProxyShared, SentDocument, WRITTEN_AT, WebhookTarget};
use bytes::Bytes;
use drydock::simulation::demo::environment::TELEGRAM_BOT_TOKEN as TOKEN;
use serde_json::{Value, json};
use std::io::Error;
use std::time::Duration;
use tokio::time::Instant;

/// The path to which the emulator pushes updates.
pub(super) const PUSH_PATH: &str = "/pushed";
/// The first id of messages with files, which the emulator does not know. It is far above the emulator's own ids.
const FIRST_FILE_MESSAGE: usize = 1_000_000;

/// A result, or the text of a refusal.
pub(super) type SuppliedResult = Result<Value, String>;

impl ProxyShared {
    /// Answers `getUpdates`. The emulator itself returns each update only once, and never waits.
    pub(super) async fn get_updates(&self, parameters: &Value) -> Result<SuppliedResult, Error> {
        let offset = parameters["offset"].as_i64().unwrap_or_default();
        let wait = Duration::from_secs(parameters["timeout"].as_u64().unwrap_or_default());
        let deadline = Instant::now() + wait;
        let mut done = self.done.subscribe();
        loop {
            done.borrow_and_update();
            let path = format!("bot{TOKEN}/getUpdates");
            let taken = self.ask_emulator(&path, &json!({})).await?;
            let updates = {
                let mut state = self.state.lock().unwrap();
                state
                    .updates
                    .extend(taken["result"].as_array().into_iter().flatten().cloned());
                state
                    .updates
                    .retain(|update| update["update_id"].as_i64() >= Some(offset));
                state.updates.clone()
            };
            let waited = tokio::time::timeout_at(deadline, async {
                if updates.is_empty() {
                    // The sender lives as long as this.
                    let _ = done.changed().await;
                }
            });
            if !updates.is_empty() || waited.await.is_err() {
                return Ok(Ok(json!(updates)));
            }
        }
    }

    /// Sets a reaction. A bot may set one, on an existing message.
    pub(super) async fn set_reaction(&self, parameters: &Value) -> Result<SuppliedResult, Error> {
        let history = self
            .ask_emulator("getUpdatesHistory", &json!({"token": TOKEN}))
            .await?;
        let message = &parameters["message_id"];
        let mut entries = history["result"].as_array().into_iter().flatten();
        let is_there = entries.any(|entry| entry["messageId"] == *message);
        let reactions = parameters["reaction"].as_array().map(Vec::len);
        Ok(match (is_there, reactions) {
            (true, Some(0 | 1)) => Ok(json!(true)),
            (false, _) => Err("Bad Request: message to react not found".to_owned()),
            (true, _) => Err("Bad Request: REACTIONS_TOO_MANY".to_owned()),
        })
    }

    pub(super) fn send_document(&self, call: &ProxyCall) -> SuppliedResult {
        let wrong = || "Bad Request: there is no document in the request".to_owned();
        let parts = form(&call.content_type, &call.body).ok_or_else(wrong)?;
        let part = |name: &str| parts.iter().find(|part| part.name == name).ok_or_else(wrong);
        let chat = part("chat_id")?.content.parse().map_err(|_| wrong())?;
        let file = part("document")?;
        let mut state = self.state.lock().unwrap();
        state.documents.push(SentDocument {
            chat,
            name: file.file_name.clone(),
            content: file.content.clone(),
        });
        let message = FIRST_FILE_MESSAGE + state.documents.len();
        Ok(
            json!({"message_id": message, "date": WRITTEN_AT, "chat": {"id": chat, "type": "private"},
            "document": {"file_id": format!("file-{message}"), "file_name": file.file_name}}),
        )
    }

    /// Sets the webhook. The emulator pushes to the proxy, because it supports no secret tokens and connects to
    /// loopback only.
    pub(super) async fn set_webhook(&self, parameters: &Value) -> Result<SuppliedResult, Error> {
        let url = parameters["url"].as_str().unwrap_or_default();
        let secret = parameters["secret_token"].as_str().unwrap_or_default();
        let Some((_, path)) = url.strip_prefix("https://").and_then(|rest| rest.split_once('/')) else {
            let why = "Bad Request: bad webhook: An HTTPS URL must be provided for webhook";
            return Ok(Err(why.to_owned()));
        };
        self.state.lock().unwrap().webhook = Some(WebhookTarget {
            path: format!("/{path}"),
            secret: secret.to_owned(),
        });
        let here = json!({"url": format!("{}{PUSH_PATH}", self.address)});
        self.ask_emulator(&format!("bot{TOKEN}/setWebhook"), &here)
            .await?;
        Ok(Ok(json!(true)))
    }

    /// Forwards an update with the secret token in its header.
    pub(super) async fn forward_push(&self, body: Bytes) {
        let (webhook, gateway) = {
            let state = self.state.lock().unwrap();
            (state.webhook.clone(), state.gateway.clone())
        };
        if let Some(webhook) = webhook {
            let request = self
                .http
                .post(format!("{gateway}{}", webhook.path))
                .header("content-type", "application/json")
                .header("x-telegram-bot-api-secret-token", webhook.secret)
                .body(body);
            let status = request.send().await.map_or(0, |answer| answer.status().as_u16());
            self.state.lock().unwrap().pushes.push(status);
        }
    }
}

/// Sets the commands: a hundred at most, of up to 32 lower case letters, digits and underscores, with a description of
/// up to 256 characters: <https://core.telegram.org/bots/api#botcommand>.
pub(super) fn set_commands(parameters: &Value) -> SuppliedResult {
    let commands = parameters["commands"].as_array().map(Vec::as_slice);
    let is_right = |command: &Value| {
        let name = command["command"].as_str().unwrap_or_default();
        let description = command["description"].as_str().unwrap_or_default();
        (1..=32).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            && (1..=256).contains(&description.chars().count())
    };
    match commands {
        Some(commands) if commands.len() <= 100 && commands.iter().all(is_right) => Ok(json!(true)),
        _ => Err("Bad Request: BOT_COMMAND_INVALID".to_owned()),
    }
}

struct Part {
    name: String,
    file_name: String,
    content: String,
}

/// Returns the parts of a form, or `None` if the body is not a form.
fn form(content_type: &str, body: &Bytes) -> Option<Vec<Part>> {
    let boundary = content_type.strip_prefix("multipart/form-data; boundary=")?;
    let text = std::str::from_utf8(body).ok()?;
    let text = text.strip_suffix(&format!("\r\n--{boundary}--\r\n"))?;
    let parts = text.strip_prefix(&format!("--{boundary}\r\n"))?;
    let quoted = |head: &str, before: &str| {
        let (_, rest) = head.split_once(before)?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let part = |part: &str| {
        let (head, content) = part.split_once("\r\n\r\n")?;
        Some(Part {
            name: quoted(head, "; name=\"")?,
            file_name: quoted(head, "; filename=\"").unwrap_or_default(),
            content: content.to_owned(),
        })
    };
    parts.split(&format!("\r\n--{boundary}\r\n")).map(part).collect()
}
