//! Renders a reply as one Discord message: content in Markdown, and rows of buttons. A message of content is also a
//! readable notification, and can be found again by its content.

use super::markup::{code_block, escaped, inlines};
use crate::base::model::{Button, ButtonStyle, Platform, Reply, ReplyPart, Sender};
use crate::interfaces::channel::layout::{FactLayout, fact_layout};
use crate::interfaces::channel::markdown::{BOLD, MarkdownBlock, PLAIN, backticks, fact, parse};
use crate::interfaces::channel::visible::{escape_label, escape_line};
use serde_json::{Value, json};

/// The maximum number of characters of a message, counted in UTF-16 units.
pub(super) const CHARS_MAX: usize = Platform::Discord.message_chars_max();
/// The maximum number of buttons in a row.
const ROW_MAX: usize = 5;
/// The maximum number of rows of buttons.
const ROWS_MAX: usize = 5;
/// The maximum number of characters of the label of a button.
const LABEL_CHARS_MAX: usize = 80;

/// A message in Discord's format.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DiscordPayload {
    /// The content; never empty.
    pub(super) content: String,
    /// The rows of buttons.
    pub(super) components: Vec<Value>,
    /// The person whom the message mentions.
    pub(super) mentioned: Option<String>,
}

/// The place of a message, as far as it changes the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MentionUse {
    /// The person is mentioned.
    Mentioned,
    /// Only the person reads it, so it mentions nobody.
    Alone,
}

impl DiscordPayload {
    /// Returns true if the message respects Discord's limits.
    pub(super) fn fits(&self) -> bool {
        self.content.encode_utf16().count() <= CHARS_MAX && self.components.len() <= ROWS_MAX
    }
}

/// Renders a reply.
pub(super) fn render(reply: &Reply, link_hosts: &[String], mentions: MentionUse) -> DiscordPayload {
    let mut page = PageBuilder {
        text: String::new(),
        link_hosts,
        mentions,
        mentioned: None,
    };
    let mut components = Vec::new();
    let mut previous = None;
    for part in &reply.parts {
        if let ReplyPart::Buttons { buttons } = part {
            components.extend(buttons.chunks(ROW_MAX).map(row));
            continue;
        }
        page.separate(gap(previous, part));
        page.part(part);
        previous = Some(part);
    }
    let mut content = page.text.trim().to_owned();
    if content.is_empty() {
        "(nothing to show)".clone_into(&mut content);
    }
    DiscordPayload {
        content,
        components,
        mentioned: page.mentioned,
    }
}

/// Returns one line of Drydock with its code marked, of at most [`CHARS_MAX`] characters.
pub(super) fn caption(text: &str) -> String {
    let line = inlines(&backticks(&escape_line(text)), PLAIN);
    match line.encode_utf16().count() <= CHARS_MAX {
        true => line,
        // Each character takes at most two units and a backslash.
        false => escaped(&escape_label(text, CHARS_MAX / 3)),
    }
}

fn gap(previous: Option<&ReplyPart>, part: &ReplyPart) -> usize {
    let is_box = |part: &ReplyPart| matches!(part, ReplyPart::Code { .. } | ReplyPart::Facts { .. });
    match previous {
        Some(ReplyPart::Heading { .. } | ReplyPart::Mention { .. }) => 1,
        Some(previous) if is_box(previous) || is_box(part) => 1,
        Some(_) if matches!(part, ReplyPart::Footer { .. } | ReplyPart::Fold { .. }) => 1,
        Some(_) | None => 2,
    }
}

fn row(buttons: &[Button]) -> Value {
    let buttons: Vec<Value> = buttons.iter().map(button).collect();
    json!({"type": 1, "components": buttons})
}

fn button(button: &Button) -> Value {
    let style = match button.style {
        ButtonStyle::Primary => 1,
        ButtonStyle::Plain => 2,
        ButtonStyle::Danger => 4,
    };
    let label = escape_label(&button.label, LABEL_CHARS_MAX);
    json!({"type": 2, "style": style, "label": label, "custom_id": button.token})
}

struct PageBuilder<'a> {
    text: String,
    link_hosts: &'a [String],
    mentions: MentionUse,
    mentioned: Option<String>,
}

