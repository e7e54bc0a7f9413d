//! Numbers with their nouns, in the singular or the plural.

/// Returns the number with its noun: `1 line`, `2 lines`.
pub fn pluralize(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
