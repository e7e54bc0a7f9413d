//! `[schedules.<name>]`: work that begins at set times.

use crate::base::config::hooks::grants;
use crate::base::config::reader::SettingsReader;
use crate::base::model::{Account, ChatPlace, MissedRule, ScheduleDefinition};
use crate::base::recurrence::{Recurrence, RecurrenceError, is_zone};
use crate::base::webhook::Grants;
use std::collections::BTreeMap;

/// `[schedules.<name>]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleSettings {
    /// `when`, `zone`, `words`, `repository`, `post_to`, `missed` and `quiet`.
    pub definition: ScheduleDefinition,
    /// `grants`: those of the service identity `schedule:<name>`.
    pub grants: Grants,
}

/// Reads all schedules.
pub(super) fn schedules(reader: &mut SettingsReader<'_>) -> BTreeMap<String, ScheduleSettings> {
    let mut schedules = BTreeMap::new();
    for name in reader.names("schedules") {
        let section = format!("schedules.{name}");
        schedules.extend(schedule(reader, &section).map(|schedule| (name, schedule)));
    }
    schedules
}

/// Reads `server.zone`.
pub(super) fn server_zone(reader: &mut SettingsReader<'_>) -> String {
    let zone = reader.text("server.zone").unwrap_or_default();
    check_zone(reader, "server.zone", &zone);
    zone
}

fn check_zone(reader: &mut SettingsReader<'_>, key: &str, zone: &str) {
    if !is_zone(zone) && !reader.refused(key) {
        reader.problem(key, RecurrenceError::Zone(zone.to_owned()).without_text());
    }
}

fn schedule(reader: &mut SettingsReader<'_>, section: &str) -> Option<ScheduleSettings> {
    let zone_key = format!("{section}.zone");
    let zone = match reader.text(&zone_key) {
        Some(zone) => {
            check_zone(reader, &zone_key, &zone);
            zone
        }
        None => reader.text("server.zone").unwrap_or_default(),
    };
    let when_key = format!("{section}.when");
    let when = reader.text(&when_key);
    // The zone has its own problem.
    let parsed = when.as_deref().map(|when| Recurrence::parse(when, "UTC"));
    if let Some(Err(why)) = parsed {
        reader.problem(&when_key, why.without_text());
    }
    let words = reader.text(&format!("{section}.words"));
    let repository = reader.reference(&format!("{section}.repository"), "repositories");
    let channel = reader.reference(&format!("{section}.post_to.channel"), "channels");
    let chat = reader.text(&format!("{section}.post_to.chat"));
    let rules = [("once", MissedRule::Once), ("skip", MissedRule::Skip)];
    let missed = reader.choice(&format!("{section}.missed"), &rules);
    let quiet = reader.boolean(&format!("{section}.quiet"));
    let grants = grants(reader, section);
    Some(ScheduleSettings {
        definition: ScheduleDefinition {
            when: when?,
            zone,
            words: words?,
            repository: repository?,
            channel: channel?,
            place: ChatPlace {
                account: Account::of_schedules(),
                chat: chat?,
                thread: None,
            },
            // A refused value makes loading fail, so this default is never used.
            missed: missed.unwrap_or(MissedRule::Once),
            quiet,
        },
        grants,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::base::config::{Config, ConfigSources, SourceFile};
    use crate::base::model::MissedRule;

    const NIGHTLY: &str = "[schedules.nightly]\nwhen = \"weekdays 02:30\"\nwords = \"Look for outdated images.\"\n\
        repository = \"infra\"\npost_to = { channel = \"team\", chat = \"C1\" }\n";
    const AROUND: &str = "[repositories.infra]\npath = \"/infra.git\"\n[channels.team]\nkind = \"slack\"\n\
        bot_token = { env = \"A_TOKEN\" }\nsigning_secret = { env = \"A_SECRET\" }\n";

    fn load(schedule: &str) -> Result<crate::base::config::OperatorSettings, String> {
        let file = SourceFile {
            path: "drydock.toml".into(),
            text: format!("{schedule}{AROUND}"),
        };
        let sources = ConfigSources {
            file: Some(file),
            ..ConfigSources::default()
        };
        Config::for_operator(sources).map_err(|error| error.to_string())
    }

    /// STK-8
    #[test]
    fn a_schedule_has_a_name_times_and_words() {
        let settings = load(NIGHTLY).unwrap();
        let nightly = &settings.schedules["nightly"].definition;
        assert_eq!(
            (nightly.zone.as_str(), nightly.missed, nightly.quiet),
            ("UTC", MissedRule::Once, true)
        );
        let zoned = load(&format!("[server]\nzone = \"Europe/Berlin\"\n{NIGHTLY}")).unwrap();
        assert_eq!(zoned.schedules["nightly"].definition.zone, "Europe/Berlin");
    }

    #[test]
    fn a_wrong_schedule_is_refused_with_its_line_and_its_key() {
        for (old, new, problem) in [
            (
                "weekdays 02:30",
                "weekdays 25:30",
                "drydock.toml:2: schedules.nightly.when: no time that recurs; write",
            ),
            (
                "weekdays 02:30",
                "0 0 31 2 *",
                "drydock.toml:2: schedules.nightly.when: these times never come",
            ),
            (
                "when =",
                "zone = \"Mars\"\nwhen =",
                "drydock.toml:2: schedules.nightly.zone: no known time zone",
            ),
            (
                "when =",
                "missed = \"all\"\nwhen =",
                "drydock.toml:2: schedules.nightly.missed",
            ),
            (
                "\"infra\"",
                "\"apps\"",
                "drydock.toml:4: schedules.nightly.repository: does not name one of the repositories",
            ),
            ("\"team\"", "\"teem\"", "did you mean team?"),
            ("words = ", "wrods = ", "schedules.nightly.wrods"),
            (
                "[schedules.nightly]",
                "[schedules.at_night]",
                "drydock.toml:1: schedules.at_night: a name is 1 to 32 of a-z, 0-9 and -",
            ),
        ] {
            let refused = load(&NIGHTLY.replacen(old, new, 1)).unwrap_err();
            assert!(refused.contains(problem), "{refused}");
        }
        let refused = load(&format!("[server]\nzone = \"Mars\"\n{NIGHTLY}")).unwrap_err();
        assert!(
            refused.contains("drydock.toml:2: server.zone: no known time zone"),
            "{refused}"
        );
    }
}
