//! Discord: renders replies as messages and delivers operations through the HTTP API. Messages, commands and presses
//! arrive over its gateway; commands and presses also through its webhook.

mod api;
mod buckets;
mod decode;
mod form;
mod gateway;
mod inspection;
mod interaction;
mod limits;
mod lookup;
mod markup;
mod message;
mod places;
mod registration;
mod render;
mod split;
mod webhook;

use super::{
    CallPurpose, Channel, ChannelFinding, ChannelKind, Delivered, DeliveryLookup, Limit, PollMemory,
    PolledInbound, SendError,
};
use crate::base::config::{DiscordSettings, ServerSettings};
use crate::base::model::{
    Account, Action, ChatFile, ChatPlace, Installation, MessageRef, Op, Platform, Receipt, Reply, ReplyPart,
    Sender,
};
use crate::base::webhook::Webhook;
use api::{ApiError, DiscordApi, code};
use async_trait::async_trait;
use bytes::Bytes;
use form::ModalForm;
use jiff::Timestamp;
use message::{EPHEMERAL, LOADING, edited_message, file_message, new_message, private_message, safe_name};
use render::{DiscordPayload, MentionUse, render};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use twilight_http::request::channel::reaction::RequestReactionType;
use twilight_model::channel::thread::AutoArchiveDuration;
use twilight_model::http::attachment::Attachment;
use twilight_model::id::Id;
use twilight_model::id::marker::ChannelMarker;

/// The maximum number of bytes of a file. A server without boosts accepts 10 MiB.
const FILE_BYTES_MAX: usize = 10 << 20;

/// The first and the longest wait for the response to an interaction, three seconds in all.
const RESPONSE_WAIT_MIN: Duration = Duration::from_millis(25);
const RESPONSE_WAIT_MAX: Duration = Duration::from_millis(1_600);

struct DiscordChannel {
    name: String,
    installation: Installation,
    api: DiscordApi,
    link_hosts: Vec<String>,
}

#[async_trait]
impl ChannelKind for DiscordSettings {
    fn messages(&self, server: &ServerSettings, reply: &Reply, messages_max: usize) -> Vec<Reply> {
        split::messages(reply, &server.link_hosts, messages_max)
    }

    fn fitting_messages_max(&self) -> usize {
        split::FITTING_MESSAGES_MAX
    }

    fn webhook(&self, name: &str, installation: &Installation) -> Option<Arc<dyn Webhook>> {
        webhook::webhook(name, self, installation)
    }

    async fn inspect(
        &self,
        name: &str,
        _server: &ServerSettings,
        http: &reqwest::Client,
        at: Timestamp,
    ) -> Vec<ChannelFinding> {
        inspection::inspect(name, self, http, at).await
    }

    /// Requests the identity of the application and its bot, and registers the command.
    async fn connect(
        &self,
        name: &str,
        server: &ServerSettings,
        http: &reqwest::Client,
    ) -> Result<Arc<dyn Channel>, SendError> {
        let api = DiscordApi::new(http.clone(), &self.api_base_url, self.bot_token.clone());
        let application = api.repeatable(api.requests().current_user_application());
        let application = application.await?;
        let installation = installation(&application)?;
        if let Err(error) = registration::register(&api, &installation).await {
            let why = error.into_repeatable_error();
            tracing::warn!(
                channel = name,
                "the command /drydock could not be registered with discord: {why}"
            );
        }
        Ok(Arc::new(DiscordChannel {
            name: name.to_owned(),
            installation,
            api,
            link_hosts: server.link_hosts.clone(),
        }))
    }
}

/// Reads the identity of an application and its bot. Ids of people are the same everywhere on Discord, so the account is
/// the application.
fn installation(application: &Value) -> Result<Installation, SendError> {
    let text = |pointer: &str| application.pointer(pointer).and_then(Value::as_str);
    let (Some(id), Some(bot), Some(name)) = (text("/id"), text("/bot/id"), text("/bot/username")) else {
        return Err(SendError::Refused(
            "discord returned no application with a bot".to_owned(),
        ));
    };
    Ok(Installation {
        account: Account {
            platform: Platform::Discord,
            id: id.to_owned(),
        },
        bot_id: bot.to_owned(),
        bot_name: name.to_owned(),
    })
}

#[async_trait]
impl Channel for DiscordChannel {
    fn installation(&self) -> &Installation {
        &self.installation
    }

