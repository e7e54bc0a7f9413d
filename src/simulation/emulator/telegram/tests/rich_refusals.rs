//! Tests of refused rich messages: which refusals a text answers, and for how long a message stays a text.

use super::super::TelegramFault;
use super::delivery::result;
use super::rich::{RICH, TEXT, plain, rich};
use super::*;
use crate::base::model::ReplyPart;

fn refused(why: &str) -> TelegramFault {
    TelegramFault::Refused(400, format!("Bad Request: {why}"))
}

/// Returns the result with other words below it.
fn changed(words: &str) -> Reply {
    let text = words.to_owned();
    result().with(ReplyPart::Text { text })
}

fn draft(id: i64) -> Action {
    Action::Draft {
        draft: id,
        reply: result(),
    }
}

#[tokio::test]
async fn a_message_whose_rich_form_was_refused_is_a_text_from_then_on() {
    let setup = Setup::new().await;
    let mut posted = Vec::new();
    for text in ["one", "two"] {
        let delivered = setup.post(&Reply::text(text)).await.unwrap();
        posted.push(delivered.message.unwrap());
    }
    let fault = refused("RICH_MESSAGE_EMAIL_INVALID");
    setup.telegram.fail("editMessageText", 1, fault);
    for words in ["a", "b", "c"] {
        setup.edit(&posted[0], changed(words)).await.unwrap();
    }
    // Only the first edit asked for a rich message.
    assert_eq!(setup.called("editMessageText"), 4);
    setup.edit(&posted[1], result()).await.unwrap();
    assert_eq!(setup.shown(), [plain(&format!("{TEXT}\n\nc")), rich(RICH)]);
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_draft_whose_rich_form_was_refused_is_a_text_from_then_on() {
    let setup = Setup::new().await;
    let fault = refused("RICH_MESSAGE_EMAIL_INVALID");
    setup.telegram.fail("sendRichMessageDraft", 1, fault);
    for (id, is_rich) in [(3, false), (3, false), (4, true)] {
        setup.deliver(place(ALICE, None), draft(id)).await.unwrap();
        let shown = setup.telegram.draft(ALICE).unwrap();
        assert_eq!((shown.rich.is_some(), shown.can_stop), (is_rich, true));
    }
    assert_eq!(setup.called("sendRichMessageDraft"), 2);
    assert_eq!(setup.called("sendMessageDraft"), 2);
}

#[tokio::test]
async fn a_refusal_that_is_not_about_the_content_is_not_answered_with_a_text() {
    let setup = Setup::new().await;
    let refusal =
        |why: &str| -> Result<(), SendError> { Err(SendError::Refused(format!("400 Bad Request: {why}"))) };
    for why in [
        "chat not found",
        "not enough rights to send text messages to the chat",
        "message thread not found",
        "TOPIC_CLOSED",
    ] {
        setup.telegram.fail("sendRichMessage", 1, refused(why));
        assert_eq!(setup.post(&result()).await.map(|_| ()), refusal(why));
    }
    assert_eq!(setup.called("sendMessage"), 0);
    let why = "chat not found";
    setup.telegram.fail("sendRichMessageDraft", 1, refused(why));
    let shown = setup.deliver(place(ALICE, None), draft(3)).await;
    assert_eq!(shown.map(|_| ()), refusal(why));
    assert_eq!(setup.called("sendMessageDraft"), 0);
    let message = setup.post(&Reply::text("Wait.")).await.unwrap().message.unwrap();
    for (count, why) in [(1, "message to edit not found"), (2, "message can't be edited")] {
        setup.telegram.fail("editMessageText", 1, refused(why));
        assert_eq!(setup.edit(&message, result()).await, refusal(why));
        assert_eq!(setup.called("editMessageText"), count);
    }
    // None of them is remembered.
    setup.edit(&message, result()).await.unwrap();
    assert_eq!(setup.shown(), [rich(RICH)]);
    setup.deliver(place(ALICE, None), draft(3)).await.unwrap();
    assert!(setup.telegram.draft(ALICE).unwrap().rich.is_some());
}

#[tokio::test]
async fn a_rich_reply_to_a_lost_message_is_sent_without_it_and_stays_rich() {
    let setup = Setup::new().await;
    let fault = refused("message to be replied not found");
    setup.telegram.fail("sendRichMessage", 1, fault);
    let action = Action::Post {
        reply: result(),
        reply_to: Some(setup.asked.clone()),
        placeholder: false,
    };
    setup.deliver(place(ALICE, None), action).await.unwrap();
    assert_eq!(setup.shown(), [rich(RICH)]);
    assert_eq!(setup.telegram.messages(ALICE).remove(0).reply_to, None);
    assert_eq!(setup.called("sendRichMessage"), 2);
}

/// R17: each call is a delivery of its own, which waits for the limits of the chat.
#[tokio::test]
async fn a_delivery_is_one_call_whatever_telegram_refuses() {
    let setup = Setup::new().await;
    let post = Action::Post {
        reply: result(),
        reply_to: Some(setup.asked.clone()),
        placeholder: false,
    };
    let post = setup.operation(place(ALICE, None), post);
    let message = setup.post(&Reply::text("Wait.")).await.unwrap().message.unwrap();
    let edit = Action::Edit {
        message,
        reply: result(),
    };
    let edit = setup.operation(place(ALICE, None), edit);
    let draft = setup.operation(place(ALICE, None), draft(3));
    let (rich, lost, marks) = (
        "RICH_MESSAGE_EMAIL_INVALID",
        "message to be replied not found",
        "can't parse entities: no",
    );
    for (op, refusals) in [
        (
            &post,
            [
                ("sendRichMessage", lost),
                ("sendRichMessage", rich),
                ("sendMessage", marks),
            ]
            .as_slice(),
        ),
        (&edit, &[("editMessageText", rich), ("editMessageText", marks)]),
        (&draft, &[("sendRichMessageDraft", rich)]),
    ] {
        for (method, why) in refusals {
            let calls = setup.telegram.calls().len();
            setup.telegram.fail(method, 1, refused(why));
            let delivered = setup.channel.deliver(op).await;
            let expected = format!("refused: 400 Bad Request: {why}");
            assert_eq!(delivered, Err(SendError::OtherForm(expected)));
            assert_eq!(setup.telegram.calls().len(), calls + 1);
        }
        setup.channel.deliver(op).await.unwrap();
    }
    assert_eq!(setup.shown().len(), 2);
    assert_eq!(setup.telegram.messages(ALICE)[1].reply_to, None);
    assert!(
        setup
            .telegram
            .messages(ALICE)
            .iter()
            .all(|shown| shown.entities.is_empty())
    );
    assert_eq!(setup.telegram.draft(ALICE).unwrap().rich, None);
    assert_eq!(setup.telegram.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn without_rich_messages_everything_is_a_text_and_none_is_asked_for() {
    let setup = Setup::with(RichMessages::Off).await;
    let message = setup.post(&result()).await.unwrap().message.unwrap();
    setup.edit(&message, changed("a")).await.unwrap();
    setup.deliver(place(ALICE, None), draft(3)).await.unwrap();
    assert_eq!(setup.shown(), [plain(&format!("{TEXT}\n\na"))]);
    assert_eq!(setup.telegram.draft(ALICE).unwrap().rich, None);
    for method in ["sendRichMessage", "sendRichMessageDraft"] {
        assert_eq!(setup.called(method), 0);
    }
    assert_eq!(setup.called("editMessageText"), 1);
}
