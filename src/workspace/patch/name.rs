//! File names in patch headers, quoted the way git quotes them by default.

/// The name as it is, or C-quoted when it holds a quote, a backslash, a control character or anything
/// beyond ASCII. Also when a directory or file in it starts or ends with a space: git accepts the
/// quotes, and without them takes the header for two other names.
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

/// A quoted name as it follows `---` and `+++`: a tab ends one that has a space in it, or a reader
/// would take what follows the space for a date.
pub(super) fn label(quoted: &str) -> String {
    match quoted.contains(' ') {
        true => format!("{quoted}\t"),
        false => quoted.to_owned(),
    }
}
