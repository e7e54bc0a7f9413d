//! The check of schedules. This is the only place that decides which expressions and time zones are accepted.

/// A problem of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleProblem {
    /// The key: `cron` or `time_zone`.
    pub key: &'static str,
    /// The problem, and what to write instead.
    pub message: String,
}

/// The fields of an expression, with their least and largest number and their names.
const FIELDS: [(&str, u32, u32, &[&str]); 5] = [
    ("minute", 0, 59, &[]),
    ("hour", 0, 23, &[]),
    ("day of the month", 1, 31, &[]),
    (
        "month",
        1,
        12,
        &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    ),
    (
        "day of the week",
        0,
        7,
        &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    ),
];

/// Checks a cron expression of five fields, and the name of a time zone.
pub fn check_schedule(cron: &str, time_zone: &str) -> Result<(), ScheduleProblem> {
    let wrong = |key, message: String| Err(ScheduleProblem { key, message });
    let fields: Vec<&str> = cron.split_ascii_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let message = format!(
            "expected five fields, such as `0 6 * * 1`, found {}",
            fields.len()
        );
        return wrong("cron", message);
    }
    for (text, (name, min, max, names)) in fields.iter().zip(FIELDS) {
        if !text.split(',').all(|part| is_part(part, min, max, names)) {
            let message = format!(
                "the {name} is wrong: expected numbers from {min} to {max}, ranges such as 1-5, lists, or steps such as */15"
            );
            return wrong("cron", message);
        }
    }
    match jiff::tz::TimeZone::get(time_zone) {
        Ok(_) => Ok(()),
        Err(_) => wrong(
            "time_zone",
            "expected the name of a time zone, such as Europe/Berlin or UTC".to_owned(),
        ),
    }
}

/// Returns true for `*`, a number or a range, each with a step or without.
fn is_part(part: &str, min: u32, max: u32, names: &[&str]) -> bool {
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (part, None),
    };
    if step.is_some_and(|step| !number(step).is_some_and(|step| (1..=max).contains(&step))) {
        return false;
    }
    let value = |text: &str| {
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let named = named
            .and_then(|index| u32::try_from(index).ok())
            .map(|index| index + min);
        number(text).or(named).filter(|value| (min..=max).contains(value))
    };
    match range.split_once('-') {
        _ if range == "*" => true,
        Some((first, last)) => {
            matches!((value(first), value(last)), (Some(first), Some(last)) if first <= last)
        }
        None => value(range).is_some(),
    }
}

fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.len() <= 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}
