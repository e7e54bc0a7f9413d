//! Tests of untrusted text in replies: it breaks no message, creates no links and notifies no user.

use super::*;
use crate::base::model::{FoldState, ReplyPart};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Generates random mixtures of texts that often break bots.
fn nasty() -> impl Strategy<Value = String> {
    let bit = prop_oneof![
        4 => any::<char>().prop_map(String::from),
        4 => "[ -~]{1,12}",
        6 => prop::sample::select(vec![
            "@alice", "/stop@other_bot", "https://evil.com/?k=1", "tg://user?id=1", "a@b.co", "README.md",
            "10.0.0.1", "#tag", "$USD", "[x](https://evil.com)", "![i](https://evil.com/i.png)", "<b>", "</pre>",
            "&lt;", "**", "_", "~~", "`", "```", "```diff\n", "\n", "\n\n", "> ", "- ", "1. ", "# ", "\\", "@**bob**",
            "👨‍👩‍👧‍👦", "🇩🇪", "e\u{301}", "\u{202e}", "\u{1b}]8;;http://evil\u{7}", "\u{200b}", "\u{feff}", "\0", "\r",
            "[ok](https://docs.example.com/a)", "| a | b |\n|--|--|\n| 1 | @x |\n", "javascript:alert(1)", "---\n",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(bit, 0..40).prop_map(|bits| bits.concat())
}

fn runner(cases: u32) -> TestRunner {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    TestRunner::new_with_rng(
        Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        },
        rng,
    )
}

fn parts(text: &str) -> Reply {
    let source = text;
    let text = || text.to_owned();
    let fold = |state| ReplyPart::Fold {
        title: text(),
        state,
        parts: vec![
            ReplyPart::Facts {
                rows: vec![(text(), text())],
            },
            ReplyPart::Markdown {
                text: format!("{source}\n\n> {source}\n\n- {source}\n\n```\n{source}\n```"),
            },
            ReplyPart::Text { text: text() },
            ReplyPart::Code {
                language: "diff".to_owned(),
                text: text(),
            },
        ],
    };
    Reply::default()
        .with(ReplyPart::Heading { text: text() })
        .with(ReplyPart::Markdown { text: text() })
        .with(ReplyPart::Text { text: text() })
        .with(ReplyPart::Code {
            language: text(),
            text: text(),
        })
        .with(ReplyPart::Facts {
            rows: vec![("a".to_owned(), text()), (text(), "b".to_owned())],
        })
        .with(fold(FoldState::Closed))
        .with(fold(FoldState::Open))
        .with(ReplyPart::Footer { text: text() })
}

/// Delivers every message of every reply, and expects no problem.
fn all_are_accepted(cases: u32, strategy: impl Strategy<Value = Reply>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let setups = [(); 2].map(|()| runtime.block_on(Setup::new()));
    // The other server gets rich messages.
    setups[0].telegram.forget_rich_messages();
    let check = |reply: Reply| {
        for (setup, page) in setups
            .iter()
            .flat_map(|setup| split(&reply).into_iter().map(move |page| (setup, page)))
        {
            let posted = runtime.block_on(setup.post(&page));
            prop_assert!(
                posted.is_ok(),
                "{posted:?} {page:?} {:?}",
                setup.telegram.problems()
            );
            prop_assert_eq!(setup.telegram.problems(), Vec::<String>::new());
        }
        Ok(())
    };
    runner(cases).run(&strategy, check).unwrap();
}

/// T61, T63, T73, T74
#[test]
fn no_text_is_refused_and_none_makes_a_link() {
    all_are_accepted(1000, nasty().prop_map(|text| parts(&text)));
}

/// T77
#[test]
fn long_text_of_any_kind_fits_its_messages() {
    let long = prop::collection::vec(nasty(), 20..60).prop_map(|bits| bits.concat());
    all_are_accepted(20, long.prop_map(|text| parts(&text)));
}

fn source(reply: &Reply) -> String {
    let texts = reply.parts.iter().map(|part| match part {
        ReplyPart::Text { text } | ReplyPart::Code { text, .. } | ReplyPart::Markdown { text } => {
            text.as_str()
        }
        other => panic!("{other:?}"),
    });
    texts.collect()
}

/// T77
#[test]
fn messages_joined_again_are_the_reply() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let setup = runtime.block_on(Setup::new());
    let emoji = "👨‍👩‍👧‍👦🇩🇪e\u{301}👍🏽";
    for text in [
        emoji.repeat(900),
        "x".repeat(20_000),
        "a line of words `code` and more\n".repeat(700),
        "`c` ".repeat(1500),
        "https://a.b/@c ".repeat(900),
    ] {
        for part in [
            ReplyPart::Text { text: text.clone() },
            ReplyPart::Code {
                language: "yaml".to_owned(),
                text: text.clone(),
            },
        ] {
            let pages = split(&Reply { parts: vec![part] });
            assert!(pages.len() > 1);
            assert_eq!(pages.iter().map(source).collect::<String>(), text);
            for page in &pages {
                let text = source(page);
                let torn =
                    text.starts_with(['\u{200d}', '\u{301}', '\u{1f3fd}']) || text.ends_with('\u{200d}');
                assert!(!torn, "{text}");
                runtime.block_on(setup.post(page)).unwrap();
            }
        }
    }
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}

#[test]
fn a_code_block_moves_whole_or_goes_on_as_code() {
    let block = "+ line of a diff\n".repeat(150);
    let markdown = format!("{}\n\n```diff\n{block}```\n\nThe end.", "Words. ".repeat(300));
    let pages = split(&Reply::default().with(ReplyPart::Markdown { text: markdown }));
    let kinds: Vec<Vec<&str>> = pages
        .iter()
        .map(|page| {
            let kind = |part: &ReplyPart| match part {
                ReplyPart::Markdown { .. } => "prose",
                ReplyPart::Code { language, .. } if language == "diff" => "diff",
                other => panic!("{other:?}"),
            };
            page.parts.iter().map(kind).collect()
        })
        .collect();
    assert_eq!(kinds, [vec!["prose"], vec!["diff", "prose"]]);
    let long = Reply::default().with(ReplyPart::Code {
        language: "diff".to_owned(),
        text: block.repeat(3),
    });
    let pages = split(&long);
    assert_eq!(pages.iter().map(source).collect::<String>(), block.repeat(3));
    assert!(pages.iter().all(|page| source(page).ends_with('\n')));
}

#[tokio::test]
async fn invisible_text_is_never_refused_as_empty() {
    let setup = Setup::new().await;
    for text in ["", " \n", "\u{200b}\u{feff}", "\u{2060}", "\u{3164}"] {
        setup.post(&parts(text)).await.unwrap();
        setup.post(&Reply::text(text)).await.unwrap();
    }
    setup.post(&Reply::default()).await.unwrap();
    let blank = format!("start{}end", "\n".repeat(10_000));
    let pages = split(&Reply::text(blank));
    assert_eq!(pages.len(), 2);
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}

/// T61, T63, T74, T75
#[tokio::test]
async fn a_reply_shows_where_a_link_would_have_led() {
    let setup = Setup::new().await;
    setup.telegram.forget_rich_messages();
    let text = "# Done\n\n**Ask @alice**, see [docs](https://docs.example.com/a) or [this](https://evil.com/?k=1).\n\n\
                - one\n  - `two`\n\n> quoted\n\n```yaml\na: \u{1b}[31m\n```";
    setup
        .post(&Reply::default().with(ReplyPart::Markdown {
            text: text.to_owned(),
        }))
        .await
        .unwrap();
    let posted = setup.telegram.messages(ALICE).remove(0);
    insta::assert_snapshot!(posted.text, @r"
    Done

    Ask @alice, see docs or this (hxxps://evil.com/?k=1).

    • one
      • two

    quoted
    a: ␛[31m
    ");
    let marks: Vec<String> = posted
        .entities
        .iter()
        .map(|entity| format!("{} {} {}", entity["type"], entity["offset"], entity["length"]))
        .collect();
    insta::assert_snapshot!(marks.join("\n"), @r#"
    "bold" 0 4
    "bold" 6 4
    "code" 10 6
    "text_link" 22 4
    "code" 36 21
    "code" 71 3
    "blockquote" 76 6
    "pre" 83 8
    "#);
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}
