//! The buttons below a result: their owner, other people, a second press, old revisions, a restart and their end.

use super::chat::{Chat, Person, Place, scale};
use super::on_each_platform;
use crate::support::world;
use drydock::state::access::Role;

const STALE: &str = "That was rev 1, so nothing was done; CHG-1 rev 2 is the newest, and diff shows it.";

/// Returns how often a text is shown in a place or to a person.
fn count<C: Chat>(chat: &C, place: &Place, person: Person, text: &str) -> usize {
    let messages = chat.messages(place).into_iter().map(|message| C::text(&message));
    let all = messages.chain(chat.private_texts(person));
    all.filter(|shown| shown.contains(text)).count()
}

/// Waits until a text was shown to a person, in a place or privately.
async fn wait_for_text<C: Chat>(chat: &C, place: &Place, person: Person, text: &str) {
    let what = format!("`{text}` for {person:?}");
    chat.wait_for(&what, || (count(chat, place, person, text) > 0).then_some(()))
        .await;
}

/// Presses [Discard], and answers the question if the platform has no dialog for it.
async fn discard<C: Chat>(chat: &C, place: &Place, (message, change): (&C::Message, &str)) {
    chat.press(Person::Alice, message, "Discard").await;
    let what = "a question or a discarded change";
    let question = chat
        .wait_for(what, || {
            let mut newest = chat.messages(place).into_iter().rev();
            let asked = newest.find(|shown| C::labels(shown).iter().any(|label| label == "Keep it"));
            match asked {
                Some(question) => Some(Some(question)),
                None => (chat.open_changes() == 0).then_some(None),
            }
        })
        .await;
    if let Some(question) = question {
        let label = C::labels(&question).remove(0);
        chat.press(Person::Alice, &question, &label).await;
    }
    wait_for_text(chat, place, Person::Alice, &format!("{change} is discarded")).await;
}

async fn other_people_press<C: Chat>() {
    let chat = C::begin(scale).await;
    chat.admit_editor(Person::Alice).await;
    chat.admit(Person::Bob, Role::Admin, &["**"]).await;
    chat.arrive(Person::Eve);
    let (thread, _) = chat.ask(Person::Alice, "from 2 to 4").await;
    let result = chat.ask_in(Person::Alice, &thread, "from 4 to 5").await;
    let unchanged = chat.ask_in(Person::Alice, &thread, "is that right?").await;
    chat.app().wait_until_idle().await;
    let asked = chat.app().model_requests().len();
    let refusal = format!("This button belongs to {}.", C::name(Person::Alice));
    let buttons = [&result, &unchanged]
        .map(|message| C::labels(message).into_iter().map(move |label| (message, label)));
    let buttons: Vec<(&C::Message, String)> = buttons.into_iter().flatten().collect();
    assert_eq!(buttons.len(), 6, "{}: {buttons:?}", C::NAME);
    for (n, (message, label)) in buttons.iter().enumerate() {
        chat.press(Person::Bob, message, label).await;
        let refused = || (count(&chat, &thread, Person::Bob, &refusal) > n).then_some(());
        chat.wait_for(&format!("a refusal of {label}"), refused).await;
        chat.press(Person::Eve, message, label).await;
        chat.app().wait_until_idle().await;
    }
    let name = C::NAME;
    assert_eq!(chat.app().model_requests().len(), asked, "{name}");
    assert_eq!(chat.open_changes(), 1, "{name}");
    assert_eq!(chat.files(&thread), [], "{name}");
    let used = "SELECT count(*) FROM action WHERE used_at IS NOT NULL";
    assert_eq!(chat.app().count(used), 0, "{name}");
    // Nothing of it took the buttons from their owner.
    chat.press(Person::Alice, &result, "Get patch").await;
    chat.wait_for("a patch", || chat.files(&thread).pop()).await;
    chat.app().wait_until_idle().await;
}

/// T07
#[test]
fn no_button_works_for_anybody_but_its_owner() {
    on_each_platform!(other_people_press);
}

async fn the_owner_presses_twice<C: Chat>() {
    let mut chat = C::begin(scale).await;
    chat.admit_editor(Person::Alice).await;
    let (thread, first) = chat.ask(Person::Alice, "from 2 to 4").await;
    let name = C::NAME;
    for _ in 0..2 {
        chat.press(Person::Alice, &first, "Get patch").await;
        chat.wait_for("a patch", || chat.files(&thread).pop()).await;
        chat.app().wait_until_idle().await;
    }
    let files = chat.files(&thread);
    let patches: Vec<&String> = files
        .iter()
        .filter(|(name, _)| name == "CHG-1.patch")
        .map(|(_, content)| content)
        .collect();
    assert_eq!(patches.len(), 1, "{name}: {files:?}");
    assert!(patches[0].contains("+    replicas: 4,"), "{name}");

    for shown in ["Deployment", "That button was used already."] {
        chat.press(Person::Alice, &first, "Full diff").await;
        wait_for_text(&chat, &thread, Person::Alice, shown).await;
        chat.app().wait_until_idle().await;
    }

    let second = chat.ask_in(Person::Alice, &thread, "from 4 to 5").await;
    chat.app().wait_until_idle().await;
    // The restart makes no difference.
    chat.restart().await;
    for _ in 0..2 {
        chat.press(Person::Alice, &second, "Undo").await;
        wait_for_text(&chat, &thread, Person::Alice, "Undone. CHG-1 rev 3").await;
        chat.app().wait_until_idle().await;
    }
    assert_eq!(count(&chat, &thread, Person::Alice, "Undone."), 1, "{name}");
    assert_eq!(chat.open_changes(), 1, "{name}");
}

