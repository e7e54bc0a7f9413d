//! Splits a long reply into messages that Slack accepts: first between parts, then between the blocks of a Markdown
//! text, then between lines, then between words, but never inside a visible character.

use super::render::blocks;
use crate::base::model::{Platform, Reply, ReplyPart};
use crate::interfaces::channel::markdown::{Section, sections};
use crate::interfaces::channel::split::{part_bytes, part_of_section, tasks_as_text, with_text};
use crate::interfaces::channel::visible::escape_line;
use serde_json::Value;

/// The maximum number of blocks of one message.
const BLOCKS_MAX: usize = 50;
/// The maximum number of characters of one message's blocks as JSON.
const MESSAGE_CHARS_MAX: usize = Platform::Slack.message_chars_max();
/// The maximum number of characters of one part's blocks as JSON; it leaves room for a heading.
const PART_CHARS_MAX: usize = 9_000;
/// The maximum number of halvings of one part; enough for any text that fits in memory.
const HALVINGS_MAX: usize = 48;

/// The size of a reply.
#[derive(Clone, Copy, Default)]
struct Size {
    blocks: usize,
    chars: usize,
}

impl Size {
    fn measure(parts: &[ReplyPart], link_hosts: &[String]) -> Self {
        let blocks = blocks(parts, link_hosts);
        let chars = blocks
            .iter()
            .map(|block| block.to_string().chars().count() + 1)
            .sum();
        // A workspace without containers gets their blocks one by one, and one without plans a heading and a text.
        let children = |block: &Value| {
            let children = block["child_blocks"].as_array();
            children.map_or(usize::from(block["type"] == "plan"), Vec::len)
        };
        Self {
            blocks: blocks.iter().map(|block| 1 + children(block)).sum(),
            chars,
        }
    }

    fn with(self, other: Self) -> Self {
        Self {
            blocks: self.blocks + other.blocks,
            chars: self.chars + other.chars,
        }
    }

    fn fits(self) -> bool {
        self.blocks <= BLOCKS_MAX && self.chars <= MESSAGE_CHARS_MAX
    }
}

/// Returns the messages of a reply, and stops when there are more than `messages_max`. The mention is on the first message,
/// footer and buttons are on the last, and all else keeps its order.
pub(super) fn messages(reply: &Reply, link_hosts: &[String], messages_max: usize) -> Vec<Reply> {
    // A long source is too long in any case and is not rendered.
    let is_long = reply.parts.iter().map(source_bytes).sum::<usize>() > 4 * MESSAGE_CHARS_MAX;
    if !is_long && Size::measure(&reply.parts, link_hosts).fits() {
        return vec![reply.clone()];
    }
    let mut ordered = reply.parts.clone();
    ordered.sort_by_key(|part| match part {
        ReplyPart::Mention { .. } => 0,
        ReplyPart::Buttons { .. } | ReplyPart::Footer { .. } => 2,
        _ => 1,
    });
    let mut messages = vec![Reply::default()];
    let mut used = Size::default();
    for (part, size) in ordered
        .into_iter()
        .flat_map(|part| fitting(part, link_hosts, HALVINGS_MAX))
    {
        if !used.with(size).fits() {
            // The first message may be empty.
            if messages.len() - 1 > messages_max {
                break;
            }
            messages.push(Reply::default());
            used = Size::default();
        }
        used = used.with(size);
        if let Some(message) = messages.last_mut() {
            message.parts.push(part);
        }
    }
    messages.retain(|message| !message.parts.is_empty());
    messages
}

/// Splits a part into parts that are each small enough, and returns their sizes. A part is divided when it is asked for.
fn fitting<'a>(
    part: ReplyPart,
    link_hosts: &'a [String],
    halvings: usize,
) -> Box<dyn Iterator<Item = (ReplyPart, Size)> + 'a> {
    // A long source is too long in any case and is not rendered.
    if source_bytes(&part) <= 4 * PART_CHARS_MAX || halvings == 0 {
        let size = Size::measure(std::slice::from_ref(&part), link_hosts);
        if size.chars <= PART_CHARS_MAX || halvings == 0 {
            return Box::new(std::iter::once((part, size)));
        }
    }
    let smaller = smaller(&part).into_iter();
    Box::new(smaller.flat_map(move |part| fitting(part, link_hosts, halvings - 1)))
}

