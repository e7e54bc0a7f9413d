//! File names in patch headers, quoted as git does by default.

/// Quotes a name in C style if it contains a quote, a backslash, a control character or a non-ASCII character. Also
/// quotes a name if one of its components starts or ends with a space: git accepts the quotes, and would otherwise
/// read the header as two other names.
pub(super) fn quote(name: &str) -> String {
    let plain = |byte: u8| (b' '..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
    let ambiguous = name
        .split('/')
        .any(|part| part.starts_with(' ') || part.ends_with(' '));
    if !ambiguous && name.bytes().all(plain) {
        return name.to_owned();
    }
    let mut quoted = String::with_capacity(name.len() + 16);
    quoted.push('"');
    for byte in name.bytes() {
        match byte {
            b'"' => quoted.push_str("\\\""),
            b'\\' => quoted.push_str("\\\\"),
            0x07 => quoted.push_str("\\a"),
            0x08 => quoted.push_str("\\b"),
            b'\t' => quoted.push_str("\\t"),
            b'\n' => quoted.push_str("\\n"),
            0x0b => quoted.push_str("\\v"),
            0x0c => quoted.push_str("\\f"),
            b'\r' => quoted.push_str("\\r"),
            byte if plain(byte) => quoted.push(char::from(byte)),
            byte => quoted.push_str(&format!("\\{byte:03o}")),
        }
    }
    quoted.push('"');
    quoted
}

/// Formats a quoted name after `---` and `+++`. A tab ends a name with a space, because a reader would otherwise
/// read the text after the space as a date.
pub(super) fn label(quoted: &str) -> String {
    match quoted.contains(' ') {
        true => format!("{quoted}\t"),
        false => quoted.to_owned(),
    }
}