#[test]
fn a_button_that_is_pressed_twice_works_once() {
    on_each_platform!(the_owner_presses_twice);
}

async fn a_change_is_discarded<C: Chat>() {
    let chat = C::begin(scale).await;
    chat.admit_editor(Person::Alice).await;
    let (thread, result) = chat.ask(Person::Alice, "from 2 to 4").await;
    discard(&chat, &thread, (&result, "CHG-1")).await;
    assert_eq!(chat.open_changes(), 0, "{}", C::NAME);
    chat.press(Person::Alice, &result, "Discard").await;
    chat.app().wait_until_idle().await;
    let closed = chat.wait_for_result(&thread, 1).await;
    assert_eq!(C::labels(&closed), Vec::<String>::new(), "{}", C::NAME);
    let discarded = chat.app().audit_lines_with("change.discarded").len();
    assert!(discarded <= 1, "{}: {discarded}", C::NAME);
}

#[test]
fn a_change_is_discarded_once_and_its_result_loses_its_buttons() {
    on_each_platform!(a_change_is_discarded);
}

async fn a_replaced_revision<C: Chat>() {
    let chat = C::begin(scale).await;
    chat.admit_editor(Person::Alice).await;
    let (thread, first) = chat.ask(Person::Alice, "from 2 to 4").await;
    chat.ask_in(Person::Alice, &thread, "from 4 to 5").await;
    chat.app().wait_until_idle().await;
    for (n, label) in C::labels(&first).iter().enumerate() {
        chat.press(Person::Alice, &first, label).await;
        let told = || (count(&chat, &thread, Person::Alice, STALE) > n).then_some(());
        chat.wait_for(&format!("that {label} is stale"), told).await;
    }
    chat.app().wait_until_idle().await;
    assert_eq!(chat.files(&thread), [], "{}", C::NAME);
    assert_eq!(chat.open_changes(), 1, "{}", C::NAME);
}

#[test]
fn the_buttons_of_a_replaced_revision_do_nothing_and_say_so() {
    on_each_platform!(a_replaced_revision);
}

async fn a_restart<C: Chat>() {
    let mut chat = C::begin(scale).await;
    chat.admit_editor(Person::Alice).await;
    let (thread, result) = chat.ask(Person::Alice, "from 2 to 4").await;
    chat.app().wait_until_idle().await;
    chat.restart().await;
    chat.press(Person::Alice, &result, "Get patch").await;
    let (name, patch) = chat.wait_for("a patch", || chat.files(&thread).pop()).await;
    assert_eq!(name, "CHG-1.patch", "{}", C::NAME);
    assert!(patch.contains("+    replicas: 4,"), "{}", C::NAME);
    chat.press(Person::Alice, &result, "Full diff").await;
    wait_for_text(&chat, &thread, Person::Alice, "Deployment").await;
    chat.revise(Person::Alice, &thread, &result, "from 4 to 5").await;
    let revised = chat.wait_for_result(&thread, 2).await;
    let text = C::text(&revised);
    assert!(text.contains("CHG-1 rev 2 is ready"), "{}: {text}", C::NAME);
    chat.app().wait_until_idle().await;
    chat.restart().await;
    discard(&chat, &thread, (&revised, "CHG-1 rev 2")).await;
    chat.app().wait_until_idle().await;
    assert_eq!(chat.files(&thread).len(), 1, "{}", C::NAME);
}

#[test]
fn buttons_work_after_a_restart() {
    on_each_platform!(a_restart);
}

async fn time_goes_on<C: Chat, const CLOCK: usize>() {
    let chat = C::start(scale, world::world::<CLOCK>()).await;
    chat.admit_editor(Person::Alice).await;
    chat.arrive(Person::Bob);
    let late = chat.app().invite("bob", Role::Editor, &["**"]).await;
    let (thread, result) = chat.ask(Person::Alice, "from 2 to 4").await;
    chat.app().wait_until_idle().await;
    world::advance::<CLOCK>(8 * 24 * 3_600);
    chat.say(Person::Bob, &Place::Direct(Person::Bob), &format!("join {late}"))
        .await;
    chat.wait_for_message(&Place::Direct(Person::Bob), "This invite is not valid")
        .await;
    for (n, label) in C::labels(&result).iter().enumerate() {
        chat.press(Person::Alice, &result, label).await;
        let told = || (count(&chat, &thread, Person::Alice, "too old") > n).then_some(());
        chat.wait_for(&format!("that {label} is too old"), told).await;
    }
    chat.app().wait_until_idle().await;
    assert_eq!(chat.files(&thread), [], "{}", C::NAME);
    assert_eq!(chat.open_changes(), 1, "{}", C::NAME);
}

/// The platforms share a clock that moves, so they run one after the other.
#[tokio::test]
async fn an_invite_and_a_button_are_worthless_when_their_time_is_over() {
    Box::pin(time_goes_on::<super::slack::SlackChat, 1>()).await;
    Box::pin(time_goes_on::<super::telegram::TelegramChat, 1>()).await;
    Box::pin(time_goes_on::<super::discord::DiscordChat, 1>()).await;
}
