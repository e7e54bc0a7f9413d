//! Invites: redeemed once, in the own chat of a person, and revoked where others read them.

use super::chat::{Chat, Person, Place, scale};
use super::on_each_platform;
use drydock::state::access::Role;

async fn an_invite_is_used<C: Chat>() {
    let chat = C::begin(scale).await;
    let direct = |person| Place::Direct(person);
    for person in [Person::Alice, Person::Bob] {
        chat.arrive(person);
    }
    let shown = chat.app().invite("shown", Role::Editor, &["**"]).await;
    chat.say(Person::Bob, &Place::Shared, &format!("join {shown}"))
        .await;
    chat.app().wait_for_audit_line("invite.burned").await;
    chat.say(Person::Bob, &direct(Person::Bob), &format!("join {shown}"))
        .await;
    chat.wait_for_message(&direct(Person::Bob), "This invite is not valid")
        .await;

    let token = chat.app().invite("alice", Role::Editor, &["**"]).await;
    chat.say(Person::Alice, &direct(Person::Alice), &format!("join {token}"))
        .await;
    chat.wait_for_message(&direct(Person::Alice), "You're in").await;
    chat.say(Person::Bob, &direct(Person::Bob), &format!("join {token}"))
        .await;
    let refusals = || {
        let messages = chat.messages(&direct(Person::Bob));
        let refused = messages
            .iter()
            .filter(|message| C::text(message).contains("This invite is not valid"));
        (refused.count() == 2).then_some(())
    };
    chat.wait_for("a second refusal", refusals).await;
    // Neither invite has admitted Bob.
    chat.say(Person::Bob, &direct(Person::Bob), "delete prod").await;
    chat.say(Person::Alice, &direct(Person::Alice), "is anything new?")
        .await;
    chat.wait_for_message(&direct(Person::Alice), "Done as requested.")
        .await;
    chat.app().wait_until_idle().await;
    assert_eq!(chat.app().model_requests().len(), 1, "{}", C::NAME);
}

#[test]
fn an_invite_is_redeemed_once_in_the_own_chat_of_a_person_and_revoked_elsewhere() {
    on_each_platform!(an_invite_is_used);
}
