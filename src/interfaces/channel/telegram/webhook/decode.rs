//! Decodes an update to an [`Inbound`], or to a reason for ignoring it. Pure; shared by webhook and polling. This
//! module decides which words are a user's own, not what the user may do.

use super::super::ephemeral::answer_address;
use super::rich_words::rich_words;
use super::update::{CallbackQuery, Entity, PressedMessage, StoppedDraft, TelegramChat, TelegramMessage};
use crate::base::model::{
    ChatFile, ChatPlace, Inbound, InboundKind, Installation, MessageRef, Platform, Sender,
};
use crate::base::webhook::{Received, Rejected};
use serde::Deserialize;
use serde_json::Value;

/// Accounts that Telegram itself uses: anonymous group administrators, channels posting in a group, and service
/// notices. None of them is a person.
const SYSTEM_ACCOUNTS: [i64; 3] = [1_087_968_824, 136_817_688, 777_000];

/// Known updates that are ignored, with the reason for the audit log.
const IGNORED: [(&str, &str); 5] = [
    ("edited_message", "edited message"),
    ("channel_post", "channel post"),
    ("edited_channel_post", "edited channel post"),
    ("my_chat_member", "membership change"),
    ("inline_query", "inline query"),
];

/// Kinds of messages without text, each with its noun.
const MEDIA: [(&str, &str); 14] = [
    ("animation", "animation"),
    ("photo", "photo"),
    ("voice", "voice message"),
    ("video_note", "video message"),
    ("video", "video"),
    ("audio", "audio file"),
    ("document", "file"),
    ("sticker", "sticker"),
    ("contact", "contact"),
    ("venue", "place"),
    ("location", "location"),
    ("poll", "poll"),
    ("dice", "dice"),
    ("story", "story"),
];

/// Decodes one update of the bot `installation`, received by the channel `name`.
pub(in crate::interfaces::channel::telegram) fn decode(
    name: &str,
    update: &Value,
    installation: &Installation,
) -> Result<Received, Rejected> {
    let Some(fields) = update.as_object() else {
        return Err(Rejected::Malformed("the update is not an object"));
    };
    if !fields.get("update_id").is_some_and(Value::is_i64) {
        return Err(Rejected::Malformed("the update has no id"));
    }
    let decoder = UpdateDecoder { name, installation };
    if let Some(value) = fields.get("message") {
        let message =
            TelegramMessage::deserialize(value).map_err(|_| Rejected::Malformed("unreadable message"))?;
        return Ok(decoder.message(&message, value));
    }
    if let Some(value) = fields.get("callback_query") {
        let query =
            CallbackQuery::deserialize(value).map_err(|_| Rejected::Malformed("unreadable button press"))?;
        return Ok(decoder.press(query));
    }
    if let Some(value) = fields.get("stopped_message_generation") {
        let stopped = StoppedDraft::deserialize(value)
            .map_err(|_| Rejected::Malformed("unreadable stop of a draft"))?;
        return Ok(decoder.stop(&stopped));
    }
    let known = IGNORED.iter().find(|(key, _)| fields.contains_key(*key));
    Ok(Received::Ignored(known.map_or("unknown update", |(_, why)| why)))
}

struct UpdateDecoder<'a> {
    name: &'a str,
    installation: &'a Installation,
}

