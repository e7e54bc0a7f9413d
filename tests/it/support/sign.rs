//! Signatures with an independent implementation, so that a test does not share an error with the tested code.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Returns the HMAC-SHA256 in hex.
pub(crate) fn hmac(secret: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(body);
    let digest = mac.finalize().into_bytes();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Signs a body like GitHub.
pub(crate) fn github(secret: &str, body: &[u8]) -> String {
    format!("sha256={}", hmac(secret, body))
}

/// Signs a body at a time like Slack.
pub(crate) fn slack(secret: &str, seconds: i64, body: &[u8]) -> String {
    let mut message = format!("v0:{seconds}:").into_bytes();
    message.extend_from_slice(body);
    format!("v0={}", hmac(secret, &message))
}
