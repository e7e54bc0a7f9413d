//! Tests of replies in Block Kit: their form, and the splitting of long ones.
#![allow(clippy::unwrap_used)]

use super::render::{FALLBACK_CHARS_MAX, render};
use super::split::messages;
use crate::base::model::{Button, ButtonStyle, Platform, Reply, ReplyPart, Sender};
use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};
use serde_json::{Value, json};

fn alice() -> Sender {
    Sender {
        platform: Platform::Slack,
        account: "T0ACME".to_owned(),
        id: "U0ALICE".to_owned(),
    }
}

fn split(reply: &Reply, link_hosts: &[String]) -> Vec<Reply> {
    messages(reply, link_hosts, usize::MAX)
}

fn blocks_of(parts: Vec<ReplyPart>) -> Vec<Value> {
    render(&Reply { parts }, &["github.com".to_owned()]).blocks
}

fn markdown(text: &str) -> ReplyPart {
    ReplyPart::Markdown {
        text: text.to_owned(),
    }
}

fn text(text: impl Into<String>) -> ReplyPart {
    ReplyPart::Text { text: text.into() }
}

fn code(text: impl Into<String>) -> ReplyPart {
    ReplyPart::Code {
        language: "diff".to_owned(),
        text: text.into(),
    }
}

#[test]
fn a_result_is_one_message_in_our_order() {
    let rendered = render(
        &Reply {
            parts: vec![
                ReplyPart::Mention { to: alice() },
                ReplyPart::Heading {
                    text: "CHG-42 is ready for `dev` & more".to_owned(),
                },
                text("Nothing was applied or committed."),
                ReplyPart::Facts {
                    rows: vec![
                        ("Files".to_owned(), "1, +2 −2".to_owned()),
                        ("Base".to_owned(), "`a1b2c3d`".to_owned()),
                    ],
                },
                code("-a\n+b\n"),
                ReplyPart::Buttons {
                    buttons: vec![
                        Button::new("Get patch", "t1", ButtonStyle::Primary),
                        Button::new("Full diff", "t2", ButtonStyle::Plain),
                    ],
                },
                ReplyPart::Footer {
                    text: "base `a1b2c3d` · 41 s".to_owned(),
                },
            ],
        },
        &[],
    );
    let bold = json!({"bold": true});
    assert_eq!(
        Value::Array(rendered.blocks),
        json!([
            {"type": "section", "text": {"type": "mrkdwn", "verbatim": true,
                "text": "<@U0ALICE> *CHG-42 is ready for* `dev` *&amp; more*"}},
            {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [
                {"type": "text", "text": "Nothing was applied or committed."}]}]},
            {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [
                {"type": "text", "text": "Files", "style": bold}, {"type": "text", "text": "  "},
                {"type": "text", "text": "1, +2 −2"},
                {"type": "text", "text": "\n"}, {"type": "text", "text": "Base", "style": bold}, {"type": "text", "text": "  "},
                {"type": "text", "text": "a1b2c3d", "style": {"code": true}}]}]},
            {"type": "rich_text", "elements": [{"type": "rich_text_preformatted", "elements": [
                {"type": "text", "text": "-a\n+b\n"}]}]},
            {"type": "actions", "elements": [
                {"type": "button", "action_id": "dd.1", "value": "t1", "style": "primary",
                    "text": {"type": "plain_text", "text": "Get patch", "emoji": false}},
                {"type": "button", "action_id": "dd.2", "value": "t2",
                    "text": {"type": "plain_text", "text": "Full diff", "emoji": false}}]},
            {"type": "context", "elements": [{"type": "mrkdwn", "text": "base `a1b2c3d` · 41 s",
                "verbatim": true}]},
        ])
    );
    assert_eq!(
        rendered.text,
        "CHG-42 is ready for `dev` &amp; more\nNothing was applied or committed.\nFiles: 1, +2 −2\nBase: `a1b2c3d`\n-a\n+b\n\nbase `a1b2c3d` · 41 s"
    );
}

#[test]
fn markdown_becomes_rich_text() {
    let source = "# Plan\nDo **it**.\n\n1. one\n   - deep\n2. two\n\n> said\n\n[docs](https://github.com/a)";
    let plain = |text: &str| json!({"type": "text", "text": text});
    let section = |spans: Value| json!({"type": "rich_text_section", "elements": spans});
    assert_eq!(
        blocks_of(vec![markdown(source)]),
        vec![json!({"type": "rich_text", "elements": [
            section(json!([{"type": "text", "text": "Plan", "style": {"bold": true}}, plain("\n\n")])),
            section(json!([plain("Do "), {"type": "text", "text": "it", "style": {"bold": true}}, plain(".")])),
            {"type": "rich_text_list", "style": "ordered", "indent": 0,
                "elements": [section(json!([plain("one")]))]},
            {"type": "rich_text_list", "style": "bullet", "indent": 1,
                "elements": [section(json!([plain("deep")]))]},
            {"type": "rich_text_list", "style": "ordered", "indent": 0, "offset": 1,
                "elements": [section(json!([plain("two")]))]},
            {"type": "rich_text_quote", "elements": [plain("said")]},
            section(json!([{"type": "link", "url": "https://github.com/a", "text": "docs"}])),
        ]})]
    );
}

