//! Counts requests that were not signed with the secret of their channel or hook. The sender gets only status 401
//! without a reason, so the operator must be able to see that the two sides have different secrets.

use crate::base::config::Config;
use crate::base::health::{Health, HealthSeverity};
use crate::base::webhook::{SECRET_MISMATCH_REASONS, STALE_REASON};
use crate::server::http::NAME_UNKNOWN;
use crate::state::store::IngressActivity;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The number of refused requests in a row, with no authentic one between them, that may come from a third party.
const IN_A_ROW_MAX: u32 = 2;

/// Refused requests, by the name of a channel or hook.
pub(super) struct Refusals {
    health: Health,
    /// The configuration key of each secret.
    secrets: BTreeMap<String, String>,
    refused: Mutex<BTreeMap<String, RefusalCounts>>,
}

#[derive(Debug, Default)]
struct RefusalCounts {
    in_a_row: u32,
    /// Refused requests since the last log line.
    unlogged: u64,
    /// The minute of the last log line.
    minute: Option<i64>,
}

impl RefusalCounts {
    /// Counts a refused request. Returns the number of refused requests in a row and, at most once a minute, the
    /// number to log.
    fn count(&mut self, at: Timestamp) -> (u32, Option<u64>) {
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.unlogged += 1;
        let minute = Some(at.as_second() / 60);
        let is_due = self.minute != minute;
        self.minute = minute;
        (self.in_a_row, is_due.then(|| std::mem::take(&mut self.unlogged)))
    }
}

impl Refusals {
    pub(super) fn new(config: &Config, health: Health) -> Self {
        Self {
            health,
            secrets: secrets(config),
            refused: Mutex::default(),
        }
    }

    /// Records a refused request. The name is a configured one or [`NAME_UNKNOWN`], so the number of names is
    /// bounded.
    pub(super) fn record_refused(&self, name: &str, reason: &str, at: Timestamp) {
        // The lock is held until the health register is updated: an authentic request in the meantime must be able to
        // clear it.
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let (in_a_row, unlogged) = refused.entry(name.to_owned()).or_default().count(at);
        let Some(secret) = self.secrets.get(name) else {
            if let Some(count) = unlogged {
                let name = NAME_UNKNOWN;
                tracing::info!(
                    name,
                    count,
                    "requests to names that are not configured were refused"
                );
            }
            return;
        };
        let reason = words(reason);
        if let Some(count) = unlogged {
            tracing::warn!(
                name,
                count,
                reason,
                "requests to /in/{name} were refused: {reason}; check that `{secret}` is the secret of its sender"
            );
        }
        if in_a_row > IN_A_ROW_MAX {
            let why = format!(
                "every request since the last accepted one was refused ({reason}); check that `{secret}` is the \
                 secret of its sender"
            );
            self.health.set(&health_key(name), HealthSeverity::Degraded, why);
        }
    }

    /// Records a request that was signed with the right secret, whatever its content.
    pub(super) fn record_authentic(&self, name: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(refused) = refused.get_mut(name)
            && std::mem::take(&mut refused.in_a_row) > IN_A_ROW_MAX
        {
            self.health.clear(&health_key(name));
        }
    }
}

/// Returns the configuration key of the secret of each channel and hook, by name.
fn secrets(config: &Config) -> BTreeMap<String, String> {
    let channels = config.channels.iter().map(|(name, settings)| {
        let key = settings.common().webhook_secret_key();
        (name.clone(), format!("channels.{name}.{key}"))
    });
    let hooks = config
        .hooks
        .keys()
        .map(|name| (name.clone(), format!("hooks.{name}.secret")));
    channels.chain(hooks).collect()
}

/// Returns the names whose newest requests were all refused because of their secret, each with an explanation.
/// Requests before the last accepted message on record do not count. Messages of unknown senders and invites are
/// recorded without the name of a channel, so they are not found here.
pub(crate) fn secret_mismatches(config: &Config, activity: &IngressActivity) -> Vec<(String, String)> {
    let secrets = secrets(config);
    let mismatches = secrets.iter().filter_map(|(name, secret)| {
        let since = activity.accepted.get(name);
        let of_name = activity.rejected.iter().filter(|turned| turned.name == *name);
        let judged = of_name.filter(|turned| turned.reason != STALE_REASON);
        let mut in_a_row = judged.take_while(|turned| {
            SECRET_MISMATCH_REASONS.contains(&turned.reason.as_str()) && since.is_none_or(|since| turned.at > *since)
        });
        let newest = in_a_row.next()?;
        let count = 1 + in_a_row.count();
        let (reason, at) = (words(&newest.reason), newest.at);
        let why = format!(
            "at least {count} requests were refused since the last recorded accepted one, the last at {at:.0}: \
             {reason}; check that `{secret}` is the secret of its sender. The next accepted request clears this"
        );
        (u32::try_from(count).unwrap_or(u32::MAX) > IN_A_ROW_MAX).then(|| (health_key(name), why))
    });
    mismatches.collect()
}

