//! Rich messages: checks their blocks and texts as documented, and returns what a person reads. Telegram does not
//! document the words of all refusals; those of TDLib are used where it has some. See
//! <https://core.telegram.org/bots/api#inputrichmessage> and
//! <https://github.com/tdlib/td/blob/master/td/telegram/WebPageBlock.cpp>.

use super::check::{check_known, is_blank};
use serde_json::{Map, Value, json};

/// The maximum number of characters of all texts.
const CHARS_MAX: usize = 32_768;
/// The maximum number of blocks, with nested ones, items of lists and rows of tables.
const BLOCKS_MAX: usize = 500;
/// The maximum nesting of blocks and formats.
const LEVELS_MAX: usize = 16;
/// The maximum number of columns of a table.
const COLUMNS_MAX: usize = 20;
/// The formats that only change how a text looks.
const FORMATS: [&str; 9] = [
    "bold",
    "italic",
    "underline",
    "strikethrough",
    "spoiler",
    "code",
    "marked",
    "subscript",
    "superscript",
];

/// The kind of message in which a rich message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RichUse {
    /// A message that stays.
    Message,
    /// A draft, which may show that the bot thinks.
    Draft,
}

/// The words of a rich message, for tests that read a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RichWords {
    /// The visible text: a line for each block, with those in folds.
    pub text: String,
    /// The entities that a text with these formats would have. A fold that is closed is an expandable quote, a heading
    /// is bold, and a footer is italic.
    pub entities: Vec<Value>,
}

/// Returns the words of a sent `InputRichMessage`, or the reason why Telegram refuses it.
pub fn rich_words(message: &Value) -> Result<RichWords, String> {
    read(message, RichUse::Message)
}

/// Checks an `InputRichMessage` and returns its words.
pub(super) fn read(message: &Value, purpose: RichUse) -> Result<RichWords, String> {
    let fields = object(message, "InputRichMessage")?;
    check_known(fields, &["blocks", "is_rtl", "skip_entity_detection"])?;
    if message["skip_entity_detection"] != true {
        return Err("telegram would make links of the words of a rich message".to_owned());
    }
    let mut reader = RichReader {
        words: RichWords::default(),
        purpose,
        chars: 0,
        blocks: 0,
    };
    reader.blocks(&message["blocks"], 0)?;
    if is_blank(&reader.words.text) {
        return Err("RICH_MESSAGE_CONTENT_REQUIRED".to_owned());
    }
    if reader.chars > CHARS_MAX || reader.blocks > BLOCKS_MAX {
        return Err("rich message is too long".to_owned());
    }
    reader.words.text.truncate(reader.words.text.trim_end().len());
    // Outer entities come first, as Telegram sorts them.
    let number = |entity: &Value, key: &str| entity[key].as_u64().unwrap_or_default();
    let order = |entity: &Value| (number(entity, "offset"), u64::MAX - number(entity, "length"));
    reader.words.entities.sort_by_key(order);
    Ok(reader.words)
}

struct RichReader {
    words: RichWords,
    purpose: RichUse,
    chars: usize,
    blocks: usize,
}

impl RichReader {
    fn blocks(&mut self, blocks: &Value, level: usize) -> Result<(), String> {
        let blocks = list(blocks, "blocks")?;
        blocks.iter().try_for_each(|block| self.block(block, level + 1))
    }