impl PageBuilder<'_> {
    /// Ends the text with this number of line ends, unless it is empty.
    fn separate(&mut self, line_ends: usize) {
        let length = self.text.trim_end_matches('\n').len();
        self.text.truncate(length);
        if !self.text.is_empty() {
            self.text.push_str(&"\n".repeat(line_ends));
        }
    }

    fn part(&mut self, part: &ReplyPart) {
        match part {
            ReplyPart::Mention { to } => self.mention(to),
            ReplyPart::Heading { text } => self.text.push_str(&inlines(&backticks(text), BOLD)),
            ReplyPart::Text { text } => self.text.push_str(&inlines(&backticks(text), PLAIN)),
            ReplyPart::Markdown { text } => {
                let blocks = parse(text, self.link_hosts);
                self.text.push_str(&blocks_text(&blocks, 0));
            }
            ReplyPart::Code { language, text } => self.text.push_str(&code_block(language, text)),
            ReplyPart::Facts { rows } => self.facts(rows),
            ReplyPart::Tasks { list } => {
                self.text.push_str(&inlines(&backticks(&list.title), BOLD));
                self.text.push('\n');
                self.text.push_str(&inlines(&backticks(&list.lines()), PLAIN));
            }
            ReplyPart::Footer { text } => {
                let line = inlines(&backticks(text), PLAIN);
                // Small text is a property of a line.
                self.text.push_str(&format!("-# {}", line.replace('\n', " ")));
            }
            ReplyPart::Fold { title, parts, .. } => self.fold(title, parts),
            ReplyPart::Buttons { .. } => {}
        }
    }

    fn mention(&mut self, to: &Sender) {
        let is_id = !to.id.is_empty() && to.id.bytes().all(|byte| byte.is_ascii_digit());
        if self.mentions == MentionUse::Mentioned && is_id {
            self.text.push_str(&format!("<@{}>", to.id));
            self.mentioned = Some(to.id.clone());
        }
    }

    /// Renders a fold. Discord cannot hide a part of a message, so it is a title above its parts.
    fn fold(&mut self, title: &str, parts: &[ReplyPart]) {
        self.text.push_str(&inlines(&backticks(title), BOLD));
        let mut previous = None;
        for part in parts {
            self.separate(gap(previous, part).min(1));
            self.part(part);
            previous = Some(part);
        }
    }

    fn facts(&mut self, rows: &[(String, String)]) {
        let rows = match fact_layout(rows) {
            FactLayout::Table(table) => return self.text.push_str(&code_block("", &table)),
            FactLayout::Lines(rows) => rows,
        };
        let lines = rows.iter().map(|(label, value)| {
            let label = inlines(&fact(label, PLAIN), BOLD);
            format!("{label}: {}", inlines(&fact(value, PLAIN), PLAIN))
        });
        let lines: Vec<String> = lines.collect();
        self.text.push_str(&lines.join("\n"));
    }
}

/// Returns the text of blocks, those of a list deeper in it by `indent` columns.
fn blocks_text(blocks: &[MarkdownBlock], indent: usize) -> String {
    let is_box = |block: &MarkdownBlock| matches!(block, MarkdownBlock::Code { .. });
    let mut out = String::new();
    for (index, block) in blocks.iter().enumerate() {
        if index > 0 {
            let is_close = indent > 0 || is_box(block) || is_box(&blocks[index - 1]);
            out.push_str(if is_close { "\n" } else { "\n\n" });
            let continues = matches!(block, MarkdownBlock::Paragraph(_) | MarkdownBlock::Heading { .. });
            out.push_str(&" ".repeat(if continues { indent } else { 0 }));
        }
        out.push_str(&block_text(block, indent));
    }
    out
}

fn block_text(block: &MarkdownBlock, indent: usize) -> String {
    match block {
        MarkdownBlock::Paragraph(words) => inlines(words, PLAIN),
        MarkdownBlock::Heading { inlines: words, .. } => inlines(words, BOLD),
        MarkdownBlock::Code { language, text } => code_block(language, text),
        MarkdownBlock::List { start, items } => list(*start, items, indent),
        MarkdownBlock::Quote(blocks) => quote(&blocks_text(blocks, 0)),
        MarkdownBlock::Rule => "———".to_owned(),
    }
}

fn list(start: Option<u64>, items: &[Vec<MarkdownBlock>], indent: usize) -> String {
    let mut out = String::new();
    for (index, item) in (0_u64..).zip(items) {
        if index > 0 || indent > 0 {
            out.push('\n');
        }
        out.push_str(&" ".repeat(indent));
        match start {
            Some(start) => out.push_str(&format!("{}. ", start.saturating_add(index))),
            None => out.push_str("- "),
        }
        if matches!(item.first(), Some(MarkdownBlock::Code { .. })) {
            out.push('\n');
        }
        out.push_str(&blocks_text(item, indent + 2));
    }
    out
}

/// Marks each line as quoted, except code, which a quote cannot hold. Nested quotes are one.
fn quote(text: &str) -> String {
    let mut is_code = false;
    let lines = text.split('\n').map(|line| {
        let is_fence = line.starts_with("```");
        let is_outside = is_code || is_fence || line.starts_with("> ");
        is_code ^= is_fence;
        match is_outside {
            true => line.to_owned(),
            false => format!("> {line}"),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}
