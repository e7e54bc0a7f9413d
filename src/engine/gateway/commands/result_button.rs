//! The buttons below a result that stand for no command: they show the change, ask for words about it, or ask before it
//! is discarded. A press that only asks can be repeated.

use super::change::replaced_text;
use super::conversation::busy_reply;
use super::press::CountedPress;
use super::{ButtonEffect, CommandAnswer, CommandRunner};
use crate::base::model::{
    Action, Button, ButtonStyle, ChangeName, ConversationId, InboundKind, Reply, ReplyPart, Role,
};
use crate::engine::command::Verb;
use crate::engine::gateway::turn::new_button;

/// A button below a result, or below the question whether to discard it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::gateway) enum ResultButton {
    /// Shows the rendered difference of every environment.
    FullDiff,
    /// Shows the prepared change.
    Show,
    /// Asks for words about what should be different.
    Revise,
    /// Asks whether to discard the change, on a platform that does not ask before a press.
    AskDiscard,
    /// Discards the change.
    ConfirmDiscard,
    /// Keeps the change.
    Keep,
    /// Moves the change of a hook into the conversation of the person who presses.
    TakeOver,
}

impl ResultButton {
    const ALL: [Self; 7] = [
        Self::FullDiff,
        Self::Show,
        Self::Revise,
        Self::AskDiscard,
        Self::ConfirmDiscard,
        Self::Keep,
        Self::TakeOver,
    ];

    /// Returns the word by which the button is stored.
    pub(in crate::engine::gateway) const fn word(self) -> &'static str {
        match self {
            Self::FullDiff => "diff",
            Self::Show => "show",
            Self::Revise => "revise",
            Self::AskDiscard => "ask-discard",
            Self::ConfirmDiscard => "confirm-discard",
            Self::Keep => "keep",
            Self::TakeOver => "take-over",
        }
    }

    /// Finds a button by the word of its action.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|button| button.word() == word)
    }

    /// Returns the words of the buttons that decide whether a change is discarded.
    pub(super) const fn decisions() -> [&'static str; 2] {
        [Self::ConfirmDiscard.word(), Self::Keep.word()]
    }

    /// True if a press never changes the workspace, the history or the running turn.
    pub(super) fn only_shows(self) -> bool {
        match self {
            Self::FullDiff | Self::Show => true,
            Self::Revise | Self::AskDiscard | Self::ConfirmDiscard | Self::Keep | Self::TakeOver => false,
        }
    }
}

impl CommandRunner {
    /// Does what a button below a result is for.
    pub(super) async fn press_result_button(
        &self,
        button: ResultButton,
        press: CountedPress<'_>,
    ) -> anyhow::Result<CommandAnswer> {
        let CountedPress {
            asked,
            address,
            identity,
            conversation,
            argument,
        } = press;
        match button {
            ResultButton::FullDiff => {
                let shown = Box::pin(self.full_diff(argument, address, identity, conversation)).await?;
                self.kept_for_everybody(CommandAnswer::ops(shown), conversation)
                    .await
            }
            ResultButton::Show => {
                let shown = self.diff(argument, address, identity, conversation);
                Ok(CommandAnswer::ops(shown.await?))
            }
            ResultButton::Revise => self.ask_for_revision(press).await,
            ResultButton::TakeOver => self.take_over(press).await,
            ResultButton::AskDiscard => match self.discard_refusal(press).await? {
                Some(refusal) => Ok(CommandAnswer {
                    buttons: ButtonEffect::Asks(Vec::new()),
                    ..CommandAnswer::post(address, refusal)
                }),
                None => self.ask_before_discard(press).await,
            },
            ResultButton::ConfirmDiscard => {
                if let Some(refusal) = self.discard_refusal(press).await? {
                    return Ok(CommandAnswer::ops(vec![press.in_place(refusal)]));
                }
                let (reply, closing) = self.discard(argument, asked, address, conversation).await?;
                match reply == busy_reply() {
                    // Nothing is decided yet, so the question stays.
                    true => Ok(CommandAnswer {
                        buttons: ButtonEffect::Asks(Vec::new()),
                        ..CommandAnswer::post(address, reply)
                    }),
                    false => {
                        let mut answer = decided(press, reply);
                        answer.ops.extend(closing);
                        Ok(answer)
                    }
                }
            }
            ResultButton::Keep => {
                let reply = match self.why_replaced(argument, conversation).await? {
                    None => Reply::text(format!("{argument} is kept.")),
                    Some(why) => Reply::text(why),
                };
                Ok(decided(press, reply))
            }
        }
    }

    /// Returns the answer to the press of a button of a hook's change, which stays for everybody else.
    pub(super) async fn kept_for_everybody(
        &self,
        answer: CommandAnswer,
        conversation: ConversationId,
    ) -> anyhow::Result<CommandAnswer> {
        Ok(match self.is_of_hook(conversation).await? {
            true => CommandAnswer {
                buttons: ButtonEffect::Asks(Vec::new()),
                ..answer
            },
            false => answer,
        })
    }

    async fn is_of_hook(&self, conversation: ConversationId) -> anyhow::Result<bool> {
        let owner = self.parts.store.conversation(conversation).await?.key.user;
        Ok(owner.platform.chat().is_none())
    }

