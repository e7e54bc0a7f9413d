//! Tests of the search for a post whose answer was lost.

use super::*;
use crate::channel::Found;

fn in_thread(id: &str, thread: &str) -> Op {
    Op {
        id: id.to_owned(),
        place: Place {
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
        assert_eq!(channel.find(&op, now()).await, Ok(Found::Nothing));
        emulator.fail_next("chat.postMessage", 1, Fault::ResetBefore);
        assert!(channel.deliver(&op).await.is_err());
        assert_eq!(channel.find(&op, now()).await, Ok(Found::Nothing));
        emulator.fail_next("chat.postMessage", 1, Fault::ResetAfter);
        assert!(channel.deliver(&op).await.is_err());
        let ts = emulator.look(|state| state.messages.last().unwrap().ts.clone());
        assert_eq!(channel.find(&op, now()).await, Ok(Found::Message(on(&ts))));
    }
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

/// A file carries no metadata: its title names the message it answers, so that the same file that another message
/// asked for is not taken for it.
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
    assert_eq!(channel.find(&lost, now()).await, Ok(Found::Nothing));
    emulator.fail_next("files.completeUploadExternal", 1, Fault::ResetAfter);
    assert!(channel.deliver(&lost).await.is_err());
    let ts = emulator.look(|state| state.messages.last().unwrap().ts.clone());
    assert_eq!(channel.find(&lost, now()).await, Ok(Found::Message(on(&ts))));
    for other in [
        file("inbox-8/CHG-1.diff", "CHG-1.diff"),
        file("inbox-7/CHG-1.patch", "CHG-1.patch"),
    ] {
        assert_eq!(channel.find(&other, now()).await, Ok(Found::Nothing));
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
    assert_eq!(channel.find(&named("lost"), now()).await, Ok(Found::CannotTell));
}

/// Whoever may write into a channel may call a message anything.
#[tokio::test]
async fn what_somebody_else_wrote_is_not_ours() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let lost = named("lost");
    channel.deliver(&lost).await.unwrap();
    let elsewhere = Op {
        id: "lost".to_owned(),
        ..op("DU0ALICE", None, lost.action.clone())
    };
    emulator.add_channel("DU0ALICE", &["U0ALICE"]);
    assert_eq!(channel.find(&elsewhere, now()).await, Ok(Found::Nothing));
    assert_eq!(channel.find(&named("los"), now()).await, Ok(Found::Nothing));
    let claim = |state: &mut super::super::State| state.messages[0].user = "U0ALICE".to_owned();
    emulator.shared.change(claim);
    assert_eq!(channel.find(&lost, now()).await, Ok(Found::Nothing));
}

#[tokio::test]
async fn it_is_looked_for_through_pages_and_no_further_back_than_it_may_be() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let root = channel.deliver(&named("root")).await.unwrap().message.unwrap();
    for number in 0..450 {
        let op = in_thread(&format!("reply-{number}"), &root.id);
        channel.deliver(&op).await.unwrap();
    }
    let last = emulator.look(|state| state.messages.last().unwrap().ts.clone());
    let found = channel.find(&in_thread("reply-449", &root.id), now()).await;
    assert_eq!(found, Ok(Found::Message(on(&last))));
    let reads = |state: &super::super::State| {
        let calls = state.calls.iter();
        calls
            .filter(|call| call.method == "conversations.replies")
            .count()
    };
    assert_eq!(emulator.look(reads), 3);
    // Beside threads, our clock may have been an hour ahead of Slack's.
    let later = |seconds| now() + jiff::Span::new().seconds(seconds);
    let found = channel.find(&named("root"), later(3_599)).await;
    assert_eq!(found, Ok(Found::Message(on(&root.id))));
    let found = channel.find(&named("root"), later(3_602)).await;
    assert_eq!(found, Ok(Found::Nothing));
}

/// R17, R20
#[tokio::test]
async fn a_post_of_a_clock_that_was_days_ahead_is_found_in_its_thread() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let root = channel.deliver(&named("root")).await.unwrap().message.unwrap();
    let lost = in_thread("reply", &root.id);
    emulator.fail_next("chat.postMessage", 1, Fault::ResetAfter);
    assert!(channel.deliver(&lost).await.is_err());
    let ts = emulator.look(|state| state.messages.last().unwrap().ts.clone());
    let ahead = now() + jiff::SignedDuration::from_hours(48);
    assert_eq!(channel.find(&lost, ahead).await, Ok(Found::Message(on(&ts))));
}

#[tokio::test]
async fn whoever_may_not_look_cannot_tell_and_whoever_could_not_asks_again() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let fail = |fault| emulator.fail_next("conversations.history", 1, fault);
    fail(Fault::Refuse("missing_scope".to_owned()));
    assert_eq!(channel.find(&named("lost"), now()).await, Ok(Found::CannotTell));
    fail(Fault::Status {
        status: 429,
        retry_after_seconds: Some(7),
    });
    let busy = Err(limited("slack answered 429", Some(7)));
    assert_eq!(channel.find(&named("lost"), now()).await, busy);
    fail(Fault::ResetAfter);
    let broke = Err(not_sent("the connection to slack broke", None));
    assert_eq!(channel.find(&named("lost"), now()).await, broke);
    // What one person saw is gone on reload: they are told again.
    let notice = Action::Notice {
        to: alice(),
        reply: Reply::text("x"),
    };
    let notice = op("C0OPS", None, notice);
    assert_eq!(channel.find(&notice, now()).await, Ok(Found::Nothing));
}
