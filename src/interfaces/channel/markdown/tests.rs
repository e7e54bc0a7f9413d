//! Tests of the neutral tree: the parts of a model's Markdown that it keeps, and the parts that it must not keep.
#![allow(clippy::unwrap_used)]

use super::{Inline, MarkdownBlock, Section, SpanStyle, backticks, parse, sections};
use proptest::prelude::{ProptestConfig, proptest};

fn hosts() -> Vec<String> {
    vec!["github.com".to_owned()]
}

fn text(text: &str) -> Inline {
    Inline::Text {
        text: text.to_owned(),
        style: SpanStyle::default(),
    }
}

fn code(text: &str) -> Inline {
    Inline::Code {
        text: text.to_owned(),
        style: SpanStyle::default(),
    }
}

fn link(label: &str, url: &str) -> Inline {
    Inline::Link {
        label: label.to_owned(),
        url: url.to_owned(),
        style: SpanStyle::default(),
    }
}

fn paragraph(source: &str) -> Vec<Inline> {
    match parse(source, &hosts()).as_slice() {
        [MarkdownBlock::Paragraph(inlines)] => inlines.clone(),
        blocks => panic!("{source:?} became {blocks:?}"),
    }
}

fn all_inlines(blocks: &[MarkdownBlock]) -> Vec<Inline> {
    blocks
        .iter()
        .flat_map(|block| match block {
            MarkdownBlock::Paragraph(inlines) | MarkdownBlock::Heading { inlines, .. } => inlines.clone(),
            MarkdownBlock::Code { text, .. } => vec![code(text)],
            MarkdownBlock::List { items, .. } => items.iter().flat_map(|item| all_inlines(item)).collect(),
            MarkdownBlock::Quote(blocks) => all_inlines(blocks),
            MarkdownBlock::Rule => Vec::new(),
        })
        .collect()
}

#[test]
fn what_models_write_becomes_a_tree() {
    let source = "# Done\nI **changed** _two_ ~~three~~ `files`:\n\n1. one\n2. two\n   - deep\n\n> quoted\n\n```yaml\na: 1\n```\n---\n";
    let styled = |words: &str, style: SpanStyle| Inline::Text {
        text: words.to_owned(),
        style,
    };
    let plain = SpanStyle::default();
    assert_eq!(
        parse(source, &[]),
        vec![
            MarkdownBlock::Heading {
                level: 1,
                inlines: vec![text("Done")]
            },
            MarkdownBlock::Paragraph(vec![
                text("I "),
                styled("changed", SpanStyle { bold: true, ..plain }),
                text(" "),
                styled(
                    "two",
                    SpanStyle {
                        italic: true,
                        ..plain
                    }
                ),
                text(" "),
                styled(
                    "three",
                    SpanStyle {
                        strike: true,
                        ..plain
                    }
                ),
                text(" "),
                code("files"),
                text(":"),
            ]),
            MarkdownBlock::List {
                start: Some(1),
                items: vec![
                    vec![MarkdownBlock::Paragraph(vec![text("one")])],
                    vec![
                        MarkdownBlock::Paragraph(vec![text("two")]),
                        MarkdownBlock::List {
                            start: None,
                            items: vec![vec![MarkdownBlock::Paragraph(vec![text("deep")])]],
                        },
                    ],
                ],
            },
            MarkdownBlock::Quote(vec![MarkdownBlock::Paragraph(vec![text("quoted")])]),
            MarkdownBlock::Code {
                language: "yaml".to_owned(),
                text: "a: 1".to_owned()
            },
            MarkdownBlock::Rule,
        ]
    );
}

#[test]
fn lines_of_a_paragraph_stay_lines() {
    assert_eq!(paragraph("one\ntwo  \nthree"), vec![text("one\ntwo\nthree")]);
}

#[test]
fn a_table_is_shown_as_it_was_written() {
    let table = "| a | b |\n|---|---|\n| <!channel> | `x` |";
    assert_eq!(
        parse(&format!("{table}\n\nafter"), &[]),
        vec![
            MarkdownBlock::Code {
                language: String::new(),
                text: table.to_owned()
            },
            MarkdownBlock::Paragraph(vec![text("after")]),
        ]
    );
}

