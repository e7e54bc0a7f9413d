//! Renders a reply as one Telegram message: text with entities, and a keyboard. No markup language is used.

use super::text::{EntityText, RichText, units};
use crate::base::model::{Button, ButtonStyle, FoldState, Platform, Reply, ReplyPart, Sender};
use crate::interfaces::channel::layout::{FactLayout, button_rows, fact_layout};
use crate::interfaces::channel::markdown::{
    BOLD, ITALIC, Inline, MarkdownBlock, PLAIN, SpanStyle, backticks, fact, parse,
};
use crate::interfaces::channel::visible::{escape_code, escape_label, escape_line};
use reqwest::Url;
use serde_json::{Value, json};
use teloxide_core::types::{MessageEntityKind, User, UserId};

/// The maximum number of UTF-16 units of one message.
pub(super) const UNITS_MAX: usize = Platform::Telegram.message_chars_max();
/// The maximum number of entities of one message. Telegram silently drops further ones, and dropped code could become
/// a link.
pub(super) const ENTITIES_MAX: usize = 100;
/// The maximum number of buttons in a row that is still readable on a phone.
const ROW_MAX: usize = 3;
/// The maximum number of characters of the text in an empty input field.
const FIELD_CHARS_MAX: usize = 64;

/// A message in Telegram's format.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TelegramPayload {
    /// The text and its entities; never empty.
    pub(super) body: EntityText,
    /// `reply_markup`, if there are buttons or an input field.
    pub(super) keyboard: Option<Value>,
    /// The same content as `InputRichMessage`, if it gains by that.
    pub(super) rich: Option<Value>,
}

/// Rendering options that are not part of the reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct RenderOptions<'a> {
    /// The hosts whose links stay clickable.
    pub(super) link_hosts: &'a [String],
    /// The target chat, if known: in a user's private chat, mentions are left out.
    pub(super) chat: Option<&'a str>,
}

impl TelegramPayload {
    /// Returns the message without entities.
    pub(super) fn without_marks(self) -> Self {
        let text = plain(&self.body);
        Self {
            body: EntityText {
                units: units(&text),
                text,
                entities: Vec::new(),
            },
            ..self
        }
    }
}

/// Returns true if a reply is one message. Most of the rendering of a text that is too long is left out.
pub(super) fn fits(reply: &Reply, setting: RenderOptions<'_>) -> bool {
    let (text, _) = text_and_rows(reply, setting);
    if text.is_longer_than(UNITS_MAX) {
        return false;
    }
    let body = text.finish();
    body.units <= UNITS_MAX && body.entities.len() <= ENTITIES_MAX
}

/// Renders a reply.
pub(super) fn render(reply: &Reply, setting: RenderOptions<'_>) -> TelegramPayload {
    let (text, rows) = text_and_rows(reply, setting);
    TelegramPayload {
        body: text.finish(),
        keyboard: (!rows.is_empty()).then(|| json!({"inline_keyboard": rows})),
        rich: None,
    }
}

/// Returns the text of a reply, which is never empty, and its rows of buttons.
fn text_and_rows(reply: &Reply, setting: RenderOptions<'_>) -> (RichText, Vec<Vec<Value>>) {
    let mut page = MessageBuilder {
        text: RichText::default(),
        setting,
    };
    let mut rows = Vec::new();
    let mut previous = None;
    for part in &reply.parts {
        if let ReplyPart::Buttons { buttons } = part {
            let chunks = button_rows(buttons, ROW_MAX);
            rows.extend(chunks.map(|row| row.iter().map(button).collect::<Vec<_>>()));
            continue;
        }
        page.text.separate(gap(previous, part));
        page.part(part);
        previous = Some(part);
    }
    if page.text.is_blank() {
        page.text = RichText::default();
        page.text.push("(nothing to show)");
    }
    (page.text, rows)
}

/// Renders one line of Drydock with its code marked, of at most `units_max` UTF-16 units; a longer line loses its
/// marks.
pub(super) fn caption(text: &str, units_max: usize) -> EntityText {
    let mut page = MessageBuilder {
        text: RichText::default(),
        setting: RenderOptions {
            link_hosts: &[],
            chat: None,
        },
    };
    page.inlines(&backticks(text), PLAIN);
    let finished = page.text.finish();
    match finished.units <= units_max && finished.entities.len() <= ENTITIES_MAX {
        true => finished,
        false => EntityText {
            text: line(&finished.text, units_max),
            ..EntityText::default()
        },
    }
}

/// Returns the text of a caption without marks, for places where Telegram shows none.
pub(super) fn unmarked(text: &str, units_max: usize) -> String {
    line(&caption(text, usize::MAX).text, units_max)
}

/// Returns any text as one line without entities, of at most `units_max` UTF-16 units.
pub(super) fn line(text: &str, units_max: usize) -> String {
    let mut rich = RichText::default();
    rich.push(text);
    let finished = rich.finish_unmarked();
    let mut units = 0;
    finished
        .chars()
        .take_while(|character| {
            units += character.len_utf16();
            units <= units_max
        })
        .collect()
}

