//! The shortened output of a step of a pipeline.

use std::borrow::Cow;

/// Returns a text without its middle if it has more bytes than `head` and `tail` together. A line says how many bytes are
/// missing. No character is split.
pub fn truncated_result(text: &str, head: u32, tail: u32) -> Cow<'_, str> {
    let bytes = |bound: u32| usize::try_from(bound).unwrap_or(usize::MAX);
    let (head, tail) = (bytes(head), bytes(tail));
    if text.len() <= head.saturating_add(tail) {
        return Cow::Borrowed(text);
    }
    let (head, rest) = text.split_at(text.floor_char_boundary(head));
    let (middle, tail) = rest.split_at(rest.ceil_char_boundary(rest.len() - tail));
    Cow::Owned(format!(
        "{head}\n[...truncated {} bytes...]\n{tail}",
        middle.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::truncated_result;

    /// CI-5
    #[test]
    fn the_output_of_a_step_keeps_its_head_and_its_tail() {
        let text = format!("{}{}{}", "h".repeat(4_096), "m".repeat(10), "t".repeat(61_440));
        let short = format!(
            "{}\n[...truncated 10 bytes...]\n{}",
            "h".repeat(4_096),
            "t".repeat(61_440)
        );
        assert_eq!(truncated_result(&text, 4_096, 61_440), short);
        assert_eq!(truncated_result(&text, 4_106, 61_440), text);
        for (text, head, tail, shown) in [
            ("ääää", 3, 3, "ä\n[...truncated 4 bytes...]\nä"),
            ("abcdef", 0, 2, "\n[...truncated 4 bytes...]\nef"),
            ("abcdef", 2, 0, "ab\n[...truncated 4 bytes...]\n"),
            ("abcdef", 0, 0, "\n[...truncated 6 bytes...]\n"),
            ("abcdef", u32::MAX, u32::MAX, "abcdef"),
            ("", 0, 0, ""),
        ] {
            assert_eq!(truncated_result(text, head, tail), shown, "{text} {head} {tail}");
        }
    }
}
