//! Containers, the blocks that fold. A workspace that does not know them refuses the message; then their blocks are sent
//! one below the other, under the title, and for a day no container is sent.

use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The error code of Slack for blocks that it does not take.
const REFUSAL: &str = "invalid_blocks";
/// The time for which a refusal is remembered.
const REMEMBERED: Duration = Duration::from_hours(24);

/// Whether a workspace takes containers.
#[derive(Debug, Default)]
pub(super) struct ContainerSupport {
    refused_at: Mutex<Option<Instant>>,
}

impl ContainerSupport {
    /// Returns true if containers were refused within the last day.
    pub(super) fn is_missing(&self) -> bool {
        let refused_at = self.refused_at.lock().unwrap_or_else(PoisonError::into_inner);
        refused_at.is_some_and(|at| at.elapsed() < REMEMBERED)
    }

    /// Remembers that a message was taken without its containers.
    pub(super) fn remember_refusal(&self) {
        let mut refused_at = self.refused_at.lock().unwrap_or_else(PoisonError::into_inner);
        *refused_at = Some(Instant::now());
    }
}

/// Returns true if Slack may have refused a message because of its containers.
pub(super) fn may_be_refused(body: &Value, code: &str) -> bool {
    code == REFUSAL && blocks(body).iter().any(is_container)
}

/// Replaces the containers of a message by their titles and blocks.
pub(super) fn flatten(body: &mut Value) {
    let mut flat = Vec::new();
    for block in blocks(body) {
        if !is_container(block) {
            flat.push(block.clone());
            continue;
        }
        let title = &block["title"]["text"];
        flat.push(json!({"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [
            {"type": "text", "text": title, "style": {"bold": true}}]}]}));
        flat.extend(block["child_blocks"].as_array().into_iter().flatten().cloned());
    }
    if !flat.is_empty() {
        body["blocks"] = Value::Array(flat);
    }
}

fn blocks(body: &Value) -> &[Value] {
    body["blocks"].as_array().map_or(&[], Vec::as_slice)
}

fn is_container(block: &Value) -> bool {
    block["type"] == "container"
}
