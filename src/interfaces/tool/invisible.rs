//! Makes invisible characters visible. A person who reviews a file cannot see them, but a model reads them, so they
//! could hide instructions. They are shown by their code, and never removed silently.

use crate::base::model::{by_number, is_invisible};
use std::borrow::Cow;

/// Shows each invisible character as `<U+202E>` and adds a first line with their number. A text without invisible
/// characters is returned unchanged.
pub(super) fn reveal(text: &str) -> Cow<'_, str> {
    let hidden = hidden_positions(text).count();
    if hidden == 0 {
        return Cow::Borrowed(text);
    }
    let characters = by_number(hidden, "character", "characters");
    let notice = format!("⚠ contains {hidden} invisible {characters}\n");
    Cow::Owned(notice + &show(text))
}

/// Shows each invisible character as `<U+202E>`.
pub(super) fn show(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut hidden = hidden_positions(text).peekable();
    for (position, character) in text.char_indices() {
        if hidden.next_if_eq(&position).is_some() {
            shown.push_str(&format!("<U+{:04X}>", u32::from(character)));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Returns the positions of invisible characters. A carriage return before a line feed is an ordinary line end and
/// not included.
fn hidden_positions(text: &str) -> impl Iterator<Item = usize> {
    let mut characters = text.char_indices().peekable();
    std::iter::from_fn(move || {
        loop {
            let (position, character) = characters.next()?;
            let ends_line = character == '\r' && characters.peek().is_some_and(|(_, next)| *next == '\n');
            if is_invisible(character) && !ends_line {
                return Some(position);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::reveal;
    use crate::base::model::is_invisible;
    use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};

    /// T65
    #[test]
    fn tag_characters_are_shown_and_counted() {
        let hidden: String = ('\u{e0041}'..='\u{e0044}').cycle().take(120).collect();
        let shown = reveal(&format!("replicas: 1 {hidden}\n")).into_owned();
        assert!(shown.starts_with("⚠ contains 120 invisible characters\nreplicas: 1 <U+E0041><U+E0042>"));
        assert!(!shown.chars().any(is_invisible));
    }

    /// T65
    #[test]
    fn bidirectional_overrides_and_lone_carriage_returns_are_shown() {
        assert_eq!(
            reveal("a\u{202e}b\rc\u{1b}[2J"),
            "⚠ contains 3 invisible characters\na<U+202E>b<U+000D>c<U+001B>[2J"
        );
        assert_eq!(reveal("\u{feff}x"), "⚠ contains 1 invisible character\n<U+FEFF>x");
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for text in ["", "a\tb\r\nc\n", "größe 数 ✅ ❤\u{fe0f}", "− – …"] {
            assert_eq!(reveal(text), text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

        /// T65
        #[test]
        fn nothing_invisible_is_left_and_nothing_visible_is_lost(text in any::<String>()) {
            let shown = reveal(&text).into_owned();
            let line_ends = shown.replace("\r\n", "\n");
            prop_assert!(!line_ends.chars().any(is_invisible));
            let visible = |text: &str| text.chars().filter(|character| !is_invisible(*character)).count();
            prop_assert!(visible(&shown) >= visible(&text));
        }
    }
}