impl UpdateDecoder<'_> {
    fn message(&self, message: &TelegramMessage, value: &Value) -> Received {
        let sender = match author(message) {
            Ok(sender) => sender,
            Err(why) => return Received::Ignored(why),
        };
        let kind = match self.kind(message, value) {
            Ok(kind) => kind,
            Err(why) => return Received::Ignored(why),
        };
        let chat = message.chat.id;
        let topic = topic(message.is_topic_message, message.message_thread_id);
        if let Some(id) = message.ephemeral_message_id {
            return self.ephemeral(message, id, sender, topic, kind);
        }
        // A message is identified only by chat and message id. The update id is not used as a second identity:
        // Telegram restarts these ids at a random value after a quiet week, so a new message could carry an old
        // update id and be dropped as a duplicate. Redeliveries keep chat and message id.
        let bot = &self.installation.account.id;
        let mut delivery = vec![format!("telegram:{bot}:{chat}:{}", message.message_id)];
        if let (InboundKind::Unsupported { .. }, Some(group)) = (&kind, &message.media_group_id) {
            // Each file of an album is a message; those without words get one answer.
            delivery.push(format!("telegram:{bot}:{chat}:album:{group}"));
        }
        let has_file = message.text.is_none() && matches!(kind, InboundKind::Text { .. });
        let mut inbound = self.inbound(delivery, sender, &message.chat, topic, message.message_id, kind);
        inbound.files = has_file.then(|| sent_file(value)).into_iter().collect();
        Received::Inbound(Box::new(inbound))
    }

    /// Decodes a message that only its sender and the bot see: a command, which is answered to them alone. Other words
    /// would start work that everybody sees. Telegram may give its id to a later message.
    fn ephemeral(
        &self,
        message: &TelegramMessage,
        id: i64,
        sender: i64,
        topic: Option<i64>,
        kind: InboundKind,
    ) -> Received {
        if !matches!(kind, InboundKind::Command { .. } | InboundKind::Join { .. }) {
            return Received::Ignored("ephemeral message without a command");
        }
        let (bot, chat, at) = (&self.installation.account.id, message.chat.id, message.date);
        let delivery = vec![format!("telegram:{bot}:{chat}:ephemeral:{sender}:{id}:{at}")];
        let mut inbound = self.inbound(delivery, sender, &message.chat, topic, message.message_id, kind);
        inbound.message = None;
        inbound.response_url = answer_address(sender, id, at);
        Received::Inbound(Box::new(inbound))
    }

    fn press(&self, query: CallbackQuery) -> Received {
        if query.from.is_bot || SYSTEM_ACCOUNTS.contains(&query.from.id) {
            return Received::Ignored("button pressed by a bot");
        }
        let (
            Some(PressedMessage {
                message_id,
                ephemeral_message_id,
                chat,
                is_topic_message,
                message_thread_id,
            }),
            Some(token),
        ) = (query.message, query.data)
        else {
            return Received::Ignored("button without message or data");
        };
        let topic = topic(is_topic_message, message_thread_id);
        let delivery = format!("telegram:{}:callback:{}", self.installation.account.id, query.id);
        let kind = InboundKind::Click {
            token,
            callback: Some(query.id),
            trigger: None,
        };
        let mut inbound = self.inbound(vec![delivery], query.from.id, &chat, topic, message_id, kind);
        if ephemeral_message_id.is_some() {
            inbound.message = None;
        }
        Received::Inbound(Box::new(inbound))
    }

    /// Decodes the press of Telegram's own button on a draft: a stop of the message with the number of the draft. A
    /// private chat has the id of its person.
    fn stop(&self, stopped: &StoppedDraft) -> Received {
        let (chat, draft) = (&stopped.chat, stopped.draft_id);
        if chat.kind != "private" {
            return Received::Ignored("stop of a draft outside of a private chat");
        }
        let delivery = format!(
            "telegram:{}:draft:{}:{draft}",
            self.installation.account.id, chat.id
        );
        let kind = InboundKind::Command {
            verb: "stop".to_owned(),
            arguments: format!("#{draft}"),
        };
        let topic = stopped.message_thread_id;
        let mut inbound = self.inbound(vec![delivery], chat.id, chat, topic, draft, kind);
        inbound.message = None;
        Received::Inbound(Box::new(inbound))
    }

    fn inbound(
        &self,
        delivery: Vec<String>,
        sender: i64,
        chat: &TelegramChat,
        topic: Option<i64>,
        message: i64,
        kind: InboundKind,
    ) -> Inbound {
        let account = &self.installation.account;
        Inbound {
            channel: self.name.to_owned(),
            delivery,
            // Only the numeric id is used: usernames can change and be taken over by another person.
            sender: Sender {
                platform: Platform::Telegram,
                account: account.id.clone(),
                id: sender.to_string(),
            },
            place: ChatPlace {
                account: account.clone(),
                chat: chat.id.to_string(),
                thread: topic.map(|topic| topic.to_string()),
            },
            direct: is_direct(chat),
            message: Some(MessageRef {
                chat: chat.id.to_string(),
                id: message.to_string(),
            }),
            kind,
            files: Vec::new(),
            about: None,
            response_url: None,
        }
    }

    fn kind(&self, message: &TelegramMessage, value: &Value) -> Result<InboundKind, &'static str> {
        if let Some(text) = &message.text {
            let words = self.words(message, text, &message.entities);
            return match command(&words.own) {
                Some(command) => self.command(command),
                None => Ok(words.into_text(message)),
            };
        }
        let Some((_, what)) = MEDIA.iter().find(|(key, _)| value.get(key).is_some()) else {
            return Err("service message");
        };
        let words = self.words(
            message,
            message.caption.as_deref().unwrap_or_default(),
            &message.caption_entities,
        );
        match (words.own.is_empty(), words.are_for_us) {
            (false, _) => Ok(words.into_text(message)),
            (true, true) => Ok(InboundKind::Unsupported {
                what: (*what).to_owned(),
            }),
            (true, false) => Err("not for us"),
        }
    }

    fn command(&self, command: Command<'_>) -> Result<InboundKind, &'static str> {
        if command
            .bot
            .is_some_and(|bot| !bot.eq_ignore_ascii_case(&self.installation.bot_name))
        {
            return Err("command for another bot");
        }
        let verb = command.verb.to_ascii_lowercase();
        if verb != "start" {
            return Ok(InboundKind::Command {
                verb,
                arguments: command.arguments.to_owned(),
            });
        }
        // Words after the token are ignored.
        let token = command.arguments.split_whitespace().next().unwrap_or_default();
        if is_invite_token(token) {
            return Ok(InboundKind::Join {
                token: token.to_owned(),
            });
        }
        // Telegram sends `/start` when a user opens the bot; the answer is the help text.
        Ok(InboundKind::Command {
            verb: "help".to_owned(),
            arguments: String::new(),
        })
    }

    fn is_addressed(&self, message: &TelegramMessage, words: &MessageWords) -> bool {
        let replies_to_us = reply_target(message)
            .and_then(|replied| replied.from.as_ref())
            .is_some_and(|user| user.id.to_string() == self.installation.bot_id);
        is_direct(&message.chat) || words.mentions_us || replies_to_us
    }

    /// Separates the user's own words from the bot's mention and from block quotes, which hold the words of others.
    fn words(&self, message: &TelegramMessage, text: &str, entities: &[Entity]) -> MessageWords {
        let mut words = MessageWords::default();
        let mut cuts = Vec::new();
        for entity in entities.iter().filter(|entity| is_quote(entity)) {
            let Some(range) = entity.range(text) else { continue };
            words
                .quoted
                .push(text.get(range.clone()).unwrap_or_default().trim().to_owned());
            cuts.push(range);
        }
        let quotes = cuts.len();
        for entity in entities {
            let Some(range) = entity.range(text) else { continue };
            let is_quoted = cuts.iter().take(quotes).any(|quote| quote.contains(&range.start));
            let marked = text.get(range.clone()).unwrap_or_default();
            if !is_quoted && self.is_our_mention(entity, marked) {
                words.mentions_us = true;
                cuts.push(range);
            }
        }
        cuts.sort_by_key(|range| range.start);
        let mut from = 0;
        for cut in cuts {
            words.own.push_str(text.get(from..cut.start).unwrap_or_default());
            from = from.max(cut.end);
        }
        words.own.push_str(text.get(from..).unwrap_or_default());
        let own = words.own.trim();
        let own = if words.mentions_us {
            own.trim_start_matches([',', ':']).trim_start()
        } else {
            own
        };
        words.own = own.to_owned();
        words.are_for_us = self.is_addressed(message, &words);
        words
    }

    fn is_our_mention(&self, entity: &Entity, marked: &str) -> bool {
        match entity.kind.as_str() {
            "mention" => marked
                .strip_prefix('@')
                .is_some_and(|name| name.eq_ignore_ascii_case(&self.installation.bot_name)),
            "text_mention" => entity
                .user
                .as_ref()
                .is_some_and(|user| user.id.to_string() == self.installation.bot_id),
            _ => false,
        }
    }
}

