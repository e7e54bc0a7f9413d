//! The line that a person types while a turn runs. The terminal passes each key on at once and shows none of them.

use rustix::io::{ioctl_fionread, read};
use unicode_width::UnicodeWidthChar;

/// The number of bytes that are read at a time.
const BYTES_AT_ONCE_MAX: usize = 4_096;
/// The keys that remove a character.
const BACKSPACE: [char; 2] = ['\u{8}', '\u{7f}'];
/// Ctrl-U, which removes the line.
const CTRL_U: char = '\u{15}';
/// Ctrl-W, which removes a word.
const CTRL_W: char = '\u{17}';
const ESCAPE: char = '\u{1b}';

/// The position in the sequence of a key without a character, such as an arrow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum KeySequence {
    #[default]
    None,
    Begun,
    Continued,
}

/// A line that is being typed.
#[derive(Debug, Default)]
pub(super) struct TypedLine {
    text: String,
    /// The beginning of a character that has not arrived completely.
    rest: Vec<u8>,
    sequence: KeySequence,
}

impl TypedLine {
    /// Returns the text so far.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Replaces the text.
    pub(super) fn set(&mut self, text: String) {
        self.text = text;
    }

    /// Adds bytes of the terminal to a line of at most `chars_max` characters. Returns the lines that were entered.
    pub(super) fn add(&mut self, bytes: &[u8], chars_max: usize) -> Vec<String> {
        self.rest.extend_from_slice(bytes);
        let (text, rest) = decoded(&self.rest);
        self.rest = rest;
        text.chars()
            .filter_map(|key| self.press(key, chars_max))
            .collect()
    }

    fn press(&mut self, key: char, chars_max: usize) -> Option<String> {
        self.sequence = match (self.sequence, key) {
            (KeySequence::None, ESCAPE) => KeySequence::Begun,
            (KeySequence::Begun, '[' | 'O') => KeySequence::Continued,
            (KeySequence::Continued, '@'..='~') | (KeySequence::Begun, _) => KeySequence::None,
            (KeySequence::Continued, _) => KeySequence::Continued,
            (KeySequence::None, '\r' | '\n') => return Some(std::mem::take(&mut self.text)),
            (KeySequence::None, key) => {
                self.edit(key, chars_max);
                KeySequence::None
            }
        };
        None
    }

    fn edit(&mut self, key: char, chars_max: usize) {
        match key {
            _ if BACKSPACE.contains(&key) => {
                self.text.pop();
            }
            CTRL_U => self.text.clear(),
            CTRL_W => {
                let kept = self.text.trim_end().rfind(char::is_whitespace);
                let kept = kept.map_or(0, |space| space + 1);
                // A space before a word may have several bytes.
                let kept = (kept..=self.text.len()).find(|end| self.text.is_char_boundary(*end));
                self.text.truncate(kept.unwrap_or_default());
            }
            key if key.is_control() => {}
            key if self.text.chars().count() < chars_max => self.text.push(key),
            _ => {}
        }
    }

    /// Returns the end of the text that takes at most `columns_max` columns.
    pub(super) fn end(&self, columns_max: usize) -> &str {
        let mut columns = 0;
        let fits = |character: &char| {
            columns += character.width().unwrap_or_default();
            columns <= columns_max
        };
        let bytes: usize = self.text.chars().rev().take_while(fits).map(char::len_utf8).sum();
        self.text.get(self.text.len() - bytes..).unwrap_or_default()
    }
}

/// Returns the text of bytes, without what is no text, and the beginning of a character at their end.
fn decoded(bytes: &[u8]) -> (String, Vec<u8>) {
    let (mut text, mut rest) = (String::new(), Vec::new());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        let is_cut = str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none());
        rest = match is_cut {
            true => chunk.invalid().to_vec(),
            false => Vec::new(),
        };
    }
    (text, rest)
}

/// Reads the bytes that are there. Does not wait, whatever the settings of the terminal are.
pub(super) fn available_bytes() -> Vec<u8> {
    let input = std::io::stdin();
    let mut bytes = vec![0; BYTES_AT_ONCE_MAX];
    // A terminal that is gone ends the session elsewhere.
    let count = match ioctl_fionread(&input) {
        Ok(1..) => read(&input, bytes.as_mut_slice()).unwrap_or_default(),
        Ok(0) | Err(_) => 0,
    };
    bytes.truncate(count);
    bytes
}

#[cfg(test)]
mod tests {
    use super::TypedLine;

    #[test]
    fn keys_edit_the_line_and_enter_ends_it() {
        let mut line = TypedLine::default();
        assert_eq!(line.add(b"one tow\x7f\x08wo\rthree fo", 100), ["one two"]);
        assert_eq!(line.text(), "three fo");
        assert_eq!(line.add("\u{17}vier ä\u{15}".as_bytes(), 100), [""; 0]);
        assert_eq!(line.text(), "");
        assert_eq!(line.add(b"a \xff\x01b\n\nc", 100), ["a b", ""]);
        assert_eq!(line.text(), "c");
        assert_eq!(line.add("x\u{2003}ü\u{17}".as_bytes(), 100), [""; 0]);
        assert_eq!(line.text(), "cx\u{2003}");
    }

    #[test]
    fn a_key_without_a_character_is_left_out_also_if_it_arrives_in_pieces() {
        let mut line = TypedLine::default();
        for bytes in [
            &b"a\x1b[A\x1b[1;5D\x1bOPb"[..],
            b"\x1b",
            b"[3",
            b"~c\x1b\r",
            b"\xe2\x82",
            b"\xac",
        ] {
            assert_eq!(line.add(bytes, 100), [""; 0]);
        }
        assert_eq!(line.text(), "abc€");
    }

    #[test]
    fn a_line_has_a_bound_and_its_end_is_shown() {
        let mut line = TypedLine::default();
        assert_eq!(line.add("日本語".repeat(10).as_bytes(), 7), [""; 0]);
        assert_eq!(line.text(), "日本語日本語日");
        assert_eq!(line.end(5), "語日");
        assert_eq!(line.end(100), line.text());
    }
}
