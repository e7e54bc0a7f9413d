//! GitHub webhooks: `X-Hub-Signature-256` over the raw body, `X-GitHub-Delivery` as identity.

use super::event::{HookEvents, decode, is_name, require_json};
use super::foreign::refuse_foreign;
use super::signature::{single_header, verify_hex_hmac_sha256};
use super::{Received, Rejected, Webhook};
use crate::config::HookSettings;
use crate::model::Secret;
use bytes::Bytes;
use http::Request;
use jiff::Timestamp;
use serde_json::Value;
use std::sync::Arc;

const SIGNATURE: &str = "x-hub-signature-256";

struct Github {
    secret: Secret,
    events: Vec<String>,
    hook: HookEvents,
}

pub(super) fn webhook(name: &str, settings: &HookSettings) -> Option<Arc<dyn Webhook>> {
    Some(Arc::new(Github {
        secret: settings.secret.clone(),
        events: settings.events.clone(),
        hook: HookEvents::new(name, settings),
    }))
}

impl Webhook for Github {
    fn receive(&self, request: &Request<Bytes>, _at: Timestamp) -> Result<Received, Rejected> {
        let headers = request.headers();
        refuse_foreign(headers, SIGNATURE)?;
        let signature = single_header(headers, SIGNATURE)?;
        let event = single_header(headers, "x-github-event")?;
        let delivery = single_header(headers, "x-github-delivery")?;
        self.verify(signature, request.body())?;

        require_json(headers)?;
        if !is_name(event) || !is_name(delivery) {
            return Err(Rejected::Malformed("the event or the delivery is not a name"));
        }
        if event == "ping" {
            return Ok(Received::Ignored("hook.ping"));
        }
        if !self.events.is_empty() && !self.events.iter().any(|wanted| wanted == event) {
            return Ok(Received::Ignored("hook.not_allowed"));
        }
        let payload = decode(request.body())?;
        if !self.hook.is_allowed(&payload) {
            return Ok(Received::Ignored("hook.not_allowed"));
        }
        Ok(self
            .hook
            .received(event_with_action(event, &payload), delivery, &payload))
    }
}

impl Github {
    fn verify(&self, signature: &str, body: &[u8]) -> Result<(), Rejected> {
        let hex = signature
            .strip_prefix("sha256=")
            .ok_or(Rejected::Unauthenticated("hook.malformed"))?;
        if verify_hex_hmac_sha256(&[&self.secret], &[body], hex) {
            return Ok(());
        }
        Err(Rejected::Unauthenticated("hook.forged"))
    }
}

/// `release.published`: the event and, where the payload has one, its action.
fn event_with_action(event: &str, payload: &Value) -> String {
    match payload.get("action").and_then(Value::as_str) {
        Some(action) if is_name(action) => format!("{event}.{action}"),
        Some(_) | None => event.to_owned(),
    }
}
