//! Injection: texts that one conversation places into another, such as a message from one person to another. The other
//! person must have agreed. The text is part of their next request, as a block of data, and never starts a turn.

use super::messenger::BotConversation;
use crate::base::redact::Redactor;
use crate::engine::agent::prompt::message_block;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

/// Texts that wait for one conversation.
const WAITING_MAX: usize = 20;
/// Bytes of one text.
const TEXT_BYTES_MAX: usize = 8_192;
/// Conversations for which texts wait, or that have agreed to receive some.
const CONVERSATIONS_MAX: usize = 10_000;

/// The reason why a text was not injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InjectError {
    /// The person of the conversation has not agreed.
    #[error("the person has not agreed to receive messages from others here")]
    NoConsent,
    /// Too many texts wait already.
    #[error("{WAITING_MAX} messages wait for this conversation already")]
    Full,
    /// Too many conversations have agreed.
    #[error("{CONVERSATIONS_MAX} conversations receive messages already")]
    TooManyConversations,
    /// The text is too long.
    #[error("a message has at most {TEXT_BYTES_MAX} bytes")]
    TooLong,
}

/// A text from somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
struct InjectedText {
    /// The person who sent it.
    from: String,
    text: String,
}

/// The texts that wait for conversations, and the conversations whose person agreed to receive some.
#[derive(Debug, Default)]
pub struct Injector(Mutex<Injections>);

#[derive(Debug, Default)]
struct Injections {
    agreed: BTreeSet<BotConversation>,
    waiting: HashMap<BotConversation, Vec<InjectedText>>,
}

impl Injector {
    /// Records that the person of a conversation agrees to receive texts there. Authorise the person first: anybody can
    /// write `/start`. Returns an error if too many conversations have agreed.
    pub fn agree(&self, conversation: &BotConversation) -> Result<(), InjectError> {
        let mut injections = self.lock();
        if injections.agreed.len() >= CONVERSATIONS_MAX && !injections.agreed.contains(conversation) {
            return Err(InjectError::TooManyConversations);
        }
        injections.agreed.insert(conversation.clone());
        Ok(())
    }

    /// Records that they do not agree any more. Texts that wait are dropped.
    pub fn decline(&self, conversation: &BotConversation) {
        let mut injections = self.lock();
        injections.agreed.remove(conversation);
        injections.waiting.remove(conversation);
    }

    /// Adds a text of `from` to the next request of a conversation. It waits there if a turn runs.
    pub fn inject(&self, to: &BotConversation, from: &str, text: &str) -> Result<(), InjectError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(InjectError::TooLong);
        }
        let mut injections = self.lock();
        if !injections.agreed.contains(to) {
            return Err(InjectError::NoConsent);
        }
        let waiting = injections.waiting.entry(to.clone()).or_default();
        if waiting.len() >= WAITING_MAX {
            return Err(InjectError::Full);
        }
        waiting.push(InjectedText {
            from: from.to_owned(),
            text: text.to_owned(),
        });
        Ok(())
    }

    /// Returns the words of a person, followed by the texts that wait for their conversation, which are data. All of it is
    /// without known secrets.
    pub(crate) fn with_waiting(
        &self,
        conversation: &BotConversation,
        words: &str,
        redactor: &Redactor,
    ) -> String {
        let mut text = redactor.redact(words).into_owned();
        for injected in self.take(conversation) {
            text.push_str("\n\n");
            text.push_str(&message_block(&injected.from, &redactor.redact(&injected.text)));
        }
        text
    }

    /// Takes the texts that wait for a conversation.
    fn take(&self, conversation: &BotConversation) -> Vec<InjectedText> {
        self.lock().waiting.remove(conversation).unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Injections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        BotConversation, CONVERSATIONS_MAX, InjectError, InjectedText, Injector, TEXT_BYTES_MAX, WAITING_MAX,
    };

    /// SDK-11, T28
    #[test]
    fn only_a_person_who_agreed_receives_a_bounded_number_of_texts() {
        let (injector, bob) = (
            Injector::default(),
            BotConversation {
                person: "bob".to_owned(),
                chat: "dm".to_owned(),
            },
        );
        assert_eq!(injector.inject(&bob, "alice", "hi"), Err(InjectError::NoConsent));
        assert_eq!(injector.agree(&bob), Ok(()));
        for _ in 0..WAITING_MAX {
            assert_eq!(injector.inject(&bob, "alice", "hi"), Ok(()));
        }
        assert_eq!(injector.inject(&bob, "alice", "hi"), Err(InjectError::Full));
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        assert_eq!(injector.inject(&bob, "alice", &long), Err(InjectError::TooLong));
        let first = InjectedText {
            from: "alice".to_owned(),
            text: "hi".to_owned(),
        };
        let taken = injector.take(&bob);
        assert_eq!((taken.len(), taken.first()), (WAITING_MAX, Some(&first)));
        assert_eq!(injector.take(&bob), []);
        // In another chat the same person has not agreed.
        let group = BotConversation {
            chat: "group".to_owned(),
            ..bob.clone()
        };
        assert_eq!(
            injector.inject(&group, "alice", "hi"),
            Err(InjectError::NoConsent)
        );
        assert_eq!(injector.inject(&bob, "alice", "hi"), Ok(()));
        injector.decline(&bob);
        assert_eq!(injector.take(&bob), []);
    }

    #[test]
    fn more_conversations_than_the_bound_are_refused_until_one_declines() {
        let injector = Injector::default();
        let conversation = |number: usize| BotConversation {
            person: format!("p{number}"),
            chat: "dm".to_owned(),
        };
        for number in 0..CONVERSATIONS_MAX {
            assert_eq!(injector.agree(&conversation(number)), Ok(()));
        }
        let next = conversation(CONVERSATIONS_MAX);
        assert_eq!(injector.agree(&next), Err(InjectError::TooManyConversations));
        // One that has agreed already may say it again.
        assert_eq!(injector.agree(&conversation(0)), Ok(()));
        injector.decline(&conversation(1));
        assert_eq!(injector.agree(&next), Ok(()));
    }
}
