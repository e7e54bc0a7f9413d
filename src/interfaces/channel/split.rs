//! Splits a long reply into messages. Blocks stay whole and splits are at line ends if possible. A split is never
//! inside a visible character, and no text is lost.

use crate::base::model::{Reply, ReplyPart, TaskList};
use crate::interfaces::channel::markdown::{Section, sections};
use crate::interfaces::channel::visible::escape_line;
use std::collections::VecDeque;

/// The number of characters that are examined for one message, for each that it may have; invisible markup may make the
/// source longer.
const CHARACTERS_PER_CHARACTER: usize = 4;
/// The number of bytes above which a reply is not rendered as one message, for each character that it may have:
/// rendering a long reply again for each of its messages would take too long.
const SOURCE_BYTES_PER_CHARACTER: usize = 16;
/// The number of bytes of a row of facts that fits a message in any case.
const ROW_BYTES_FIT: usize = 256;
/// The number of characters that a split may move back to keep a joined emoji whole.
const CLUSTER_MAX: usize = 32;

/// The size of the messages of a platform.
pub(super) struct PageSize<'a> {
    /// The maximum number of characters of a message.
    pub(super) chars_max: usize,
    /// Renders a reply, and returns true if it is one message. It is not asked for very long replies.
    pub(super) fits: &'a dyn Fn(&Reply) -> bool,
}

/// Returns the messages of a reply, in order, and stops after `pages_max` + 1 messages. The number of attempts for
/// each part does not depend on the number of parts.
pub(super) fn pages(reply: &Reply, size: &PageSize<'_>, pages_max: usize) -> Vec<Reply> {
    let source_bytes_max = SOURCE_BYTES_PER_CHARACTER * size.chars_max;
    let fits = |reply: &Reply| source_bytes(reply) <= source_bytes_max && (size.fits)(reply);
    let fits: &dyn Fn(&Reply) -> bool = &fits;
    if fits(reply) {
        return vec![reply.clone()];
    }
    let parts: Vec<ReplyPart> = reply
        .parts
        .iter()
        .flat_map(|part| sectioned(part, fits))
        .collect();
    let mut waiting: VecDeque<RemainingPart<'_>> = parts.iter().map(RemainingPart::Whole).collect();
    let mut pages: Vec<Reply> = Vec::new();
    while !waiting.is_empty() && pages.len() <= pages_max {
        let mut page = whole_that_fit(&mut waiting, fits);
        if let Some(next) = waiting.pop_front() {
            let alone = Reply {
                parts: vec![next.part()],
            };
            let cut = match fits(&alone) {
                true => None,
                false => cut(next, size.chars_max, &|part| fits(&page.clone().with(part))),
            };
            match cut {
                Some((head, tail)) => {
                    page.parts.push(head);
                    waiting.push_front(tail);
                }
                // The part neither fits nor can be split.
                None if page.parts.is_empty() => page = alone,
                None => waiting.push_front(next),
            }
        }
        match pages.last_mut().filter(|_| is_buttons(&page)) {
            Some(last) => last.parts.append(&mut page.parts),
            None => pages.push(page),
        }
    }
    if waiting.is_empty() && !pages.iter().all(is_blank) {
        pages.retain(|page| !is_blank(page));
    }
    pages
}

/// Takes as many of the remaining parts as fit one message whole. It tries one, two, four and so on, and then
/// searches in between.
fn whole_that_fit(waiting: &mut VecDeque<RemainingPart<'_>>, fits: &dyn Fn(&Reply) -> bool) -> Reply {
    let mut page = Reply::default();
    let mut fits_with = |count: usize| {
        resize(&mut page, count, waiting);
        fits(&page)
    };
    let (mut count, mut too_many) = (0, 1);
    while too_many <= waiting.len() && fits_with(too_many) {
        (count, too_many) = (too_many, too_many * 2);
    }
    too_many = too_many.min(waiting.len() + 1);
    while count + 1 < too_many {
        let middle = usize::midpoint(count, too_many);
        match fits_with(middle) {
            true => count = middle,
            false => too_many = middle,
        }
    }
    resize(&mut page, count, waiting);
    waiting.drain(..count);
    page
}

/// Makes a page the first `count` remaining parts.
fn resize(page: &mut Reply, count: usize, waiting: &VecDeque<RemainingPart<'_>>) {
    page.parts.truncate(count);
    let missing = waiting.range(page.parts.len()..count);
    page.parts.extend(missing.map(|rest| rest.part()));
}

