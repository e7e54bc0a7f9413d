//! Decodes the events of the gateway, and responds to interactions.

use super::GatewayReceiver;
use crate::base::model::Inbound;
use crate::base::webhook::Received;
use crate::interfaces::channel::SendError;
use crate::interfaces::channel::discord::api::{ApiError, code};
use crate::interfaces::channel::discord::decode::person_message;
use crate::interfaces::channel::discord::interaction;
use crate::interfaces::channel::discord::places::ChannelKindSeen;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::time::Duration;
use twilight_model::http::interaction::InteractionResponse;
use twilight_model::id::Id;

/// The time for which a press waits for a form. Discord takes a response within three seconds.
const FORM_TIME_MAX: Duration = Duration::from_millis(900);

/// The content of an event.
pub(super) enum EventContent {
    /// A message, command or press. An interaction is responded to once it is accepted.
    Inbound(Box<Inbound>, Option<InteractionAddress>),
    /// An interaction that is not for the gateway, and is responded to at once.
    Ignored(InteractionAddress),
    /// Nothing for the gateway.
    Nothing,
}

/// An interaction and the response that it gets.
pub(super) struct InteractionAddress {
    id: u64,
    token: String,
    response: Value,
    /// The wait before the response, in which another one may be sent: a form.
    held: Duration,
}

impl<'a> GatewayReceiver<'a> {
    /// Decodes an event that is no new message.
    pub(super) fn decode(&self, kind: &str, data: &Value) -> EventContent {
        match kind {
            "INTERACTION_CREATE" => self.decode_interaction(data),
            "MESSAGE_UPDATE" | "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK" => {
                self.ignore("a message was edited or deleted");
                EventContent::Nothing
            }
            _ => EventContent::Nothing,
        }
    }

    /// Decodes a new message. An error means that Discord did not say where it is.
    pub(super) async fn decode_message(&self, data: &Value) -> Result<EventContent, SendError> {
        let installation = &self.channel.installation;
        let message = match person_message(data, installation) {
            Ok(message) => message,
            Err(why) => {
                self.ignore(why);
                return Ok(EventContent::Nothing);
            }
        };
        let kind = match message.is_direct {
            true => Some(ChannelKindSeen::Direct),
            false => self.places.kind(&self.channel.api, message.channel).await?,
        };
        let Some(kind) = kind else {
            self.ignore("a message in a channel that the bot cannot see");
            return Ok(EventContent::Nothing);
        };
        // Only in a thread can a message belong to a conversation without a mention of the bot.
        if !message.is_addressed && !matches!(kind, ChannelKindSeen::ThreadOf(_)) {
            return Ok(EventContent::Nothing);
        }
        match message.inbound(&self.channel.name, installation, &kind) {
            Ok(inbound) => Ok(EventContent::Inbound(Box::new(inbound), None)),
            Err(why) => {
                self.ignore(why);
                Ok(EventContent::Nothing)
            }
        }
    }

    fn decode_interaction(&self, data: &Value) -> EventContent {
        let address = address_of(data);
        let decoded = interaction::decode(data, &self.channel.name, &self.channel.installation, (self.now)());
        match decoded {
            Ok(Received::Inbound(inbound)) => EventContent::Inbound(inbound, address),
            Ok(Received::Ignored(why)) => {
                self.ignore(why);
                address.map_or(EventContent::Nothing, EventContent::Ignored)
            }
            Ok(Received::Answer(_)) => EventContent::Nothing,
            Err(why) => {
                tracing::warn!(channel = self.channel.name, "skipped an interaction: {why}");
                EventContent::Nothing
            }
        }
    }

    /// Responds to an interaction. A response that Discord refuses is not repeated: it came too late, or there is one.
    pub(super) fn respond(&self, address: InteractionAddress) -> BoxFuture<'a, ()> {
        let channel = self.channel;
        async move {
            tokio::time::sleep(address.held).await;
            let Ok(response) = serde_json::from_value::<InteractionResponse>(address.response) else {
                return;
            };
            let requests = channel.api.requests().interaction(Id::new(1));
            let sent = requests.create_response(Id::new(address.id), &address.token, &response);
            let refused = match channel.api.call(sent).await {
                Ok(_) => return,
                // By a form, or by an earlier attempt.
                Err(error) if error.is(code::ALREADY_RESPONDED) => return,
                Err(ApiError::Refused { reason, .. }) => reason,
                Err(error) => error.into_repeatable_error().to_string(),
            };
            tracing::info!(
                channel = channel.name,
                "an interaction was not responded to: {refused}"
            );
        }
        .boxed()
    }

    fn ignore(&self, why: &str) {
        tracing::debug!(channel = self.channel.name, "ingress.ignored: {why}");
    }
}

fn address_of(data: &Value) -> Option<InteractionAddress> {
    Some(InteractionAddress {
        id: data["id"].as_str()?.parse().ok().filter(|id| *id > 0)?,
        token: data["token"].as_str()?.to_owned(),
        response: interaction::response(data),
        held: match interaction::may_open_form(data) {
            true => FORM_TIME_MAX,
            false => Duration::ZERO,
        },
    })
}
