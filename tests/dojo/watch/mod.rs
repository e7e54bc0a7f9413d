//! The watches over secrets, files, logs and messages while attacks are played. Each watch has a test in
//! `controls.rs` that shows that it fires.

pub(crate) mod files;
pub(crate) mod log;
pub(crate) mod connection_sink;
pub(crate) mod visible_messages;

use super::secrets::{SecretFinder, SecretOwner};
use std::collections::BTreeSet;

/// Texts that only their owner may see: their kind, and their prefix.
const CANARIES: [(&str, &str); 4] = [
    ("a file outside of the repository", "CANARY-OUTSIDE"),
    ("a commit no branch reaches", "CANARY-DANGLING"),
    ("the accounts of the machine", "root:x:0:0"),
    ("another person's words", "CANARY-VICTIM"),
];

/// The number of the victim's conversation. The victim may see their own texts.
pub(crate) const VICTIM: usize = 0;

/// The searches for secrets and canaries.
pub(crate) struct LeakWatch {
    all: SecretFinder,
    /// The search for the secrets of the server alone.
    server: SecretFinder,
    environment: String,
}

impl LeakWatch {
    pub(crate) fn new() -> Self {
        Self {
            all: SecretFinder::for_owners(&[SecretOwner::Server, SecretOwner::Repository]),
            server: SecretFinder::for_owners(&[SecretOwner::Server]),
            environment: std::env::var("PATH").unwrap_or_default(),
        }
    }

    /// Returns the secrets and canaries in a text that a person or a model must not see.
    pub(crate) fn secrets_and_canaries(&self, bytes: &[u8], case: usize) -> BTreeSet<String> {
        let mut found = self.all.find(bytes);
        let holds = |text: &str| memchr::memmem::find(bytes, text.as_bytes()).is_some();
        for (what, canary) in CANARIES {
            let is_own = case == VICTIM && canary == "CANARY-VICTIM";
            if !is_own && holds(canary) {
                found.insert(what.to_owned());
            }
        }
        if !self.environment.is_empty() && holds(&self.environment) {
            found.insert("the environment of the process".to_owned());
        }
        found
    }

    /// Returns the secrets of the server in stored data.
    pub(crate) fn secrets_of_the_server(&self, bytes: &[u8]) -> BTreeSet<String> {
        self.server.find(bytes)
    }
}
