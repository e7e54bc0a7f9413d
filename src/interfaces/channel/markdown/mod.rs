//! Parses the model's Markdown to a small neutral tree that every channel renders. The tree has no images, no HTML
//! and no links that the policy does not allow; refused parts remain as visible text. The parser knows no platform
//! and escapes nothing.

mod builder;
mod dialect;
mod fact;
mod links;
mod sections;

pub(super) use dialect::{LinePlace, MarkdownDialect};
pub(super) use fact::fact;
pub(super) use sections::{Section, sections};

use builder::Builder;
use pulldown_cmark::{Options, Parser};

/// The maximum nesting that is rendered; a deeper text is shown in its source form.
const DEPTH_MAX: usize = 16;
/// The maximum number of bytes that are parsed; a longer text is shown in its source form.
const SOURCE_BYTES_MAX: usize = 1 << 20;

/// A block of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MarkdownBlock {
    /// Lines of text.
    Paragraph(Vec<Inline>),
    /// A heading of level 1 to 6.
    Heading {
        /// The level; 1 is the largest heading.
        level: u8,
        /// The text of the heading.
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
    /// A horizontal rule.
    Rule,
}

/// Inline content of one style. Line ends are `\n` within the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Inline {
    /// Plain text.
    Text {
        /// The literal text.
        text: String,
        /// The style of the text.
        style: SpanStyle,
    },
    /// Inline code.
    Code {
        /// The literal code.
        text: String,
        /// The style in addition to code.
        style: SpanStyle,
    },
    /// A link that the policy allows.
    Link {
        /// The text of the link.
        label: String,
        /// The address; it uses https and one of the allowed hosts.
        url: String,
        /// The style of the text.
        style: SpanStyle,
    },
}

impl Inline {
    /// Creates plain text.
    pub(super) fn of_text(text: impl Into<String>, style: SpanStyle) -> Self {
        let text = text.into();
        Self::Text { text, style }
    }

    /// Creates inline code.
    pub(super) fn of_code(text: impl Into<String>, style: SpanStyle) -> Self {
        let text = text.into();
        Self::Code { text, style }
    }

    /// Returns the text that a user reads.
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
    /// True if the text is bold.
    pub(super) bold: bool,
    /// True if the text is italic.
    pub(super) italic: bool,
    /// True if the text is struck through.
    pub(super) strike: bool,
}

/// No style.
pub(super) const PLAIN: SpanStyle = SpanStyle {
    bold: false,
    italic: false,
    strike: false,
};
/// Bold alone.
pub(super) const BOLD: SpanStyle = SpanStyle { bold: true, ..PLAIN };
/// Italic alone.
pub(super) const ITALIC: SpanStyle = SpanStyle {
    italic: true,
    ..PLAIN
};

impl SpanStyle {
    /// Returns this style with another one.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            bold: self.bold || other.bold,
            italic: self.italic || other.italic,
            strike: self.strike || other.strike,
        }
    }

    /// Returns the marks of this style, given those of bold, italic and struck-through text.
    pub(super) fn marks<T>(self, [bold, italic, strike]: [T; 3]) -> impl Iterator<Item = T> {
        let marks = [(self.bold, bold), (self.italic, italic), (self.strike, strike)];
        marks
            .into_iter()
            .filter(|(is_set, _)| *is_set)
            .map(|(_, mark)| mark)
    }
}

/// Parses Markdown. A link is kept only if it uses https and its host is one of `link_hosts`; any other link becomes
/// code with the address as `hxxps://…`. Text nested deeper than 16 levels is returned as one paragraph in its source
/// form.
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

/// Parses a text of Drydock: backticks mark code, and there is no other markup. A single backtick is literal.
pub(super) fn backticks(text: &str) -> Vec<Inline> {
    let mut inlines = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        let Some((code, after_code)) = after.split_once('`') else {
            break;
        };
        if code.is_empty() || code.contains('\n') {
            inlines.push(Inline::of_text(format!("{before}`"), PLAIN));
            rest = after;
            continue;
        }
        if !before.is_empty() {
            inlines.push(Inline::of_text(before, PLAIN));
        }
        inlines.push(Inline::of_code(code, PLAIN));
        rest = after_code;
    }
    if !rest.is_empty() {
        inlines.push(Inline::of_text(rest, PLAIN));
    }
    inlines
}

fn plain(text: &str, link_hosts: &[String]) -> Vec<MarkdownBlock> {
    let inlines = links::inlines_of(text, PLAIN, link_hosts);
    vec![MarkdownBlock::Paragraph(inlines)]
}

fn options() -> Options {
    Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES
}

#[cfg(test)]
mod tests;
