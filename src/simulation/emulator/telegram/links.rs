//! Finds the links that Telegram creates by itself in plain text. The rules follow Telegram's, but are broader: any
//! word may be a top-level domain.

use regex::Regex;
use serde_json::{Value, json};
use std::ops::Range;
use std::sync::LazyLock;

/// The kinds of links and their patterns. The character before a link is checked separately.
static KINDS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    [
        ("mention", r"@[A-Za-z0-9_]{1,64}"),
        ("bot_command", r"/[A-Za-z0-9_]{1,64}(@[A-Za-z0-9_]{3,32})?"),
        ("hashtag", r"#[\p{L}\p{N}_]+"),
        ("cashtag", r"\$[A-Z]{1,8}"),
        ("url", r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s\x{2060}]"),
        ("url", r"[\p{L}\p{N}_-]\.(\p{L}[\p{L}\p{N}-]+)"),
        ("url", r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}"),
        ("email", r"[\p{L}\p{N}._%+-]+@[\p{L}\p{N}]"),
    ]
    .into_iter()
    .filter_map(|(kind, pattern)| Some((kind, Regex::new(pattern).ok()?)))
    .collect()
});

/// Returns the links in a text: kind and byte range.
pub(super) fn find_links(text: &str) -> Vec<(&'static str, Range<usize>)> {
    let mut links = Vec::new();
    for (kind, pattern) in KINDS.iter() {
        for hit in pattern.find_iter(text) {
            let before = text.get(..hit.start()).and_then(|head| head.chars().next_back());
            if starts_link(kind, before) {
                links.push((*kind, hit.range()));
            }
        }
    }
    links
}

fn starts_link(kind: &str, before: Option<char>) -> bool {
    let follows_word = before.is_some_and(|before| before.is_alphanumeric() || before == '_');
    match kind {
        "mention" | "hashtag" | "cashtag" => !follows_word,
        "bot_command" => !follows_word && !matches!(before, Some('/' | '<' | '>')),
        _ => true,
    }
}

/// Returns the entities that Telegram's server adds to a typed text.
pub(super) fn auto_entities(text: &str) -> Vec<Value> {
    let units = |end: usize| text.get(..end).unwrap_or_default().encode_utf16().count();
    let mut entities: Vec<Value> = find_links(text)
        .into_iter()
        .map(|(kind, range)| {
            let offset = units(range.start);
            json!({"type": kind, "offset": offset, "length": units(range.end) - offset})
        })
        .collect();
    entities.sort_by_key(|entity| entity["offset"].as_u64());
    entities
}
