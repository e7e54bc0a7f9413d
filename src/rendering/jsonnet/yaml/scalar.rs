//! The features of a text, and the styles that can represent it.

use super::{GoYamlVersion, resolve};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarStyle {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarPosition {
    /// A key on the line of its value. It must fit on one line.
    SimpleKey,
    /// Any other position.
    Block,
}

/// The styles that can represent a text, regardless of its meaning.
#[derive(Clone, Copy, Debug)]
pub(super) struct AllowedStyles {
    pub(super) is_multiline: bool,
    plain: bool,
    single_quoted: bool,
    literal: bool,
}

/// Returns the style of a text. A text with a line feed is a literal if possible. A text that would be read as another
/// type is double-quoted. Any other text gets the plainest possible style.
pub(super) fn style(
    profile: GoYamlVersion,
    text: &str,
    shape: AllowedStyles,
    position: ScalarPosition,
) -> ScalarStyle {
    let is_key = position == ScalarPosition::SimpleKey;
    if is_key && shape.is_multiline {
        return ScalarStyle::DoubleQuoted;
    }
    if text.contains('\n') {
        return if shape.literal && !is_key {
            ScalarStyle::Literal
        } else {
            ScalarStyle::DoubleQuoted
        };
    }
    if !resolve::is_read_as_text(profile, text) {
        return ScalarStyle::DoubleQuoted;
    }
    if shape.plain {
        ScalarStyle::Plain
    } else if shape.single_quoted {
        ScalarStyle::SingleQuoted
    } else {
        ScalarStyle::DoubleQuoted
    }
}

/// The features of a text that decide its style.
#[derive(Debug, Default, PartialEq)]
struct TextFeatures {
    indicator: bool,
    line_break: bool,
    special: bool,
    tab: bool,
    outer_space: bool,
    trailing_space: bool,
    outer_break: bool,
    space_after_break: bool,
    break_after_space: bool,
}

impl AllowedStyles {
    /// Examines every character once.
    pub(super) fn for_text(profile: GoYamlVersion, text: &str) -> Self {
        let contents = TextFeatures::from_text(text);
        // v2 treats a tab as a special character; v3 allows it in a literal.
        let unquotable = contents.special || contents.tab;
        let unliteral = contents.special || profile == GoYamlVersion::V2 && contents.tab;
        let is_escaped = contents.break_after_space || unquotable;
        Self {
            is_multiline: contents.line_break,
            plain: !(contents.indicator
                || contents.line_break
                || contents.outer_space
                || contents.outer_break
                || contents.space_after_break
                || is_escaped),
            single_quoted: !(contents.space_after_break || is_escaped),
            literal: !(text.is_empty() || contents.trailing_space || contents.break_after_space || unliteral),
        }
    }
}

impl TextFeatures {
    fn from_text(text: &str) -> Self {
        match is_word(text) {
            true => Self::default(),
            false => Self::by_character(text),
        }
    }

    fn by_character(text: &str) -> Self {
        let mut contents = Self {
            indicator: text.starts_with("---") || text.starts_with("..."),
            ..Self::default()
        };
        let mut previous = None;
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let next = characters.peek().copied();
            contents.indicator |= is_indicator(previous, character, next);
            if character == '\t' {
                contents.tab = true;
            } else if !is_printable(character) {
                contents.special = true;
            }
            let is_outer = previous.is_none() || next.is_none();
            if character == ' ' {
                contents.outer_space |= is_outer;
                contents.trailing_space |= next.is_none();
                contents.space_after_break |= previous.is_some_and(is_break);
            } else if is_break(character) {
                contents.line_break = true;
                contents.outer_break |= is_outer;
                contents.break_after_space |= previous == Some(' ');
            }
            previous = Some(character);
        }
        contents
    }
}

/// Returns true if no character of a text has a meaning in YAML, as in most texts.
fn is_word(text: &str) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
    text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric) && text.as_bytes().iter().all(is_plain)
}

/// Returns true if a character has a meaning in YAML at its position in a block.
fn is_indicator(previous: Option<char>, character: char, next: Option<char>) -> bool {
    let before_blank = next.is_none_or(|next| matches!(next, ' ' | '\t'));
    let Some(previous) = previous else {
        return match character {
            '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
            | '`' => true,
            '?' | ':' | '-' => before_blank,
            _ => false,
        };
    };
    match character {
        ':' => before_blank,
        '#' => matches!(previous, ' ' | '\t' | '\0') || is_break(previous),
        _ => false,
    }
}

/// Returns true if the Go emitters write a character unescaped. They escape characters beyond the basic plane.
pub(super) fn is_printable(character: char) -> bool {
    matches!(character, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        && character != '\u{feff}'
}

/// Returns true if a character ends a line in YAML 1.1.
pub(super) fn is_break(character: char) -> bool {
    matches!(character, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::{TextFeatures, is_word};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_plain_word_has_no_special_contents(text in "[A-Za-z0-9][A-Za-z0-9/_.-]{0,12}|[ -~]{0,6}") {
            prop_assert!(!is_word(&text) || TextFeatures::by_character(&text) == TextFeatures::default(), "{text}");
        }
    }
}
