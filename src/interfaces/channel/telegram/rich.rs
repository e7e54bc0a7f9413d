//! Renders a reply as the blocks of a rich message: folds that open on a touch, tables, lists and lists of tasks. Each
//! text is a string of JSON and no markup is parsed, so no text of a model or a repository can make a block, a link or
//! a button. See <https://core.telegram.org/bots/api#inputrichmessage>.

use super::render::{RenderOptions, preformatted};
use super::text::is_blank;
use crate::base::model::{FoldState, ReplyPart, Sender, TaskList, TaskState};
use crate::interfaces::channel::markdown::{Inline, MarkdownBlock, PLAIN, backticks, fact, parse};
use crate::interfaces::channel::visible::{escape_code, escape_line, escape_text};
use serde_json::{Value, json};

/// The maximum number of characters of a rich message.
const CHARS_MAX: usize = 32_768;
/// The maximum number of blocks of a rich message.
const BLOCKS_MAX: usize = 500;
/// The maximum nesting of blocks and formats.
const LEVELS_MAX: usize = 16;
/// The size of Drydock's own headings; 1 is the largest.
const HEADING_SIZE: u8 = 4;
/// The blocks for which a message is sent as a rich one; a text shows all others as well.
const GAINS: [&str; 4] = ["details", "list", "pre", "table"];

/// Returns the `InputRichMessage` of the parts, or `None` if they gain nothing by it or do not fit it.
pub(super) fn rich_message(parts: &[ReplyPart], setting: RenderOptions<'_>) -> Option<Value> {
    let blocks = RichBuilder { setting }.parts(parts);
    let gains = blocks
        .iter()
        .any(|block| GAINS.iter().any(|kind| block["type"] == *kind));
    let mut size = RichSize::default();
    size.add(&json!(blocks), 0);
    (gains && size.fits()).then(|| json!({"blocks": blocks, "skip_entity_detection": true}))
}

/// The size of blocks, counted so that it is never less than what Telegram counts: every string and every object.
#[derive(Debug, Default)]
struct RichSize {
    chars: usize,
    blocks: usize,
    levels: usize,
}