    async fn deliver(&self, op: &Op) -> Result<Delivered, SendError> {
        match &op.action {
            Action::React { message, receipt } => self.react(message, *receipt).await,
            Action::Post { reply, reply_to, .. } | Action::Stream { reply, reply_to, .. } => {
                self.post(op, reply, reply_to.as_ref()).await
            }
            Action::Edit { message, reply } | Action::Progress { message, reply, .. } => {
                self.edit(message, reply).await
            }
            Action::Fill { .. } => Err(SendError::Refused("a fill has no message yet".to_owned())),
            Action::Draft { .. } | Action::ShowWork { .. } => Err(SendError::Refused(
                "discord has no drafts and shows no running work".to_owned(),
            )),
            Action::ShowHome { .. } => Err(SendError::Refused("discord has no page of a bot".to_owned())),
            Action::Respond { .. } => Err(SendError::Refused(super::NO_RESPONSES.to_owned())),
            Action::ShowDiff { .. } | Action::CloseDiff { .. } => {
                Err(SendError::Refused("discord has no tabs".to_owned()))
            }
            Action::AskForWords {
                to,
                trigger,
                title,
                question,
                about,
            } => {
                let form = ModalForm {
                    title,
                    question,
                    about,
                };
                if let Some(trigger) = trigger
                    && form::open(&self.api, trigger, op.response_url.as_ref(), &form).await?
                {
                    return Ok(Delivered::default());
                }
                let reply = words_request(to, question);
                self.post(op, &reply, None).await
            }
            Action::Notice { to, reply } => self.notice(op, to, reply).await,
            Action::Upload {
                file_name,
                content,
                caption,
            } => self.upload(op, file_name, content, caption).await,
            Action::AnswerClick { to, text, .. } => self.notice(op, to, &Reply::text(text)).await,
        }
    }

    async fn read_file(&self, file: &ChatFile, bytes_max: usize) -> Result<Option<Bytes>, SendError> {
        let url = file.reference.as_deref().unwrap_or_default();
        let read = self.api.download(url, bytes_max).await;
        read.map_err(ApiError::into_repeatable_error)
    }

    fn can_find(&self) -> bool {
        true
    }

    async fn find(&self, op: &Op, since: Timestamp) -> Result<DeliveryLookup, SendError> {
        let content = match &op.action {
            Action::Post { reply, .. } | Action::Stream { reply, .. } => {
                self.rendered(&op.place, reply).content
            }
            Action::AskForWords { to, question, .. } => {
                self.rendered(&op.place, &words_request(to, question)).content
            }
            Action::Upload { .. } => String::new(),
            // A private answer is in no history, and the other operations can be repeated.
            Action::Notice { .. }
            | Action::AnswerClick { .. }
            | Action::Draft { .. }
            | Action::ShowWork { .. }
            | Action::ShowHome { .. }
            | Action::Respond { .. }
            | Action::ShowDiff { .. }
            | Action::CloseDiff { .. }
            | Action::React { .. }
            | Action::Edit { .. }
            | Action::Progress { .. }
            | Action::Fill { .. } => return Ok(DeliveryLookup::Nothing),
        };
        lookup::find(&self.api, &self.installation.bot_id, op, &content, since).await
    }

    async fn probe(&self) -> Result<(), SendError> {
        let asked = self.api.repeatable(self.api.requests().current_user());
        asked.await.map(|_| ())
    }

    fn limits(&self, op: &Op, call: CallPurpose) -> Vec<Limit> {
        limits::limits(op, call)
    }

    async fn poll(
        &self,
        inbox: mpsc::Sender<PolledInbound>,
        memory: &dyn PollMemory,
        now: fn() -> Timestamp,
        cancel: CancellationToken,
    ) {
        gateway::poll(self, &inbox, memory, now, &cancel).await;
    }
}

/// Returns the message that asks a person for words, which they answer in the same place.
fn words_request(to: &Sender, question: &str) -> Reply {
    let mention = ReplyPart::Mention { to: to.clone() };
    let text = ReplyPart::Text {
        text: format!("{question} Reply to this message."),
    };
    Reply {
        parts: vec![mention, text],
    }
}

impl DiscordChannel {
    /// Sets a reaction on a message. A message that was queued keeps only the eyes once its work starts.
    async fn react(&self, message: &MessageRef, receipt: Receipt) -> Result<Delivered, SendError> {
        let (ours, before) = match receipt {
            Receipt::Seen => ("👀", None),
            Receipt::Queued => ("⏳", None),
            Receipt::Started => ("👀", Some("⏳")),
        };
        let (channel, id) = (snowflake(&message.chat)?, snowflake(&message.id)?);
        let reaction = |name| RequestReactionType::Unicode { name };
        let requests = self.api.requests();
        let ours = reaction(ours);
        let added = requests.create_reaction(channel, id, &ours);
        self.api.repeatable(added).await?;
        if let Some(before) = before.map(reaction) {
            let removed = requests.delete_current_user_reaction(channel, id, &before);
            self.api.repeatable(removed).await?;
        }
        Ok(Delivered::default())
    }

