//! The address at which whoever typed a command can be answered, wherever they typed it.

use super::Secret;
use sha2::{Digest, Sha256};

/// Slack's `response_url`. Whoever has it writes to that person in our name, so it is kept as a secret is: no log
/// shows it, and nothing that is serialised holds it. See
/// <https://docs.slack.dev/interactivity/handling-user-interaction>.
#[derive(Clone)]
pub struct ResponseUrl(Secret);

impl ResponseUrl {
    /// Wraps an address.
    pub fn new(address: String) -> Self {
        Self(Secret::new(address))
    }

    /// The address itself.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.expose().as_bytes()).into()
    }
}

impl PartialEq for ResponseUrl {
    fn eq(&self, other: &Self) -> bool {
        self.digest() == other.digest()
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

    /// T14
    #[test]
    fn an_address_for_answers_is_told_apart_and_never_shown() {
        let of = |address: &str| ResponseUrl::new(address.to_owned());
        let one = of("https://hooks.slack.com/commands/T1/2/CANARY");
        assert_eq!(one, one.clone());
        assert_ne!(one, of("https://hooks.slack.com/commands/T1/2/OTHER"));
        assert!(!format!("{one:?}").contains("CANARY"));
    }
}
