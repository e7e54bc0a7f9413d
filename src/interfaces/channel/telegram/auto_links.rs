//! Protection against Telegram's automatic links. Telegram converts `@names`, `/commands`, `#tags`, addresses and
//! bare domains to links. Text of a model or a repository must not notify users or leak data, so such a word is marked as
//! code, in which Telegram makes no links. An invisible word joiner breaks those that are too many for a message.

use std::ops::Range;

/// The word joiner, an invisible character. Telegram ends names and addresses at it, but not at the zero-width joiner
/// that emoji use.
pub(super) const JOINER: char = '\u{2060}';

/// Returns the byte positions before which a joiner is needed. `protected` are the ranges in which Telegram makes no
/// links, in order and without overlap.
pub(super) fn joiner_positions(text: &str, protected: &[Range<usize>]) -> Vec<usize> {
    let mut found = Vec::new();
    for (byte, value) in text.bytes().enumerate() {
        if !matches!(value, b'@' | b'/' | b'#' | b':' | b'.' | b'$') || is_within(protected, byte) {
            continue;
        }
        let (before, after) = (text.get(..byte), text.get(byte + 1..));
        let before = before.and_then(|before| before.chars().next_back());
        if is_linked(char::from(value), before, after.unwrap_or_default(), text, byte) {
            found.push(byte + 1);
        }
    }
    found
}

/// Returns true if one of the ordered ranges contains the byte. A text may have thousands of them, so the search is
/// binary.
fn is_within(stretches: &[Range<usize>], byte: usize) -> bool {
    let before = stretches.partition_point(|stretch| stretch.end <= byte);
    stretches
        .get(before)
        .is_some_and(|stretch| stretch.contains(&byte))
}

/// Returns true if Telegram would make a link around `character`.
fn is_linked(character: char, before: Option<char>, after: &str, text: &str, byte: usize) -> bool {
    let next = after.chars().next();
    let starts_name = next.is_some_and(is_name);
    let starts_word = next.is_some_and(|next| next.is_alphanumeric() || next == '_');
    let follows_word = before.is_some_and(|before| before.is_alphanumeric() || before == '_');
    match character {
        '@' => starts_word,
        '/' => starts_name && !follows_word && before != Some('/'),
        '#' => starts_word && !follows_word,
        '$' => next.is_some_and(|next| next.is_ascii_uppercase()) && !follows_word,
        ':' => after.starts_with("//"),
        '.' => match (before, next) {
            (Some(before), Some(next)) if is_label(before) && is_label(next) => {
                !next.is_ascii_digit() || is_address(text, byte)
            }
            _ => false,
        },
        _ => false,
    }
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Returns true if a character may be part of a domain name in Telegram's permissive rules.
fn is_label(character: char) -> bool {
    is_name(character) || character == '-' || (!character.is_ascii() && !character.is_whitespace())
}

/// Returns true for a dot in four numbers: an address is broken, a version is not.
fn is_address(text: &str, dot: usize) -> bool {
    let is_part = |character: &char| character.is_ascii_digit() || *character == '.';
    let left = text
        .get(..dot)
        .unwrap_or_default()
        .chars()
        .rev()
        .take(16)
        .take_while(is_part);
    let right = text
        .get(dot..)
        .unwrap_or_default()
        .chars()
        .take(16)
        .take_while(is_part);
    left.chain(right).filter(|character| *character == '.').count() >= 3
}

#[cfg(test)]
mod tests {
    use super::joiner_positions;

    fn guarded(text: &str) -> String {
        let cuts = joiner_positions(text, &[]);
        let mut shown = String::new();
        for (byte, character) in text.char_indices() {
            if cuts.contains(&byte) {
                shown.push('|');
            }
            shown.push(character);
        }
        shown
    }

    /// T61, T74
    #[test]
    fn what_telegram_links_is_broken_and_nothing_else() {
        for (text, shown) in [
            ("ping @alice", "ping @|alice"),
            ("/stop@other_bot", "/|stop@|other_bot"),
            ("https://evil.com/?k=1", "https:|//evil.|com/?k=1"),
            ("tg://resolve?domain=x", "tg:|//resolve?domain=x"),
            ("a@b.co #tag 5#3", "a@|b.|co #|tag 5#3"),
            ("README.md, deploy.sh.", "README.|md, deploy.|sh."),
            ("10.0.0.1 is not 1.27.3", "10.|0.|0.|1 is not 1.27.3"),
            ("пример.рф", "пример.|рф"),
            ("environments/dev and/or 3/4", "environments/dev and/or 3/4"),
            ("End. Next @ / # : //", "End. Next @ / # : //"),
        ] {
            assert_eq!(guarded(text), shown);
        }
    }
}
