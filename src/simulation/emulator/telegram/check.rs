//! Checks the bot's requests. The errors are those of Telegram; some checks are stricter.

use super::links;
use serde_json::{Map, Value};
use std::ops::Range;

/// The maximum number of entities. Telegram drops further ones; here they are refused.
const ENTITIES_MAX: usize = 100;

/// The emoji that a bot may use as reactions.
pub(super) const REACTIONS: &str = "❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 🌚 🌭 \
    💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 \
    💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡";

/// Refuses parameters that the method does not have.
pub(super) fn check_known(parameters: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    match parameters.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("unknown parameter `{key}`")),
        None => Ok(()),
    }
}

/// Checks a text with its entities.
pub(super) fn text(text: &str, entities: &[Value], units_max: usize) -> Result<(), String> {
    let units: Vec<u16> = text.encode_utf16().collect();
    if is_blank(text) {
        return Err("message text is empty".to_owned());
    }
    if units.len() > units_max {
        return Err("message is too long".to_owned());
    }
    if entities.len() > ENTITIES_MAX {
        return Err("too many entities".to_owned());
    }
    let mut ranges = Vec::new();
    for entity in entities {
        ranges.push((kind(entity)?, range(entity, &units)?));
    }
    nesting(&ranges)?;
    check_no_auto_links(text, &ranges)
}

/// Returns true if no character of a text is visible.
pub(super) fn is_blank(text: &str) -> bool {
    let unseen =
        |c: char| c.is_whitespace() || "\u{200b}\u{200d}\u{2060}\u{feff}\u{2800}\u{3164}".contains(c);
    text.chars().all(unseen)
}

fn kind(entity: &Value) -> Result<&str, String> {
    let Some(fields) = entity.as_object() else {
        return Err("can't parse entities: not an object".to_owned());
    };
    let kind = entity["type"].as_str().unwrap_or_default();
    let extra = match kind {
        "bold"
        | "italic"
        | "underline"
        | "strikethrough"
        | "spoiler"
        | "code"
        | "blockquote"
        | "expandable_blockquote" => "",
        "pre" => "language",
        "text_link" => "url",
        "text_mention" => "user",
        _ => return Err(format!("can't parse entities: unknown type `{kind}`")),
    };
    check_known(fields, &["type", "offset", "length", extra])?;
    match kind {
        "text_link"
            if !entity["url"]
                .as_str()
                .is_some_and(|url| url.starts_with("https://")) =>
        {
            Err("can't parse entities: link without https".to_owned())
        }
        "text_mention" if !entity["user"]["id"].is_i64() => {
            Err("can't parse entities: mention without a user".to_owned())
        }
        _ => Ok(kind),
    }
}

fn range(entity: &Value, units: &[u16]) -> Result<Range<usize>, String> {
    let number = |key: &str| {
        entity[key]
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
    };
    let (Some(offset), Some(length)) = (number("offset"), number("length")) else {
        return Err("can't parse entities: no offset or length".to_owned());
    };
    let range = offset..offset.saturating_add(length);
    if length == 0 || range.end > units.len() {
        return Err("can't parse entities: outside the text".to_owned());
    }
    let tears = |at: usize| units.get(at).is_some_and(|unit| (0xdc00..0xe000).contains(unit));
    if tears(range.start) || tears(range.end) {
        return Err("can't parse entities: inside a character".to_owned());
    }
    Ok(range)
}

fn nesting(ranges: &[(&str, Range<usize>)]) -> Result<(), String> {
    let is_quote = |kind: &str| kind.ends_with("blockquote");
    let is_code = |kind: &str| matches!(kind, "code" | "pre");
    let is_link = |kind: &str| matches!(kind, "text_link" | "text_mention");
    for (index, (one, a)) in ranges.iter().enumerate() {
        for (other, b) in ranges.iter().skip(index + 1) {
            if a.end <= b.start || b.end <= a.start {
                continue;
            }
            let contains = |outer: &Range<usize>, inner: &Range<usize>| {
                outer.start <= inner.start && inner.end <= outer.end
            };
            if !contains(a, b) && !contains(b, a) {
                return Err(format!("can't parse entities: {one} and {other} cross"));
            }
            let code_in_quote = (is_quote(one) && contains(a, b)) || (is_quote(other) && contains(b, a));
            let is_wrong = (is_quote(one) && is_quote(other))
                || ((is_code(one) || is_code(other)) && !code_in_quote)
                || (is_link(one) && is_link(other))
                || one == other;
            if is_wrong {
                return Err(format!("can't parse entities: {one} and {other} nested"));
            }
        }
    }
    Ok(())
}

