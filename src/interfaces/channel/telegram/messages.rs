//! Posts and edits messages. A reply that gains by it is a rich message, and a text with entities where the server or
//! Telegram does not take that. An edit may change one form into the other. A delivery is one call: after a refusal of a
//! form, the next delivery sends a simpler one. See <https://core.telegram.org/bots/api#sendrichmessage>.

use super::api::ApiError;
use super::ephemeral::EphemeralAnswer;
use super::payload::{RenderedMessage, RichEditPayload, RichPostPayload};
use super::refused_forms::{FormedMessage, MessageForm, UNCHANGED, is_of_old_server};
use super::render::TelegramPayload;
use super::{TelegramChannel, chat_and_topic, chat_id, delivered, message_id};
use crate::base::model::{ChatPlace, MessageRef, Op, Reply};
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

    fn form(self) -> Option<MessageForm> {
        match self {
            Self::Nothing => None,
            Self::Message(_) => Some(MessageForm::Reference),
            Self::Ephemeral(_) => Some(MessageForm::Ephemeral),
        }
    }
}

impl TelegramChannel {
    /// Posts the message of an operation.
    pub(super) async fn post(
        &self,
        op: &Op,
        place: &ChatPlace,
        rendered: TelegramPayload,
        reply_to: Option<&MessageRef>,
    ) -> Result<Delivered, SendError> {
        let replied = reply_to.map(|replied| message_id(&replied.id)).transpose()?;
        let answered = replied.map_or(AnsweredMessage::Nothing, AnsweredMessage::Message);
        let sent = self.send(op, chat_and_topic(place)?, rendered, answered).await;
        let sent = sent.map_err(ApiError::into_post_error)?;
        Ok(delivered(&sent))
    }

    /// Sends the message of an operation to a chat or a topic, and returns it.
    pub(super) async fn send(
        &self,
        op: &Op,
        (chat, topic): (ChatId, Option<ThreadId>),
        rendered: TelegramPayload,
        answered: AnsweredMessage<'_>,
    ) -> Result<Value, ApiError> {
        let message = FormedMessage::New(op.id.clone());
        let rendered = self.accepted_form(rendered, &message);
        let is_detached = self.refused_forms.includes(&message, MessageForm::Reference);
        let reply_parameters = answered.reply_parameters().filter(|_| !is_detached);
        // What the person alone sees is given up last.
        let forms =
            |first: MessageForm| -> Vec<MessageForm> { [first].into_iter().chain(answered.form()).collect() };
        if let Some(rich_message) = &rendered.rich {
            let rich = RichPostPayload {
                chat_id: chat,
                message_thread_id: topic,
                rich_message,
                reply_parameters,
                ephemeral: answered.ephemeral(),
                reply_markup: rendered.keyboard.as_ref(),
            };
            return self.call_form(&rich, message, &forms(MessageForm::Rich)).await;
        }
        let mut text = SendMessage::new(chat, "");
        text.message_thread_id = topic;
        text.reply_parameters = reply_parameters;
        let text = RenderedMessage::new(text, &rendered).answering(answered.ephemeral());
        self.call_form(&text, message, &forms(MessageForm::Marked)).await
    }

    /// Replaces a message of the bot.
    pub(super) async fn edit(&self, message: &MessageRef, reply: &Reply) -> Result<Delivered, SendError> {
        let rendered = self.render(reply, &message.chat);
        let (chat, id) = (chat_id(&message.chat)?, message_id(&message.id)?);
        match self.replace(chat, id, rendered).await {
            Ok(_) => Ok(Delivered::default()),
            Err(err) if err.says(UNCHANGED) => Ok(Delivered::default()),
            Err(err) => Err(err.into_repeatable_error()),
        }
    }

    async fn replace(
        &self,
        chat: ChatId,
        message: MessageId,
        rendered: TelegramPayload,
    ) -> Result<Value, ApiError> {
        let edited = FormedMessage::Edited(chat, message);
        let rendered = self.accepted_form(rendered, &edited);
        if let Some(rich_message) = &rendered.rich {
            let rich = RichEditPayload {
                chat_id: chat,
                message_id: message,
                rich_message,
                reply_markup: rendered.keyboard.as_ref(),
            };
            return self.call_form(&rich, edited, &[MessageForm::Rich]).await;
        }
        let text = RenderedMessage::new(EditMessageText::new(chat, message, ""), &rendered);
        self.call_form(&text, edited, &[MessageForm::Marked]).await
    }

    /// Returns a message without the forms that Telegram refused for it, and without those that its server does not know.
    pub(super) fn accepted_form(
        &self,
        rendered: TelegramPayload,
        message: &FormedMessage,
    ) -> TelegramPayload {
        let is_refused = |form| self.refused_forms.includes(message, form);
        let mut rendered = match is_refused(MessageForm::Marked) {
            true => rendered.without_marks(),
            false => rendered,
        };
        if self.refused_rich.is_recent() || is_refused(MessageForm::Rich) {
            rendered.rich = None;
        }
        rendered
    }

    /// Calls a method with a message in some forms. If Telegram certainly refuses one of them, the message is sent without
    /// that form by the next delivery, because a simpler answer is better than none.
    pub(super) async fn call_form<P>(
        &self,
        payload: &P,
        message: FormedMessage,
        forms: &[MessageForm],
    ) -> Result<Value, ApiError>
    where
        P: Payload + Serialize + Sync,
    {
        let err = match self.api.call(payload).await {
            Ok(sent) => return Ok(sent),
            Err(err) => err,
        };
        let is_refused =
            |form: &MessageForm| form.is_refused_by(&err) && !self.refused_forms.includes(&message, *form);
        let Some(form) = forms.iter().copied().find(is_refused) else {
            return Err(err);
        };
        if form == MessageForm::Rich && is_of_old_server(&err) {
            self.refused_rich.remember();
            tracing::info!(
                channel = self.name,
                "telegram's server knows no rich messages; results are sent as texts"
            );
        } else {
            self.refused_forms.remember(message, form);
            tracing::warn!(
                channel = self.name,
                ?form,
                "telegram refused a form of a message; it is sent in a simpler one"
            );
        }
        Err(ApiError::OtherForm(err.into_post_error().to_string()))
    }
}
