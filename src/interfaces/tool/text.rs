//! Formats files and numbers in tool results: text or a clear refusal, lines of bounded length, page headers.

use super::ToolError;
use crate::base::model::{FileVersion, RepoPath, cut_after, group_thousands};
use crate::base::redact::Redactor;
use std::borrow::Cow;

/// The maximum number of characters of a line; longer lines are truncated.
const LINE_CHARS_MAX: usize = 2_000;

/// Returns a file's text. Binary files and other encodings are refused with their size.
pub(super) fn text_of<'a>(path: &RepoPath, file: &'a FileVersion) -> Result<&'a str, ToolError> {
    let bytes = group_thousands(file.content.len() as u64);
    if file.content.contains(&0) {
        return Err(ToolError::Failed(format!("`{path}` is binary ({bytes} bytes)")));
    }
    std::str::from_utf8(&file.content)
        .map_err(|_| ToolError::Failed(format!("`{path}` is not UTF-8 text ({bytes} bytes)")))
}

/// Returns a line of at most 2,000 characters; omitted characters are counted. Secrets are redacted before the
/// truncation, because a part of a secret could no longer be recognised.
pub(super) fn bounded_line<'t>(line: &'t str, redactor: &Redactor) -> Cow<'t, str> {
    if line.char_indices().nth(LINE_CHARS_MAX).is_none() {
        return Cow::Borrowed(line);
    }
    let line = redactor.redact(line);
    let Some((end, _)) = line.char_indices().nth(LINE_CHARS_MAX) else {
        return line;
    };
    let (kept, rest) = line.split_at(end);
    let more = group_thousands(rest.trim_end_matches(['\r', '\n']).chars().count() as u64);
    let line_end = if rest.ends_with('\n') { "\n" } else { "" };
    Cow::Owned(format!("{kept}[… {more} more characters]{line_end}"))
}

/// Returns at most `lines_max` bounded lines of a text; omitted lines are counted.
pub(super) fn bounded_lines(text: &str, lines_max: usize, redactor: &Redactor) -> String {
    let mut lines = text.split_inclusive('\n');
    let shown = lines.by_ref().take(lines_max);
    let mut shown: String = shown.map(|line| bounded_line(line, redactor)).collect();
    let more = lines.count();
    if more > 0 {
        shown.push_str(&format!("[… {} more lines]\n", group_thousands(more as u64)));
    }
    shown
}

/// Returns the beginning of a text, for quotations.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    const SHOWN_CHARS_MAX: usize = 120;
    cut_after(text, SHOWN_CHARS_MAX)
}

/// One page of a longer result.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageRange {
    /// The number of items before the page.
    pub(super) offset: usize,
    /// The number of items on the page.
    pub(super) shown: usize,
    /// The total number of items.
    pub(super) total: usize,
}

impl PageRange {
    /// Returns the range, counted from 1: `1–500`.
    pub(super) fn range(self) -> String {
        format!("{}–{}", self.offset + 1, self.end())
    }

    /// Returns true if the page does not contain all items.
    pub(super) fn is_part(self) -> bool {
        self.shown < self.total
    }

    /// Returns the text behind the closing bracket of the header: how to get the next page, or nothing on the last
    /// page.
    pub(super) fn rest(self, noun: &str) -> String {
        let end = self.end();
        match self.total.saturating_sub(end) {
            0 => String::new(),
            more => format!(" ({more} more{noun}, use offset={end} to continue)"),
        }
    }

    fn end(self) -> usize {
        self.offset + self.shown
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{bounded_line, bounded_lines, text_of};
    use crate::base::model::{FileMode, FileVersion, RepoPath, Secret};
    use crate::base::redact::Redactor;
    use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};

    fn refused(content: Vec<u8>) -> String {
        let file = FileVersion {
            content: content.into(),
            mode: FileMode::Regular,
        };
        text_of(&RepoPath::parse("x").unwrap(), &file)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn files_that_are_not_text_are_refused_with_their_size() {
        assert_eq!(refused(vec![0; 12_345]), "`x` is binary (12,345 bytes)");
        assert_eq!(refused(vec![0xff, b'a']), "`x` is not UTF-8 text (2 bytes)");
    }

    #[test]
    fn a_long_line_is_cut_between_characters_and_says_so() {
        let line = "ä".repeat(20_000) + "\n";
        let expected = "ä".repeat(2_000) + "[… 18,000 more characters]\n";
        let none = Redactor::new([]);
        assert_eq!(bounded_line(&line, &none), expected);
        let exact = "ä".repeat(2_000);
        assert_eq!(bounded_line(&exact, &none), exact);
    }

    /// T87
    #[test]
    fn no_line_is_cut_within_a_secret() {
        let secret = "brass-kettle-on-the-hill-41";
        let redactor = Redactor::new([Secret::new(secret.to_owned())]);
        let line = format!("{}{secret} and more {}\n", "x".repeat(1_980), "y".repeat(100));
        let shown = bounded_line(&line, &redactor);
        assert!(
            shown.contains("⟦secret:1⟧") && !shown.contains("brass"),
            "{shown}"
        );
    }

    #[test]
    fn many_lines_are_cut_and_counted() {
        let none = Redactor::new([]);
        assert_eq!(bounded_lines("a\nb\nc\nd", 2, &none), "a\nb\n[… 2 more lines]\n");
        assert_eq!(bounded_lines("a\nb", 2, &none), "a\nb");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        /// STK-63
        #[test]
        fn a_line_is_cut_after_whole_characters(character in any::<char>(), more in 0_usize..3_000) {
            let line: String = std::iter::repeat_n(character, more).collect();
            let shown = bounded_line(&line, &Redactor::new([]));
            prop_assert!(shown.chars().count() <= 2_000 + "[… 1,000 more characters]\n".chars().count());
            prop_assert_eq!(shown.chars().take(2_000).eq(line.chars().take(2_000)), true);
        }
    }
}
