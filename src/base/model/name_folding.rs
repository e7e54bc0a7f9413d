//! Compares names as file systems do that ignore case, treat Unicode normal forms as equal, or remove trailing
//! characters of a name.

use super::is_invisible;
use std::borrow::Cow;
use unicode_normalization::{UnicodeNormalization, is_nfc};

/// Returns a common form of all names that some file system treats as equal.
pub fn fold_name(name: &str) -> Cow<'_, str> {
    let name = name.trim_end_matches([' ', '.']);
    if name.is_ascii() {
        return match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => name.to_ascii_lowercase().into(),
            false => name.into(),
        };
    }
    // Upper case comes first, because some letters are equal only in upper case.
    let seen = name
        .nfd()
        .filter(|character| !is_invisible(*character) && *character != '\u{fe0f}');
    let upper: String = seen.flat_map(char::to_uppercase).collect();
    let lower: String = upper.chars().flat_map(char::to_lowercase).nfd().collect();
    lower.into()
}

/// Returns the name with each letter and its marks as one character, if such a character exists.
pub fn compose_name(name: &str) -> Cow<'_, str> {
    match is_nfc(name) {
        true => name.into(),
        false => name.nfc().collect::<String>().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{compose_name, fold_name};

    #[test]
    fn names_that_some_file_system_takes_for_one_fold_to_the_same() {
        for (one, other) in [
            (".env", ".ENV"),
            ("Secrets", "secrets"),
            ("gr\u{f6}\u{df}e", "GRO\u{308}SSE"),
            ("\u{212a}ube", "kube"),
            ("\u{17f}ecrets", "SECRETS"),
            ("a\u{200d}b\u{e9}", "AB\u{c9}"),
            ("web.", "web"),
            ("web ", "WEB"),
            ("\u{3c2}", "\u{3a3}"),
        ] {
            assert_eq!(fold_name(one), fold_name(other), "{one} {other}");
        }
        for (one, other) in [
            ("web", "wep"),
            ("a-b", "a_b"),
            ("e", "\u{e9}"),
            ("web.json", "webjson"),
        ] {
            assert_ne!(fold_name(one), fold_name(other), "{one} {other}");
        }
    }

    #[test]
    fn a_name_is_composed_where_that_is_possible() {
        assert_eq!(compose_name("o\u{308}"), "\u{f6}");
        assert_eq!(compose_name("web"), "web");
    }
}