/// Returns the number of bytes of a part's text; a character has at most four. The title of a fold is cut, so it does not
/// count.
fn source_bytes(part: &ReplyPart) -> usize {
    match part {
        ReplyPart::Fold { parts, .. } => parts.iter().map(source_bytes).sum(),
        part => part_bytes(part),
    }
}

fn smaller(part: &ReplyPart) -> Vec<ReplyPart> {
    match part {
        ReplyPart::Mention { .. } => vec![part.clone()],
        ReplyPart::Heading { text } | ReplyPart::Text { text } | ReplyPart::Footer { text } => {
            halves(text).map(|text| ReplyPart::Text { text }).into()
        }
        ReplyPart::Markdown { text } => smaller_markdown(text),
        ReplyPart::Code { text, .. } => halves(text).map(|half| with_text(part, half)).into(),
        ReplyPart::Fold { title, state, parts } => {
            let pieces: Vec<Vec<ReplyPart>> = match parts.as_slice() {
                [part] => smaller(part).into_iter().map(|part| vec![part]).collect(),
                parts => halved(parts).into(),
            };
            let fold = |parts| ReplyPart::Fold {
                title: title.clone(),
                state: *state,
                parts,
            };
            pieces.into_iter().map(fold).collect()
        }
        ReplyPart::Tasks { list } => tasks_as_text(list),
        ReplyPart::Facts { rows } => match rows.as_slice() {
            [(label, value)] => vec![ReplyPart::Text {
                text: escape_line(&format!("{label}  {value}")),
            }],
            rows => halved(rows).map(|rows| ReplyPart::Facts { rows }).into(),
        },
        ReplyPart::Buttons { buttons } => match buttons.as_slice() {
            [_] => vec![part.clone()],
            buttons => halved(buttons)
                .map(|buttons| ReplyPart::Buttons { buttons })
                .into(),
        },
    }
}

fn halved<T: Clone>(items: &[T]) -> [Vec<T>; 2] {
    let (first, second) = items.split_at(items.len() / 2);
    [first.to_vec(), second.to_vec()]
}

fn smaller_markdown(text: &str) -> Vec<ReplyPart> {
    let sections = sections(text);
    if let [Section::Prose(text)] = sections.as_slice() {
        return halves(text).map(|text| ReplyPart::Markdown { text }).into();
    }
    sections.into_iter().map(part_of_section).collect()
}

/// Splits a text near its middle: after a line if possible, else after a space, else between characters.
fn halves(text: &str) -> [String; 2] {
    let characters: Vec<char> = text.chars().collect();
    let middle = characters.len() / 2;
    let may_cut = |index: usize, wanted: fn(char) -> bool| {
        index > 0
            && index < characters.len()
            && wanted(characters[index - 1])
            && !is_joined(&characters, index)
    };
    let nearest = |reach: usize, wanted: fn(char) -> bool| {
        (0..=reach).find_map(|distance| {
            [middle.saturating_sub(distance), middle + distance]
                .into_iter()
                .find(|index| may_cut(*index, wanted))
        })
    };
    let at = nearest(characters.len() / 4, |character| character == '\n')
        .or_else(|| nearest(characters.len() / 8, |character| character == ' '))
        .or_else(|| nearest(characters.len(), |_| true))
        .unwrap_or(middle);
    let (first, second) = characters.split_at(at);
    [first, second].map(|half| half.iter().collect())
}

/// Returns true if the characters before and after the index are shown as one.
fn is_joined(characters: &[char], index: usize) -> bool {
    let (before, after) = (characters[index - 1], characters[index]);
    let extends = matches!(after,
        '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{200c}' | '\u{200d}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}'
        | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0020}'..='\u{e007f}');
    let is_flag_half = |character: char| matches!(character, '\u{1f1e6}'..='\u{1f1ff}');
    extends
        || before == '\u{200d}'
        || (is_flag_half(before) && is_flag_half(after))
        || (before == '\r' && after == '\n')
}