/// A part that is not assigned to a message yet, or the rest of one.
#[derive(Clone, Copy)]
enum RemainingPart<'a> {
    Whole(&'a ReplyPart),
    Text { of: &'a ReplyPart, text: &'a str },
    Rows(&'a [(String, String)]),
}

impl RemainingPart<'_> {
    fn part(self) -> ReplyPart {
        match self {
            Self::Whole(part) => part.clone(),
            Self::Text { of, text } => with_text(of, text.to_owned()),
            Self::Rows(rows) => ReplyPart::Facts { rows: rows.to_vec() },
        }
    }
}

pub(super) fn text_of(part: &ReplyPart) -> Option<&str> {
    match part {
        ReplyPart::Heading { text }
        | ReplyPart::Text { text }
        | ReplyPart::Markdown { text }
        | ReplyPart::Footer { text }
        | ReplyPart::Code { text, .. } => Some(text),
        ReplyPart::Facts { .. }
        | ReplyPart::Tasks { .. }
        | ReplyPart::Fold { .. }
        | ReplyPart::Mention { .. }
        | ReplyPart::Buttons { .. } => None,
    }
}

/// Returns a part of the same kind with another text.
pub(super) fn with_text(part: &ReplyPart, text: String) -> ReplyPart {
    match part {
        ReplyPart::Heading { .. } => ReplyPart::Heading { text },
        ReplyPart::Markdown { .. } => ReplyPart::Markdown { text },
        ReplyPart::Footer { .. } => ReplyPart::Footer { text },
        ReplyPart::Code { language, .. } => ReplyPart::Code {
            language: language.clone(),
            text,
        },
        ReplyPart::Text { .. }
        | ReplyPart::Facts { .. }
        | ReplyPart::Tasks { .. }
        | ReplyPart::Fold { .. }
        | ReplyPart::Mention { .. }
        | ReplyPart::Buttons { .. } => ReplyPart::Text { text },
    }
}

pub(super) fn source_bytes(reply: &Reply) -> usize {
    reply.parts.iter().map(part_bytes).sum()
}

pub(super) fn part_bytes(part: &ReplyPart) -> usize {
    match part {
        ReplyPart::Facts { rows } => rows.iter().map(row_bytes).sum(),
        ReplyPart::Tasks { list } => list.title.len() + list.lines().len(),
        ReplyPart::Fold { title, parts, .. } => title.len() + parts.iter().map(part_bytes).sum::<usize>(),
        part => text_of(part).map_or(0, str::len),
    }
}

fn row_bytes((label, value): &(String, String)) -> usize {
    label.len() + value.len()
}

/// Returns true for a page with only blank lines.
fn is_blank(page: &Reply) -> bool {
    page.parts
        .iter()
        .all(|part| text_of(part).is_some_and(|text| text.trim().is_empty()))
}

fn is_buttons(page: &Reply) -> bool {
    page.parts
        .iter()
        .all(|part| matches!(part, ReplyPart::Buttons { .. }))
}

/// Returns an outermost block of a Markdown text as a part of its own.
pub(super) fn part_of_section(section: Section<'_>) -> ReplyPart {
    match section {
        Section::Prose(source) => ReplyPart::Markdown {
            text: source.to_owned(),
        },
        Section::Code { language, text } => ReplyPart::Code { language, text },
    }
}

/// Returns tasks as their title above a text.
pub(super) fn tasks_as_text(list: &TaskList) -> Vec<ReplyPart> {
    let text = list.title.clone();
    vec![
        ReplyPart::Heading { text },
        ReplyPart::Text { text: list.lines() },
    ]
}

/// Divides a part into parts that may be in different messages. Code blocks of Markdown become separate parts so that
/// their continuation is code again, and so does a row of facts that is longer than a message.
fn sectioned(part: &ReplyPart, fits: &dyn Fn(&Reply) -> bool) -> Vec<ReplyPart> {
    match part {
        ReplyPart::Markdown { text } => sections(text).into_iter().map(part_of_section).collect(),
        ReplyPart::Facts { rows } => {
            let is_long = |row: &(String, String)| {
                let alone = || ReplyPart::Facts {
                    rows: vec![row.clone()],
                };
                row_bytes(row) > ROW_BYTES_FIT && !fits(&Reply::default().with(alone()))
            };
            let alike = rows.chunk_by(|one, other| !is_long(one) && !is_long(other));
            let part = |rows: &[(String, String)]| match rows {
                [row] if is_long(row) => ReplyPart::Text {
                    text: escape_line(&format!("{}: {}", row.0, row.1)),
                },
                rows => ReplyPart::Facts { rows: rows.to_vec() },
            };
            alike.map(part).collect()
        }
        ReplyPart::Tasks { list } if !fits(&Reply::default().with(part.clone())) => tasks_as_text(list),
        // A fold that is longer than a message is its title above its parts.
        ReplyPart::Fold { title, parts, .. } if !fits(&Reply::default().with(part.clone())) => {
            let title = ReplyPart::Text { text: title.clone() };
            let parts = parts.iter().flat_map(|part| sectioned(part, fits));
            std::iter::once(title).chain(parts).collect()
        }
        part => vec![part.clone()],
    }
}

