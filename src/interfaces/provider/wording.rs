//! Replacement texts for requests in which a provider refuses empty text or an invalid name, and the text for a wait.

use std::borrow::Cow;
use std::time::Duration;

/// The text that replaces an empty message.
pub(super) const NO_MESSAGE: &str = "(empty message)";

/// The text that replaces an empty tool result.
pub(super) const NO_OUTPUT: &str = "(no output)";

/// The text that replaces an empty answer.
pub(super) const NO_ANSWER: &str = "(no answer)";

/// The maximum number of characters of a function's name.
const NAME_CHARS_MAX: usize = 64;

/// Returns `text`, or `instead` if it is blank.
pub(super) fn or_if_blank<'a>(text: &'a str, instead: &'a str) -> &'a str {
    if text.trim().is_empty() { instead } else { text }
}

/// Returns a called name in the alphabet of both APIs. A model can call a tool that was not offered; a history with
/// such a call must still be accepted.
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

/// Returns the text for an error whose provider requires a noticeable wait.
pub(super) fn asked_wait(wait: Option<Duration>) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "days"), (3_600, "h"), (60, "min")];
    let seconds = wait.map_or(0, |wait| wait.as_secs());
    let unit = UNITS.iter().find(|(unit, _)| seconds >= 2 * unit);
    match unit {
        Some((unit, word)) => format!("; it requests a wait of {} {word}", seconds.div_ceil(*unit)),
        None if seconds > 0 => format!("; it requests a wait of {seconds} s"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{asked_wait, callable_name};
    use std::time::Duration;

    /// R8
    #[test]
    fn a_wait_is_said_in_a_unit_that_people_use() {
        let said = [0, 7, 61, 120, 7_199, 7_200, 31_536_000]
            .map(|seconds| asked_wait(Some(Duration::from_secs(seconds))));
        assert_eq!(
            said,
            [
                "",
                "; it requests a wait of 7 s",
                "; it requests a wait of 61 s",
                "; it requests a wait of 2 min",
                "; it requests a wait of 120 min",
                "; it requests a wait of 2 h",
                "; it requests a wait of 365 days"
            ]
        );
        assert_eq!(asked_wait(None), "");
    }

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
