//! Renders a reply as Block Kit, and as the plain text for notifications. Only Drydock's own headings are section
//! blocks. Text of a model or a repository is rendered in other blocks, so it cannot imitate a heading.

use super::plan;
use super::rich_text::{self, block, emboldened, is_id, line, preformatted, spans};
use crate::base::model::{Button, ButtonStyle, FoldState, Reply, ReplyPart, Sender};
use crate::interfaces::channel::layout::button_rows;
use crate::interfaces::channel::markdown::{Inline, MarkdownBlock, SpanStyle, backticks, fact, parse};
use crate::interfaces::channel::visible::{escape_label, escape_line, escape_text};
use serde_json::{Value, json};

/// The maximum number of characters of the notification text.
pub(super) const FALLBACK_CHARS_MAX: usize = 4_000;
/// The maximum number of characters of a section or of a context line; Slack allows 3,000.
const LINE_CHARS_MAX: usize = 2_900;
/// The maximum number of buttons in a row that is still one line on a phone; Slack allows 25.
const ROW_MAX: usize = 4;
/// The maximum number of characters of a button's label.
const LABEL_CHARS_MAX: usize = 75;

/// The maximum number of characters of the question before a press counts.
const CONFIRMATION_CHARS_MAX: usize = 300;
/// The maximum number of characters of an answer to that question.
const ANSWER_CHARS_MAX: usize = 30;

/// The maximum number of characters of the title of a container.
const TITLE_CHARS_MAX: usize = 150;
/// The maximum number of blocks in a container.
const CHILDREN_MAX: usize = 10;

/// A message in Slack's format.
pub(super) struct SlackPayload {
    /// The blocks from top to bottom; empty if the reply is empty.
    pub(super) blocks: Vec<Value>,
    /// The text for notifications; escaped, never empty.
    pub(super) text: String,
}

/// Renders a reply. The caller must first [`super::split`] a reply that is too long for one message.
pub(super) fn render(reply: &Reply, link_hosts: &[String]) -> SlackPayload {
    SlackPayload {
        blocks: blocks(&reply.parts, link_hosts),
        text: fallback(reply, link_hosts),
    }
}

/// Renders only these parts as blocks.
pub(super) fn blocks(parts: &[ReplyPart], link_hosts: &[String]) -> Vec<Value> {
    let mut blocks = Vec::new();
    let mut buttons = 0;
    let mut mention: Option<&Sender> = None;
    for part in parts {
        let to = match part {
            ReplyPart::Mention { to } => {
                blocks.extend(mention.replace(to).and_then(lonely_mention));
                continue;
            }
            ReplyPart::Heading { .. } | ReplyPart::Text { .. } => mention.take(),
            _ => {
                blocks.extend(mention.take().and_then(lonely_mention));
                None
            }
        };
        blocks.extend(match part {
            ReplyPart::Buttons { buttons: row } => rows(row, &mut buttons),
            part => part_blocks(part, to, link_hosts),
        });
    }
    blocks.extend(mention.and_then(lonely_mention));
    blocks
}

