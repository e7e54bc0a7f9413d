//! Numbers in texts: with their nouns, with separators, and in hexadecimal digits.

use super::Stats;

/// Returns the number with its noun: `1 line`, `2 lines`.
pub fn pluralize(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", by_number(number, one, many))
}

/// Returns the form of a word for a number: `changes` for one environment, `change` for more.
pub fn by_number<'a>(number: usize, one: &'a str, many: &'a str) -> &'a str {
    if number == 1 { one } else { many }
}

/// Returns the number with thousands separators: `12,345`.
pub fn group_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns true if a text has only hexadecimal digits, in upper or lower case.
pub fn is_hex(text: &str) -> bool {
    text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Returns the totals of changed files: `2 files, +4 −2`.
pub fn totals(stats: &[Stats]) -> String {
    let added: u64 = stats.iter().map(|stats| stats.added).sum();
    let removed: u64 = stats.iter().map(|stats| stats.removed).sum();
    let files = pluralize(stats.len(), "file", "files");
    format!("{files}, +{added} −{removed}")
}

#[cfg(test)]
mod tests {
    use super::{group_thousands, is_hex};

    #[test]
    fn hexadecimal_digits_have_either_case() {
        assert!(is_hex("09afAF") && !is_hex("0x1") && !is_hex("é"));
    }

    #[test]
    fn numbers_have_thousands_separators() {
        let shown: Vec<String> = [0, 7, 999, 1_000, 12_345, 1_234_567].map(group_thousands).into();
        assert_eq!(shown, ["0", "7", "999", "1,000", "12,345", "1,234,567"]);
    }
}
