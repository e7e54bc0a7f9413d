//! The table of all configuration keys. Parsing, bounds, defaults, suggestions and the reference file follow it, so
//! each key is defined once. The keys of channels come from their kinds, and the words of schemes from the schemes. The
//! meaning of the sections is defined in their own modules.

use crate::base::config::channels;
use crate::base::config::models::WireFormat;
use crate::base::config::profiles::ProfileAccess;
use crate::base::model::ContextStrategyName;
use crate::base::webhook::HookScheme;
use std::sync::LazyLock;

/// A key an operator can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigKey {
    /// The dotted path; `*` stands for a name that the operator chooses.
    pub path: &'static str,
    /// The type and bounds of the value.
    pub kind: ValueKind,
    /// The rule for a key that is not set.
    pub unset: UnsetRule,
    /// A description in one line.
    pub about: &'static str,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A whole number, both bounds included.
    Integer {
        /// The smallest value allowed.
        min: u64,
        /// The largest value allowed.
        max: u64,
    },
    /// The price of a million tokens, in US dollars.
    Price,
    /// `true` or `false`.
    Boolean,
    /// One line of text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of one-line texts.
    List,
    /// An IP address with a port.
    Address,
    /// An `https` URL; `http` is allowed only for loopback.
    Url,
    /// A path on the machine.
    Path,
    /// A secret, by reference.
    Secret {
        /// The shortest length, in characters.
        chars_min: usize,
    },
}

/// The rule for a key that is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsetRule {
    /// The value to use instead, written as TOML.
    Default(&'static str),
    /// The section is refused.
    Required,
    /// No value, or one that depends on other keys.
    Absent,
}

/// Globs of file names that usually hold secrets. Certificate bundles are public, and Jsonnet files are code in any
/// directory.
const SECRETS_DENIED: &str = r#"["**/.env", "**/.env.*", "!**/.env.example", "!**/.env.sample", "**/*.key", "**/id_rsa", "**/id_dsa", "**/id_ecdsa", "**/id_ed25519", "**/*.p12", "**/*.pfx", "**/*.jks", "secrets/**", "!**/*.jsonnet", "!**/*.libsonnet"]"#;

/// The minimum length of a token. A shorter one could not be distinguished from ordinary text, and so could not be
/// redacted.
pub(super) const TOKEN_CHARS_MIN: usize = 8;
/// The minimum length of a signing secret. The operator chooses it, so it can be long enough to resist guessing.
const SIGNING_CHARS_MIN: usize = 16;

const fn int(
    path: &'static str,
    default: &'static str,
    min: u64,
    max: u64,
    about: &'static str,
) -> ConfigKey {
    key(
        path,
        ValueKind::Integer { min, max },
        UnsetRule::Default(default),
        about,
    )
}

pub(super) const fn key(
    path: &'static str,
    kind: ValueKind,
    unset: UnsetRule,
    about: &'static str,
) -> ConfigKey {
    ConfigKey {
        path,
        kind,
        unset,
        about,
    }
}

pub(super) const TOKEN: ValueKind = ValueKind::Secret {
    chars_min: TOKEN_CHARS_MIN,
};
pub(super) const SIGNING: ValueKind = ValueKind::Secret {
    chars_min: SIGNING_CHARS_MIN,
};

/// Every key, by the sections of the reference file.
pub static KEYS: LazyLock<Vec<ConfigKey>> =
    LazyLock::new(|| [SERVER_AND_DATA, &channels::keys(), HOOKS_AND_LIMITS].concat());

