//! Telegram: renders replies and delivers operations. It uses blocks, and text with entities, instead of a markup
//! language, so that text of a model or a repository cannot break or change a message.

mod api;
mod form;
mod auto_links;
mod draft;
mod ephemeral;
mod inspection;
mod limits;
mod messages;
mod payload;
mod poll;
mod profile;
mod refused_forms;
mod render;
mod rich;
mod split;
mod text;
mod webhook;

pub use profile::{SetupChange, SetupStep, set_up_telegram};

use super::{
    CallPurpose, Channel, ChannelFinding, ChannelKind, Delivered, DeliveryLookup, Limit, PollMemory,
    PolledInbound, SendError,
};
use crate::base::config::{RichMessages, ServerSettings, TelegramMode, TelegramSettings};
use crate::base::model::{
    Account, Action, ChatFile, ChatPlace, Installation, MessageRef, Op, Platform, Receipt, Reply, ReplyPart,
};
use crate::base::webhook::Webhook;
use crate::interfaces::channel::refusal::RememberedRefusal;
use api::{ApiError, BotApi};
use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use profile::SuggestCommands;
use refused_forms::RefusedForms;
use render::{ENTITIES_MAX, RenderOptions, TelegramPayload, render};
use serde::Serialize;
use serde_json::{Value, json};
use std::str::FromStr;
use std::sync::Arc;
use teloxide_core::payloads::{AnswerCallbackQuery, GetFile, GetMe, SetMessageReaction};
use teloxide_core::requests::Payload;
use teloxide_core::types::{CallbackQueryId, ChatId, FileId, MessageId, ReactionType, ThreadId};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The requested updates; the library does not know all of them. Edits are included so that they are audited and
/// ignored.
const ALLOWED_UPDATES: [&str; 5] = [
    "message",
    "edited_message",
    "callback_query",
    "my_chat_member",
    "stopped_message_generation",
];
/// The maximum number of bytes of a file that a bot may send.
const FILE_BYTES_MAX: usize = 50 * 1000 * 1000;
/// The maximum number of UTF-16 units of a caption.
const CAPTION_UNITS_MAX: usize = 1024;
/// The maximum number of UTF-16 units of the answer to a button press.
const ANSWER_UNITS_MAX: usize = 200;

struct TelegramChannel {
    name: String,
    installation: Installation,
    api: BotApi,
    mode: TelegramMode,
    link_hosts: Vec<String>,
    refused_drafts: RememberedRefusal,
    rich_messages: RichMessages,
    /// Rich messages, and rich drafts: the server knows both or none of them.
    refused_rich: RememberedRefusal,
    refused_forms: RefusedForms,
}

#[async_trait]
impl ChannelKind for TelegramSettings {
    fn messages(&self, server: &ServerSettings, reply: &Reply, messages_max: usize) -> Vec<Reply> {
        split::messages(reply, &server.link_hosts, messages_max)
    }

    fn webhook(&self, name: &str, installation: &Installation) -> Option<Arc<dyn Webhook>> {
        webhook::webhook(name, self, installation)
    }

    async fn inspect(
        &self,
        name: &str,
        server: &ServerSettings,
        http: &reqwest::Client,
        at: Timestamp,
    ) -> Vec<ChannelFinding> {
        inspection::inspect(name, self, server, http, at).await
    }

    /// Requests the bot's identity, and configures how Telegram delivers updates.
    async fn connect(
        &self,
        name: &str,
        server: &ServerSettings,
        http: &reqwest::Client,
    ) -> Result<Arc<dyn Channel>, SendError> {
        let api = BotApi::new(http.clone(), &self.api_base_url, self.bot_token.clone());
        let me = api.call(&GetMe::new()).await;
        let me = me.map_err(ApiError::into_repeatable_error)?;
        let channel = TelegramChannel {
            name: name.to_owned(),
            installation: installation(&me)?,
            api,
            mode: self.mode,
            link_hosts: server.link_hosts.clone(),
            refused_drafts: RememberedRefusal::default(),
            rich_messages: self.rich_messages,
            refused_rich: RememberedRefusal::default(),
            refused_forms: RefusedForms::new(),
        };
        channel
            .register(self, server)
            .await
            .map_err(ApiError::into_repeatable_error)?;
        channel.suggest_commands().await;
        Ok(Arc::new(channel))
    }
}

/// Reads the bot's identity, and nothing else of the answer: compatible servers leave fields out.
fn installation(me: &Value) -> Result<Installation, SendError> {
    let (Some(id), Some(name)) = (me["id"].as_i64(), me["username"].as_str()) else {
        return Err(SendError::Refused("getMe returned no bot".to_owned()));
    };
    Ok(Installation {
        account: Account {
            platform: Platform::Telegram,
            id: id.to_string(),
        },
        bot_id: id.to_string(),
        bot_name: name.to_owned(),
    })
}

