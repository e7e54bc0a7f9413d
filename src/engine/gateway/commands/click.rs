//! Button clicks. Each button belongs to one person and works once; one that only asks can be pressed again.

use super::joining::GONE;
use super::press::{CountedPress, awaited_receipt, receipt};
use super::result_button::ResultButton;
use super::retry::retry_reply;
use super::run_question::OLD_BUTTON;
use super::schedule::ScheduleButton;
use super::{AcceptedCommand, CommandAnswer, CommandRunner, is_stop};
use crate::base::model::{InboundKind, InboxId};
use crate::engine::command::{Command, Verb};
use crate::engine::gateway::access_request::AccessButton;
use crate::engine::gateway::compose::Address;
use crate::engine::gateway::intake::hash_of_click;
use crate::engine::gateway::thread_question::ThreadButton;
use crate::engine::gateway::turn::{ANSWER_VERB, REPOSITORY_VERB};
use crate::state::store::{ButtonOutcome, PressOutcome, ReleaseOutcome, RetryOutcome, ThreadJoin};

/// The effect of a press in the transaction that used its button.
enum PressEffect {
    None,
    /// A message runs again.
    Retried(RetryOutcome),
    /// A held message was released.
    Released(ReleaseOutcome),
    /// A person joined.
    Joined(ThreadJoin),
}

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

    /// Uses a button. One that stores a message again, or lets a person join, takes effect in the same transaction.
    async fn press(
        &self,
        asked: &AcceptedCommand,
        token: &str,
    ) -> anyhow::Result<(PressOutcome, PressEffect)> {
        let (store, hash) = (&self.parts.store, hash_of_click(token));
        let verb = store.action_verb(hash).await?.unwrap_or_default();
        let (by, inbox, at) = (&asked.inbound.sender, asked.inbox, (self.parts.now)());
        if Verb::parse(&verb) == Some(Verb::Retry) {
            let (pressed, retried) = self.press_retry(asked, hash).await?;
            return Ok((pressed, retried.map_or(PressEffect::None, PressEffect::Retried)));
        }
        let thread_button = ThreadButton::parse(&verb);
        if verb == REPOSITORY_VERB || thread_button == Some(ThreadButton::StartOwn) {
            let (pressed, released) = store.press_choice(hash, by, inbox, at).await?;
            return Ok((pressed, released.map_or(PressEffect::None, PressEffect::Released)));
        }
        if thread_button == Some(ThreadButton::LetJoin) {
            let (pressed, joined) = store.let_join(hash, by, inbox, at).await?;
            return Ok((pressed, joined.map_or(PressEffect::None, PressEffect::Joined)));
        }
        Ok((store.take_action(hash, by, inbox, at).await?, PressEffect::None))
    }

    async fn press_thread_button(
        &self,
        button: ThreadButton,
        press: CountedPress<'_>,
    ) -> anyhow::Result<CommandAnswer> {
        match button {
            ThreadButton::AskToJoin => self.ask_to_join(press).await,
            ThreadButton::Decline => self.decline_join(press).await,
            ThreadButton::End => self.end_membership(press).await,
            // These took effect with the press.
            ThreadButton::StartOwn | ThreadButton::LetJoin => Ok(press.said(GONE)),
        }
    }

    pub(super) async fn click(
        &self,
        asked: &AcceptedCommand,
        address: &Address,
        token: &str,
    ) -> anyhow::Result<CommandAnswer> {
        let inbound = &asked.inbound;
        if let Some(answered) = Box::pin(self.press_run_question(asked, address, token)).await? {
            return Ok(answered);
        }
        let (taken, effect) = self.press(asked, token).await?;
        let answer = |text: String| receipt(asked, address, text);
        let said = |text: String| Ok(CommandAnswer::ops(vec![answer(text)]));
        let (verb, argument, conversation) = match taken {
            PressOutcome::Counted {
                verb,
                argument,
                conversation,
            } => (verb, argument, conversation),
            PressOutcome::OtherOwner { owner } => return said(format!("This button belongs to {owner}.")),
            PressOutcome::Used => return said("That button was used already.".to_owned()),
            PressOutcome::Expired | PressOutcome::Unknown => return said(OLD_BUTTON.to_owned()),
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
        let press = CountedPress {
            asked,
            address,
            identity: &identity,
            conversation,
            argument: &argument,
        };
        let retried = match effect {
            PressEffect::None => None,
            PressEffect::Retried(outcome) => Some(outcome),
            PressEffect::Released(outcome) => return self.released_answer(press, &outcome).await,
            PressEffect::Joined(outcome) => return self.let_join_answer(press, outcome).await,
        };
        if let Some(button) = ThreadButton::parse(&verb) {
            return self.press_thread_button(button, press).await;
        }
        if let Some(button) = AccessButton::parse(&verb) {
            return self.decide_access(button, press).await;
        }
        if let Some(button) = ScheduleButton::parse(&verb) {
            return Box::pin(self.press_schedule_button(button, press)).await;
        }
        if let Some(button) = button {
            if let Some(refusal) = self.refusal_to_joined(asked, &identity, conversation).await? {
                return said(refusal.plain());
            }
            let mut done = self.press_result_button(button, press).await?;
            // The answer itself says what was done.
            done.ops.splice(0..0, awaited_receipt(asked, address));
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
                let done = self
                    .carry_out(command, asked, address, &identity, conversation)
                    .await?;
                match verb {
                    Verb::Patch => self.kept_for_everybody(done, conversation).await?,
                    _ => done,
                }
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
