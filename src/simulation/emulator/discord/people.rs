//! The actions of people: messages, presses and commands.

use super::state::{DiscordMessage, EmulatedInteraction, bot_json, channel_json, user_json};
use super::{DiscordEmulator, SharedDiscord, interactions, rest};
use crate::simulation::emulator::traffic::SentRequest;
use jiff::Timestamp;
use ring::signature::Ed25519KeyPair;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;
use twilight_model::gateway::Intents;

/// Time limit of a signed request.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// A command or press that was not sent yet.
#[derive(Clone, Debug)]
pub struct UnsentInteraction {
    /// The payload.
    pub payload: Value,
    /// Its token.
    pub token: String,
}

impl DiscordEmulator {
    /// Sends a message of a person in their own chat with the bot. Returns the id of the message.
    pub fn dm(&self, person: u64, words: &str) -> u64 {
        let at = (self.shared.options.at)();
        let channel = self.shared.change(|state| state.open_direct(person, at));
        self.say(person, channel, words)
    }

    /// Sends a message of a person in a channel or thread, in which `@drydock` mentions the bot. Returns its id.
    pub fn say(&self, person: u64, channel: u64, words: &str) -> u64 {
        self.write(person, channel, words, &json!({}))
    }

    /// Sends a message of a person with further fields of its event.
    pub fn write(&self, person: u64, channel: u64, words: &str, fields: &Value) -> u64 {
        let options = &self.shared.options;
        let content = words.replace("@drydock", &format!("<@{}>", options.bot));
        self.shared.change(|state| {
            let id = state.next_id((options.at)());
            let is_direct = state
                .channels
                .get(&channel)
                .is_some_and(|channel| channel.person.is_some());
            let mut object = fields.clone();
            if content.contains(&format!("<@{}>", options.bot)) && fields.get("mentions").is_none() {
                object["mentions"] = json!([bot_json(options.bot)]);
            }
            let message = DiscordMessage {
                id,
                channel,
                author: person,
                content: content.clone(),
                components: json!([]),
                flags: 0,
                nonce: None,
                files: Vec::new(),
                pinged: Vec::new(),
                reactions: BTreeSet::new(),
                edits: 0,
                only_for: None,
                replies_to: None,
                kind: 0,
                fields: object,
            };
            let mut event = rest::message_json(&message, &self.shared, rest::NonceUse::Shown);
            if !is_direct {
                event["guild_id"] = json!(options.guild.to_string());
                event["member"] = json!({"roles": [], "deaf": false, "mute": false, "flags": 0});
            }
            state.messages.push(message);
            let needed = match is_direct {
                true => Intents::DIRECT_MESSAGES,
                false => Intents::GUILD_MESSAGES,
            };
            if !state.hidden_channels.contains(&channel) {
                state.gateway.dispatch("MESSAGE_CREATE", &event, needed);
            }
            id
        })
    }

    /// Sends the edit of a message by its person.
    pub fn edit(&self, person: u64, channel: u64, id: u64, words: &str) {
        let options = &self.shared.options;
        let content = words.replace("@drydock", &format!("<@{}>", options.bot));
        let event = json!({"id": id.to_string(), "channel_id": channel.to_string(), "content": content,
            "author": user_json(person), "type": 0, "guild_id": options.guild.to_string(),
            "mentions": [bot_json(options.bot)], "edited_timestamp": "2026-11-21T12:00:01.000000+00:00"});
        self.shared.change(|state| {
            let mut messages = state.messages.iter_mut();
            if let Some(edited) = messages.find(|message| message.id == id) {
                edited.content.clone_from(&content);
                for field in ["edited_timestamp", "mentions"] {
                    edited.fields[field] = event[field].clone();
                }
            }
            state
                .gateway
                .dispatch("MESSAGE_UPDATE", &event, Intents::GUILD_MESSAGES)
        });
    }

    /// Returns a press of a button, by its label. `None` if the message has no such button.
    pub fn press(&self, person: u64, message: u64, label: &str) -> Option<UnsentInteraction> {
        let found =
            self.with_state(|state| state.messages.iter().find(|other| other.id == message).cloned())?;
        self.press_as_seen(person, &found, label)
    }

    /// Returns a press of a button of a message as it was seen, even if the message was edited since. `None` if it had
    /// no such button.
    pub fn press_as_seen(
        &self,
        person: u64,
        found: &DiscordMessage,
        label: &str,
    ) -> Option<UnsentInteraction> {
        let (_, id) = found.buttons().into_iter().find(|(other, _)| other == label)?;
        let data = json!({"component_type": 2, "custom_id": id});
        Some(self.with_message(3, person, found.channel, &data, Some(found.id)))
    }

    /// Returns an interaction that belongs to a message.
    pub(super) fn with_message(
        &self,
        kind: u64,
        person: u64,
        channel: u64,
        data: &Value,
        message: Option<u64>,
    ) -> UnsentInteraction {
        let mut interaction = self.interaction(kind, person, channel, data, message);
        let message = self.with_state(|state| {
            state
                .messages
                .iter()
                .find(|other| Some(other.id) == message)
                .cloned()
        });
        if let Some(message) = message {
            interaction.payload["message"] =
                rest::message_json(&message, &self.shared, rest::NonceUse::Shown);
        }
        interaction
    }

