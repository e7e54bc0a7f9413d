//! What stands in a request where a provider refuses emptiness or an odd name.

use std::borrow::Cow;

/// Instead of a message without words.
pub(super) const NO_MESSAGE: &str = "(empty message)";

/// Instead of a tool result without content.
pub(super) const NO_OUTPUT: &str = "(no output)";

/// Instead of an answer without content.
pub(super) const NO_ANSWER: &str = "(no answer)";

/// Characters a function's name may have.
const NAME_CHARS_MAX: usize = 64;

/// `text`, or what stands for it.
pub(super) fn or_if_blank<'a>(text: &'a str, instead: &'a str) -> &'a str {
    if text.trim().is_empty() { instead } else { text }
}

/// A called name in the alphabet of both APIs. A model can call what was never offered; the history
/// that tells so must not be refused.
pub(super) fn callable_name(name: &str) -> Cow<'_, str> {
    let allowed = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    if !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(allowed) {
        return Cow::Borrowed(name);
    }
    let replaced = |char| if allowed(char) { char } else { '_' };
    let name: String = name.chars().map(replaced).take(NAME_CHARS_MAX).collect();
    Cow::Owned(if name.is_empty() {
        "unknown".to_owned()
    } else {
        name
    })
}

#[cfg(test)]
mod tests {
    use super::callable_name;

    /// R12
    #[test]
    fn any_called_name_can_be_sent_back() {
        let names = ["file_read", "", "file read", "münze", &"x".repeat(99)];
        let sent = names.map(|name| callable_name(name).into_owned());
        assert_eq!(
            sent,
            ["file_read", "unknown", "file_read", "m_nze", &"x".repeat(64)]
        );
    }
}
