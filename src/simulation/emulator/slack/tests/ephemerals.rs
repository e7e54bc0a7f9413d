//! Tests of ephemeral messages: Slack accepts more of them than it shows.

use super::events::{gateway, ok};
use super::*;

fn ephemeral_op(thread: Option<&str>) -> Op {
    let notice = Action::Notice {
        to: alice(),
        reply: Reply::text("Only you."),
    };
    op("C0OPS", thread, notice)
}

fn buttons(label: &str) -> Reply {
    let reply = Reply::text("A question.");
    reply.with(ReplyPart::Buttons {
        buttons: vec![button(label)],
    })
}

/// T01
#[tokio::test]
async fn an_ephemeral_message_is_not_shown_in_a_thread_without_replies() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let seen = || emulator.with_state(|state| state.ephemerals.len());
    let root = channel.deliver(&posted("x")).await.unwrap().message.unwrap().id;
    assert!(channel.deliver(&ephemeral_op(Some(&root))).await.is_ok());
    assert_eq!((seen(), emulator.problems().len()), (0, 1));
    channel.deliver(&ephemeral_op(None)).await.unwrap();
    assert_eq!(seen(), 1);
    let answer = Op {
        place: ephemeral_op(Some(&root)).place,
        ..posted("y")
    };
    channel.deliver(&answer).await.unwrap();
    channel.deliver(&ephemeral_op(Some(&root))).await.unwrap();
    assert_eq!((seen(), emulator.problems().len()), (2, 1));
}

/// T01, T07
#[tokio::test]
async fn every_action_is_answered_where_its_sender_can_see_it() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let gateway = gateway(&emulator, &channel).await;
    let said = emulator.say("U0ALICE", "C0OPS", "@drydock hello").await.unwrap();
    emulator.slash("U0ALICE", "C0OPS", "status").await.unwrap();
    // A button at the root of a channel, as on the result of a hook, and one that only Alice sees.
    let root = channel.deliver(&post(buttons("Stop"))).await.unwrap();
    emulator
        .click("U0ALICE", &root.message.unwrap().id, "Stop")
        .await
        .unwrap();
    let alone = Action::Notice {
        to: alice(),
        reply: buttons("Diff"),
    };
    channel.deliver(&op("C0OPS", None, alone)).await.unwrap();
    let alone = emulator.with_state(|state| state.ephemerals.last().unwrap().ts.clone());
    assert_eq!(emulator.click("U0ALICE", &alone, "Diff").await, Ok(ok()));
    emulator
        .reply_in_thread("U0ALICE", "C0OPS", &said.ts, "@drydock again")
        .await
        .unwrap();
    emulator.dm("U0ALICE", "hello").await.unwrap();

    let received = gateway.received.lock().unwrap().clone();
    assert_eq!(received.len(), 8);
    for inbound in received {
        let before = emulator.with_state(|state| state.ephemerals.len() + state.messages.len());
        let notice = Op {
            place: inbound.private_place(),
            ..ephemeral_op(None)
        };
        channel.deliver(&notice).await.unwrap();
        let now = emulator.with_state(|state| state.ephemerals.len() + state.messages.len());
        assert_eq!(now, before + 1, "it is not shown: {inbound:?}");
        if inbound.direct {
            assert!(notice.place.thread.is_some());
        }
    }
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

fn typed(inbound: &Inbound, text: &str) -> Op {
    let notice = Action::Notice {
        to: inbound.sender.clone(),
        reply: Reply::text(text),
    };
    Op {
        place: inbound.place.clone(),
        response_url: inbound.response_url.clone(),
        ..op("C0OPS", None, notice)
    }
}

/// Types a command in a place and returns it as an inbound message.
async fn command(emulator: &SlackEmulator, gateway: &super::events::TestGateway, place: &str) -> Inbound {
    emulator.slash("U0ALICE", place, "help").await.unwrap();
    gateway.received.lock().unwrap().last().cloned().unwrap()
}

/// Slack accepts five answers to a command, within half an hour, in every conversation.
#[tokio::test]
async fn a_command_outside_the_channels_of_the_bot_gets_five_answers_within_half_an_hour() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let gateway = gateway(&emulator, &channel).await;
    emulator.add_channel_without_bot("C0ELSE", &["U0ALICE"]);
    let seen = || {
        emulator.with_state(|state| {
            let here = state
                .ephemerals
                .iter()
                .filter(|message| message.channel == "C0ELSE");
            here.count()
        })
    };
    let inbound = command(&emulator, &gateway, "C0ELSE").await;
    for answer in 1..=5 {
        channel.deliver(&typed(&inbound, "Here.")).await.unwrap();
        assert_eq!(seen(), answer);
    }
    let refused = |code: &str| Err(SendError::Refused(code.to_owned()));
    let used = channel.deliver(&typed(&inbound, "Here.")).await;
    assert_eq!(used, refused("slack answered 404"));
    let late = command(&emulator, &gateway, "C0ELSE").await;
    emulator.age_responses(jiff::SignedDuration::from_mins(30));
    let expired = channel.deliver(&typed(&late, "Here.")).await;
    assert_eq!((expired, seen()), (refused("slack answered 404"), 5));
    let codes: Vec<String> = emulator.with_state(|state| {
        let responses = state.calls.iter().filter(|call| call.method == "response_url");
        responses.filter_map(|call| call.refused.clone()).collect()
    });
    assert_eq!(codes, ["used_url", "expired_url"]);
    // In its own channels the bot needs no response URL. A chat between two other users is no direct chat with the
    // bot.
    let here = command(&emulator, &gateway, "C0OPS").await;
    channel.deliver(&typed(&here, "Here.")).await.unwrap();
    emulator.add_channel_without_bot("D0TWO", &["U0ALICE"]);
    let two = command(&emulator, &gateway, "D0TWO").await;
    let post = Op {
        place: two.place.clone(),
        response_url: two.response_url.clone(),
        ..posted("Here.")
    };
    channel.deliver(&post).await.unwrap();
    let responses = emulator.with_state(|state| {
        let calls = state.calls.iter();
        calls.filter(|call| call.method == "response_url").count()
    });
    assert_eq!(responses, 8);
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

/// A forged command could name any response URL; answers go only to Slack's hosts.
#[tokio::test]
async fn an_answer_goes_to_no_address_but_slacks() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let gateway = gateway(&emulator, &channel).await;
    emulator.add_channel_without_bot("C0ELSE", &["U0ALICE"]);
    let inbound = command(&emulator, &gateway, "C0ELSE").await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = listener.local_addr().unwrap();
    for address in [
        format!("http://{other}/commands/1"),
        "http://hooks.slack.com/commands/1".to_owned(),
        "https://hooks.slack.com:444/commands/1".to_owned(),
        "https://hooks.slack.com.evil.example/commands/1".to_owned(),
        "https://hooks.slack.com@127.0.0.1/commands/1".to_owned(),
        "https://files.slack.com/commands/1".to_owned(),
        "nonsense".to_owned(),
    ] {
        let op = Op {
            response_url: Some(crate::base::model::ResponseUrl::new(
                address.clone(),
                jiff::Timestamp::MAX,
            )),
            ..typed(&inbound, "Here.")
        };
        let why = "the address for the answer does not belong to slack";
        assert_eq!(
            channel.deliver(&op).await,
            Err(SendError::Refused(why.to_owned())),
            "{address}"
        );
    }
    let connected = tokio::time::timeout(Duration::from_millis(1), listener.accept()).await;
    assert!(connected.is_err());
}
