//! Slack: renders replies as Block Kit and delivers operations through the Web API. Events arrive through its webhook,
//! or over Socket Mode.

mod agent_session;
mod client;
mod code_channel;
mod connector;
mod form;
mod home;
mod inspection;
mod limits;
mod lookup;
mod manifest;
mod optional_blocks;
mod permissions;
mod plan;
mod raw;
mod render;
mod rich_text;
mod sent_file;
mod socket;
mod split;
mod stream;
mod stream_content;
mod streams;
mod upload;
mod webhook;
mod written_piece;

pub use manifest::{SlackConnection, SlackManifest, SlackManifestError};
pub use permissions::{BOT_SCOPES, BotScope};

use super::{
    CallPurpose, Channel, ChannelFinding, ChannelKind, Delivered, DeliveryLookup, Limit, PollMemory,
    PolledInbound, SendError,
};
use crate::base::config::{ServerSettings, SlackSettings};
use crate::base::model::{
    Account, Action, ChatFile, ChatPlace, Installation, MessageRef, Op, Platform, Receipt, Reply, Sender,
};
use crate::base::webhook::Webhook;
use crate::crash_point;
use async_trait::async_trait;
use bytes::Bytes;
use client::{Identified, SlackClient, accept_already_done};
use connector::RepeatEffect;
use jiff::Timestamp;
use render::{SlackPayload, render};
use serde_json::{Value, json};
use socket::{SocketAbsence, SocketOpener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use webhook::SlackInstallation;

#[async_trait]
impl ChannelKind for SlackSettings {
    fn messages(&self, server: &ServerSettings, reply: &Reply, messages_max: usize) -> Vec<Reply> {
        split::messages(reply, &server.link_hosts, messages_max)
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

    async fn connect(
        &self,
        name: &str,
        server: &ServerSettings,
        http: &reqwest::Client,
    ) -> Result<Arc<dyn Channel>, SendError> {
        let client = SlackClient::new(http.clone(), &self.api_base_url, self.bot_token.clone());
        let Identified { who, scopes, .. } = client.identify().await?;
        let unreadable = lookup::unreadable(scopes.as_deref());
        if let Some(unreadable) = &unreadable {
            tracing::warn!(
                channel = name,
                "{unreadable}: results are posted in two steps, so that no result is shown twice"
            );
        }
        let used = permissions::used_scopes(self);
        let missing = permissions::missing_scopes(&used, scopes.as_deref().unwrap_or_default()).into_iter();
        for scope in missing.filter(|scope| scopes.is_some() && !scope.reads_posts()) {
            tracing::warn!(
                channel = name,
                "slack grants no {}, which {}",
                scope.name,
                scope.purpose
            );
        }
        let sockets = match self.app_token.clone() {
            Some(token) => Some(SocketOpener::verified(name, http.clone(), &self.api_base_url, token).await?),
            None => None,
        };
        let missing = || SendError::Refused("auth.test did not return `user`".to_owned());
        Ok(Arc::new(SlackChannel {
            installation: Installation {
                account: Account {
                    platform: Platform::Slack,
                    id: who.team_id,
                },
                bot_id: who.user_id,
                bot_name: who.user.ok_or_else(missing)?,
            },
            can_find: unreadable.is_none(),
            client,
            code_channels: self.code_channels,
            link_hosts: server.link_hosts.clone(),
            channel: name.to_owned(),
            commands: self.slash_commands.clone(),
            sockets,
            absence: SocketAbsence::default(),
        }))
    }
}

/// Slack's error codes for a conversation that the bot or the user has not joined.
const NOT_THERE: [&str; 3] = ["channel_not_found", "not_in_channel", "user_not_in_channel"];

struct SlackChannel {
    client: SlackClient,
    installation: Installation,
    link_hosts: Vec<String>,
    can_find: bool,
    /// True if the configuration wants code channels.
    code_channels: bool,
    channel: String,
    /// The commands that start pipelines.
    commands: Vec<String>,
    /// Opens the sockets of Socket Mode.
    sockets: Option<SocketOpener>,
    absence: SocketAbsence,
}

#[async_trait]
impl Channel for SlackChannel {
    fn installation(&self) -> &Installation {
        &self.installation
    }

    async fn deliver(&self, op: &Op) -> Result<Delivered, SendError> {
        match &op.action {
            Action::React { message, receipt } => self.react(message, *receipt).await,
            Action::Post { reply, .. } => self.post(op, reply).await,
            Action::Stream { reply, to, .. } => match self.start_stream(op, reply, to).await? {
                Some(message) => Ok(Delivered {
                    message: Some(message),
                }),
                None => self.post(op, reply).await,
            },
            Action::Edit { message, reply } => self.edit(&op.place, message, reply).await,
            Action::Progress {
                message,
                reply,
                whole,
            } => match self.append(&op.place, message, whole).await? {
                true => Ok(Delivered::default()),
                false => self.edit(&op.place, message, reply).await,
            },
            Action::Fill { .. } => Err(SendError::Refused(
                "a fill must become an edit before it is delivered".to_owned(),
            )),
            Action::Draft { .. } => Err(SendError::Refused("slack has no drafts".to_owned())),
            Action::Notice { to, reply } => self.notice(op, to, reply).await,
            Action::Upload {
                file_name,
                content,
                caption,
            } => self.upload(op, file_name, content, caption).await,
            Action::ShowDiff {
                tab,
                file_name,
                content,
                caption,
            } => match self.show_diff(op, tab, content, caption).await? {
                Some(delivered) => Ok(delivered),
                None => self.upload(op, file_name, content, caption).await,
            },
            Action::CloseDiff { change } => {
                let closed = self.close_diff(op, change);
                closed.await.map(|()| Delivered::default())
            }
            Action::AskForWords {
                to,
                trigger,
                title,
                question,
                about,
            } => {
                let form = form::WordsForm {
                    title,
                    question,
                    about,
                };
                if let Some(trigger) = trigger
                    && form::open(&self.client, trigger, &op.place, form).await?
                {
                    return Ok(Delivered::default());
                }
                let text = format!("{question} Write it in this conversation.");
                self.notice(op, to, &Reply::text(text)).await
            }
            Action::ShowWork { status, title } => {
                let shown = self.client.show_work(&op.place, *status, title.as_deref());
                shown.await.map(|()| Delivered::default())
            }
            Action::ShowHome { to, reply } => {
                let view = home::view(reply, &self.link_hosts);
                let shown = self.client.publish_home(&self.channel, &to.id, &view);
                shown.await.map(|()| Delivered::default())
            }
            Action::AnswerClick { to, text, .. } => self.notice(op, to, &Reply::text(text)).await,
            Action::Respond { reply, .. } => self.respond_only(op, reply).await,
        }
    }

    async fn read_file(&self, file: &ChatFile, bytes_max: usize) -> Result<Option<Bytes>, SendError> {
        self.client.read_file(file, bytes_max).await
    }

    fn can_find(&self) -> bool {
        self.can_find
    }

    async fn find(&self, op: &Op, since: Timestamp) -> Result<DeliveryLookup, SendError> {
        match &op.action {
            Action::Post { .. } | Action::Upload { .. } | Action::ShowDiff { .. } => {
                self.look_up(op, since).await
            }
            Action::Notice { .. } if is_direct(&op.place) => self.look_up(op, since).await,
            // A stream has no metadata by which it could be found.
            Action::Stream { .. } => match self.look_up(op, since).await? {
                DeliveryLookup::Nothing => Ok(DeliveryLookup::CannotTell),
                found => Ok(found),
            },
            // Nobody but its reader sees an answer, and it stays until they reload, so a second one would show.
            Action::Respond { .. } => Ok(DeliveryLookup::CannotTell),
            // An ephemeral message is in no history, and the other operations can be repeated.
            Action::Notice { .. }
            | Action::AnswerClick { .. }
            | Action::AskForWords { .. }
            | Action::Draft { .. }
            | Action::ShowWork { .. }
            | Action::ShowHome { .. }
            | Action::CloseDiff { .. }
            | Action::React { .. }
            | Action::Edit { .. }
            | Action::Progress { .. }
            | Action::Fill { .. } => Ok(DeliveryLookup::Nothing),
        }
    }

    async fn probe(&self) -> Result<(), SendError> {
        self.client.identify().await.map(|_| ())
    }

    fn streams(&self, place: &ChatPlace) -> bool {
        self.can_stream(place)
    }

    fn diff_bytes_max(&self, place: &ChatPlace) -> Option<usize> {
        self.can_show_diff(place).then_some(code_channel::VIEW_BYTES_MAX)
    }

    fn may_have_diff_tab(&self, place: &ChatPlace) -> bool {
        self.wants_code_channel(place)
    }

    fn limits(&self, op: &Op, call: CallPurpose) -> Vec<Limit> {
        limits::limits(op, call, &self.client.streams)
    }

    fn update_spacing(&self, message: &MessageRef) -> Duration {
        limits::update_spacing(message, &self.client.streams)
    }

    fn disconnected_since(&self) -> Option<Timestamp> {
        self.absence.since()
    }

    async fn poll(
        &self,
        inbox: mpsc::Sender<PolledInbound>,
        _memory: &dyn PollMemory,
        now: fn() -> Timestamp,
        cancel: CancellationToken,
    ) {
        if let Some(opener) = &self.sockets {
            let sockets = (opener, &self.absence);
            let installed = SlackInstallation::new(&self.channel, &self.installation, &self.commands);
            socket::poll(&self.channel, installed, sockets, &inbox, now, &cancel).await;
        }
    }
}

impl SlackChannel {
    async fn react(&self, message: &MessageRef, receipt: Receipt) -> Result<Delivered, SendError> {
        let (ours, before) = match receipt {
            Receipt::Seen => ("eyes", None),
            Receipt::Queued => ("hourglass_flowing_sand", None),
            Receipt::Started => ("eyes", Some("hourglass_flowing_sand")),
        };
        self.client.add_reaction(message, ours).await?;
        if let Some(before) = before {
            self.client.remove_reaction(message, before).await?;
        }
        Ok(Delivered::default())
    }

    async fn post(&self, op: &Op, reply: &Reply) -> Result<Delivered, SendError> {
        let mut body = self.message_at(&op.place, reply);
        body["metadata"] = lookup::metadata(op);
        crash_point::before("B8");
        let posted = self
            .client
            .send_message("chat.postMessage", &body, RepeatEffect::Once)
            .await;
        crash_point::before("B9");
        let posted = match posted {
            Err(SendError::Refused(why)) => return self.respond(op, reply, why).await,
            posted => posted?,
        };
        Ok(Delivered {
            message: message_of(&posted, &op.place.chat),
        })
    }

    async fn look_up(&self, op: &Op, since: Timestamp) -> Result<DeliveryLookup, SendError> {
        lookup::find(&self.client, &self.installation.bot_id, op, since).await
    }

    /// Replaces a message. Slack takes no edit of a message that streams, so its stream ends first.
    async fn edit(
        &self,
        place: &ChatPlace,
        message: &MessageRef,
        reply: &Reply,
    ) -> Result<Delivered, SendError> {
        if self.client.streams.is_open(message) {
            self.stop_stream(place, message).await?;
        }
        match self.update(message, reply).await {
            // The stream is one of before a restart.
            Err(SendError::Refused(code)) if code == stream::STREAMS => {
                self.stop_stream(place, message).await?;
                self.update(message, reply).await
            }
            updated => updated,
        }
    }

    async fn update(&self, message: &MessageRef, reply: &Reply) -> Result<Delivered, SendError> {
        let mut body = self.message(reply);
        body["channel"] = json!(message.chat);
        body["ts"] = json!(message.id);
        crash_point::before("B19");
        let edited = self
            .client
            .send_message("chat.update", &body, RepeatEffect::Repeatable)
            .await;
        crash_point::before("B20");
        accept_already_done(edited.map(|_| ()), "message_not_modified")?;
        Ok(Delivered::default())
    }

    async fn notice(&self, op: &Op, to: &Sender, reply: &Reply) -> Result<Delivered, SendError> {
        if is_direct(&op.place) {
            return self.post(op, reply).await;
        }
        let mut body = self.message_at(&op.place, reply);
        body["user"] = json!(to.id);
        // An ephemeral message disappears on reload, so a duplicate is better than a lost message.
        match self
            .client
            .send_message("chat.postEphemeral", &body, RepeatEffect::Repeatable)
            .await
        {
            Err(SendError::Refused(why)) => self.respond(op, reply, why).await,
            shown => shown.map(|_| Delivered::default()),
        }
    }

    /// Answers a command at its response URL if the bot is not in the conversation. Commands work in every
    /// conversation, and so do their response URLs.
    async fn respond(&self, op: &Op, reply: &Reply, why: String) -> Result<Delivered, SendError> {
        let is_elsewhere = NOT_THERE.contains(&why.as_str());
        let Some(url) = op.response_url.as_ref().filter(|_| is_elsewhere) else {
            return Err(SendError::Refused(why));
        };
        self.client.respond(url, &self.private_answer(reply)).await?;
        Ok(Delivered::default())
    }

    /// Answers a command at its response URL.
    async fn respond_only(&self, op: &Op, reply: &Reply) -> Result<Delivered, SendError> {
        let Some(url) = op.response_url.as_ref() else {
            let why = "the address for answers to the command has expired";
            return Err(SendError::Refused(why.to_owned()));
        };
        let answered = self.client.respond_once(url, &self.private_answer(reply)).await;
        answered.map(|()| Delivered::default())
    }

    /// Returns the body of an answer at a response URL, for the user of the command alone.
    fn private_answer(&self, reply: &Reply) -> Value {
        // Containers may be refused there, with an answer that does not say so.
        let mut body = optional_blocks::without_optional(&self.message(reply));
        body["response_type"] = json!("ephemeral");
        body
    }

    /// Returns the fields of a message for a place.
    fn message_at(&self, place: &ChatPlace, reply: &Reply) -> Value {
        let mut body = self.message(reply);
        body["channel"] = json!(place.chat);
        if let Some(thread) = &place.thread {
            body["thread_ts"] = json!(thread);
        }
        body
    }

    /// Returns the common fields of Drydock's messages, which disable links, unfurling and expansion by Slack.
    fn message(&self, reply: &Reply) -> Value {
        let SlackPayload { blocks, text } = render(reply, &self.link_hosts);
        let mut body = json!({
            "text": text,
            "unfurl_links": false,
            "unfurl_media": false,
            "link_names": false,
            "parse": "none",
        });
        if !blocks.is_empty() {
            body["blocks"] = Value::Array(blocks);
        }
        body
    }
}

/// Returns true if a place is a direct chat between one user and the bot.
fn is_direct(place: &ChatPlace) -> bool {
    place.chat.starts_with('D')
}

fn message_of(answer: &Value, chat: &str) -> Option<MessageRef> {
    let id = answer.get("ts").and_then(Value::as_str)?;
    let chat = answer.get("channel").and_then(Value::as_str).unwrap_or(chat);
    Some(MessageRef {
        chat: chat.to_owned(),
        id: id.to_owned(),
    })
}

#[cfg(test)]
mod tests;
