//! GitHub webhooks, with `X-Hub-Signature-256` over the raw body and `X-GitHub-Delivery` as identity. The payload is
//! the body or a field of a form; the form is GitHub's default for a new webhook. See
//! <https://docs.github.com/en/webhooks/using-webhooks/creating-webhooks>.

use super::event::{HookEvents, content_identity, is_name, is_of_type};
use super::other_schemes::refuse_other_schemes;
use super::signature::{single_header, verify_hex_hmac_sha256};
use super::{HookSettings, Received, Rejected, SchemeDefinition, Webhook, github_events};
use crate::base::model::Secret;
use bytes::Bytes;
use http::Request;
use jiff::Timestamp;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

const SIGNATURE: &str = "x-hub-signature-256";
/// The form field that holds the payload.
const PAYLOAD: &str = "payload";

struct Github {
    secret: Secret,
    filters: Vec<EventFilter>,
    hook: HookEvents,
}

/// An accepted event: with one action, or with all of them.
struct EventFilter {
    event: String,
    action: Option<String>,
}

/// The encoding of the payload.
#[derive(Clone, Copy)]
enum PayloadEncoding {
    /// The payload is the body.
    Json,
    /// The payload is a field of a form.
    Form,
}

/// Signs the body, and names the event and the delivery in headers.
pub(super) const SCHEME: SchemeDefinition = SchemeDefinition {
    word: "github",
    // GitHub also sends the older SHA-1 signature, which is ignored.
    signature_headers: &[SIGNATURE, "x-hub-signature"],
    is_replayable: false,
    event_refusal: Some(github_events::refusal),
    webhook,
    #[cfg(test)]
    sign: |secret, body, _at| {
        let signature = super::signature::hex_hmac_sha256(secret, &[body]);
        vec![
            (SIGNATURE, format!("sha256={signature}")),
            ("x-github-event", "release".to_owned()),
            ("x-github-delivery", "d-1".to_owned()),
        ]
    },
};

fn webhook(name: &str, settings: &HookSettings) -> Arc<dyn Webhook> {
    let wanted = settings.events.iter().map(|entry| match entry.split_once('.') {
        Some((event, action)) => EventFilter {
            event: event.to_owned(),
            action: Some(action.to_owned()),
        },
        None => EventFilter {
            event: entry.clone(),
            action: None,
        },
    });
    Arc::new(Github {
        secret: settings.secret.clone(),
        filters: wanted.collect(),
        hook: HookEvents::new(name, settings),
    })
}

impl Webhook for Github {
    fn receive(&self, request: &Request<Bytes>, _at: Timestamp) -> Result<Received, Rejected> {
        let headers = request.headers();
        refuse_other_schemes(headers, SCHEME.signature_headers)?;
        let signature = single_header(headers, SIGNATURE)?;
        let event = single_header(headers, "x-github-event")?;
        let delivery = single_header(headers, "x-github-delivery")?;
        self.verify(signature, request.body())?;

        let sent = PayloadEncoding::from_request(request)?;
        if !is_name(event) || !is_name(delivery) {
            return Err(Rejected::Malformed("the event or the delivery is not a name"));
        }
        if event == "ping" {
            return Ok(Received::Ignored("hook.ping"));
        }
        if !self.is_any_filter(|wanted| wanted.event == event) {
            return Ok(Received::Ignored("hook.not_allowed"));
        }
        let payload = self.hook.decode(&sent.payload(request.body())?)?;
        let action = payload.get("action").and_then(Value::as_str);
        let counts = |wanted: &EventFilter| {
            wanted.event == event && wanted.action.as_deref().is_none_or(|one| Some(one) == action)
        };
        if !self.is_any_filter(counts) || !self.hook.is_allowed(&payload) {
            return Ok(Received::Ignored("hook.not_allowed"));
        }
        // GitHub signs only the body: a captured body under a new delivery id is still the same event.
        let deliveries = [delivery, &content_identity(request.body())];
        Ok(self
            .hook
            .received(event_with_action(event, action), &deliveries, &payload))
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

    fn is_any_filter(&self, fits: impl Fn(&EventFilter) -> bool) -> bool {
        self.filters.is_empty() || self.filters.iter().any(fits)
    }
}

impl PayloadEncoding {
    fn from_request(request: &Request<Bytes>) -> Result<Self, Rejected> {
        let headers = request.headers();
        if is_of_type(headers, "application/json") {
            return Ok(Self::Json);
        }
        if is_of_type(headers, "application/x-www-form-urlencoded") {
            return Ok(Self::Form);
        }
        Err(Rejected::Unsupported(
            "the content type must be application/json or application/x-www-form-urlencoded",
        ))
    }

    /// Returns the JSON of the payload. The content type is not signed. Therefore a form must contain exactly one
    /// field, so that no body has one meaning as JSON and another as a form.
    fn payload(self, body: &[u8]) -> Result<Cow<'_, [u8]>, Rejected> {
        if let Self::Json = self {
            return Ok(Cow::Borrowed(body));
        }
        let mut payload = None;
        let mut has_others = false;
        for (name, value) in form_urlencoded::parse(body) {
            match name == PAYLOAD {
                true if payload.is_some() => {
                    return Err(Rejected::Malformed("the field `payload` of the form is repeated"));
                }
                true => payload = Some(value),
                false => has_others = true,
            }
        }
        match payload {
            None => Err(Rejected::Malformed("the form has no field `payload`")),
            Some(_) if has_others => Err(Rejected::Malformed("the form has a field beside `payload`")),
            Some(Cow::Borrowed(json)) => Ok(Cow::Borrowed(json.as_bytes())),
            Some(Cow::Owned(json)) => Ok(Cow::Owned(json.into_bytes())),
        }
    }
}

