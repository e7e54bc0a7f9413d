//! Presses on our buttons: each stands for a command, once, for one person.

use crate::command::{Command, Verb};
use crate::gateway::Gateway;
use crate::gateway::compose::Address;
use crate::model::{Action, Inbound, Op};
use crate::store::Taken;
use sha2::{Digest, Sha256};

impl Gateway {
    pub(super) async fn click(
        &self,
        address: &Address,
        inbound: &Inbound,
        token: &str,
        callback: Option<String>,
    ) -> anyhow::Result<Vec<Op>> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let taken = self
            .parts
            .store
            .take_action(hash, &inbound.sender, (self.parts.now)())
            .await?;
        let answer = |text: String| {
            let action = Action::AnswerClick {
                callback: callback.clone(),
                to: inbound.sender.clone(),
                text,
            };
            address.op("click", action)
        };
        let (verb, conversation) = match taken {
            Taken::Yes {
                verb, conversation, ..
            } => (verb, conversation),
            Taken::Foreign { owner } => return Ok(vec![answer(format!("This button belongs to {owner}."))]),
            Taken::Used => return Ok(vec![answer("That button was used already.".to_owned())]),
            Taken::Expired | Taken::Unknown => {
                return Ok(vec![answer(
                    "That button is too old; type the command instead.".to_owned(),
                )]);
            }
        };
        // The clicker is authorised like a sender: a grant may be gone since the button was made.
        let Some((identity, verb)) = self.identity(inbound).zip(Verb::parse(&verb)) else {
            return Ok(vec![answer("That button does nothing any more.".to_owned())]);
        };
        let mut ops = vec![answer(format!("{} …", capital(verb.word())))];
        let command = Command { verb, arguments: "" };
        ops.extend(self.carry_out(command, address, &identity, conversation).await?);
        Ok(ops)
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
