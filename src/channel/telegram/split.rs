//! Cuts a long reply into messages. Blocks stay whole where they can, cuts are at line ends where they
//! can, and never inside a character people see as one. Nothing is lost.

use super::render::{Setting, UNITS_MAX, render};
use crate::channel::markdown::{Section, sections};
use crate::channel::visible::visible_line;
use crate::model::{Part, Reply};
use std::collections::VecDeque;

/// Characters looked at for one message: markup that does not show may make the source longer.
const CHARACTERS_MAX: usize = 4 * UNITS_MAX;
/// Bytes of a reply that is not even tried as one message: rendering all of a long reply for each of
/// its messages would take long.
const SOURCE_BYTES_MAX: usize = 16 * UNITS_MAX;
/// Characters a cut goes back to keep a joined emoji whole.
const CLUSTER_MAX: usize = 32;

/// The messages of a reply, in order.
pub(in crate::channel) fn split(reply: &Reply, link_hosts: &[String]) -> Vec<Reply> {
    pages(reply, link_hosts, usize::MAX)
}

/// Whether a reply takes at most so many messages. Looks no further than that.
pub(in crate::channel) fn fits(reply: &Reply, link_hosts: &[String], messages_max: usize) -> bool {
    pages(reply, link_hosts, messages_max).len() <= messages_max
}

/// The messages of a reply, in order; of one with more than `pages_max` the first ones, which are more than that.
fn pages(reply: &Reply, link_hosts: &[String], pages_max: usize) -> Vec<Reply> {
    let setting = Setting {
        link_hosts,
        chat: None,
    };
    let fits = |reply: &Reply| source_bytes(reply) <= SOURCE_BYTES_MAX && render(reply, setting).fits();
    if fits(reply) {
        return vec![reply.clone()];
    }
    let mut waiting: VecDeque<Part> = reply.parts.iter().flat_map(sectioned).collect();
    let mut pages = Vec::new();
    let mut page = Reply::default();
    while let Some(part) = waiting.pop_front() {
        if pages.len() > pages_max {
            return pages;
        }
        let with = |part: &Part| page.clone().with(part.clone());
        if matches!(part, Part::Buttons { .. }) || fits(&with(&part)) {
            page.parts.push(part);
            continue;
        }
        let alone = Reply {
            parts: vec![part.clone()],
        };
        let cut = if fits(&alone) {
            None
        } else {
            cut(&part, &|part| fits(&with(part)))
        };
        match cut {
            Some((head, tail)) => {
                page.parts.push(head);
                pages.push(std::mem::take(&mut page));
                waiting.push_front(tail);
            }
            None if page.parts.is_empty() => page.parts.push(part),
            None => {
                pages.push(std::mem::take(&mut page));
                waiting.push_front(part);
            }
        }
    }
    if is_buttons(&page)
        && let Some(last) = pages.last_mut()
    {
        last.parts.append(&mut page.parts);
    }
    if !page.parts.is_empty() {
        pages.push(page);
    }
    if !pages.iter().all(is_blank) {
        pages.retain(|page| !is_blank(page));
    }
    pages
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Heading { text }
        | Part::Text { text }
        | Part::Markdown { text }
        | Part::Footer { text }
        | Part::Code { text, .. } => Some(text),
        Part::Facts { .. } | Part::Mention { .. } | Part::Buttons { .. } => None,
    }
}

fn source_bytes(reply: &Reply) -> usize {
    reply.parts.iter().filter_map(text_of).map(str::len).sum()
}

/// True for what is left of a long stretch of blank lines.
fn is_blank(page: &Reply) -> bool {
    page.parts
        .iter()
        .all(|part| text_of(part).is_some_and(|text| text.trim().is_empty()))
}

fn is_buttons(page: &Reply) -> bool {
    page.parts.iter().all(|part| matches!(part, Part::Buttons { .. }))
}

/// The parts of a part that may stand in different messages: the code blocks of Markdown are taken
/// out of it, so that they are continued as code.
fn sectioned(part: &Part) -> Vec<Part> {
    let Part::Markdown { text } = part else {
        return vec![part.clone()];
    };
    sections(text)
        .into_iter()
        .map(|section| match section {
            Section::Prose(source) => Part::Markdown {
                text: source.to_owned(),
            },
            Section::Code { language, text } => Part::Code { language, text },
        })
        .collect()
}

/// The most of a part that fits, and the rest. `None` if nothing of it does.
fn cut(part: &Part, fits: &dyn Fn(&Part) -> bool) -> Option<(Part, Part)> {
    let build: &dyn Fn(String) -> Part = match part {
        Part::Heading { .. } => &|text| Part::Heading { text },
        Part::Text { .. } => &|text| Part::Text { text },
        Part::Markdown { .. } => &|text| Part::Markdown { text },
        Part::Footer { .. } => &|text| Part::Footer { text },
        Part::Code { language, .. } => &|text| Part::Code {
            language: language.clone(),
            text,
        },
        Part::Facts { rows } => return cut_rows(rows, fits),
        Part::Mention { .. } | Part::Buttons { .. } => return None,
    };
    let text = text_of(part)?;
    let at = cut_at(text, &|head| fits(&build(head.to_owned())))?;
    let (head, tail) = text.split_at_checked(at)?;
    Some((build(head.to_owned()), build(tail.to_owned())))
}

fn cut_rows(rows: &[(String, String)], fits: &dyn Fn(&Part) -> bool) -> Option<(Part, Part)> {
    let facts = |rows: &[(String, String)]| Part::Facts { rows: rows.to_vec() };
    let count = (1..rows.len())
        .rev()
        .find(|count| rows.get(..*count).is_some_and(|head| fits(&facts(head))));
    if let Some((head, tail)) = count.and_then(|count| rows.split_at_checked(count)) {
        return Some((facts(head), facts(tail)));
    }
    // Not even one row fits: it goes on as plain sentences, which can be cut anywhere.
    let lines: Vec<String> = rows
        .iter()
        .map(|(label, value)| visible_line(&format!("{label}: {value}")))
        .collect();
    cut(
        &Part::Text {
            text: lines.join("\n"),
        },
        fits,
    )
}

/// Where to cut: after the last line end that fits, else after the last blank, else between characters.
fn cut_at(text: &str, fits: &dyn Fn(&str) -> bool) -> Option<usize> {
    let ends: Vec<usize> = text
        .char_indices()
        .map(|(byte, character)| byte + character.len_utf8())
        .take(CHARACTERS_MAX)
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

/// The last place at or before `end` where no emoji or accented letter is torn apart; `end` itself if
/// there is none nearby, since a cut has to be somewhere.
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

/// Belongs to the character before it: joiners, accents, variation, skin tone and tag marks.
fn is_attached(character: char) -> bool {
    matches!(character,
        '\u{200d}'
        | '\u{300}'..='\u{36f}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{1f3fb}'..='\u{1f3ff}'
        | '\u{e0020}'..='\u{e007f}')
}
