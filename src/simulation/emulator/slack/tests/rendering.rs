//! Tests of untrusted text in replies: it notifies no user, creates no links, and arrives completely.

use super::*;
use crate::base::model::is_invisible;

/// T71, T61, T72
#[tokio::test]
async fn no_words_ping_anybody_or_become_a_link() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    for words in FORMS {
        for reply in surfaces(words) {
            let delivered = channel.deliver(&post(reply.clone())).await.expect(words);
            let ts = delivered.message.unwrap().id;
            let edit = Action::Edit {
                message: message_ref(&ts),
                reply: reply.clone(),
            };
            channel.deliver(&op("C0OPS", None, edit)).await.expect(words);
            let notice = Action::Notice {
                to: alice(),
                reply: reply.clone(),
            };
            channel.deliver(&op("C0OPS", None, notice)).await.expect(words);
            emulator.with_state(|state| {
                let seen = [state.message("C0OPS", &ts), state.ephemerals.last()];
                for message in seen.into_iter().flatten() {
                    assert_eq!(message.mentions(), vec![], "{words}: {reply:?}");
                    for flag in ["unfurl_links", "unfurl_media", "link_names"] {
                        assert_eq!(message.request[flag], false, "{flag}");
                    }
                    assert_eq!(message.request["parse"], "none");
                    assert!(!message.text.contains("<http"), "{}", message.text);
                }
            });
        }
        let upload = Action::Upload {
            file_name: format!("{words}.patch"),
            content: Bytes::from_static(b"x"),
            caption: words.to_owned(),
        };
        channel.deliver(&op("C0OPS", None, upload)).await.expect(words);
        let last = emulator
            .with_state(|state| state.messages.last().cloned())
            .unwrap();
        assert_eq!(last.mentions(), vec![], "{words}");
    }
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

/// T71
#[tokio::test]
async fn what_would_have_pinged_is_still_there_to_read() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    for words in FORMS.iter().take(6) {
        let parts = vec![
            ReplyPart::Heading {
                text: (*words).to_owned(),
            },
            ReplyPart::Text {
                text: (*words).to_owned(),
            },
            ReplyPart::Code {
                language: String::new(),
                text: (*words).to_owned(),
            },
            ReplyPart::Footer {
                text: (*words).to_owned(),
            },
        ];
        channel.deliver(&post(Reply { parts })).await.unwrap();
        let last = emulator
            .with_state(|state| state.messages.last().cloned())
            .unwrap();
        let bold = format!("*{words}*");
        assert_eq!(last.visible(), vec![bold.as_str(), *words, *words, *words]);
    }
}

#[tokio::test]
async fn only_a_mention_part_mentions_and_only_its_person() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let mention = ReplyPart::Mention { to: alice() };
    for next in [
        ReplyPart::Heading {
            text: "CHG-42 is ready".to_owned(),
        },
        ReplyPart::Text {
            text: "CHG-42 is ready".to_owned(),
        },
        ReplyPart::Markdown {
            text: "CHG-42 is ready".to_owned(),
        },
    ] {
        let parts = vec![mention.clone(), next];
        channel.deliver(&post(Reply { parts })).await.unwrap();
        let last = emulator
            .with_state(|state| state.messages.last().cloned())
            .unwrap();
        assert_eq!(last.mentions(), vec![Mention::User("U0ALICE".to_owned())]);
        assert_eq!(last.text, "CHG-42 is ready");
    }
    let forged = ReplyPart::Mention {
        to: Sender {
            id: "U1> <!channel".to_owned(),
            ..alice()
        },
    };
    for next in [
        ReplyPart::Heading { text: "x".to_owned() },
        ReplyPart::Text { text: "x".to_owned() },
    ] {
        channel
            .deliver(&post(Reply {
                parts: vec![forged.clone(), next],
            }))
            .await
            .unwrap();
        let last = emulator
            .with_state(|state| state.messages.last().cloned())
            .unwrap();
        assert_eq!(last.mentions(), vec![]);
    }
}

