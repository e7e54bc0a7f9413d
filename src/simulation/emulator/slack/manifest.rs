//! Installs an app from a manifest, as Slack does: checks the manifest, grants its scopes, and then delivers only the
//! events, commands and presses that the app asked for. See <https://docs.slack.dev/reference/app-manifest>.

use super::SlackEmulator;
use super::state::SlackState;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The scopes of a bot that this workspace knows. See <https://docs.slack.dev/reference/scopes>.
const KNOWN_SCOPES: [&str; 35] = [
    "app_mentions:read",
    "assistant:write",
    "bookmarks:read",
    "bookmarks:write",
    "channels:history",
    "channels:join",
    "channels:manage",
    "channels:read",
    "chat:write",
    "chat:write.customize",
    "chat:write.public",
    "code_channels:manage",
    "commands",
    "emoji:read",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "groups:write",
    "im:history",
    "im:read",
    "im:write",
    "incoming-webhook",
    "links:read",
    "links:write",
    "metadata.message:read",
    "mpim:history",
    "mpim:read",
    "mpim:write",
    "pins:read",
    "pins:write",
    "reactions:read",
    "reactions:write",
    "team:read",
    "users:read",
];

/// The events of a bot that this workspace sends, with the scope that each needs, if any. See
/// <https://docs.slack.dev/reference/events>.
const EVENT_SCOPES: [(&str, Option<&str>); 6] = [
    ("agent_session_stopped", Some("assistant:write")),
    ("app_home_opened", None),
    ("app_mention", Some("app_mentions:read")),
    ("message.channels", Some("channels:history")),
    ("message.groups", Some("groups:history")),
    ("message.im", Some("im:history")),
];

/// The properties of the sections of a manifest, by the place of the section.
const KNOWN_KEYS: [(&str, &str); 5] = [
    ("", "_metadata display_information features oauth_config settings"),
    (
        "/display_information",
        "name description long_description background_color",
    ),
    (
        "/features",
        "app_home agent_view bot_user shortcuts slash_commands unfurl_domains",
    ),
    (
        "/features/app_home",
        "home_tab_enabled messages_tab_enabled messages_tab_read_only_enabled",
    ),
    (
        "/settings",
        "allowed_ip_address_ranges event_subscriptions incoming_webhooks interactivity org_deploy_enabled \
         socket_mode_enabled token_rotation_enabled function_runtime",
    ),
];

/// The features that an installed app asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InstalledApp {
    events: BTreeSet<String>,
    commands: BTreeSet<String>,
    has_interactivity: bool,
    is_agent: bool,
    has_home_tab: bool,
}

impl SlackEmulator {
    /// Installs the bot as an app of this manifest. The error lists what Slack refuses.
    pub fn install(&self, manifest: &Value) -> Result<(), Vec<String>> {
        let checked = ManifestCheck::new(manifest).check()?;
        self.shared.change(|state| {
            state.scopes = checked.scopes;
            state.app = Some(checked.app);
        });
        Ok(())
    }
}

impl SlackState {
    /// Returns true if the bot has the scope that a call needs, which is recorded.
    pub(super) fn has_scope(&mut self, needed: Option<&'static str>) -> bool {
        self.scopes_used.extend(needed);
        needed.is_none_or(|scope| self.scopes.contains(scope))
    }

    /// Returns true if the app gets an event of this subscription.
    pub(super) fn is_subscribed(&self, event: &str) -> bool {
        !self.unsubscribed.contains(event) && self.app.as_ref().is_none_or(|app| app.events.contains(event))
    }

    /// Returns true if the app has this slash command.
    pub(super) fn has_command(&self, command: &str) -> bool {
        self.app.as_ref().is_none_or(|app| app.commands.contains(command))
    }

    /// Returns true if the app is declared an agent.
    pub(super) fn is_agent(&mut self) -> bool {
        self.has_scope(Some("assistant:write")) && self.app.as_ref().is_none_or(|app| app.is_agent)
    }

    /// Returns true if the app has a Home tab.
    pub(super) fn has_home_tab(&self) -> bool {
        self.app.as_ref().is_none_or(|app| app.has_home_tab)
    }

    /// Returns true if the app gets presses of its buttons.
    pub(super) fn has_interactivity(&self) -> bool {
        self.app.as_ref().is_none_or(|app| app.has_interactivity)
    }
}

struct CheckedManifest {
    scopes: BTreeSet<&'static str>,
    app: InstalledApp,
}

/// The problems of a manifest, each with its place.
struct ManifestCheck<'a> {
    manifest: &'a Value,
    has_socket: bool,
    problems: Vec<String>,
}

impl<'a> ManifestCheck<'a> {
    fn new(manifest: &'a Value) -> Self {
        Self {
            manifest,
            has_socket: manifest.pointer("/settings/socket_mode_enabled") == Some(&Value::Bool(true)),
            problems: Vec::new(),
        }
    }

    fn check(mut self) -> Result<CheckedManifest, Vec<String>> {
        self.known_keys();
        self.text("/display_information/name", 1, 35);
        self.optional_text("/display_information/description", 0, 140);
        self.optional_text("/display_information/long_description", 174, 4_000);
        self.optional_text("/features/agent_view/agent_description", 1, 300);
        self.list("/features/agent_view/suggested_prompts", 4);
        self.bot_user();
        let scopes = self.scopes();
        let app = InstalledApp {
            events: self.events(&scopes),
            commands: self.commands(&scopes),
            has_interactivity: self.interactivity(),
            is_agent: self.at("/features/agent_view").is_some_and(Value::is_object),
            has_home_tab: self.at("/features/app_home/home_tab_enabled") == Some(&Value::Bool(true)),
        };
        match self.problems.is_empty() {
            true => Ok(CheckedManifest { scopes, app }),
            false => Err(self.problems),
        }
    }