fn health_key(name: &str) -> String {
    format!("secret of {name}")
}

/// Returns a reason of the audit log in words.
fn words(reason: &str) -> &str {
    match reason {
        "hook.forged" => "the signature is wrong",
        "hook.malformed" => "the signature is malformed",
        "hook.mixed" => "the headers are of two schemes",
        "hook.stale" => "the time is not readable",
        reason => reason,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{RefusalCounts, Refusals, secret_mismatches};
    use crate::base::config::{Config, ConfigSources};
    use crate::base::health::{Health, HealthSeverity};
    use crate::server::http::NAME_UNKNOWN;
    use crate::state::store::{IngressActivity, RejectedRequest};
    use jiff::Timestamp;

    const TOML: &str = r#"[channels.team]
kind = "slack"
bot_token = { env = "TOKEN" }
signing_secret = { env = "SIGNING" }
[providers.anthropic]
api_key = { env = "SIGNING" }
"#;

    fn config() -> Config {
        let file = crate::base::config::SourceFile {
            path: "drydock.toml".into(),
            text: TOML.to_owned(),
        };
        let variables = [
            ("TOKEN", "xoxb-17653672481-abc"),
            ("SIGNING", "8f742231b10e8888abcd99"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let sources = ConfigSources {
            file: Some(file),
            environment: variables.into_iter().collect(),
            ..ConfigSources::default()
        };
        Config::load(sources).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// T12
    #[test]
    fn three_refusals_in_a_row_degrade_health_until_a_request_is_authentic() {
        let health = Health::default();
        let refusals = Refusals::new(&config(), health.clone());
        let reasons = || health.reason_lines(HealthSeverity::Degraded);
        for _ in 0..10 {
            refusals.record_refused("team", "hook.forged", at(0));
            refusals.record_refused("team", "hook.forged", at(0));
            refusals.record_refused(NAME_UNKNOWN, "hook.unknown", at(0));
            refusals.record_authentic("team");
        }
        assert_eq!(reasons(), [""; 0]);
        for _ in 0..3 {
            refusals.record_refused("team", "hook.forged", at(0));
        }
        let why = "secret of team: every request since the last accepted one was refused (the signature is wrong); \
                   check that `channels.team.signing_secret` is the secret of its sender";
        assert_eq!(reasons(), [why]);
        refusals.record_authentic("team");
        assert_eq!(reasons(), [""; 0]);
    }

    /// T12
    #[test]
    fn a_flood_is_one_line_a_minute_with_its_count() {
        let mut refused = RefusalCounts::default();
        let counts: Vec<u64> = (0..180)
            .flat_map(|second| [second; 10])
            .filter_map(|second| refused.count(at(second)).1)
            .collect();
        assert_eq!(counts, [1, 600, 600]);
    }

    /// T12
    #[test]
    fn recorded_refusals_are_reported_only_since_the_last_authentic_request() {
        let turned = |second, reason: &str| RejectedRequest {
            name: "team".to_owned(),
            reason: reason.to_owned(),
            at: at(second),
        };
        let forged = |seconds: &[i64]| -> Vec<RejectedRequest> {
            seconds
                .iter()
                .map(|second| turned(*second, "hook.forged"))
                .collect()
        };
        let mismatches = |turned_away: Vec<RejectedRequest>, let_in: Option<i64>| {
            let let_in = let_in.map(|second| ("team".to_owned(), at(second)));
            let activity = IngressActivity {
                accepted: let_in.into_iter().collect(),
                rejected: turned_away,
            };
            secret_mismatches(&config(), &activity)
        };
        let why = "at least 3 requests were refused since the last recorded accepted one, the last at \
                   2027-01-15T08:00:09Z: the signature is wrong; check that `channels.team.signing_secret` is the \
                   secret of its sender. The next accepted request clears this";
        let expected = [("secret of team".to_owned(), why.to_owned())];
        assert_eq!(mismatches(forged(&[9, 8, 7]), None), expected);
        assert_eq!(mismatches(forged(&[9, 8, 7, 3]), Some(5)), expected);
        assert_eq!(mismatches(forged(&[9, 8]), None), []);
        assert_eq!(mismatches(forged(&[9, 8, 7]), Some(9)), []);
        // A request that was ignored had a valid signature; a request with a wrong time says nothing about the
        // secret.
        let ignored = |reason| {
            let mut rows = forged(&[9, 8, 7]);
            rows.insert(1, turned(8, reason));
            mismatches(rows, None)
        };
        assert_eq!(ignored("hook.ping"), []);
        assert_eq!(ignored("hook.stale"), expected);
    }
}
