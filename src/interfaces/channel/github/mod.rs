//! Comments on issues and pull requests of GitHub, for the runs of one hook. Nobody writes here: events arrive through the
//! hook. GitHub has no way to repeat a call safely, so each comment has a hidden mark by which it is found again. See
//! <https://docs.github.com/en/rest/issues/comments>.

mod api;
mod markup;
mod render;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use super::api_error::ApiError;
use super::split::{PageSize, pages};
use super::{
    CallPurpose, Channel, Delivered, DeliveryLookup, Limit, PollMemory, PolledInbound, Scope, SendError,
};
use crate::base::config::ServerSettings;
use crate::base::model::{
    Account, Action, ChatFile, Installation, MessageRef, Op, Reply, ReplyPart, Secret, reply_name,
};
use crate::base::webhook::{GithubCommentSettings, GithubIssue};
use api::GithubApi;
use async_trait::async_trait;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use render::render;
use sha2::Sha256;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The prefix of the names of these channels. No configured channel has a colon in its name.
const NAME_PREFIX: &str = "hook:";
/// The maximum number of characters of a comment. GitHub refuses a longer one with 422.
const BODY_CHARS_MAX: usize = 65_536;
/// The characters for the line about a cut and for the mark.
const REST_CHARS: usize = 512;
/// The line below a text that is cut.
const CUT: &str = "The text is cut here.";
/// The largest assumed lead of our clock over GitHub's when a comment was made.
const SKEW: SignedDuration = SignedDuration::from_mins(10);
/// The number of comments of one page; the most that GitHub gives.
const PAGE: usize = 100;
/// The maximum number of pages that are read. After more comments the lookup is inconclusive.
const PAGES_MAX: usize = 10;
/// The beginning of the hidden mark at the end of each comment.
const MARK: &str = "<!-- drydock:";
/// The bytes of the digest in a mark.
const DIGEST_BYTES: usize = 16;

/// Returns the name of the channel for the comments of a hook.
pub fn comment_channel(hook: &str) -> String {
    format!("{NAME_PREFIX}{hook}")
}

/// Returns true for the name of a channel for comments.
pub fn is_for_comments(channel: &str) -> bool {
    channel.starts_with(NAME_PREFIX)
}

/// Returns a text as the reply of one comment. A longer one is cut between its blocks or lines, which a line says.
pub fn comment(server: &ServerSettings, text: &str) -> Reply {
    let chars_max = BODY_CHARS_MAX - REST_CHARS;
    let whole = Reply {
        parts: vec![ReplyPart::Markdown {
            text: text.to_owned(),
        }],
    };
    let size = PageSize {
        chars_max,
        fits: &|reply: &Reply| render(reply, &server.link_hosts).chars().count() <= chars_max,
    };
    let mut first = pages(&whole, &size, 1).into_iter();
    let page = first.next().unwrap_or_default();
    match first.next() {
        Some(_) => page.with(ReplyPart::Text { text: CUT.to_owned() }),
        None => page,
    }
}

/// Returns true if a comment on an issue ends with the mark of a reply that was made there with this token.
pub fn is_own_comment(settings: &GithubCommentSettings, issue: &GithubIssue, body: &str) -> bool {
    let found = body.trim_end().rsplit_once(MARK);
    let Some((name, _)) = found.and_then(|(_, rest)| rest.split_once(' ')) else {
        return false;
    };
    let operation = format!("{name}/{}", reply_name(0));
    body.trim_end()
        .ends_with(&mark(&settings.token, &issue.to_string(), &operation))
}

/// Creates the channel for the comments of a hook. Nothing is called before the first comment.
pub fn connect_comments(
    hook: &str,
    settings: &GithubCommentSettings,
    server: &ServerSettings,
    http: &reqwest::Client,
) -> Arc<dyn Channel> {
    Arc::new(CommentChannel {
        installation: Installation {
            account: Account::of_hook(hook),
            bot_id: String::new(),
            bot_name: String::new(),
        },
        api: GithubApi::new(http.clone(), &settings.api_base_url, settings.token.clone()),
        token: settings.token.clone(),
        link_hosts: server.link_hosts.clone(),
    })
}

