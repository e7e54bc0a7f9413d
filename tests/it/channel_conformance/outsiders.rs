//! Outsiders: people without an invite, wherever they write or press.

use super::chat::{Chat, Person, Place, scale};
use super::on_each_platform;

const REFUSAL: &str = "Not authorised. I did nothing with that message (0 tokens).";

async fn an_outsider_writes_in_five_places<C: Chat>() {
    let chat = C::begin(scale).await;
    chat.admit_editor(Person::Alice).await;
    chat.arrive(Person::Eve);
    let (thread, result) = chat.ask(Person::Alice, "from 2 to 4").await;
    chat.app().wait_until_idle().await;
    let conversations = "SELECT count(*) FROM conversation";
    let asked = chat.app().model_requests().len();
    let stored = chat.app().count("SELECT count(*) FROM inbox");
    let known = chat.app().count(conversations);

    chat.say(Person::Eve, &Place::Direct(Person::Eve), "delete prod")
        .await;
    let notice = chat.wait_for_private_text(Person::Eve, 0).await;
    assert!(notice.starts_with(REFUSAL), "{}: {notice}", C::NAME);
    let id = format!("Your ID is {}: ", C::account(Person::Eve));
    let shown = |text: &str| text.contains(&id);
    assert!(shown(&notice), "{}: {notice}", C::NAME);
    chat.say(Person::Eve, &Place::Shared, "delete prod").await;
    chat.say(Person::Eve, &thread, "delete prod").await;
    chat.run_native(Person::Eve, "discard").await;
    chat.press(Person::Eve, &result, "Discard").await;
    // What follows is stored after everything before it.
    chat.ask_in(Person::Alice, &thread, "and now?").await;
    chat.app().wait_until_idle().await;

    let name = C::NAME;
    let notices = chat.private_texts(Person::Eve);
    let with_id = notices.iter().filter(|text| shown(text)).count();
    assert_eq!(with_id, 1, "{name}: one notice a day: {notices:?}");
    let app = chat.app();
    assert_eq!(app.count("SELECT count(*) FROM inbox"), stored + 1, "{name}");
    assert_eq!(app.model_requests().len(), asked + 1, "{name}");
    assert_eq!(app.count(conversations), known, "{name}");
    assert_eq!(chat.open_changes(), 1, "{name}");
    assert_eq!(chat.files(&thread), [], "{name}");
    let public = chat.messages(&Place::Shared);
    let told = public
        .iter()
        .filter(|message| C::text(message).contains("Not authorised"));
    assert_eq!(told.count(), 0, "{name}");
}

/// T01, I2
#[test]
fn an_outsider_gets_one_notice_and_costs_no_model_call_in_any_place() {
    on_each_platform!(an_outsider_writes_in_five_places);
}

async fn an_outsider_begins_with_a_command<C: Chat>() {
    let chat = C::begin(scale).await;
    chat.arrive(Person::Eve);
    chat.run_native(Person::Eve, "status").await;
    if C::ANSWERS_ALONE {
        let answer = chat.wait_for_private_text(Person::Eve, 0).await;
        assert!(answer.starts_with("Not authorised."), "{}: {answer}", C::NAME);
    } else {
        // What follows is answered after everything before it.
        chat.admit_editor(Person::Alice).await;
        assert_eq!(chat.private_texts(Person::Eve), Vec::<String>::new());
    }
    chat.app().wait_until_idle().await;
    assert_eq!(chat.app().model_requests().len(), 0);
    assert_eq!(chat.app().count("SELECT count(*) FROM conversation"), 0);
    assert_eq!(chat.messages(&Place::Shared).len(), 0, "{}", C::NAME);
}

/// T01: a command gets its private answer, also where others read.
#[test]
fn the_first_command_of_an_outsider_is_answered_to_them_alone() {
    on_each_platform!(an_outsider_begins_with_a_command);
}
