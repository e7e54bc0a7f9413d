//! The buttons with which a person asks to join the conversation of a thread, and with which its person decides.

use super::press::{CountedPress, receipt};
use super::{ButtonEffect, CommandAnswer, CommandRunner};
use crate::base::model::{Action, Button, ButtonStyle, Op, Reply, ReplyPart, Sender};
use crate::engine::gateway::compose::Address;
use crate::engine::gateway::thread_question::{ThreadButton, owner_name};
use crate::engine::gateway::turn::new_button;
use crate::state::access::{Identity, account_of};
use crate::state::store::{NewAction, ReleaseOutcome, ThreadJoin, choice, choice_argument};

/// The answer to a button of a message that is not held any more.
pub(super) const GONE: &str =
    "That was decided already, or it was too long ago. Write the message again if it still counts.";

impl CommandRunner {
    /// Asks the person of a thread to let the clicker join.
    pub(super) async fn ask_to_join(&self, press: CountedPress<'_>) -> anyhow::Result<CommandAnswer> {
        let (held, _) = choice(press.argument);
        let store = &self.parts.store;
        let Some(message) = store.held_message(held).await? else {
            return Ok(press.said(GONE));
        };
        let owner = store.other_thread_owner(&message).await?;
        let admitted = owner.and_then(|owner| {
            let identity = self.parts.access.admit(&owner.sender)?;
            Some((owner, identity))
        });
        let Some((owner, owner_identity)) = admitted else {
            return Ok(CommandAnswer {
                buttons: ButtonEffect::Asks(Vec::new()),
                ..press.said("That conversation has ended. Press Start my own.")
            });
        };
        let new = |button: ThreadButton, label: String, style| {
            let action = (button.word(), choice_argument(held, None));
            let (token, action) = new_button(&self.parts, action, &owner_identity, owner.conversation);
            (Button::new(label, token, style), action)
        };
        let name = press.identity.name();
        let (yes, lets) = new(
            ThreadButton::LetJoin,
            format!("Let {name} join"),
            ButtonStyle::Primary,
        );
        let (no, declines) = new(ThreadButton::Decline, "No".to_owned(), ButtonStyle::Plain);
        let text = format!(
            "{name} asks to join this conversation. They would read its history and change what is prepared here, with \
             their own grants."
        );
        let reply = Reply {
            parts: vec![
                ReplyPart::Mention {
                    to: owner.sender.clone(),
                },
                ReplyPart::Text { text },
                ReplyPart::Buttons {
                    buttons: vec![yes, no],
                },
            ],
        };
        // It is for everybody in the thread to see, whatever the clicker's question was.
        let address = Address {
            place: message.place.clone(),
            reply_to: None,
            mention: None,
            ephemeral_to: None,
            response_url: None,
            ..press.address.clone()
        };
        let asked = receipt(
            press.asked,
            press.address,
            format!("I asked {}.", owner_name(&self.parts, &owner)),
        );
        Ok(CommandAnswer {
            buttons: ButtonEffect::Offers(vec![lets, declines]),
            ..CommandAnswer::ops(vec![asked, address.post("asks", reply)])
        })
    }

    /// Returns the answer to the press that lets a person join.
    pub(super) async fn let_join_answer(
        &self,
        press: CountedPress<'_>,
        joined: ThreadJoin,
    ) -> anyhow::Result<CommandAnswer> {
        let (person, message) = match joined {
            ThreadJoin::Joined { person, message } => (person, message),
            ThreadJoin::Gone => return Ok(press.replaced(Reply::text(GONE))),
            ThreadJoin::Mixed => {
                let text = "This conversation has used several repositories, which not everybody here may read, so nobody \
                            can join it. Write `!clear` to begin a new history, and let them ask again.";
                return Ok(press.replaced(Reply::text(text)));
            }
        };
        let name = self.name_of(&person);
        let (button, action) = self.end_button(&person, &name, press);
        let text = format!("{name} has joined this conversation. What they ask runs with their own grants.");
        let reply = Reply::text(text).with(ReplyPart::Buttons {
            buttons: vec![button],
        });
        let mut answer = CommandAnswer {
            buttons: ButtonEffect::Offers(vec![action]),
            ..press.replaced(reply)
        };
        if let Some(message) = message {
            answer.ops.extend(self.parts.released_form_words(message).await?);
        }
        Ok(answer)
    }

    fn end_button(&self, person: &Sender, name: &str, press: CountedPress<'_>) -> (Button, NewAction) {
        let action = (ThreadButton::End.word(), person.to_string());
        let (token, action) = new_button(&self.parts, action, press.identity, press.conversation);
        (
            Button::new(format!("Remove {name}"), token, ButtonStyle::Plain),
            action,
        )
    }

    /// Tells a person that they were not let in. Their message stays for a conversation of their own.
    pub(super) async fn decline_join(&self, press: CountedPress<'_>) -> anyhow::Result<CommandAnswer> {
        let (held, _) = choice(press.argument);
        let Some(message) = self.parts.store.held_message(held).await? else {
            return Ok(press.replaced(Reply::text(GONE)));
        };
        let name = self.name_of(&message.sender);
        let mut answer = press.replaced(Reply::text(format!("{name} does not join this conversation.")));
        let text = format!(
            "{} keeps this conversation. Press Start my own for one of yours, or write in a new thread.",
            press.identity.name()
        );
        let place = message.private_place();
        let address = Address {
            place,
            ..press.address.clone()
        };
        let notice = Action::Notice {
            to: message.sender,
            reply: Reply::text(text),
        };
        answer.ops.push(Op {
            response_url: None,
            ..address.op("declined", notice)
        });
        Ok(answer)
    }

    /// Ends what a person has joined.
    pub(super) async fn end_membership(&self, press: CountedPress<'_>) -> anyhow::Result<CommandAnswer> {
        let member = account_of(press.argument)?;
        let (store, now) = (&self.parts.store, (self.parts.now)());
        let ended = store.end_membership(press.conversation, &member, press.asked.inbox, now);
        let name = self.name_of(&member);
        let text = match ended.await? {
            true => format!("{name} is not part of this conversation any more."),
            false => format!("{name} was not part of this conversation any more."),
        };
        Ok(press.replaced(Reply::text(text)))
    }

    /// Returns the answer to the choice of a repository, or of a conversation of one's own.
    pub(super) async fn released_answer(
        &self,
        press: CountedPress<'_>,
        outcome: &ReleaseOutcome,
    ) -> anyhow::Result<CommandAnswer> {
        let (_, repository) = choice(press.argument);
        Ok(match (outcome, repository) {
            (ReleaseOutcome::Gone, _) => press.said(GONE),
            (ReleaseOutcome::Released { .. }, Some(repository)) => {
                press.replaced(Reply::text(format!("Repository: `{repository}`.")))
            }
            (ReleaseOutcome::Released { message }, None) => {
                let mut answer =
                    press.said("This is a conversation of your own now; I work on your message.");
                answer.ops.extend(self.parts.released_form_words(*message).await?);
                answer
            }
        })
    }

    fn name_of(&self, sender: &Sender) -> String {
        let identity: Option<Identity> = self.parts.access.admit(sender);
        identity.map_or_else(|| sender.to_string(), |identity| identity.name().to_owned())
    }
}