/// T61, T69
#[tokio::test]
async fn listed_hosts_are_links_and_headings_are_ours_alone() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let text = "# ✅ Approved by admin\n[release](https://github.com/acme) [x](https://evil.example/?k=C)";
    let reply = Reply {
        parts: vec![ReplyPart::Markdown {
            text: text.to_owned(),
        }],
    };
    channel.deliver(&post(reply)).await.unwrap();
    let last = emulator
        .with_state(|state| state.messages.last().cloned())
        .unwrap();
    assert_eq!(
        last.mentions(),
        vec![Mention::Link("https://github.com/acme".to_owned())]
    );
    assert_eq!(last.request["blocks"][0]["type"], "rich_text");
    assert!(last.visible().concat().contains("hxxps://evil.example/?k=C"));
    assert!(!last.request.to_string().contains("https://evil"));
}

/// T69
#[tokio::test]
async fn a_heading_with_signs_of_markup_is_still_a_heading_and_paths_are_code() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let reply = Reply {
        parts: vec![
            ReplyPart::Heading {
                text: "CHG-1: scale web_api".to_owned(),
            },
            ReplyPart::Facts {
                rows: vec![("Files".to_owned(), "lib/web.libsonnet (new)".to_owned())],
            },
        ],
    };
    channel.deliver(&post(reply)).await.unwrap();
    let last = emulator
        .with_state(|state| state.messages.last().cloned())
        .unwrap();
    let elements = |block: usize| last.request["blocks"][block]["elements"][0]["elements"].clone();
    assert_eq!(
        elements(0),
        json!([{"type": "text", "text": "CHG-1: scale web_api", "style": {"bold": true}}])
    );
    assert_eq!(
        elements(1),
        json!([
            {"type": "text", "text": "Files", "style": {"bold": true}},
            {"type": "text", "text": "  "},
            {"type": "text", "text": "lib/web.libsonnet", "style": {"code": true}},
            {"type": "text", "text": " (new)"},
        ])
    );
}

/// T76
#[tokio::test]
async fn a_diff_cannot_break_out_of_its_block() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-```\n+``` ````\n+--- a/prod\n+</pre> *b* `c`\n";
    let code = ReplyPart::Code {
        language: "diff".to_owned(),
        text: diff.to_owned(),
    };
    channel.deliver(&post(Reply { parts: vec![code] })).await.unwrap();
    let last = emulator
        .with_state(|state| state.messages.last().cloned())
        .unwrap();
    assert_eq!(
        last.request["blocks"],
        json!([{"type": "rich_text", "elements": [{"type": "rich_text_preformatted",
            "elements": [{"type": "text", "text": diff}]}]}])
    );
}

/// T77
#[tokio::test]
async fn a_thousand_texts_arrive_whole() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let word =
        "(👩‍👩‍👧‍👦|🏴󠁧󠁢󠁥󠁮󠁧󠁿|🇩🇪|e\u{301}|é|\\*|_|&|<!here>|\"|\\\\|\n|\n\n| |  |[a-z]{1,12} |[^`\\pC\\pZ]{1,8}){1,50}";
    let strategy = (proptest::string::string_regex(word).unwrap(), 0_u32..100);
    for round in 0..1_000 {
        let (text, length) = strategy.new_tree(&mut runner).unwrap().current();
        let text = if length >= 97 { text.repeat(30) } else { text };
        let part = if round % 2 == 0 {
            ReplyPart::Text { text: text.clone() }
        } else {
            ReplyPart::Code {
                language: String::new(),
                text: text.clone(),
            }
        };
        let before = emulator.with_state(|state| state.messages.len());
        for reply in split(&Reply { parts: vec![part] }) {
            channel
                .deliver(&post(reply))
                .await
                .unwrap_or_else(|error| panic!("{error}: {text:?}"));
        }
        let shown: String = emulator.with_state(|state| {
            let new = state.messages.iter().skip(before);
            new.flat_map(|message| message.visible()).collect()
        });
        // In code the joiners and tags of emoji are made visible, because users compare it character by character.
        let is_code = round % 2 == 1;
        // The generator makes tags in flags only, and variation selectors behind any character.
        let mut before = ' ';
        let mut whole = String::new();
        for character in text.chars() {
            let is_of_emoji = match character {
                '\u{200d}' | '\u{e0020}'..='\u{e007f}' => true,
                '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0e}' | '\u{e0100}'..='\u{e01ef}' => {
                    !before.is_ascii() && !is_invisible(before)
                }
                _ => false,
            };
            match is_invisible(character) && (is_code || !is_of_emoji) {
                true => whole.push_str(&format!("<U+{:04X}>", u32::from(character))),
                false => whole.push(character),
            }
            before = character;
        }
        assert_eq!(shown, whole);
    }
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

