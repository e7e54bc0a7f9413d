//! The order of keys in a mapping: letters by code point, and runs of digits as numbers.

use super::GoYamlVersion;
use regex::Regex;
use std::sync::LazyLock;

// Letters and digits as Unicode classifies them. The standard library's `is_alphabetic` and `is_numeric` include more,
// such as marks and Roman numerals.
#[allow(clippy::expect_used, reason = "both patterns are constants")]
static LETTER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\p{L}").expect("a pattern"));
#[allow(clippy::expect_used, reason = "both patterns are constants")]
static DIGIT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\p{Nd}").expect("a pattern"));

/// The number of fields up to which Go uses insertion sort. This matters because the relation is not a total order.
const INSERTION_MAX: usize = 12;

/// Sorts entries by their keys. The relation of the Go programs is not transitive for some keys of digits and
/// punctuation; the result is still deterministic.
pub(super) fn sorted<'a, T>(
    profile: GoYamlVersion,
    entries: impl Iterator<Item = (&'a String, T)>,
) -> Vec<(&'a str, T)> {
    let mut entries: Vec<(&str, T)> = entries.map(|(key, value)| (key.as_str(), value)).collect();
    // For letters alone the relation is a total order, which equals the order of bytes.
    if entries
        .iter()
        .all(|(key, _)| key.bytes().all(|byte| byte.is_ascii_alphabetic()))
    {
        entries.sort_unstable_by_key(|(key, _)| *key);
        return entries;
    }
    by_relation(profile, entries)
}

fn by_relation<T>(profile: GoYamlVersion, entries: Vec<(&str, T)>) -> Vec<(&str, T)> {
    let keyed = entries
        .into_iter()
        .map(|(key, value)| (key.chars().collect::<Vec<char>>(), (key, value)));
    let mut keyed: Vec<_> = keyed.collect();
    keyed.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    // Numbers that are too large for Go wrap around there. If that allows several orders, the order with unwrapped
    // numbers applies.
    let unwrapped = |left: &[char], right: &[char]| is_before(profile, IntegerOverflow::Exact, left, right);
    let wrapped = |left: &[char], right: &[char]| is_before(profile, IntegerOverflow::Wrapping, left, right);
    let sorted = sorted_by(sorted_by(keyed, &unwrapped), &wrapped);
    sorted.into_iter().map(|(_, entry)| entry).collect()
}

/// The treatment of a number that is too large for 64 bits.
#[derive(Clone, Copy)]
enum IntegerOverflow {
    Exact,
    Wrapping,
}

type KeyedEntries<E> = Vec<(Vec<char>, E)>;

/// Sorts stably. Unlike the standard sort, this accepts a relation that is not a total order.
fn sorted_by<E>(
    mut entries: KeyedEntries<E>,
    is_before: &dyn Fn(&[char], &[char]) -> bool,
) -> KeyedEntries<E> {
    if entries.len() <= INSERTION_MAX {
        for end in 1..entries.len() {
            let mut place = end;
            while place > 0 && is_before(&entries[place].0, &entries[place - 1].0) {
                entries.swap(place, place - 1);
                place -= 1;
            }
        }
        return entries;
    }
    let right = entries.split_off(entries.len() / 2);
    let mut left = sorted_by(entries, is_before).into_iter().peekable();
    let mut right = sorted_by(right, is_before).into_iter().peekable();
    let mut merged = Vec::with_capacity(left.len() + right.len());
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        let next = if is_before(&second.0, &first.0) {
            right.next()
        } else {
            left.next()
        };
        merged.extend(next);
    }
    merged.extend(left);
    merged.extend(right);
    merged
}

