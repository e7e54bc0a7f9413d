//! Tests of splitting: the messages of a reply in Telegram, their limits and order, and that no text is lost.

use super::{is_one_message, messages, page_size};
use crate::base::model::{Reply, ReplyPart};
use crate::interfaces::channel::split::{pages, source_bytes, text_of};
use crate::interfaces::channel::telegram::render::UNITS_MAX;
use std::cell::Cell;

/// Splits a reply with a simple rule for its size. Returns the number of messages, and the number of parts and bytes
/// that were examined.
fn work(reply: &Reply) -> (usize, usize) {
    let looked_at = Cell::new(0);
    let fits = |tried: &Reply| {
        let bytes = source_bytes(tried);
        looked_at.set(looked_at.get() + tried.parts.len() + bytes.min(UNITS_MAX));
        bytes + 2 * tried.parts.len() <= UNITS_MAX
    };
    let pages = pages(reply, &page_size(&fits), usize::MAX);
    (pages.len(), looked_at.get())
}

fn paragraphs(count: usize) -> Reply {
    Reply::default().with(ReplyPart::Markdown {
        text: "a\n\n".repeat(count),
    })
}

fn facts(count: usize) -> Reply {
    let row = |number: usize| (format!("{number:06}"), "1".to_owned());
    Reply::default().with(ReplyPart::Facts {
        rows: (0..count).map(row).collect(),
    })
}

fn texts(count: usize) -> Reply {
    Reply {
        parts: vec![ReplyPart::Text { text: "a".to_owned() }; count],
    }
}

fn one_text(count: usize) -> Reply {
    Reply::default().with(ReplyPart::Text {
        text: "a\n\n".repeat(count),
    })
}

/// T77
#[test]
fn the_work_of_a_split_grows_as_the_reply_does() {
    for reply in [paragraphs, facts, texts, one_text] {
        let ((few, short), (many, long)) = (work(&reply(20_000)), work(&reply(200_000)));
        assert!(many > few && long < 11 * short, "{few} {short} {many} {long}");
        assert!(long < 200_000 * 100, "{long}");
    }
}

/// T77
#[test]
fn nothing_of_many_short_paragraphs_is_lost() {
    let pages = messages(&paragraphs(3_000), &[], usize::MAX);
    assert!(pages.iter().all(|page| is_one_message(page, &[])));
    let letters = |page: &Reply| page.parts.len();
    assert_eq!(pages.iter().map(letters).sum::<usize>(), 3_000);
    // All messages but the last are full: an entry takes its letter and two line ends.
    let full = pages.len() - 1;
    assert!(
        pages[..full]
            .iter()
            .all(|page| letters(page) == UNITS_MAX.div_ceil(3))
    );
}

#[test]
fn a_row_that_is_longer_than_a_message_goes_on_as_text_and_the_others_stay_rows() {
    let row = |label: &str, value: String| (label.to_owned(), value);
    let rows = vec![
        row("one", "1".to_owned()),
        row("two", "word ".repeat(2_000)),
        row("three", "3".to_owned()),
    ];
    let reply = Reply::default().with(ReplyPart::Facts { rows: rows.clone() });
    let pages = messages(&reply, &[], usize::MAX);
    let parts: Vec<ReplyPart> = pages.into_iter().flat_map(|page| page.parts).collect();
    assert_eq!(
        parts.first(),
        Some(&ReplyPart::Facts {
            rows: rows[..1].to_vec()
        })
    );
    assert_eq!(
        parts.last(),
        Some(&ReplyPart::Facts {
            rows: rows[2..].to_vec()
        })
    );
    let texts = parts.iter().filter_map(text_of).collect::<String>();
    assert_eq!(texts, format!("two: {}", "word ".repeat(2_000)));
}
