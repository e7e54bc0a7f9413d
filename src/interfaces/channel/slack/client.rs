//! A client for Slack's Web API: the calls for which the types of slack-morphism have every field that Drydock sends
//! and reads. [`super::raw`] has the others.

use super::agent_session::SessionSupport;
use super::connector::{RepeatEffect, SlackConnector, classified, exchanged};
use super::optional_blocks::BlockSupport;
use super::streams::StreamSupport;
use crate::base::http_client::server_date;
use crate::base::model::{ChatPlace, MessageRef, Secret};
use crate::interfaces::channel::SendError;
use crate::interfaces::channel::refusal::RememberedRefusal;
use bytes::Bytes;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use slack_morphism::api::{
    SlackApiFilesComplete, SlackApiFilesCompleteUploadExternalRequest,
    SlackApiFilesGetUploadUrlExternalRequest, SlackApiFilesUploadViaUrlRequest, SlackApiReactionsAddRequest,
    SlackApiReactionsRemoveRequest,
};
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

    /// Uploads a file and shares it. Returns the message that shows it, if Slack has already posted it.
    pub(super) async fn share_file(
        &self,
        place: &ChatPlace,
        file_name: &str,
        title: &str,
        content: &Bytes,
        comment: Option<String>,
    ) -> Result<Option<MessageRef>, SendError> {
        let session = self.session();
        let request = SlackApiFilesGetUploadUrlExternalRequest::new(file_name.to_owned(), content.len());
        let ticket = session
            .get_upload_url_external(&request)
            .await
            .map_err(repeatable)?;
        let octets = "application/octet-stream".to_owned();
        let request = SlackApiFilesUploadViaUrlRequest::new(ticket.upload_url, content.to_vec(), octets);
        session.files_upload_via_url(&request).await.map_err(repeatable)?;
        let file = SlackApiFilesComplete::new(ticket.file_id).with_title(title.to_owned());
        let request = SlackApiFilesCompleteUploadExternalRequest::new(vec![file])
            .with_channel_id(SlackChannelId(place.chat.clone()))
            .opt_initial_comment(comment)
            .opt_thread_ts(place.thread.clone().map(SlackTs));
        // The library's type of the answer lacks the messages that show the file.
        let shared = self.call("files.completeUploadExternal", &request, RepeatEffect::Once);
        Ok(shared_as(&shared.await?, &place.chat))
    }
}

fn reaction(message: &MessageRef, name: &str) -> (SlackChannelId, SlackReactionName, SlackTs) {
    (
        SlackChannelId(message.chat.clone()),
        SlackReactionName(name.to_owned()),
        SlackTs(message.id.clone()),
    )
}

fn repeatable(error: SlackClientError) -> SendError {
    classified(error, RepeatEffect::Repeatable)
}

/// Treats the error "already done" as success.
pub(super) fn accept_already_done(result: Result<(), SendError>, done: &str) -> Result<(), SendError> {
    match result {
        Err(SendError::Refused(reason)) if reason == done => Ok(()),
        result => result,
    }
}

/// Returns the message in which a file was shared. Slack usually shares the file after its answer.
fn shared_as(answer: &Value, chat: &str) -> Option<MessageRef> {
    let shares = answer.pointer("/files/0/shares")?;
    let id = ["public", "private"]
        .iter()
        .find_map(|kind| shares.get(*kind)?.get(chat)?.pointer("/0/ts")?.as_str())?;
    Some(MessageRef {
        chat: chat.to_owned(),
        id: id.to_owned(),
    })
}
