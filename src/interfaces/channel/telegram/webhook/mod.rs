//! Telegram's webhook: checks the secret token first and then decodes the update. The update is its only source of
//! information about chats and users.

mod decode;
mod rich_words;
mod update;
#[cfg(test)]
#[path = "tests.rs"]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod updates;

pub(super) use decode::decode;

use crate::base::config::{TelegramMode, TelegramSettings};
use crate::base::model::{Installation, Platform};
use crate::base::webhook::{Received, Rejected, Webhook, refuse_other_schemes};
use bytes::Bytes;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The header with the secret token that was given to `setWebhook`.
const SECRET_HEADER: &str = Platform::Telegram.signature_header();

struct TelegramWebhook {
    name: String,
    installation: Installation,
    secret_digest: [u8; 32],
}

/// Returns the webhook of a bot in webhook mode. A bot without a secret token gets none, because a webhook that
/// accepts unverified requests would be dangerous.
pub(super) fn webhook(
    name: &str,
    settings: &TelegramSettings,
    installation: &Installation,
) -> Option<Arc<dyn Webhook>> {
    if settings.mode != TelegramMode::Webhook {
        return None;
    }
    let secret = settings.secret_token.as_ref()?.expose();
    if secret.is_empty() {
        return None;
    }
    Some(Arc::new(TelegramWebhook {
        name: name.to_owned(),
        installation: installation.clone(),
        secret_digest: Sha256::digest(secret).into(),
    }))
}

impl Webhook for TelegramWebhook {
    fn receive(&self, request: &http::Request<Bytes>, _at: Timestamp) -> Result<Received, Rejected> {
        self.authenticate(request.headers())?;
        if !is_json(request.headers()) {
            return Err(Rejected::Unsupported("not application/json"));
        }
        let update = serde_json::from_slice(request.body())
            .map_err(|_| Rejected::Malformed("the body is not JSON"))?;
        decode(&self.name, &update, &self.installation)
    }
}

impl TelegramWebhook {
    fn authenticate(&self, headers: &http::HeaderMap) -> Result<(), Rejected> {
        refuse_other_schemes(headers, &[SECRET_HEADER])?;
        let mut values = headers.get_all(SECRET_HEADER).iter();
        let (Some(given), None) = (values.next(), values.next()) else {
            return Err(Rejected::Unauthenticated("secret token missing or repeated"));
        };
        // The digests have equal lengths, so the comparison reveals nothing about the secret's length.
        let given: [u8; 32] = Sha256::digest(given.as_bytes()).into();
        if bool::from(given.ct_eq(&self.secret_digest)) {
            Ok(())
        } else {
            Err(Rejected::Unauthenticated("wrong secret token"))
        }
    }
}

fn is_json(headers: &http::HeaderMap) -> bool {
    let mut values = headers.get_all(http::header::CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return false;
    };
    let media_type = value.to_str().ok().and_then(|value| value.split(';').next());
    media_type.is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use crate::base::config::RichMessages;
    use crate::base::model::{Account, Secret};

    fn settings(mode: TelegramMode, secret: Option<&str>) -> TelegramSettings {
        TelegramSettings {
            bot_token: Secret::new("42:token".to_owned()),
            mode,
            rich_messages: RichMessages::Auto,
            secret_token: secret.map(|secret| Secret::new(secret.to_owned())),
            previous_secret_token: None,
            api_base_url: "http://127.0.0.1:1".to_owned(),
            paced: true,
            repository: None,
        }
    }

    fn installation() -> Installation {
        Installation {
            account: Account {
                platform: Platform::Telegram,
                id: "42".to_owned(),
            },
            bot_id: "42".to_owned(),
            bot_name: "drydock_bot".to_owned(),
        }
    }

    fn receive(secrets: &[&str], content_type: &str, body: &'static str) -> Result<Received, Rejected> {
        let settings = settings(TelegramMode::Webhook, Some("right-secret"));
        let webhook = webhook("telegram", &settings, &installation()).unwrap();
        let mut request = http::Request::post("/in/telegram").header("content-type", content_type);
        for secret in secrets {
            request = request.header("X-Telegram-Bot-Api-Secret-Token", *secret);
        }
        webhook.receive(
            &request.body(Bytes::from_static(body.as_bytes())).unwrap(),
            Timestamp::UNIX_EPOCH,
        )
    }

    const EDIT: &str = r#"{"update_id":1,"edited_message":{}}"#;

    /// T12
    #[test]
    fn the_header_of_another_scheme_beside_the_right_secret_is_refused() {
        let webhook = webhook(
            "telegram",
            &settings(TelegramMode::Webhook, Some("right-secret")),
            &installation(),
        );
        let webhook = webhook.unwrap();
        for foreign in ["X-Slack-Signature", "X-Hub-Signature-256", "X-Webhook-Signature"] {
            let request = http::Request::post("/in/telegram")
                .header("content-type", "application/json")
                .header(SECRET_HEADER, "right-secret")
                .header(foreign, "v0=00")
                .body(Bytes::from_static(EDIT.as_bytes()))
                .unwrap();
            let refused = webhook.receive(&request, Timestamp::UNIX_EPOCH);
            assert_eq!(refused, Err(Rejected::Unauthenticated("hook.mixed")), "{foreign}");
        }
    }

    /// T19
    #[test]
    fn a_request_needs_exactly_one_header_with_the_right_secret() {
        let missing = Rejected::Unauthenticated("secret token missing or repeated");
        let wrong = Rejected::Unauthenticated("wrong secret token");
        let json = "application/json";
        assert_eq!(
            receive(&["right-secret"], json, EDIT),
            Ok(Received::Ignored("edited message"))
        );
        assert_eq!(receive(&[], json, EDIT), Err(missing.clone()));
        assert_eq!(
            receive(&["right-secret", "right-secret"], json, EDIT),
            Err(missing.clone())
        );
        assert_eq!(receive(&["right-secret", "x"], json, EDIT), Err(missing));
        for guess in [
            "",
            "right-secre",
            "right-secret ",
            "Right-secret",
            "right-secretx",
        ] {
            // Outer spaces of a header value are removed, so the padded guess is sent with other bytes.
            let padded = guess.replace(' ', "\u{a0}");
            assert_eq!(receive(&[&padded], json, EDIT), Err(wrong.clone()), "{guess}");
        }
    }

    /// T19
    #[test]
    fn a_bot_without_a_secret_has_no_webhook() {
        for (mode, secret) in [
            (TelegramMode::Webhook, None),
            (TelegramMode::Webhook, Some("")),
            (TelegramMode::Polling, Some("right-secret")),
        ] {
            assert!(webhook("telegram", &settings(mode, secret), &installation()).is_none());
        }
    }

    #[test]
    fn the_secret_is_checked_before_anything_is_read() {
        let wrong = Err(Rejected::Unauthenticated("wrong secret token"));
        assert_eq!(receive(&["x"], "text/plain", "{"), wrong);
        assert_eq!(
            receive(&["right-secret"], "text/plain", EDIT),
            Err(Rejected::Unsupported("not application/json"))
        );
        assert_eq!(
            receive(&["right-secret"], "application/json; charset=utf-8", "{"),
            Err(Rejected::Malformed("the body is not JSON"))
        );
        let deep: &'static str = Box::leak("[".repeat(100_000).into_boxed_str());
        assert_eq!(
            receive(&["right-secret"], "application/json", deep),
            Err(Rejected::Malformed("the body is not JSON"))
        );
    }
}
