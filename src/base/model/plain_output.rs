//! Output of programs as a person sees it at last: without escape sequences and overwritten progress.

use std::borrow::Cow;

/// The character that every escape sequence begins with.
const ESCAPE: char = '\u{1b}';

/// Returns a text without terminal escape sequences. Of a line that carriage returns overwrite, such as
/// `10%\r20%\r`, the last part that is not empty is left; line ends with a carriage return stay.
pub fn plain_output(text: &str) -> Cow<'_, str> {
    match text.contains(ESCAPE) {
        true => {
            let stripped = anstream::adapter::strip_str(text).to_string();
            Cow::Owned(without_overwritten(&stripped).into_owned())
        }
        false => without_overwritten(text),
    }
}

fn without_overwritten(text: &str) -> Cow<'_, str> {
    let overwrites = |line: &str| content(line).contains('\r');
    if !text.contains('\r') || !text.split_inclusive('\n').any(overwrites) {
        return Cow::Borrowed(text);
    }
    let lines = text.split_inclusive('\n').map(|line| {
        let content = content(line);
        let end = line.get(content.len()..).unwrap_or_default();
        let last = content.rsplit('\r').find(|part| !part.is_empty());
        [last.unwrap_or_default(), end]
    });
    Cow::Owned(lines.flatten().collect())
}

/// Returns a line without its end.
fn content(line: &str) -> &str {
    let content = line.strip_suffix('\n').unwrap_or(line);
    content.strip_suffix('\r').unwrap_or(content)
}

#[cfg(test)]
mod tests {
    use super::{ESCAPE, plain_output};
    use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};

    #[test]
    fn what_a_terminal_shows_at_last_is_left() {
        for (text, expected) in [
            ("10%\r20%\r", "20%\r"),
            ("pull 10%\rpull 100%\r\ndone\n", "pull 100%\r\ndone\n"),
            ("\r\r\rx\n", "x\n"),
            ("\u{1b}[31mfailed\u{1b}[0m: \u{1b}]0;title\u{7}x\n", "failed: x\n"),
            ("\u{1b}[2K10%\r\u{1b}[2K20%\n", "20%\n"),
            ("one\r\ntwo\r\n", "one\r\ntwo\r\n"),
            ("größe\n", "größe\n"),
            ("", ""),
        ] {
            assert_eq!(plain_output(text), expected, "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

        #[test]
        fn no_escape_is_left_and_no_line_is_lost(text in any::<String>(), noise in "[a\\r\\n\\x1b\\[0-9m]{0,60}") {
            for text in [text, noise] {
                let plain = plain_output(&text);
                prop_assert!(!plain.contains(ESCAPE));
                if !text.contains(ESCAPE) {
                    prop_assert!(plain.matches('\n').count() == text.matches('\n').count());
                }
            }
        }
    }
}