#[async_trait]
impl Channel for TelegramChannel {
    fn installation(&self) -> &Installation {
        &self.installation
    }

    async fn deliver(&self, op: &Op) -> Result<Delivered, SendError> {
        let op = self.without_refused_answer(op);
        let op = &*op;
        let place = &op.place;
        match &op.action {
            Action::React { message, receipt } => self.react(message, *receipt).await,
            Action::Post { reply, reply_to, .. } | Action::Stream { reply, reply_to, .. } => {
                let rendered = self.render(reply, &place.chat);
                self.post(op, place, rendered, reply_to.as_ref()).await
            }
            Action::AskForWords { to, question, .. } => {
                let mention = ReplyPart::Mention { to: to.clone() };
                let text = ReplyPart::Text {
                    text: question.clone(),
                };
                let reply = Reply {
                    parts: vec![mention, text],
                };
                let mut rendered = self.render(&reply, &place.chat);
                rendered.keyboard = Some(render::answer_field(question));
                self.post(op, place, rendered, None).await
            }
            Action::Edit { message, reply } | Action::Progress { message, reply, .. } => {
                self.edit(message, reply).await
            }
            Action::Fill { .. } => Err(SendError::Refused("a fill has no message yet".to_owned())),
            Action::Draft { draft, reply } => {
                let rendered = self.render(reply, &place.chat);
                self.draft(place, *draft, rendered).await
            }
            Action::ShowWork { .. } => Err(SendError::Refused("telegram shows no running work".to_owned())),
            Action::ShowHome { .. } => Err(SendError::Refused("telegram has no page of a bot".to_owned())),
            Action::Respond { .. } => Err(SendError::Refused(super::NO_RESPONSES.to_owned())),
            Action::ShowDiff { .. } | Action::CloseDiff { .. } => {
                Err(SendError::Refused("telegram has no tabs".to_owned()))
            }
            Action::Notice { to, reply } => self.notice(op, to, reply).await,
            Action::Upload {
                file_name,
                content,
                caption,
            } => self.upload(place, file_name, content, caption).await,
            Action::AnswerClick {
                callback: Some(callback),
                text,
                ..
            } => self.answer_click(callback, text).await,
            Action::AnswerClick {
                callback: None,
                to,
                text,
            } => self.notice(op, to, &Reply::text(text.as_str())).await,
        }
    }

    async fn read_file(&self, file: &ChatFile, bytes_max: usize) -> Result<Option<Bytes>, SendError> {
        let reference = file.reference.clone().unwrap_or_default();
        let asked = self.api.call(&GetFile::new(FileId(reference))).await;
        let file = asked.map_err(ApiError::into_repeatable_error)?;
        if file["file_size"].as_u64() > Some(bytes_max as u64) {
            return Ok(None);
        }
        let path = file["file_path"].as_str().unwrap_or_default();
        let read = self.api.download(path, bytes_max).await;
        read.map_err(ApiError::into_repeatable_error)
    }

    /// Returns false: Telegram gives bots no access to the history.
    fn can_find(&self) -> bool {
        false
    }

    async fn find(&self, _op: &Op, _since: Timestamp) -> Result<DeliveryLookup, SendError> {
        Ok(DeliveryLookup::CannotTell)
    }

    async fn probe(&self) -> Result<(), SendError> {
        self.repeatable(&GetMe::new()).await.map(|_| ())
    }

    fn shows_drafts(&self, place: &ChatPlace) -> bool {
        self.has_drafts(place)
    }

    fn limits(&self, op: &Op, call: CallPurpose) -> Vec<Limit> {
        limits::limits(&self.without_refused_answer(op), call)
    }

    async fn poll(
        &self,
        inbox: mpsc::Sender<PolledInbound>,
        _memory: &dyn PollMemory,
        _now: fn() -> Timestamp,
        cancel: CancellationToken,
    ) {
        if self.mode == TelegramMode::Polling {
            poll::poll(&self.name, &self.installation, &self.api, &inbox, &cancel).await;
        }
    }
}

impl TelegramChannel {
    async fn register(&self, settings: &TelegramSettings, server: &ServerSettings) -> Result<(), ApiError> {
        match settings.mode {
            TelegramMode::Polling => {
                self.api.call(&profile::without_webhook()).await?;
            }
            // Without a public address, the operator registers the webhook manually.
            TelegramMode::Webhook if server.public_url.is_empty() => {}
            TelegramMode::Webhook => {
                let webhook = profile::webhook(&self.name, settings, server)?;
                self.api.call(&webhook).await?;
            }
        }
        Ok(())
    }

    /// Sets the commands that Telegram suggests. They are optional: a bot without them works.
    async fn suggest_commands(&self) {
        for commands in SuggestCommands::calls() {
            if let Err(err) = self.api.call(&commands).await {
                let why = err.into_repeatable_error();
                tracing::warn!(
                    channel = self.name,
                    "the commands could not be registered with telegram: {why}"
                );
            }
        }
    }