/// Returns the event and, if the payload has one, its action: `release.published`.
fn event_with_action(event: &str, action: Option<&str>) -> String {
    match action {
        Some(action) if is_name(action) => format!("{event}.{action}"),
        Some(_) | None => event.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::webhook;
    use crate::base::model::{InboundKind, Role, Secret};
    use crate::base::webhook::{Grants, HookChange, HookScheme, HookSettings, PostTo, Received, Rejected};
    use bytes::Bytes;
    use hmac::{Hmac, KeyInit, Mac};
    use http::Request;
    use jiff::Timestamp;
    use proptest::prelude::{ProptestConfig, any, proptest};
    use sha2::Sha256;
    use std::collections::BTreeMap;

    const SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    fn receive(signature: &[u8], body: &[u8]) -> Result<Received, Rejected> {
        received("application/json", &[], signature, body)
    }

    fn received(
        content_type: &str,
        events: &[&str],
        signature: &[u8],
        body: &[u8],
    ) -> Result<Received, Rejected> {
        let settings = HookSettings {
            scheme: HookScheme::Github,
            secret: Secret::new("It's a Secret to Everybody".to_owned()),
            previous_secret: None,
            events: events.iter().map(|event| (*event).to_owned()).collect(),
            sources: Vec::new(),
            repository: "infra".to_owned(),
            prompt: "hooks/release.md".to_owned(),
            fields: BTreeMap::new(),
            starts_pipelines: false,
            change: HookChange::New,
            comments: None,
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
            .header("content-type", content_type)
            .body(Bytes::copy_from_slice(body))
            .unwrap();
        webhook("release", &settings).receive(&request, Timestamp::UNIX_EPOCH)
    }

    /// CI-23, CI-28
    #[test]
    fn the_published_vector_is_authentic() {
        let not_json = Rejected::Malformed("the body is not JSON");
        assert_eq!(receive(SIGNATURE.as_bytes(), b"Hello, World!"), Err(not_json));
        let forged = Rejected::Unauthenticated("hook.forged");
        assert_eq!(receive(SIGNATURE.as_bytes(), b"Hello, World?"), Err(forged));
    }

    /// Returns the result for a body with a valid signature.
    fn signed(content_type: &str, events: &[&str], body: &str) -> Result<Received, Rejected> {
        let mut mac = Hmac::<Sha256>::new_from_slice(b"It's a Secret to Everybody").unwrap();
        mac.update(body.as_bytes());
        let hex = hex::encode(mac.finalize().into_bytes());
        received(
            content_type,
            events,
            format!("sha256={hex}").as_bytes(),
            body.as_bytes(),
        )
    }

    fn event(received: Result<Received, Rejected>) -> Option<String> {
        match received {
            Ok(Received::Inbound(inbound)) => match inbound.kind {
                InboundKind::Hook { event, .. } => Some(event),
                _ => None,
            },
            _ => None,
        }
    }

    const FORM: &str = "application/x-www-form-urlencoded";

    /// CI-23
    #[test]
    fn the_payload_of_a_form_is_the_payload() {
        let json = r#"{"action":"published","release":{"body":"1 + 1 & \u00e4 = 100 %"}}"#;
        let form: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("payload", json)
            .finish();
        let published = Some("release.published".to_owned());
        assert_eq!(event(signed("application/json", &[], json)), published);
        for content_type in [FORM, "Application/X-WWW-Form-Urlencoded; charset=utf-8"] {
            assert_eq!(
                event(signed(content_type, &[], &form)),
                published,
                "{content_type}"
            );
        }
    }

    /// T17
    #[test]
    fn a_form_is_one_payload_and_no_body_means_two_things() {
        let refused = |body: &str| signed(FORM, &[], body).unwrap_err();
        for (body, why) in [
            ("", "the form has no field `payload`"),
            ("Payload={}", "the form has no field `payload`"),
            (
                "payload={}&payload={}",
                "the field `payload` of the form is repeated",
            ),
            ("a=b&payload={}", "the form has a field beside `payload`"),
            ("payload", "the body is not JSON"),
            ("payload=[]", "the body is not a JSON object"),
            ("payload=%7B%22a%22", "the body is not JSON"),
            // A body with text from a release's notes, sent again as a form: the content type is not signed.
            (
                r#"{"body":"&payload=%7B%22action%22%3A%22published%22%7D&x="}"#,
                "the form has a field beside `payload`",
            ),
        ] {
            assert_eq!(refused(body), Rejected::Malformed(why), "{body}");
        }
        let form = "payload=%7B%7D";
        let not_json = Rejected::Malformed("the body is not JSON");
        assert_eq!(signed("application/json", &[], form), Err(not_json));
        assert!(matches!(
            signed("text/plain", &[], form),
            Err(Rejected::Unsupported(_))
        ));
    }

    /// T23
    #[test]
    fn an_event_counts_with_its_action_or_with_all_of_them() {
        let counts = |events: &[&str], body: &str| event(signed("application/json", events, body)).is_some();
        let published = r#"{"action":"published"}"#;
        for events in [&["release"][..], &["push", "release.published"], &[]] {
            assert!(counts(events, published), "{events:?}");
        }
        for events in [
            &["release.created", "release.released"][..],
            &["push.published"],
            &["release.published.x"],
        ] {
            assert!(!counts(events, published), "{events:?}");
        }
        for body in ["{}", r#"{"action":["published"]}"#, r#"{"action":"Published"}"#] {
            assert!(!counts(&["release.published"], body), "{body}");
            assert!(counts(&["release"], body), "{body}");
        }
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