/// The keys before those of channels.
#[rustfmt::skip]
const SERVER_AND_DATA: &[ConfigKey] = &[
    key("profile", ValueKind::Text, UnsetRule::Absent, "the profile of a terminal session"),

    key("server.listen", ValueKind::Address, UnsetRule::Default("\"127.0.0.1:7700\""), "address and port of the HTTP listener"),
    key("server.behind_proxy", ValueKind::Boolean, UnsetRule::Default("false"), "a TLS proxy is in front; allows an \
                                                                                 address other than loopback"),
    key("server.public_url", ValueKind::Url, UnsetRule::Default("\"\""), "the public address of this server"),
    int("server.body_bytes_max", "1_048_576", 1_024, 26_214_400, "bytes of a request body"),
    int("server.header_seconds_max", "5", 1, 60, "seconds from accept to the end of the headers"),
    int("server.body_seconds_max", "10", 1, 120, "seconds to receive a body"),
    int("server.idle_seconds_max", "30", 1, 600, "seconds between requests of one connection"),
    int("server.connections_max", "4_096", 1, 65_536, "simultaneous connections"),
    int("server.connections_per_ip_max", "64", 1, 65_536, "simultaneous connections from one address"),
    key("server.zone", ValueKind::Text, UnsetRule::Default("\"UTC\""), "the time zone of schedules without one"),
    key("server.link_hosts", ValueKind::List, UnsetRule::Default("[]"), "hosts whose links stay clickable in replies"),

    key("data.directory", ValueKind::Path, UnsetRule::Default("\"./drydock-data\""), "the directory of all data"),
    key("data.group_access", ValueKind::Boolean, UnsetRule::Default("false"), "allows the group of the directory to \
                                                                               access it"),
    int("data.delivery_hours_kept", "72", 24, 8_760, "hours the name of a delivery is kept, to recognise repeats"),

    int("retention.message_days_kept", "90", 0, 36_500, "days an answered message is kept with its turns; 0: for ever"),
    int("retention.usage_days_kept", "730", 0, 36_500, "days the cost of a model call is kept; 0: for ever"),
    int("retention.change_days_kept", "180", 0, 36_500, "days a change is kept, and edits of an idle conversation; \
                                                         0: for ever"),
    int("retention.recording_days_kept", "90", 0, 36_500, "days a line of a recording is kept; 0: for ever"),
    int("retention.dead_letter_days_kept", "30", 0, 36_500, "days an undelivered operation is kept; 0: for ever"),
    int("retention.invite_days_kept", "90", 0, 36_500, "days an expired invite is kept; 0: for ever"),
    int("retention.audit_days_kept", "3_650", 0, 36_500, "days a line of the audit log is kept; 0: for ever"),
    int("retention.base_days_kept", "7", 0, 36_500, "days a packed commit is kept that no conversation uses; 0: for \
                                                     ever"),
    int("retention.mirror_days_kept", "30", 0, 36_500, "days a mirror is kept whose repository is not configured; 0: for ever"),

    key("model.default", ValueKind::Text, UnsetRule::Default("\"anthropic/claude-sonnet-4-5\""), "the default model, \
                                                                                                  as provider/model"),
    key("model.provider", ValueKind::Text, UnsetRule::Absent, "the provider; without model.default, its default \
                                                               model is used"),
    key("model.fallbacks", ValueKind::List, UnsetRule::Default("[]"), "the models that answer if the default model does \
                                                                      not, in order"),
    key("model.stream", ValueKind::Boolean, UnsetRule::Default("true"), "requests streamed answers, to detect a \
                                                                         stalled answer early"),

    key("profiles.*.provider", ValueKind::Text, UnsetRule::Absent, "the provider of this profile"),
    key("profiles.*.model", ValueKind::Text, UnsetRule::Absent, "the default model of this profile"),
    key("profiles.*.fallbacks", ValueKind::List, UnsetRule::Absent, "the models that answer if the default model does not"),
    key("profiles.*.access", ValueKind::Choice(ProfileAccess::WORDS), UnsetRule::Absent, "whether the model may edit files"),

    key("providers.*.api_key", TOKEN, UnsetRule::Absent, "the key of this account"),
    key("providers.*.keyless", ValueKind::Boolean, UnsetRule::Default("false"), "the service needs no key"),
    key("providers.*.base_url", ValueKind::Url, UnsetRule::Absent, "address of the API"),
    key("providers.*.wire", ValueKind::Choice(WireFormat::WORDS), UnsetRule::Absent, "the form of requests and answers"),
    int("providers.*.request_seconds_max", "120", 1, 3_600, "seconds of one attempt, headers to last byte"),
    int("providers.*.idle_seconds_max", "30", 1, 600, "seconds between two chunks of an answer"),
    int("providers.*.attempts_max", "5", 1, 20, "attempts of one call"),

    key("models.*.context_tokens", ValueKind::Integer { min: 1_000, max: 100_000_000 }, UnsetRule::Absent, "tokens of prompt and answer together"),
    key("models.*.answer_tokens_max", ValueKind::Integer { min: 256, max: 10_000_000 }, UnsetRule::Absent, "tokens of the longest answer"),
    key("models.*.attachments", ValueKind::List, UnsetRule::Absent, "types of files that the model takes: png, jpeg, gif, webp, pdf"),
    key("models.*.price_input", ValueKind::Price, UnsetRule::Absent, "dollars of a million input tokens"),
    key("models.*.price_output", ValueKind::Price, UnsetRule::Absent, "dollars of a million output tokens"),
    key("models.*.price_cache_read", ValueKind::Price, UnsetRule::Absent, "dollars of a million input tokens read from the cache"),
    key("models.*.price_cache_write", ValueKind::Price, UnsetRule::Absent, "dollars of a million input tokens written to the cache"),

    key("repositories.*.path", ValueKind::Path, UnsetRule::Absent, "a repository on this machine, read only"),
    key("repositories.*.url", ValueKind::Url, UnsetRule::Absent, "an https remote, mirrored into the data directory"),
    key("repositories.*.token", TOKEN, UnsetRule::Absent, "the password for the remote"),
    key("repositories.*.branch", ValueKind::Text, UnsetRule::Default("\"main\""), "the trusted branch changes are prepared against"),
];

