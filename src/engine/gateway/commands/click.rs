//! Button clicks. Each button belongs to one person and works once; one that only asks can be pressed again.

use super::result_button::{CountedPress, ResultButton};
use super::retry::retry_reply;
use super::{AcceptedCommand, CommandAnswer, CommandRunner, is_stop};
use crate::base::model::{Action, InboundKind, InboxId, Op};
use crate::engine::command::{Command, Verb};
use crate::engine::gateway::compose::Address;
use crate::engine::gateway::intake::hash_of_click;
use crate::engine::gateway::turn::ANSWER_VERB;
use crate::state::store::{ButtonOutcome, PressOutcome, RetryOutcome};

impl CommandRunner {
    /// True for a `stop` command or a click on a stop button.
    pub(super) async fn is_stop_request(&self, kind: &InboundKind) -> bool {
        match kind {
            InboundKind::Click { token, .. } => self.is_stop_button(token).await,
            kind => is_stop(kind),
        }
    }

    /// True for the button that stops a turn. If it cannot be read now, the result is false.
    pub(super) async fn is_stop_button(&self, token: &str) -> bool {
        let verb = self.parts.store.action_verb(hash_of_click(token)).await;
        verb.is_ok_and(|verb| verb.as_deref().and_then(Verb::parse) == Some(Verb::Stop))
    }

    /// True for the press of a button that changes nothing. If it cannot be read now, the result is false.
    pub(in crate::engine::gateway) async fn only_shows(&self, kind: &InboundKind) -> bool {
        let InboundKind::Click { token, .. } = kind else {
            return false;
        };
        let verb = self.parts.store.action_verb(hash_of_click(token)).await;
        let button = verb.ok().flatten().and_then(|verb| ResultButton::parse(&verb));
        button.is_some_and(ResultButton::only_shows)
    }

    /// Uses a button. The button that runs a message again takes effect in the same transaction.
    async fn press(
        &self,
        asked: &AcceptedCommand,
        token: &str,
    ) -> anyhow::Result<(PressOutcome, Option<RetryOutcome>)> {
        let (store, hash) = (&self.parts.store, hash_of_click(token));
        let verb = store.action_verb(hash).await?;
        if verb.as_deref().and_then(Verb::parse) == Some(Verb::Retry) {
            return self.press_retry(asked, hash).await;
        }
        let (by, at) = (&asked.inbound.sender, (self.parts.now)());
        Ok((store.take_action(hash, by, asked.inbox, at).await?, None))
    }

    pub(super) async fn click(
        &self,
        asked: &AcceptedCommand,
        address: &Address,
        token: &str,
        callback: Option<String>,
    ) -> anyhow::Result<CommandAnswer> {
        let inbound = &asked.inbound;
        let (taken, retried) = self.press(asked, token).await?;
        let answer = |text: String| {
            let action = Action::AnswerClick {
                callback: callback.clone(),
                to: inbound.sender.clone(),
                text,
            };
            Op {
                place: inbound.private_place(),
                ..address.op("click", action)
            }
        };
        let said = |text: String| Ok(CommandAnswer::ops(vec![answer(text)]));
        let (verb, argument, conversation) = match taken {
            PressOutcome::Counted {
                verb,
                argument,
                conversation,
            } => (verb, argument, conversation),
            PressOutcome::OtherOwner { owner } => return said(format!("This button belongs to {owner}.")),
            PressOutcome::Used => return said("That button was used already.".to_owned()),
            PressOutcome::Expired | PressOutcome::Unknown => {
                return said("That button is too old; type the command instead.".to_owned());
            }
        };
        if verb == ANSWER_VERB && self.parts.identity(inbound).is_some() {
            return said(self.answer_question(asked, &argument).await?);
        }
        // The clicker is authorised like a sender, because a grant may have been revoked since the button was made.
        let Some(identity) = self.parts.identity(inbound) else {
            return said("That button does nothing any more.".to_owned());
        };
        // A button of a time before questions.
        let platform = inbound.place.account.platform.chat();
        let is_asked = platform.is_some_and(|chat| chat.confirms_presses);
        let button = match Verb::parse(&verb) {
            Some(Verb::Discard) if !is_asked => Some(ResultButton::AskDiscard),
            _ => ResultButton::parse(&verb),
        };
        if let Some(button) = button {
            let press = CountedPress {
                asked,
                address,
                identity: &identity,
                conversation,
                argument: &argument,
            };
            let mut done = self.press_result_button(button, press).await?;
            // The platform waits for an answer to a press with a callback. The answer itself says what was done.
            let receipt = callback.is_some().then(|| answer(String::new()));
            done.ops.splice(0..0, receipt);
            return Ok(done);
        }
        let Some(verb) = Verb::parse(&verb) else {
            return said("That button does nothing any more.".to_owned());
        };
        let receipt = answer(format!("{} …", capital(verb.word())));
        let mut done = match verb {
            Verb::Retry => match retried {
                Some(outcome) => CommandAnswer::post(address, retry_reply(outcome)),
                None => return said("That button does nothing any more.".to_owned()),
            },
            // The button stops the message whose card it is on, not a later one.
            Verb::Stop => {
                let message = InboxId(argument.parse()?);
                CommandAnswer::post(address, self.stop_message(asked, conversation, message).await?)
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

    /// Answers a question with the choice of a button, and returns the text for the clicker.
    async fn answer_question(&self, asked: &AcceptedCommand, argument: &str) -> anyhow::Result<String> {
        let (choice, post) = argument.split_once(' ').unwrap_or((argument, ""));
        let (store, now) = (&self.parts.store, (self.parts.now)());
        let outcome = store
            .answer_question(asked.inbox, post, choice.parse()?, now)
            .await?;
        Ok(match outcome {
            ButtonOutcome::Answered { choice } => format!("Your answer: {choice}"),
            ButtonOutcome::Closed => "That question is closed already.".to_owned(),
        })
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
