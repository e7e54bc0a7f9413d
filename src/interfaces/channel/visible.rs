//! Escapes characters that would change the text that a reader sees: terminal escapes, carriage returns, and marks
//! that reverse the reading direction. Every channel passes untrusted text through this module before it escapes it
//! for its platform.

use crate::base::model::is_invisible;

/// Returns the text with control and invisible characters made visible: `\u{1b}` as `␛`, `\u{202e}` as `<U+202E>`.
/// Line ends become `\n`. Tabs are kept, and so are the invisible characters that emoji and scripts need: joiners, one
/// variation selector after a character that is not ASCII, and the tags of a flag.
pub(super) fn escape_text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut before = ' ';
    let mut flag_tags = 0;
    let mut rest = text;
    loop {
        let (plain, other) = split_plain(rest);
        if let Some(last) = plain.chars().next_back() {
            shown.push_str(plain);
            (before, flag_tags) = (last, 0);
        }
        let mut characters = other.chars();
        let Some(character) = characters.next() else { break };
        rest = characters.as_str();
        let is_needed = match character {
            '\u{200c}' | '\u{200d}' => true,
            _ if is_variation_selector(character) => !before.is_ascii() && !is_invisible(before),
            _ => flag_tags > 0,
        };
        flag_tags = match character {
            FLAG => tags_of_flag(rest),
            _ => flag_tags.saturating_sub(1),
        };
        match character {
            '\r' if rest.starts_with('\n') => {}
            '\u{0}'..='\u{1f}' => shown.push(control_picture(character)),
            '\u{7f}' => shown.push('␡'),
            _ if is_invisible(character) && !is_needed => {
                shown.push_str(&format!("<U+{:04X}>", u32::from(character)));
            }
            _ => shown.push(character),
        }
        before = character;
    }
    shown
}

/// Divides a text after the visible ASCII characters, tabs and line ends at its beginning. Most texts have no others.
fn split_plain(text: &str) -> (&str, &str) {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    let end = text.bytes().position(|byte| !is_plain(byte));
    text.split_at_checked(end.unwrap_or(text.len()))
        .unwrap_or_default()
}

/// The black flag. Tags after it make it the flag of a region: <https://www.unicode.org/reports/tr51/#valid-emoji-tag-sequences>.
const FLAG: char = '\u{1f3f4}';
/// Maximum number of letters and digits of a region, as in `gbeng` for England.
const REGION_TAGS_MAX: usize = 6;

/// Returns the number of tags of a region at the beginning of `text`, with the one that ends them; 0 if it has another form.
fn tags_of_flag(text: &str) -> usize {
    let is_region = |tag: &char| matches!(tag, '\u{e0030}'..='\u{e0039}' | '\u{e0061}'..='\u{e007a}');
    let count = text.chars().take_while(is_region).count();
    match (1..=REGION_TAGS_MAX).contains(&count) && text.chars().nth(count) == Some('\u{e007f}') {
        true => count + 1,
        false => 0,
    }
}

fn is_variation_selector(character: char) -> bool {
    matches!(character, '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{fe00}'..='\u{fe0e}' | '\u{e0100}'..='\u{e01ef}')
}

/// Returns an untrusted name, label or value on one line. Invisible characters are made visible as well.
pub(super) fn escape_line(text: &str) -> String {
    escape_code(text).replace('\n', "␊").replace('\t', "␉")
}

/// Returns the beginning of an untrusted name, label or value on one line, like [`escape_line`].
pub(super) fn escape_label(text: &str, chars_max: usize) -> String {
    escape_line(text).chars().take(chars_max).collect()
}

/// Returns the text of code, which users compare character by character. Invisible characters are made visible as
/// well, including the joiners of emoji.
pub(super) fn escape_code(text: &str) -> String {
    let text = escape_text(text);
    if text.is_ascii() {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    let mut before = ' ';
    for character in text.chars() {
        // This variation selector of emoji is invisible after an ASCII character.
        let hides = character == '\u{fe0f}' && before.is_ascii();
        match is_invisible(character) || hides {
            true => shown.push_str(&format!("<U+{:04X}>", u32::from(character))),
            false => shown.push(character),
        }
        before = character;
    }
    shown
}

fn control_picture(control: char) -> char {
    char::from_u32(0x2400 + u32::from(control)).unwrap_or('␀')
}

#[cfg(test)]
mod tests {
    use super::{escape_code, escape_line, escape_text};

    /// T75
    #[test]
    fn what_would_fool_a_reader_is_written_out() {
        for (text, shown) in [
            ("\u{1b}]8;;http://evil\u{7}", "␛]8;;http://evil␇"),
            ("x\u{202e}gnp.", "x<U+202E>gnp."),
            ("safe\revil", "safe␍evil"),
            ("a\r\nb\tc", "a\nb\tc"),
            ("\u{0}\u{7f}\u{9b}31m", "␀␡<U+009B>31m"),
            (
                "\u{2066}\u{2069}\u{200f}\u{61c}",
                "<U+2066><U+2069><U+200F><U+061C>",
            ),
            ("a\u{2028}b", "a<U+2028>b"),
            ("ok\u{e0041}\u{e0042}", "ok<U+E0041><U+E0042>"),
            ("🏴\u{e0041}\u{e007f}", "🏴<U+E0041><U+E007F>"),
            (
                "🏴\u{e0067}\u{e0062}\u{e007f}\u{e0061}",
                "🏴\u{e0067}\u{e0062}\u{e007f}<U+E0061>",
            ),
            ("🏴\u{e0061}\u{e0061}", "🏴<U+E0061><U+E0061>"),
            ("no\u{fe01}\u{e0100}", "no<U+FE01><U+E0100>"),
            ("葛\u{e0100}\u{e0101}", "葛\u{e0100}<U+E0101>"),
            ("al\u{ad}ice\u{200b}\u{feff}", "al<U+00AD>ice<U+200B><U+FEFF>"),
        ] {
            assert_eq!(escape_text(text), shown, "{text:?}");
        }
    }

    #[test]
    fn ordinary_text_and_emoji_stay_as_they_are() {
        for text in ["", "replicas: 4\n\tümlaut", "👩‍👩‍👧‍👦 🏴󠁧󠁢󠁥󠁮󠁧󠁿 é נ ع ☎\u{fe0e} 葛\u{e0100}"]
        {
            assert_eq!(escape_text(text), text);
        }
    }

    /// T75
    #[test]
    fn code_hides_nothing_and_a_label_is_one_line() {
        let hidden = "image: nginx\u{200b}\u{e0041}\n\t❤\u{fe0f}";
        assert_eq!(escape_code(hidden), "image: nginx<U+200B><U+E0041>\n\t❤\u{fe0f}");
        assert_eq!(escape_code("nginx\u{fe0f}"), "nginx<U+FE0F>");
        assert_eq!(
            escape_line("x\nno secrets\tpass\u{200d}"),
            "x␊no secrets␉pass<U+200D>"
        );
    }
}