/// The keys after those of channels.
#[rustfmt::skip]
const HOOKS_AND_LIMITS: &[ConfigKey] = &[
    key("hooks.*.scheme", ValueKind::Choice(HookScheme::WORDS), UnsetRule::Required, "how deliveries are signed"),
    key("hooks.*.secret", SIGNING, UnsetRule::Required, "the secret deliveries are signed with"),
    key("hooks.*.previous_secret", SIGNING, UnsetRule::Absent, "another secret of deliveries, while secret replaces it"),
    key("hooks.*.allow_replayable", ValueKind::Boolean, UnsetRule::Default("false"), "allows generic-body, whose \
                                                                                      deliveries carry no time"),
    key("hooks.*.events", ValueKind::List, UnsetRule::Default("[]"), "accepted GitHub events, each with one action \
                                                                      or with all; empty means all"),
    key("hooks.*.sources", ValueKind::List, UnsetRule::Default("[]"), "accepted values of repository.full_name; \
                                                                       empty means all"),
    key("hooks.*.repository", ValueKind::Text, UnsetRule::Required, "the repository the change is prepared in"),
    key("hooks.*.prompt", ValueKind::Text, UnsetRule::Required, "file of instructions on the trusted branch"),
    key("hooks.*.fields.*", ValueKind::Text, UnsetRule::Absent, "JSON pointer to a value of the payload"),
    key("hooks.*.pipelines", ValueKind::Boolean, UnsetRule::Default("false"), "events start pipelines of the \
                                                                               repository"),
    key("hooks.*.github_token", TOKEN, UnsetRule::Absent, "github: the token with which runs of its events comment"),
    key("hooks.*.github_url", ValueKind::Url, UnsetRule::Absent, "github: address of the API for comments"),
    key("hooks.*.change", ValueKind::Choice(&["new", "continue"]), UnsetRule::Default("\"new\""), "a new change for \
                                                                                                   each event, or \
                                                                                                   the next revision \
                                                                                                   of one change"),
    key("hooks.*.post_to.channel", ValueKind::Text, UnsetRule::Required, "the channel the result goes to"),
    key("hooks.*.post_to.chat", ValueKind::Text, UnsetRule::Required, "the chat in that channel"),
    key("hooks.*.grants.role", ValueKind::Choice(&["viewer", "editor"]), UnsetRule::Default("\"editor\""), "role of \
                                                                                                            the hook"),
    key("hooks.*.grants.environments", ValueKind::List, UnsetRule::Default("[\"**\"]"), "globs of the environments it may change"),

    key("schedules.*.pipelines", ValueKind::Boolean, UnsetRule::Default("false"), "starts the pipelines of the repository at the times of their triggers"),
    key("schedules.*.when", ValueKind::Text, UnsetRule::Absent, "the times, such as \"weekdays 09:00\" or a cron expression"),
    key("schedules.*.zone", ValueKind::Text, UnsetRule::Absent, "the time zone; that of the server if it is not set"),
    key("schedules.*.words", ValueKind::Text, UnsetRule::Absent, "the request to the model"),
    key("schedules.*.repository", ValueKind::Text, UnsetRule::Required, "the repository of the request"),
    key("schedules.*.post_to.channel", ValueKind::Text, UnsetRule::Required, "the channel the result goes to"),
    key("schedules.*.post_to.chat", ValueKind::Text, UnsetRule::Required, "the chat in that channel"),
    key("schedules.*.missed", ValueKind::Choice(&["once", "skip"]), UnsetRule::Default("\"once\""), "makes up once for times at which no server ran, or skips them"),
    key("schedules.*.quiet", ValueKind::Boolean, UnsetRule::Default("true"), "posts nothing about work that changed nothing, asked nothing and did not fail"),
    key("schedules.*.grants.role", ValueKind::Choice(&["viewer", "editor"]), UnsetRule::Default("\"editor\""), "role of the schedule"),
    key("schedules.*.grants.environments", ValueKind::List, UnsetRule::Default("[\"**\"]"), "globs of the environments it may change"),

    key("services.*.repository", ValueKind::Text, UnsetRule::Required, "the repository of its requests"),
    key("services.*.grants.role", ValueKind::Choice(&["viewer", "editor"]), UnsetRule::Default("\"editor\""), "role of the service"),
    key("services.*.grants.environments", ValueKind::List, UnsetRule::Default("[\"**\"]"), "globs of the environments it may change"),

    key("bundler.hosts_allowed", ValueKind::List, UnsetRule::Default("[]"), "hosts that Jsonnet packages may be fetched from"),
    int("bundler.kept_bytes_max", "1_073_741_824", 0, 1_099_511_627_776, "bytes of packages cached in the data \
                                                                          directory; 0 means none"),

    key("helm.program", ValueKind::Path, UnsetRule::Absent, "absolute path of helm; without it no chart is rendered"),
    key("helm.hosts_allowed", ValueKind::List, UnsetRule::Default("[]"), "hosts that charts may be fetched from"),
    int("helm.seconds_max", "30", 1, 600, "seconds helm and kustomize may take for one program, all calls together"),
    int("helm.memory_bytes_max", "1_073_741_824", 67_108_864, 17_179_869_184, "bytes of memory of one run"),
    int("helm.output_bytes_max", "16_777_216", 65_536, 134_217_728, "bytes of the output of one run"),
    key("kustomize.program", ValueKind::Path, UnsetRule::Absent, "absolute path of kustomize; without it nothing is \
                                                                  built"),

    int("limits.steps_max", "20", 1, 200, "model calls of one turn"),
    int("limits.turn_seconds_max", "600", 1, 86_400, "seconds of one turn"),
    int("limits.turn_tokens_max", "0", 0, 100_000_000, "tokens of one turn; 0 means no bound"),
    int("limits.answer_tokens_max", "8_192", 256, 200_000, "tokens of one answer"),
    int("limits.calls_per_step_max", "16", 1, 128, "tool calls of one answer"),
    int("limits.question_minutes_max", "60", 1, 10_080, "minutes a question waits for its answer"),
    int("limits.call_arguments_bytes_max", "65_536", 1_024, 1_048_576, "bytes of one call's arguments"),
    int("limits.tool_output_bytes_max", "65_536", 1_024, 1_048_576, "bytes of one tool result"),
    int("limits.identical_calls_max", "3", 2, 20, "times the same call may repeat"),
    int("limits.malformed_calls_max", "3", 1, 20, "malformed calls in a row"),
    int("limits.repairs_max", "3", 0, 10, "times an answer is sent back because a check fails"),
    int("limits.files_changed_max", "50", 1, 10_000, "files that the changes of a conversation may have"),
    int("limits.lines_changed_max", "5_000", 1, 10_000_000, "lines that the changes of a conversation may add and remove"),
    int("limits.environments_changed_max", "0", 0, 10_000, "environments one change may edit; 0: all"),
    int("limits.history_turns_max", "1_000", 1, 1_000, "whole turns of history the model sees"),
    int("limits.history_bytes_max", "400_000", 100_000, 10_000_000, "bytes of one model request"),
    key("limits.context_strategy", ValueKind::Choice(ContextStrategyName::WORDS), UnsetRule::Default("\"trim\""), "how a long conversation is shortened"),
    int("limits.turns_at_once_max", "64", 1, 4_096, "turns that run at the same time"),
    int("limits.waiting_events_max", "200", 1, 10_000, "events of one hook that wait for a turn"),
    int("limits.waiting_messages_max", "20", 1, 1_000, "messages of one conversation that wait behind a turn"),
    int("limits.mirror_age_seconds_max", "60", 1, 86_400, "maximum age of a mirror in seconds when a turn starts"),
    int("limits.fetch_wait_seconds_max", "10", 1, 600, "seconds a turn waits for the fetch of an existing mirror"),
    int("limits.inbound_text_chars_max", "16_000", 100, 1_000_000, "characters of one message"),
    int("limits.inline_diff_bytes_max", "2_500", 0, 30_000, "bytes of a diff shown inside a reply"),
    int("limits.strangers_remembered_max", "10_000", 100, 1_000_000, "unknown senders remembered, to notify each once a day"),
    int("limits.invite_attempts_per_minute_max", "5", 1, 60, "invite attempts of one sender in a minute"),

    int("budgets.turn_cents_max", "0", 0, 100_000_000, "US cents of one request; 0 means no bound"),
    int("budgets.unattended_turn_cents_max", "0", 0, 100_000_000, "US cents of one event of a hook or request of a script; 0 means no bound"),
    int("budgets.unattended_turn_tokens_max", "500_000", 0, 1_000_000_000, "tokens of one event of a hook or request of a script; 0 means no bound"),
    int("budgets.conversation_cents_max", "0", 0, 100_000_000, "US cents of one conversation; 0 means no bound"),
    int("budgets.conversation_tokens_max", "0", 0, 1_000_000_000_000, "tokens of one conversation; 0 means no bound"),
    int("budgets.person_day_cents_max", "0", 0, 100_000_000, "US cents of one person in a day; 0 means no bound"),
    int("budgets.person_day_tokens_max", "0", 0, 1_000_000_000_000, "tokens of one person in a day; 0 means no bound"),
    int("budgets.day_cents_max", "0", 0, 100_000_000, "US cents of this server in a day; 0 means no bound"),
    int("budgets.day_tokens_max", "0", 0, 1_000_000_000_000, "tokens of this server in a day; 0 means no bound"),
    key("budgets.ask_in.channel", ValueKind::Text, UnsetRule::Absent, "the channel in which administrators are asked"),
    key("budgets.ask_in.chat", ValueKind::Text, UnsetRule::Absent, "the chat in which administrators are asked"),

    key("messages.between_people", ValueKind::Boolean, UnsetRule::Default("false"), "the model may send messages to people who agreed"),

    key("pipelines.tools", ValueKind::List, UnsetRule::Absent, "tools that agents of pipelines may use; without it all"),
    key("pipelines.reply_targets", ValueKind::List, UnsetRule::Default("[]"), "targets that pipelines may send replies to"),
    int("pipelines.run_steps_max", "200", 1, 100_000, "model calls of one run of a pipeline"),
    int("pipelines.run_tokens_max", "2_000_000", 0, 1_000_000_000, "tokens of one run; 0 means no bound"),
    int("pipelines.run_cents_max", "0", 0, 100_000_000, "US cents of one run; 0 means no bound"),
    int("pipelines.run_seconds_max", "3_600", 1, 604_800, "seconds of one run"),
    key("pipelines.programs.*", ValueKind::Path, UnsetRule::Absent, "absolute path of a program that tasks may run"),
    int("pipelines.programs_at_once_max", "2", 1, 64, "programs of tasks at the same time"),
    int("pipelines.program_memory_bytes_max", "1_073_741_824", 67_108_864, 17_179_869_184, "bytes of memory of one program"),

    int("sandbox.seconds_max", "10", 1, 600, "seconds one engine may take for one program"),
    int("sandbox.turn_seconds_max", "300", 1, 86_400, "seconds all evaluations of one turn may take"),
    int("sandbox.memory_bytes_max", "536_870_912", 16_777_216, 17_179_869_184, "bytes of memory of one evaluation, without its stack"),
    int("sandbox.stack_bytes_max", "536_870_912", 8_388_608, 4_294_967_296, "bytes of stack of one evaluation"),
    int("sandbox.output_bytes_max", "8_388_608", 65_536, 268_435_456, "bytes of the value of one program"),
    int("sandbox.values_max", "500_000", 1_000, 100_000_000, "values within the value of one program"),
    int("sandbox.objects_max", "10_000", 1, 1_000_000, "Kubernetes objects in the value of one program"),
    int("sandbox.imports_max", "10_000", 1, 1_000_000, "files one program may import"),
    int("sandbox.import_bytes_max", "134_217_728", 65_536, 1_073_741_824, "bytes of all files one program may import"),
    int("sandbox.file_bytes_max", "16_777_216", 65_536, 268_435_456, "bytes of one file that is read or imported"),
    int("sandbox.nesting_max", "200", 10, 2_000, "nesting of brackets in one file"),
    int("sandbox.jails_max", "2", 1, 64, "evaluations at the same time"),
    int("sandbox.idle_max", "2", 0, 64, "workers started in advance"),
    key("sandbox.renders_ahead", ValueKind::Boolean, UnsetRule::Default("true"), "renders the environments of the \
                                                                                  newest commit in the background"),
    int("sandbox.recycle_bytes", "234_881_024", 16_777_216, 17_179_869_184, "bytes of memory above which a worker \
                                                                             accepts no further program"),
    key("sandbox.imports_denied", ValueKind::List, UnsetRule::Default("[]"), "globs of files that no program may \
                                                                              import"),
    key("sandbox.secrets_denied", ValueKind::List, UnsetRule::Default(SECRETS_DENIED), "globs of files whose names \
                                                                                        show that they hold secrets"),
    key("sandbox.layers_missing", ValueKind::List, UnsetRule::Default("[]"), "layers of the sandbox this system may lack"),
];

#[cfg(test)]
mod tests {
    use super::KEYS;

    #[test]
    fn no_key_is_listed_twice() {
        let mut paths: Vec<&str> = KEYS.iter().map(|key| key.path).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), KEYS.len());
    }
}
