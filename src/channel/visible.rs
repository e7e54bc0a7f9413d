//! Shows characters that would otherwise change what a reader sees: terminal escapes, carriage
//! returns, and marks that turn the reading direction around. Every channel passes foreign text
//! through here before it escapes it for its platform.

/// The text with control and direction characters written out: `\u{1b}` as `␛`, `\u{202e}` as
/// `<U+202E>`. Line ends become `\n`; tabs stay. Joiners stay, because emoji need them.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\t' => shown.push(character),
            '\r' if characters.peek() == Some(&'\n') => {}
            '\u{0}'..='\u{1f}' => shown.push(control_picture(character)),
            '\u{7f}' => shown.push('␡'),
            '\u{80}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {
                shown.push_str(&format!("<U+{:04X}>", u32::from(character)));
            }
            _ => shown.push(character),
        }
    }
    shown
}

fn control_picture(control: char) -> char {
    char::from_u32(0x2400 + u32::from(control)).unwrap_or('␀')
}

#[cfg(test)]
mod tests {
    use super::visible;

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
        ] {
            assert_eq!(visible(text), shown, "{text:?}");
        }
    }

    #[test]
    fn ordinary_text_and_emoji_stay_as_they_are() {
        for text in ["", "replicas: 4\n\tümlaut", "👩‍👩‍👧‍👦 🏴󠁧󠁢󠁥󠁮󠁧󠁿 é נ ع"]
        {
            assert_eq!(visible(text), text);
        }
    }
}