/// T61
#[test]
fn only_listed_hosts_stay_clickable() {
    assert_eq!(
        paragraph("see [the release](https://github.com/acme/web) now"),
        vec![
            text("see "),
            link("the release", "https://github.com/acme/web"),
            text(" now")
        ]
    );
    assert_eq!(
        paragraph("see [this](https://evil.example/?k=CANARY)"),
        vec![
            text("see "),
            text("this"),
            text(" ("),
            code("hxxps://evil.example/?k=CANARY"),
            text(")")
        ]
    );
    assert_eq!(
        paragraph("at https://github.com/acme. And HTTPS://evil.example/x_y, ok"),
        vec![
            text("at "),
            link("https://github.com/acme", "https://github.com/acme"),
            text(". And "),
            code("hxxpS://evil.example/x_y"),
            text(", ok")
        ]
    );
}

/// T63, T72
#[test]
fn no_other_form_becomes_a_link() {
    for source in [
        "![x](https://github.com/x.png)",
        "![x](https://evil.example/x.png)",
        "[![x](https://evil.example/x.png)](https://github.com/a)",
        "<img src=\"https://evil.example/x\">",
        "<a href=\"https://evil.example\">x</a>",
        "<https://evil.example>",
        "[x](http://github.com/a)",
        "[x](tg://user?id=1)",
        "[x](slack://channel?id=C1)",
        "[x](data:text/html,<script>)",
        "[x](javascript:alert(1))",
        "[x](//github.com/a)",
        "[x](https://github.com@evil.example/a)",
        "[x](https://user@github.com/a)",
        "[x](https://github.com:444/a)",
        "[x](https://github.com.evil.example/a)",
        "[x](https://evilgithub.com/a)",
        "[x](https:\\\\github.com\\a)",
        "[x](mailto:a@github.com)",
        "[x][1]\n\n[1]: https://evil.example",
        "https://**evil**.example",
        "[https://github.com/a](https://github.com/b)",
        "[github.com/a](https://github.com/b)",
        "[evil.example](https://github.com/b)",
    ] {
        let inlines = all_inlines(&parse(source, &hosts()));
        let is_link = |inline: &Inline| matches!(inline, Inline::Link { .. });
        assert!(!inlines.iter().any(is_link), "{source} became {inlines:?}");
        let bare = |inline: &Inline| matches!(inline, Inline::Text { text, .. } if text.contains("://"));
        assert!(!inlines.iter().any(bare), "{source} became {inlines:?}");
    }
}

#[test]
fn a_label_that_is_its_address_is_fine() {
    assert_eq!(
        paragraph("[github.com/acme](https://github.com/acme/)"),
        vec![link("github.com/acme", "https://github.com/acme/")]
    );
}

#[test]
fn deep_nesting_is_shown_as_it_was_written() {
    for source in [
        format!("{}x", "> ".repeat(20)),
        format!("{}x", "- ".repeat(20)),
        format!("{}x", ">".repeat(100_000)),
        format!("{}x{}", "**a ".repeat(40), " b**".repeat(40)),
    ] {
        let blocks = parse(&source, &[]);
        assert_eq!(blocks, vec![MarkdownBlock::Paragraph(vec![text(&source)])]);
    }
}

#[test]
fn backticks_pair_up_or_stay() {
    assert_eq!(backticks("`a` b `c"), vec![code("a"), text(" b `c")]);
    assert_eq!(
        backticks("*x* `y_z`."),
        vec![text("*x* "), code("y_z"), text(".")]
    );
    assert_eq!(backticks(""), vec![]);
}

#[test]
fn a_text_is_cut_between_its_blocks() {
    let source = "one\ntwo\n\n- a\n- b\n\n```diff\n-x\n+y\n```\nlast\n";
    assert_eq!(
        sections(source),
        vec![
            Section::Prose("one\ntwo\n\n"),
            Section::Prose("- a\n- b\n\n"),
            Section::Code {
                language: "diff".to_owned(),
                text: "-x\n+y".to_owned()
            },
            Section::Prose("last\n"),
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_a_link_to_an_unlisted_host(source in "[\\[\\]()<>!*_`~# \n>a-c:/.|\\-]{0,60}(https://e\\.xy)?[\\[\\]()<>!*_`a-c]{0,20}") {
        for inline in all_inlines(&parse(&source, &hosts())) {
            assert!(!matches!(inline, Inline::Link { .. }), "{source:?}");
        }
    }
}
