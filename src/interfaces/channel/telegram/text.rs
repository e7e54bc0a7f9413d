//! Text with entities, as Telegram requires it: offsets in UTF-16 units, and no markup language that untrusted text
//! could break. Words that Telegram would convert to links are marked as code.

use super::auto_links::{JOINER, joiner_positions};
use crate::interfaces::channel::visible::escape_text;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;
use teloxide_core::types::{MessageEntity, MessageEntityKind};

/// The maximum number of words that are marked as code because Telegram would make links of them.
const WORDS_MAX: usize = 50;

/// A text under construction, with marks on parts of it.
#[derive(Debug, Default)]
pub(super) struct RichText {
    text: String,
    marks: Vec<Mark>,
    /// The position before which no mark is continued.
    border: usize,
}

#[derive(Debug)]
struct Mark {
    range: Range<usize>,
    kind: MessageEntityKind,
}

/// A finished text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EntityText {
    /// The text.
    pub(super) text: String,
    /// The length of the text in UTF-16 units.
    pub(super) units: usize,
    /// The entities of the text.
    pub(super) entities: Vec<Value>,
}

impl RichText {
    /// Returns true if the text has no visible character yet.
    pub(super) fn is_blank(&self) -> bool {
        is_blank(&self.text)
    }

    /// Returns the position of the next text, for [`RichText::mark_from`].
    pub(super) fn position(&self) -> usize {
        self.text.len()
    }

    /// Ends all marks: a mark of the next text does not continue one before it. Needed at the edges of quotes.
    pub(super) fn begin_part(&mut self) {
        self.border = self.position();
    }

    /// Appends text, with control and direction characters made visible.
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(&escape_text(text));
    }

    /// Appends marked text.
    pub(super) fn push_as(&mut self, text: &str, look: MessageEntityKind) {
        let start = self.position();
        self.push(text);
        self.mark_from(start, look);
    }

    /// Marks all text since `start`.
    pub(super) fn mark_from(&mut self, start: usize, look: MessageEntityKind) {
        let end = self.text.len();
        if start == end {
            return;
        }
        if let Some(last) = self.marks.last_mut()
            && last.range.end == start
            && start > self.border
            && last.kind == look
            && is_style(&look)
        {
            last.range.end = end;
            return;
        }
        self.marks.push(Mark {
            range: start..end,
            kind: look,
        });
    }

    /// Starts a new line, so that there are `lines` line ends in total; does nothing at the very start.
    pub(super) fn separate(&mut self, lines: usize) {
        if self.text.is_empty() {
            return;
        }
        let there = self
            .text
            .bytes()
            .rev()
            .take_while(|byte| *byte == b'\n')
            .take(lines)
            .count();
        self.text.extend(std::iter::repeat_n('\n', lines - there));
    }

    /// Returns true if the finished text has more UTF-16 units.
    pub(super) fn is_longer_than(&self, units_max: usize) -> bool {
        units(self.text.trim_end()) > units_max
    }

    /// Prevents texts from becoming links, and converts positions to UTF-16 units.
    pub(super) fn finish(mut self) -> EntityText {
        let end = self.text.trim_end().len();
        let shown = self.text.get(..end).unwrap_or_default().to_owned();
        let breaks = self.protect_words(&shown);
        let text = joined(&shown, &breaks);
        let edges = self
            .marks
            .iter()
            .flat_map(|mark| [mark.range.start, mark.range.end.min(end)]);
        let units_before = units_before(&shown, &breaks, edges.collect());
        let mut entities: Vec<MessageEntity> = self
            .marks
            .iter()
            .filter_map(|mark| {
                let from = *units_before.get(&mark.range.start)?;
                let to = *units_before.get(&mark.range.end.min(end))?;
                (from < to).then(|| MessageEntity::new(mark.kind.clone(), from, to - from))
            })
            .collect();
        // Outer entities come first, as Telegram sorts them.
        entities.sort_by(|a, b| a.offset.cmp(&b.offset).then(b.length.cmp(&a.length)));
        EntityText {
            units: units(&text),
            entities: entities.iter().map(|entity| json!(entity)).collect(),
            text,
        }
    }

    /// Returns the text for a place without entities, with a word joiner in everything that would become a link.
    pub(super) fn finish_unmarked(self) -> String {
        let shown = self.text.trim_end();
        joined(shown, &joiner_positions(shown, &[]))
    }

    /// Marks the words that would become links as code, so that they can be copied exactly. Returns the positions at
    /// which further ones must be broken up: a message has a limited number of entities.
    fn protect_words(&mut self, shown: &str) -> Vec<usize> {
        let protected: Vec<Range<usize>> = self
            .marks
            .iter()
            .filter(|mark| is_protected(&mark.kind))
            .map(|mark| mark.range.clone())
            .collect();
        let breaks = joiner_positions(shown, &protected);
        let mut words: Vec<Range<usize>> = Vec::new();
        let mut rest = Vec::new();
        for position in breaks {
            let reached = words.last().map_or(0, |word| word.end);
            if position <= reached {
                continue;
            }
            if words.len() == WORDS_MAX {
                rest.push(position);
                continue;
            }
            let word = word_at(shown, position, &protected);
            words.push(word.start.max(reached)..word.end);
        }
        for word in words {
            self.clear(&word);
            self.marks.push(Mark {
                range: word,
                kind: MessageEntityKind::Code,
            });
        }
        rest
    }

    /// Removes styles from a range, because code has none. Quotes may contain code.
    fn clear(&mut self, range: &Range<usize>) {
        let marks = std::mem::take(&mut self.marks);
        for mark in marks {
            let Range { start, end } = mark.range;
            let is_apart = end <= range.start || range.end <= start;
            if is_apart || !is_style(&mark.kind) {
                self.marks.push(Mark {
                    range: start..end,
                    kind: mark.kind,
                });
                continue;
            }
            for part in [start..end.min(range.start), start.max(range.end)..end] {
                if part.start < part.end {
                    self.marks.push(Mark {
                        range: part,
                        kind: mark.kind.clone(),
                    });
                }
            }
        }
    }
}