/// Returns the text of a body without entities, used when Telegram refuses them.
pub(super) fn plain(body: &EntityText) -> String {
    line(&body.text, UNITS_MAX)
}

fn gap(previous: Option<&ReplyPart>, part: &ReplyPart) -> usize {
    let is_box = |part: &ReplyPart| matches!(part, ReplyPart::Code { .. } | ReplyPart::Facts { .. });
    match previous {
        Some(ReplyPart::Heading { .. } | ReplyPart::Mention { .. }) => 1,
        Some(ReplyPart::Tasks { .. }) if matches!(part, ReplyPart::Text { .. }) => 1,
        Some(previous) if is_box(previous) || is_box(part) => 1,
        Some(ReplyPart::Fold { .. }) if matches!(part, ReplyPart::Fold { .. }) => 1,
        Some(_) | None => 2,
    }
}

/// Returns the markup that opens the person's input field as an answer to the message.
/// See <https://core.telegram.org/bots/api#forcereply>.
pub(super) fn answer_field(question: &str) -> Value {
    let hint = escape_label(question, FIELD_CHARS_MAX);
    json!({"force_reply": true, "selective": true, "input_field_placeholder": hint})
}

/// Returns the language of code as one word, and its lines without line ends at their end; code is never empty.
pub(super) fn preformatted<'t>(language: &str, text: &'t str) -> (String, &'t str) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '#');
    let language = language.chars().take_while(|c| is_word(*c)).take(32).collect();
    let text = text.trim_end_matches('\n');
    let shown = if text.trim().is_empty() { "(empty)" } else { text };
    (language, shown)
}

fn button(button: &Button) -> Value {
    let mut json = json!({"text": escape_line(&button.label), "callback_data": button.token});
    match button.style {
        ButtonStyle::Plain => {}
        ButtonStyle::Primary => json["style"] = json!("primary"),
        ButtonStyle::Danger => json["style"] = json!("danger"),
    }
    json
}

struct MessageBuilder<'a> {
    text: RichText,
    setting: RenderOptions<'a>,
}

