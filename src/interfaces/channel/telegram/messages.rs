//! Posts and edits messages. A reply that gains by it is a rich message, and a text with entities where the server or
//! Telegram does not take that. An edit may change one form into the other. See
//! <https://core.telegram.org/bots/api#sendrichmessage>.

use super::api::ApiError;
use super::ephemeral::EphemeralAnswer;
use super::payload::{RenderedMessage, RichEditPayload, RichPostPayload, TextPayload};
use super::render::{TelegramPayload, plain};
use super::rich_refusals::{ChangingMessage, UNCHANGED, is_about_content, is_answered_lost};
use super::{TelegramChannel, chat_and_topic, chat_id, message_id, message_of};
use crate::base::model::{ChatPlace, MessageRef, Reply};
use crate::interfaces::channel::{Delivered, SendError};
use serde::Serialize;
use serde_json::Value;
use teloxide_core::payloads::{EditMessageText, SendMessage};
use teloxide_core::requests::Payload;
use teloxide_core::types::{ChatId, MessageId, ReplyParameters, ThreadId};

/// The message that a new one answers.
#[derive(Clone, Copy, Debug)]
pub(super) enum AnsweredMessage<'m> {
    /// None.
    Nothing,
    /// A message of the chat.
    Message(MessageId),
    /// An ephemeral message; the answer is ephemeral too.
    Ephemeral(&'m EphemeralAnswer),
}

impl<'m> AnsweredMessage<'m> {
    fn reply_parameters(self) -> Option<ReplyParameters> {
        match self {
            Self::Message(id) => Some(ReplyParameters::new(id).allow_sending_without_reply()),
            Self::Nothing | Self::Ephemeral(_) => None,
        }
    }

    fn ephemeral(self) -> Option<&'m EphemeralAnswer> {
        match self {
            Self::Ephemeral(answer) => Some(answer),
            Self::Nothing | Self::Message(_) => None,
        }
    }
}

impl TelegramChannel {
    /// Posts a message.
    pub(super) async fn post(
        &self,
        place: &ChatPlace,
        rendered: &TelegramPayload,
        reply_to: Option<&MessageRef>,
    ) -> Result<Delivered, SendError> {
        let replied = reply_to.map(|replied| message_id(&replied.id)).transpose()?;
        let answered = replied.map_or(AnsweredMessage::Nothing, AnsweredMessage::Message);
        let sent = self.send(chat_and_topic(place)?, rendered, answered).await;
        let sent = sent.map_err(ApiError::into_post_error)?;
        Ok(Delivered {
            message: message_of(&sent),
        })
    }

    /// Sends a message to a chat or a topic, and returns it.
    pub(super) async fn send(
        &self,
        (chat, topic): (ChatId, Option<ThreadId>),
        rendered: &TelegramPayload,
        answered: AnsweredMessage<'_>,
    ) -> Result<Value, ApiError> {
        let reply_parameters = answered.reply_parameters();
        if let Some(rich_message) = self.rich_form(rendered, None) {
            let mut rich = RichPostPayload {
                chat_id: chat,
                message_thread_id: topic,
                rich_message,
                reply_parameters: reply_parameters.clone(),
                ephemeral: answered.ephemeral(),
                reply_markup: rendered.keyboard.as_ref(),
            };
            let mut called = self.call_rich(&rich, None).await;
            if called.as_ref().is_err_and(is_answered_lost) && rich.reply_parameters.take().is_some() {
                tracing::warn!(
                    channel = self.name,
                    "telegram does not find the message that a rich one answers; it is sent without a reference"
                );
                called = self.call_rich(&rich, None).await;
            }
            if let Some(sent) = called? {
                return Ok(sent);
            }
        }
        let mut message = SendMessage::new(chat, "");
        message.message_thread_id = topic;
        message.reply_parameters = reply_parameters;
        self.send_text(
            RenderedMessage::new(message, rendered).answering(answered.ephemeral()),
            rendered,
        )
        .await
    }

