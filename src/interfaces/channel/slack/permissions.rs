//! The scopes of the bot token and the events that Slack sends. The manifest of the app requests exactly these, and the
//! checks of a token compare with them.

use super::agent_session::STOPPED_EVENT;
use super::home::OPENED_EVENT;
use crate::base::config::SlackSettings;

/// A scope of the bot token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BotScope {
    /// The name, as Slack lists it.
    pub name: &'static str,
    /// The use of the scope, such as `sends files`.
    pub purpose: &'static str,
}

impl BotScope {
    /// Returns true if the scope lets the bot find its own posts.
    pub(super) fn reads_posts(&self) -> bool {
        self.name.ends_with(":history")
    }
}

/// The scopes, sorted by name.
pub const BOT_SCOPES: [BotScope; 10] = [
    scope("app_mentions:read", "receives mentions"),
    scope(
        AGENT_SCOPE,
        "shows in a thread that work goes on, with a Stop button",
    ),
    scope(
        "channels:history",
        "receives and finds messages of public channels",
    ),
    scope("chat:write", "posts and edits messages"),
    scope("commands", "answers /drydock"),
    scope("files:read", "reads text files that people send"),
    scope("files:write", "sends files, such as patches"),
    scope(
        "groups:history",
        "receives and finds messages of private channels",
    ),
    scope("im:history", "receives and finds direct messages"),
    scope("reactions:write", "marks received messages"),
];

/// The scope of apps that are declared agents. Without it everything else works.
pub(super) const AGENT_SCOPE: &str = "assistant:write";

/// The scope of code channels, for channels of the configuration that use them.
pub(super) const CODE_CHANNEL_SCOPE: BotScope = scope(
    "code_channels:manage",
    "shows full diffs in tabs of code channels",
);

/// The events that the app subscribes to.
pub(super) const BOT_EVENTS: [&str; 6] = [
    STOPPED_EVENT,
    OPENED_EVENT,
    "app_mention",
    "message.channels",
    "message.groups",
    "message.im",
];

const fn scope(name: &'static str, purpose: &'static str) -> BotScope {
    BotScope { name, purpose }
}

/// Returns the scopes that a channel of the configuration uses.
pub(super) fn used_scopes(settings: &SlackSettings) -> Vec<BotScope> {
    let mut used = BOT_SCOPES.to_vec();
    used.extend(settings.code_channels.then_some(CODE_CHANNEL_SCOPE));
    used
}

/// Returns those of some scopes that a token lacks.
pub(super) fn missing_scopes(used: &[BotScope], granted: &[String]) -> Vec<BotScope> {
    let is_granted = |scope: &BotScope| granted.iter().any(|granted| granted == scope.name);
    used.iter().copied().filter(|scope| !is_granted(scope)).collect()
}
