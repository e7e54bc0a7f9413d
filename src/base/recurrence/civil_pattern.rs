//! A set of civil times, minute by minute: the fields of a cron expression.

use jiff::civil::{Date, DateTime, time};

/// The numbers of a field, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldSet(u64);

impl FieldSet {
    /// No number.
    pub(super) const EMPTY: Self = Self(0);

    /// Returns all numbers of a range, both ends included.
    pub(super) fn range(first: u32, last: u32) -> Self {
        (first..=last).fold(Self::EMPTY, Self::with)
    }

    /// Returns the set with one more number, below 64.
    pub(super) fn with(self, number: u32) -> Self {
        Self(self.0 | (1_u64 << (number & 63)))
    }

    /// Returns the numbers of both sets.
    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn has(self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| (self.0 >> (number & 63)) & 1 == 1)
    }

    /// Returns the smallest number from one on.
    fn first_from(self, number: i8) -> Option<i8> {
        (number.max(0)..60).find(|number| self.has(*number))
    }
}

/// The days of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DayRule {
    /// Days that are in both sets.
    Both,
    /// Days that are in one of the sets, as cron reads an expression that restricts both.
    Either,
}

/// A set of civil times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CivilPattern {
    /// 0 to 59.
    pub(super) minutes: FieldSet,
    /// 0 to 23.
    pub(super) hours: FieldSet,
    /// 1 to 31.
    pub(super) days: FieldSet,
    /// 1 to 12.
    pub(super) months: FieldSet,
    /// 0 to 6, from Sunday.
    pub(super) weekdays: FieldSet,
    pub(super) day_rule: DayRule,
}

impl CivilPattern {
    /// Returns the pattern of one time of every day.
    pub(super) fn daily(hour: u32, minute: u32) -> Self {
        Self {
            minutes: FieldSet::EMPTY.with(minute),
            hours: FieldSet::EMPTY.with(hour),
            days: FieldSet::range(1, 31),
            months: FieldSet::range(1, 12),
            weekdays: FieldSet::range(0, 6),
            day_rule: DayRule::Both,
        }
    }

    /// Returns the first time from `from` on, which is a whole minute, within so many days.
    pub(super) fn first_from(&self, from: DateTime, days_max: u32) -> Option<DateTime> {
        let (mut date, mut hour, mut minute) = (from.date(), from.hour(), from.minute());
        for _ in 0..=days_max {
            if self.has_day(date)
                && let Some((hour, minute)) = self.first_time(hour, minute)
            {
                return Some(date.to_datetime(time(hour, minute, 0, 0)));
            }
            (date, hour, minute) = (date.tomorrow().ok()?, 0, 0);
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let day = self.days.has(date.day());
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset());
        self.months.has(date.month())
            && match self.day_rule {
                DayRule::Both => day && weekday,
                DayRule::Either => day || weekday,
            }
    }

    /// Returns the first hour and minute of a day from these on.
    fn first_time(&self, hour: i8, minute: i8) -> Option<(i8, i8)> {
        if self.hours.has(hour)
            && let Some(minute) = self.minutes.first_from(minute)
        {
            return Some((hour, minute));
        }
        let hour = self.hours.first_from(hour + 1)?;
        Some((hour, self.minutes.first_from(0)?))
    }
}
