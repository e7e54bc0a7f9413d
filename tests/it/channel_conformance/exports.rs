//! The export of a conversation: to its person, in their own chat.

use super::chat::{Chat, Person, Place, scale};
use super::on_each_platform;

async fn an_export<C: Chat>() {
    let chat = C::begin(scale).await;
    chat.admit_editor(Person::Alice).await;
    chat.admit_editor(Person::Bob).await;
    let name = C::NAME;
    let (place, _) = chat.ask(Person::Alice, "from 2 to 4").await;
    chat.app().wait_until_idle().await;
    chat.follow_up(Person::Alice, &place, "export").await;
    let told = chat
        .wait_for_message(&place, "Others would see a file here.")
        .await;
    let told = C::text(&told);
    let (_, rest) = told.split_once("!export ").unwrap();
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let command = format!("!export {number}");

    let of_bob = chat.say(Person::Bob, &Place::Direct(Person::Bob), &command).await;
    chat.wait_for_message(&of_bob, "No such session.").await;
    chat.app().wait_until_idle().await;
    assert!(chat.files(&of_bob).is_empty(), "{name}");
    let of_alice = chat
        .say(Person::Alice, &Place::Direct(Person::Alice), &command)
        .await;
    let file = format!("conversation-{number}.jsonl");
    let (_, content) = chat
        .wait_for("an exported conversation", || {
            let files = chat.files(&of_alice).into_iter();
            files.rev().find(|(name, _)| *name == file)
        })
        .await;
    assert!(
        content.contains("from 2 to 4") && content.contains("\"change\":\"CHG-1"),
        "{name}: {content}"
    );
    chat.app().wait_until_idle().await;
    let files = chat.files(&place);
    assert!(files.iter().all(|(name, _)| *name != file), "{name}: {files:?}");
}

/// T33
#[test]
fn a_conversation_is_exported_to_its_person_on_every_platform() {
    on_each_platform!(an_export);
}