    async fn post(
        &self,
        op: &Op,
        reply: &Reply,
        reply_to: Option<&MessageRef>,
    ) -> Result<Delivered, SendError> {
        let rendered = self.rendered(&op.place, reply);
        if let Some(answered) = self.answer_own_command(op, &rendered).await? {
            return Ok(answered);
        }
        let channel = message_channel(&op.place);
        let reply_to = reply_to.filter(|replied| replied.chat == channel);
        let body = new_message(op, &rendered, reply_to).to_string();
        self.create(&op.place, body.as_bytes(), &[]).await
    }

    async fn upload(
        &self,
        op: &Op,
        file_name: &str,
        content: &Bytes,
        caption: &str,
    ) -> Result<Delivered, SendError> {
        if content.len() > FILE_BYTES_MAX {
            return Err(SendError::Refused("the file is larger than 10 MiB".to_owned()));
        }
        let body = file_message(op, file_name, &render::caption(caption)).to_string();
        let file = Attachment::from_bytes(safe_name(file_name), content.to_vec(), 0);
        self.create(&op.place, body.as_bytes(), &[file]).await
    }

    /// Creates a message. The first message of a thread creates the thread, below the message whose id it has.
    async fn create(
        &self,
        place: &ChatPlace,
        body: &[u8],
        files: &[Attachment],
    ) -> Result<Delivered, SendError> {
        let channel = snowflake(message_channel(place))?;
        let message = || {
            let message = self.api.requests().create_message(channel);
            self.api.call(message.attachments(files).payload_json(body))
        };
        let posted = match message().await {
            Err(error) if error.is(code::UNKNOWN_CHANNEL) && place.thread.is_some() => {
                self.create_thread(place, channel).await?;
                message().await
            }
            posted => posted,
        };
        let posted = posted.map_err(ApiError::into_post_error)?;
        Ok(delivered(&posted))
    }

    async fn create_thread(&self, place: &ChatPlace, thread: Id<ChannelMarker>) -> Result<(), SendError> {
        let parent = snowflake(&place.chat)?;
        let name = format!("Drydock {thread}");
        let requests = self.api.requests();
        let created = requests
            .create_thread_from_message(parent, thread.cast(), &name)
            .auto_archive_duration(AutoArchiveDuration::ThreeDays);
        match self.api.call(created).await {
            Err(error) if error.is(code::THREAD_EXISTS) => Ok(()),
            created => created.map(|_| ()).map_err(ApiError::into_repeatable_error),
        }
    }

    async fn edit(&self, message: &MessageRef, reply: &Reply) -> Result<Delivered, SendError> {
        let rendered = render(reply, &self.link_hosts, MentionUse::Mentioned);
        let body = edited_message(&rendered).to_string();
        let (channel, id) = (snowflake(&message.chat)?, snowflake(&message.id)?);
        let edited = self.api.requests().update_message(channel, id);
        let edited = edited.payload_json(body.as_bytes());
        self.api.repeatable(edited).await?;
        Ok(Delivered::default())
    }

    /// Sends a message that only one person sees: as the answer to their command or press if there is one, else in their
    /// own chat with the bot.
    async fn notice(&self, op: &Op, to: &Sender, reply: &Reply) -> Result<Delivered, SendError> {
        let rendered = render(reply, &self.link_hosts, MentionUse::Alone);
        if let Some(url) = &op.response_url
            && let Some((application, token)) = interaction::answer_address(url.expose())
        {
            match self.respond(application, token, &rendered, op).await {
                Err(ApiError::Refused { reason, .. }) => {
                    tracing::debug!(reason, "discord takes no answer to a command or press any more");
                }
                answered => {
                    return answered
                        .map(|()| Delivered::default())
                        .map_err(ApiError::into_repeatable_error);
                }
            }
        }
        let requests = self.api.requests();
        let chat = requests.create_private_channel(snowflake(&to.id)?);
        let chat = self.api.repeatable(chat).await?;
        let Some(chat) = chat["id"].as_str() else {
            return Err(SendError::Refused("discord opened no direct message".to_owned()));
        };
        let place = ChatPlace {
            account: op.place.account.clone(),
            chat: chat.to_owned(),
            thread: None,
        };
        let body = new_message(op, &rendered, None).to_string();
        self.create(&place, body.as_bytes(), &[]).await
    }

