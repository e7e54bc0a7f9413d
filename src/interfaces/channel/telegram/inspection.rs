//! The inspection of a Telegram bot: its token, its webhook and the errors of the last deliveries.

use super::api::BotApi;
use super::profile::{host_of, missing_updates, webhook};
use crate::base::config::{ServerSettings, TelegramMode, TelegramSettings};
use crate::interfaces::channel::inspection::{ChannelFinding, clock, unidentified};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use teloxide_core::payloads::{GetMe, GetWebhookInfo};

/// The age up to which an error of a delivery is reported.
const ERROR_AGE_MAX: SignedDuration = SignedDuration::from_hours(24);
const SET_UP: &str = "run `drydock telegram setup`";

pub(super) async fn inspect(
    name: &str,
    settings: &TelegramSettings,
    server: &ServerSettings,
    http: &reqwest::Client,
    at: Timestamp,
) -> Vec<ChannelFinding> {
    let api = BotApi::new(http.clone(), &settings.api_base_url, settings.bot_token.clone());
    let (me, date) = match api.call_with_date(&GetMe::new()).await {
        Ok(answer) => answer,
        Err(error) => {
            let error = error.into_repeatable_error();
            return vec![unidentified(
                &error,
                name,
                "the token that @BotFather shows for the bot",
            )];
        }
    };
    let bot = me["username"].as_str().unwrap_or("?");
    let mut findings = vec![ChannelFinding::fine("token", format!("@{bot} ({})", me["id"]))];
    if me["can_read_all_group_messages"] == Value::Bool(false) {
        let why = "in groups, it sees only commands and replies to its own messages";
        let fix = "turn the privacy mode off with /setprivacy at @BotFather, if people are to mention it";
        findings.push(ChannelFinding::warning("groups", why, fix));
    }
    findings.extend(match api.call(&GetWebhookInfo::new()).await {
        Ok(registered) => webhook_findings(name, settings, server, &registered, at),
        Err(error) => {
            let why = error.into_repeatable_error().to_string();
            vec![ChannelFinding::failure("webhook", why, "try again later")]
        }
    });
    findings.extend(clock("Telegram", date, at));
    findings
}

fn webhook_findings(
    name: &str,
    settings: &TelegramSettings,
    server: &ServerSettings,
    registered: &Value,
    at: Timestamp,
) -> Vec<ChannelFinding> {
    let there = registered["url"].as_str().unwrap_or_default();
    let waiting = registered["pending_update_count"].as_u64().unwrap_or_default();
    if settings.mode == TelegramMode::Polling {
        return vec![match there.is_empty() {
            true => ChannelFinding::fine(
                "webhook",
                format!("none, as polling needs; {waiting} updates wait"),
            ),
            false => {
                let why = format!(
                    "mode is polling, and Telegram sends updates to {}",
                    host_of(there)
                );
                ChannelFinding::failure("webhook", why, format!("{SET_UP}, which removes that webhook"))
            }
        }];
    }
    let wanted = match webhook(name, settings, server) {
        Ok(wanted) => wanted,
        Err(error) => {
            let why = error.into_repeatable_error().to_string();
            return vec![ChannelFinding::failure(
                "webhook",
                why,
                "correct the configuration",
            )];
        }
    };
    let missing = missing_updates(registered);
    let address = match there {
        "" => ChannelFinding::failure("webhook", "none is registered", SET_UP),
        there if there != wanted.webhook.url.as_str() => {
            let why = format!(
                "Telegram sends updates to {}, not to {}",
                host_of(there),
                wanted.webhook.url
            );
            ChannelFinding::failure("webhook", why, SET_UP)
        }
        _ if !missing.is_empty() => {
            let missing: Vec<String> = missing.into_iter().collect();
            let why = format!("Telegram does not send {}", missing.join(", "));
            ChannelFinding::failure("webhook", why, SET_UP)
        }
        there => ChannelFinding::fine("webhook", format!("{there}; {waiting} updates wait")),
    };
    let mut findings = vec![address];
    findings.extend(last_error(registered, waiting, at));
    findings
}

/// Returns the error of the last delivery that failed, if it is recent.
fn last_error(registered: &Value, waiting: u64, at: Timestamp) -> Option<ChannelFinding> {
    let failed_at = Timestamp::from_second(registered["last_error_date"].as_i64()?).ok()?;
    if at.duration_since(failed_at) > ERROR_AGE_MAX {
        return None;
    }
    let message = registered["last_error_message"].as_str().unwrap_or("no reason");
    let message: String = message.chars().filter(|c| !c.is_control()).take(200).collect();
    let why = format!("a delivery failed at {failed_at}: {message}; {waiting} updates wait");
    let fix =
        "let requests from Telegram reach Drydock at server.public_url, over TLS on port 443, 80, 88 or 8443";
    Some(match waiting {
        0 => ChannelFinding::warning("deliveries", why, fix),
        _ => ChannelFinding::failure("deliveries", why, fix),
    })
}