    /// Replaces a message of the bot.
    pub(super) async fn edit(&self, message: &MessageRef, reply: &Reply) -> Result<Delivered, SendError> {
        let rendered = self.render(reply, &message.chat);
        let (chat, id) = (chat_id(&message.chat)?, message_id(&message.id)?);
        match self.replace(chat, id, &rendered).await {
            Ok(_) => Ok(Delivered::default()),
            Err(err) if err.says(UNCHANGED) => Ok(Delivered::default()),
            Err(err) => Err(err.into_repeatable_error()),
        }
    }

    async fn replace(
        &self,
        chat: ChatId,
        message: MessageId,
        rendered: &TelegramPayload,
    ) -> Result<Value, ApiError> {
        let changing = Some(ChangingMessage::Edited(chat, message));
        if let Some(rich_message) = self.rich_form(rendered, changing) {
            let rich = RichEditPayload {
                chat_id: chat,
                message_id: message,
                rich_message,
                reply_markup: rendered.keyboard.as_ref(),
            };
            if let Some(edited) = self.call_rich(&rich, changing).await? {
                return Ok(edited);
            }
        }
        let edited = EditMessageText::new(chat, message, "");
        self.send_text(RenderedMessage::new(edited, rendered), rendered)
            .await
    }

    /// Returns a message as a rich one, if it gains by that, the server is not known to be too old, and Telegram did not
    /// refuse this message as a rich one before.
    pub(super) fn rich_form<'r>(
        &self,
        rendered: &'r TelegramPayload,
        changing: Option<ChangingMessage>,
    ) -> Option<&'r Value> {
        let rich = rendered.rich.as_ref()?;
        let is_refused = self.refused_rich.is_recent()
            || changing.is_some_and(|message| self.rich_refusals.includes(message));
        (!is_refused).then_some(rich)
    }

    /// Calls a method with a rich message. Returns `None` if the content was certainly refused, so that it may be sent
    /// as a text: by a server from before rich messages, which knows neither the methods nor the field of an edit, or
    /// by Telegram. A message that changes is a text from then on.
    pub(super) async fn call_rich<P>(
        &self,
        payload: &P,
        changing: Option<ChangingMessage>,
    ) -> Result<Option<Value>, ApiError>
    where
        P: Payload + Serialize + Sync,
    {
        let err = match self.api.call(payload).await {
            Ok(sent) => return Ok(Some(sent)),
            Err(err) => err,
        };
        if err.is_unknown_method() || err.says("message text is empty") {
            self.refused_rich.remember();
            tracing::info!(
                channel = self.name,
                "telegram's server knows no rich messages; results are sent as texts"
            );
            return Ok(None);
        }
        if !is_about_content(&err) {
            return Err(err);
        }
        if let Some(message) = changing {
            self.rich_refusals.remember(message);
        }
        tracing::warn!(
            channel = self.name,
            "telegram refused a rich message; it is sent as a text"
        );
        Ok(None)
    }

    /// Sends a text. If Telegram refuses the decorations of the text, it is sent again without them, because a plain
    /// answer is better than none.
    async fn send_text<P>(
        &self,
        mut message: RenderedMessage<'_, P>,
        rendered: &TelegramPayload,
    ) -> Result<Value, ApiError>
    where
        P: TextPayload + Send + Sync,
    {
        loop {
            let err = match self.api.call(&message).await {
                Ok(sent) => return Ok(sent),
                Err(err) => err,
            };
            let is_unreadable = err.says("can't parse entities") || err.says("message is too long");
            let is_simpler = is_unreadable && message.simplify(plain(&rendered.body));
            if !(is_simpler || is_answered_lost(&err) && message.detach()) {
                return Err(err);
            }
            tracing::warn!(
                channel = self.name,
                "telegram refused the format of a message; it is sent with less formatting"
            );
        }
    }
}
