//! Webhooks with Drydock's own signature schemes. `generic` signs identity, time and body; `generic-body` signs only
//! the body, so its identity is the body's hash.

use super::event::{HookEvents, content_identity, is_name, require_json};
use super::other_schemes::refuse_other_schemes;
use super::signature::{require_fresh, single_header, verify_hex_hmac_sha256};
use super::{HookSettings, Received, Rejected, SchemeDefinition, Webhook};
use crate::base::model::Secret;
use bytes::Bytes;
use http::Request;
use jiff::Timestamp;
use serde_json::Value;
use std::sync::Arc;

const SIGNATURE: &str = "x-webhook-signature";
/// The event name for payloads that contain none.
const EVENT_UNNAMED: &str = "event";

struct Generic {
    secret: Secret,
    events: Vec<String>,
    hook: HookEvents,
}

struct GenericBody(Generic);

/// Signs identity, time and body.
pub(super) const SCHEME: SchemeDefinition = SchemeDefinition {
    word: "generic",
    signature_headers: &[SIGNATURE],
    is_replayable: false,
    event_refusal: None,
    webhook: |name, settings| Arc::new(Generic::new(name, settings)),
    #[cfg(test)]
    sign: |secret, body, at| {
        let seconds = at.as_second().to_string();
        let parts: [&[u8]; 5] = [b"evt-1", b".", seconds.as_bytes(), b".", body];
        vec![
            (SIGNATURE, super::signature::hex_hmac_sha256(secret, &parts)),
            ("x-webhook-id", "evt-1".to_owned()),
            ("x-webhook-timestamp", seconds.clone()),
        ]
    },
};

/// Signs only the body.
pub(super) const BODY_SCHEME: SchemeDefinition = SchemeDefinition {
    word: "generic-body",
    signature_headers: &[SIGNATURE],
    is_replayable: true,
    event_refusal: None,
    webhook: |name, settings| Arc::new(GenericBody(Generic::new(name, settings))),
    #[cfg(test)]
    sign: |secret, body, _at| vec![(SIGNATURE, super::signature::hex_hmac_sha256(secret, &[body]))],
};

impl Webhook for Generic {
    fn receive(&self, request: &Request<Bytes>, at: Timestamp) -> Result<Received, Rejected> {
        let headers = request.headers();
        refuse_other_schemes(headers, SCHEME.signature_headers)?;
        let signature = single_header(headers, SIGNATURE)?;
        let id = single_header(headers, "x-webhook-id")?;
        let seconds = single_header(headers, "x-webhook-timestamp")?;
        self.verify(
            signature,
            &[id.as_bytes(), b".", seconds.as_bytes(), b".", request.body()],
        )?;
        // The time is checked after the signature, so that the audit log can distinguish a replay from a forgery.
        require_fresh(seconds, at)?;
        require_json(headers)?;
        // A dot separates the signed parts, so an id with a dot could be read as another id and time.
        if !is_name(id) || id.contains('.') {
            return Err(Rejected::Malformed("the id is not a name"));
        }
        self.event(request.body(), id)
    }
}

impl Webhook for GenericBody {
    /// Verifies the body. Unsigned headers are ignored: they determine neither the delivery id nor the time.
    fn receive(&self, request: &Request<Bytes>, _at: Timestamp) -> Result<Received, Rejected> {
        let headers = request.headers();
        refuse_other_schemes(headers, BODY_SCHEME.signature_headers)?;
        let signature = single_header(headers, SIGNATURE)?;
        self.0.verify(signature, &[request.body()])?;
        require_json(headers)?;
        self.0.event(request.body(), &content_identity(request.body()))
    }
}

impl Generic {
    fn new(name: &str, settings: &HookSettings) -> Self {
        Self {
            secret: settings.secret.clone(),
            events: settings.events.clone(),
            hook: HookEvents::new(name, settings),
        }
    }

    fn verify(&self, signature: &str, message_parts: &[&[u8]]) -> Result<(), Rejected> {
        if verify_hex_hmac_sha256(&[&self.secret], message_parts, signature) {
            return Ok(());
        }
        Err(Rejected::Unauthenticated("hook.forged"))
    }

    fn event(&self, body: &[u8], delivery: &str) -> Result<Received, Rejected> {
        let payload = self.hook.decode(body)?;
        let named = payload
            .get("event")
            .and_then(Value::as_str)
            .filter(|event| is_name(event));
        let event = named.unwrap_or(EVENT_UNNAMED);
        let wanted = self.events.is_empty() || self.events.iter().any(|wanted| wanted == event);
        if !wanted || !self.hook.is_allowed(&payload) {
            return Ok(Received::Ignored("hook.not_allowed"));
        }
        Ok(self.hook.received(event.to_owned(), &[delivery], &payload))
    }
}
