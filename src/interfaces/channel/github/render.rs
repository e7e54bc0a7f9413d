//! Renders a reply as the Markdown of one comment.

use super::markup::{code_block, inlines};
use crate::base::model::{Reply, ReplyPart};
use crate::interfaces::channel::markdown::{BOLD, MarkdownBlock, PLAIN, backticks, fact, parse};

/// The largest number of an item that GitHub reads as one.
const NUMBER_MAX: u64 = 999_999_999;

/// Returns the source of a comment; never empty.
pub(super) fn render(reply: &Reply, link_hosts: &[String]) -> String {
    let parts = parts(&reply.parts, link_hosts);
    match parts.trim().is_empty() {
        true => "(nothing to show)".to_owned(),
        false => parts,
    }
}

fn parts(parts: &[ReplyPart], link_hosts: &[String]) -> String {
    let shown = parts.iter().map(|part| part_text(part, link_hosts));
    let shown: Vec<String> = shown.filter(|text| !text.trim().is_empty()).collect();
    shown.join("\n\n")
}

fn part_text(part: &ReplyPart, link_hosts: &[String]) -> String {
    match part {
        ReplyPart::Heading { text } => inlines(&backticks(text), BOLD),
        ReplyPart::Text { text } | ReplyPart::Footer { text } => inlines(&backticks(text), PLAIN),
        ReplyPart::Markdown { text } => blocks(&parse(text, link_hosts)),
        ReplyPart::Code { language, text } => code_block(language, text),
        ReplyPart::Facts { rows } => {
            let rows = rows.iter().map(|(label, value)| {
                let label = inlines(&fact(label, PLAIN), BOLD);
                let row = format!("{label}: {}", inlines(&fact(value, PLAIN), PLAIN));
                item("- ", &row)
            });
            rows.collect::<Vec<_>>().join("\n")
        }
        ReplyPart::Tasks { list } => {
            let title = inlines(&backticks(&list.title), BOLD);
            format!("{title}\n\n{}", inlines(&backticks(&list.lines()), PLAIN))
        }
        ReplyPart::Fold {
            title, parts: inner, ..
        } => format!(
            "{}\n\n{}",
            inlines(&backticks(title), BOLD),
            parts(inner, link_hosts)
        ),
        // A comment names nobody, and nobody can press anything there.
        ReplyPart::Mention { .. } | ReplyPart::Buttons { .. } => String::new(),
    }
}

fn blocks(blocks: &[MarkdownBlock]) -> String {
    let texts = blocks.iter().map(block).filter(|text| !text.trim().is_empty());
    texts.collect::<Vec<_>>().join("\n\n")
}

fn block(block: &MarkdownBlock) -> String {
    match block {
        MarkdownBlock::Paragraph(words) => inlines(words, PLAIN),
        MarkdownBlock::Heading {
            level,
            inlines: words,
        } => {
            let line = inlines(words, PLAIN).replace('\n', " ");
            format!("{} {line}", "#".repeat(usize::from(*level).clamp(1, 6)))
        }
        MarkdownBlock::Code { language, text } => code_block(language, text),
        MarkdownBlock::List { start, items } => list(*start, items),
        MarkdownBlock::Quote(inner) => {
            let text = blocks(inner);
            let lines = text.split('\n').map(|line| format!("> {line}"));
            lines.collect::<Vec<_>>().join("\n")
        }
        MarkdownBlock::Rule => "---".to_owned(),
    }
}

fn list(start: Option<u64>, items: &[Vec<MarkdownBlock>]) -> String {
    let numbered = (0_u64..).zip(items).map(|(index, inner)| {
        let marker = match start {
            Some(start) => format!("{}. ", start.saturating_add(index).min(NUMBER_MAX)),
            None => "- ".to_owned(),
        };
        item(&marker, &blocks(inner))
    });
    numbered.collect::<Vec<_>>().join("\n")
}

/// Returns an item with its later lines below its first one. Code begins on a line of its own.
fn item(marker: &str, text: &str) -> String {
    let indent = " ".repeat(marker.len());
    let lines = text.split('\n').map(|line| match line.is_empty() {
        true => String::new(),
        false => format!("{indent}{line}"),
    });
    let indented = lines.collect::<Vec<_>>().join("\n");
    match text.starts_with(' ') {
        true => format!("{}\n{indented}", marker.trim_end()),
        false => format!("{marker}{}", indented.trim_start_matches(' ')),
    }
}