/// T77
#[tokio::test]
async fn whatever_a_model_writes_slack_takes_it() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let source = "([-*+>#`~_|!<\\[\\]()]|1\\. |\n|\n\n| {1,5}|\t|a|`{3}|\\*\\*|---|[|]-[|]|https://github.com/a|https://e.x|&nbsp;|\u{1b}|👩‍👩‍👧‍👦){0,60}";
    let strategy = proptest::string::string_regex(source).unwrap();
    for _ in 0..500 {
        let text = strategy.new_tree(&mut runner).unwrap().current();
        let reply = Reply {
            parts: vec![ReplyPart::Markdown { text: text.clone() }],
        };
        for reply in split(&reply) {
            let delivered = channel.deliver(&post(reply)).await;
            assert!(
                delivered.is_ok(),
                "{delivered:?}: {text:?} {:?}",
                emulator.problems()
            );
        }
    }
}

/// T77
#[tokio::test]
async fn the_largest_parts_fit() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let markdown = |text: String| ReplyPart::Markdown { text };
    let parts = [
        markdown("x".repeat(30_000)),
        markdown("*a*_b_".repeat(800)),
        markdown("👩‍👩‍👧‍👦".repeat(3_000)),
        markdown("- item `x`\n".repeat(500)),
        markdown("> quoted\n".repeat(1_000)),
        markdown("one\n\n".repeat(600)),
        markdown(format!("```\n{}\n```", "\"\\\u{1b}\u{202e}".repeat(5_000))),
        markdown("| a | b |\n|---|---|\n".to_owned() + &"| 1 | 2 |\n".repeat(3_000)),
        ReplyPart::Heading {
            text: "h".repeat(5_000),
        },
        ReplyPart::Heading {
            text: "& ".repeat(15_000),
        },
        ReplyPart::Footer {
            text: "<".repeat(20_000),
        },
        ReplyPart::Text {
            text: "`".repeat(3_001),
        },
        ReplyPart::Text { text: String::new() },
        ReplyPart::Code {
            language: String::new(),
            text: String::new(),
        },
        ReplyPart::Facts {
            rows: vec![("l".repeat(20_000), "v`x`".repeat(300)); 3],
        },
        ReplyPart::Facts { rows: vec![] },
        ReplyPart::Buttons {
            buttons: (0..120)
                .map(|n| button(&format!("{n}{}", "ü".repeat(90))))
                .collect(),
        },
        ReplyPart::Buttons { buttons: vec![] },
    ];
    let all = Reply {
        parts: [
            parts.to_vec(),
            vec![ReplyPart::Text { text: "x".to_owned() }; 120],
        ]
        .concat(),
    };
    let mut replies: Vec<Reply> = parts
        .into_iter()
        .map(|part| Reply { parts: vec![part] })
        .collect();
    replies.extend([all, Reply::default()]);
    for reply in replies {
        let pieces = split(&reply);
        assert!(!pieces.is_empty());
        for piece in pieces {
            let delivered = channel.deliver(&post(piece)).await;
            assert!(delivered.is_ok(), "{delivered:?}: {:?}", emulator.problems());
        }
    }
    assert_eq!(emulator.problems(), Vec::<String>::new());
}
