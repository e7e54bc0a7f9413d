//! The address for answers to a command, which works in every conversation.

use super::Secret;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// An address for private answers, such as Slack's `response_url`, and its expiry. Anyone who has it can write to that
/// user in Drydock's name, so it is treated as a secret: it is never logged and never serialised with other data. See
/// <https://docs.slack.dev/interactivity/handling-user-interaction>.
#[derive(Clone)]
pub struct ResponseUrl {
    address: Secret,
    expires_at: Timestamp,
}

impl ResponseUrl {
    /// Wraps an address and its expiry.
    pub fn new(address: String, expires_at: Timestamp) -> Self {
        Self {
            address: Secret::new(address),
            expires_at,
        }
    }

    /// Returns the address.
    pub fn expose(&self) -> &str {
        self.address.expose()
    }

    /// Returns the time of expiry.
    pub fn expires_at(&self) -> Timestamp {
        self.expires_at
    }

    /// Returns true if the address has not expired.
    pub fn is_valid_at(&self, at: Timestamp) -> bool {
        at < self.expires_at
    }

    fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.expose().as_bytes()).into()
    }
}

impl PartialEq for ResponseUrl {
    fn eq(&self, other: &Self) -> bool {
        self.digest() == other.digest() && self.expires_at == other.expires_at
    }
}

impl Eq for ResponseUrl {}

impl std::fmt::Debug for ResponseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResponseUrl(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::ResponseUrl;
    use jiff::Timestamp;

    /// T14
    #[test]
    fn response_urls_compare_by_address_and_are_never_printed() {
        let of = |address: &str| ResponseUrl::new(address.to_owned(), Timestamp::UNIX_EPOCH);
        let one = of("https://hooks.slack.com/commands/T1/2/CANARY");
        assert_eq!(one, one.clone());
        assert_ne!(one, of("https://hooks.slack.com/commands/T1/2/OTHER"));
        assert!(!format!("{one:?}").contains("CANARY"));
    }
}