#[derive(Debug, Default)]
struct MessageWords {
    own: String,
    quoted: Vec<String>,
    mentions_us: bool,
    are_for_us: bool,
}

impl MessageWords {
    fn into_text(mut self, message: &TelegramMessage) -> InboundKind {
        if let Some(replied) = replied_text(message) {
            self.quoted.insert(0, replied);
        }
        self.quoted.retain(|quoted| !quoted.trim().is_empty());
        InboundKind::Text {
            text: self.own,
            quoted: (!self.quoted.is_empty()).then(|| self.quoted.join("\n\n")),
            addressed: self.are_for_us,
        }
    }
}

/// Returns the user who wrote a message, or the reason why there is none.
fn author(message: &TelegramMessage) -> Result<i64, &'static str> {
    let Some(from) = &message.from else {
        return Err("message without a sender");
    };
    if message.sender_chat.is_some() || SYSTEM_ACCOUNTS.contains(&from.id) {
        return Err("message of a chat, not of a person");
    }
    if from.is_bot {
        return Err("message of a bot");
    }
    if message.via_bot.is_some() {
        return Err("message written by an inline bot");
    }
    // A forwarded message holds the words of others, so it cannot be a request.
    if message.forward_origin.is_some()
        || message.forward_date.is_some()
        || message.is_automatic_forward == Some(true)
    {
        return Err("forwarded message");
    }
    if !matches!(message.chat.kind.as_str(), "private" | "group" | "supergroup") {
        return Err("message in a channel");
    }
    Ok(from.id)
}