impl MessageBuilder<'_> {
    fn part(&mut self, part: &ReplyPart) {
        match part {
            ReplyPart::Mention { to } => self.mention(to),
            ReplyPart::Heading { text } => self.inlines(&backticks(text), BOLD),
            ReplyPart::Text { text } => self.inlines(&backticks(text), PLAIN),
            ReplyPart::Markdown { text } => {
                let blocks = parse(text, self.setting.link_hosts);
                self.blocks(&blocks, Nesting::default());
            }
            ReplyPart::Code { language, text } => self.code(language, text),
            ReplyPart::Facts { rows } => self.facts(rows),
            ReplyPart::Tasks { list } => {
                self.inlines(&backticks(&list.title), BOLD);
                self.text.separate(1);
                self.inlines(&backticks(&list.lines()), PLAIN);
            }
            ReplyPart::Footer { text } => self.inlines(&backticks(text), ITALIC),
            ReplyPart::Fold { title, state, parts } => self.fold(title, *state, parts),
            ReplyPart::Buttons { .. } => {}
        }
    }

    /// Renders a fold as a bold title above an expandable quote. Quotes cannot be nested, so an open fold is the title
    /// above its parts.
    fn fold(&mut self, title: &str, state: FoldState, parts: &[ReplyPart]) {
        self.inlines(&backticks(title), BOLD);
        self.text.separate(1);
        self.text.begin_part();
        let start = self.text.position();
        let mut previous = None;
        for part in parts {
            self.text.separate(gap(previous, part).min(1));
            match (state, part) {
                (FoldState::Closed, ReplyPart::Markdown { text: source }) => {
                    let blocks = parse(source, self.setting.link_hosts);
                    let inside = Nesting {
                        in_quote: true,
                        ..Nesting::default()
                    };
                    self.blocks(&blocks, inside);
                }
                (_, part) => self.part(part),
            }
            previous = Some(part);
        }
        if state == FoldState::Closed {
            self.text
                .mark_from(start, MessageEntityKind::ExpandableBlockquote);
        }
        self.text.begin_part();
    }

    fn mention(&mut self, to: &Sender) {
        let Ok(id) = to.id.parse() else { return };
        if self.setting.chat == Some(to.id.as_str()) {
            return;
        }
        self.text.push("For ");
        let user = mentioned(UserId(id));
        self.text.push_as("you", MessageEntityKind::TextMention { user });
        self.text.push(":");
    }

    fn code(&mut self, language: &str, text: &str) {
        let (language, text) = preformatted(language, text);
        let language = Some(language).filter(|language| !language.is_empty());
        self.text
            .push_as(&escape_code(text), MessageEntityKind::Pre { language });
    }

    fn facts(&mut self, rows: &[(String, String)]) {
        let rows = match fact_layout(rows) {
            FactLayout::Table(table) => return self.code("", &table),
            FactLayout::Lines(rows) => rows,
        };
        for (label, value) in &rows {
            self.text.separate(1);
            self.inlines(&fact(label, PLAIN), BOLD);
            self.text.push_as(":", MessageEntityKind::Bold);
            self.text.push(" ");
            self.inlines(&fact(value, PLAIN), PLAIN);
        }
    }

    fn blocks(&mut self, blocks: &[MarkdownBlock], nesting: Nesting) {
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 {
                let is_close = nesting.indent > 0 || is_box(block) || is_box(&blocks[index - 1]);
                self.text.separate(if is_close { 1 } else { 2 });
                self.indent(block, nesting);
            }
            self.block(block, nesting);
        }
    }

    fn indent(&mut self, block: &MarkdownBlock, nesting: Nesting) {
        if !matches!(block, MarkdownBlock::List { .. } | MarkdownBlock::Code { .. }) {
            self.text.push(&" ".repeat(nesting.indent));
        }
    }

    fn block(&mut self, block: &MarkdownBlock, nesting: Nesting) {
        match block {
            MarkdownBlock::Paragraph(inlines) => self.inlines(inlines, PLAIN),
            MarkdownBlock::Heading { inlines, .. } => self.inlines(inlines, BOLD),
            MarkdownBlock::Code { language, text } => self.code(language, text),
            MarkdownBlock::List { start, items } => self.list(*start, items, nesting),
            MarkdownBlock::Quote(blocks) => self.quote(blocks, nesting),
            MarkdownBlock::Rule => self.text.push("———"),
        }
    }

    fn list(&mut self, start: Option<u64>, items: &[Vec<MarkdownBlock>], nesting: Nesting) {
        for (index, item) in (0_u64..).zip(items) {
            if index > 0 || nesting.indent > 0 {
                self.text.separate(1);
            }
            self.text.push(&" ".repeat(nesting.indent));
            match start {
                Some(start) => self.text.push(&format!("{}. ", start.saturating_add(index))),
                None => self.text.push("• "),
            }
            if item
                .first()
                .is_some_and(|block| matches!(block, MarkdownBlock::Code { .. }))
            {
                self.text.separate(1);
            }
            let deeper = Nesting {
                indent: nesting.indent + 2,
                ..nesting
            };
            self.blocks(item, deeper);
        }
    }

    /// Renders a quote. Telegram has no nested quotes, so inner ones become part of the outer.
    fn quote(&mut self, blocks: &[MarkdownBlock], nesting: Nesting) {
        let start = self.text.position();
        self.blocks(
            blocks,
            Nesting {
                in_quote: true,
                ..nesting
            },
        );
        if !nesting.in_quote {
            self.text.mark_from(start, MessageEntityKind::Blockquote);
        }
    }

    /// Renders inline content. Code and links keep their own style: Telegram allows no other entity on code.
    fn inlines(&mut self, inlines: &[Inline], look: SpanStyle) {
        for inline in inlines {
            let start = self.text.position();
            self.text.push(inline.text());
            let style = match inline {
                Inline::Code { .. } => {
                    self.text.mark_from(start, MessageEntityKind::Code);
                    continue;
                }
                Inline::Link { url, style, .. } => {
                    if let Ok(url) = Url::parse(url) {
                        self.text.mark_from(start, MessageEntityKind::TextLink { url });
                    }
                    style
                }
                Inline::Text { style, .. } => style,
            };
            let marks = [
                MessageEntityKind::Bold,
                MessageEntityKind::Italic,
                MessageEntityKind::Strikethrough,
            ];
            for mark in style.and(look).marks(marks) {
                self.text.mark_from(start, mark);
            }
        }
    }
}

/// Returns a person as a mention names one. Telegram needs the id only.
fn mentioned(id: UserId) -> User {
    User {
        id,
        is_bot: false,
        first_name: "you".to_owned(),
        last_name: None,
        username: None,
        language_code: None,
        is_premium: false,
        added_to_attachment_menu: false,
    }
}

fn is_box(block: &MarkdownBlock) -> bool {
    matches!(block, MarkdownBlock::Code { .. })
}

#[derive(Clone, Copy, Debug, Default)]
struct Nesting {
    indent: usize,
    in_quote: bool,
}

#[cfg(test)]
mod tests {
    use super::{RenderOptions, render};
    use crate::base::model::{Reply, ReplyPart};
    use proptest::prelude::{ProptestConfig, prop_assert, proptest};

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// T43, T58: facts have at most as many lines as there are rows, for any names of files, checks and
        /// environments; trailing blank lines are removed.
        #[test]
        fn no_name_makes_a_line_of_its_own(rows in proptest::collection::vec((".*", ".*|a\nb|`.*"), 1..8)) {
            let setting = RenderOptions { link_hosts: &[], chat: None };
            let rendered = render(&Reply { parts: vec![ReplyPart::Facts { rows: rows.clone() }] }, setting);
            prop_assert!(rendered.body.text.split('\n').count() <= rows.len(), "{}", rendered.body.text);
        }
    }
}