impl RichSize {
    fn add(&mut self, value: &Value, level: usize) {
        match value {
            Value::String(text) => self.chars += text.chars().count(),
            Value::Array(items) => items.iter().for_each(|item| self.add(item, level)),
            Value::Object(fields) => {
                self.blocks += 1;
                self.levels = self.levels.max(level + 1);
                fields.values().for_each(|field| self.add(field, level + 1));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn fits(&self) -> bool {
        self.chars <= CHARS_MAX && self.blocks <= BLOCKS_MAX && self.levels <= LEVELS_MAX
    }
}

struct RichBuilder<'a> {
    setting: RenderOptions<'a>,
}

impl RichBuilder<'_> {
    fn parts(&self, parts: &[ReplyPart]) -> Vec<Value> {
        parts.iter().flat_map(|part| self.part(part)).collect()
    }

    fn part(&self, part: &ReplyPart) -> Vec<Value> {
        match part {
            ReplyPart::Mention { to } => self.mention(to).into_iter().collect(),
            ReplyPart::Heading { text } => heading(&backticks(text), HEADING_SIZE).into_iter().collect(),
            ReplyPart::Text { text } => paragraph(&backticks(text)).into_iter().collect(),
            ReplyPart::Markdown { text } => self.blocks(&parse(text, self.setting.link_hosts)),
            ReplyPart::Code { language, text } => vec![code(language, text)],
            ReplyPart::Facts { rows } => facts(rows).into_iter().collect(),
            ReplyPart::Tasks { list } => tasks(list),
            ReplyPart::Fold { title, state, parts } => self.fold(title, *state, parts),
            ReplyPart::Footer { text } => {
                let text = rich_text(&backticks(text));
                text.map(|text| json!({"type": "footer", "text": text}))
                    .into_iter()
                    .collect()
            }
            ReplyPart::Buttons { .. } => Vec::new(),
        }
    }

    /// Returns the mention of a person, which is left out in their private chat.
    fn mention(&self, to: &Sender) -> Option<Value> {
        let id: i64 = to.id.parse().ok()?;
        let is_elsewhere = self.setting.chat != Some(to.id.as_str());
        let person = json!({"type": "text_mention", "text": "you",
            "user": {"id": id, "is_bot": false, "first_name": "you"}});
        is_elsewhere.then(|| json!({"type": "paragraph", "text": ["For ", person, ":"]}))
    }

    /// Returns a fold. Without details it is its title; without a title its details are shown as they are.
    fn fold(&self, title: &str, state: FoldState, parts: &[ReplyPart]) -> Vec<Value> {
        let blocks = self.parts(parts);
        let title = backticks(title);
        match rich_text(&title) {
            None => blocks,
            Some(_) if blocks.is_empty() => heading(&title, HEADING_SIZE).into_iter().collect(),
            Some(summary) => {
                let mut details = json!({"type": "details", "summary": summary, "blocks": blocks});
                if state == FoldState::Open {
                    details["is_open"] = json!(true);
                }
                vec![details]
            }
        }
    }

    fn blocks(&self, blocks: &[MarkdownBlock]) -> Vec<Value> {
        blocks.iter().filter_map(|block| self.block(block)).collect()
    }

    /// Returns a block of the model. Its headings are smaller than those of Drydock.
    fn block(&self, block: &MarkdownBlock) -> Option<Value> {
        match block {
            MarkdownBlock::Paragraph(inlines) => paragraph(inlines),
            MarkdownBlock::Heading { level, inlines } => heading(inlines, (level + HEADING_SIZE).min(6)),
            MarkdownBlock::Code { language, text } => Some(code(language, text)),
            MarkdownBlock::List { start, items } => self.list(*start, items),
            MarkdownBlock::Quote(blocks) => {
                let blocks = self.blocks(blocks);
                (!blocks.is_empty()).then(|| json!({"type": "blockquote", "blocks": blocks}))
            }
            MarkdownBlock::Rule => Some(json!({"type": "divider"})),
        }
    }

    /// Returns a list without its empty items; the others keep their numbers.
    fn list(&self, start: Option<u64>, items: &[Vec<MarkdownBlock>]) -> Option<Value> {
        let items = (0_u64..).zip(items).filter_map(|(index, item)| {
            let blocks = self.blocks(item);
            let mut item = json!({"blocks": blocks});
            if let Some(start) = start {
                // The value is a 32-bit number.
                let value = i32::try_from(start.saturating_add(index)).unwrap_or(i32::MAX);
                item["value"] = json!(value);
                item["type"] = json!("1");
            }
            (!blocks.is_empty()).then_some(item)
        });
        let items: Vec<Value> = items.collect();
        (!items.is_empty()).then(|| json!({"type": "list", "items": items}))
    }
}

fn paragraph(inlines: &[Inline]) -> Option<Value> {
    rich_text(inlines).map(|text| json!({"type": "paragraph", "text": text}))
}

fn heading(inlines: &[Inline], size: u8) -> Option<Value> {
    rich_text(inlines).map(|text| json!({"type": "heading", "text": text, "size": size}))
}

fn code(language: &str, text: &str) -> Value {
    let (language, text) = preformatted(language, text);
    let mut block = json!({"type": "pre", "text": escape_code(text)});
    if !language.is_empty() {
        block["language"] = json!(language);
    }
    block
}

/// Returns facts as a table of two columns.
fn facts(rows: &[(String, String)]) -> Option<Value> {
    let cell = |text: &str| {
        let mut cell = json!({"align": "left", "valign": "top"});
        if let Some(text) = rich_text(&fact(&escape_line(text), PLAIN)) {
            cell["text"] = text;
        }
        cell
    };
    let cells: Vec<Value> = rows
        .iter()
        .map(|(label, value)| json!([cell(label), cell(value)]))
        .collect();
    (!cells.is_empty()).then(|| json!({"type": "table", "cells": cells, "is_compact": true}))
}

/// Returns tasks as a list of boxes. Only a task that is done has a mark in its box; a failed one says so.
fn tasks(list: &TaskList) -> Vec<Value> {
    let items = list.tasks.iter().filter_map(|task| {
        let text = match task.state {
            TaskState::Failed => format!("{} {}", TaskState::Failed.sign(), task.text),
            TaskState::Running | TaskState::Done => task.text.clone(),
        };
        let text = paragraph(&backticks(&text))?;
        let mut item = json!({"blocks": [text], "has_checkbox": true});
        if task.state == TaskState::Done {
            item["is_checked"] = json!(true);
        }
        Some(item)
    });
    let items: Vec<Value> = items.collect();
    let earlier = (list.earlier > 0).then(|| format!("… {} earlier", list.earlier));
    let earlier = earlier.and_then(|earlier| paragraph(&backticks(&earlier)));
    let items = (!items.is_empty()).then(|| json!({"type": "list", "items": items}));
    let title = heading(&backticks(&list.title), HEADING_SIZE);
    title.into_iter().chain(earlier).chain(items).collect()
}

/// Returns inline content as `RichText` without line ends at its end, or `None` if nothing of it is visible.
fn rich_text(inlines: &[Inline]) -> Option<Value> {
    let mut spans: Vec<(&Inline, String)> = inlines
        .iter()
        .map(|inline| (inline, escape_text(inline.text())))
        .collect();
    while let Some((_, text)) = spans.last_mut() {
        text.truncate(text.trim_end().len());
        if !text.is_empty() {
            break;
        }
        spans.pop();
    }
    if spans.iter().all(|(_, text)| is_blank(text)) {
        return None;
    }
    let spans = spans.into_iter().filter(|(_, text)| !text.is_empty());
    let mut spans: Vec<Value> = spans.map(|(inline, text)| span(inline, text)).collect();
    match spans.len() {
        1 => spans.pop(),
        _ => Some(Value::Array(spans)),
    }
}

/// Returns a text with its format. Code has no other format, as in a text with entities.
fn span(inline: &Inline, text: String) -> Value {
    let (style, text) = match inline {
        Inline::Code { .. } => return json!({"type": "code", "text": text}),
        Inline::Link { url, style, .. } => (style, json!({"type": "url", "text": text, "url": url})),
        Inline::Text { style, .. } => (style, Value::String(text)),
    };
    let formats = style.marks(["bold", "italic", "strikethrough"]);
    formats.fold(text, |text, format| json!({"type": format, "text": text}))
}
