//! The words of `schedule`, and the times that a person may choose.

use crate::base::recurrence::{Recurrence, nearest_zone, spelled_zone};
use jiff::{SignedDuration, Timestamp};

pub(in crate::engine::gateway) const USAGE: &str = "Write `!schedule add NAME \"weekdays 09:00\" \"what I should do\"`, or `!schedule` with `list`, `history`, \
     `trigger`, `disable`, `enable` or `remove` and the name.";
/// The shortest time between two fires of a person's schedule.
const INTERVAL_MIN: SignedDuration = SignedDuration::from_mins(5);
/// The most characters of a name.
const NAME_CHARS_MAX: usize = 32;

/// A request about the schedules of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine::gateway) enum ScheduleRequest {
    /// Lists all.
    List,
    /// Adds one, after a confirmation.
    Add {
        name: String,
        when: String,
        /// The time zone, if it was named after the times.
        zone: Option<String>,
        words: String,
        quiet: bool,
    },
    /// Is about the one of this name.
    About(ScheduleVerb, String),
}

/// A request about one schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::gateway) enum ScheduleVerb {
    History,
    Trigger,
    Disable,
    Enable,
    Remove,
}

/// Parses the words after `schedule`. An error is a text for the person.
pub(in crate::engine::gateway) fn parse(arguments: &str) -> Result<ScheduleRequest, String> {
    let (word, rest) = first_word(arguments);
    let verb = match word.to_ascii_lowercase().as_str() {
        "" | "list" if rest.is_empty() => return Ok(ScheduleRequest::List),
        "add" => return add(rest),
        "history" => ScheduleVerb::History,
        "trigger" => ScheduleVerb::Trigger,
        "disable" => ScheduleVerb::Disable,
        "enable" => ScheduleVerb::Enable,
        "remove" => ScheduleVerb::Remove,
        _ => return Err(USAGE.to_owned()),
    };
    Ok(ScheduleRequest::About(verb, name(rest)?))
}

/// Parses `NAME "TIMES" "WORDS" [quiet]`.
fn add(text: &str) -> Result<ScheduleRequest, String> {
    let (word, rest) = first_word(text);
    let name = name(word)?;
    let (when, rest) = quoted(rest).ok_or(USAGE)?;
    let (words, rest) = quoted(rest).ok_or(USAGE)?;
    let quiet = match rest {
        "" => false,
        rest if rest.eq_ignore_ascii_case("quiet") => true,
        _ => return Err(USAGE.to_owned()),
    };
    if words.trim().is_empty() {
        return Err(format!("Say what I should do at these times. {USAGE}"));
    }
    let (when, zone) = times_and_zone(when.trim())?;
    Ok(ScheduleRequest::Add {
        name,
        when,
        zone,
        words: words.trim().to_owned(),
        quiet,
    })
}

/// Splits the time zone off recurring times, if they end with one. An error is a text for the person.
fn times_and_zone(when: &str) -> Result<(String, Option<String>), String> {
    let without_zone = || (when.to_owned(), None);
    let Some((times, zone)) = when.rsplit_once(char::is_whitespace) else {
        return Ok(without_zone());
    };
    match spelled_zone(zone) {
        Ok(_) => Ok((times.trim().to_owned(), Some(zone.to_owned()))),
        // A field of a cron expression can have a `/`, but no times are left without it.
        Err(why) if zone.contains('/') && Recurrence::check(times).is_ok() => {
            let hint = nearest_zone(zone).map(|nearest| format!(" Did you mean `{nearest}`?"));
            Err(format!("{why}.{}", hint.unwrap_or_default()))
        }
        Err(_) => Ok(without_zone()),
    }
}

fn name(text: &str) -> Result<String, String> {
    let name = text.trim_matches(['`', '"']).to_ascii_lowercase();
    let fits = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || matches!(char, '-' | '_');
    match (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(fits) {
        true => Ok(name),
        false if name.is_empty() => Err(USAGE.to_owned()),
        false => Err(format!(
            "The name of a schedule has 1 to {NAME_CHARS_MAX} of a-z, 0-9, - and _. {USAGE}"
        )),
    }
}

fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

/// Returns the text in the quotation marks at the beginning, which a phone may have made typographic, and the rest.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let is_mark = |char: char| matches!(char, '"' | '“' | '”' | '„');
    let (inside, rest) = text.strip_prefix(is_mark)?.split_once(is_mark)?;
    Some((inside, rest.trim()))
}

/// Returns the recurring times of a person's schedule. An error is a text for the person.
pub(in crate::engine::gateway) fn own_times(
    when: &str,
    zone: &str,
    at: Timestamp,
) -> Result<Recurrence, String> {
    let recurrence = Recurrence::parse(when, zone).map_err(|why| format!("{why}."))?;
    match recurrence.is_closer_than(INTERVAL_MIN, at) {
        true => Err(format!(
            "`{when}` is too often: at least {} minutes are between two times.",
            INTERVAL_MIN.as_mins()
        )),
        false => Ok(recurrence),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{ScheduleRequest, ScheduleVerb, own_times, parse};
    use jiff::Timestamp;

    #[test]
    fn a_request_is_read_however_its_quotation_marks_are_written() {
        let add = |zone: Option<&str>, quiet| ScheduleRequest::Add {
            name: "nightly".to_owned(),
            when: "weekdays 09:00".to_owned(),
            zone: zone.map(str::to_owned),
            words: "infra: look for old images".to_owned(),
            quiet,
        };
        for (text, expected) in [
            (
                "add nightly \"weekdays 09:00\" \"infra: look for old images\"",
                add(None, false),
            ),
            (
                "Add `nightly`  “weekdays 09:00”  „infra: look for old images“ quiet",
                add(None, true),
            ),
            (
                "add nightly \"weekdays 09:00 Europe/Berlin\" \"infra: look for old images\"",
                add(Some("Europe/Berlin"), false),
            ),
            ("", ScheduleRequest::List),
            (" list ", ScheduleRequest::List),
            (
                "remove nightly",
                ScheduleRequest::About(ScheduleVerb::Remove, "nightly".to_owned()),
            ),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for wrong in [
            "nightly",
            "remove",
            "remove a b",
            "list all",
            "add nightly weekdays 09:00 words",
            "add nightly \"weekdays 09:00\"",
            "add nightly \"weekdays 09:00\" \"\"",
            "add nightly \"weekdays 09:00\" \"words\" \"more\"",
            "add ../x \"weekdays 09:00\" \"words\"",
        ] {
            assert!(
                parse(wrong).unwrap_err().contains("Write `!schedule add NAME"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_mistyped_time_zone_after_the_times_is_named() {
        let refused = |when: &str| parse(&format!("add nightly \"{when}\" \"words\"")).unwrap_err();
        assert_eq!(
            refused("weekdays 09:00 Europe/Berlinn"),
            "`Europe/Berlinn` is no known time zone; use a name such as Europe/Berlin, America/New_York or UTC. Did you mean \
             `Europe/Berlin`?"
        );
        assert!(refused("30 8 * * 1-5 Mars/Base").starts_with("`Mars/Base` is no known time zone"));
        // The last field of a cron expression is no zone.
        assert!(parse("add nightly \"30 8 * * 1-5/2\" \"words\"").is_ok());
    }

    #[test]
    fn a_person_has_at_least_five_minutes_between_two_times() {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        assert!(own_times("every 5m", "UTC", at).is_ok());
        let refused = own_times("every 4m", "UTC", at).unwrap_err();
        assert_eq!(
            refused,
            "`every 4m` is too often: at least 5 minutes are between two times."
        );
    }
}
