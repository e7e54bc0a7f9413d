//! The sections of a configuration that have two secrets for incoming requests: the requests that were signed with each, and
//! the retirement of the previous secret.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A section with two secrets. It has no value of either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretPairKeys {
    /// The section in words, such as `hook release`.
    pub section: String,
    /// The key of the current secret.
    pub current: String,
    /// The key of the previous secret.
    pub previous: String,
}

/// The use of one of the two secrets of a section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretUse {
    /// The key of the secret.
    pub key: String,
    /// The section in words, such as `hook release`.
    pub section: String,
    /// The state of the secret.
    #[serde(flatten)]
    pub state: SecretState,
    /// The requests that were signed with it and accepted.
    #[serde(flatten)]
    pub requests: SignedRequests,
}

/// The state of one of the two secrets of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SecretState {
    /// The secret that the section is to have.
    Current,
    /// The secret that is replaced, and still accepted.
    Previous,
    /// The secret that was replaced, and is refused.
    Retired {
        /// The time of the retirement.
        retired_at: Timestamp,
    },
}

/// The number and the times of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedRequests {
    /// The number of requests.
    #[serde(rename = "requests")]
    pub count: u64,
    /// The time of the first request.
    pub first_seen: Option<Timestamp>,
    /// The time of the last request.
    pub last_used: Option<Timestamp>,
}

/// The sections with two secrets, by the key of the previous one. Clones share the counts and the retirements.
#[derive(Clone, Default)]
pub struct SecretPairs(Arc<BTreeMap<String, Arc<PairUse>>>);

/// The use of both secrets of a section, shared by all webhooks of that section.
pub(crate) struct PairUse {
    keys: SecretPairKeys,
    /// The keyed hash that a retirement of the previous secret is stored by.
    hash: [u8; 32],
    retired_at: OnceLock<Timestamp>,
    current: Mutex<SignedRequests>,
    previous: Mutex<SignedRequests>,
}

impl SecretPairKeys {
    /// Returns the keys of the secrets of a hook.
    pub fn of_hook(name: &str) -> Self {
        Self {
            section: format!("hook {name}"),
            current: format!("hooks.{name}.secret"),
            previous: format!("hooks.{name}.previous_secret"),
        }
    }

    /// Returns the keys of the secrets of a channel, by the last word of the current one.
    pub fn of_channel(name: &str, secret_key: &str) -> Self {
        Self {
            section: format!("channel {name}"),
            current: format!("channels.{name}.{secret_key}"),
            previous: format!("channels.{name}.previous_{secret_key}"),
        }
    }
}

impl SecretPairs {
    /// Returns the pairs of these sections, each with the keyed hash of its previous secret.
    pub fn new(pairs: impl IntoIterator<Item = (SecretPairKeys, [u8; 32])>) -> Self {
        let pairs = pairs.into_iter().map(|(keys, hash)| {
            let previous = keys.previous.clone();
            (previous, Arc::new(PairUse::new(keys, hash)))
        });
        Self(Arc::new(pairs.collect()))
    }

    /// Returns the use of a section's secrets, which is a new one if the section is not among them.
    pub(crate) fn of(&self, keys: SecretPairKeys) -> Arc<PairUse> {
        let known = self.0.get(&keys.previous).map(Arc::clone);
        known.unwrap_or_else(|| Arc::new(PairUse::new(keys, [0; 32])))
    }

    /// Returns the keyed hash of the previous secret of a key.
    pub fn hash(&self, key: &str) -> Option<[u8; 32]> {
        Some(self.0.get(key)?.hash)
    }

    /// Refuses the previous secret of a key from now on.
    pub fn retire(&self, key: &str, at: Timestamp) {
        if let Some(pair) = self.0.get(key) {
            // The first time stands.
            pair.retired_at.get_or_init(|| at);
        }
    }

    /// Returns the keys of the previous secrets, sorted.
    pub fn previous_keys(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// Returns the key of the previous secret beside which a secret is the current one.
    pub fn previous_of(&self, current: &str) -> Option<&str> {
        let mut pairs = self.0.values();
        let pair = pairs.find(|pair| pair.keys.current == current)?;
        Some(pair.keys.previous.as_str())
    }

    /// Returns the use of every secret, the current one of a section first.
    pub fn uses(&self) -> Vec<SecretUse> {
        self.0.values().flat_map(|pair| pair.uses()).collect()
    }
}

impl PairUse {
    fn new(keys: SecretPairKeys, hash: [u8; 32]) -> Self {
        Self {
            keys,
            hash,
            retired_at: OnceLock::new(),
            current: Mutex::default(),
            previous: Mutex::default(),
        }
    }

    pub(super) fn previous_key(&self) -> &str {
        &self.keys.previous
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired_at.get().is_some()
    }

    pub(super) fn record_current(&self, at: Timestamp) {
        record(&self.current, at);
    }

    pub(super) fn record_previous(&self, at: Timestamp) {
        record(&self.previous, at);
    }

    fn uses(&self) -> [SecretUse; 2] {
        let previous = match self.retired_at.get() {
            Some(at) => SecretState::Retired { retired_at: *at },
            None => SecretState::Previous,
        };
        [
            (&self.keys.current, SecretState::Current, &self.current),
            (&self.keys.previous, previous, &self.previous),
        ]
        .map(|(key, state, requests)| SecretUse {
            key: key.clone(),
            section: self.keys.section.clone(),
            state,
            requests: *requests.lock().unwrap_or_else(PoisonError::into_inner),
        })
    }
}

fn record(requests: &Mutex<SignedRequests>, at: Timestamp) {
    let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
    requests.count = requests.count.saturating_add(1);
    requests.first_seen.get_or_insert(at);
    requests.last_used = Some(at);
}
