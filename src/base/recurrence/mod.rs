//! The times of a schedule: from the words of a person or a cron expression to instants. No clock.
//!
//! A civil time that a time zone skips stands for the first instant after the gap, and one that it has twice for the first
//! of the two. So each civil time is one instant, later civil times are never earlier instants, and no time is lost or
//! doubled when clocks change.

mod cron;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
mod words;
mod zone;

pub use zone::{is_zone, nearest_zone, shown_in, spelled_zone};

use croner::Cron;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};
use words::WrittenTimes;

/// The most times whose distances are compared. A day with more of them has two that are less than five minutes apart.
const GAPS_COMPARED_MAX: usize = 300;
/// The forms of times, for people.
pub const WHEN_EXAMPLES: &str = "`weekdays 09:00`, `daily 09:00`, `mondays 08:30`, `monthly 1 09:00`, `every 15m`, `every 2h` or a cron \
     expression such as `30 8 * * 1-5`";

/// The reason why times cannot be understood, for the person who wrote them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecurrenceError {
    /// The text is none of the forms.
    #[error("{0}; write {WHEN_EXAMPLES}")]
    Form(String),
    /// The time zone is not known.
    #[error("`{0}` is no known time zone; use a name such as Europe/Berlin, America/New_York or UTC")]
    Zone(String),
    /// The times never come, such as 30 February.
    #[error("`{0}` never happens")]
    Never(String),
}

impl RecurrenceError {
    /// Returns the reason without the text, for a place that repeats no value.
    pub fn without_text(&self) -> String {
        match self {
            Self::Form(_) => format!("no time that recurs; write {WHEN_EXAMPLES}"),
            Self::Zone(_) => {
                "no known time zone; use a name such as Europe/Berlin, America/New_York or UTC".to_owned()
            }
            Self::Never(_) => "these times never come".to_owned(),
        }
    }
}

/// Recurring times in a time zone.
#[derive(Clone, Debug)]
pub struct Recurrence {
    pattern: TimePattern,
    zone: TimeZone,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TimePattern {
    /// The multiples of a duration since 1970 in UTC.
    Every(SignedDuration),
    /// The civil times that match.
    Civil(Box<Cron>),
}

impl Recurrence {
    /// Parses the times and the name of their time zone.
    pub fn parse(when: &str, zone: &str) -> Result<Self, RecurrenceError> {
        let pattern = match words::read(when)? {
            WrittenTimes::Every(interval) => TimePattern::Every(interval),
            WrittenTimes::Words(expression) | WrittenTimes::Expression(expression) => {
                TimePattern::Civil(Box::new(cron::parse(&expression)?))
            }
        };
        let recurrence = Self {
            pattern,
            zone: zone::find(zone)?,
        };
        match recurrence.next(Timestamp::UNIX_EPOCH) {
            Some(_) => Ok(recurrence),
            None => Err(RecurrenceError::Never(when.trim().to_owned())),
        }
    }

    /// Checks the times without their time zone. Words need no search for a time, which is long for thousands of schedules.
    pub fn check(when: &str) -> Result<(), RecurrenceError> {
        match words::read(when)? {
            WrittenTimes::Every(_) | WrittenTimes::Words(_) => Ok(()),
            WrittenTimes::Expression(_) => Self::parse(when, "UTC").map(drop),
        }
    }

    /// Returns the first time after an instant; `None` at the end of time.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.pattern {
            TimePattern::Every(interval) => {
                let seconds = interval.as_secs();
                let passed = after.as_second().div_euclid(seconds);
                Timestamp::from_second(passed.checked_add(1)?.checked_mul(seconds)?).ok()
            }
            TimePattern::Civil(pattern) => self.next_civil(pattern, after),
        }
    }

    /// Returns the next times after an instant, at most so many.
    pub fn upcoming(&self, after: Timestamp, count: usize) -> Vec<Timestamp> {
        std::iter::successors(self.next(after), |time| self.next(*time))
            .take(count)
            .collect()
    }

    /// Returns true if some of the next times are closer to each other than a duration of at most five minutes.
    pub fn is_closer_than(&self, gap: SignedDuration, after: Timestamp) -> bool {
        let times = self.upcoming(after, GAPS_COMPARED_MAX);
        times
            .windows(2)
            .any(|pair| matches!(pair, [one, next] if next.duration_since(*one) < gap))
    }

    /// Returns a time as people in the zone read it, such as `Mon 30 Nov 2026 09:00`.
    pub fn shown(&self, time: Timestamp) -> String {
        zone::shown(time, self.zone.clone())
    }

    fn next_civil(&self, pattern: &Cron, after: Timestamp) -> Option<Timestamp> {
        // No civil time before that of `after` is a later instant, as the module says.
        let mut from = minute_of(self.zone.to_datetime(after));
        // In an hour that is there twice, the times of the second pass are passed over.
        for _ in 0..=2 * 24 * 60 {
            let civil = pattern.find_next_occurrence(&from, true).ok()?;
            let time = self.instant(civil)?;
            if time > after {
                return Some(time);
            }
            from = civil.checked_add(1.minute()).ok()?;
        }
        None
    }

    /// Returns the one instant that a civil time stands for.
    fn instant(&self, civil: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(civil);
        match ambiguous.offset() {
            AmbiguousOffset::Gap { before, .. } => {
                // With the offset of before the gap, the time is an instant in the time that follows it.
                let later = before.to_timestamp(civil).ok()?;
                let end = later.checked_add(1.second()).ok()?;
                let change = self.zone.preceding(end).next()?;
                Some(change.timestamp())
            }
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => ambiguous.earlier().ok(),
        }
    }
}

fn minute_of(civil: DateTime) -> DateTime {
    civil
        .with()
        .second(0)
        .subsec_nanosecond(0)
        .build()
        .unwrap_or(civil)
}
