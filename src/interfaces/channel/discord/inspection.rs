//! The inspection of a Discord application: its token, the intent that lets it read messages, and its command.

use super::api::DiscordApi;
use super::list;
use super::registration::COMMAND;
use crate::base::config::DiscordSettings;
use crate::interfaces::channel::inspection::{ChannelFinding, clock, unidentified};
use jiff::Timestamp;
use serde_json::Value;
use twilight_model::id::Id;

/// `GATEWAY_MESSAGE_CONTENT` and `GATEWAY_MESSAGE_CONTENT_LIMITED`
const MESSAGE_CONTENT: u64 = 1 << 18 | 1 << 19;
/// The correction for a missing intent.
pub(super) const ENABLE_INTENT: &str =
    "enable Message Content Intent under Bot of the application in the Developer Portal";

pub(super) async fn inspect(
    name: &str,
    settings: &DiscordSettings,
    http: &reqwest::Client,
    at: Timestamp,
) -> Vec<ChannelFinding> {
    let api = DiscordApi::new(http.clone(), &settings.api_base_url, settings.bot_token.clone());
    let asked = api.call_with_date(api.requests().current_user_application());
    let (application, date) = match asked.await {
        Ok(answer) => answer,
        Err(error) => {
            let error = error.into_repeatable_error();
            let correction = "the token under Bot of the application in the Developer Portal";
            return vec![unidentified(&error, name, correction)];
        }
    };
    let bot = application["bot"]["username"].as_str().unwrap_or("?");
    let id = application["id"].as_str().unwrap_or("?");
    let mut findings = vec![ChannelFinding::fine("token", format!("{bot} (application {id})"))];
    let flags = application["flags"].as_u64().unwrap_or_default();
    findings.push(match flags & MESSAGE_CONTENT {
        0 => {
            let why = "Discord shows the bot no words of messages, and refuses its gateway connection";
            ChannelFinding::failure("intents", why, ENABLE_INTENT)
        }
        _ => ChannelFinding::fine("intents", "Message Content Intent is on"),
    });
    findings.push(command(&api, id).await);
    findings.extend(endpoint(name, settings, &application));
    findings.extend(clock("Discord", date, at));
    findings
}

async fn command(api: &DiscordApi, application: &str) -> ChannelFinding {
    let fix = "start `drydock serve`, which registers it";
    let Some(application) = application.parse().ok().and_then(Id::new_checked) else {
        return ChannelFinding::warning("command", "the application has no id", fix);
    };
    let requests = api.requests().interaction(application);
    match api.call(requests.global_commands()).await {
        Err(error) => ChannelFinding::warning("command", error.into_repeatable_error().to_string(), fix),
        Ok(registered) => match list(&registered).iter().any(|command| command["name"] == COMMAND) {
            true => ChannelFinding::fine("command", "/drydock is registered"),
            false => ChannelFinding::warning("command", "/drydock is not registered", fix),
        },
    }
}

/// Compares the address for interactions with the configuration: with one, Discord sends none over the gateway.
fn endpoint(name: &str, settings: &DiscordSettings, application: &Value) -> Option<ChannelFinding> {
    let there = application["interactions_endpoint_url"].as_str();
    match (there.filter(|url| !url.is_empty()), &settings.public_key) {
        (Some(_), None) => Some(ChannelFinding::failure(
            "interactions",
            "Discord sends commands and presses to an address, and not over the gateway",
            format!("set channels.{name}.public_key, or remove the Interactions Endpoint URL"),
        )),
        (Some(_), Some(_)) => Some(ChannelFinding::fine("interactions", "sent to an address")),
        (None, _) => Some(ChannelFinding::fine("interactions", "sent over the gateway")),
    }
}
