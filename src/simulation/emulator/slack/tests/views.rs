//! Tests of modals with the real channel and webhook.

use super::events::gateway;
use super::*;

fn ask(thread: &str, trigger: Option<String>) -> Op {
    let action = Action::AskForWords {
        to: alice(),
        trigger,
        title: "Revise CHG-7".to_owned(),
        question: "What should be <different>?".to_owned(),
        about: "CHG-7 rev 2".to_owned(),
    };
    op("C0OPS", Some(thread), action)
}

/// Returns the trigger of the last press.
fn pressed(received: &Mutex<Vec<Inbound>>) -> Option<String> {
    match received
        .lock()
        .unwrap()
        .last()
        .map(|inbound| inbound.kind.clone())
    {
        Some(InboundKind::Click { trigger, .. }) => trigger,
        _ => None,
    }
}

#[tokio::test]
async fn a_press_opens_one_form_whose_words_come_back_in_the_thread() {
    let emulator = workspace().await;
    let channel = connected(&emulator).await;
    let gateway = gateway(&emulator, &channel).await;
    let root = channel.deliver(&posted("x")).await.unwrap().message.unwrap().id;
    let mut shown = post(Reply {
        parts: vec![ReplyPart::Buttons {
            buttons: vec![button("Revise")],
        }],
    });
    shown.place.thread = Some(root.clone());
    let ts = channel.deliver(&shown).await.unwrap().message.unwrap().id;
    emulator.click("U0ALICE", &ts, "Revise").await.unwrap();
    let trigger = pressed(&gateway.received);
    let opened = channel.deliver(&ask(&root, trigger.clone())).await.unwrap();
    assert_eq!(opened.message, None);
    let views = emulator.with_state(|state| state.views.clone());
    assert_eq!(views.len(), 1);
    assert_eq!(
        (views[0].user.as_str(), views[0].title()),
        ("U0ALICE", "Revise CHG-7")
    );

    emulator.submit("U0ALICE", "three & <not four>").await.unwrap();
    let words = gateway.received.lock().unwrap().last().cloned().unwrap();
    assert_eq!(
        words.kind,
        InboundKind::Text {
            text: "three & <not four>".to_owned(),
            quoted: None,
            addressed: true
        }
    );
    assert_eq!(words.sender.to_string(), "slack:T0ACME:U0ALICE");
    assert_eq!(words.about.as_deref(), Some("CHG-7 rev 2"));
    assert_eq!((words.place, words.message), (ask(&root, None).place, None));
    assert_eq!(words.delivery, [format!("slack:slack:view:{}", views[0].id)]);

    // A press opens no second form, and an old one opens none. Then the question is a message to the person.
    emulator.delay_triggers();
    emulator.click("U0ALICE", &ts, "Revise").await.unwrap();
    for trigger in [trigger, pressed(&gateway.received), None] {
        channel.deliver(&ask(&root, trigger)).await.unwrap();
    }
    let asked = emulator.with_state(|state| state.ephemerals.clone());
    let texts: Vec<String> = asked.iter().map(|message| message.visible().concat()).collect();
    assert_eq!(
        texts,
        ["What should be <different>? Write it in this conversation."; 3]
    );
    assert_eq!(emulator.with_state(|state| state.views.len()), 0);
    assert_eq!(emulator.problems(), Vec::<String>::new());
}
