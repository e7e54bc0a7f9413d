//! The meaning of a plain scalar to a YAML reader. A text that would be read as another type must be quoted.

use super::GoYamlVersion;
use regex::Regex;
use std::sync::LazyLock;

const YAML11_TRUE: [&str; 8] = ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON"];
const YAML11_FALSE: [&str; 8] = ["n", "N", "no", "No", "NO", "off", "Off", "OFF"];
const RESERVED_WORDS: [&str; 23] = [
    "", "~", "null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE", ".nan", ".NaN",
    ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF",
];
/// Bytes of the longest reserved word.
const RESERVED_WORD_BYTES_MAX: usize = 5;

#[allow(clippy::expect_used, reason = "the pattern is a constant")]
static FLOAT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$").expect("a pattern")
});
#[allow(clippy::expect_used, reason = "the pattern is a constant")]
static SEXAGESIMAL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$").expect("a pattern"));

/// Returns the boolean of a word that is a boolean only in YAML 1.1.
pub(in crate::rendering::jsonnet) fn yaml11_boolean(text: &str) -> Option<bool> {
    match text {
        _ if YAML11_TRUE.contains(&text) => Some(true),
        _ if YAML11_FALSE.contains(&text) => Some(false),
        _ => None,
    }
}

/// Returns true if a reader reads the plain scalar `text` as a text, so that it needs no quotes for its meaning.
pub(super) fn is_read_as_text(profile: GoYamlVersion, text: &str) -> bool {
    if text.len() <= RESERVED_WORD_BYTES_MAX
        && (RESERVED_WORDS.contains(&text) || yaml11_boolean(text).is_some())
    {
        return false;
    }
    match text.bytes().next() {
        Some(b'.') => !is_finite_float(text),
        Some(b'+' | b'-' | b'0'..=b'9') => {
            !(is_number(profile, text)
                || is_timestamp(text)
                || text.contains(':') && SEXAGESIMAL.is_match(text))
        }
        Some(_) | None => true,
    }
}

fn is_number(profile: GoYamlVersion, text: &str) -> bool {
    let plain = text.replace('_', "");
    if is_integer(&plain) || is_finite_float(&plain) {
        return true;
    }
    // Go's second check of binary and, since v3, octal numbers accepts a sign after the prefix.
    let behind = |prefix: &str, digits: std::ops::RangeInclusive<u8>| {
        plain.strip_prefix(prefix).is_some_and(|rest| {
            let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
            fits(rest, digits)
        })
    };
    behind("0b", b'0'..=b'1') || profile == GoYamlVersion::V3 && behind("0o", b'0'..=b'7')
}

