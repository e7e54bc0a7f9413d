//! A message that a model sends to another person on behalf of the person of its turn, and what became of it. Its words
//! come from the model: they are bounded and have no invisible characters.

use super::{UserId, group_thousands, is_invisible, quoted};
use serde::{Deserialize, Serialize};

/// The result of a message whose sender may only read by now.
pub const NOT_PERMITTED: &str = "not sent: this person may not write to other people any more";

/// The name of the tool that sends.
pub const SEND_USER_MESSAGE: &str = "send_user_message";
/// Messages and requests for consent of one person in an hour.
pub const MESSAGES_PER_HOUR_MAX: u32 = 20;
/// Messages that wait for one person.
pub const MESSAGES_WAITING_MAX: u32 = 10;

/// Maximum number of characters of a message.
const MESSAGE_CHARS_MAX: usize = 1_500;

/// A message for another person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonMessage {
    /// The id of the call that sends it.
    pub call: String,
    /// The name of the person, as the model wrote it.
    pub person: String,
    /// The words.
    pub text: String,
}

/// The decision of a person about the messages of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageConsent {
    /// The person was asked, and has not decided.
    Asked,
    /// The person receives the messages.
    Accepted,
    /// The person does not receive them.
    Blocked,
}

/// The outcome of an attempt to send a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageOutcome {
    /// The message is on its way.
    Sent,
    /// The same message was sent before, for the same request.
    Repeated,
    /// The recipient is asked now whether they agree.
    Asked,
    /// The recipient was asked before, and has not decided.
    Undecided,
    /// The recipient has blocked the sender.
    Blocked,
    /// The recipient has no private chat with the bot.
    NoChat,
    /// The sender has sent too many messages in an hour.
    TooMany,
    /// Too many messages wait for the recipient.
    Full,
    /// The recipient was revoked.
    Gone,
    /// The turn was stopped, or the sender was revoked.
    Stopped,
    /// The sender may only read by now.
    NotPermitted,
}

impl PersonMessage {
    /// The result of the call that sends, until the message is sent or refused.
    pub const WAITING: &'static str = "(is sent together with this step)";

    /// Creates a message. An `Err` says what would work.
    pub fn new(call: &str, person: &str, text: &str) -> Result<Self, String> {
        let text: String = text
            .chars()
            .filter(|character| !is_invisible(*character))
            .collect();
        let text = text.trim();
        if text.is_empty() || text.chars().count() > MESSAGE_CHARS_MAX {
            return Err(format!(
                "not sent: a message has 1 to {} characters",
                group_thousands(MESSAGE_CHARS_MAX as u64)
            ));
        }
        Ok(Self {
            call: call.to_owned(),
            person: person.trim().to_owned(),
            text: text.to_owned(),
        })
    }

    /// Returns the beginning of the names of the operations that show the messages of a sender to a recipient.
    pub fn operation_name(sender: UserId, recipient: UserId) -> String {
        format!("message-{sender}-{recipient}-")
    }

    /// Returns the sender and the recipient of the message that an operation shows or asks about; `None` for another
    /// operation.
    pub fn people_of_operation(id: &str) -> Option<(UserId, UserId)> {
        let (_, name) = id.rsplit_once('/')?;
        let mut parts = name.strip_prefix("message-")?.split('-');
        let mut person = || parts.next()?.parse().ok().map(UserId);
        Some((person()?, person()?))
    }
}

impl MessageOutcome {
    /// True if the recipient gets the message.
    pub fn is_sent(self) -> bool {
        matches!(self, Self::Sent | Self::Repeated)
    }

    /// Returns the result of the call for the model. `person` is the name of the recipient.
    pub fn result(self, person: &str) -> String {
        let person = quoted(person);
        match self {
            Self::Sent => format!("sent to {person}, who reads it in their private chat with me"),
            Self::Repeated => format!("sent to {person} before; it is not sent again"),
            Self::Asked => format!(
                "not sent: {person} has not agreed to messages of this person. I asked them just now; nothing of the text \
                 was shown to them or kept. Tell the person to ask again after {person} has agreed."
            ),
            Self::Undecided => {
                format!(
                    "not sent: {person} has not agreed yet. They were asked before; they are not asked again."
                )
            }
            Self::Blocked => {
                format!("not sent: {person} has blocked messages of this person. Say so; do not try again.")
            }
            Self::NoChat => format!(
                "not sent: {person} has no private chat with me. Ask the person to have {person} write to me there once."
            ),
            Self::TooMany => format!(
                "not sent: this person has sent {MESSAGES_PER_HOUR_MAX} messages in the last hour, which is the most; \
                 send it later"
            ),
            Self::Full => format!(
                "not sent: {MESSAGES_WAITING_MAX} messages wait for {person} already; send it after they have written \
                 to me"
            ),
            Self::Gone => format!("not sent: {person} has no access here any more"),
            Self::Stopped => "not sent: the work was stopped".to_owned(),
            Self::NotPermitted => NOT_PERMITTED.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MESSAGE_CHARS_MAX, MessageOutcome, PersonMessage};
    use crate::base::model::UserId;

    #[test]
    fn the_people_of_a_message_are_read_from_the_name_of_its_operation() {
        let name = PersonMessage::operation_name(UserId(3), UserId(41));
        for end in ["00ff", "00ff-1"] {
            let people = PersonMessage::people_of_operation(&format!("inbox-7/{name}{end}"));
            assert_eq!(people, Some((UserId(3), UserId(41))));
        }
        for other in [
            "inbox-7/result",
            "inbox-7/message-3",
            "inbox-7/message-3-41-0/missing",
            "",
        ] {
            assert_eq!(PersonMessage::people_of_operation(other), None, "{other}");
        }
    }

    #[test]
    fn a_message_between_people_has_bounds_and_nothing_invisible() {
        let text = |text: &str| PersonMessage::new("1", " bob ", text).map(|message| message.text);
        assert_eq!(text(" one\r\ntwo\u{202e}\u{200b} "), Ok("one\ntwo".to_owned()));
        let long = "ä".repeat(MESSAGE_CHARS_MAX);
        assert_eq!(text(&long), Ok(long.clone()));
        for wrong in ["", " ", "\u{200b}", &format!("{long}x")] {
            assert_eq!(
                text(wrong),
                Err("not sent: a message has 1 to 1,500 characters".to_owned())
            );
        }
        let named = PersonMessage::new("1", " bob ", "hi").map(|message| message.person);
        assert_eq!(named, Ok("bob".to_owned()));
    }

    #[test]
    fn a_result_says_that_a_message_was_not_sent_unless_it_was() {
        for outcome in [
            MessageOutcome::Asked,
            MessageOutcome::Undecided,
            MessageOutcome::Blocked,
            MessageOutcome::NoChat,
            MessageOutcome::TooMany,
            MessageOutcome::Full,
            MessageOutcome::Gone,
            MessageOutcome::Stopped,
            MessageOutcome::NotPermitted,
        ] {
            assert!(!outcome.is_sent() && outcome.result("bob").starts_with("not sent: "));
        }
        for outcome in [MessageOutcome::Sent, MessageOutcome::Repeated] {
            assert!(outcome.is_sent() && outcome.result("b`ob").starts_with("sent to `b'ob`"));
        }
    }
}
