//! Tests of each action as users see it.

use super::*;
use crate::base::model::{Button, ButtonStyle, Receipt, ReplyPart};
use serde_json::{Value, json};

pub(super) fn result() -> Reply {
    Reply::default()
        .with(ReplyPart::Mention { to: alice() })
        .with(ReplyPart::Heading {
            text: "CHG-42 is ready for `dev` 🚢".to_owned(),
        })
        .with(ReplyPart::Text {
            text: "Nothing was applied. `/diff` shows it.".to_owned(),
        })
        .with(ReplyPart::Code {
            language: "diff".to_owned(),
            text: " replicas\n-  2\n+  4\n".to_owned(),
        })
        .with(ReplyPart::Facts {
            rows: vec![
                ("files".to_owned(), "1".to_owned()),
                ("time".to_owned(), "41 s".to_owned()),
            ],
        })
        .with(ReplyPart::Footer {
            text: "12.4k tokens".to_owned(),
        })
        .with(ReplyPart::Buttons {
            buttons: vec![Button::new("Discard", "t".repeat(22), ButtonStyle::Danger)],
        })
}

#[tokio::test]
async fn a_result_in_a_topic_mentions_who_asked() {
    let setup = Setup::new().await;
    setup.telegram.forget_rich_messages();
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
    assert_eq!(
        posted.text,
        "For you:\nCHG-42 is ready for dev 🚢\nNothing was applied. /diff shows it.\n \
         replicas\n-  2\n+  4\nfiles  1\ntime   41 s\n12.4k tokens"
    );
    assert_eq!(
        posted.entities,
        [
            json!({"type": "text_mention", "offset": 4, "length": 3,
                "user": {"id": 7, "is_bot": false, "first_name": "you"}}),
            json!({"type": "bold", "offset": 9, "length": 20}),
            json!({"type": "code", "offset": 29, "length": 3}),
            json!({"type": "bold", "offset": 32, "length": 3}),
            json!({"type": "code", "offset": 57, "length": 5}),
            json!({"type": "pre", "offset": 73, "length": 19, "language": "diff"}),
            json!({"type": "pre", "offset": 93, "length": 20}),
            json!({"type": "italic", "offset": 114, "length": 12}),
        ]
    );
    assert_eq!(posted.keyboard, [[("Discard".to_owned(), "t".repeat(22))]]);
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn in_a_private_chat_nobody_is_mentioned() {
    let setup = Setup::new().await;
    setup.post(&result()).await.unwrap();
    let posted = setup.telegram.messages(ALICE).remove(0);
    assert!(posted.text.starts_with("CHG-42 is ready"), "{}", posted.text);
}

#[tokio::test]
async fn receipts_edits_files_and_answers_arrive() {
    let setup = Setup::new().await;
    let here = place(ALICE, None);
    for (receipt, emoji) in [
        (Receipt::Seen, "👀"),
        (Receipt::Queued, "✍"),
        (Receipt::Started, "👀"),
    ] {
        let message = setup.asked.clone();
        setup
            .deliver(here.clone(), Action::React { message, receipt })
            .await
            .unwrap();
        let id = setup.asked.id.parse().unwrap();
        assert_eq!(setup.telegram.reaction(ALICE, id).as_deref(), Some(emoji));
    }
    let message = setup.post(&result()).await.unwrap().message.unwrap();
    let edit = Action::Edit {
        message: message.clone(),
        reply: Reply::text("Done."),
    };
    for _ in 0..3 {
        // The second and third change nothing, which is success.
        assert_eq!(
            setup.deliver(here.clone(), edit.clone()).await,
            Ok(Delivered::default())
        );
    }
    let edited = setup.telegram.messages(ALICE).remove(0);
    assert_eq!(
        (edited.text.as_str(), edited.edits, edited.keyboard.len()),
        ("Done.", 1, 0)
    );
    let content = bytes::Bytes::from_static(b"--- a\r\n+++ b\r\n\x00\xff--drydock");
    let upload = Action::Upload {
        file_name: "CHG-42.patch".to_owned(),
        content: content.clone(),
        caption: "see https://evil.com @all".to_owned(),
    };
    setup.deliver(here.clone(), upload).await.unwrap();
    let document = setup.telegram.messages(ALICE).remove(1).document;
    assert_eq!(document, Some(("CHG-42.patch".to_owned(), content)));
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}

/// T07
#[tokio::test]
async fn a_press_is_answered_once_it_came() {
    let setup = Setup::new().await;
    let message = setup.post(&result()).await.unwrap().message.unwrap();
    let id = message.id.parse().unwrap();
    let pressed = setup.telegram.click(666, ALICE, id, "Discard").await.unwrap();
    assert_eq!(pressed.update["callback_query"]["data"], json!("t".repeat(22)));
    assert!(setup.telegram.click(666, ALICE, id, "Apply").await.is_none());
    let callback = pressed.update["callback_query"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let answer = |callback: Option<String>, text: String| Action::AnswerClick {
        callback,
        to: alice(),
        text,
    };
    let here = place(ALICE, None);
    let answered = answer(Some(callback.clone()), "🚢".repeat(200));
    assert!(setup.deliver(here.clone(), answered).await.is_ok());
    assert_eq!(setup.telegram.answers(), [(callback, "🚢".repeat(100))]);
    // An expired press needs no answer, so it is no failure.
    let old = setup
        .deliver(here.clone(), answer(Some("old".to_owned()), String::new()))
        .await;
    assert!(old.is_ok() && setup.telegram.answers().len() == 1, "{old:?}");
    setup
        .deliver(place(GROUP, None), answer(None, "Only Alice may.".to_owned()))
        .await
        .unwrap();
    assert_eq!(setup.telegram.messages(ALICE).remove(1).text, "Only Alice may.");
}

#[tokio::test]
async fn a_notice_about_a_group_goes_to_the_persons_own_chat() {
    let setup = Setup::new().await;
    let notice = |to: &str| Action::Notice {
        to: Sender {
            id: to.to_owned(),
            ..alice()
        },
        reply: Reply::text("Wait."),
    };
    setup
        .deliver(place(GROUP, Some("55")), notice("7"))
        .await
        .unwrap();
    assert_eq!(setup.telegram.messages(ALICE).remove(0).text, "Wait.");
    let unknown = setup.deliver(place(GROUP, None), notice("666")).await;
    assert_eq!(
        unknown,
        Err(SendError::Refused("400 Bad Request: chat not found".to_owned()))
    );
    assert!(setup.telegram.messages(GROUP).is_empty());
}

#[tokio::test]
async fn connecting_registers_how_updates_arrive() {
    let setup = Setup::new().await;
    let methods: Vec<String> = setup
        .telegram
        .calls()
        .into_iter()
        .map(|(method, _)| method)
        .collect();
    assert_eq!(
        methods,
        ["getMe", "deleteWebhook", "setMyCommands", "setMyCommands"]
    );
    let settings = settings(&setup.telegram.api_base_url(), TelegramMode::Webhook);
    let channel = connect("tg", &settings, &server(), &client()).await.unwrap();
    assert_eq!(channel.installation().bot_name, "drydock_bot");
    let (method, parameters) = setup.telegram.calls().remove(5);
    assert_eq!(method, "setWebhook");
    assert_eq!(
        parameters,
        json!({
            "url": "https://drydock.example.com/in/tg", "secret_token": "s3cret", "max_connections": 40,
            "allowed_updates": ["message", "edited_message", "callback_query", "my_chat_member",
                "stopped_message_generation"],
        })
    );
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}

/// The list that Telegram shows and the list in `/help` must agree.
#[tokio::test]
async fn telegram_suggests_the_commands_as_help_lists_them() {
    let setup = Setup::new().await;
    let (method, suggested) = setup.telegram.calls().remove(2);
    assert_eq!(method, "setMyCommands");
    let everybodys = crate::engine::command::ALL
        .iter()
        .filter(|known| !known.verb.is_for_administrators());
    let known: Vec<_> = everybodys
        .map(|known| json!({"command": known.word.replace('-', "_"), "description": known.what}))
        .collect();
    assert_eq!(suggested, json!({ "commands": known }));
    // In groups, commands that only show something are for their sender only.
    let (_, suggested) = setup.telegram.calls().remove(3);
    assert_eq!(suggested["scope"], json!({"type": "all_group_chats"}));
    let commands = suggested["commands"].as_array().unwrap().iter();
    let ephemeral: Vec<&Value> = commands
        .filter(|command| command["is_ephemeral"] == true)
        .map(|command| &command["command"])
        .collect();
    assert_eq!(ephemeral, ["help", "status", "context", "usage"]);
}

/// Captions and answers to presses must show no backticks, as messages do not.
#[tokio::test]
async fn code_is_marked_in_a_caption_and_only_words_in_the_answer_to_a_press() {
    let setup = Setup::new().await;
    let upload = |caption: &str| Action::Upload {
        file_name: "CHG-1.patch".to_owned(),
        content: bytes::Bytes::from_static(b"x"),
        caption: caption.to_owned(),
    };
    let here = place(ALICE, None);
    let caption = "CHG-1 🚢 `a`: 1 file, base `7b6e391` of evil.com";
    setup.deliver(here.clone(), upload(caption)).await.unwrap();
    let shown = setup.telegram.messages(ALICE).remove(0);
    assert_eq!(shown.text, caption.replace('`', ""));
    assert_eq!(
        shown.entities,
        [
            json!({"type": "code", "offset": 9, "length": 1}),
            json!({"type": "code", "offset": 25, "length": 7}),
            // A word that would become a link.
            json!({"type": "code", "offset": 36, "length": 8})
        ]
    );
    setup
        .deliver(here.clone(), upload(&format!("`a` {}", "x".repeat(2_000))))
        .await
        .unwrap();
    let cut = setup.telegram.messages(ALICE).remove(1);
    assert_eq!((cut.text.len(), cut.entities.len()), (1_024, 0));

    let message = setup.post(&result()).await.unwrap().message.unwrap();
    let pressed = setup
        .telegram
        .click(ALICE, ALICE, message.id.parse().unwrap(), "Discard")
        .await;
    let callback = pressed.unwrap().update["callback_query"]["id"]
        .as_str()
        .map(str::to_owned);
    let answer = Action::AnswerClick {
        callback,
        to: alice(),
        text: "Your ID is `telegram:42:7`.".to_owned(),
    };
    setup.deliver(here, answer).await.unwrap();
    let answers = setup.telegram.answers();
    assert_eq!(answers.last().unwrap().1, "Your ID is telegram:42:7.");
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}
