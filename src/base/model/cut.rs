//! Texts cut to a number of characters, with `…` in place of the rest.

use std::borrow::Cow;

/// Returns the first characters of a text, with `…` after them if there are more.
pub fn cut_after(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.split_at(end).0)),
        None => Cow::Borrowed(text),
    }
}

/// Returns at most this number of characters of a text; the last one is `…` if there were more.
pub fn cut_to(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        Some(_) if chars_max == 0 => Cow::Borrowed(""),
        Some(_) => cut_after(text, chars_max - 1),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::{cut_after, cut_to};

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        assert_eq!(cut_after("äöü", 2), "äö…");
        assert_eq!(cut_after("äöü", 3), "äöü");
        assert_eq!(cut_to("äöü", 2), "ä…");
        assert_eq!(cut_to("äöü", 0), "");
        assert_eq!(cut_to("äöü", 3), "äöü");
    }
}
