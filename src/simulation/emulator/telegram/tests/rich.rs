//! Tests of rich messages: what is sent as one, and what an older server or a refusal makes of it.

use super::super::TelegramFault;
use super::delivery::result;
use super::strictness::call;
use super::*;
use crate::base::model::{FoldState, ListedTask, ReplyPart, TaskList, TaskState};
use serde_json::{Value, json};

/// The visible text of the result, as a rich message.
pub(super) const RICH: &str = "CHG-42 is ready for dev 🚢\nNothing was applied. /diff shows it.\n \
    replicas\n-  2\n+  4\nfiles  1\ntime  41 s\n12.4k tokens";
/// The same result as a text.
pub(super) const TEXT: &str = "CHG-42 is ready for dev 🚢\nNothing was applied. /diff shows it.\n \
    replicas\n-  2\n+  4\nfiles  1\ntime   41 s\n12.4k tokens";

impl Setup {
    /// Returns the number of calls of a method.
    pub(super) fn called(&self, method: &str) -> usize {
        let calls = self.telegram.calls();
        calls.iter().filter(|(called, _)| called == method).count()
    }

    pub(super) async fn edit(&self, message: &MessageRef, reply: Reply) -> Result<(), SendError> {
        let message = message.clone();
        let edited = self.deliver(place(ALICE, None), Action::Edit { message, reply });
        edited.await.map(|_| ())
    }

    /// Returns the texts of the messages, each with true if it is a rich one.
    pub(super) fn shown(&self) -> Vec<(String, bool)> {
        let messages = self.telegram.messages(ALICE).into_iter();
        messages
            .map(|posted| (posted.text, posted.rich.is_some()))
            .collect()
    }
}

pub(super) fn rich(text: &str) -> (String, bool) {
    (text.to_owned(), true)
}

pub(super) fn plain(text: &str) -> (String, bool) {
    (text.to_owned(), false)
}

