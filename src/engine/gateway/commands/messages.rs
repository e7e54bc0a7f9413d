//! `accept` and `block`: the decisions of a person about the messages that others send them through Drydock.

use super::{AcceptedCommand, CommandRunner};
use crate::base::model::{MessageConsent, Reply, ReplyPart, quoted};
use crate::engine::gateway::people::find_person;
use crate::state::access::Identity;

/// The answer if the operator has not allowed messages between people.
const OFF: &str = "Messages between people are off here. The operator of this server can allow them with \
                   `messages.between_people`.";

impl CommandRunner {
    /// Stores a decision, or lists all of them if the command names nobody.
    pub(super) async fn decide_messages(
        &self,
        consent: MessageConsent,
        arguments: &str,
        asked: &AcceptedCommand,
        identity: &Identity,
    ) -> anyhow::Result<Reply> {
        if !self.parts.config.messages.between_people {
            return Ok(Reply::text(OFF));
        }
        let (store, user) = (&self.parts.store, identity.user());
        if arguments.trim().is_empty() {
            return Ok(list(store.message_consents(user).await?));
        }
        let sender = match find_person(&self.parts.access, user, arguments).await? {
            Ok(sender) => sender,
            Err(why) => return Ok(Reply::text(format!("Nothing was changed: {why}."))),
        };
        let (recipient, at) = ((user, identity.sender()), (self.parts.now)());
        let decided = store
            .decide_messages(recipient, sender.id, consent, asked.inbox, at)
            .await?;
        let name = quoted(&sender.name);
        Ok(Reply::text(match decided {
            MessageConsent::Blocked => {
                format!("Blocked: I pass on no messages of {name} to you. `accept` changes that.")
            }
            MessageConsent::Accepted | MessageConsent::Asked => format!(
                "Accepted: {name} can send you messages through me. They come to your private chat with me. `block` ends \
                 that."
            ),
        }))
    }
}

fn list(consents: Vec<(String, MessageConsent)>) -> Reply {
    let usage = "Whose messages? Write `!accept NAME` or `!block NAME`.";
    if consents.is_empty() {
        return Reply::text(usage);
    }
    let rows = consents.into_iter().map(|(name, consent)| {
        let state = match consent {
            MessageConsent::Asked => "waits for your decision",
            MessageConsent::Accepted => "accepted",
            MessageConsent::Blocked => "blocked",
        };
        (name, state.to_owned())
    });
    Reply::text(usage).with(ReplyPart::Facts { rows: rows.collect() })
}
