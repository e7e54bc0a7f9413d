//! GitHub webhooks: `X-Hub-Signature-256` over the raw body, `X-GitHub-Delivery` as identity.

use super::event::{HookEvents, content_identity, decode, is_name, require_json};
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
        // The older SHA-1 signature comes beside the real one, and nothing reads it.
        refuse_foreign(headers, &[SIGNATURE, "x-hub-signature"])?;
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
        // GitHub signs the body alone: under a new delivery id a captured one is still the same event.
        let deliveries = [delivery, &content_identity(request.body())];
        Ok(self
            .hook
            .received(event_with_action(event, &payload), &deliveries, &payload))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::webhook;
    use crate::access::Role;
    use crate::config::{Grants, HookChange, HookScheme, HookSettings, PostTo};
    use crate::model::Secret;
    use crate::webhook::{Received, Rejected};
    use bytes::Bytes;
    use http::Request;
    use jiff::Timestamp;
    use proptest::prelude::{ProptestConfig, any, proptest};
    use std::collections::BTreeMap;

    const SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    fn receive(signature: &[u8], body: &[u8]) -> Result<Received, Rejected> {
        let settings = HookSettings {
            scheme: HookScheme::Github,
            secret: Secret::new("It's a Secret to Everybody".to_owned()),
            events: Vec::new(),
            sources: Vec::new(),
            repository: "infra".to_owned(),
            prompt: "hooks/release.md".to_owned(),
            fields: BTreeMap::new(),
            change: HookChange::New,
            post_to: PostTo {
                channel: "slack".to_owned(),
                chat: "C0OPS".to_owned(),
            },
            grants: Grants {
                role: Role::Editor,
                environments: Vec::new(),
            },
        };
        let request = Request::builder()
            .header("x-hub-signature-256", signature)
            .header("x-github-event", "release")
            .header("x-github-delivery", "d-1")
            .header("content-type", "application/json")
            .body(Bytes::copy_from_slice(body))
            .unwrap();
        webhook("release", &settings)
            .unwrap()
            .receive(&request, Timestamp::UNIX_EPOCH)
    }

    /// CI-23
    #[test]
    fn the_published_vector_is_authentic() {
        let not_json = Rejected::Malformed("the body is not JSON");
        assert_eq!(receive(SIGNATURE.as_bytes(), b"Hello, World!"), Err(not_json));
        let forged = Rejected::Unauthenticated("hook.forged");
        assert_eq!(receive(SIGNATURE.as_bytes(), b"Hello, World?"), Err(forged));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// T13
        #[test]
        fn nothing_unsigned_gets_past_the_signature(
            signature in "[ -~]{0,90}",
            body in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let received = receive(signature.as_bytes(), &body);
            assert!(matches!(received, Err(Rejected::Unauthenticated(_))), "{received:?}");
        }
    }
}
