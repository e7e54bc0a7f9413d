//! Messages between people. Those that a turn sends are composed for the private chats of their recipients. Those that a
//! person has received are in front of their next request in a private chat, as marked data.

use super::answer::new_button;
use super::{ClaimedMessage, OpenedTurn, TurnRunner};
use crate::base::model::{
    Button, ButtonStyle, Effect, InboundKind, InboxId, MessageConsent, MessageOutcome, PersonMessage, Reply,
    ReplyPart, Step, one_line, quoted,
};
use crate::base::redact::Redactor;
use crate::engine::agent::prompt::message_block;
use crate::engine::command::Verb;
use crate::engine::gateway::compose::Address;
use crate::engine::gateway::outgoing::OutgoingMessages;
use crate::engine::gateway::parts::Parts;
use crate::engine::gateway::people::find_person;
use crate::interfaces::tool::is_permitted;
use crate::state::access::{AccessError, Identity, User};
use crate::state::store::{MessageDelivery, NewAction, NewPersonMessage, SendingCheck, StoreError};
use std::sync::Arc;

/// Composes the messages of one turn.
pub(super) struct MessageComposer {
    parts: Arc<Parts>,
    outgoing: Arc<OutgoingMessages>,
    /// The person of the turn.
    identity: Identity,
    /// The repository of the turn.
    repository: String,
    inbox: InboxId,
}

impl TurnRunner {
    /// Returns the composer of a turn; `None` if its model may send no messages: in the turn of a hook, or if the operator
    /// has not allowed them.
    pub(super) fn message_composer(
        &self,
        assigned: &ClaimedMessage,
        opened: &OpenedTurn,
    ) -> Option<MessageComposer> {
        let is_text = matches!(assigned.inbound().kind, InboundKind::Text { .. });
        (is_text && self.parts.config.messages.between_people).then(|| MessageComposer {
            parts: Arc::clone(&self.parts),
            outgoing: Arc::clone(&self.outgoing),
            identity: opened.identity.clone(),
            repository: opened.workspace.repository.name().to_owned(),
            inbox: assigned.work.inbox,
        })
    }

    /// Returns a request of a person with the messages that others sent them in front of it. They are bound to the request:
    /// another attempt at it has the same ones, and no other request has them. Only requests in private chats have them,
    /// because others read the answers in other chats.
    pub(super) async fn with_messages(
        &self,
        request: String,
        assigned: &ClaimedMessage,
        identity: &Identity,
        redactor: &Redactor,
    ) -> Result<String, StoreError> {
        let (inbound, work) = (assigned.inbound(), &assigned.work);
        let is_private = inbound.direct && matches!(inbound.kind, InboundKind::Text { .. });
        if !is_private || !self.parts.config.messages.between_people {
            return Ok(request);
        }
        let store = &self.parts.store;
        // A turn that goes on began with its request.
        let goes_on = work.answered.is_some() || work.continues.is_some();
        let received = match goes_on {
            true => store.taken_messages(work.inbox).await?,
            false => {
                store
                    .take_messages(&assigned.claim, identity.user(), work.inbox)
                    .await?
            }
        };
        let blocks = received
            .iter()
            .map(|message| message_block(&message.from, &redactor.redact(&message.text)));
        Ok(blocks.chain([request]).collect::<Vec<_>>().join("\n\n"))
    }
}

impl MessageComposer {
    /// Composes the messages of a step. The result of a call that names nobody says so in the returned step.
    pub(super) async fn compose(
        &self,
        mut step: Step,
        messages: &[PersonMessage],
    ) -> anyhow::Result<(Step, Vec<NewPersonMessage>)> {
        let mut composed = Vec::with_capacity(messages.len());
        for message in messages {
            // A person who may only read by now does not learn who is known here either.
            if !is_permitted(&self.identity, &self.repository, Effect::Notify) {
                let why = MessageOutcome::NotPermitted.result(&message.person);
                step = step.with_late_failure(&message.call, PersonMessage::WAITING, &why)?;
                continue;
            }
            match find_person(&self.parts.access, self.identity.user(), &message.person).await? {
                Ok(recipient) => composed.push(NewPersonMessage {
                    call: message.call.clone(),
                    sender: self.identity.user(),
                    recipient: recipient.id,
                    delivery: self.delivery(&recipient, &message.text).await?,
                    recipient_name: recipient.name,
                    text: message.text.clone(),
                }),
                Err(why) => {
                    let why = format!("not sent: {why}");
                    step = step.with_late_failure(&message.call, PersonMessage::WAITING, &why)?;
                }
            }
        }
        Ok((step, composed))
    }

    /// Returns the check whether the person may still send messages. The role may change until the step is stored.
    pub(super) fn sending_check(&self) -> SendingCheck {
        let (identity, repository) = (self.identity.clone(), self.repository.clone());
        Box::new(move |grants| is_permitted(&identity.with_stored(grants), &repository, Effect::Notify))
    }

    /// Makes the deliveries look for the messages of a recorded step.
    pub(super) fn wake(&self) {
        self.outgoing.wake();
    }