/// Returns true if `strconv.ParseInt` or `ParseUint` with base 0 accepts the text without underscores.
fn is_integer(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = unsigned.to_ascii_lowercase();
    let (digits, radix) = match lower.as_bytes() {
        [b'0', b'x', _, ..] => (lower.strip_prefix("0x").unwrap_or_default(), 16),
        [b'0', b'o', _, ..] => (lower.strip_prefix("0o").unwrap_or_default(), 8),
        [b'0', b'b', _, ..] => (lower.strip_prefix("0b").unwrap_or_default(), 2),
        [b'0', _, ..] => (lower.as_str(), 8),
        _ => (lower.as_str(), 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return false;
    }
    match u64::from_str_radix(digits, radix) {
        Ok(_) if unsigned.len() == text.len() => true,
        Ok(number) if text.starts_with('-') => number <= i64::MIN.unsigned_abs(),
        Ok(number) => number <= i64::MAX.unsigned_abs(),
        Err(_) => false,
    }
}

fn fits(digits: &str, allowed: std::ops::RangeInclusive<u8>) -> bool {
    let radix = if *allowed.end() == b'1' { 2 } else { 8 };
    !digits.is_empty()
        && digits.bytes().all(|digit| allowed.contains(&digit))
        && i64::from_str_radix(digits, radix).is_ok()
}

/// Returns true for a decimal float that does not overflow.
fn is_finite_float(text: &str) -> bool {
    FLOAT.is_match(text) && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Returns true for a date, or a date with a time, in the formats of Go's `time.Parse`: a year of four digits, other
/// parts of one or two digits, and a day that exists.
fn is_timestamp(text: &str) -> bool {
    let mut rest = Cursor(text);
    let Some(year) = rest.number(4, 4).filter(|_| rest.take(&['-'])) else {
        return false;
    };
    let Some(month) = rest.number(1, 2).filter(|_| rest.take(&['-'])) else {
        return false;
    };
    let Some(day) = rest.number(1, 2) else {
        return false;
    };
    if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return false;
    }
    match rest.0.chars().next() {
        None => true,
        Some('T' | 't') => rest.take(&['T', 't']) && rest.time() && rest.zone() && rest.0.is_empty(),
        Some(' ') => rest.take(&[' ']) && rest.time() && rest.0.is_empty(),
        Some(_) => false,
    }
}

fn days_in(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The unread rest of a timestamp.
struct Cursor<'a>(&'a str);

impl Cursor<'_> {
    fn take(&mut self, any: &[char]) -> bool {
        match self.0.strip_prefix(any) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// Reads a number with a minimum and maximum count of digits.
    fn number(&mut self, digits_min: usize, digits_max: usize) -> Option<u32> {
        let digits = self.0.bytes().take(digits_max).take_while(u8::is_ascii_digit);
        let (digits, rest) = self.0.split_at(digits.count());
        if digits.len() < digits_min {
            return None;
        }
        self.0 = rest;
        digits.parse().ok()
    }

    fn below(&mut self, bound: u32) -> bool {
        self.number(1, 2).is_some_and(|number| number < bound)
    }

    fn time(&mut self) -> bool {
        let is_time = self.below(24) && self.take(&[':']) && self.below(60) && self.take(&[':']);
        if !is_time || !self.below(60) {
            return false;
        }
        let fraction = self.0.strip_prefix(['.', ',']).unwrap_or_default();
        if fraction.starts_with(|next: char| next.is_ascii_digit()) {
            self.0 = fraction.trim_start_matches(|next: char| next.is_ascii_digit());
        }
        true
    }

    fn zone(&mut self) -> bool {
        if self.take(&['Z']) {
            return true;
        }
        self.take(&['+', '-'])
            && self.number(2, 2).is_some_and(|hours| hours <= 24)
            && self.take(&[':'])
            && self.number(2, 2).is_some_and(|minutes| minutes <= 60)
    }
}

#[cfg(test)]
mod tests {
    use super::is_read_as_text;
    use crate::rendering::jsonnet::yaml::GoYamlVersion;

    #[test]
    fn what_would_be_read_as_something_else_is_no_text() {
        for text in [
            "",
            "~",
            "null",
            "yes",
            "N",
            "off",
            ".inf",
            "-.INF",
            ".5",
            ".5e3",
            "0",
            "-1",
            "+7",
            "0x1F",
            "0b-1",
            "0755",
            "08",
            "1_000",
            "1e3",
            "1.",
            "18446744073709551615",
            "2001-1-2",
            "2001-12-14t21:59:43.10-05:00",
            "2001-12-14 21:59:43",
            "2001-12-14T1:2:3Z",
            "12:30:45",
            "190:20:30.15",
            "2000-02-29",
        ] {
            assert!(!is_read_as_text(GoYamlVersion::V2, text), "{text}");
            assert!(!is_read_as_text(GoYamlVersion::V3, text), "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_something_else_is_text() {
        for text in [
            "<<",
            "a",
            "nO",
            "yEs",
            "nul",
            ".",
            "..",
            ".e1",
            ".5_0",
            "-",
            "+",
            "0x",
            "1e",
            "1e999",
            "5m",
            "2001-13-01",
            "2001-02-29",
            "2001-1-2T",
            "2001-1-2T24:00:00Z",
            "2001-12-14 21:59:43Z",
            "12:60x",
            "1-2",
            "0xfffffffffffffffffffff",
            "-0xffffffffffffffff",
            "é",
            "12:75",
        ] {
            assert!(is_read_as_text(GoYamlVersion::V2, text), "{text}");
            assert!(is_read_as_text(GoYamlVersion::V3, text), "{text}");
        }
    }
}
