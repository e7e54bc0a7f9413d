//! The places where a long Markdown text may be split: between its outermost blocks.

use super::{SOURCE_BYTES_MAX, builder, options};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

/// An outermost block of a Markdown text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::interfaces::channel) enum Section<'a> {
    /// Any block except a code block: its Markdown source, up to the start of the next section.
    Prose(&'a str),
    /// A code block without its fence.
    Code {
        /// The first word of the fence's info string, often empty.
        language: String,
        /// The lines of the block.
        text: String,
    },
}

/// Returns the outermost blocks of a text, in order. Together they contain every line of the text, except the fences
/// of code blocks.
pub(in crate::interfaces::channel) fn sections(text: &str) -> Vec<Section<'_>> {
    if text.len() > SOURCE_BYTES_MAX {
        return vec![Section::Prose(text)];
    }
    let mut found = Vec::new();
    let mut depth = 0_usize;
    let mut start = 0;
    let mut code: Option<(String, String)> = None;
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        if depth == 0 && range.start > start && matches!(event, Event::Start(_) | Event::Rule) {
            push_prose(&mut found, text.get(start..range.start).unwrap_or_default());
            start = range.start;
        }
        match event {
            Event::Start(Tag::CodeBlock(kind)) if depth == 0 => {
                code = Some((builder::language(&kind), String::new()));
                depth += 1;
            }
            Event::End(TagEnd::CodeBlock) if depth == 1 => {
                depth = 0;
                if let Some((language, mut text)) = code.take() {
                    if text.ends_with('\n') {
                        text.pop();
                    }
                    found.push(Section::Code { language, text });
                }
                start = range.end;
            }
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Text(words) => {
                if let Some((_, text)) = &mut code {
                    text.push_str(&words);
                }
            }
            _ => {}
        }
    }
    push_prose(&mut found, text.get(start..).unwrap_or_default());
    found
}

fn push_prose<'a>(found: &mut Vec<Section<'a>>, source: &'a str) {
    if !source.trim().is_empty() {
        found.push(Section::Prose(source));
    }
}