    /// Sets a reaction on a message. Bots may only use a fixed set of reactions. It has no hourglass, so the writing
    /// hand means that a message is queued.
    async fn react(&self, message: &MessageRef, receipt: Receipt) -> Result<Delivered, SendError> {
        let emoji = match receipt {
            Receipt::Seen | Receipt::Started => "👀",
            Receipt::Queued => "✍",
        };
        let mut reaction = SetMessageReaction::new(chat_id(&message.chat)?, message_id(&message.id)?);
        let emoji = emoji.to_owned();
        reaction.reaction = Some(vec![ReactionType::Emoji { emoji }]);
        self.repeatable(&reaction).await
    }

    async fn upload(
        &self,
        place: &ChatPlace,
        file_name: &str,
        content: &Bytes,
        caption: &str,
    ) -> Result<Delivered, SendError> {
        if content.len() > FILE_BYTES_MAX {
            return Err(SendError::Refused("the file is larger than 50 MB".to_owned()));
        }
        let mut fields = vec![("chat_id", chat_id(&place.chat)?.to_string())];
        if let Some(thread) = &place.thread {
            fields.push(("message_thread_id", topic_id(thread)?.to_string()));
        }
        let caption = render::caption(caption, CAPTION_UNITS_MAX);
        if !caption.text.is_empty() {
            fields.push(("caption", caption.text));
            fields.push(("caption_entities", json!(caption.entities).to_string()));
        }
        fields.push(("disable_content_type_detection", "true".to_owned()));
        let form = form::form(&fields, file_name, content);
        let sent = self
            .api
            .upload("sendDocument", &form.content_type, form.body)
            .await;
        let sent = sent.map_err(ApiError::into_post_error)?;
        Ok(delivered(&sent))
    }

    async fn answer_click(&self, callback: &str, text: &str) -> Result<Delivered, SendError> {
        let mut answer = AnswerCallbackQuery::new(CallbackQueryId(callback.to_owned()));
        answer.text = Some(render::unmarked(text, ANSWER_UNITS_MAX)).filter(|text| !text.is_empty());
        match self.api.call(&answer).await {
            Ok(_) => Ok(Delivered::default()),
            // The query has expired, so the answer is no longer needed.
            Err(err) if err.says("query is too old") => Ok(Delivered::default()),
            Err(err) => Err(err.into_repeatable_error()),
        }
    }

    async fn repeatable<P>(&self, payload: &P) -> Result<Delivered, SendError>
    where
        P: Payload + Serialize + Sync,
    {
        let called = self.api.call(payload).await;
        called
            .map(|_| Delivered::default())
            .map_err(ApiError::into_repeatable_error)
    }

    fn render(&self, reply: &Reply, chat: &str) -> TelegramPayload {
        let setting = RenderOptions {
            link_hosts: &self.link_hosts,
            chat: Some(chat),
        };
        let mut rendered = render(reply, setting);
        // A message that was not split, such as a card with words of a model, may have more marks than Telegram keeps.
        if rendered.body.entities.len() > ENTITIES_MAX {
            rendered = rendered.without_marks();
        }
        if self.rich_messages == RichMessages::Auto {
            rendered.rich = rich::rich_message(&reply.parts, setting);
        }
        rendered
    }
}

/// Returns the delivery of a message that Telegram has shown.
fn delivered(sent: &Value) -> Delivered {
    let ids = sent["chat"]["id"].as_i64().zip(sent["message_id"].as_i64());
    let message = ids.map(|(chat, id)| MessageRef {
        chat: chat.to_string(),
        id: id.to_string(),
    });
    Delivered { message }
}

/// Returns the private chat of a user with the bot; its id is the user's id. Telegram refuses a message there if the
/// user has never opened it.
fn private_place(place: &ChatPlace, user: &str) -> ChatPlace {
    if place.chat == user {
        return place.clone();
    }
    ChatPlace {
        account: place.account.clone(),
        chat: user.to_owned(),
        thread: None,
    }
}

/// Returns the chat and the topic of a place.
fn chat_and_topic(place: &ChatPlace) -> Result<(ChatId, Option<ThreadId>), SendError> {
    let topic = place.thread.as_deref().map(topic_id).transpose()?;
    Ok((chat_id(&place.chat)?, topic))
}

fn chat_id(id: &str) -> Result<ChatId, SendError> {
    number(id).map(ChatId)
}

fn message_id(id: &str) -> Result<MessageId, SendError> {
    number(id).map(MessageId)
}

fn topic_id(id: &str) -> Result<ThreadId, SendError> {
    message_id(id).map(ThreadId)
}

fn number<N: FromStr>(id: &str) -> Result<N, SendError> {
    id.parse()
        .map_err(|_| SendError::Refused("not a chat or message of telegram".to_owned()))
}
