//! Times as people write them.

use super::civil_pattern::{CivilPattern, FieldSet};
use super::{RecurrenceError, TimePattern, cron};
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

/// Parses one of the forms.
pub(super) fn parse(when: &str) -> Result<TimePattern, RecurrenceError> {
    let lower = when.to_ascii_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let unknown = || {
        let shown: String = when.trim().chars().take(60).collect();
        RecurrenceError::Form(match shown.is_empty() {
            true => "the times are missing".to_owned(),
            false => format!("`{shown}` is no time that recurs"),
        })
    };
    let civil = match words.as_slice() {
        ["every", interval] => return every(interval).map(TimePattern::Every),
        ["monthly", day, time] => {
            let daily = at(time)?;
            let number: Option<u32> = day.parse().ok();
            let number = number.filter(|day| (1..=DAY_OF_MONTH_MAX).contains(day));
            let day = number.ok_or_else(|| {
                let why =
                    format!("`monthly` needs a day from 1 to {DAY_OF_MONTH_MAX}, which every month has");
                RecurrenceError::Form(why)
            })?;
            CivilPattern {
                days: FieldSet::EMPTY.with(day),
                ..daily
            }
        }
        [days, time] => {
            let weekdays = weekdays(days).ok_or_else(unknown)?;
            CivilPattern {
                weekdays,
                ..at(time)?
            }
        }
        [minute, hour, day, month, weekday] => cron::parse([minute, hour, day, month, weekday])?,
        _ => return Err(unknown()),
    };
    Ok(TimePattern::Civil(civil))
}

/// Parses `daily`, `weekdays`, `weekends` or a list of days such as `mondays,thursdays`.
fn weekdays(text: &str) -> Option<FieldSet> {
    match text {
        "daily" => return Some(FieldSet::range(0, 6)),
        "weekdays" => return Some(FieldSet::range(1, 5)),
        "weekends" => return Some(FieldSet::EMPTY.with(0).with(6)),
        _ => {}
    }
    text.split(',').try_fold(FieldSet::EMPTY, |set, day| {
        let day = day.strip_suffix('s').unwrap_or(day);
        let index = WEEKDAYS.iter().position(|known| *known == day)?;
        Some(set.with(u32::try_from(index).ok()?))
    })
}

/// Parses `09:00`, as the pattern of every day.
fn at(text: &str) -> Result<CivilPattern, RecurrenceError> {
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
    Ok(CivilPattern::daily(hour, minute))
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
