//! Containers, the blocks that fold. A workspace that does not know them refuses the message; then their blocks are sent
//! one below the other, under the title, and for a day no container is sent.

use super::client::SlackClient;
use super::connector::RepeatEffect;
use crate::interfaces::channel::SendError;
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The error code of Slack for blocks that it does not take.
const REFUSAL: &str = "invalid_blocks";
/// The time for which a refusal is remembered.
const REMEMBERED: Duration = Duration::from_hours(24);

/// The last refusal of a container by a workspace.
#[derive(Debug, Default)]
pub(super) struct ContainerSupport {
    refused_at: Mutex<Option<Instant>>,
}

impl ContainerSupport {
    /// Returns true if containers were refused within the last day.
    fn is_missing(&self) -> bool {
        let refused_at = self.refused_at.lock().unwrap_or_else(PoisonError::into_inner);
        refused_at.is_some_and(|at| at.elapsed() < REMEMBERED)
    }

    fn remember_refusal(&self) {
        let mut refused_at = self.refused_at.lock().unwrap_or_else(PoisonError::into_inner);
        *refused_at = Some(Instant::now());
    }
}

impl SlackClient {
    /// Calls a method with a message. A workspace that refuses its containers gets it again without them: a refused call
    /// has no effect.
    pub(super) async fn send_message(
        &self,
        method: &str,
        body: &Value,
        effect: RepeatEffect,
    ) -> Result<Value, SendError> {
        let has_containers = blocks(body).iter().any(is_container);
        if has_containers && self.containers.is_missing() {
            return self.call(method, &without_containers(body), effect).await;
        }
        match self.call(method, body, effect).await {
            Err(SendError::Refused(code)) if has_containers && code == REFUSAL => {
                let sent = self.call(method, &without_containers(body), effect).await;
                if sent.is_ok() {
                    self.containers.remember_refusal();
                }
                sent
            }
            sent => sent,
        }
    }
}

/// Returns a message with the titles and the blocks of its containers in their place.
pub(super) fn without_containers(body: &Value) -> Value {
    let mut flat = Vec::new();
    for block in blocks(body) {
        if !is_container(block) {
            flat.push(block.clone());
            continue;
        }
        let title = &block["title"]["text"];
        flat.push(
            json!({"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [
            {"type": "text", "text": title, "style": {"bold": true}}]}]}),
        );
        flat.extend(block["child_blocks"].as_array().into_iter().flatten().cloned());
    }
    let mut body = body.clone();
    if !flat.is_empty() {
        body["blocks"] = Value::Array(flat);
    }
    body
}

fn blocks(body: &Value) -> &[Value] {
    body["blocks"].as_array().map_or(&[], Vec::as_slice)
}

fn is_container(block: &Value) -> bool {
    block["type"] == "container"
}
