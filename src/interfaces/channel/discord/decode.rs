//! Decodes the messages of people. Only the fields that Drydock needs are read, and as plain JSON: a new kind of
//! component in a message must not make the message unreadable. See
//! <https://docs.discord.com/developers/resources/message#message-object>.

use super::list;
use super::places::ChannelKindSeen;
use crate::base::model::{
    Account, ChatFile, ChatPlace, Inbound, InboundKind, Installation, MessageRef, Platform, Sender,
};
use crate::interfaces::channel::words::invite;
use serde_json::Value;

/// The maximum number of files of a message that are decoded.
const FILES_MAX: usize = 32;

/// `DEFAULT` and `REPLY`. All others are notices of Discord, or the answers of applications.
const TYPES_OF_PEOPLE: [u64; 2] = [0, 19];

/// A message of a person, of which only the place is missing.
pub(super) struct WrittenMessage<'a> {
    message: &'a Value,
    /// The id of the message.
    id: &'a str,
    /// The id of its channel.
    pub(super) channel: &'a str,
    author: &'a str,
    /// True in a direct message.
    pub(super) is_direct: bool,
    /// True if it is addressed to the bot.
    pub(super) is_addressed: bool,
    words: String,
}

/// Reads a message. An error is the reason why it is not a person's request.
pub(super) fn person_message<'a>(
    message: &'a Value,
    installation: &Installation,
) -> Result<WrittenMessage<'a>, &'static str> {
    let text = |pointer: &str| {
        let text = message.pointer(pointer).and_then(Value::as_str);
        text.filter(|text| !text.is_empty())
    };
    let (Some(id), Some(channel), Some(author)) = (text("/id"), text("/channel_id"), text("/author/id"))
    else {
        return Err("a message without an id, a channel or an author");
    };
    if author == installation.bot_id {
        return Err("message of our own");
    }
    let is_set = |pointer: &str| message.pointer(pointer).and_then(Value::as_bool) == Some(true);
    if is_set("/author/bot") || is_set("/author/system") || text("/webhook_id").is_some() {
        return Err("message of a bot");
    }
    let kind = message["type"].as_u64().unwrap_or_default();
    if !TYPES_OF_PEOPLE.contains(&kind) {
        return Err("a notice of discord, not a message");
    }
    if text("/edited_timestamp").is_some() {
        return Err("a message was edited");
    }
    let is_direct = text("/guild_id").is_none();
    let content = text("/content").unwrap_or_default();
    let mentions = list(&message["mentions"]);
    let is_mentioned = mentions
        .iter()
        .any(|person| person["id"] == installation.bot_id.as_str());
    let ours = [
        format!("<@{}>", installation.bot_id),
        format!("<@!{}>", installation.bot_id),
    ];
    let is_named = ours.iter().any(|mention| content.contains(mention));
    let words = ours
        .iter()
        .fold(content.to_owned(), |words, mention| words.replace(mention, " "));
    Ok(WrittenMessage {
        message,
        id,
        channel,
        author,
        is_direct,
        is_addressed: is_direct || is_mentioned || is_named,
        words: words.trim().to_owned(),
    })
}

/// Returns the files of a message. See <https://docs.discord.com/developers/resources/message#attachment-object>.
fn sent_files(message: &Value) -> Vec<ChatFile> {
    let attachments = list(&message["attachments"]);
    let file = |attachment: &Value| {
        let kind = attachment["content_type"].as_str().unwrap_or_default();
        let is_media = ["image/", "video/", "audio/"]
            .iter()
            .any(|media| kind.starts_with(media));
        let url = attachment["url"].as_str().filter(|_| !is_media);
        ChatFile {
            name: attachment["filename"].as_str().unwrap_or("file").to_owned(),
            bytes: attachment["size"].as_u64(),
            reference: url.map(str::to_owned),
        }
    };
    attachments.iter().take(FILES_MAX).map(file).collect()
}

impl WrittenMessage<'_> {
    /// Returns the message as the gateway stores it. An error is the reason why it is not a request.
    pub(super) fn inbound(
        &self,
        channel_name: &str,
        installation: &Installation,
        kind: &ChannelKindSeen,
    ) -> Result<Inbound, &'static str> {
        let files = sent_files(self.message);
        let place = place(&installation.account, self.channel, kind, Some(self.id));
        Ok(Inbound {
            channel: channel_name.to_owned(),
            delivery: vec![format!("discord:{channel_name}:message:{}", self.id)],
            sender: sender(&installation.account, self.author),
            place,
            direct: self.is_direct,
            message: Some(MessageRef {
                chat: self.channel.to_owned(),
                id: self.id.to_owned(),
            }),
            kind: self.kind(installation, files.len())?,
            files,
            about: None,
            response_url: None,
        })
    }

    fn kind(&self, installation: &Installation, files: usize) -> Result<InboundKind, &'static str> {
        if let Some(join) = invite(&self.words) {
            return Ok(join);
        }
        let quoted = self.quoted(installation);
        if !self.words.is_empty() || quoted.is_some() && self.is_addressed {
            return Ok(InboundKind::Text {
                text: self.words.clone(),
                quoted,
                addressed: self.is_addressed,
            });
        }
        if files > 0 {
            let what = "file".to_owned();
            return Ok(InboundKind::Unsupported { what });
        }
        if !list(&self.message["message_snapshots"]).is_empty() {
            return Err("forwarded message");
        }
        match self.is_addressed {
            // A message with only the bot's name is treated as a request for help.
            true => Ok(InboundKind::Command {
                verb: "help".to_owned(),
                arguments: String::new(),
            }),
            false => Err("a message without words"),
        }
    }

    /// Returns the text of another person to which the message replies.
    fn quoted(&self, installation: &Installation) -> Option<String> {
        let replied = self.message.get("referenced_message")?;
        let of_other = replied["author"]["id"].as_str()? != installation.bot_id;
        let text = replied["content"]
            .as_str()
            .filter(|text| !text.is_empty() && of_other)?;
        Some(text.to_owned())
    }
}

/// Returns the place of a message in a channel. A message in an ordinary channel begins a thread, whose id it has.
pub(super) fn place(
    account: &Account,
    channel: &str,
    kind: &ChannelKindSeen,
    message: Option<&str>,
) -> ChatPlace {
    let (chat, thread) = match kind {
        ChannelKindSeen::Direct | ChannelKindSeen::Flat => (channel, None),
        ChannelKindSeen::ThreadOf(parent) => (parent.as_str(), Some(channel)),
        ChannelKindSeen::Root => (channel, message),
    };
    ChatPlace {
        account: account.clone(),
        chat: chat.to_owned(),
        thread: thread.map(str::to_owned),
    }
}

/// Returns a person. Ids of people are the same in every server.
pub(super) fn sender(account: &Account, id: &str) -> Sender {
    Sender {
        platform: Platform::Discord,
        account: account.id.clone(),
        id: id.to_owned(),
    }
}