/// Escapes the three special characters of Slack's markup.
pub(super) fn escaped(text: &str) -> String {
    escape_text(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn part_blocks(part: &ReplyPart, to: Option<&Sender>, link_hosts: &[String]) -> Vec<Value> {
    let block = match part {
        ReplyPart::Mention { to } => lonely_mention(to),
        ReplyPart::Heading { text } => heading(text, to),
        ReplyPart::Text { text } => words(&backticks(text), to),
        ReplyPart::Markdown { text } => block(rich_text::elements(&parse(text, link_hosts))),
        ReplyPart::Code { text, .. } => block(vec![preformatted(text)]),
        ReplyPart::Facts { rows } => facts(rows),
        ReplyPart::Footer { text } => footer(text),
        ReplyPart::Tasks { list } => return plan::blocks(list),
        ReplyPart::Fold { title, state, parts } => return fold(title, *state, parts, link_hosts),
        // Buttons are numbered across the whole reply, so [`render`] renders them.
        ReplyPart::Buttons { .. } => None,
    };
    block.into_iter().collect()
}

/// Returns the container of a fold. One with more blocks than a container may have is several containers.
/// See <https://docs.slack.dev/reference/block-kit/blocks/container-block>.
fn fold(title: &str, state: FoldState, parts: &[ReplyPart], link_hosts: &[String]) -> Vec<Value> {
    let title: String = backticks(title).iter().map(Inline::text).collect();
    let title = or_sign(escape_label(&title, TITLE_CHARS_MAX));
    let children = blocks(parts, link_hosts);
    if children.is_empty() {
        return words(&emboldened(&backticks(&title)), None).into_iter().collect();
    }
    let containers = children.chunks(CHILDREN_MAX).map(|children| {
        json!({
            "type": "container",
            "title": plain_text(&title),
            "is_collapsible": true,
            "default_collapsed": state == FoldState::Closed,
            "child_blocks": children,
        })
    });
    containers.collect()
}

fn lonely_mention(to: &Sender) -> Option<Value> {
    line(vec![rich_text::user(&to.id)])
}

pub(super) fn words(inlines: &[Inline], to: Option<&Sender>) -> Option<Value> {
    let mut words = greeting(to);
    words.extend(spans(inlines));
    line(words)
}

fn greeting(to: Option<&Sender>) -> Vec<Value> {
    match to {
        Some(to) => [rich_text::user(&to.id), json!({"type": "text", "text": " "})].into(),
        None => Vec::new(),
    }
}

pub(super) fn heading(text: &str, to: Option<&Sender>) -> Option<Value> {
    let inlines = backticks(text);
    let mention = match to {
        Some(to) if is_id(&to.id) => format!("<@{}> ", to.id),
        Some(to) => escaped(&format!("@{} ", to.id)),
        None => String::new(),
    };
    match markup(&inlines, "*") {
        Some(line) if mention.len() + line.chars().count() <= LINE_CHARS_MAX => Some(json!({
            "type": "section",
            "text": {"type": "mrkdwn", "text": format!("{mention}{line}"), "verbatim": true},
        })),
        // Rich text can express characters that markup cannot.
        Some(_) | None => words(&emboldened(&inlines), to),
    }
}

fn footer(text: &str) -> Option<Value> {
    let inlines = backticks(text);
    match markup(&inlines, "") {
        Some(line) if line.chars().count() <= LINE_CHARS_MAX => Some(json!({
            "type": "context",
            "elements": [{"type": "mrkdwn", "text": line, "verbatim": true}],
        })),
        Some(_) | None => words(&inlines, None),
    }
}

/// Returns a line in Slack's markup, or `None` if it has characters that the markup cannot express literally.
fn markup(inlines: &[Inline], around: &str) -> Option<String> {
    let mut line = String::new();
    for inline in inlines {
        let text = inline.text();
        if text.contains(['*', '_', '~', '`', '\n']) && !matches!(inline, Inline::Code { .. }) {
            return None;
        }
        match inline {
            Inline::Code { .. } => line.push_str(&format!("`{}`", escaped(text))),
            Inline::Text { .. } | Inline::Link { .. } if text.trim().is_empty() => line.push_str(text),
            Inline::Text { .. } | Inline::Link { .. } => {
                // Markup must begin and end next to words, not spaces.
                let words = escaped(text.trim());
                let before: String = text.chars().take_while(|c| c.is_whitespace()).collect();
                let after = text.strip_prefix(&before).unwrap_or_default();
                let after = after.strip_prefix(text.trim()).unwrap_or_default();
                line.push_str(&format!("{before}{around}{words}{around}{after}"));
            }
        }
    }
    (!line.trim().is_empty()).then_some(line)
}

fn facts(rows: &[(String, String)]) -> Option<Value> {
    let bold = SpanStyle {
        bold: true,
        ..SpanStyle::default()
    };
    let mut lines = Vec::new();
    for (index, (label, value)) in rows.iter().enumerate() {
        let start = if index == 0 { "" } else { "\n" };
        lines.extend(rich_text::text(start, SpanStyle::default()));
        lines.extend(spans(&fact(&escape_line(label), bold)));
        lines.extend(rich_text::text("  ", SpanStyle::default()));
        lines.extend(spans(&fact(&escape_line(value), SpanStyle::default())));
    }
    line(lines)
}

fn rows(buttons: &[Button], count: &mut usize) -> Vec<Value> {
    button_rows(buttons, ROW_MAX)
        .map(|row| {
            let elements: Vec<Value> = row
                .iter()
                .map(|button| {
                    *count += 1;
                    element(button, *count)
                })
                .collect();
            json!({"type": "actions", "elements": elements})
        })
        .collect()
}

fn element(button: &Button, number: usize) -> Value {
    let label = escape_label(&button.label, LABEL_CHARS_MAX);
    let mut element = json!({
        "type": "button",
        "text": plain_text(&label),
        "action_id": format!("dd.{number}"),
        "value": button.token,
    });
    match button.style {
        ButtonStyle::Plain => {}
        ButtonStyle::Primary => element["style"] = json!("primary"),
        ButtonStyle::Danger => element["style"] = json!("danger"),
    }
    if let Some(question) = &button.confirmation {
        let yes: String = label.chars().take(ANSWER_CHARS_MAX).collect();
        element["confirm"] = json!({
            "title": plain_text(&format!("{yes}?")),
            "text": plain_text(&escape_label(question, CONFIRMATION_CHARS_MAX)),
            "confirm": plain_text(&yes),
            "deny": plain_text("Cancel"),
        });
    }
    element
}

fn plain_text(text: &str) -> Value {
    json!({"type": "plain_text", "text": text, "emoji": false})
}

/// Returns a text, or a sign in place of a blank one.
pub(super) fn or_sign(text: String) -> String {
    match text.trim().is_empty() {
        true => "…".to_owned(),
        false => text,
    }
}

/// Returns the text for notifications: the words without styles, truncated.
fn fallback(reply: &Reply, link_hosts: &[String]) -> String {
    or_sign(cut(&lines(&reply.parts, link_hosts)))
}

/// Returns the words of all parts but buttons and mentions. A fold is its title, as on the screen.
fn lines(parts: &[ReplyPart], link_hosts: &[String]) -> String {
    let lines: Vec<String> = parts
        .iter()
        .filter_map(|part| match part {
            ReplyPart::Mention { .. } | ReplyPart::Buttons { .. } => None,
            ReplyPart::Fold {
                state: FoldState::Open,
                title,
                parts,
            } => Some(format!("{title}\n{}", lines(parts, link_hosts))),
            ReplyPart::Fold { title, .. } => Some(title.clone()),
            ReplyPart::Heading { text }
            | ReplyPart::Text { text }
            | ReplyPart::Footer { text }
            | ReplyPart::Code { text, .. } => Some(text.clone()),
            ReplyPart::Markdown { text } => Some(plain(&parse(text, link_hosts))),
            ReplyPart::Tasks { list } => Some(format!("{}\n{}", list.title, list.lines())),
            ReplyPart::Facts { rows } => {
                let rows: Vec<String> = rows
                    .iter()
                    .map(|(label, value)| escape_line(&format!("{label}: {value}")))
                    .collect();
                Some(rows.join("\n"))
            }
        })
        .collect();
    lines.join("\n")
}

fn plain(blocks: &[MarkdownBlock]) -> String {
    let lines: Vec<String> = blocks
        .iter()
        .map(|block| match block {
            MarkdownBlock::Paragraph(inlines) | MarkdownBlock::Heading { inlines, .. } => {
                inlines.iter().map(Inline::text).collect()
            }
            MarkdownBlock::Code { text, .. } => text.clone(),
            MarkdownBlock::List { items, .. } => {
                let items: Vec<String> = items.iter().map(|item| format!("• {}", plain(item))).collect();
                items.join("\n")
            }
            MarkdownBlock::Quote(blocks) => plain(blocks),
            MarkdownBlock::Rule => String::new(),
        })
        .collect();
    lines.join("\n")
}

/// Escapes as much of a text as fits; no escape sequence is cut.
fn cut(text: &str) -> String {
    let mut fitting = String::new();
    let mut count = 0;
    for character in text.chars() {
        let shown = escaped(character.encode_utf8(&mut [0; 4]));
        count += shown.chars().count();
        if count >= FALLBACK_CHARS_MAX {
            fitting.push('…');
            break;
        }
        fitting.push_str(&shown);
    }
    fitting
}