/// Returns true if Telegram makes no links within this entity.
fn is_protected(kind: &MessageEntityKind) -> bool {
    matches!(
        kind,
        MessageEntityKind::Code
            | MessageEntityKind::Pre { .. }
            | MessageEntityKind::TextMention { .. }
            | MessageEntityKind::TextLink { .. }
    )
}

/// Returns true for a look that code cannot have.
fn is_style(kind: &MessageEntityKind) -> bool {
    matches!(
        kind,
        MessageEntityKind::Bold | MessageEntityKind::Italic | MessageEntityKind::Strikethrough
    )
}

/// Returns the word around a position outside of the protected ranges, without the punctuation around it.
fn word_at(text: &str, position: usize, protected: &[Range<usize>]) -> Range<usize> {
    let next = protected.partition_point(|range| range.end <= position);
    let from = next.checked_sub(1).and_then(|last| protected.get(last));
    let from = from.map_or(0, |range| range.end.min(position));
    let to = protected
        .get(next)
        .map_or(text.len(), |range| range.start.max(position));
    let before = text.get(from..position).unwrap_or_default();
    let after = text.get(position..to).unwrap_or_default();
    let head = before.rsplit(char::is_whitespace).next().unwrap_or_default();
    let tail = after.split(char::is_whitespace).next().unwrap_or_default();
    let inner = head.trim_start_matches(['(', '[', '{', '<', '"', '\'', '*', '„', '“']);
    let inner = if inner.is_empty() { head } else { inner };
    let outer = tail.trim_end_matches([
        '.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '"', '\'', '*', '”',
    ]);
    position - inner.len()..position + outer.len()
}

/// Returns true if a text has no visible character.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(is_invisible)
}

/// Returns true for an invisible character. Telegram treats a text of such characters as empty and refuses it.
fn is_invisible(character: char) -> bool {
    character.is_whitespace()
        || matches!(character,
            '\u{ad}'
            | '\u{34f}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2060}'..='\u{2064}'
            | '\u{206a}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the number of UTF-16 units of a text.
pub(super) fn units(text: &str) -> usize {
    // A character of four bytes takes two units.
    text.chars().count() + text.bytes().filter(|byte| *byte >= 0xf0).count()
}

/// Returns the text with a word joiner at each of `breaks`.
fn joined(text: &str, breaks: &[usize]) -> String {
    let mut out = String::with_capacity(text.len() + breaks.len() * JOINER.len_utf8());
    let mut start = 0;
    for at in breaks {
        out.push_str(text.get(start..*at).unwrap_or_default());
        out.push(JOINER);
        start = *at;
    }
    out.push_str(text.get(start..).unwrap_or_default());
    out
}

/// Returns for each of `positions` in a text the number of UTF-16 units before it in the text of [`joined`].
fn units_before(text: &str, breaks: &[usize], mut positions: Vec<usize>) -> BTreeMap<usize, usize> {
    positions.sort_unstable();
    let (mut start, mut counted) = (0, 0);
    let mut units_at = |position: usize| {
        let passed = text.get(start..position)?;
        counted += units(passed);
        start = position;
        let joiners = breaks.partition_point(|at| *at <= position);
        Some((position, counted + joiners * JOINER.len_utf16()))
    };
    positions.into_iter().filter_map(&mut units_at).collect()
}
