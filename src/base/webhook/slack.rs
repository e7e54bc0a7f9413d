//! Requests that a Slack app signs, for an app that is no channel: `X-Slack-Signature` over time and body. Events are JSON, and
//! commands and presses are forms. See <https://docs.slack.dev/authentication/verifying-requests-from-slack>.

use super::event::{HookEvents, content_identity, is_name, is_of_type};
use super::other_schemes::refuse_other_schemes;
use super::signature::{require_fresh, single_header, verify_hex_hmac_sha256};
use super::{HookSettings, Received, Rejected, SchemeDefinition, Webhook};
use crate::base::model::{Platform, Secret};
use bytes::Bytes;
use http::Request;
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::sync::Arc;

const SIGNATURE: &str = Platform::Slack.signature_header();
const TIMESTAMP: &str = "x-slack-request-timestamp";
/// The fields with which others could act in the name of the app or a person, or answer one. They are left out of events, also
/// within others: a step of a workflow has a token of its own.
const CREDENTIALS: [&str; 5] = [
    "bot_access_token",
    "response_url",
    "response_urls",
    "secret",
    "token",
];
/// The maximum number of fields of a form that are read; Slack sends about fifteen.
const FIELDS_MAX: usize = 64;
/// The name of a slash command as an event.
const COMMAND: &str = "slash_command";
/// The event name for payloads that contain none.
const EVENT_UNNAMED: &str = "event";

struct SlackHook {
    secret: Secret,
    hook: HookEvents,
}

/// Signs time and body.
pub(super) const SCHEME: SchemeDefinition = SchemeDefinition {
    word: "slack",
    signature_headers: &[SIGNATURE],
    is_replayable: false,
    event_refusal: None,
    webhook: |name, settings| Arc::new(SlackHook::new(name, settings)),
    #[cfg(test)]
    sign: |secret, body, at| {
        let seconds = at.as_second().to_string();
        let parts: [&[u8]; 4] = [b"v0:", seconds.as_bytes(), b":", body];
        let signature = super::signature::hex_hmac_sha256(secret, &parts);
        vec![
            (SIGNATURE, format!("v0={signature}")),
            (TIMESTAMP, seconds.clone()),
        ]
    },
};

impl Webhook for SlackHook {
    fn receive(&self, request: &Request<Bytes>, at: Timestamp) -> Result<Received, Rejected> {
        let headers = request.headers();
        refuse_other_schemes(headers, SCHEME.signature_headers)?;
        let signature = single_header(headers, SIGNATURE)?;
        let seconds = single_header(headers, TIMESTAMP)?;
        let hex = signature
            .strip_prefix("v0=")
            .ok_or(Rejected::Unauthenticated("the signature is not of version 0"))?;
        let parts: [&[u8]; 4] = [b"v0:", seconds.as_bytes(), b":", request.body()];
        if !verify_hex_hmac_sha256(&[&self.secret], &parts, hex) {
            return Err(Rejected::Unauthenticated("hook.forged"));
        }
        // The time is checked after the signature, so that the audit log can distinguish a replay from a forgery.
        require_fresh(seconds, at)?;
        if is_of_type(headers, "application/json") {
            let payload = self.hook.decode(request.body())?;
            return match text(&payload, "challenge").filter(|_| payload["type"] == "url_verification") {
                Some(challenge) => Ok(Received::Answer(challenge.to_owned())),
                None => self.event(request.body(), payload),
            };
        }
        if is_of_type(headers, "application/x-www-form-urlencoded") {
            let form = form(request.body())?;
            if text(&form, "ssl_check") == Some("1") {
                return Ok(Received::Answer(String::new()));
            }
            return match text(&form, "payload") {
                Some(payload) => self.event(request.body(), self.hook.decode(payload.as_bytes())?),
                None => self.event(request.body(), form),
            };
        }
        Err(Rejected::Unsupported("neither JSON nor a form"))
    }
}

impl SlackHook {
    fn new(name: &str, settings: &HookSettings) -> Self {
        Self {
            secret: settings.secret.clone(),
            hook: HookEvents::new(name, settings),
        }
    }

    fn event(&self, body: &[u8], mut payload: Value) -> Result<Received, Rejected> {
        drop_credentials(&mut payload);
        if !self.hook.is_allowed(&payload) {
            return Ok(Received::Ignored("hook.not_allowed"));
        }
        let inner = payload.get("event").unwrap_or(&Value::Null);
        let kind = match text(&payload, "command") {
            Some(_) => Some(COMMAND),
            None => text(inner, "type").or_else(|| text(&payload, "type")),
        };
        let kind = kind
            .filter(|kind| is_name(kind))
            .unwrap_or(EVENT_UNNAMED)
            .to_owned();
        // Slack delivers an event again with its id, and signs it again with another time.
        let id = text(&payload, "event_id").or_else(|| text(&payload, "trigger_id"));
        let content = content_identity(body);
        let deliveries: Vec<&str> = id
            .filter(|id| is_name(id))
            .into_iter()
            .chain([content.as_str()])
            .collect();
        Ok(self.hook.received(kind, &deliveries, &payload))
    }
}

/// Removes the credentials of a payload. Its parser bounds the nesting.
fn drop_credentials(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !CREDENTIALS.contains(&name.as_str()));
            fields.values_mut().for_each(drop_credentials);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_credentials),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