struct CommentChannel {
    installation: Installation,
    api: GithubApi,
    /// The key of the marks, so that nobody else can write one.
    token: Secret,
    link_hosts: Vec<String>,
}

#[async_trait]
impl Channel for CommentChannel {
    fn installation(&self) -> &Installation {
        &self.installation
    }

    async fn deliver(&self, op: &Op) -> Result<Delivered, SendError> {
        let Action::Post { reply, .. } = &op.action else {
            return Err(SendError::Refused("github takes comments only".to_owned()));
        };
        let issue = issue(op)?;
        let body = format!("{}\n\n{}", render(reply, &self.link_hosts), self.mark(op));
        let id = self.api.create_comment(&issue, &body).await;
        let id = id.map_err(ApiError::into_post_error)?;
        Ok(Delivered {
            message: id.map(|id| message(op, id)),
        })
    }

    fn can_find(&self) -> bool {
        true
    }

    /// Looks for the mark in the comments since the attempt, the oldest first.
    async fn find(&self, op: &Op, since: Timestamp) -> Result<DeliveryLookup, SendError> {
        let issue = issue(op)?;
        let since = since.saturating_sub(SKEW).unwrap_or(since);
        let mark = self.mark(op);
        for page in 1..=PAGES_MAX {
            let listed = self.api.comments(&issue, since, (page, PAGE)).await;
            let listed = listed.map_err(ApiError::into_repeatable_error)?;
            if let Some(found) = listed.iter().find(|comment| comment.body.contains(&mark)) {
                return Ok(DeliveryLookup::Message(message(op, found.id)));
            }
            if listed.len() < PAGE {
                return Ok(DeliveryLookup::Nothing);
            }
        }
        Ok(DeliveryLookup::CannotTell)
    }

    async fn probe(&self) -> Result<(), SendError> {
        self.api.probe().await.map_err(ApiError::into_repeatable_error)
    }

    async fn read_file(&self, _file: &ChatFile, _bytes_max: usize) -> Result<Option<Bytes>, SendError> {
        Err(SendError::Refused("comments have no files".to_owned()))
    }

    /// Returns the published limits: 80 comments a minute and 500 an hour; 5,000 calls an hour. See
    /// <https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api>.
    fn limits(&self, _op: &Op, call: CallPurpose) -> Vec<Limit> {
        let calls = Limit::new(Scope::Account, 20, Duration::from_secs(1));
        match call {
            CallPurpose::Find => vec![calls],
            CallPurpose::Deliver => {
                let hour = Limit::new(Scope::Method("comments"), 400, Duration::from_secs(36));
                vec![calls, hour]
            }
        }
    }

    async fn poll(
        &self,
        _inbox: mpsc::Sender<PolledInbound>,
        _memory: &dyn PollMemory,
        _now: fn() -> Timestamp,
        _cancel: CancellationToken,
    ) {
    }
}

impl CommentChannel {
    /// Returns the hidden mark of an operation. It is the same at each attempt.
    fn mark(&self, op: &Op) -> String {
        mark(&self.token, &op.place.chat, &op.id)
    }
}

/// Returns the mark of an operation in a place, which only the holder of the token can make.
fn mark(token: &Secret, chat: &str, operation: &str) -> String {
    // A run and its step name an operation, and one reply is one comment.
    let name = operation.split('/').next().unwrap_or_default();
    let mut digest = Vec::new();
    if let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(token.expose().as_bytes()) {
        for part in [chat, operation] {
            mac.update(&part.len().to_be_bytes());
            mac.update(part.as_bytes());
        }
        digest.extend_from_slice(&mac.finalize().into_bytes());
        digest.truncate(DIGEST_BYTES);
    }
    format!("{MARK}{name} {} -->", hex::encode(digest))
}

fn issue(op: &Op) -> Result<GithubIssue, SendError> {
    let why = || SendError::Refused("the place is no issue of github".to_owned());
    GithubIssue::parse(&op.place.chat).ok_or_else(why)
}

fn message(op: &Op, id: u64) -> MessageRef {
    MessageRef {
        chat: op.place.chat.clone(),
        id: id.to_string(),
    }
}
