//! Requests that were not signed with the secret of their channel or hook: who sends them hears 401 and no reason, so
//! the operator has to see that the two sides have different secrets.

use crate::config::{ChannelSettings, Config};
use crate::health::{Health, Severity};
use crate::http::NAME_UNKNOWN;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// So many in a row, with no authentic one between them, may be somebody else's.
const IN_A_ROW_MAX: u32 = 2;

/// Refused requests, by the name of a channel or hook.
pub(super) struct Refusals {
    health: Health,
    /// The key that holds each secret.
    secrets: BTreeMap<String, String>,
    refused: Mutex<BTreeMap<String, Refused>>,
}

#[derive(Debug, Default)]
struct Refused {
    in_a_row: u32,
    /// Since the last line of the log.
    unlogged: u64,
    /// The minute of that line.
    minute: Option<i64>,
}

impl Refused {
    /// The number of those refused in a row, and of those to be logged now, which is once a minute.
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
        let channels = config.channels.iter().map(|(name, settings)| {
            let key = match settings {
                ChannelSettings::Slack(_) => "signing_secret",
                ChannelSettings::Telegram(_) => "secret_token",
            };
            (name.clone(), format!("channels.{name}.{key}"))
        });
        let hooks = config
            .hooks
            .keys()
            .map(|name| (name.clone(), format!("hooks.{name}.secret")));
        Self {
            health,
            secrets: channels.chain(hooks).collect(),
            refused: Mutex::default(),
        }
    }

    /// One more was refused. A name is a configured one or [`NAME_UNKNOWN`], so that there is a bound to them.
    pub(super) fn refused(&self, name: &str, reason: &str, at: Timestamp) {
        // Held until it is told: one that is authentic meanwhile takes it back.
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
                "requests to /in/{name} were refused: {reason}; is `{secret}` the secret that its sender has?"
            );
        }
        if in_a_row > IN_A_ROW_MAX {
            let why = format!(
                "every request since the last good one was refused ({reason}); is `{secret}` the secret that its sender has?"
            );
            self.health.set(&of(name), Severity::Degraded, why);
        }
    }

    /// One was signed with the right secret, whatever it says.
    pub(super) fn authentic(&self, name: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(refused) = refused.get_mut(name)
            && std::mem::take(&mut refused.in_a_row) > IN_A_ROW_MAX
        {
            self.health.clear(&of(name));
        }
    }
}

fn of(name: &str) -> String {
    format!("secret of {name}")
}

/// A reason of the audit log in words.
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
    use super::{Refusals, Refused};
    use crate::config::{Config, Sources};
    use crate::health::{Health, Severity};
    use crate::http::NAME_UNKNOWN;
    use jiff::Timestamp;

    const TOML: &str = r#"[channels.team]
kind = "slack"
bot_token = { env = "TOKEN" }
signing_secret = { env = "SIGNING" }
[providers.anthropic]
api_key = { env = "SIGNING" }
"#;

    fn config() -> Config {
        let file = crate::config::SourceFile {
            path: "drydock.toml".into(),
            text: TOML.to_owned(),
        };
        let variables = [
            ("TOKEN", "xoxb-17653672481-abc"),
            ("SIGNING", "8f742231b10e8888abcd99"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let sources = Sources {
            file: Some(file),
            environment: variables.into_iter().collect(),
            flags: Vec::new(),
        };
        Config::load(sources).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// T12
    #[test]
    fn three_refusals_in_a_row_are_told_until_one_is_right() {
        let health = Health::default();
        let refusals = Refusals::new(&config(), health.clone());
        let told = || health.told(Severity::Degraded);
        for _ in 0..10 {
            refusals.refused("team", "hook.forged", at(0));
            refusals.refused("team", "hook.forged", at(0));
            refusals.refused(NAME_UNKNOWN, "hook.unknown", at(0));
            refusals.authentic("team");
        }
        assert_eq!(told(), [""; 0]);
        for _ in 0..3 {
            refusals.refused("team", "hook.forged", at(0));
        }
        let why = "secret of team: every request since the last good one was refused (the signature is wrong); is `channels.team.signing_secret` the secret that its sender has?";
        assert_eq!(told(), [why]);
        refusals.authentic("team");
        assert_eq!(told(), [""; 0]);
    }

    /// T12
    #[test]
    fn a_flood_is_one_line_a_minute_with_its_count() {
        let mut refused = Refused::default();
        let counts: Vec<u64> = (0..180)
            .flat_map(|second| [second; 10])
            .filter_map(|second| refused.count(at(second)).1)
            .collect();
        assert_eq!(counts, [1, 600, 600]);
    }
}
