//! Presses on our buttons: each stands for a command, once, for one person.

use super::{Answer, Asked, is_stop};
use crate::command::{Command, Verb};
use crate::gateway::Gateway;
use crate::gateway::compose::Address;
use crate::gateway::intake::hash_of_click;
use crate::model::{Action, InboxId, Kind, Op};
use crate::store::Taken;

impl Gateway {
    /// True for a `stop`, written or pressed.
    pub(super) async fn stops(&self, kind: &Kind) -> bool {
        match kind {
            Kind::Click { token, .. } => self.is_stop_button(token).await,
            kind => is_stop(kind),
        }
    }

    /// True for the button that stops a turn. One that cannot be read now is none.
    pub(super) async fn is_stop_button(&self, token: &str) -> bool {
        let verb = self.parts.store.action_verb(hash_of_click(token)).await;
        verb.is_ok_and(|verb| verb.as_deref().and_then(Verb::parse) == Some(Verb::Stop))
    }

    pub(super) async fn click(
        &self,
        asked: &Asked,
        address: &Address,
        token: &str,
        callback: Option<String>,
    ) -> anyhow::Result<Answer> {
        let inbound = &asked.inbound;
        let taken = self
            .parts
            .store
            .take_action(
                hash_of_click(token),
                &inbound.sender,
                asked.inbox,
                (self.parts.now)(),
            )
            .await?;
        let answer = |text: String| {
            let action = Action::AnswerClick {
                callback: callback.clone(),
                to: inbound.sender.clone(),
                text,
            };
            Op {
                place: inbound.aside(),
                ..address.op("click", action)
            }
        };
        let said = |text: String| {
            Ok(Answer {
                ops: vec![answer(text)],
                revision: None,
            })
        };
        let (verb, argument, conversation) = match taken {
            Taken::Yes {
                verb,
                argument,
                conversation,
            } => (verb, argument, conversation),
            Taken::Foreign { owner } => return said(format!("This button belongs to {owner}.")),
            Taken::Used => return said("That button was used already.".to_owned()),
            Taken::Expired | Taken::Unknown => {
                return said("That button is too old; type the command instead.".to_owned());
            }
        };
        // The clicker is authorised like a sender: a grant may be gone since the button was made.
        let Some((identity, verb)) = self.identity(inbound).zip(Verb::parse(&verb)) else {
            return said("That button does nothing any more.".to_owned());
        };
        let receipt = answer(format!("{} …", capital(verb.word())));
        let mut done = match verb {
            // It stops the message whose card it is on, not what runs by now.
            Verb::Stop => {
                let message = InboxId(argument.parse()?);
                Answer::post(address, self.stop_message(asked, conversation, message).await?)
            }
            _ => {
                let command = Command {
                    verb,
                    arguments: &argument,
                };
                self.carry_out(command, asked, address, &identity, conversation)
                    .await?
            }
        };
        done.ops.insert(0, receipt);
        Ok(done)
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
