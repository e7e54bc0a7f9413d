//! Amounts of money. They are whole numbers, so that sums are exact.

use serde::{Deserialize, Serialize};
use std::fmt;

const NANO_DOLLARS_PER_DOLLAR: u64 = 1_000_000_000;
const NANO_DOLLARS_PER_CENT: u64 = NANO_DOLLARS_PER_DOLLAR / 100;

/// An amount of US dollars, stored in billionths of a dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Money(u64);

impl Money {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// Creates an amount of billionths of a dollar.
    pub const fn from_nano_dollars(amount: u64) -> Self {
        Self(amount)
    }

    /// Creates an amount of whole dollars; the largest amount if it does not fit.
    pub const fn from_dollars(amount: u64) -> Self {
        Self(amount.saturating_mul(NANO_DOLLARS_PER_DOLLAR))
    }

    /// Creates an amount of cents; the largest amount if it does not fit.
    pub const fn from_cents(amount: u64) -> Self {
        Self(amount.saturating_mul(NANO_DOLLARS_PER_CENT))
    }

    /// Parses dollars with at most two decimals: `2.50`. `None` for anything else.
    pub fn parse_dollars(text: &str) -> Option<Self> {
        let (dollars, cents) = text.split_once('.').unwrap_or((text, "0"));
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_digits(dollars) || !is_digits(cents) || cents.len() > 2 {
            return None;
        }
        let cents: u64 = format!("{cents:0<2}").parse().ok()?;
        let dollars: u64 = dollars.parse().ok()?;
        dollars.checked_mul(100)?.checked_add(cents).map(Self::from_cents)
    }

    /// Returns the amount, rounded up to whole cents.
    #[must_use]
    pub const fn in_whole_cents(self) -> Self {
        Self::from_cents(self.0.div_ceil(NANO_DOLLARS_PER_CENT))
    }

    /// Returns the amount in billionths of a dollar.
    pub const fn nano_dollars(self) -> u64 {
        self.0
    }

    /// Returns the difference, or no money if `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl std::ops::Add for Money {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl std::ops::AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Money {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, |sum, amount| sum + amount)
    }
}

/// Shows cents from one dollar on, and four decimals below. An amount is never shown as less than it is.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, decimals) = match self.0 {
            0 => return f.write_str("$0"),
            amount if amount < NANO_DOLLARS_PER_DOLLAR => (100_000, 4),
            _ => (10_000_000, 2),
        };
        let units = self.0.div_ceil(unit);
        let per_dollar = NANO_DOLLARS_PER_DOLLAR / unit;
        let (dollars, rest) = (units / per_dollar, units % per_dollar);
        write!(f, "${}.{rest:0decimals$}", super::group_thousands(dollars))
    }
}

#[cfg(test)]
mod tests {
    use super::Money;

    #[test]
    fn an_amount_is_never_shown_as_less_than_it_is() {
        let shown = [
            0,
            1,
            100_000,
            100_001,
            12_345_678,
            999_900_001,
            1_000_000_000,
            1_230_000_001,
            1_234_567_000_000_000,
            u64::MAX,
        ]
        .map(|amount| Money::from_nano_dollars(amount).to_string());
        let expected = [
            "$0",
            "$0.0001",
            "$0.0001",
            "$0.0002",
            "$0.0124",
            "$1.0000",
            "$1.00",
            "$1.24",
            "$1,234,567.00",
            "$18,446,744,073.71",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn sums_stay_within_their_type() {
        let most = Money::from_nano_dollars(u64::MAX);
        let one = Money::from_dollars(1);
        assert_eq!([one, one].into_iter().sum::<Money>(), Money::from_dollars(2));
        assert_eq!((most + one, one.saturating_sub(most)), (most, Money::ZERO));
        assert_eq!(Money::from_dollars(u64::MAX), most);
    }

    #[test]
    fn dollars_are_parsed_with_two_decimals_and_round_up_to_cents() {
        let parsed = ["2.50", "2.5", "0", "12", "184467440737095516.15"].map(Money::parse_dollars);
        let expected = [250, 250, 0, 1_200, u64::MAX].map(|cents| Some(Money::from_cents(cents)));
        assert_eq!(parsed, expected);
        for text in [
            "",
            ".5",
            "1.",
            "1.234",
            "-1",
            "1e3",
            "$1",
            "184467440737095516.16",
        ] {
            assert_eq!(Money::parse_dollars(text), None, "{text}");
        }
        assert_eq!(
            Money::from_nano_dollars(10_000_001).in_whole_cents(),
            Money::from_cents(2)
        );
    }
}