    fn block(&mut self, block: &Value, level: usize) -> Result<(), String> {
        let fields = object(block, "InputRichBlock")?;
        self.count(level)?;
        let kind = block["type"].as_str().unwrap_or_default();
        let extra: &[&str] = match kind {
            "paragraph" | "footer" | "thinking" => &["text"],
            "heading" => &["text", "size"],
            "pre" => &["text", "language"],
            "divider" => &[],
            "list" => &["items"],
            "blockquote" => &["blocks", "credit"],
            "expandable_blockquote" => &["text", "credit"],
            "table" => &["cells", "is_bordered", "is_striped", "is_compact", "caption"],
            "details" => &["summary", "blocks", "is_open"],
            _ => return Err(format!("can't parse InputRichBlock: type `{kind}`")),
        };
        check_known(fields, &[&["type"], extra].concat())?;
        match kind {
            "heading" if !block["size"].as_u64().is_some_and(|size| (1..=6).contains(&size)) => {
                Err("Invalid section heading size specified".to_owned())
            }
            "heading" => self.line(&block["text"], level, Some("bold")),
            "thinking" if self.purpose == RichUse::Message => Err("Block is not allowed".to_owned()),
            "pre" => self.code(block, level),
            "footer" => self.line(&block["text"], level, Some("italic")),
            "divider" => {
                self.words.text.push_str("———\n");
                Ok(())
            }
            "list" => self.list(&block["items"], level),
            "blockquote" => {
                let start = self.position();
                self.blocks(&block["blocks"], level)?;
                self.mark(start, "blockquote", &json!({}));
                Ok(())
            }
            "expandable_blockquote" => self.line(&block["text"], level, Some("expandable_blockquote")),
            "table" => self.table(&block["cells"], level),
            "details" => {
                self.line(&block["summary"], level, Some("bold"))?;
                let start = self.position();
                self.blocks(&block["blocks"], level)?;
                if block["is_open"] != true {
                    self.mark(start, "expandable_blockquote", &json!({}));
                }
                Ok(())
            }
            _ => self.line(&block["text"], level, None),
        }
    }

    /// Counts a block, an item or a row.
    fn count(&mut self, level: usize) -> Result<(), String> {
        self.blocks += 1;
        check_level(level)
    }

    fn code(&mut self, block: &Value, level: usize) -> Result<(), String> {
        let start = self.position();
        self.text(&block["text"], level)?;
        let language = match block.get("language").map(|language| language.as_str()) {
            None => json!({}),
            Some(Some(language)) if !language.is_empty() => json!({ "language": language }),
            Some(_) => return Err("can't parse InputRichBlock: language".to_owned()),
        };
        self.mark(start, "pre", &language);
        self.words.text.push('\n');
        Ok(())
    }

    fn line(&mut self, text: &Value, level: usize, format: Option<&str>) -> Result<(), String> {
        let start = self.position();
        self.text(text, level)?;
        if let Some(format) = format {
            self.mark(start, format, &json!({}));
        }
        self.words.text.push('\n');
        Ok(())
    }

    fn list(&mut self, items: &Value, level: usize) -> Result<(), String> {
        let items = list(items, "List")?;
        let is_ordered = |item: &Value| item.get("value").is_some() || item.get("type").is_some();
        let first = items.first().is_some_and(is_ordered);
        if items.iter().any(|item| is_ordered(item) != first) {
            return Err("List must be either ordered or unordered".to_owned());
        }
        for item in items {
            let fields = object(item, "InputRichBlockListItem")?;
            let known = ["blocks", "has_checkbox", "is_checked", "value", "type"];
            check_known(fields, &known)?;
            self.count(level + 1)?;
            let sign = match (item["has_checkbox"] == true, item["is_checked"] == true) {
                (true, true) => "☑".to_owned(),
                (true, false) => "☐".to_owned(),
                (false, true) => return Err("a mark without a box".to_owned()),
                (false, false) if first => match (item["value"].as_i64(), item["type"].as_str()) {
                    (Some(value), Some("a" | "A" | "i" | "I" | "1")) => format!("{value}."),
                    _ => return Err("Invalid list item type specified".to_owned()),
                },
                (false, false) => "•".to_owned(),
            };
            self.words.text.push_str(&format!("{sign} "));
            self.blocks(&item["blocks"], level + 1)?;
        }
        Ok(())
    }

