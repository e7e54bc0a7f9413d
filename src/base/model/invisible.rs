//! Invisible characters, and untrusted names on one line. A name can then not start a line, leave its code span, move
//! the cursor or reverse the direction of the text.

/// Returns true for a character that is invisible in a text. Tab, line ends and the one variation selector of emoji
/// are not included.
pub fn is_invisible(character: char) -> bool {
    match character {
        '\t' | '\n' | '\u{fe0f}' => false,
        // Soft hyphen, joiners, fillers and directional marks.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => true,
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' => true,
        // Line and paragraph separators, embeddings, overrides and isolates.
        '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' => true,
        // Variation selectors and tags, which can encode whole sentences.
        '\u{fe00}'..='\u{fe0e}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => character.is_control(),
    }
}

/// Returns the text on one line, with control and invisible characters shown as `<U+202E>`.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || character == '\u{fe0f}' || is_invisible(character) {
            line.push_str(&format!("<U+{:04X}>", u32::from(character)));
        } else {
            line.push(character);
        }
    }
    line
}

/// Returns the text on one line of at most `chars_max` characters; of a longer text the beginning and the end.
pub fn short_line(text: &str, chars_max: usize) -> String {
    let line = one_line(text);
    let count = line.chars().count();
    if count <= chars_max {
        return line;
    }
    let head = chars_max / 2;
    let tail = chars_max.saturating_sub(head + 1);
    let first = line.chars().take(head);
    let last = line.chars().skip(count - tail);
    first.chain(['…']).chain(last).collect()
}

/// Returns an untrusted name on one line and in backticks. The name cannot end the code span.
pub fn quoted(name: &str) -> String {
    format!("`{}`", one_line(name).replace('`', "'"))
}

#[cfg(test)]
mod tests {
    use super::{one_line, quoted, short_line};

    #[test]
    fn nothing_hides_in_a_line() {
        assert_eq!(
            one_line("a\u{202e}b\nc\td\u{1b}[31m\u{85}\u{2028}"),
            "a<U+202E>b<U+000A>c<U+0009>d<U+001B>[31m<U+0085><U+2028>"
        );
        assert_eq!(one_line("größe 数 ✅"), "größe 数 ✅");
    }

    #[test]
    fn a_long_line_keeps_its_beginning_and_its_end() {
        assert_eq!(short_line("abcdefg", 7), "abcdefg");
        assert_eq!(short_line("abcdefgh", 7), "abc…fgh");
        assert_eq!(short_line("größe/数\n/ende", 8), "größ…nde");
    }

    #[test]
    fn a_name_stays_between_its_backticks() {
        assert_eq!(quoted("a` is fine.\n`b"), "`a' is fine.<U+000A>'b`");
        assert_eq!(quoted("environments/dev"), "`environments/dev`");
    }
}
