//! A client for Slack's Web API: the calls for which the types of slack-morphism have every field that Drydock sends
//! and reads. [`super::raw`] has the others, and [`super::upload`] those of a file.

use super::agent_session::SessionSupport;
use super::connector::{RepeatEffect, SlackConnector, classified, exchanged};
use super::optional_blocks::BlockSupport;
use super::streams::StreamSupport;
use crate::base::http_client::server_date;
use crate::base::model::{MessageRef, Secret};
use crate::interfaces::channel::SendError;
use crate::interfaces::channel::refusal::RememberedRefusal;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use slack_morphism::api::{SlackApiReactionsAddRequest, SlackApiReactionsRemoveRequest};
use slack_morphism::errors::SlackClientError;
use slack_morphism::{
    SlackApiToken, SlackApiTokenValue, SlackChannelId, SlackClientSession, SlackReactionName, SlackTs,
};

/// The header that lists the token's scopes, comma-separated. Slack sends it in every answer, but compatible servers
/// may not. The library does not pass it on.
const SCOPES: &str = "x-oauth-scopes";

/// The answer to a question for the identity of a token.
pub(super) struct Identified {
    /// The answer of `auth.test`.
    pub(super) who: TokenIdentity,
    /// The scopes of the token, if Slack sent them.
    pub(super) scopes: Option<Vec<String>>,
    /// The time of Slack, if it sent one.
    pub(super) date: Option<Timestamp>,
}

/// The fields of `auth.test` that Drydock needs. The library requires more, which compatible servers may leave out.
#[derive(Debug, Deserialize)]
pub(super) struct TokenIdentity {
    pub(super) user_id: String,
    pub(super) team_id: String,
    pub(super) user: Option<String>,
    pub(super) team: Option<String>,
}

/// A client for one bot token.
pub(super) struct SlackClient {
    library: slack_morphism::SlackClient<SlackConnector>,
    /// An empty token: the connector has the real one.
    no_token: SlackApiToken,
    /// The last refusal of the Home tab.
    pub(super) home_refusals: RememberedRefusal,
    /// The last refusal of code channels.
    pub(super) code_channel_refusals: RememberedRefusal,
    pub(super) blocks: BlockSupport,
    pub(super) sessions: SessionSupport,
    pub(super) streams: StreamSupport,
}

impl SlackClient {
    pub(super) fn new(http: reqwest::Client, base_url: &str, token: Secret) -> Self {
        let base_url = base_url.trim_end_matches('/').to_owned();
        Self {
            library: slack_morphism::SlackClient::new(SlackConnector {
                http,
                base_url,
                token,
            }),
            no_token: SlackApiToken::new(SlackApiTokenValue(String::new())),
            home_refusals: RememberedRefusal::default(),
            code_channel_refusals: RememberedRefusal::default(),
            blocks: BlockSupport::default(),
            sessions: SessionSupport::default(),
            streams: StreamSupport::default(),
        }
    }

    pub(super) fn session(&self) -> SlackClientSession<'_, SlackConnector> {
        self.library.open_session(&self.no_token)
    }

    pub(super) fn connector(&self) -> &SlackConnector {
        &self.library.http_api.connector
    }

    /// Returns the identity of the token.
    pub(super) async fn identify(&self) -> Result<Identified, SendError> {
        let request = self.connector().method("auth.test")?.json(&json!({}));
        let (headers, who) = exchanged(request)
            .await
            .map_err(|failure| failure.of(RepeatEffect::Repeatable))?;
        let scopes = headers.get(SCOPES).and_then(|scopes| scopes.to_str().ok());
        let listed = |scopes: &str| scopes.split(',').map(|scope| scope.trim().to_owned()).collect();
        Ok(Identified {
            who,
            scopes: scopes.map(listed),
            date: server_date(&headers),
        })
    }

    pub(super) async fn add_reaction(&self, message: &MessageRef, name: &str) -> Result<(), SendError> {
        let (channel, name, ts) = reaction(message, name);
        let request = SlackApiReactionsAddRequest::new(channel, name, ts);
        let added = self.session().reactions_add(&request).await.map(|_| ());
        accept_already_done(added.map_err(repeatable), "already_reacted")
    }

    pub(super) async fn remove_reaction(&self, message: &MessageRef, name: &str) -> Result<(), SendError> {
        let (channel, name, ts) = reaction(message, name);
        let request = SlackApiReactionsRemoveRequest::new(name)
            .with_channel(channel)
            .with_timestamp(ts);
        let removed = self.session().reactions_remove(&request).await.map(|_| ());
        accept_already_done(removed.map_err(repeatable), "no_reaction")
    }
}

fn reaction(message: &MessageRef, name: &str) -> (SlackChannelId, SlackReactionName, SlackTs) {
    (
        SlackChannelId(message.chat.clone()),
        SlackReactionName(name.to_owned()),
        SlackTs(message.id.clone()),
    )
}

pub(super) fn repeatable(error: SlackClientError) -> SendError {
    classified(error, RepeatEffect::Repeatable)
}

/// Treats the error "already done" as success.
pub(super) fn accept_already_done(result: Result<(), SendError>, done: &str) -> Result<(), SendError> {
    match result {
        Err(SendError::Refused(reason)) if reason == done => Ok(()),
        result => result,
    }
}
