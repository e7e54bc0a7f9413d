//! Blocks that a workspace may not know: containers, which fold, and plans. Such a workspace refuses the message; then
//! it gets their content in other blocks, and for a day no such block is sent.

use super::client::SlackClient;
use super::connector::RepeatEffect;
use super::plan;
use crate::interfaces::channel::SendError;
use crate::interfaces::channel::refusal::RememberedRefusal;
use serde_json::{Value, json};

/// The error code of Slack for blocks that it does not take.
const REFUSAL: &str = "invalid_blocks";
/// The types of the blocks.
const KINDS: [&str; 2] = [CONTAINER, plan::KIND];
const CONTAINER: &str = "container";

/// The last refusal of each type by a workspace, in the order of [`KINDS`].
#[derive(Debug, Default)]
pub(super) struct BlockSupport {
    refused: [RememberedRefusal; KINDS.len()],
}

impl BlockSupport {
    fn kinds(&self) -> impl Iterator<Item = (&'static str, &RememberedRefusal)> {
        KINDS.into_iter().zip(&self.refused)
    }
}

impl SlackClient {
    /// Calls a method with a message. A workspace that refuses its containers or plans gets it again without them: a
    /// refused call has no effect.
    pub(super) async fn send_message(
        &self,
        method: &str,
        body: &Value,
        effect: RepeatEffect,
    ) -> Result<Value, SendError> {
        let missing = self.blocks.kinds().filter(|(_, refused)| refused.is_recent());
        let missing: Vec<&str> = missing.map(|(kind, _)| kind).collect();
        let body = without(&missing, body);
        let is_sent = |kind: &str| blocks(&body).iter().any(|block| block["type"] == kind);
        let optional: Vec<_> = self.blocks.kinds().filter(|(kind, _)| is_sent(kind)).collect();
        match self.call(method, &body, effect).await {
            Err(SendError::Refused(code)) if !optional.is_empty() && code == REFUSAL => {
                let sent = self.call(method, &without_optional(&body), effect).await;
                if sent.is_ok() {
                    optional.iter().for_each(|(_, refused)| refused.remember());
                }
                sent
            }
            sent => sent,
        }
    }
}

/// Returns a message with the content of its containers and plans in their place.
pub(super) fn without_optional(body: &Value) -> Value {
    without(&KINDS, body)
}

/// Returns a message with the content of blocks of these types in their place.
fn without(kinds: &[&str], body: &Value) -> Value {
    let mut flat = Vec::new();
    for block in blocks(body) {
        match block["type"].as_str().filter(|kind| kinds.contains(kind)) {
            Some(CONTAINER) => flat.extend(content_of_container(block)),
            Some(_) => flat.extend(plan::as_text(block)),
            None => flat.push(block.clone()),
        }
    }
    let mut body = body.clone();
    if !flat.is_empty() {
        body["blocks"] = Value::Array(flat);
    }
    body
}

/// Returns the title of a container and the blocks in it.
fn content_of_container(block: &Value) -> Vec<Value> {
    let title = &block["title"]["text"];
    let title = json!({"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [
        {"type": "text", "text": title, "style": {"bold": true}}]}]});
    let children = block["child_blocks"].as_array().into_iter().flatten();
    std::iter::once(title).chain(children.cloned()).collect()
}

fn blocks(body: &Value) -> &[Value] {
    body["blocks"].as_array().map_or(&[], Vec::as_slice)
}