    fn table(&mut self, rows: &Value, level: usize) -> Result<(), String> {
        for row in list(rows, "Table")? {
            self.count(level + 1)?;
            let cells = list(row, "Row")?;
            if cells.len() > COLUMNS_MAX {
                return Err("too many columns".to_owned());
            }
            for (index, cell) in cells.iter().enumerate() {
                let fields = object(cell, "RichBlockTableCell")?;
                let known = ["text", "is_header", "colspan", "rowspan", "align", "valign"];
                check_known(fields, &known)?;
                let align = cell["align"].as_str().unwrap_or_default();
                let valign = cell["valign"].as_str().unwrap_or_default();
                if !["left", "center", "right"].contains(&align)
                    || !["top", "middle", "bottom"].contains(&valign)
                {
                    return Err("can't parse RichBlockTableCell: alignment".to_owned());
                }
                if index > 0 {
                    self.words.text.push_str("  ");
                }
                if cell.get("text").is_some() {
                    self.text(&cell["text"], level + 1)?;
                }
            }
            self.words.text.push('\n');
        }
        Ok(())
    }

    /// Reads a `RichText`: a string, a list of texts, or a format of a text.
    fn text(&mut self, text: &Value, level: usize) -> Result<(), String> {
        match text {
            Value::String(text) => {
                self.chars += text.chars().count();
                self.words.text.push_str(text);
                Ok(())
            }
            Value::Array(texts) => texts.iter().try_for_each(|text| self.text(text, level)),
            Value::Object(fields) => self.format(text, fields, level + 1),
            Value::Null | Value::Bool(_) | Value::Number(_) => Err("Rich text must be non-empty".to_owned()),
        }
    }

    fn format(&mut self, text: &Value, fields: &Map<String, Value>, level: usize) -> Result<(), String> {
        check_level(level)?;
        let kind = text["type"].as_str().unwrap_or_default();
        let start = self.position();
        self.text(&text["text"], level)?;
        match kind {
            "url" => {
                check_known(fields, &["type", "text", "url"])?;
                let is_link = |url: &str| url.starts_with("https://");
                if !text["url"].as_str().is_some_and(is_link) {
                    return Err("can't parse RichText: link without https".to_owned());
                }
                self.mark(start, "text_link", &json!({"url": text["url"]}));
            }
            "text_mention" => {
                check_known(fields, &["type", "text", "user"])?;
                if !text["user"]["id"].is_i64() {
                    return Err("can't parse RichText: mention without a user".to_owned());
                }
                self.mark(start, "text_mention", &json!({"user": text["user"]}));
            }
            _ if FORMATS.contains(&kind) => {
                check_known(fields, &["type", "text"])?;
                self.mark(start, kind, &json!({}));
            }
            _ => return Err(format!("can't parse RichText: type `{kind}`")),
        }
        Ok(())
    }

    /// Returns the position of the next text in UTF-16 units.
    fn position(&self) -> usize {
        self.words.text.encode_utf16().count()
    }

    /// Marks all text since `start`.
    fn mark(&mut self, start: usize, kind: &str, extra: &Value) {
        let end = self.words.text.trim_end_matches('\n').encode_utf16().count();
        if start >= end {
            return;
        }
        let mut entity = json!({"type": kind, "offset": start, "length": end - start});
        if let (Some(entity), Some(extra)) = (entity.as_object_mut(), extra.as_object()) {
            entity.extend(extra.clone());
        }
        self.words.entities.push(entity);
    }
}

fn check_level(level: usize) -> Result<(), String> {
    match level <= LEVELS_MAX {
        true => Ok(()),
        false => Err("rich message is nested too deeply".to_owned()),
    }
}

fn object<'v>(value: &'v Value, what: &str) -> Result<&'v Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("can't parse {what}"))
}

/// Returns the entries of a list, which must not be empty.
fn list<'v>(value: &'v Value, what: &str) -> Result<&'v [Value], String> {
    match value.as_array() {
        Some(entries) if !entries.is_empty() => Ok(entries),
        Some(_) | None => Err(format!("{what} must be non-empty")),
    }
}
