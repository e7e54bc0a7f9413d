//! A change and its revisions.

use super::chat::{Chat, Person, Place, scale};
use super::on_each_platform;

async fn a_change_and_a_follow_up<C: Chat>() {
    let chat = C::begin(scale).await;
    chat.admit_editor(Person::Alice).await;
    let (thread, first) = chat.ask(Person::Alice, "from 2 to 4").await;
    let name = C::NAME;
    let text = C::text(&first);
    assert!(text.contains("CHG-1 is ready"), "{name}: {text}");
    assert!(text.contains("dev, 1 file, +1 −1"), "{name}: {text}");
    assert!(text.contains("+    replicas: 4,"), "{name}: {text}");
    assert_eq!(
        C::labels(&first),
        ["Get patch", "Full diff", "Revise", "Discard"],
        "{name}"
    );
    assert_eq!(C::side_effects(&first, Person::Alice), Vec::<String>::new());

    let second = chat.ask_in(Person::Alice, &thread, "from 4 to 5").await;
    let text = C::text(&second);
    assert!(text.contains("CHG-1 rev 2 is ready"), "{name}: {text}");
    assert!(text.contains("+    replicas: 5,"), "{name}: {text}");
    assert_eq!(
        C::labels(&second),
        ["Get patch", "Full diff", "Revise", "Undo", "Discard"],
        "{name}"
    );
    // The message of the first revision keeps its content, and loses its buttons.
    let replaced = "Replaced by CHG-1 rev 2 below.";
    let old = chat.wait_for_message(&thread, replaced).await;
    assert_eq!(C::labels(&old), Vec::<String>::new(), "{name}");
    assert!(C::text(&old).contains("+    replicas: 4,"), "{name}");

    let third = chat.ask_in(Person::Alice, &thread, "is that right?").await;
    let text = C::text(&third);
    assert!(text.contains("CHG-1 rev 2 stays as it was"), "{name}: {text}");
    assert_eq!(C::labels(&third), ["Show CHG-1"], "{name}");
    chat.press(Person::Alice, &third, "Show CHG-1").await;
    let shown = chat.wait_for_message(&thread, "CHG-1 rev 2: 1 file, +1 −1").await;
    assert!(C::text(&shown).contains("+    replicas: 5,"), "{name}");
    chat.app().wait_until_idle().await;
    assert_eq!(chat.results(&thread).len(), 3, "{name}");
    // Nothing of it is beside the thread.
    let texts = |place: &Place| -> Vec<String> { chat.messages(place).iter().map(C::text).collect() };
    let in_thread = texts(&thread);
    let beside = texts(&Place::Shared)
        .into_iter()
        .filter(|text| !in_thread.contains(text));
    assert_eq!(beside.collect::<Vec<_>>(), Vec::<String>::new(), "{name}");
}

/// STK-10
#[test]
fn a_request_is_a_change_and_a_follow_up_is_a_revision_of_it() {
    on_each_platform!(a_change_and_a_follow_up);
}
