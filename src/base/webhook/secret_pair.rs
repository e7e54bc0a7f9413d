//! A webhook whose secret is being replaced: it accepts requests that are signed with the current secret or, until that one is
//! retired, with the previous one. The log tells the operator whether the previous one is still used.

use super::secret_use::PairUse;
use super::{Received, Rejected, Webhook};
use bytes::Bytes;
use http::Request;
use jiff::Timestamp;
use std::sync::{Arc, Mutex, PoisonError};

/// The seconds for which there is at most one log line.
const LOG_LINE_SECONDS: i64 = 3_600;

/// Two webhooks of the same name, one for each secret.
pub(crate) struct SecretPair {
    pair: Arc<PairUse>,
    current: Arc<dyn Webhook>,
    previous: Arc<dyn Webhook>,
    usage: Mutex<PreviousSecretUsage>,
}

/// The requests that were signed with a previous secret.
#[derive(Debug, Default)]
struct PreviousSecretUsage {
    /// The requests since the last log line.
    unlogged: u64,
    /// The time of the last log line.
    logged_at: Option<Timestamp>,
}

impl SecretPair {
    pub(crate) fn new(pair: Arc<PairUse>, current: Arc<dyn Webhook>, previous: Arc<dyn Webhook>) -> Self {
        Self {
            pair,
            current,
            previous,
            usage: Mutex::default(),
        }
    }

    fn record_previous(&self, at: Timestamp) {
        self.pair.record_previous(at);
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = usage.count(at) else {
            return;
        };
        let key = self.pair.previous_key();
        tracing::warn!(
            key,
            count,
            "requests were signed with `{key}`; when this line has not appeared for as long as the sender may repeat a \
             request, `drydock secrets retire {key}` refuses the secret at once"
        );
    }

    /// Counts a request if the current secret verified it. The content type is checked before the signature.
    fn record_current(&self, received: &Result<Received, Rejected>, at: Timestamp) {
        if !matches!(
            received,
            Err(Rejected::Unauthenticated(_) | Rejected::Unsupported(_))
        ) {
            self.pair.record_current(at);
        }
    }
}

impl Webhook for SecretPair {
    /// Verifies a request with both secrets, also if the first one is right, so that the time tells neither which one
    /// was right nor whether a guess was close to one of them. A retired secret verifies nothing any more.
    fn receive(&self, request: &Request<Bytes>, at: Timestamp) -> Result<Received, Rejected> {
        let current = self.current.receive(request, at);
        if self.pair.is_retired() {
            self.record_current(&current, at);
            return current;
        }
        let previous = self.previous.receive(request, at);
        match (&current, &previous) {
            (Err(Rejected::Unauthenticated(_)), Err(Rejected::Unauthenticated(_))) => current,
            (Err(Rejected::Unauthenticated(_)), _) => {
                self.record_previous(at);
                previous
            }
            _ => {
                self.record_current(&current, at);
                current
            }
        }
    }

    fn acknowledgement(&self, request: &Request<Bytes>) -> Option<String> {
        self.current.acknowledgement(request)
    }
}

impl PreviousSecretUsage {
    /// Counts a request. Returns the number to log, at most once an hour.
    fn count(&mut self, at: Timestamp) -> Option<u64> {
        self.unlogged += 1;
        let is_due = self
            .logged_at
            .is_none_or(|logged| at.as_second().saturating_sub(logged.as_second()) >= LOG_LINE_SECONDS);
        if !is_due {
            return None;
        }
        self.logged_at = Some(at);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::PreviousSecretUsage;
    use crate::base::model::{Role, Secret};
    use crate::base::webhook::{
        Grants, HookChange, HookScheme, HookSettings, PostTo, Received, Rejected, SecretPairKeys,
        SecretPairs, SecretState, SecretUse, SignedRequests, Webhook, hook_webhook,
    };
    use bytes::Bytes;
    use http::Request;
    use jiff::Timestamp;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    const BODY: &str = r#"{"event":"release"}"#;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn hook(scheme: HookScheme, secret: &str, previous: Option<&str>) -> Arc<dyn Webhook> {
        hook_of(scheme, secret, previous, &SecretPairs::default())
    }

    fn hook_of(
        scheme: HookScheme,
        secret: &str,
        previous: Option<&str>,
        pairs: &SecretPairs,
    ) -> Arc<dyn Webhook> {
        let secret_of = |text: &str| Secret::new(text.to_owned());
        let settings = HookSettings {
            scheme,
            secret: secret_of(secret),
            previous_secret: previous.map(secret_of),
            events: Vec::new(),
            sources: Vec::new(),
            repository: "infra".to_owned(),
            prompt: "hooks/release.md".to_owned(),
            fields: BTreeMap::new(),
            starts_pipelines: false,
            change: HookChange::New,
            comments: None,
            post_to: PostTo {
                channel: "team".to_owned(),
                chat: "C0OPS".to_owned(),
            },
            grants: Grants {
                role: Role::Editor,
                environments: vec!["**".to_owned()],
            },
        };
        hook_webhook("release", &settings, pairs)
    }