    /// Answers a command or press. The first answer to a command replaces the sign that it is awaited.
    async fn respond(
        &self,
        application: u64,
        token: &str,
        rendered: &DiscordPayload,
        op: &Op,
    ) -> Result<(), ApiError> {
        let body = private_message(rendered).to_string();
        let interaction = self.api.requests().interaction(Id::new(application));
        let first = self.first_answer(application, token).await?;
        let is_awaited = first["flags"].as_u64().is_some_and(|flags| flags & LOADING != 0);
        if is_awaited && matches!(op.action, Action::Notice { .. }) {
            let answered = interaction.update_response(token).payload_json(body.as_bytes());
            return self.api.call(answered).await.map(|_| ());
        }
        // An earlier attempt whose answer was lost.
        let content = first["content"].as_str().map(str::trim);
        if !is_awaited && content.is_some_and(|content| content == rendered.content.trim()) {
            return Ok(());
        }
        let followed = interaction.create_followup(token).payload_json(body.as_bytes());
        self.api.call(followed).await.map(|_| ())
    }

    /// Returns the message of the response to a command or press. The response may still be under way: it is sent once the
    /// command is stored, and Discord takes no answer before it.
    async fn first_answer(&self, application: u64, token: &str) -> Result<Value, ApiError> {
        let interaction = self.api.requests().interaction(Id::new(application));
        let mut wait = RESPONSE_WAIT_MIN;
        loop {
            match self.api.call(interaction.response(token)).await {
                Err(error) if error.is(code::UNKNOWN_WEBHOOK) && wait <= RESPONSE_WAIT_MAX => {
                    tokio::time::sleep(wait).await;
                    wait *= 2;
                }
                answer => return answer,
            }
        }
    }

    /// Answers a command in a direct message with a post, if Discord shows that the answer is awaited. A repeated answer
    /// finds itself.
    async fn answer_own_command(
        &self,
        op: &Op,
        rendered: &DiscordPayload,
    ) -> Result<Option<Delivered>, SendError> {
        let address = op.response_url.as_ref().filter(|_| op.place.thread.is_none());
        let address = address.and_then(|url| interaction::answer_address(url.expose()));
        let Some((application, token)) = address else {
            return Ok(None);
        };
        let interaction = self.api.requests().interaction(Id::new(application));
        let first = match self.first_answer(application, token).await {
            Ok(first) => first,
            Err(ApiError::Refused { .. }) => return Ok(None),
            Err(error) => return Err(error.into_repeatable_error()),
        };
        let flags = first["flags"].as_u64().unwrap_or_default();
        if flags & EPHEMERAL != 0 {
            return Ok(None);
        }
        if flags & LOADING == 0 {
            let is_this = first["content"].as_str().map(str::trim) == Some(rendered.content.trim());
            return Ok(is_this.then(|| delivered(&first)));
        }
        let body = edited_message(rendered).to_string();
        let answered = interaction.update_response(token).payload_json(body.as_bytes());
        let answered = self.api.call(answered).await;
        let answered = answered.map_err(ApiError::into_post_error)?;
        Ok(Some(delivered(&answered)))
    }

    fn rendered(&self, place: &ChatPlace, reply: &Reply) -> DiscordPayload {
        // Outside of threads Drydock writes in direct messages only, apart from channels without threads.
        let mentions = match place.thread {
            Some(_) => MentionUse::Mentioned,
            None => MentionUse::Alone,
        };
        render(reply, &self.link_hosts, mentions)
    }
}

/// Returns the delivery of a message that Discord has shown.
fn delivered(posted: &Value) -> Delivered {
    let ids = posted["channel_id"].as_str().zip(posted["id"].as_str());
    let message = ids.map(|(chat, id)| MessageRef {
        chat: chat.to_owned(),
        id: id.to_owned(),
    });
    Delivered { message }
}

/// Returns the channel of the messages of a place. A thread is a channel of its own.
fn message_channel(place: &ChatPlace) -> &str {
    place.thread.as_deref().unwrap_or(&place.chat)
}

/// Reads an id, which is never 0.
fn snowflake<T>(id: &str) -> Result<Id<T>, SendError> {
    id.parse()
        .map_err(|_| SendError::Refused("not an id of discord".to_owned()))
}

/// Returns the elements of a list, and none of anything else.
fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