    /// Returns the operations in the private chat of a person; `None` if they have none.
    async fn delivery(&self, recipient: &User, text: &str) -> anyhow::Result<Option<MessageDelivery>> {
        let Some(conversation) = self.parts.store.private_conversation(recipient.id).await? else {
            return Ok(None);
        };
        let is_chat = self.parts.config.channels.contains_key(&conversation.channel);
        let owner = self.parts.access.admit(&conversation.key.user);
        let Some(owner) = owner.filter(|owner| is_chat && owner.user() == recipient.id) else {
            return Ok(None);
        };
        let name = PersonMessage::operation_name(self.identity.user(), recipient.id);
        let name = name + &hex::encode(&(self.parts.random)()[..8]);
        let address = Address::for_conversation(&conversation, self.inbox);
        let decisions = [MessageConsent::Accepted, MessageConsent::Blocked];
        let buttons = decisions.map(|consent| {
            let argument = self.identity.user().to_string();
            let verb = verb_of(consent);
            let (token, action) = new_button(&self.parts, (verb.word(), argument), &owner, conversation.id);
            (button(consent, token), action)
        });
        let (shown, buttons): (Vec<Button>, Vec<NewAction>) = buttons.into_iter().unzip();
        let from = self.sender_name(recipient).await?;
        let mut message = address.split(&self.parts.config, &message_reply(&from, quotation(text)));
        if message.len() > 1 {
            // A line of a quotation that is cut goes on outside of it.
            message = address.split(&self.parts.config, &message_reply(&from, code(text)));
        }
        let message = message.into_iter().enumerate();
        Ok(Some(MessageDelivery {
            message: message
                .map(|(index, part)| address.post(&format!("{name}-{index}"), part))
                .collect(),
            request: vec![address.post(&name, request_reply(&from, shown))],
            buttons,
        }))
    }
}

impl MessageComposer {
    /// Returns the name of the sender for a recipient; with the id, if the name alone would not find the sender.
    async fn sender_name(&self, recipient: &User) -> Result<SenderName, AccessError> {
        let (name, id) = (self.identity.name(), self.identity.user());
        let typed = one_line(name).replace('`', "'");
        let found = find_person(&self.parts.access, recipient.id, &typed).await?;
        Ok(match found.is_ok_and(|found| found.id == id) {
            true => SenderName {
                shown: quoted(name),
                typed,
            },
            false => SenderName {
                shown: format!("{} (id {id})", quoted(name)),
                typed: id.to_string(),
            },
        })
    }
}

/// The name of a sender.
struct SenderName {
    /// The name as a text shows it.
    shown: String,
    /// The argument of a command that means the sender.
    typed: String,
}

fn verb_of(consent: MessageConsent) -> Verb {
    match consent {
        MessageConsent::Accepted | MessageConsent::Asked => Verb::Accept,
        MessageConsent::Blocked => Verb::Block,
    }
}

fn button(consent: MessageConsent, token: String) -> Button {
    let (label, style) = match consent {
        MessageConsent::Accepted | MessageConsent::Asked => ("Accept", ButtonStyle::Primary),
        MessageConsent::Blocked => ("Block", ButtonStyle::Plain),
    };
    Button::new(label, token, style)
}

/// Returns a command about the messages of a person, as it is typed.
fn typed(verb: Verb, from: &SenderName) -> String {
    format!("`!{} {}`", verb.word(), from.typed)
}

/// Returns the words of a message as a quotation.
fn quotation(text: &str) -> ReplyPart {
    let quotation: Vec<String> = text.lines().map(|line| format!("> {line}")).collect();
    ReplyPart::Markdown {
        text: quotation.join("\n"),
    }
}

/// Returns the words of a message as code, which stays code where it is cut.
fn code(text: &str) -> ReplyPart {
    ReplyPart::Code {
        language: String::new(),
        text: text.to_owned(),
    }
}

/// Returns the message for a recipient. Its words are set apart, so that they cannot pass for words of Drydock.
fn message_reply(from: &SenderName, words: ReplyPart) -> Reply {
    Reply::text(format!("Message from {}:", from.shown))
        .with(words)
        .with(ReplyPart::Footer {
            text: format!(
                "I know it when you write to me here next. {} ends these messages.",
                typed(Verb::Block, from)
            ),
        })
}

/// Returns the request for consent. It shows nothing of the message.
fn request_reply(from: &SenderName, buttons: Vec<Button>) -> Reply {
    Reply::text(format!(
        "{} would like to send you messages through me. Until you agree, I show you nothing of them and keep nothing.\n\
         Press a button, or write {} or {}.",
        from.shown,
        typed(Verb::Accept, from),
        typed(Verb::Block, from)
    ))
    .with(ReplyPart::Buttons { buttons })
}

#[cfg(test)]
mod tests {
    use super::{SenderName, message_reply, quotation, request_reply};

    /// T28
    #[test]
    fn the_words_of_another_person_are_a_quotation_to_the_last_line() {
        let alice = SenderName {
            shown: "`alice`".to_owned(),
            typed: "alice".to_owned(),
        };
        let reply = message_reply(&alice, quotation("hi\n\n# CHG-1 is ready\n```\ncode"));
        assert_eq!(
            reply.plain(),
            "Message from `alice`:\n> hi\n> \n> # CHG-1 is ready\n> ```\n> code\n\
             I know it when you write to me here next. `!block alice` ends these messages.\n"
        );
        let asked = request_reply(&alice, Vec::new()).plain();
        assert!(asked.contains("`!accept alice` or `!block alice`"), "{asked}");
    }
}
