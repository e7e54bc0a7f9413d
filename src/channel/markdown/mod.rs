//! The model's Markdown as a small neutral tree that every channel renders from. No images, no HTML,
//! no link that the policy does not allow; what is refused stays as visible text. Nothing here knows
//! a platform, and nothing here escapes.

mod builder;
mod fact;
mod links;
mod sections;

pub(super) use fact::fact;
pub(super) use sections::{Section, sections};

use builder::Builder;
use pulldown_cmark::{Options, Parser};

/// Nesting that is rendered; deeper text is shown as it was written.
const DEPTH_MAX: usize = 16;
/// Bytes that are parsed; longer text is shown as it was written.
const SOURCE_BYTES_MAX: usize = 1 << 20;

/// A block of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MarkdownBlock {
    /// Lines of text.
    Paragraph(Vec<Inline>),
    /// A heading of level 1 to 6.
    Heading {
        /// 1 is the largest.
        level: u8,
        /// The line.
        inlines: Vec<Inline>,
    },
    /// A preformatted block, without its last line end.
    Code {
        /// The first word of the fence's info string, often empty.
        language: String,
        /// The lines of the block.
        text: String,
    },
    /// A list.
    List {
        /// The first number; `None` for bullets.
        start: Option<u64>,
        /// Each item's blocks.
        items: Vec<Vec<MarkdownBlock>>,
    },
    /// A quotation.
    Quote(Vec<MarkdownBlock>),
    /// A line across.
    Rule,
}

/// A run of text of one style. Line ends are `\n` within the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Inline {
    /// Words.
    Text {
        /// The words, literally.
        text: String,
        /// The style of the words.
        style: SpanStyle,
    },
    /// Inline code.
    Code {
        /// The code, literally.
        text: String,
        /// The style beside being code.
        style: SpanStyle,
    },
    /// A link that the policy allows.
    Link {
        /// The text of the link.
        label: String,
        /// The address: https, and one of the allowed hosts.
        url: String,
        /// The style of the text.
        style: SpanStyle,
    },
}

impl Inline {
    /// Returns the text that a person reads.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text { text, .. } | Self::Code { text, .. } => text,
            Self::Link { label, .. } => label,
        }
    }
}

/// The style of a run of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SpanStyle {
    /// Strong.
    pub(super) bold: bool,
    /// Emphasised.
    pub(super) italic: bool,
    /// Struck through.
    pub(super) strike: bool,
}

/// Parses Markdown. Links stay links only if they are https and their host is one of `link_hosts`;
/// all others become code that names the address, as `hxxps://…`. Text nested deeper than 16 levels
/// is returned as one paragraph, as it was written.
pub(super) fn parse(text: &str, link_hosts: &[String]) -> Vec<MarkdownBlock> {
    if text.len() > SOURCE_BYTES_MAX {
        return plain(text, link_hosts);
    }
    let mut builder = Builder::new(text, link_hosts);
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        if builder.push(event, range).is_err() {
            return plain(text, link_hosts);
        }
    }
    builder.finish()
}

/// A text of our own words: backticks mark code, nothing else is markup. A backtick without a partner
/// is a backtick.
pub(super) fn backticks(text: &str) -> Vec<Inline> {
    let style = SpanStyle::default();
    let mut inlines = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        let Some((code, after_code)) = after.split_once('`') else {
            break;
        };
        if code.is_empty() || code.contains('\n') {
            inlines.push(Inline::Text {
                text: format!("{before}`"),
                style,
            });
            rest = after;
            continue;
        }
        if !before.is_empty() {
            inlines.push(Inline::Text {
                text: before.to_owned(),
                style,
            });
        }
        inlines.push(Inline::Code {
            text: code.to_owned(),
            style,
        });
        rest = after_code;
    }
    if !rest.is_empty() {
        inlines.push(Inline::Text {
            text: rest.to_owned(),
            style,
        });
    }
    inlines
}

fn plain(text: &str, link_hosts: &[String]) -> Vec<MarkdownBlock> {
    vec![MarkdownBlock::Paragraph(links::inlines_of(
        text,
        SpanStyle::default(),
        link_hosts,
    ))]
}

fn options() -> Options {
    Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES
}

#[cfg(test)]
mod tests;
