//! The calls for which slack-morphism has no types, or types without some field: messages keep their blocks byte for
//! byte, and the history keeps the metadata and unknown blocks of other apps. They go through the same connector.

use super::client::SlackClient;
use super::connector::{CallFailure, RepeatEffect, classified, code, other_host_error, read, sent};
use crate::base::model::ResponseUrl;
use crate::interfaces::channel::SendError;
use reqwest::Url;
use serde::Serialize;
use serde_json::Value;

/// The host that accepts answers to commands. See <https://docs.slack.dev/interactivity/implementing-slash-commands>.
const RESPONSE_HOST: &str = "hooks.slack.com";

impl SlackClient {
    /// Calls a method with a JSON body and returns the answer of a successful call.
    pub(super) async fn call(
        &self,
        method: &str,
        body: &(impl Serialize + Send + Sync),
        effect: RepeatEffect,
    ) -> Result<Value, SendError> {
        let answer = self
            .session()
            .http_session_api
            .http_post(method, body, None)
            .await;
        answer.map_err(|error| classified(error, effect))
    }

    /// Calls a method that accepts only forms and has no visible effect by itself.
    pub(super) async fn call_form(&self, method: &str, fields: &[(&str, &str)]) -> Result<Value, SendError> {
        let fields: Vec<(&str, Option<&str>)> =
            fields.iter().map(|(name, value)| (*name, Some(*value))).collect();
        let answer = self
            .session()
            .http_session_api
            .http_get(method, &fields, None)
            .await;
        answer.map_err(|error| classified(error, RepeatEffect::Repeatable))
    }

    /// Answers a command at its response URL, without the token. A duplicate answer does no harm.
    pub(super) async fn respond(&self, url: &ResponseUrl, body: &Value) -> Result<(), SendError> {
        self.answer_at(url, body).await.map_err(other_host_error)
    }

    /// Answers a command like [`SlackClient::respond`], if a duplicate answer would show.
    pub(super) async fn respond_once(&self, url: &ResponseUrl, body: &Value) -> Result<(), SendError> {
        self.answer_at(url, body).await.map_err(|failure| match failure {
            CallFailure::Unanswered { why, .. } => SendError::Ambiguous(why),
            failure @ CallFailure::Known(_) => other_host_error(failure),
        })
    }

    async fn answer_at(&self, url: &ResponseUrl, body: &Value) -> Result<(), CallFailure> {
        let connector = self.connector();
        let is_accepted = |url: &Url| connector.is_slack(url, |host| host == RESPONSE_HOST);
        let Some(url) = Url::parse(url.expose()).ok().filter(is_accepted) else {
            let why = "the address for the answer does not belong to slack";
            return Err(SendError::Refused(why.to_owned()).into());
        };
        let request = connector.without_token(url).json(body);
        let answer = read(&mut sent(request).await?).await?;
        // The answer is `ok`, or an error in the format of the Web API.
        match serde_json::from_slice::<Value>(&answer) {
            Ok(answer) if answer.get("ok").and_then(Value::as_bool) == Some(false) => {
                Err(SendError::Refused(code(&answer)).into())
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }
}
