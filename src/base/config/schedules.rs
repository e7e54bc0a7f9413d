//! `[schedules.<name>]`: work that begins at set times. It is a request in words, or the pipelines of a repository with their
//! own times.

use crate::base::config::hooks::grants;
use crate::base::config::reader::SettingsReader;
use crate::base::model::{Account, ChatPlace, MissedRule, ScheduleDefinition};
use crate::base::recurrence::{Recurrence, RecurrenceError, is_zone};
use crate::base::webhook::Grants;
use std::collections::BTreeMap;

/// `[schedules.<name>]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleSettings {
    /// `when`, `zone`, `words`, `repository`, `post_to`, `missed` and `quiet`. If pipelines are started, the times and the
    /// words are empty: each trigger has its own times.
    pub definition: ScheduleDefinition,
    /// `pipelines`: the pipelines of the repository start at the times of their triggers.
    pub starts_pipelines: bool,
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
    refuse_shared_pipelines(reader, &schedules);
    schedules
}

/// Refuses a second schedule for the pipelines of a repository, because they would start twice.
fn refuse_shared_pipelines(reader: &mut SettingsReader<'_>, schedules: &BTreeMap<String, ScheduleSettings>) {
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, settings) in schedules.iter().filter(|(_, settings)| settings.starts_pipelines) {
        if let Some(other) = first.insert(&settings.definition.repository, name) {
            let why = format!("[schedules.{other}] starts the pipelines of this repository already");
            reader.problem(&format!("schedules.{name}.pipelines"), why);
        }
    }
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

/// A request in words and its times. All of it is empty if pipelines are started.
#[derive(Debug, Default)]
struct TimedRequest {
    when: String,
    zone: String,
    words: String,
}

fn schedule(reader: &mut SettingsReader<'_>, section: &str) -> Option<ScheduleSettings> {
    let starts_pipelines = reader.boolean(&format!("{section}.pipelines"));
    let request = match starts_pipelines {
        true => {
            refuse_request(reader, section);
            Some(TimedRequest::default())
        }
        false => request(reader, section),
    };
    let repository = reader.reference(&format!("{section}.repository"), "repositories");
    let channel = reader.reference(&format!("{section}.post_to.channel"), "channels");
    let chat = reader.text(&format!("{section}.post_to.chat"));
    let rules = [("once", MissedRule::Once), ("skip", MissedRule::Skip)];
    let missed = reader.choice(&format!("{section}.missed"), &rules);
    let quiet = reader.boolean(&format!("{section}.quiet"));
    let grants = grants(reader, section);
    let TimedRequest { when, zone, words } = request?;
    Some(ScheduleSettings {
        definition: ScheduleDefinition {
            when,
            zone,
            words,
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
            pipeline: None,
        },
        starts_pipelines,
        grants,
    })
}

/// Reads the request of a schedule, with its times.
fn request(reader: &mut SettingsReader<'_>, section: &str) -> Option<TimedRequest> {
    let zone_key = format!("{section}.zone");
    let zone = match reader.text(&zone_key) {
        Some(zone) => {
            check_zone(reader, &zone_key, &zone);
            zone
        }
        None => reader.text("server.zone").unwrap_or_default(),
    };
    let when = needed(reader, section, "when");
    // The zone has its own problem.
    if let Some(Err(why)) = when.as_deref().map(Recurrence::check) {
        reader.problem(&format!("{section}.when"), why.without_text());
    }
    let words = needed(reader, section, "words");
    Some(TimedRequest {
        when: when?,
        zone,
        words: words?,
    })
}

/// Reads a text that every schedule with a request has.
fn needed(reader: &mut SettingsReader<'_>, section: &str, key: &str) -> Option<String> {
    let path = format!("{section}.{key}");
    // A refused `pipelines` does not say which keys are required.
    if !reader.is_set(&path) && !reader.refused(&format!("{section}.pipelines")) {
        reader.problem(&path, "is required, unless pipelines = true");
    }
    reader.text(&path)
}

/// Refuses the keys of a request in a section that starts pipelines.
fn refuse_request(reader: &mut SettingsReader<'_>, section: &str) {
    for key in ["when", "zone", "words"] {
        let path = format!("{section}.{key}");
        if reader.is_set(&path) {
            let why =
                "is not for pipelines = true, where each trigger has its own times; remove one of the two";
            reader.problem(&path, why);
        }
    }
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
        let missing = load(&NIGHTLY.replacen("when = \"weekdays 02:30\"\n", "", 1)).unwrap_err();
        let why = "drydock.toml:1: schedules.nightly.when: is required, unless pipelines = true";
        assert!(missing.contains(why), "{missing}");
        let refused = load(&format!("[server]\nzone = \"Mars\"\n{NIGHTLY}")).unwrap_err();
        assert!(
            refused.contains("drydock.toml:2: server.zone: no known time zone"),
            "{refused}"
        );
    }

    #[test]
    fn a_schedule_starts_pipelines_or_makes_a_request_and_a_repository_has_one_that_starts_them() {
        let pipelines = "[schedules.pipelines]\npipelines = true\nrepository = \"infra\"\n\
            post_to = { channel = \"team\", chat = \"C1\" }\n";
        let settings = load(pipelines).unwrap();
        let schedule = &settings.schedules["pipelines"];
        assert!(schedule.starts_pipelines && !load(NIGHTLY).unwrap().schedules["nightly"].starts_pipelines);
        assert_eq!(
            (schedule.definition.when.as_str(), schedule.definition.quiet),
            ("", true)
        );
        let always = pipelines.replacen("repository", "quiet = false\nrepository", 1);
        assert!(!load(&always).unwrap().schedules["pipelines"].definition.quiet);
        for key in ["when = \"daily 09:00\"", "words = \"Look.\"", "zone = \"UTC\""] {
            let mixed = pipelines.replacen("repository", &format!("{key}\nrepository"), 1);
            let refused = load(&mixed).unwrap_err();
            let name = key.split(' ').next().unwrap();
            let problem = format!("drydock.toml:3: schedules.pipelines.{name}: is not for pipelines = true");
            assert!(refused.contains(&problem), "{refused}");
        }
        let twice = format!(
            "{pipelines}{}",
            pipelines.replace("schedules.pipelines", "schedules.again")
        );
        let refused = load(&twice).unwrap_err();
        let problem = "schedules.pipelines.pipelines: [schedules.again] starts the pipelines of this repository already";
        assert!(refused.contains(problem), "{refused}");
    }
}
