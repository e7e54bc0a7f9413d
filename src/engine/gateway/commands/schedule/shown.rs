//! The schedules of a person and their fires, as lists.

use crate::base::model::{FireOutcome, Reply, ReplyPart, ScheduleDefinition, one_line, short_line};
use crate::base::recurrence::shown_in;
use crate::state::store::{ScheduleFire, ScheduleRow};
use jiff::Timestamp;

/// The most fires in one answer.
const FIRES_SHOWN_MAX: usize = 20;
/// The most characters of the reason of a failed fire.
const WHY_SHOWN_MAX: usize = 200;
/// The most characters of a request in a list.
const WORDS_SHOWN_MAX: usize = 80;

/// Returns times of a schedule as a person reads them: in their own zone, which is named if the schedule has another one, or
/// without one in that of the schedule.
pub(super) fn time_texts(times: &[Timestamp], own: Option<&str>, definition: &ScheduleDefinition) -> String {
    let of_schedule = definition.zone.as_str();
    let zone = own.unwrap_or(of_schedule);
    let times = times.iter();
    let texts = times.map(|time| shown_in(*time, zone).unwrap_or_else(|| time.to_string()));
    let texts = texts.collect::<Vec<_>>().join(", ");
    match zone.eq_ignore_ascii_case(of_schedule) {
        true => texts,
        false => format!("{texts} ({zone})"),
    }
}

/// Returns the schedules of a person, one in a line.
pub(super) fn list(schedules: &[ScheduleRow], own: Option<&str>) -> Reply {
    let rows = schedules
        .iter()
        .map(|row| (row.name.clone(), state_text(row, own)));
    Reply {
        parts: vec![ReplyPart::Facts { rows: rows.collect() }],
    }
}

/// Returns the times, the state and the last fire of a schedule in one line.
fn state_text(row: &ScheduleRow, own: Option<&str>) -> String {
    let definition = &row.definition;
    let state = match &row.off_why {
        Some(why) => format!("off: {why}"),
        None => format!("next {}", time_texts(&[row.due], own, definition)),
    };
    let last = row
        .last
        .as_ref()
        .map(|fire| format!(" · last {}", outcome_text(fire)));
    let words: String = one_line(&definition.words)
        .chars()
        .take(WORDS_SHOWN_MAX)
        .collect();
    format!(
        "{} {} · {state}{} · {words}",
        definition.when,
        definition.zone,
        last.unwrap_or_default()
    )
}

fn outcome_text(fire: &ScheduleFire) -> &'static str {
    fire.outcome.map_or("running", FireOutcome::word)
}

/// Returns the fires of a schedule, the newest first.
pub(super) fn history(row: &ScheduleRow, fires: &[ScheduleFire], own: Option<&str>) -> Reply {
    if fires.is_empty() {
        return Reply::text(format!("The schedule `{}` has not fired yet.", row.name));
    }
    let rows = fires.iter().take(FIRES_SHOWN_MAX).map(|fire| {
        let due = time_texts(&[fire.due], own, &row.definition);
        let outcome = outcome_text(fire);
        let why = fire.why.as_deref();
        let shown = why.map(|why| format!("{outcome}: {}", short_line(why, WHY_SHOWN_MAX)));
        (due, shown.unwrap_or_else(|| outcome.to_owned()))
    });
    Reply {
        parts: vec![ReplyPart::Facts { rows: rows.collect() }],
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::time_texts;
    use crate::base::model::{MissedRule, ScheduleDefinition};
    use crate::engine::gateway::fixture::address;
    use jiff::Timestamp;

    #[test]
    fn times_are_shown_in_the_zone_of_the_person_which_is_named_if_that_of_the_schedule_is_another_one() {
        let definition = |zone: &str| ScheduleDefinition {
            when: "daily 09:00".to_owned(),
            zone: zone.to_owned(),
            words: "please".to_owned(),
            repository: "infra".to_owned(),
            channel: "team".to_owned(),
            place: address().place,
            missed: MissedRule::Once,
            quiet: false,
            pipeline: None,
        };
        let times = ["2027-03-27T08:00:00Z", "2027-03-28T07:00:00Z"];
        let times: [Timestamp; 2] = times.map(|time| time.parse().unwrap());
        let berlin = "Sat 27 Mar 2027 09:00, Sun 28 Mar 2027 09:00";
        let tokyo = "Sat 27 Mar 2027 17:00, Sun 28 Mar 2027 16:00 (Asia/Tokyo)";
        for (own, of_schedule, expected) in [
            (None, "Europe/Berlin", berlin),
            (Some("Europe/Berlin"), "Europe/Berlin", berlin),
            (Some("Asia/Tokyo"), "Europe/Berlin", tokyo),
            // A zone that the system does not know any more.
            (None, "Mars/Base", "2027-03-27T08:00:00Z, 2027-03-28T07:00:00Z"),
        ] {
            assert_eq!(
                time_texts(&times, own, &definition(of_schedule)),
                expected,
                "{own:?}"
            );
        }
    }
}
