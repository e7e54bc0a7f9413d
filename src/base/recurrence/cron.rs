//! Cron expressions: minute, hour, day of the month, month and day of the week, with lists, ranges, steps and names.

use super::RecurrenceError;
use super::civil_pattern::{CivilPattern, DayRule, FieldSet};

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A field of an expression.
struct CronField {
    name: &'static str,
    first: u32,
    last: u32,
    /// The names of the numbers from `first` on.
    names: &'static [&'static str],
}

const MINUTE: CronField = field("minute", 0, 59, &[]);
const HOUR: CronField = field("hour", 0, 23, &[]);
const DAY: CronField = field("day of the month", 1, 31, &[]);
const MONTH: CronField = field("month", 1, 12, &MONTHS);
/// Sunday is 0 and 7.
const WEEKDAY: CronField = field("day of the week", 0, 7, &WEEKDAYS);

const fn field(name: &'static str, first: u32, last: u32, names: &'static [&'static str]) -> CronField {
    CronField {
        name,
        first,
        last,
        names,
    }
}

/// Parses the five fields of an expression.
pub(super) fn parse(fields: [&str; 5]) -> Result<CivilPattern, RecurrenceError> {
    let [minute, hour, day, month, weekday] = fields;
    // A field that begins with a star restricts no days, also with a step, as in other implementations.
    let day_rule = match day.starts_with('*') || weekday.starts_with('*') {
        true => DayRule::Both,
        false => DayRule::Either,
    };
    Ok(CivilPattern {
        minutes: MINUTE.parse(minute)?,
        hours: HOUR.parse(hour)?,
        days: DAY.parse(day)?,
        months: MONTH.parse(month)?,
        weekdays: WEEKDAY.parse(weekday)?,
        day_rule,
    })
}

impl CronField {
    fn parse(&self, text: &str) -> Result<FieldSet, RecurrenceError> {
        let mut set = FieldSet::EMPTY;
        for entry in text.split(',') {
            set = set.union(self.entry(entry).ok_or_else(|| self.refusal(entry))?);
        }
        Ok(set)
    }

    /// Parses `*`, a number or a range, with or without a step.
    fn entry(&self, entry: &str) -> Option<FieldSet> {
        let (range, step) = match entry.split_once('/') {
            Some((range, step)) => (range, Some(digits(step)?)),
            None => (entry, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.first, self.last),
            Some((first, last)) => (self.number(first)?, self.number(last)?),
            // A number with a step begins a range that goes to the end.
            None if step.is_some() => (self.number(range)?, self.last),
            None => (self.number(range)?, self.number(range)?),
        };
        let step = step.unwrap_or(1);
        if step == 0 || first > last {
            return None;
        }
        let numbers = (first..=last).step_by(usize::try_from(step).ok()?);
        let is_weekday = self.last == WEEKDAY.last;
        Some(numbers.fold(FieldSet::EMPTY, |set, number| {
            set.with(match is_weekday {
                true => number % 7,
                false => number,
            })
        }))
    }

    fn number(&self, text: &str) -> Option<u32> {
        let named = self.names.iter().position(|name| text.eq_ignore_ascii_case(name));
        let number = match named {
            Some(index) => self.first + u32::try_from(index).ok()?,
            None => digits(text)?,
        };
        (self.first..=self.last).contains(&number).then_some(number)
    }

    fn refusal(&self, entry: &str) -> RecurrenceError {
        let shown: String = entry.chars().take(20).collect();
        RecurrenceError::Form(format!(
            "`{shown}` is no {} from {} to {}",
            self.name, self.first, self.last
        ))
    }
}

/// Parses a number of one to three digits, without a sign.
fn digits(text: &str) -> Option<u32> {
    let is_number = (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}
