//! Rich text, in which Slack takes words literally. A `text` element is never a mention, a link or markup, whatever
//! its content.

use crate::interfaces::channel::markdown::{Inline, MarkdownBlock, SpanStyle};
use crate::interfaces::channel::visible::{escape_code, escape_text};
use serde_json::{Value, json};

/// The maximum indent of a list that Slack shows.
const INDENT_MAX: usize = 8;

/// Returns a rich text block with these elements; `None` if there are none.
pub(super) fn block(elements: Vec<Value>) -> Option<Value> {
    (!elements.is_empty()).then(|| json!({"type": "rich_text", "elements": elements}))
}

/// Returns a section of one or more lines; `None` if it is empty.
fn section(spans: Vec<Value>) -> Option<Value> {
    (!spans.is_empty()).then(|| json!({"type": "rich_text_section", "elements": spans}))
}

/// Returns a rich text block of one section; `None` if it is empty.
pub(super) fn line(spans: Vec<Value>) -> Option<Value> {
    block(section(spans).into_iter().collect())
}

/// Returns a preformatted block.
pub(super) fn preformatted(code: &str) -> Value {
    let code = if code.is_empty() {
        " ".to_owned()
    } else {
        escape_code(code)
    };
    json!({"type": "rich_text_preformatted", "elements": [{"type": "text", "text": code}]})
}

/// Returns the mention of a user; an id that is not valid in Slack is shown as text.
pub(super) fn user(id: &str) -> Value {
    if is_id(id) {
        return json!({"type": "user", "user_id": id});
    }
    json!({"type": "text", "text": escape_text(&format!("@{id}"))})
}