/// Splits a part into the largest head that fits, and the rest. Returns `None` if no head fits.
fn cut<'a>(
    rest: RemainingPart<'a>,
    chars_max: usize,
    fits: &dyn Fn(ReplyPart) -> bool,
) -> Option<(ReplyPart, RemainingPart<'a>)> {
    let (of, text) = match rest {
        RemainingPart::Whole(ReplyPart::Facts { rows }) => return cut_rows(rows, chars_max, fits),
        RemainingPart::Rows(rows) => return cut_rows(rows, chars_max, fits),
        RemainingPart::Whole(part) => (part, text_of(part)?),
        RemainingPart::Text { of, text } => (of, text),
    };
    let at = cut_at(text, chars_max, &|head| fits(with_text(of, head.to_owned())))?;
    let (head, text) = text.split_at_checked(at)?;
    Some((with_text(of, head.to_owned()), RemainingPart::Text { of, text }))
}

fn cut_rows<'a>(
    rows: &'a [(String, String)],
    chars_max: usize,
    fits: &dyn Fn(ReplyPart) -> bool,
) -> Option<(ReplyPart, RemainingPart<'a>)> {
    // A row has at least one character.
    let (mut count, mut too_many) = (0, rows.len().min(chars_max + 1));
    while count + 1 < too_many {
        let middle = usize::midpoint(count, too_many);
        match rows
            .get(..middle)
            .is_some_and(|head| fits(RemainingPart::Rows(head).part()))
        {
            true => count = middle,
            false => too_many = middle,
        }
    }
    let (head, tail) = rows
        .split_at_checked(count)
        .filter(|(head, _)| !head.is_empty())?;
    Some((RemainingPart::Rows(head).part(), RemainingPart::Rows(tail)))
}

/// Returns the position to split at: after the last line end that fits, else after the last space, else between
/// characters.
fn cut_at(text: &str, chars_max: usize, fits: &dyn Fn(&str) -> bool) -> Option<usize> {
    let ends: Vec<usize> = text
        .char_indices()
        .map(|(byte, character)| byte + character.len_utf8())
        .take(CHARACTERS_PER_CHARACTER * chars_max)
        .collect();
    let prefix = |end: usize| text.get(..end).unwrap_or_default();
    let longest = ends.partition_point(|end| fits(prefix(*end)));
    let end = *ends.get(longest.checked_sub(1)?)?;
    let window = prefix(end);
    let after = |separator: char| window.rfind(separator).map(|byte| byte + separator.len_utf8());
    let is_worthwhile = |at: &usize| *at > end / 4 && *at < text.len();
    let nice = [after('\n'), after(' ').filter(|_| !window.contains('\n'))]
        .into_iter()
        .flatten()
        .filter(is_worthwhile)
        .find(|at| fits(prefix(*at)));
    nice.or_else(|| between_clusters(text, end))
}

/// Returns the last position at or before `end` that splits no emoji or accented letter; `end` itself if there is
/// none nearby, so that a split is always possible.
fn between_clusters(text: &str, end: usize) -> Option<usize> {
    let window = text.get(..end)?;
    let places = window
        .char_indices()
        .rev()
        .map(|(byte, _)| byte)
        .take(CLUSTER_MAX);
    let place = std::iter::once(end)
        .chain(places)
        .find(|at| *at > 0 && !is_inside_cluster(text, *at));
    place.or(Some(end)).filter(|at| *at > 0)
}

fn is_inside_cluster(text: &str, at: usize) -> bool {
    let (Some(head), Some(tail)) = (text.get(..at), text.get(at..)) else {
        return true;
    };
    let (Some(before), Some(after)) = (head.chars().next_back(), tail.chars().next()) else {
        return false;
    };
    let is_flag = |character: char| ('\u{1f1e6}'..='\u{1f1ff}').contains(&character);
    let flags = head
        .chars()
        .rev()
        .take(64)
        .take_while(|character| is_flag(*character))
        .count();
    before == '\u{200d}'
        || (before == '\r' && after == '\n')
        || is_attached(after)
        || (is_flag(after) && flags % 2 == 1)
}

/// Returns true if a character belongs to the one before it: joiners, accents, variation selectors, skin tones and
/// tags.
fn is_attached(character: char) -> bool {
    matches!(character,
        '\u{200d}'
        | '\u{300}'..='\u{36f}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{1f3fb}'..='\u{1f3ff}'
        | '\u{e0020}'..='\u{e007f}')
}