fn is_before(profile: GoYamlVersion, numbers: IntegerOverflow, left: &[char], right: &[char]) -> bool {
    let Some(position) = left.iter().zip(right).position(|(left, right)| left != right) else {
        return left.len() < right.len();
    };
    let (one, other) = (left[position], right[position]);
    match (is_letter(one), is_letter(other)) {
        (true, true) => return one < other,
        (true, false) | (false, true) => {
            // Since v3, a number that continues sorts after a number that a letter ends.
            let in_number = profile == GoYamlVersion::V3 && position > 0 && is_digit(left[position - 1]);
            return if in_number {
                is_letter(one)
            } else {
                is_letter(other)
            };
        }
        (false, false) => {}
    }
    let seed = i128::from((one == '0' || other == '0') && follows_a_number(&left[..position]));
    let (left_number, left_digits) = number(numbers, seed, &left[position..]);
    let (right_number, right_digits) = number(numbers, seed, &right[position..]);
    (left_number, left_digits, one) < (right_number, right_digits, other)
}

/// Returns true if the digits directly before contain a digit other than zero: then a `0` continues that number.
fn follows_a_number(before: &[char]) -> bool {
    before
        .iter()
        .rev()
        .take_while(|character| is_digit(**character))
        .any(|character| *character != '0')
}

/// Returns the number at the start of a text, added to `seed`, and the count of its digits.
fn number(numbers: IntegerOverflow, seed: i128, text: &[char]) -> (i128, usize) {
    let digits = text.iter().take_while(|character| is_digit(**character));
    digits.fold((seed, 0), |(number, count), digit| {
        let value = i128::from(u32::from(*digit)) - i128::from(u32::from('0'));
        let number = number.saturating_mul(10).saturating_add(value);
        let number = match numbers {
            IntegerOverflow::Exact => number,
            #[allow(clippy::cast_possible_truncation, reason = "that is what wraps")]
            IntegerOverflow::Wrapping => i128::from(number as i64),
        };
        (number, count + 1)
    })
}

fn is_letter(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphabetic();
    }
    LETTER.is_match(character.encode_utf8(&mut [0; 4]))
}

fn is_digit(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_digit();
    }
    DIGIT.is_match(character.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::{by_relation, sorted};
    use crate::rendering::jsonnet::yaml::GoYamlVersion;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn keys_of_letters_sort_the_same_without_the_pairwise_relation(keys in proptest::collection::hash_set("[A-Za-z]{0,4}", 0..30)) {
            let entries = || keys.iter().map(|key| (key, ()));
            let named = entries().map(|(key, ())| (key.as_str(), ())).collect();
            prop_assert_eq!(sorted(GoYamlVersion::V2, entries()), by_relation(GoYamlVersion::V2, named));
        }
    }

    fn order(profile: GoYamlVersion, keys: &[&str]) -> Vec<String> {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let entries = keys.iter().map(|key| (key, ()));
        sorted(profile, entries)
            .into_iter()
            .map(|(key, ())| key.to_owned())
            .collect()
    }

    #[test]
    fn runs_of_digits_are_numbers_and_letters_come_last() {
        let keys = [
            "k10",
            "k9",
            "k01",
            "a.b/c",
            "K",
            "1",
            "",
            "with space",
            "on",
            "-x",
        ];
        let sorted = [
            "",
            "-x",
            "1",
            "K",
            "a.b/c",
            "k01",
            "k9",
            "k10",
            "on",
            "with space",
        ];
        assert_eq!(order(GoYamlVersion::V2, &keys), sorted);
    }

    #[test]
    fn a_key_with_an_overflowing_number_sorts_consistently() {
        let keys = ["name", "1:30:45", "$x", "18446744073709551615"];
        assert_eq!(
            order(GoYamlVersion::V2, &keys),
            ["$x", "1:30:45", "18446744073709551615", "name"]
        );
        assert_eq!(
            order(GoYamlVersion::V2, &["$x", "18446744073709551615"]),
            ["18446744073709551615", "$x"]
        );
    }

    #[test]
    fn keys_without_an_order_are_sorted_all_the_same() {
        let keys: Vec<String> = (0..400_u32)
            .map(|number| {
                let parts = ["0", "00", "1", "-", "a", "01", "9", "."];
                (0..5)
                    .map(|place| {
                        parts[(number as usize * 7 + place * (number as usize % 11 + 1)) % parts.len()]
                    })
                    .collect()
            })
            .collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        assert_eq!(order(GoYamlVersion::V2, &keys), order(GoYamlVersion::V2, &keys));
        assert_eq!(order(GoYamlVersion::V3, &keys).len(), 400);
    }
}
