//! Numbers of things in words, in the singular or the plural.

/// `1 line`, `2 lines`.
pub fn pluralize(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