    /// Returns the command `/drydock` with these words. It is offered only where it is registered for.
    pub fn slash(&self, person: u64, channel: u64, words: &str) -> UnsentInteraction {
        let data = json!({"id": "77", "name": "drydock", "type": 1,
            "options": [{"name": "command", "type": 3, "value": words}]});
        let command = self.interaction(2, person, channel, &data, None);
        let context = &command.payload["context"];
        let is_offered = |registered: &Value| {
            let contexts = registered["contexts"].as_array();
            registered["name"] == "drydock" && contexts.is_some_and(|contexts| contexts.contains(context))
        };
        if !self.with_state(|state| state.commands.iter().any(is_offered)) {
            let problem = format!("/drydock is not offered in context {context}");
            self.shared.change(|state| state.problems.push(problem));
        }
        command
    }

    fn interaction(
        &self,
        kind: u64,
        person: u64,
        channel: u64,
        data: &Value,
        original: Option<u64>,
    ) -> UnsentInteraction {
        let options = &self.shared.options;
        self.shared.change(|state| {
            let id = state.next_id((options.at)());
            let token = format!("aW50ZXJhY3Rpb246-{id}-canary");
            let place = state.channels.get(&channel).map(|place| channel_json(channel, place, options.guild));
            let is_direct = state.channels.get(&channel).is_some_and(|place| place.person.is_some());
            let mut payload = json!({"id": id.to_string(), "application_id": options.application.to_string(),
                "type": kind, "data": data, "channel_id": channel.to_string(), "channel": place, "token": token,
                "version": 1, "app_permissions": "0", "locale": "en-US", "entitlements": [],
                "attachment_size_limit": 10_485_760, "authorizing_integration_owners": {}});
            // `BOT_DM` and `GUILD`
            payload["context"] = json!(u64::from(is_direct));
            match is_direct {
                true => payload["user"] = user_json(person),
                false => {
                    payload["guild_id"] = json!(options.guild.to_string());
                    payload["member"] = json!({"user": user_json(person), "roles": [], "permissions": "0"});
                }
            }
            let interaction = EmulatedInteraction {
                id,
                kind,
                person,
                channel,
                sent: Instant::now(),
                at: (options.at)(),
                response: None,
                original,
            };
            state.interactions.insert(token.clone(), interaction);
            UnsentInteraction { payload, token }
        })
    }

    /// Sends an interaction over the gateway, once.
    pub fn send(&self, interaction: &UnsentInteraction) {
        self.shared.change(|state| {
            state
                .gateway
                .dispatch("INTERACTION_CREATE", &interaction.payload, Intents::empty());
        });
    }

    /// Returns true if an interaction was responded to.
    pub fn is_responded_to(&self, interaction: &UnsentInteraction) -> bool {
        self.with_state(|state| {
            let interaction = state.interactions.get(&interaction.token);
            interaction.is_some_and(|interaction| interaction.response.is_some())
        })
    }

    /// Sends an interaction as a signed request, and takes the response in its answer. Returns the status and the body.
    pub async fn send_signed(
        &self,
        url: &str,
        interaction: &UnsentInteraction,
    ) -> Result<(u16, Value), reqwest::Error> {
        let at = (self.shared.options.at)();
        let (status, body) = self.send_raw(url, &interaction.payload, at).await?;
        if status == 200 {
            let traffic = &self.shared.traffic;
            traffic.add(|| SentRequest::document("ANSWER", "/interactions", &body.to_string()));
            let taken = self
                .shared
                .change(|state| interactions::respond(state, &self.shared, &interaction.token, &body));
            if let Err(refusal) = taken {
                let problem = format!("the response to an interaction: {}", refusal.body());
                self.shared.change(|state| state.problems.push(problem));
            }
        }
        Ok((status, body))
    }

    /// Sends any payload as a request that is signed at a time.
    pub async fn send_raw(
        &self,
        url: &str,
        payload: &Value,
        at: Timestamp,
    ) -> Result<(u16, Value), reqwest::Error> {
        let body = payload.to_string();
        let time = at.as_second().to_string();
        let signature = self.shared.signature(&format!("{time}{body}"));
        let request = self
            .shared
            .options
            .http
            .post(url)
            .header("content-type", "application/json")
            .header("x-signature-ed25519", signature)
            .header("x-signature-timestamp", time)
            .timeout(REQUEST_TIME_MAX)
            .body(body);
        let mut answer = request.send().await?;
        let status = answer.status().as_u16();
        let mut read = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            read.extend_from_slice(&chunk);
        }
        Ok((status, serde_json::from_slice(&read).unwrap_or_default()))
    }

    /// Returns the messages that only a person sees.
    pub fn private_answers(&self, person: u64) -> Vec<DiscordMessage> {
        self.with_state(|state| {
            let answers = state
                .messages
                .iter()
                .filter(|message| message.only_for == Some(person));
            answers
                .filter(|message| !message.content.is_empty())
                .cloned()
                .collect()
        })
    }
}

impl SharedDiscord {
    fn signature(&self, signed: &str) -> String {
        match Ed25519KeyPair::from_seed_unchecked(&self.options.signing_seed) {
            Ok(key) => hex::encode(key.sign(signed.as_bytes())),
            Err(_) => String::new(),
        }
    }
}
