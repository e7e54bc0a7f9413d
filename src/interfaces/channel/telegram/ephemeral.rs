//! Ephemeral messages: answers in a group that only one person sees. A bot may answer a command that only it can see, for
//! a short time after it was sent; later, and if Telegram refuses the answer, it goes to the person's own chat. See
//! <https://core.telegram.org/bots/api#ephemeral-messages-and-commands>.

use super::api::ApiError;
use super::messages::AnsweredMessage;
use super::refused_forms::{FormedMessage, MessageForm};
use super::{TelegramChannel, chat_and_topic, private_place};
use crate::base::model::{Op, Reply, ResponseUrl, Sender};
use crate::interfaces::channel::{Delivered, SendError};
use jiff::Timestamp;
use serde::Serialize;
use std::borrow::Cow;

/// The number of seconds after an ephemeral message in which it can be answered.
const ANSWER_SECONDS_MAX: i64 = 15;
/// The beginning of the address for answers to an ephemeral message.
const SCHEME: &str = "ephemeral";

/// The fields of a message that only one person sees: the message that it answers, and the person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct EphemeralAnswer {
    reply_parameters: EphemeralReply,
    ephemeral_message_parameters: EphemeralReceiver,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct EphemeralReply {
    ephemeral_message_id: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct EphemeralReceiver {
    receiver_user_id: i64,
}

impl EphemeralAnswer {
    /// Returns the answer to the message of an address, if it is one of this person.
    fn to(address: &ResponseUrl, person: &Sender) -> Option<Self> {
        let mut parts = address.expose().split(':');
        let (scheme, user, message) = (parts.next()?, parts.next()?, parts.next()?);
        let is_theirs = scheme == SCHEME && user == person.id;
        is_theirs.then_some(Self {
            reply_parameters: EphemeralReply {
                ephemeral_message_id: message.parse().ok()?,
            },
            ephemeral_message_parameters: EphemeralReceiver {
                receiver_user_id: user.parse().ok()?,
            },
        })
    }
}

/// Returns the address for answers to an ephemeral message of a user, which was sent at a time in seconds.
pub(super) fn answer_address(user: i64, message: i64, sent_at: i64) -> Option<ResponseUrl> {
    let expires_at = Timestamp::from_second(sent_at.checked_add(ANSWER_SECONDS_MAX)?).ok()?;
    Some(ResponseUrl::new(format!("{SCHEME}:{user}:{message}"), expires_at))
}

impl TelegramChannel {
    /// Sends a message that only one person needs: as the answer to their ephemeral message if there is one, else in
    /// their own chat with the bot.
    pub(super) async fn notice(&self, op: &Op, to: &Sender, reply: &Reply) -> Result<Delivered, SendError> {
        let answer = op.response_url.as_ref();
        if let Some(answer) = answer.and_then(|address| EphemeralAnswer::to(address, to)) {
            let rendered = self.render(reply, &op.place.chat);
            let answered = AnsweredMessage::Ephemeral(&answer);
            let sent = self
                .send(op, chat_and_topic(&op.place)?, rendered, answered)
                .await;
            // It has no id among the messages of the chat.
            return sent
                .map(|_| Delivered::default())
                .map_err(ApiError::into_post_error);
        }
        let place = private_place(&op.place, &to.id);
        let rendered = self.render(reply, &place.chat);
        self.post(op, &place, rendered, None).await
    }

    /// Returns the operation without its address for an ephemeral answer, if Telegram refused that answer.
    pub(super) fn without_refused_answer<'o>(&self, op: &'o Op) -> Cow<'o, Op> {
        let is_refused = || {
            let message = FormedMessage::New(op.id.clone());
            self.refused_forms.includes(&message, MessageForm::Ephemeral)
        };
        match op.response_url.is_some() && is_refused() {
            true => Cow::Owned(Op {
                response_url: None,
                ..op.clone()
            }),
            false => Cow::Borrowed(op),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{EphemeralAnswer, answer_address};
    use crate::base::model::{Platform, Sender};
    use jiff::Timestamp;
    use serde_json::json;

    fn person(id: &str) -> Sender {
        Sender {
            platform: Platform::Telegram,
            account: "42".to_owned(),
            id: id.to_owned(),
        }
    }

    #[test]
    fn an_ephemeral_message_is_answered_to_its_sender_only_and_for_fifteen_seconds() {
        let address = answer_address(7, 9, 1_000).unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        assert!(address.is_valid_at(at(1_014)) && !address.is_valid_at(at(1_015)));
        let fields = json!({"reply_parameters": {"ephemeral_message_id": 9},
            "ephemeral_message_parameters": {"receiver_user_id": 7}});
        assert_eq!(json!(EphemeralAnswer::to(&address, &person("7"))), fields);
        assert_eq!(EphemeralAnswer::to(&address, &person("8")), None);
        assert_eq!(answer_address(7, 9, i64::MAX), None);
    }
}
