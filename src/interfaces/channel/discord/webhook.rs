//! Discord's signed interactions over HTTP. The signature over the time and the raw bytes is verified before anything is
//! decoded. Discord sends wrong signatures on purpose, and expects 401. See
//! <https://docs.discord.com/developers/interactions/overview#setting-up-an-endpoint>.

use super::interaction;
use crate::base::config::DiscordSettings;
use crate::base::model::{Installation, Platform};
use crate::base::webhook::{Received, Rejected, Webhook, refuse_other_schemes, require_fresh, single_header};
use bytes::Bytes;
use http::Request;
use jiff::Timestamp;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::Value;
use std::sync::Arc;

const SIGNATURE: &str = Platform::Discord.signature_header();
const TIMESTAMP: &str = "x-signature-timestamp";
/// The number of bytes of a signature.
const SIGNATURE_BYTES: usize = 64;

/// Returns the webhook of a channel; `None` if it receives interactions over the gateway.
pub(super) fn webhook(
    name: &str,
    settings: &DiscordSettings,
    installation: &Installation,
) -> Option<Arc<dyn Webhook>> {
    Some(Arc::new(InteractionWebhook {
        channel: name.to_owned(),
        public_key: settings.public_key?,
        installation: installation.clone(),
    }))
}

struct InteractionWebhook {
    channel: String,
    public_key: [u8; 32],
    installation: Installation,
}

impl Webhook for InteractionWebhook {
    fn receive(&self, request: &Request<Bytes>, at: Timestamp) -> Result<Received, Rejected> {
        self.verify(request, at)?;
        let payload = serde_json::from_slice(request.body());
        let payload: Value = payload.map_err(|_| Rejected::Malformed("the body is not JSON"))?;
        interaction::decode(&payload, &self.channel, &self.installation, at)
    }

    fn acknowledgement(&self, request: &Request<Bytes>) -> Option<String> {
        let payload: Value = serde_json::from_slice(request.body()).ok()?;
        Some(interaction::response(&payload).to_string())
    }
}

impl InteractionWebhook {
    fn verify(&self, request: &Request<Bytes>, at: Timestamp) -> Result<(), Rejected> {
        let headers = request.headers();
        refuse_other_schemes(headers, &[SIGNATURE])?;
        let sent = single_header(headers, TIMESTAMP)?;
        let mut signature = [0; SIGNATURE_BYTES];
        hex::decode_to_slice(single_header(headers, SIGNATURE)?, &mut signature)
            .map_err(|_| Rejected::Unauthenticated("hook.malformed"))?;
        let signed = [sent.as_bytes(), request.body()].concat();
        let key = UnparsedPublicKey::new(&ED25519, &self.public_key);
        key.verify(&signed, &signature)
            .map_err(|_| Rejected::Unauthenticated("hook.forged"))?;
        // The time is checked after the signature, so that the audit log can distinguish a replay from a forgery.
        require_fresh(sent, at)
    }
}