    /// Returns a request that is signed for each of the secrets.
    fn signed(scheme: HookScheme, secrets: &[&str], body: &str) -> Request<Bytes> {
        let mut request = Request::post("/in/release").header("content-type", "application/json");
        for (index, secret) in secrets.iter().enumerate() {
            let headers = (scheme.definition().sign)(secret, body.as_bytes(), at(0)).into_iter();
            for (name, value) in headers.take(if index == 0 { usize::MAX } else { 1 }) {
                request = request.header(name, value);
            }
        }
        request.body(Bytes::copy_from_slice(body.as_bytes())).unwrap()
    }

    /// T22
    #[test]
    fn the_previous_secret_of_a_hook_is_accepted_beside_the_current_one_until_it_is_removed() {
        for scheme in HookScheme::ALL {
            let both = hook(*scheme, "the new secret", Some("the old secret"));
            let is_accepted = |webhook: &Arc<dyn Webhook>, secret: &str| {
                let received = webhook.receive(&signed(*scheme, &[secret], BODY), at(0));
                match received {
                    Ok(Received::Inbound(_)) => true,
                    Err(Rejected::Unauthenticated("hook.forged")) => false,
                    other => panic!("{other:?}"),
                }
            };
            assert!(is_accepted(&both, "the new secret"), "{scheme:?}");
            assert!(is_accepted(&both, "the old secret"), "{scheme:?}");
            assert!(!is_accepted(&both, "a third secret"), "{scheme:?}");
            let one = hook(*scheme, "the new secret", None);
            assert!(is_accepted(&one, "the new secret"), "{scheme:?}");
            assert!(!is_accepted(&one, "the old secret"), "{scheme:?}");
        }
    }

    /// T22
    #[test]
    fn a_retired_secret_is_refused_at_once_and_requests_are_counted_for_each_secret() {
        for scheme in HookScheme::ALL {
            let pairs = SecretPairs::new([(SecretPairKeys::of_hook("release"), [1; 32])]);
            // A channel has a second webhook until it is connected.
            let webhooks =
                [(); 2].map(|()| hook_of(*scheme, "the new secret", Some("the old secret"), &pairs));
            let is_accepted = |secret: &str| {
                webhooks
                    .each_ref()
                    .map(|webhook| webhook.receive(&signed(*scheme, &[secret], BODY), at(0)).is_ok())
            };
            assert_eq!(is_accepted("the old secret"), [true; 2]);
            pairs.retire("hooks.other.previous_secret", at(1));
            assert_eq!(is_accepted("the old secret"), [true; 2]);
            for second in [2, 3] {
                pairs.retire("hooks.release.previous_secret", at(second));
                assert_eq!(is_accepted("the old secret"), [false; 2]);
                assert_eq!(is_accepted("the new secret"), [true; 2]);
            }
            assert_eq!(is_accepted("a third secret"), [false; 2]);
            let requests = SignedRequests {
                count: 4,
                first_seen: Some(at(0)),
                last_used: Some(at(0)),
            };
            let of = |key: &str, state| SecretUse {
                key: format!("hooks.release.{key}"),
                section: "hook release".to_owned(),
                state,
                requests,
            };
            let retired = SecretState::Retired { retired_at: at(2) };
            let expected = [of("secret", SecretState::Current), of("previous_secret", retired)];
            assert_eq!(pairs.uses(), expected);
            let text = serde_json::to_string(&expected).unwrap();
            let read: Vec<SecretUse> = serde_json::from_str(&text).unwrap();
            assert_eq!(read, expected);
        }
    }

    /// T22
    #[test]
    fn two_signatures_are_refused_even_if_each_is_for_one_of_the_two_secrets() {
        for scheme in HookScheme::ALL {
            let both = hook(*scheme, "the new secret", Some("the old secret"));
            for secrets in [
                ["the new secret", "the old secret"],
                ["the old secret", "the new secret"],
            ] {
                let received = both.receive(&signed(*scheme, &secrets, BODY), at(0));
                let repeated = Rejected::Unauthenticated("a signature header is repeated");
                assert_eq!(received, Err(repeated), "{scheme:?}");
            }
        }
    }

    /// T22
    #[test]
    fn a_request_that_the_previous_secret_signed_too_long_ago_is_refused() {
        let both = hook(HookScheme::Generic, "the new secret", Some("the old secret"));
        let request = signed(HookScheme::Generic, &["the old secret"], BODY);
        let stale = Rejected::Stale { seconds: -301 };
        assert_eq!(both.receive(&request, at(301)), Err(stale));
        assert!(both.receive(&request, at(300)).is_ok());
    }

    /// T22
    #[test]
    fn requests_with_the_previous_secret_are_one_log_line_an_hour_with_their_count() {
        let mut usage = PreviousSecretUsage::default();
        let counts: Vec<(i64, u64)> = (0..10_000)
            .filter_map(|second| Some((second, usage.count(at(second))?)))
            .collect();
        assert_eq!(counts, [(0, 1), (3_600, 3_600), (7_200, 3_600)]);
    }
}
