//! Converts Slack's markup to plain text: `<@U…>`, `<#C…|name>`, `<url|label>`, `&lt;`.

use serde_json::Value;
use std::borrow::Cow;

/// The maximum number of characters of quoted text that are kept.
const QUOTED_CHARS_MAX: usize = 16_000;
/// The maximum number of attachments of one message that are read.
const ATTACHMENTS_MAX: usize = 20;
/// The maximum nesting of a forwarded message's blocks that is read.
const BLOCKS_DEPTH_MAX: usize = 12;

/// The words that the user wrote.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MessageText {
    /// The readable text without the mention of the bot.
    pub(super) text: String,
    /// True if the bot is mentioned.
    pub(super) mentions_bot: bool,
}

/// Parses a message text. Slack writes a `<` only for markup; a `<` that a user typed arrives as `&lt;`.
pub(super) fn parse_text(source: &str, bot: &str) -> MessageText {
    let mut text = String::with_capacity(source.len());
    let mut mentions_bot = false;
    let mut rest = source;
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(&unescaped(before));
        let Some((token, after_token)) = after.split_once('>') else {
            text.push('<');
            rest = after;
            continue;
        };
        rest = after_token;
        if is_mention_of(token, bot) {
            mentions_bot = true;
            if text.is_empty() || text.ends_with(char::is_whitespace) {
                rest = rest.strip_prefix(' ').unwrap_or(rest);
            }
            continue;
        }
        text.push_str(&readable(token));
    }
    text.push_str(&unescaped(rest));
    MessageText {
        text: text.trim().to_owned(),
        mentions_bot,
    }
}

/// Returns texts of other users that the message shares or forwards.
pub(super) fn quoted(event: &Value) -> Option<String> {
    let attachments = event.get("attachments").and_then(Value::as_array)?;
    let mut parts = Vec::new();
    for attachment in attachments.iter().take(ATTACHMENTS_MAX) {
        let own = ["text", "fallback"]
            .iter()
            .find_map(|name| attachment.get(*name).and_then(Value::as_str))
            .filter(|text| !text.trim().is_empty());
        match own {
            Some(text) => parts.push(parse_text(text, "").text),
            None => {
                let mut words = String::new();
                for name in ["message_blocks", "blocks"] {
                    collect_text(attachment.get(name).unwrap_or(&Value::Null), 0, &mut words);
                }
                parts.push(words.trim().to_owned());
            }
        }
    }
    parts.retain(|part| !part.is_empty());
    let text: String = parts.join("\n\n").chars().take(QUOTED_CHARS_MAX).collect();
    (!text.is_empty()).then_some(text)
}

/// Collects the words of blocks: every `text` that is a string.
fn collect_text(value: &Value, depth: usize, words: &mut String) {
    if depth > BLOCKS_DEPTH_MAX || words.len() > QUOTED_CHARS_MAX {
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_text(item, depth + 1, words)),
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::String(text) if name == "text" => {
                        words.push_str(text);
                        words.push('\n');
                    }
                    _ => collect_text(field, depth + 1, words),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_mention_of(token: &str, bot: &str) -> bool {
    let id = token.split('|').next().unwrap_or_default();
    !bot.is_empty() && id.strip_prefix('@') == Some(bot)
}

/// Returns the text that a user sees in place of one `<…>`.
fn readable(token: &str) -> String {
    let (target, label) = match token.split_once('|') {
        Some((target, label)) => (target, Some(label).filter(|label| !label.is_empty())),
        None => (token, None),
    };
    let target = unescaped(target);
    let label = label.map(unescaped);
    let named = |sigil: char, id: &str| {
        let name = label.as_deref().unwrap_or(id);
        format!("{sigil}{}", name.trim_start_matches(sigil))
    };
    if let Some(id) = target.strip_prefix('@') {
        return named('@', id);
    }
    if let Some(id) = target.strip_prefix('#') {
        return named('#', id);
    }
    if let Some(special) = target.strip_prefix('!') {
        return match (&label, special.split_once('^')) {
            (Some(label), Some(("date", _))) => label.to_string(),
            (_, Some((_, id))) => named('@', id.split('^').next().unwrap_or(id)),
            (_, None) => named('@', special),
        };
    }
    match label {
        Some(label) if names_the_same(&label, &target) => label.into_owned(),
        Some(label) => format!("{label} ({target})"),
        None => target.into_owned(),
    }
}

/// Returns true if Slack created the link itself from the typed text.
fn names_the_same(label: &str, target: &str) -> bool {
    let bare = |text: &str| {
        let text = ["https://", "http://", "mailto:", "tel:"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme))
            .unwrap_or(text);
        text.trim_end_matches('/').to_owned()
    };
    bare(label) == bare(target)
}

/// Replaces the three escapes of Slack. `&amp;` comes last, so that `&amp;lt;` becomes `&lt;`.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    Cow::Owned(text)
}
