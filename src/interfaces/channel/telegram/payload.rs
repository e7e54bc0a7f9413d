//! Calls that teloxide-core cannot express. They have the shape of its own payloads, so [`super::api::BotApi`] sends
//! them in the same way: a serialisable struct that implements `Payload`.

use super::ephemeral::EphemeralAnswer;
use super::render::TelegramPayload;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;
use teloxide_core::payloads::{EditMessageText, SendMessage, SetWebhook};
use teloxide_core::requests::Payload;
use teloxide_core::types::{ChatId, LinkPreviewOptions, MessageId, ReplyParameters, ThreadId};

/// A message of the library, with entities and keyboard as they were rendered: its own types lack the styles of
/// buttons.
#[derive(Serialize)]
pub(super) struct RenderedMessage<'a, P> {
    #[serde(flatten)]
    message: P,
    #[serde(flatten)]
    ephemeral: Option<&'a EphemeralAnswer>,
    entities: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_markup: Option<Value>,
}

impl<'a, P: TextPayload> RenderedMessage<'a, P> {
    pub(super) fn new(mut message: P, rendered: &TelegramPayload) -> Self {
        message.set_text(rendered.body.text.clone());
        Self {
            message,
            ephemeral: None,
            entities: rendered.body.entities.clone(),
            reply_markup: rendered.keyboard.clone(),
        }
    }

    /// Makes the message the answer to an ephemeral one, if there is one.
    pub(super) fn answering(mut self, ephemeral: Option<&'a EphemeralAnswer>) -> Self {
        self.ephemeral = ephemeral;
        self
    }
}

impl<P: Payload> Payload for RenderedMessage<'_, P> {
    type Output = P::Output;
    const NAME: &'static str = P::NAME;
}

/// A payload of the library that carries a text.
pub(super) trait TextPayload: Payload + Serialize {
    /// Sets the text, without previews of its links.
    fn set_text(&mut self, text: String);
}

impl TextPayload for SendMessage {
    fn set_text(&mut self, text: String) {
        self.text = text;
        self.link_preview_options = Some(no_preview());
    }
}

impl TextPayload for EditMessageText {
    fn set_text(&mut self, text: String) {
        self.text = text;
        self.link_preview_options = Some(no_preview());
    }
}

fn no_preview() -> LinkPreviewOptions {
    LinkPreviewOptions {
        is_disabled: true,
        url: None,
        prefer_small_media: false,
        prefer_large_media: false,
        show_above_text: false,
    }
}

/// `getUpdates` with updates as plain JSON and an offset of any size. The library fails for all updates if it does not
/// know one kind of entity in one of them.
#[derive(Serialize)]
pub(super) struct PollUpdates {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) offset: Option<i64>,
    pub(super) limit: usize,
    /// The number of seconds for which Telegram holds the request.
    pub(super) timeout: u64,
    pub(super) allowed_updates: &'static [&'static str],
}

impl Payload for PollUpdates {
    type Output = Vec<Value>;
    const NAME: &'static str = "GetUpdates";

    fn timeout_hint(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.timeout))
    }
}

/// `setWebhook` with kinds of updates that the library does not know.
#[derive(Serialize)]
pub(super) struct RegisterWebhook {
    #[serde(flatten)]
    pub(super) webhook: SetWebhook,
    pub(super) allowed_updates: &'static [&'static str],
}

impl Payload for RegisterWebhook {
    type Output = <SetWebhook as Payload>::Output;
    const NAME: &'static str = SetWebhook::NAME;
}

/// `sendMessageDraft`. See <https://core.telegram.org/bots/api#sendmessagedraft>.
#[derive(Serialize)]
pub(super) struct DraftPayload {
    pub(super) chat_id: ChatId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message_thread_id: Option<ThreadId>,
    pub(super) draft_id: i64,
    pub(super) text: String,
    pub(super) entities: Vec<Value>,
    /// True if the draft has a button that stops it.
    pub(super) can_stop: bool,
}

impl Payload for DraftPayload {
    type Output = bool;
    const NAME: &'static str = "SendMessageDraft";
}

/// `sendRichMessage`. See <https://core.telegram.org/bots/api#sendrichmessage>.
#[derive(Serialize)]
pub(super) struct RichPostPayload<'a> {
    pub(super) chat_id: ChatId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message_thread_id: Option<ThreadId>,
    pub(super) rich_message: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reply_parameters: Option<ReplyParameters>,
    #[serde(flatten)]
    pub(super) ephemeral: Option<&'a EphemeralAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reply_markup: Option<&'a Value>,
}

impl Payload for RichPostPayload<'_> {
    type Output = Value;
    const NAME: &'static str = "SendRichMessage";
}

/// `editMessageText` with a rich message instead of a text. See <https://core.telegram.org/bots/api#editmessagetext>.
#[derive(Serialize)]
pub(super) struct RichEditPayload<'a> {
    pub(super) chat_id: ChatId,
    #[serde(flatten)]
    pub(super) message_id: MessageId,
    pub(super) rich_message: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reply_markup: Option<&'a Value>,
}

impl Payload for RichEditPayload<'_> {
    type Output = Value;
    const NAME: &'static str = EditMessageText::NAME;
}

/// `sendRichMessageDraft`. See <https://core.telegram.org/bots/api#sendrichmessagedraft>.
#[derive(Serialize)]
pub(super) struct RichDraftPayload<'a> {
    pub(super) chat_id: ChatId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message_thread_id: Option<ThreadId>,
    pub(super) draft_id: i64,
    pub(super) rich_message: &'a Value,
    /// True if the draft has a button that stops it.
    pub(super) can_stop: bool,
}

impl Payload for RichDraftPayload<'_> {
    type Output = bool;
    const NAME: &'static str = "SendRichMessageDraft";
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::{RenderedMessage, TelegramPayload};
    use crate::interfaces::channel::telegram::text::EntityText;
    use serde_json::json;
    use teloxide_core::payloads::SendMessage;
    use teloxide_core::types::{ChatId, MessageId, ReplyParameters, ThreadId};

    #[test]
    fn a_message_carries_what_the_library_does_not_know() {
        let link = json!({"type": "text_link", "offset": 0, "length": 2, "url": "https://acme.test/"});
        let keyboard =
            json!({"inline_keyboard": [[{"text": "Yes", "callback_data": "t", "style": "danger"}]]});
        let rendered = TelegramPayload {
            body: EntityText {
                text: "go".to_owned(),
                units: 2,
                entities: vec![link.clone()],
            },
            keyboard: Some(keyboard.clone()),
            rich: None,
        };
        let mut message = SendMessage::new(ChatId(-1_001_234_567_890), "");
        message.message_thread_id = Some(ThreadId(MessageId(9)));
        message.reply_parameters = Some(ReplyParameters::new(MessageId(7)).allow_sending_without_reply());
        let sent = RenderedMessage::new(message, &rendered);
        let expected = json!({"chat_id": -1_001_234_567_890_i64, "message_thread_id": 9, "text": "go",
            "entities": [link], "link_preview_options": {"is_disabled": true}, "reply_markup": keyboard,
            "reply_parameters": {"message_id": 7, "allow_sending_without_reply": true}});
        assert_eq!(json!(sent), expected);
    }
}