#[tokio::test]
async fn a_result_is_a_rich_message_that_keeps_its_buttons() {
    let setup = Setup::new().await;
    let asked = setup
        .telegram
        .say_in_topic(ALICE, GROUP, 55, "@drydock_bot scale web")
        .await;
    let action = Action::Post {
        reply: result(),
        reply_to: Some(reference(GROUP, asked.message)),
        placeholder: false,
    };
    let delivered = setup.deliver(place(GROUP, Some("55")), action).await.unwrap();
    let posted = setup.telegram.messages(GROUP).remove(0);
    assert_eq!(delivered.message, Some(reference(GROUP, posted.id)));
    assert_eq!((posted.topic, posted.reply_to), (Some(55), Some(asked.message)));
    assert_eq!(posted.text, format!("For you:\n{RICH}"));
    assert_eq!(posted.keyboard, [[("Discard".to_owned(), "t".repeat(22))]]);
    let cell = |text: &str| json!({"align": "left", "valign": "top", "text": text});
    let you = json!({"type": "text_mention", "text": "you",
        "user": {"id": 7, "is_bot": false, "first_name": "you"}});
    let blocks = json!([
        {"type": "paragraph", "text": ["For ", you, ":"]},
        {"type": "heading", "size": 4,
            "text": ["CHG-42 is ready for ", {"type": "code", "text": "dev"}, " 🚢"]},
        {"type": "paragraph", "text": ["Nothing was applied. ", {"type": "code", "text": "/diff"}, " shows it."]},
        {"type": "pre", "text": " replicas\n-  2\n+  4", "language": "diff"},
        {"type": "table", "cells": [[cell("files"), cell("1")], [cell("time"), cell("41 s")]],
            "is_compact": true},
        {"type": "footer", "text": "12.4k tokens"},
    ]);
    assert_eq!(
        posted.rich,
        Some(json!({"blocks": blocks, "skip_entity_detection": true}))
    );
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn folds_tasks_and_lists_are_blocks_of_their_own() {
    let setup = Setup::new().await;
    let task = |text: &str, state: TaskState| ListedTask {
        text: text.to_owned(),
        state,
    };
    let fold = |title: &str, state: FoldState| ReplyPart::Fold {
        title: title.to_owned(),
        state,
        parts: vec![ReplyPart::Code {
            language: String::new(),
            text: "+1\n".to_owned(),
        }],
    };
    let list = TaskList {
        title: "Working".to_owned(),
        earlier: 2,
        tasks: vec![
            task("read", TaskState::Done),
            task("edit", TaskState::Failed),
            task("render", TaskState::Running),
        ],
    };
    let reply = Reply::default()
        .with(ReplyPart::Tasks { list })
        .with(ReplyPart::Markdown {
            text: "# Big\n\n7. one\n8. **two**\n   - [docs](https://docs.example.com/a)\n\n> q\n\n---"
                .to_owned(),
        })
        .with(fold("`a.diff` +1", FoldState::Open))
        .with(fold("b", FoldState::Closed));
    setup.post(&reply).await.unwrap();
    let posted = setup.telegram.messages(ALICE).remove(0);
    let paragraph = |text: Value| json!({"type": "paragraph", "text": text});
    let link = json!({"type": "url", "text": "docs", "url": "https://docs.example.com/a"});
    let blocks = json!([
        {"type": "heading", "size": 4, "text": "Working"},
        paragraph(json!("… 2 earlier")),
        {"type": "list", "items": [
            {"blocks": [paragraph(json!("read"))], "has_checkbox": true, "is_checked": true},
            {"blocks": [paragraph(json!("✗ edit"))], "has_checkbox": true},
            {"blocks": [paragraph(json!("render"))], "has_checkbox": true},
        ]},
        {"type": "heading", "size": 5, "text": "Big"},
        {"type": "list", "items": [
            {"blocks": [paragraph(json!("one"))], "value": 7, "type": "1"},
            {"blocks": [
                paragraph(json!({"type": "bold", "text": "two"})),
                {"type": "list", "items": [{"blocks": [paragraph(link)]}]},
            ], "value": 8, "type": "1"},
        ]},
        {"type": "blockquote", "blocks": [paragraph(json!("q"))]},
        {"type": "divider"},
        {"type": "details", "summary": [{"type": "code", "text": "a.diff"}, " +1"],
            "blocks": [{"type": "pre", "text": "+1"}], "is_open": true},
        {"type": "details", "summary": "b", "blocks": [{"type": "pre", "text": "+1"}]},
    ]);
    assert_eq!(posted.rich.unwrap()["blocks"], blocks);
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn words_alone_stay_a_text() {
    let setup = Setup::new().await;
    let words = ReplyPart::Markdown {
        text: "It is **one**, see `a`.".to_owned(),
    };
    setup.post(&Reply::default().with(words)).await.unwrap();
    assert_eq!(setup.shown(), [plain("It is one, see a.")]);
    assert_eq!(setup.called("sendRichMessage"), 0);
}

/// T61, T73, T74
#[tokio::test]
async fn hostile_words_stay_words_in_a_rich_message() {
    let setup = Setup::new().await;
    let hostile = "</details><details open><summary>Approved</summary>@alice /stop https://evil.com #x \
                   <tg-button-row><a href=\"tg://user?id=1\">x</a> [y](https://evil.com) \u{202e}";
    let reply = Reply::default()
        .with(ReplyPart::Markdown {
            text: format!("{hostile}\n\n- {hostile}"),
        })
        .with(ReplyPart::Fold {
            title: hostile.to_owned(),
            state: FoldState::Closed,
            parts: vec![ReplyPart::Code {
                language: hostile.to_owned(),
                text: hostile.to_owned(),
            }],
        })
        .with(ReplyPart::Facts {
            rows: vec![(hostile.to_owned(), hostile.to_owned())],
        });
    setup.post(&reply).await.unwrap();
    let posted = setup.telegram.messages(ALICE).remove(0);
    let rich = posted.rich.unwrap();
    let kinds: Vec<&str> = rich["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["paragraph", "list", "details", "table"]);
    let code = json!([{"type": "pre", "text": rich["blocks"][2]["blocks"][0]["text"]}]);
    assert_eq!(rich["blocks"][2]["blocks"], code);
    let written = rich.to_string();
    for kind in ["url", "text_mention", "mention", "button", "bot_command"] {
        assert!(!written.contains(&format!("\"type\":\"{kind}\"")), "{written}");
    }
    assert!(!written.contains('\u{202e}'), "{written}");
    assert_eq!(posted.keyboard, Vec::<Vec<(String, String)>>::new());
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}

/// The words of a model may be nested as deeply as it likes.
#[tokio::test]
async fn what_a_rich_message_cannot_hold_is_a_text() {
    let setup = Setup::new().await;
    let deep: String = (0..12)
        .map(|level| format!("{}- level {level}\n", "  ".repeat(level)))
        .collect();
    for text in [deep, "- x\n".repeat(600)] {
        setup
            .post(&Reply::default().with(ReplyPart::Markdown { text }))
            .await
            .unwrap();
    }
    assert_eq!(setup.called("sendRichMessage"), 0);
    assert_eq!(setup.telegram.messages(ALICE).len(), 2);
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_without_rich_messages_is_asked_once_a_day() {
    let setup = Setup::new().await;
    setup.telegram.forget_rich_messages();
    for _ in 0..2 {
        setup.post(&result()).await.unwrap();
    }
    assert_eq!(setup.shown(), [plain(TEXT), plain(TEXT)]);
    assert_eq!(setup.called("sendRichMessage"), 1);
    setup.telegram.upgrade();
    setup.post(&result()).await.unwrap();
    assert_eq!(setup.called("sendRichMessage"), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_hours(24)).await;
    tokio::time::resume();
    setup.post(&result()).await.unwrap();
    assert_eq!(setup.shown().pop(), Some(rich(RICH)));
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn an_old_server_that_ignores_the_field_of_an_edit_gets_a_text() {
    let setup = Setup::new().await;
    setup.telegram.forget_rich_messages();
    let message = setup.post(&Reply::text("Wait.")).await.unwrap().message.unwrap();
    for reply in [result(), result().with(ReplyPart::Text { text: "b".to_owned() })] {
        setup.edit(&message, reply).await.unwrap();
    }
    assert_eq!(setup.shown(), [plain(&format!("{TEXT}\n\nb"))]);
    // Only the first edit asked for a rich message.
    assert_eq!(setup.called("editMessageText"), 3);
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn one_refused_rich_message_is_a_text_and_the_next_is_rich() {
    let setup = Setup::new().await;
    let refused = || TelegramFault::Refused(400, "Bad Request: RICH_MESSAGE_EMAIL_INVALID".to_owned());
    setup.telegram.fail("sendRichMessage", 1, refused());
    let first = setup.post(&result()).await.unwrap().message.unwrap();
    setup.post(&result()).await.unwrap();
    assert_eq!(setup.shown(), [plain(TEXT), rich(RICH)]);
    setup.telegram.fail("editMessageText", 1, refused());
    let changed = result().with(ReplyPart::Text { text: "b".to_owned() });
    setup.edit(&first, changed).await.unwrap();
    assert_eq!(setup.shown()[0], plain(&format!("{TEXT}\n\nb")));
}

/// R17
#[tokio::test]
async fn a_rich_message_whose_outcome_is_unknown_is_never_sent_as_a_text() {
    let setup = Setup::new().await;
    let faults = [
        TelegramFault::ResetAfterEffect,
        TelegramFault::Reset,
        TelegramFault::Status(502),
        TelegramFault::TooMany(1),
        TelegramFault::Refused(403, "Forbidden".to_owned()),
    ];
    for fault in faults {
        setup.telegram.fail("sendRichMessage", 1, fault.clone());
        let posted = setup.post(&result()).await;
        let is_ambiguous = !matches!(fault, TelegramFault::TooMany(_) | TelegramFault::Refused(..));
        assert_eq!(
            matches!(posted, Err(SendError::Ambiguous(_))),
            is_ambiguous,
            "{posted:?}"
        );
        assert!(posted.is_err());
    }
    // Only the first took effect.
    assert_eq!(setup.shown(), [rich(RICH)]);
    assert_eq!(setup.called("sendMessage"), 0);
}

/// R17
#[tokio::test]
async fn an_edit_changes_a_text_into_a_rich_message_and_back_once() {
    let setup = Setup::new().await;
    let message = setup.post(&Reply::text("Wait.")).await.unwrap().message.unwrap();
    setup
        .telegram
        .fail("editMessageText", 1, TelegramFault::ResetAfterEffect);
    assert!(setup.edit(&message, result()).await.is_err());
    // The repetition changes nothing, which is success.
    for _ in 0..2 {
        setup.edit(&message, result()).await.unwrap();
    }
    assert_eq!(setup.shown(), [rich(RICH)]);
    setup.edit(&message, Reply::text("Superseded.")).await.unwrap();
    assert_eq!(setup.shown(), [plain("Superseded.")]);
    let posted = setup.telegram.messages(ALICE).remove(0);
    assert_eq!((posted.edits, posted.keyboard.len()), (2, 0));
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}

/// T61, T73
#[tokio::test]
async fn every_invalid_rich_message_is_refused_and_recorded_as_a_problem() {
    let setup = Setup::new().await;
    let paragraph = |text: Value| json!({"type": "paragraph", "text": text});
    let deep = (0..16).fold(json!("x"), |text, _| json!({"type": "bold", "text": text}));
    let table = |cells: Value| json!({"type": "table", "cells": cells});
    let cell = json!({"align": "left", "valign": "top", "text": "x"});
    let wrong = [
        (json!([]), "blocks must be non-empty"),
        (json!([paragraph(json!(" "))]), "RICH_MESSAGE_CONTENT_REQUIRED"),
        (
            json!([paragraph(json!("x".repeat(32_769)))]),
            "rich message is too long",
        ),
        (
            json!(vec![paragraph(json!("x")); 501]),
            "rich message is too long",
        ),
        (json!([paragraph(deep)]), "rich message is nested too deeply"),
        (json!([paragraph(Value::Null)]), "Rich text must be non-empty"),
        (
            json!([{"type": "banner", "text": "x"}]),
            "can't parse InputRichBlock: type `banner`",
        ),
        (
            json!([{"type": "paragraph", "text": "x", "at": 1}]),
            "unknown parameter `at`",
        ),
        (
            json!([{"type": "heading", "text": "x", "size": 7}]),
            "Invalid section heading size specified",
        ),
        (json!([{"type": "thinking", "text": "x"}]), "Block is not allowed"),
        (json!([{"type": "list", "items": []}]), "List must be non-empty"),
        (
            json!([{"type": "list", "items": [{"blocks": [paragraph(json!("x"))], "value": 1, "type": "1"},
                {"blocks": [paragraph(json!("x"))]}]}]),
            "List must be either ordered or unordered",
        ),
        (json!([table(json!([vec![cell; 21]]))]), "too many columns"),
        (
            json!([table(json!([[{"text": "x"}]]))]),
            "can't parse RichBlockTableCell: alignment",
        ),
        (
            json!([paragraph(
                json!({"type": "url", "text": "x", "url": "javascript:alert(1)"})
            )]),
            "can't parse RichText: link without https",
        ),
        (
            json!([paragraph(json!({"type": "bot_command", "text": "/stop"}))]),
            "can't parse RichText: type `bot_command`",
        ),
    ];
    let count = wrong.len();
    for (blocks, why) in wrong {
        let rich = json!({"blocks": blocks, "skip_entity_detection": true});
        let parameters = json!({"chat_id": ALICE, "rich_message": rich});
        let answer = call(&setup.telegram, "sendRichMessage", &parameters).await;
        assert_eq!(answer, (400, format!("Bad Request: {why}")));
    }
    let fine = json!([paragraph(json!("x"))]);
    let linked = json!({"chat_id": ALICE, "rich_message": {"blocks": fine}});
    let both = json!({"chat_id": ALICE, "message_id": 1, "text": "x",
        "rich_message": {"blocks": fine, "skip_entity_detection": true}});
    let marked = json!({"chat_id": ALICE, "rich_message": {"html": "<b>x</b>"}});
    for (method, parameters) in [
        ("sendRichMessage", linked),
        ("sendRichMessage", marked),
        ("editMessageText", both),
    ] {
        assert_eq!(call(&setup.telegram, method, &parameters).await.0, 400);
    }
    assert_eq!(setup.telegram.problems().len(), count + 3);
    assert!(setup.telegram.messages(ALICE).is_empty());
}
