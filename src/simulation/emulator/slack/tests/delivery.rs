//! Tests of the delivery of messages, receipts, edits and files.

use super::*;

#[tokio::test]
async fn a_long_reply_is_several_messages_with_its_buttons_on_the_last() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let code: String = (0..4_000).map(|line| format!("+line {line}\n")).collect();
    let reply = Reply {
        parts: vec![
            ReplyPart::Mention { to: alice() },
            ReplyPart::Heading {
                text: "CHG-42".to_owned(),
            },
            ReplyPart::Buttons {
                buttons: vec![button("Discard")],
            },
            ReplyPart::Markdown {
                text: format!("Before.\n\n```diff\n{code}```\n\nAfter."),
            },
            ReplyPart::Footer {
                text: "base `a1b2c3d`".to_owned(),
            },
        ],
    };
    let replies = split(&reply);
    assert!(replies.len() > 2, "{}", replies.len());
    for reply in &replies {
        channel.deliver(&post(reply.clone())).await.unwrap();
    }
    let messages = emulator.with_state(|state| state.messages.clone());
    let mentions: Vec<usize> = messages.iter().map(|message| message.mentions().len()).collect();
    assert_eq!(mentions.iter().sum::<usize>(), 1);
    assert_eq!(mentions.first(), Some(&1));
    let buttons: Vec<usize> = messages.iter().map(|message| message.buttons().len()).collect();
    assert_eq!((buttons.iter().sum::<usize>(), buttons.last()), (1, Some(&1)));
    let shown: String = messages.iter().flat_map(|message| message.visible()).collect();
    let lines = code.trim_end();
    assert_eq!(
        shown,
        format!("<@U0ALICE> *CHG-42*Before.{lines}After.Discardbase `a1b2c3d`")
    );
}

#[tokio::test]
async fn a_new_receipt_reaction_replaces_the_previous_one() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let ts = channel.deliver(&posted("x")).await.unwrap().message.unwrap().id;
    let react = |receipt| {
        op(
            "C0OPS",
            None,
            Action::React {
                message: message_ref(&ts),
                receipt,
            },
        )
    };
    let reactions = || emulator.with_state(|state| state.message("C0OPS", &ts).unwrap().reactions.clone());
    for (receipt, name) in [
        (Receipt::Queued, "hourglass_flowing_sand"),
        (Receipt::Queued, "hourglass_flowing_sand"),
        (Receipt::Started, "eyes"),
        (Receipt::Started, "eyes"),
        (Receipt::Seen, "eyes"),
    ] {
        channel.deliver(&react(receipt)).await.unwrap();
        assert_eq!(reactions().into_iter().collect::<Vec<_>>(), vec![name]);
    }
}

#[tokio::test]
async fn an_edit_replaces_and_only_our_own() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let ts = channel.deliver(&posted("one")).await.unwrap().message.unwrap().id;
    let edit = |id: &str| {
        let reply = Reply::text("two");
        op(
            "C0OPS",
            None,
            Action::Edit {
                message: message_ref(id),
                reply,
            },
        )
    };
    for _ in 0..2 {
        channel.deliver(&edit(&ts)).await.unwrap();
    }
    let message = emulator
        .with_state(|state| state.message("C0OPS", &ts).cloned())
        .unwrap();
    assert_eq!((message.visible(), message.edits), (vec!["two".to_owned()], 2));
    let before: Vec<_> = message.before_edits().map(|message| message.visible()).collect();
    assert_eq!(before, [["one"], ["two"]]);
    assert_eq!(
        channel.deliver(&edit("1.1")).await,
        Err(SendError::Refused("message_not_found".to_owned()))
    );
    emulator.connect_to("http://127.0.0.1:1/");
    let _ = emulator.say("U0ALICE", "C0OPS", "mine").await;
    let hers = emulator
        .with_state(|state| state.messages.last().cloned())
        .unwrap();
    assert_eq!(
        channel.deliver(&edit(&hers.ts)).await,
        Err(SendError::Refused("cant_update_message".to_owned()))
    );
}

#[tokio::test]
async fn a_file_arrives_byte_for_byte_in_its_thread() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let ts = channel
        .deliver(&posted("root"))
        .await
        .unwrap()
        .message
        .unwrap()
        .id;
    let content = Bytes::from_static(b"\x00\xff<!channel>\r\n");
    let upload = |content: Bytes| Action::Upload {
        file_name: "CHG-42.patch".to_owned(),
        content,
        caption: "Patch".to_owned(),
    };
    channel
        .deliver(&op("C0OPS", Some(&ts), upload(content.clone())))
        .await
        .unwrap();
    let file = emulator.with_state(|state| state.files.last().cloned()).unwrap();
    assert_eq!(
        (file.name, file.content, file.thread_ts),
        ("CHG-42.patch".to_owned(), content, Some(ts))
    );
    assert_eq!(
        channel.deliver(&op("C0OPS", None, upload(Bytes::new()))).await,
        Err(SendError::Refused("invalid_arguments".to_owned()))
    );
}

#[tokio::test]
async fn wait_until_returns_once_the_state_matches() {
    let emulator = workspace().await;
    let (seen, ()) = tokio::join!(
        emulator.wait_until(|state| state.users.get("U0CAROL").cloned()),
        async { emulator.add_user("U0CAROL") }
    );
    assert_eq!(seen.as_deref(), Some("T0ACME"));
}