/// Returns the fields of a form as an object of texts.
fn form(body: &[u8]) -> Result<Value, Rejected> {
    let mut fields = Map::new();
    for (name, value) in form_urlencoded::parse(body).take(FIELDS_MAX) {
        if fields
            .insert(name.into_owned(), Value::String(value.into_owned()))
            .is_some()
        {
            return Err(Rejected::Malformed("a field of the form is repeated"));
        }
    }
    Ok(Value::Object(fields))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::{SCHEME, SIGNATURE, TIMESTAMP};
    use crate::base::model::{Inbound, InboundKind, Role, Secret};
    use crate::base::webhook::{Grants, HookChange, HookScheme, HookSettings, PostTo, Received, Rejected};
    use bytes::Bytes;
    use http::Request;
    use jiff::Timestamp;
    use std::collections::BTreeMap;

    const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
    const FORM: &str = "application/x-www-form-urlencoded";
    const COMMAND: &str = "token=xyzz0WbapA4vBCDEFxx0q6G&team_id=T1DC2JH3J&user_id=U2CERLKJA&command=%2Freview&text=7&\
                           response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1%2F3%2F9&trigger_id=398.474.803a";

    fn at() -> Timestamp {
        Timestamp::from_second(1_531_420_618).unwrap()
    }

    fn settings() -> HookSettings {
        HookSettings {
            scheme: HookScheme::Slack,
            secret: Secret::new(SECRET.to_owned()),
            previous_secret: None,
            events: Vec::new(),
            sources: Vec::new(),
            repository: "infra".to_owned(),
            prompt: "hooks/release.md".to_owned(),
            fields: BTreeMap::from([("user".to_owned(), "/user_id".to_owned())]),
            starts_pipelines: true,
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
        }
    }

    fn received(content_type: &str, body: &str) -> Result<Received, Rejected> {
        let mut request = Request::post("/in/signed").header("content-type", content_type);
        for (name, value) in (SCHEME.sign)(SECRET, body.as_bytes(), at()) {
            request = request.header(name, value);
        }
        let request = request.body(Bytes::copy_from_slice(body.as_bytes())).unwrap();
        (SCHEME.webhook)("signed", &settings()).receive(&request, at())
    }

    fn inbound(received: Result<Received, Rejected>) -> Inbound {
        match received {
            Ok(Received::Inbound(inbound)) => *inbound,
            other => panic!("{other:?}"),
        }
    }

    /// CI-24
    #[test]
    fn a_signed_command_is_an_event_with_its_fields_and_without_its_credentials() {
        let command = inbound(received(FORM, COMMAND));
        assert_eq!(command.delivery[0], "hook:signed:398.474.803a");
        let shown = format!("{:?}", command.kind);
        assert!(
            !shown.contains("commands/T1") && !shown.contains("xyzz0W"),
            "{shown}"
        );
        let InboundKind::Hook {
            event,
            fields,
            payload,
        } = command.kind
        else {
            panic!("{shown}");
        };
        assert_eq!(
            (event.as_str(), fields["user"].as_str()),
            ("slash_command", "U2CERLKJA")
        );
        assert_eq!(payload.unwrap()["text"], "7");
    }

    #[test]
    fn events_presses_and_checks_are_told_apart() {
        let json = r#"{"type": "event_callback", "event_id": "Ev1", "event": {"type": "reaction_added"}}"#;
        let event = inbound(received("application/json", json));
        assert_eq!(event.delivery[0], "hook:signed:Ev1");
        assert!(matches!(&event.kind, InboundKind::Hook { event, .. } if event == "reaction_added"));
        let press = inbound(received(
            FORM,
            "payload=%7B%22type%22%3A%22block_actions%22%2C%22token%22%3A%22x%22%7D",
        ));
        let InboundKind::Hook { event, payload, .. } = press.kind else {
            panic!("no event");
        };
        assert_eq!(event, "block_actions");
        assert!(payload.unwrap().get("token").is_none());
        let check = r#"{"type": "url_verification", "challenge": "3eZb"}"#;
        assert_eq!(
            received("application/json", check),
            Ok(Received::Answer("3eZb".to_owned()))
        );
        assert_eq!(received(FORM, "ssl_check=1"), Ok(Received::Answer(String::new())));
        for (content_type, body, why) in [
            (FORM, "a=1&a=2", "a field of the form is repeated"),
            (FORM, "payload=%5B", "the body is not JSON"),
            ("application/json", "[]", "the body is not a JSON object"),
        ] {
            assert_eq!(
                received(content_type, body),
                Err(Rejected::Malformed(why)),
                "{body}"
            );
        }
        let unsupported = received("text/plain", "{}");
        assert!(
            matches!(unsupported, Err(Rejected::Unsupported(_))),
            "{unsupported:?}"
        );
    }

    /// A step of a workflow brings a token for its time, and the secret of the person who pressed a button.
    #[test]
    fn the_credentials_within_other_fields_are_left_out_too() {
        let json = r#"{"type": "event_callback", "event_id": "Ev2", "token": "CANARY", "event": {
            "type": "function_executed", "bot_access_token": "xwfp-CANARY", "inputs": {"who": "U1", "list": [
            {"interactor": {"id": "U1", "secret": "CANARY"}}, {"response_url": "https://CANARY"}]}}}"#;
        let InboundKind::Hook { payload, .. } = inbound(received("application/json", json)).kind else {
            panic!("no event");
        };
        let payload = payload.unwrap();
        assert!(!payload.to_string().contains("CANARY"), "{payload}");
        assert_eq!(payload["event"]["inputs"]["list"][0]["interactor"]["id"], "U1");
        assert_eq!(payload["event"]["inputs"]["who"], "U1");
    }

    #[test]
    fn a_signature_of_another_version_is_refused() {
        let request = Request::post("/in/signed")
            .header(SIGNATURE, "v1=00")
            .header(TIMESTAMP, "1531420618");
        let request = request.body(Bytes::from_static(b"{}")).unwrap();
        let refused = (SCHEME.webhook)("signed", &settings()).receive(&request, at());
        let why = "the signature is not of version 0";
        assert_eq!(refused, Err(Rejected::Unauthenticated(why)));
    }
}
