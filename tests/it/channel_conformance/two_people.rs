//! Two people in one place.

use super::chat::{Chat, Person};
use super::on_each_platform;
use crate::support::app::step_number;
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use drydock::state::access::Role;
use serde_json::json;

fn script(asked: &ModelRequest) -> ScriptedAnswer {
    let words = asked.last_user_text();
    match step_number(asked) {
        0 if words.contains("CANARY-A") => calls(
            "file_write",
            json!({"path": "environments/dev/alice.txt", "content": "CANARY-A\n"}),
        ),
        0 if words.contains("do it") => calls(
            "file_write",
            json!({"path": "environments/dev/bob.txt", "content": "x\n"}),
        )
        .with_call("file_read", json!({"path": "environments/dev/alice.txt"}))
        .with_call("file_read", json!({"path": "../1/environments/dev/alice.txt"}))
        .with_call("git_diff", json!({})),
        _ => says("So be it."),
    }
}

async fn two_people_in_one_thread<C: Chat>() {
    let chat = C::begin(script).await;
    chat.admit_editor(Person::Alice).await;
    chat.admit(Person::Bob, Role::Viewer, &["**"]).await;
    let name = C::NAME;
    let (thread, alice) = chat.ask(Person::Alice, "CANARY-A please").await;
    assert!(C::text(&alice).contains("CHG-1 is ready"), "{name}");
    chat.app().wait_until_idle().await;
    let before = chat.results(&thread).len();
    chat.say(Person::Bob, &thread, "yes do it").await;
    chat.start_own(Person::Bob, &thread).await;
    let bob = chat.wait_for_result(&thread, before + 1).await;
    assert!(!C::text(&bob).contains("is ready"), "{name}: {}", C::text(&bob));
    let last = chat.app().model_requests().pop().unwrap();
    assert!(!last.raw.contains("CANARY-A"), "{name}: {}", last.raw);
    let results = last.last_results();
    assert!(
        results[..3].iter().all(|result| result.is_error),
        "{name}: {results:?}"
    );
    assert!(
        results[0].content.contains("not available to this person"),
        "{name}: {results:?}"
    );
    // Bob's commands in Alice's thread refer to Bob's conversation.
    chat.app().wait_until_idle().await;
    chat.say(Person::Bob, &thread, "discard").await;
    chat.wait_for_message(&thread, "Nothing is prepared here.").await;
    chat.app().wait_until_idle().await;
    assert_eq!(chat.open_changes(), 1, "{name}");
    chat.follow_up(Person::Alice, &thread, "diff").await;
    chat.wait_for("her diff", || {
        let messages = chat.messages(&thread).into_iter().skip(2);
        messages
            .map(|message| C::text(&message))
            .find(|text| text.contains("+CANARY-A"))
    })
    .await;
    chat.app().wait_until_idle().await;
}

/// T26, T29
#[test]
fn in_a_thread_everybody_has_their_own_conversation_and_their_own_role() {
    on_each_platform!(two_people_in_one_thread);
}