/// Returns true if a text is a valid id in Slack.
pub(super) fn is_id(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= 32
        && id
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// Returns a literal text element.
pub(super) fn text(words: &str, style: SpanStyle) -> Option<Value> {
    span(words, style, None)
}

/// Returns the elements of one line.
pub(super) fn spans(inlines: &[Inline]) -> Vec<Value> {
    inlines.iter().filter_map(inline).collect()
}

/// Returns the elements of the model's text.
pub(super) fn elements(blocks: &[MarkdownBlock]) -> Vec<Value> {
    let mut elements = Vec::new();
    for block in blocks {
        push_block(block, 0, &mut elements);
    }
    separate_paragraphs(&mut elements);
    elements
}

fn push_block(block: &MarkdownBlock, indent: usize, elements: &mut Vec<Value>) {
    match block {
        MarkdownBlock::Paragraph(inlines) => elements.extend(section(spans(inlines))),
        MarkdownBlock::Heading { inlines, .. } => elements.extend(section(spans(&emboldened(inlines)))),
        MarkdownBlock::Code { text, .. } => elements.push(preformatted(text)),
        MarkdownBlock::List { start, items } => push_list(*start, items, indent, elements),
        MarkdownBlock::Quote(blocks) => {
            let quoted = spans(&flatten(blocks));
            if !quoted.is_empty() {
                elements.push(json!({"type": "rich_text_quote", "elements": quoted}));
            }
        }
        MarkdownBlock::Rule => elements.extend(section(spans(&[plain("———")]))),
    }
}

/// Adds a list. In Slack, items hold only lines. Other content of an item is placed after its line, and the list
/// continues behind it with the next number.
fn push_list(start: Option<u64>, items: &[Vec<MarkdownBlock>], indent: usize, elements: &mut Vec<Value>) {
    let mut lines: Vec<Value> = Vec::new();
    let mut offset = start.unwrap_or(1).saturating_sub(1);
    for item in items {
        let mut line: Vec<Inline> = Vec::new();
        let mut behind = Vec::new();
        for block in item {
            match block {
                MarkdownBlock::Paragraph(inlines) if behind.is_empty() => {
                    break_line(&mut line);
                    line.extend(inlines.iter().cloned());
                }
                MarkdownBlock::Heading { inlines, .. } if behind.is_empty() => {
                    break_line(&mut line);
                    line.extend(emboldened(inlines));
                }
                block => push_block(block, (indent + 1).min(INDENT_MAX), &mut behind),
            }
        }
        lines.extend(section(spans(&line)).or_else(|| section(spans(&[plain(" ")]))));
        if !behind.is_empty() {
            let count = lines.len() as u64;
            elements.push(list(start, offset, indent, std::mem::take(&mut lines)));
            elements.append(&mut behind);
            offset = offset.saturating_add(count);
        }
    }
    if !lines.is_empty() {
        elements.push(list(start, offset, indent, lines));
    }
}

fn list(start: Option<u64>, offset: u64, indent: usize, lines: Vec<Value>) -> Value {
    let mut list = json!({
        "type": "rich_text_list",
        "style": if start.is_some() { "ordered" } else { "bullet" },
        "indent": indent,
        "elements": lines,
    });
    if start.is_some() && offset > 0 {
        list["offset"] = json!(offset);
    }
    list
}

/// Flattens blocks to lines, because quotations can hold nothing else.
fn flatten(blocks: &[MarkdownBlock]) -> Vec<Inline> {
    let mut line = Vec::new();
    for block in blocks {
        let pieces: Vec<Vec<Inline>> = match block {
            MarkdownBlock::Paragraph(inlines) | MarkdownBlock::Heading { inlines, .. } => {
                vec![inlines.clone()]
            }
            MarkdownBlock::Code { text, .. } => vec![vec![Inline::Code {
                text: text.clone(),
                style: SpanStyle::default(),
            }]],
            MarkdownBlock::List { items, .. } => {
                let item = |item: &Vec<MarkdownBlock>| [vec![plain("• ")], flatten(item)].concat();
                items.iter().map(item).collect()
            }
            MarkdownBlock::Quote(blocks) => vec![flatten(blocks)],
            MarkdownBlock::Rule => Vec::new(),
        };
        for piece in pieces {
            break_line(&mut line);
            line.extend(piece);
        }
    }
    line
}

/// Adds an empty line between sections, because Slack shows them without a gap.
fn separate_paragraphs(elements: &mut [Value]) {
    let is_section = |element: &Value| element["type"] == "rich_text_section";
    for index in 1..elements.len() {
        let (before, after) = elements.split_at_mut(index);
        if let (Some(last), Some(next)) = (before.last_mut(), after.first())
            && is_section(last)
            && is_section(next)
            && let Some(spans) = last["elements"].as_array_mut()
        {
            spans.push(json!({"type": "text", "text": "\n\n"}));
        }
    }
}

fn break_line(line: &mut Vec<Inline>) {
    if !line.is_empty() {
        line.push(plain("\n"));
    }
}

fn plain(words: &str) -> Inline {
    Inline::Text {
        text: words.to_owned(),
        style: SpanStyle::default(),
    }
}

/// Returns a line in bold.
pub(super) fn emboldened(inlines: &[Inline]) -> Vec<Inline> {
    let mut inlines = inlines.to_vec();
    for inline in &mut inlines {
        match inline {
            Inline::Text { style, .. } | Inline::Code { style, .. } | Inline::Link { style, .. } => {
                style.bold = true;
            }
        }
    }
    inlines
}

fn inline(inline: &Inline) -> Option<Value> {
    match inline {
        Inline::Text { text, style } => span(text, *style, None),
        Inline::Code { text, style } => span(text, *style, Some("code")),
        Inline::Link { label, url, style } => {
            let mut link = json!({"type": "link", "url": url, "text": escape_text(label)});
            add_style(&mut link, *style, None);
            Some(link)
        }
    }
}

fn span(words: &str, style: SpanStyle, also: Option<&str>) -> Option<Value> {
    let words = escape_text(words);
    if words.is_empty() {
        return None;
    }
    let mut span = json!({"type": "text", "text": words});
    add_style(&mut span, style, also);
    Some(span)
}

fn add_style(span: &mut Value, style: SpanStyle, also: Option<&str>) {
    let names = [
        style.bold.then_some("bold"),
        style.italic.then_some("italic"),
        style.strike.then_some("strike"),
        also,
    ];
    for name in names.into_iter().flatten() {
        span["style"][name] = json!(true);
    }
}
