//! Escapes of quoted strings.

use crate::base::model::is_hex;
use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns the meaning of a quoted string. The `Err` describes an invalid escape.
pub fn unescape(text: &str) -> Result<Cow<'_, str>, String> {
    if memchr::memchr(b'\\', text.as_bytes()).is_none() {
        return Ok(Cow::Borrowed(text));
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        plain.push_str(before);
        let mut chars = escape.chars();
        let Some(letter) = chars.next() else {
            return Err("Truncated escape sequence in string literal.".to_owned());
        };
        rest = chars.as_str();
        match letter {
            '"' | '\'' | '\\' | '/' => plain.push(letter),
            'b' => plain.push('\u{8}'),
            'f' => plain.push('\u{c}'),
            'n' => plain.push('\n'),
            'r' => plain.push('\r'),
            't' => plain.push('\t'),
            'u' => {
                let (char, after) = unicode(text, rest)?;
                plain.push(char);
                rest = after;
            }
            other => return Err(format!("Unknown escape sequence in string literal: \\{other}")),
        }
    }
    plain.push_str(rest);
    Ok(Cow::Owned(plain))
}

/// Returns the character of `\u` and the text after it. `whole` is used only in errors.
fn unicode<'s>(whole: &str, rest: &'s str) -> Result<(char, &'s str), String> {
    if rest.len() < 4 {
        return Err("Truncated unicode escape sequence in string literal.".to_owned());
    }
    let Some((code, after)) = four_digits(rest) else {
        return Err(format!(
            "Unicode escape sequence was malformed: {}",
            start_of(whole)
        ));
    };
    if !(0xD800..0xE000).contains(&code) {
        return Ok((char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), after));
    }
    if after.len() < 6 {
        return Err("Truncated unicode surrogate pair escape sequence in string literal.".to_owned());
    }
    let Some(low) = after.strip_prefix("\\u") else {
        return Err(
            "Unicode surrogate pair escape sequence missing low surrogate in string literal.".to_owned(),
        );
    };
    let Some((low, after)) = four_digits(low) else {
        return Err(format!(
            "Unicode low surrogate escape sequence was malformed: {}",
            start_of(whole)
        ));
    };
    let pair = (0xD800..0xDC00).contains(&code) && (0xDC00..0xE000).contains(&low);
    let char = pair
        .then(|| 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00))
        .and_then(char::from_u32)
        .unwrap_or(char::REPLACEMENT_CHARACTER);
    Ok((char, after))
}

fn four_digits(text: &str) -> Option<(u32, &str)> {
    let (digits, after) = text.split_at_checked(4)?;
    if !is_hex(digits) {
        return None;
    }
    Some((u32::from_str_radix(digits, 16).ok()?, after))
}

fn start_of(text: &str) -> String {
    let bytes = text.as_bytes();
    String::from_utf8_lossy(bytes.get(..4).unwrap_or(bytes)).into_owned()
}

/// Returns a text as written between quotes of the given kind, `'` or `"`.
pub fn escape(text: &str, quote: char) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 8 + 2);
    let mut rest = text;
    // Most characters need no escape and are copied at once.
    while let Some(found) = rest.bytes().position(|byte| !needs_no_escape(byte)) {
        let Some((plain, special)) = rest.split_at_checked(found) else {
            break;
        };
        escaped.push_str(plain);
        let mut chars = special.chars();
        chars
            .next()
            .into_iter()
            .for_each(|char| escape_one(char, quote, &mut escaped));
        rest = chars.as_str();
    }
    escaped.push_str(rest);
    escaped
}

/// Returns true if a byte needs no escape between any quotes. The control characters beyond ASCII begin with 0xc2, as
/// some other characters do.
pub(crate) fn needs_no_escape(byte: u8) -> bool {
    byte >= b' ' && !matches!(byte, b'\'' | b'"' | b'\\' | 0x7f | 0xc2)
}

fn escape_one(char: char, quote: char, escaped: &mut String) {
    match char {
        '"' | '\'' => {
            if char == quote {
                escaped.push('\\');
            }
            escaped.push(char);
        }
        '\\' => escaped.push_str("\\\\"),
        '\u{8}' => escaped.push_str("\\b"),
        '\u{c}' => escaped.push_str("\\f"),
        '\n' => escaped.push_str("\\n"),
        '\r' => escaped.push_str("\\r"),
        '\t' => escaped.push_str("\\t"),
        '\0'..'\u{20}' | '\u{7f}'..='\u{9f}' => {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(char));
        }
        _ => escaped.push(char),
    }
}