fn is_direct(chat: &TelegramChat) -> bool {
    chat.kind == "private"
}

/// Returns the forum topic of a message. Plain groups set `message_thread_id` on replies as well, but only a forum
/// topic is a place of its own.
fn topic(is_topic_message: Option<bool>, message_thread_id: Option<i64>) -> Option<i64> {
    message_thread_id.filter(|_| is_topic_message == Some(true))
}

/// Returns the message that was replied to. In a topic, every message formally replies to the one that opened the
/// topic; that does not count.
fn reply_target(message: &TelegramMessage) -> Option<&super::update::RepliedMessage> {
    let replied = message.reply_to_message.as_deref()?;
    let opens_topic = replied.forum_topic_created.is_some()
        || (message.is_topic_message == Some(true) && replied.message_id == message.message_thread_id);
    (!opens_topic).then_some(replied)
}

fn replied_text(message: &TelegramMessage) -> Option<String> {
    let quote = message.quote.as_ref().and_then(|quote| quote.text.as_deref());
    let external = message.external_reply.as_ref().and_then(|external| {
        let quote = external.quote.as_ref().and_then(|quote| quote.text.as_deref());
        quote.or(external.text.as_deref()).or(external.caption.as_deref())
    });
    let replied = reply_target(message);
    let words = replied.and_then(|replied| replied.text.as_deref().or(replied.caption.as_deref()));
    let rich = || Some(rich_words(replied?.rich_message.as_ref()?));
    quote.or(external).or(words).map(str::to_owned).or_else(rich)
}

fn is_quote(entity: &Entity) -> bool {
    matches!(entity.kind.as_str(), "blockquote" | "expandable_blockquote")
}

struct Command<'a> {
    verb: &'a str,
    bot: Option<&'a str>,
    arguments: &'a str,
}

/// Parses `/verb@bot arguments` at the very start of a text. `/etc/hosts` is a path, not a command.
fn command(text: &str) -> Option<Command<'_>> {
    let rest = text.strip_prefix('/')?;
    let (word, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let (verb, bot) = match word.split_once('@') {
        Some((verb, bot)) => (verb, Some(bot)),
        None => (word, None),
    };
    let is_name = |name: &str| {
        (1..=64).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    (is_name(verb) && bot.is_none_or(is_name)).then_some(Command {
        verb,
        bot,
        arguments: arguments.trim(),
    })
}

fn is_invite_token(text: &str) -> bool {
    text.len() == 43
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}
/// Returns the file of a message with a caption. Telegram has one kind of file with a name, a document; the others are media.
/// See <https://core.telegram.org/bots/api#document>.
fn sent_file(value: &Value) -> ChatFile {
    let document = &value["document"];
    let kinds = ["photo", "video", "audio", "voice", "animation", "video_note"];
    let kind = kinds
        .into_iter()
        .find(|kind| value.get(*kind).is_some())
        .unwrap_or("file");
    let media = document["mime_type"].as_str().unwrap_or_default();
    let is_media = ["image/", "video/", "audio/"]
        .iter()
        .any(|prefix| media.starts_with(prefix));
    let reference = document["file_id"].as_str().filter(|_| !is_media);
    ChatFile {
        name: document["file_name"].as_str().unwrap_or(kind).to_owned(),
        bytes: document["file_size"].as_u64(),
        reference: reference.map(str::to_owned),
    }
}
