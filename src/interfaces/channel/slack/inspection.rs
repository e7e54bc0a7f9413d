//! The inspection of a Slack app: its token and the scopes of the token. Slack does not tell a bot its subscriptions.

use super::agent_session::STOPPED_EVENT;
use super::client::SlackClient;
use super::permissions::{AGENT_SCOPE, BotScope, CODE_CHANNEL_SCOPE, missing_scopes, used_scopes};
use super::socket::SocketOpener;
use crate::base::config::SlackSettings;
use crate::base::model::Secret;
use crate::interfaces::channel::inspection::{ChannelFinding, clock, unidentified};
use jiff::Timestamp;

pub(super) async fn inspect(
    name: &str,
    settings: &SlackSettings,
    http: &reqwest::Client,
    at: Timestamp,
) -> Vec<ChannelFinding> {
    let client = SlackClient::new(http.clone(), &settings.api_base_url, settings.bot_token.clone());
    let identified = match client.identify().await {
        Ok(identified) => identified,
        Err(error) => {
            let correction = "the Bot User OAuth Token under OAuth & Permissions of the Slack app";
            return vec![unidentified(&error, name, correction)];
        }
    };
    let who = &identified.who;
    let who = format!(
        "{} in the workspace {} ({})",
        who.user.as_deref().unwrap_or("?"),
        who.team.as_deref().unwrap_or("?"),
        who.team_id
    );
    let mut findings = vec![ChannelFinding::fine("token", who)];
    findings.extend(scopes(&used_scopes(settings), identified.scopes.as_deref()));
    findings.extend(clock("Slack", identified.date, at));
    if let Some(token) = &settings.app_token {
        findings.push(socket_mode(name, settings, http, token.clone()).await);
    }
    findings
}

/// Requests the address of a socket, as a server does.
async fn socket_mode(
    name: &str,
    settings: &SlackSettings,
    http: &reqwest::Client,
    app_token: Secret,
) -> ChannelFinding {
    match SocketOpener::verified(name, http.clone(), &settings.api_base_url, app_token).await {
        Ok(_) => ChannelFinding::fine("socket mode", "Slack accepts the app-level token"),
        Err(error) => ChannelFinding::failure(
            "socket mode",
            error.to_string(),
            format!(
                "turn Socket Mode on in the settings of the Slack app, and set channels.{name}.app_token to an app-level token \
                 with the scope connections:write"
            ),
        ),
    }
}

/// Returns one finding for each missing scope.
fn scopes(used: &[BotScope], granted: Option<&[String]>) -> Vec<ChannelFinding> {
    let Some(granted) = granted else {
        let why = "Slack did not report the scopes of the token";
        let fix = "compare them with `drydock slack manifest`";
        return vec![ChannelFinding::warning("scopes", why, fix)];
    };
    let missing = missing_scopes(used, granted);
    if missing.is_empty() {
        return vec![ChannelFinding::fine("scopes", "all that Drydock uses")];
    }
    let findings = missing.iter().map(|scope| {
        let why = format!("no {}, which {}", scope.name, scope.purpose);
        if scope.name == AGENT_SCOPE {
            let fix = format!(
                "declare the Slack app an agent in its settings, add the event {STOPPED_EVENT}, and install the app again"
            );
            return ChannelFinding::warning("scopes", why, fix);
        }
        let fix = format!(
            "add {} under OAuth & Permissions of the Slack app, and install the app again",
            scope.name
        );
        if *scope == CODE_CHANNEL_SCOPE {
            let fix = format!("{fix}, or set code_channels to false");
            return ChannelFinding::warning("scopes", why, fix);
        }
        ChannelFinding::failure("scopes", why, fix)
    });
    findings.collect()
}
