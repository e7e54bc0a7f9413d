//! Tests of containers: how they are shown, and what happens where they are not known.

use super::*;
use serde_json::Value;

fn folded() -> Reply {
    let fold = |title: &str, state| ReplyPart::Fold {
        title: title.to_owned(),
        state,
        parts: vec![
            ReplyPart::Text {
                text: "one `two`".to_owned(),
            },
            ReplyPart::Code {
                language: "diff".to_owned(),
                text: "-a\n+b\n".to_owned(),
            },
        ],
    };
    Reply::text("Before.")
        .with(fold("7 checks of `dev`", FoldState::Closed))
        .with(fold("lib/a.libsonnet", FoldState::Open))
}

#[tokio::test]
async fn a_fold_is_a_container_with_a_plain_title() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    channel.deliver(&post(folded())).await.unwrap();
    let posted = emulator
        .with_state(|state| state.messages.last().cloned())
        .unwrap();
    let containers: Vec<(Value, Value, usize)> = posted.request["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|block| block["type"] == "container")
        .map(|block| {
            let children = block["child_blocks"].as_array().unwrap().len();
            (
                block["title"]["text"].clone(),
                block["default_collapsed"].clone(),
                children,
            )
        })
        .collect();
    assert_eq!(
        containers,
        [
            (json!("7 checks of dev"), json!(true), 2),
            (json!("lib/a.libsonnet"), json!(false), 2)
        ]
    );
    // A notification shows what the screen shows before a touch.
    assert_eq!(
        posted.text,
        "Before.\n7 checks of `dev`\nlib/a.libsonnet\none `two`\n-a\n+b\n"
    );
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_workspace_without_containers_gets_their_content_and_is_not_asked_twice() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    emulator.fail_next(
        "chat.postMessage",
        1,
        SlackFault::Refuse("invalid_blocks".to_owned()),
    );
    for _ in 0..2 {
        channel.deliver(&post(folded())).await.unwrap();
        let posted = emulator
            .with_state(|state| state.messages.last().cloned())
            .unwrap();
        assert_eq!(
            posted.visible(),
            [
                "Before.",
                "7 checks of dev",
                "one two",
                "-a\n+b\n",
                "lib/a.libsonnet",
                "one two",
                "-a\n+b\n"
            ]
        );
    }
    let calls = emulator.with_state(|state| {
        let calls = state
            .calls
            .iter()
            .filter(|call| call.method == "chat.postMessage");
        calls.map(|call| call.refused.clone()).collect::<Vec<_>>()
    });
    assert_eq!(calls, [None, None]);
    assert_eq!(emulator.problems(), Vec::<String>::new());
}

/// A message that is wrong in another way is refused as before, after one more attempt.
#[tokio::test]
async fn another_refusal_of_blocks_stays_a_refusal() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    emulator.fail_next(
        "chat.postMessage",
        2,
        SlackFault::Refuse("invalid_blocks".to_owned()),
    );
    let refused = channel.deliver(&post(folded())).await;
    assert_eq!(refused, Err(SendError::Refused("invalid_blocks".to_owned())));
    channel.deliver(&post(folded())).await.unwrap();
    let posted = emulator
        .with_state(|state| state.messages.last().cloned())
        .unwrap();
    let kinds = posted.request["blocks"].as_array().unwrap().iter();
    assert_eq!(kinds.filter(|block| block["type"] == "container").count(), 2);
}