/// Refuses a text from which Telegram would create links by itself: the bot must not send such a text.
fn check_no_auto_links(text: &str, ranges: &[(&str, Range<usize>)]) -> Result<(), String> {
    let mut units_at = Vec::with_capacity(text.len() + 1);
    let mut units = 0;
    for character in text.chars() {
        units_at.resize(units_at.len() + character.len_utf8(), units);
        units += character.len_utf16();
    }
    units_at.push(units);
    let is_covered = |link: &Range<usize>| {
        let (start, end) = (units_at[link.start], units_at[link.end]);
        ranges.iter().any(|(kind, range)| {
            matches!(*kind, "code" | "pre" | "text_link" | "text_mention")
                && range.start < end
                && start < range.end
        })
    };
    match links::find_links(text)
        .into_iter()
        .find(|(_, link)| !is_covered(link))
    {
        Some((kind, link)) => {
            let shown = text.get(link).unwrap_or_default();
            Err(format!("telegram would make a {kind} of `{shown}`"))
        }
        None => Ok(()),
    }
}

/// Checks and parses an inline keyboard: rows of label and callback data.
pub(super) fn keyboard(markup: Option<&Value>) -> Result<Vec<Vec<(String, String)>>, String> {
    let Some(markup) = markup else {
        return Ok(Vec::new());
    };
    let fields = markup.as_object().ok_or("can't parse reply keyboard markup")?;
    if fields.contains_key("force_reply") {
        return answer_field(fields).map(|()| Vec::new());
    }
    check_known(fields, &["inline_keyboard"])?;
    let rows = markup["inline_keyboard"]
        .as_array()
        .ok_or("can't parse reply keyboard markup")?;
    let rows: Vec<Vec<_>> = rows
        .iter()
        .map(|row| {
            row.as_array()
                .map(Vec::as_slice)
                .unwrap_or_default()
                .iter()
                .map(button)
                .collect()
        })
        .collect::<Result<_, _>>()?;
    let count = rows.iter().map(Vec::len).sum::<usize>();
    if count > 100 || rows.iter().any(|row| row.is_empty() || row.len() > 8) {
        return Err("wrong number of buttons".to_owned());
    }
    Ok(rows)
}

/// Checks `ForceReply`. See <https://core.telegram.org/bots/api#forcereply>.
fn answer_field(fields: &Map<String, Value>) -> Result<(), String> {
    check_known(fields, &["force_reply", "selective", "input_field_placeholder"])?;
    let hint = fields.get("input_field_placeholder").map(|hint| hint.as_str());
    let is_hint = hint.is_none_or(|hint| hint.is_some_and(|hint| (1..=64).contains(&hint.chars().count())));
    match fields.get("force_reply") == Some(&Value::Bool(true)) && is_hint {
        true => Ok(()),
        false => Err("can't parse reply keyboard markup".to_owned()),
    }
}

fn button(button: &Value) -> Result<(String, String), String> {
    let fields = button.as_object().ok_or("can't parse inline keyboard button")?;
    check_known(fields, &["text", "callback_data", "style"])?;
    let (label, data) = (button["text"].as_str(), button["callback_data"].as_str());
    let (Some(label), Some(data)) = (label, data) else {
        return Err("can't parse inline keyboard button".to_owned());
    };
    if !(1..=64).contains(&data.len()) || label.is_empty() {
        return Err("BUTTON_DATA_INVALID".to_owned());
    }
    match button.get("style").map(|style| style.as_str()) {
        None | Some(Some("danger" | "success" | "primary")) => Ok((label.to_owned(), data.to_owned())),
        Some(_) => Err("unknown button style".to_owned()),
    }
}
