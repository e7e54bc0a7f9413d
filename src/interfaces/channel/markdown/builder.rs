//! Builds the Markdown tree from the parser's events with an explicit stack, so that the depth is a checked number
//! instead of a recursion.

use super::{DEPTH_MAX, Inline, MarkdownBlock, SpanStyle, links};
use pulldown_cmark::{CodeBlockKind, Event, Tag, TagEnd};
use std::ops::Range;

/// The text is nested deeper than the renderer allows.
pub(super) struct TooDeep;

pub(super) struct Builder<'a> {
    source: &'a str,
    link_hosts: &'a [String],
    done: Vec<MarkdownBlock>,
    open: Vec<Open>,
    /// Links and images that are still open.
    links: Vec<OpenLink>,
    /// Text of one style that is not converted to inlines yet. It is collected so that an address is complete when it
    /// is checked.
    run: String,
    bold: usize,
    italic: usize,
    strike: usize,
    /// True inside a table, whose source was taken as a whole.
    in_table: bool,
}

enum Open {
    Lines {
        level: Option<u8>,
        inlines: Vec<Inline>,
        /// True if the source has no block here, as in an item of a tight list.
        implied: bool,
    },
    Code {
        language: String,
        text: String,
    },
    Quote(Vec<MarkdownBlock>),
    List {
        start: Option<u64>,
        items: Vec<Vec<MarkdownBlock>>,
    },
    Item(Vec<MarkdownBlock>),
}

struct OpenLink {
    address: String,
    label: String,
    kind: LinkKind,
}

enum LinkKind {
    Link,
    Image,
}

impl<'a> Builder<'a> {
    pub(super) fn new(source: &'a str, link_hosts: &'a [String]) -> Self {
        Self {
            source,
            link_hosts,
            done: Vec::new(),
            open: Vec::new(),
            links: Vec::new(),
            run: String::new(),
            bold: 0,
            italic: 0,
            strike: 0,
            in_table: false,
        }
    }

    pub(super) fn push(&mut self, event: Event<'_>, range: Range<usize>) -> Result<(), TooDeep> {
        if self.in_table {
            self.in_table = event != Event::End(TagEnd::Table);
            return Ok(());
        }
        match event {
            Event::Start(tag) => self.start(tag, range),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.words(&text),
            Event::Code(text) => self.code(&text),
            Event::SoftBreak | Event::HardBreak => self.words("\n"),
            Event::Rule => {
                self.close_implied();
                self.add(MarkdownBlock::Rule);
            }
            // Events of extensions that are not enabled.
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.words(&text);
            }
            Event::TaskListMarker(_) => {}
        }
        let styles = self.bold + self.italic + self.strike;
        if self.open.len() + self.links.len() + styles > DEPTH_MAX {
            return Err(TooDeep);
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Vec<MarkdownBlock> {
        while !self.open.is_empty() {
            self.close();
        }
        self.done
    }

    fn start(&mut self, tag: Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::Emphasis => self.restyle(|builder| builder.italic += 1),
            Tag::Strong => self.restyle(|builder| builder.bold += 1),
            Tag::Strikethrough => self.restyle(|builder| builder.strike += 1),
            Tag::Link { dest_url, .. } => self.open_link(&dest_url, LinkKind::Link),
            Tag::Image { dest_url, .. } => self.open_link(&dest_url, LinkKind::Image),
            Tag::Table(_) => {
                self.close_implied();
                self.in_table = true;
                let text = self.source.get(range).unwrap_or_default().trim_end().to_owned();
                self.add(MarkdownBlock::Code {
                    language: String::new(),
                    text,
                });
            }
            Tag::Heading { level, .. } => self.open_lines(Some(level as u8)),
            Tag::BlockQuote(_) => self.open_block(Open::Quote(Vec::new())),
            Tag::CodeBlock(kind) => self.open_block(Open::Code {
                language: language(&kind),
                text: String::new(),
            }),
            Tag::List(start) => self.open_block(Open::List {
                start,
                items: Vec::new(),
            }),
            Tag::Item => self.open_block(Open::Item(Vec::new())),
            // Paragraphs, HTML, and extensions that are not enabled.
            _ => self.open_lines(None),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis => self.restyle(|builder| builder.italic = builder.italic.saturating_sub(1)),
            TagEnd::Strong => self.restyle(|builder| builder.bold = builder.bold.saturating_sub(1)),
            TagEnd::Strikethrough => {
                self.restyle(|builder| builder.strike = builder.strike.saturating_sub(1));
            }
            TagEnd::Link | TagEnd::Image => self.close_link(),
            TagEnd::Table => {}
            TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::CodeBlock | TagEnd::HtmlBlock => self.close(),
            _ => {
                self.close_implied();
                self.close();
            }
        }
    }