    /// Returns why a person may not discard the change of a hook: that needs the grants with which they could take it over.
    /// Their own change is theirs to discard, whatever they may do now. A discard that was stored before the answer is
    /// reported as done.
    async fn discard_refusal(&self, press: CountedPress<'_>) -> anyhow::Result<Option<Reply>> {
        let store = &self.parts.store;
        if !self.is_of_hook(press.conversation).await? || store.has_effect(press.asked.inbox).await? {
            return Ok(None);
        }
        let asking = (Verb::Discard, "discarded");
        let named = self.named_change(asking, press.argument, press.identity, press.conversation);
        Ok(match named.await? {
            Ok(change) if press.identity.role(&change.repository) < Some(Role::Editor) => {
                let text = format!("Only an editor of `{}` discards {change}.", change.repository);
                Some(Reply::text(text))
            }
            Ok(_) => None,
            Err(reply) => Some(reply),
        })
    }

    async fn ask_for_revision(&self, press: CountedPress<'_>) -> anyhow::Result<CommandAnswer> {
        let asking = (Verb::Diff, "revised");
        let named = self.named_change(asking, press.argument, press.identity, press.conversation);
        let change = match named.await? {
            Ok(change) => change,
            Err(reply) => return Ok(CommandAnswer::post(press.address, reply)),
        };
        let trigger = match &press.asked.inbound.kind {
            InboundKind::Click { trigger, .. } => trigger.clone(),
            _ => None,
        };
        let asks = Action::AskForWords {
            to: press.asked.inbound.sender.clone(),
            trigger,
            title: format!("Revise CHG-{}", change.number),
            question: format!("What should be different in {change}?"),
            about: change.to_string(),
        };
        Ok(CommandAnswer {
            buttons: ButtonEffect::Asks(Vec::new()),
            ..CommandAnswer::ops(vec![press.address.op("ask", asks)])
        })
    }

    async fn ask_before_discard(&self, press: CountedPress<'_>) -> anyhow::Result<CommandAnswer> {
        if let Some(why) = self.why_replaced(press.argument, press.conversation).await? {
            return Ok(CommandAnswer::post(press.address, Reply::text(why)));
        }
        let new = |button: ResultButton| {
            let action = (button.word(), press.argument.to_owned());
            new_button(&self.parts, action, press.identity, press.conversation)
        };
        let (discard, discards) = new(ResultButton::ConfirmDiscard);
        let (keep, keeps) = new(ResultButton::Keep);
        let text = discard_question(press.argument);
        let reply = Reply::text(text).with(ReplyPart::Buttons {
            buttons: vec![
                Button::new(
                    format!("Discard {}", press.argument),
                    discard,
                    ButtonStyle::Danger,
                ),
                Button::new("Keep it", keep, ButtonStyle::Plain),
            ],
        });
        Ok(CommandAnswer {
            buttons: ButtonEffect::Asks(vec![discards, keeps]),
            ..CommandAnswer::ops(vec![press.address.post("ask", reply)])
        })
    }

    /// Returns the reason why a button does nothing, if its revision is not the prepared one any more.
    async fn why_replaced(
        &self,
        revision: &str,
        conversation: ConversationId,
    ) -> anyhow::Result<Option<String>> {
        let current = self.parts.store.current_change(conversation).await?;
        let name = current.map(|change| change.to_string());
        let meant: Option<ChangeName> = revision.parse().ok();
        let newest: Option<ChangeName> = name.as_deref().and_then(|name| name.parse().ok());
        let is_newest = meant
            .zip(newest)
            .is_some_and(|(meant, newest)| meant.is_of(newest.number, newest.revision.unwrap_or(1)));
        if is_newest {
            return Ok(None);
        }
        let replaced = meant.zip(name.as_deref());
        let why = replaced.and_then(|(meant, name)| replaced_text(meant, name));
        Ok(Some(why.unwrap_or_else(|| {
            format!("{revision} is not prepared here any more, so nothing was done.")
        })))
    }
}

/// Returns the answer to the press that decides whether a change is discarded, in the place of the question.
fn decided(press: CountedPress<'_>, reply: Reply) -> CommandAnswer {
    CommandAnswer {
        buttons: ButtonEffect::Decides(press.conversation, press.argument.to_owned()),
        ..CommandAnswer::ops(vec![press.in_place(reply)])
    }
}

/// Returns the question before a change is discarded.
pub(in crate::engine::gateway) fn discard_question(change: &str) -> String {
    format!("Discard {change}? Its edits are removed from the workspace. That cannot be undone.")
}

#[cfg(test)]
mod tests {
    use super::ResultButton;
    use crate::engine::command::Verb;

    #[test]
    fn a_button_has_a_word_of_its_own_and_only_full_diff_shares_one_with_a_command() {
        for button in ResultButton::ALL {
            assert_eq!(ResultButton::parse(button.word()), Some(button));
            let is_command = Verb::parse(button.word()).is_some();
            assert_eq!(is_command, button == ResultButton::FullDiff, "{button:?}");
        }
        assert_eq!(ResultButton::parse("patch"), None);
    }
}
