//! Times as people write them.

use super::RecurrenceError;
use jiff::SignedDuration;

/// The days of the week, from Sunday.
const WEEKDAYS: [&str; 7] = [
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];
/// The last day that every month has.
const DAY_OF_MONTH_MAX: u32 = 28;
/// The longest interval, in hours.
const INTERVAL_HOURS_MAX: i64 = 7 * 24;

/// Times in one of the forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WrittenTimes {
    /// The multiples of an interval.
    Every(SignedDuration),
    /// A cron expression that stands for words. It is valid, and its times come.
    Words(String),
    /// A cron expression as somebody wrote it.
    Expression(String),
}

/// Reads one of the forms.
pub(super) fn read(when: &str) -> Result<WrittenTimes, RecurrenceError> {
    let lower = when.to_ascii_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let unknown = || {
        let shown: String = when.trim().chars().take(60).collect();
        RecurrenceError::Form(match shown.is_empty() {
            true => "the times are missing".to_owned(),
            false => format!("`{shown}` is no time that recurs"),
        })
    };
    Ok(match words.as_slice() {
        ["every", interval] => WrittenTimes::Every(every(interval)?),
        ["monthly", day, time] => {
            let number: Option<u32> = day.parse().ok();
            let number = number.filter(|day| (1..=DAY_OF_MONTH_MAX).contains(day));
            let day = number.ok_or_else(|| {
                let why =
                    format!("`monthly` needs a day from 1 to {DAY_OF_MONTH_MAX}, which every month has");
                RecurrenceError::Form(why)
            })?;
            WrittenTimes::Words(format!("{} {day} * *", minute_and_hour(time)?))
        }
        [days, time] => {
            let weekdays = weekdays(days).ok_or_else(unknown)?;
            WrittenTimes::Words(format!("{} * * {weekdays}", minute_and_hour(time)?))
        }
        [_, _, _, _, _] => WrittenTimes::Expression(words.join(" ")),
        _ => return Err(unknown()),
    })
}

/// Returns the field of a cron expression for `daily`, `weekdays`, `weekends` or a list of days such as `mondays,thursdays`.
fn weekdays(text: &str) -> Option<String> {
    match text {
        "daily" => return Some("*".to_owned()),
        "weekdays" => return Some("1-5".to_owned()),
        "weekends" => return Some("0,6".to_owned()),
        _ => {}
    }
    let days = text.split(',').map(|day| {
        let day = day.strip_suffix('s').unwrap_or(day);
        let index = WEEKDAYS.iter().position(|known| *known == day)?;
        Some(index.to_string())
    });
    Some(days.collect::<Option<Vec<String>>>()?.join(","))
}

/// Returns the first two fields of a cron expression for `09:00`.
fn minute_and_hour(text: &str) -> Result<String, RecurrenceError> {
    let number = |text: &str, below: u32| {
        let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        let number: u32 = text.parse().ok().filter(|_| is_number)?;
        (number < below).then_some(number)
    };
    let time = text
        .split_once(':')
        .and_then(|(hour, minute)| Some((number(hour, 24)?, number(minute, 60)?)));
    let shown: String = text.chars().take(20).collect();
    let (hour, minute) = time
        .ok_or_else(|| RecurrenceError::Form(format!("`{shown}` is no time of a day from 00:00 to 23:59")))?;
    Ok(format!("{minute} {hour}"))
}

/// Parses `15m` or `2h`.
fn every(text: &str) -> Result<SignedDuration, RecurrenceError> {
    let number = |digits: &str| {
        let is_number = (1..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<i64>().ok().filter(|_| is_number)
    };
    let minutes = match (text.strip_suffix('m'), text.strip_suffix('h')) {
        (Some(minutes), _) => number(minutes),
        (None, Some(hours)) => number(hours).map(|hours| hours * 60),
        (None, None) => None,
    };
    let shown: String = text.chars().take(20).collect();
    minutes
        .filter(|minutes| (1..=INTERVAL_HOURS_MAX * 60).contains(minutes))
        .map(SignedDuration::from_mins)
        .ok_or_else(|| {
            RecurrenceError::Form(format!(
                "`{shown}` is no interval from 1m to {INTERVAL_HOURS_MAX}h"
            ))
        })
}
