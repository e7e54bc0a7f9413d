//! Tests of the lookup of a post whose answer was lost.

use super::*;
use crate::interfaces::channel::DeliveryLookup;

fn in_thread(id: &str, thread: &str) -> Op {
    Op {
        id: id.to_owned(),
        place: ChatPlace {
            thread: Some(thread.to_owned()),
            ..posted("x").place
        },
        ..posted("x")
    }
}

fn named(id: &str) -> Op {
    Op {
        id: id.to_owned(),
        ..posted("x")
    }
}

/// R17
#[tokio::test]
async fn a_post_that_arrived_is_found_where_it_went_and_one_that_did_not_is_nowhere() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let root = channel.deliver(&named("root")).await.unwrap().message.unwrap();
    for op in [named("lost"), in_thread("reply", &root.id)] {
        assert_eq!(channel.find(&op, now()).await, Ok(DeliveryLookup::Nothing));
        emulator.fail_next("chat.postMessage", 1, SlackFault::ResetBefore);
        assert!(channel.deliver(&op).await.is_err());
        assert_eq!(channel.find(&op, now()).await, Ok(DeliveryLookup::Nothing));
        emulator.fail_next("chat.postMessage", 1, SlackFault::ResetAfter);
        assert!(channel.deliver(&op).await.is_err());
        let ts = emulator.with_state(|state| state.messages.last().unwrap().ts.clone());
        assert_eq!(
            channel.find(&op, now()).await,
            Ok(DeliveryLookup::Message(message_ref(&ts)))
        );
    }
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

/// Files carry no metadata, but the title names the message that the file answers. So the same file for another
/// message is not mistaken for it.
#[tokio::test]
async fn a_file_that_was_shared_is_found_and_the_same_one_for_another_message_is_not() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let file = |id: &str, name: &str| {
        let upload = Action::Upload {
            file_name: name.to_owned(),
            content: Bytes::from_static(b"x"),
            caption: "CHG-1 rev 2: <1 file>".to_owned(),
        };
        Op {
            id: id.to_owned(),
            ..op("C0OPS", None, upload)
        }
    };
    let lost = file("inbox-7/CHG-1.diff", "CHG-1.diff");
    assert_eq!(channel.find(&lost, now()).await, Ok(DeliveryLookup::Nothing));
    emulator.fail_next("files.completeUploadExternal", 1, SlackFault::ResetAfter);
    assert!(channel.deliver(&lost).await.is_err());
    let ts = emulator.with_state(|state| state.messages.last().unwrap().ts.clone());
    assert_eq!(
        channel.find(&lost, now()).await,
        Ok(DeliveryLookup::Message(message_ref(&ts)))
    );
    for other in [
        file("inbox-8/CHG-1.diff", "CHG-1.diff"),
        file("inbox-7/CHG-1.patch", "CHG-1.patch"),
    ] {
        assert_eq!(channel.find(&other, now()).await, Ok(DeliveryLookup::Nothing));
    }
}

#[tokio::test]
async fn a_bot_that_may_not_read_everywhere_says_so_from_the_start() {
    let emulator = workspace().await;
    assert!(connected(&emulator).await.can_find());
    for scope in ["channels:history", "groups:history", "im:history"] {
        let emulator = workspace().await;
        emulator.withdraw(scope);
        assert!(!connected(&emulator).await.can_find(), "{scope}");
    }
    let emulator = workspace().await;
    emulator.hide_scopes();
    assert!(!connected(&emulator).await.can_find());
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    emulator.withdraw("channels:history");
    assert_eq!(
        channel.find(&named("lost"), now()).await,
        Ok(DeliveryLookup::CannotTell)
    );
}

/// Other users can write messages with any metadata.
#[tokio::test]
async fn a_message_of_another_user_is_not_found_as_our_post() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let lost = named("lost");
    channel.deliver(&lost).await.unwrap();
    let elsewhere = Op {
        id: "lost".to_owned(),
        ..op("DU0ALICE", None, lost.action.clone())
    };
    emulator.add_channel("DU0ALICE", &["U0ALICE"]);
    assert_eq!(channel.find(&elsewhere, now()).await, Ok(DeliveryLookup::Nothing));
    assert_eq!(
        channel.find(&named("los"), now()).await,
        Ok(DeliveryLookup::Nothing)
    );
    let claim = |state: &mut super::super::SlackState| state.messages[0].user = "U0ALICE".to_owned();
    emulator.shared.change(claim);
    assert_eq!(channel.find(&lost, now()).await, Ok(DeliveryLookup::Nothing));
}

#[tokio::test]
async fn a_lost_post_is_searched_page_by_page_back_to_its_earliest_time() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let root = channel.deliver(&named("root")).await.unwrap().message.unwrap();
    for number in 0..450 {
        let op = in_thread(&format!("reply-{number}"), &root.id);
        channel.deliver(&op).await.unwrap();
    }
    let last = emulator.with_state(|state| state.messages.last().unwrap().ts.clone());
    let found = channel.find(&in_thread("reply-449", &root.id), now()).await;
    assert_eq!(found, Ok(DeliveryLookup::Message(message_ref(&last))));
    let reads = |state: &super::super::SlackState| {
        let calls = state.calls.iter();
        calls
            .filter(|call| call.method == "conversations.replies")
            .count()
    };
    assert_eq!(emulator.with_state(reads), 3);
    // Outside of threads, this machine's clock may have been up to an hour ahead of Slack's.
    let later = |seconds| now() + jiff::Span::new().seconds(seconds);
    let found = channel.find(&named("root"), later(3_599)).await;
    assert_eq!(found, Ok(DeliveryLookup::Message(message_ref(&root.id))));
    let found = channel.find(&named("root"), later(3_602)).await;
    assert_eq!(found, Ok(DeliveryLookup::Nothing));
}

/// R17, R20
#[tokio::test]
async fn a_post_dated_days_in_the_future_is_found_in_its_thread() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let root = channel.deliver(&named("root")).await.unwrap().message.unwrap();
    let lost = in_thread("reply", &root.id);
    emulator.fail_next("chat.postMessage", 1, SlackFault::ResetAfter);
    assert!(channel.deliver(&lost).await.is_err());
    let ts = emulator.with_state(|state| state.messages.last().unwrap().ts.clone());
    let ahead = now() + jiff::SignedDuration::from_hours(48);
    assert_eq!(
        channel.find(&lost, ahead).await,
        Ok(DeliveryLookup::Message(message_ref(&ts)))
    );
}

#[tokio::test]
async fn lookup_is_inconclusive_without_the_scope_and_retried_after_a_failure() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let fail = |fault| emulator.fail_next("conversations.history", 1, fault);
    fail(SlackFault::Refuse("missing_scope".to_owned()));
    assert_eq!(
        channel.find(&named("lost"), now()).await,
        Ok(DeliveryLookup::CannotTell)
    );
    fail(SlackFault::Status {
        status: 429,
        retry_after_seconds: Some(7),
    });
    let busy = Err(limited("slack answered 429", Some(7)));
    assert_eq!(channel.find(&named("lost"), now()).await, busy);
    fail(SlackFault::ResetAfter);
    let broke = Err(not_sent("the connection to slack was lost", None));
    assert_eq!(channel.find(&named("lost"), now()).await, broke);
    // An ephemeral message disappears on reload, so it is sent again.
    let notice = Action::Notice {
        to: alice(),
        reply: Reply::text("x"),
    };
    let notice = op("C0OPS", None, notice);
    assert_eq!(channel.find(&notice, now()).await, Ok(DeliveryLookup::Nothing));
}
