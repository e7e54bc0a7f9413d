//! The settings of a hook. The configuration reads them; they are here because it takes the words and keys of the
//! schemes from this module.

use super::HookScheme;
use crate::base::model::{Role, Secret};
use std::collections::BTreeMap;

/// `[hooks.<name>]`: a signed webhook that prepares a change. It runs as `hook:<name>`.
#[derive(Clone)]
pub struct HookSettings {
    /// `scheme`
    pub scheme: HookScheme,
    /// `secret`
    pub secret: Secret,
    /// `previous_secret`: accepted beside `secret` while it is replaced.
    pub previous_secret: Option<Secret>,
    /// `events`: the accepted GitHub events, such as `release` or `release.published`; empty means all.
    pub events: Vec<String>,
    /// `sources`: the accepted values of the payload's `repository.full_name`; empty means all.
    pub sources: Vec<String>,
    /// `repository`: a configured name.
    pub repository: String,
    /// `prompt`: the path of the instructions inside the repository, read from the trusted branch.
    pub prompt: String,
    /// `fields`: names with JSON pointers into the payload; each value has at most 1,000 characters and is treated as
    /// data only.
    pub fields: BTreeMap<String, String>,
    /// `pipelines`, default false: an event starts the pipelines of the repository that have a trigger for this hook. Only
    /// then its whole payload is stored.
    pub starts_pipelines: bool,
    /// `change`, default `new`.
    pub change: HookChange,
    /// `github_token` and `github_url`: the way in which runs of its events comment on GitHub; `None` without a token.
    pub comments: Option<GithubCommentSettings>,
    /// `post_to`
    pub post_to: PostTo,
    /// `grants`
    pub grants: Grants,
}

/// The access to the API of GitHub, for comments.
#[derive(Clone)]
pub struct GithubCommentSettings {
    /// `github_token`
    pub token: Secret,
    /// `github_url`, default `https://api.github.com`.
    pub api_base_url: String,
}

impl HookSettings {
    /// Returns the settings with the previous secret in the place of the current one; `None` without a previous secret.
    pub(super) fn with_previous_secret(&self) -> Option<Self> {
        let secret = self.previous_secret.clone()?;
        Some(Self {
            secret,
            ..self.clone()
        })
    }
}

/// `change` of a hook: the kind of change that an event prepares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookChange {
    /// A new change for each event; events are processed in parallel.
    New,
    /// The next revision of the change of earlier events; events are processed one after the other.
    Continue,
}

/// `grants` of a hook: the permissions of its service identity in its own repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grants {
    /// `role`, default `editor`; never admin.
    pub role: Role,
    /// `environments`, default `["**"]`.
    pub environments: Vec<String>,
}

/// `post_to` of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostTo {
    /// `channel`: a configured channel name.
    pub channel: String,
    /// `chat`: the chat or channel id there.
    pub chat: String,
}