    fn words(&mut self, text: &str) {
        if let Some(Open::Code { text: code, .. }) = self.open.last_mut() {
            code.push_str(text);
        } else if let Some(link) = self.links.last_mut() {
            link.label.push_str(text);
        } else {
            self.run.push_str(text);
        }
    }

    fn code(&mut self, text: &str) {
        if let Some(link) = self.links.last_mut() {
            link.label.push_str(text);
            return;
        }
        self.flush();
        self.add_inlines(vec![Inline::of_code(text, self.style())]);
    }

    fn open_link(&mut self, address: &str, kind: LinkKind) {
        self.flush();
        self.links.push(OpenLink {
            address: address.to_owned(),
            label: String::new(),
            kind,
        });
    }

    fn close_link(&mut self) {
        let Some(OpenLink { address, label, kind }) = self.links.pop() else {
            return;
        };
        if let Some(outer) = self.links.last_mut() {
            // An image in the label of a link. The image's address makes the label look like an address, so the link
            // is refused too.
            outer
                .label
                .push_str(&format!("{label} ({})", links::defanged(&address)));
            return;
        }
        let style = self.style();
        let inlines = match kind {
            LinkKind::Link => links::link(&label, &address, style, self.link_hosts),
            LinkKind::Image => links::refused(&label, &address, style),
        };
        self.add_inlines(inlines);
    }

    fn restyle(&mut self, change: impl FnOnce(&mut Self)) {
        self.flush();
        change(self);
    }

    fn style(&self) -> SpanStyle {
        SpanStyle {
            bold: self.bold > 0,
            italic: self.italic > 0,
            strike: self.strike > 0,
        }
    }

    /// Converts the collected text to inlines.
    fn flush(&mut self) {
        if self.run.is_empty() {
            return;
        }
        let run = std::mem::take(&mut self.run);
        let inlines = links::inlines_of(&run, self.style(), self.link_hosts);
        self.add_inlines(inlines);
    }

    /// Adds inlines to the open paragraph or heading, or to a new implied paragraph.
    fn add_inlines(&mut self, added: Vec<Inline>) {
        if let Some(Open::Lines { inlines, .. }) = self.open.last_mut() {
            inlines.extend(added);
            return;
        }
        self.open.push(Open::Lines {
            level: None,
            inlines: added,
            implied: true,
        });
    }

    fn open_lines(&mut self, level: Option<u8>) {
        self.open_block(Open::Lines {
            level,
            inlines: Vec::new(),
            implied: false,
        });
    }

    fn open_block(&mut self, block: Open) {
        self.close_implied();
        self.open.push(block);
    }

    fn close_implied(&mut self) {
        self.flush();
        if matches!(self.open.last(), Some(Open::Lines { implied: true, .. })) {
            self.close();
        }
    }

    /// Closes the innermost open block and adds it to its parent.
    fn close(&mut self) {
        if !matches!(self.open.last(), Some(Open::Code { .. })) {
            self.flush();
        }
        match self.open.pop() {
            None => {}
            Some(Open::Lines { inlines, level, .. }) => self.add(match level {
                Some(level) => MarkdownBlock::Heading { level, inlines },
                None => MarkdownBlock::Paragraph(inlines),
            }),
            Some(Open::Code { language, mut text }) => {
                if text.ends_with('\n') {
                    text.pop();
                }
                self.add(MarkdownBlock::Code { language, text });
            }
            Some(Open::Quote(blocks)) => self.add(MarkdownBlock::Quote(blocks)),
            Some(Open::List { start, items }) => self.add(MarkdownBlock::List { start, items }),
            Some(Open::Item(blocks)) => match self.open.last_mut() {
                Some(Open::List { items, .. }) => items.push(blocks),
                _ => blocks.into_iter().for_each(|block| self.add(block)),
            },
        }
    }

    fn add(&mut self, block: MarkdownBlock) {
        match self.open.last_mut() {
            Some(Open::Quote(blocks) | Open::Item(blocks)) => blocks.push(block),
            Some(Open::List { items, .. }) => items.push(vec![block]),
            Some(Open::Lines { .. } | Open::Code { .. }) | None => self.done.push(block),
        }
    }
}

pub(super) fn language(kind: &CodeBlockKind<'_>) -> String {
    match kind {
        CodeBlockKind::Indented => String::new(),
        CodeBlockKind::Fenced(info) => info
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .chars()
            .filter(|character| character.is_ascii_alphanumeric() || "+-_#.".contains(*character))
            .take(32)
            .collect(),
    }
}