    fn at(&self, place: &str) -> Option<&'a Value> {
        self.manifest.pointer(place)
    }

    fn problem(&mut self, place: &str, why: &str) {
        self.problems.push(format!("{place}: {why}"));
    }

    fn known_keys(&mut self) {
        for (place, known) in KNOWN_KEYS {
            let known: Vec<&str> = known.split(' ').collect();
            let fields = self.at(place).and_then(Value::as_object);
            let unknown = fields.into_iter().flat_map(Map::keys);
            for key in unknown.filter(|key| !known.contains(&key.as_str())) {
                self.problem(&format!("{place}/{key}"), "unknown property");
            }
        }
    }

    fn text(&mut self, place: &str, min: usize, max: usize) {
        let text = self.at(place).and_then(Value::as_str);
        if !text.is_some_and(|text| (min..=max).contains(&text.chars().count())) {
            self.problem(place, &format!("needs {min} to {max} characters"));
        }
    }

    fn optional_text(&mut self, place: &str, min: usize, max: usize) {
        if self.at(place).is_some() {
            self.text(place, min, max);
        }
    }

    fn list(&mut self, place: &str, max: usize) -> &'a [Value] {
        let entries = self.at(place).and_then(Value::as_array);
        let entries = entries.map(Vec::as_slice).unwrap_or_default();
        if entries.len() > max {
            self.problem(place, &format!("has more than {max} entries"));
        }
        entries
    }

    fn names(&mut self, place: &str, max: usize) -> BTreeSet<String> {
        let entries = self.list(place, max);
        let names = entries.iter().filter_map(Value::as_str).map(str::to_owned);
        let names: BTreeSet<String> = names.collect();
        if names.len() != entries.len() {
            self.problem(place, "a name is repeated or is no text");
        }
        names
    }

    fn bot_user(&mut self) {
        let place = "/features/bot_user/display_name";
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
        let name = self.at(place).and_then(Value::as_str);
        if !name.is_some_and(|name| (1..=80).contains(&name.len()) && name.chars().all(fits)) {
            self.problem(place, "needs 1 to 80 of a-z, 0-9, -, _ and .");
        }
    }

    fn scopes(&mut self) -> BTreeSet<&'static str> {
        let place = "/oauth_config/scopes/bot";
        let mut scopes = BTreeSet::new();
        for name in self.names(place, 255) {
            match KNOWN_SCOPES.iter().find(|known| **known == name) {
                Some(known) => drop(scopes.insert(*known)),
                None => self.problem(place, &format!("unknown scope `{name}`")),
            }
        }
        scopes
    }

    fn events(&mut self, scopes: &BTreeSet<&'static str>) -> BTreeSet<String> {
        let place = "/settings/event_subscriptions";
        let events = self.names(&format!("{place}/bot_events"), 100);
        for event in &events {
            match EVENT_SCOPES.iter().find(|(known, _)| known == event) {
                Some((_, None)) => {}
                Some((_, Some(scope))) if scopes.contains(scope) => {}
                Some((_, Some(scope))) => {
                    self.problem(place, &format!("`{event}` needs the scope `{scope}`"));
                }
                None => self.problem(place, &format!("unknown event `{event}`")),
            }
        }
        if !events.is_empty() && !self.is_reachable(self.manifest, &format!("{place}/request_url")) {
            let why = "Event Subscription requires either Request URL or Socket Mode Enabled";
            self.problem(place, why);
        }
        events
    }

    fn commands(&mut self, scopes: &BTreeSet<&'static str>) -> BTreeSet<String> {
        let place = "/features/slash_commands";
        let mut commands = BTreeSet::new();
        for command in self.list(place, 50) {
            let chars = |key: &str| command[key].as_str().map_or(0, |text| text.chars().count());
            let name = command["command"].as_str().unwrap_or_default();
            if !name.starts_with('/') || !(2..=32).contains(&name.len()) {
                self.problem(place, "a command begins with / and has at most 32 characters");
            }
            if !(1..=2_000).contains(&chars("description")) || chars("usage_hint") > 1_000 {
                self.problem(place, "a description or a hint is missing or too long");
            }
            if !self.is_reachable(command, "/url") {
                self.problem(place, "a command requires a Request URL");
            }
            commands.insert(name.to_owned());
        }
        if !commands.is_empty() && !scopes.contains("commands") {
            self.problem(place, "needs the scope `commands`");
        }
        commands
    }

    fn interactivity(&mut self) -> bool {
        let place = "/settings/interactivity";
        let is_enabled = self.at(&format!("{place}/is_enabled")) == Some(&Value::Bool(true));
        if is_enabled && !self.is_reachable(self.manifest, &format!("{place}/request_url")) {
            self.problem(place, "Interactivity requires a Request URL");
        }
        is_enabled
    }

    /// Returns true if Slack could send to the address at a place, or sends to a socket instead.
    fn is_reachable(&self, value: &Value, place: &str) -> bool {
        match value.pointer(place).and_then(Value::as_str) {
            Some(url) => url.starts_with("https://"),
            None => self.has_socket,
        }
    }
}