/// T75
#[test]
fn control_characters_are_written_out_everywhere() {
    let words = "x\u{202e}\u{1b}y";
    let parts = vec![
        text(words),
        markdown(words),
        code(words),
        ReplyPart::Heading {
            text: words.to_owned(),
        },
        ReplyPart::Footer {
            text: words.to_owned(),
        },
    ];
    let rendered = render(&Reply { parts }, &[]);
    let shown = Value::Array(rendered.blocks).to_string();
    assert_eq!(shown.matches("x<U+202E>␛y").count(), 3, "{shown}");
    assert_eq!(shown.matches("x&lt;U+202E&gt;␛y").count(), 2, "{shown}");
    assert_eq!(rendered.text.matches("x&lt;U+202E&gt;␛y").count(), 5);
}

#[test]
fn a_notification_is_short_and_cut_between_escapes() {
    let rendered = render(&Reply::text("<&".repeat(5_000)), &[]);
    assert!(rendered.text.chars().count() <= FALLBACK_CHARS_MAX);
    let whole = rendered.text.strip_suffix('…').unwrap();
    assert_eq!(whole.replace("&lt;", "").replace("&amp;", ""), "");
    assert_eq!(render(&Reply::default(), &[]).text, "…");
}

#[test]
fn a_reply_that_fits_stays_as_it_is() {
    let reply = Reply::text("hello").with(code("x")).with(text("bye"));
    assert_eq!(split(&reply, &[]), vec![reply]);
}

#[test]
fn a_code_block_is_cut_only_when_it_is_too_long_alone() {
    let short = "x\n".repeat(1_000);
    let reply = Reply::default()
        .with(code(short.clone()))
        .with(code(short.clone()))
        .with(code(short.clone()))
        .with(code(short.clone()))
        .with(code(short.clone()));
    let replies = split(&reply, &[]);
    assert!(replies.len() > 1);
    let parts: Vec<ReplyPart> = replies.into_iter().flat_map(|reply| reply.parts).collect();
    assert_eq!(parts, vec![code(short); 5]);

    let long: String = (0..5_000).map(|line| format!("+line {line}\n")).collect();
    let parts = split(&Reply::default().with(code(long.clone())), &[])
        .into_iter()
        .flat_map(|reply| reply.parts);
    let pieces: Vec<String> = parts
        .map(|part| match part {
            ReplyPart::Code { language, text } if language == "diff" => text,
            part => format!("unexpected {part:?}"),
        })
        .collect();
    assert_eq!(pieces.concat(), long);
    assert!(pieces.iter().all(|piece| piece.ends_with('\n')));
}

#[test]
fn the_mention_comes_first_and_the_buttons_last() {
    let buttons = ReplyPart::Buttons {
        buttons: vec![Button::new("Stop", "t", ButtonStyle::Danger)],
    };
    let footer = ReplyPart::Footer {
        text: "41 s".to_owned(),
    };
    let mention = ReplyPart::Mention { to: alice() };
    let reply = Reply::default()
        .with(buttons.clone())
        .with(footer.clone())
        .with(text("word ".repeat(8_000)))
        .with(mention.clone());
    let replies = split(&reply, &[]);
    assert!(replies.len() > 2);
    assert_eq!(
        replies.first().and_then(|reply| reply.parts.first()),
        Some(&mention)
    );
    let last = &replies.last().unwrap().parts;
    assert_eq!(
        last.iter().rev().take(2).collect::<Vec<_>>(),
        vec![&footer, &buttons]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// T43, T58: facts have as many lines as there are rows, for any names of files, checks and environments.
    #[test]
    fn no_name_makes_a_line_of_its_own(rows in proptest::collection::vec((".*", ".*|a\nb|`.*"), 1..8)) {
        let parts = vec![ReplyPart::Facts { rows: rows.clone() }];
        let rendered = render(&Reply { parts: parts.clone() }, &[]);
        let words: String = rendered.blocks[0]["elements"][0]["elements"]
            .as_array()
            .unwrap()
            .iter()
            .map(|span| span["text"].as_str().unwrap())
            .collect();
        prop_assert_eq!(words.split('\n').count(), rows.len());
        prop_assert_eq!(rendered.text.split('\n').count(), rows.len());
        let lines: usize = split(&Reply { parts }, &[])
            .iter()
            .flat_map(|message| &message.parts)
            .map(|part| match part {
                ReplyPart::Facts { rows } => rows.len(),
                _ => 1,
            })
            .sum();
        prop_assert_eq!(lines, rows.len());
    }
}

/// T75
#[test]
fn a_caption_has_no_link() {
    for (caption, shown) in [
        (
            "`https://evil.example/x`: 1 object.",
            "`https:\u{2060}//evil.\u{2060}example/x`: 1 object.",
        ),
        (
            "www.evil.example a@b.c",
            "www.\u{2060}evil.\u{2060}example a@\u{2060}b.\u{2060}c",
        ),
        (
            "CHG-1: 1 file, +1 −1, base `abc1234`",
            "CHG-1: 1 file, +1 −1, base `abc1234`",
        ),
        ("a\nb", "a␊b"),
    ] {
        assert_eq!(super::upload::unlinked(caption), shown);
    }
}
