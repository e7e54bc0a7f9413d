//! The question to a person whose first message in a thread is in the thread of another: join that conversation, or have
//! one of their own. The message is held until then.

use super::commands;
use super::parts::Parts;
use super::turn::new_button;
use crate::base::model::{Button, ButtonStyle, Inbound, Reply, ReplyPart};
use crate::state::store::{ThreadOwner, ThreadQuestion, choice_argument};
use std::sync::Arc;

/// A button of the question, or of the request that follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadButton {
    /// Asks the person of the thread.
    AskToJoin,
    /// Begins a conversation of one's own.
    StartOwn,
    /// Lets a person join.
    LetJoin,
    /// Does not let a person join.
    Decline,
    /// Ends what was joined.
    End,
}

impl ThreadButton {
    const ALL: [Self; 5] = [
        Self::AskToJoin,
        Self::StartOwn,
        Self::LetJoin,
        Self::Decline,
        Self::End,
    ];

    /// Returns the word by which the button is stored. It is no command that people can type.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::AskToJoin => "ask-to-join",
            Self::StartOwn => "start-own",
            Self::LetJoin => "let-join",
            Self::Decline => "decline-join",
            Self::End => "end-join",
        }
    }

    /// Finds a button by the word of its action.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|button| button.word() == word)
    }
}

/// Returns the composer of the question to the sender of a message; `None` if they are not admitted, or no earlier message
/// can have begun the thread.
pub(super) fn composer(parts: &Arc<Parts>, inbound: &Inbound) -> Option<ThreadQuestion> {
    let chat = inbound.place.account.platform.chat()?;
    let has_owner = chat.threads_have_owners && inbound.place.thread.is_some() && !inbound.begins_thread();
    if inbound.direct || !has_owner {
        return None;
    }
    let identity = parts.identity(inbound)?;
    let (parts, inbound) = (Arc::clone(parts), inbound.clone());
    let is_private = chat.has_ephemeral_notices;
    Some(Arc::new(move |owner, own, held| {
        let name = owner_name(&parts, owner);
        let new = |button: ThreadButton| {
            let action = (button.word(), choice_argument(held, None));
            new_button(&parts, action, &identity, own)
        };
        let ((ask, asks), (start, starts)) = (new(ThreadButton::AskToJoin), new(ThreadButton::StartOwn));
        let mut address = commands::address_of(&inbound, held.op_id_prefix());
        let mut reply = Reply { parts: Vec::new() };
        match is_private {
            true => address.ephemeral_to = Some(inbound.sender.clone()),
            false => reply.parts.push(ReplyPart::Mention {
                to: inbound.sender.clone(),
            }),
        }
        let text = format!(
            "This thread belongs to {name}. I keep your message until you choose; nothing was done with it yet (0 tokens)."
        );
        reply.parts.push(ReplyPart::Text { text });
        let reply = reply.with(ReplyPart::Buttons {
            buttons: vec![
                Button::new(format!("Ask {name} to join"), ask, ButtonStyle::Plain),
                Button::new("Start my own".to_owned(), start, ButtonStyle::Primary),
            ],
        });
        (vec![address.post("thread", reply)], vec![asks, starts])
    }))
}

/// Returns the name of the person whom a thread belongs to.
pub(super) fn owner_name(parts: &Parts, owner: &ThreadOwner) -> String {
    let owner = parts.access.admit(&owner.sender);
    owner.map_or_else(|| "another person".to_owned(), |owner| owner.name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::ThreadButton;
    use crate::engine::command::Verb;

    #[test]
    fn a_button_is_found_by_its_word_and_is_no_command() {
        for button in ThreadButton::ALL {
            assert_eq!(ThreadButton::parse(button.word()), Some(button));
            assert_eq!(Verb::parse(button.word()), None);
        }
    }
}
