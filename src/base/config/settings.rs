//! Every key, its type and its default. `config/drydock.toml` documents the same list.

use crate::base::config::budgets::BudgetSettings;
use crate::base::config::channels::ChannelSettings;
use crate::base::config::model_facts::ModelTable;
use crate::base::config::models::WireFormat;
use crate::base::config::pipelines::PipelineSettings;
use crate::base::config::profiles::ProfileSettings;
use crate::base::config::schedules::ScheduleSettings;
use crate::base::config::services::ServiceSettings;
use crate::base::model::Secret;
use crate::base::webhook::HookSettings;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The whole configuration, valid and with all secrets resolved.
#[derive(Clone)]
pub struct Config {
    /// The absolute path of the configuration file, if there is one.
    pub file: Option<PathBuf>,
    /// `[server]`
    pub server: ServerSettings,
    /// `[data]`
    pub data: DataSettings,
    /// `[retention]`
    pub retention: RetentionSettings,
    /// `[model]`
    pub model: ModelSettings,
    /// The profile of a terminal session; a server has none.
    pub profile: ProfileSettings,
    /// `[providers.<name>]`
    pub providers: BTreeMap<String, ProviderSettings>,
    /// `[models."<provider>/<model>"]`, with the built-in facts about models.
    pub models: ModelTable,
    /// `[repositories.<name>]`
    pub repositories: BTreeMap<String, RepositorySettings>,
    /// `[channels.<name>]`
    pub channels: BTreeMap<String, ChannelSettings>,
    /// `[hooks.<name>]`
    pub hooks: BTreeMap<String, HookSettings>,
    /// `[schedules.<name>]`
    pub schedules: BTreeMap<String, ScheduleSettings>,
    /// `[services.<name>]`
    pub services: BTreeMap<String, ServiceSettings>,
    /// `[bundler]`
    pub bundler: BundlerSettings,
    /// `[limits]`
    pub limits: LimitSettings,
    /// `[budgets]`
    pub budgets: BudgetSettings,
    /// `[messages]`
    pub messages: MessageSettings,
    /// `[pipelines]`
    pub pipelines: PipelineSettings,
    /// `[sandbox]`
    pub sandbox: SandboxSettings,
    /// Every secret that was fetched for these settings.
    pub(super) fetched_secrets: Vec<Secret>,
}

/// `[bundler]`: packages of Jsonnet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundlerSettings {
    /// `hosts_allowed`, default empty: hosts that packages may be fetched from, over https. If it is empty, nothing
    /// is fetched.
    pub hosts_allowed: Vec<String>,
    /// `kept_bytes_max`, default 1 GiB: bytes of packages that are cached in the data directory, so that a restart
    /// need not fetch them again. 0 disables the cache.
    pub kept_bytes_max: u64,
}

/// `[server]`: the HTTP listener and its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// `listen`, default `127.0.0.1:7700`. TLS must end in a proxy in front of it.
    pub listen: SocketAddr,
    /// `behind_proxy`, default false: a TLS proxy is in front. If false, `listen` must be a loopback address; if
    /// true, all connections come from the proxy's address.
    pub behind_proxy: bool,
    /// `public_url`, such as `https://drydock.example.com`; empty by default. Needed for Telegram
    /// webhooks, for `login` in a chat and for `drydock pull`.
    pub public_url: String,
    /// `body_bytes_max`, default 1 MiB.
    pub body_bytes_max: usize,
    /// `header_seconds_max`, default 5: from the accepted connection to the end of the headers.
    pub header_seconds_max: u64,
    /// `body_seconds_max`, default 10.
    pub body_seconds_max: u64,
    /// `idle_seconds_max`, default 30: between requests of one connection.
    pub idle_seconds_max: u64,
    /// `connections_max`, default 4,096.
    pub connections_max: usize,
    /// `connections_per_ip_max`, default 64.
    pub connections_per_ip_max: usize,
    /// `zone`, default `UTC`: the IANA name of the time zone of schedules without one.
    pub zone: String,
    /// `link_hosts`, default empty: hosts whose links stay clickable in replies.
    pub link_hosts: Vec<String>,
}

/// The part of a server's configuration that operator commands need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorSettings {
    /// `[data]`
    pub data: DataSettings,
    /// `[retention]`
    pub retention: RetentionSettings,
    /// `[limits]`
    pub limits: LimitSettings,
    /// The names of `[repositories.<name>]`.
    pub repositories: BTreeSet<String>,
    /// The names of `[channels.<name>]`.
    pub channels: BTreeSet<String>,
    /// `[schedules.<name>]`
    pub schedules: BTreeMap<String, ScheduleSettings>,
    /// `[services.<name>]`
    pub services: BTreeMap<String, ServiceSettings>,
    /// True if a configuration file was read or `data.directory` is set, so that the directory is the server's.
    pub is_directory_named: bool,
}

/// `[data]`: the data on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSettings {
    /// `directory`, default `./drydock-data`; created with mode 0700.
    pub directory: PathBuf,
    /// `group_access`, default false: members of the directory's group have access as well; other users never have.
    pub group_access: bool,
    /// `delivery_hours_kept`, default 72, at least 24: how long delivery ids are kept to recognise duplicates.
    pub delivery_hours_kept: u32,
}

/// `[retention]`: the number of days for which each kind of data is kept. `None` means forever, written as 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionSettings {
    /// `message_days_kept`, default 90: answered messages with their turns and steps, and ended runs of pipelines.
    pub message_days: Option<u32>,
    /// `usage_days_kept`, default 730: the usage and cost of model calls, and what was allowed in addition to budgets.
    pub usage_days: Option<u32>,
    /// `change_days_kept`, default 180: changes, and edits of an inactive conversation.
    pub change_days: Option<u32>,
    /// `recording_days_kept`, default 90: lines of recordings, and the files about the steps of runs.
    pub recording_days: Option<u32>,
    /// `dead_letter_days_kept`, default 30: operations that could not be delivered.
    pub dead_letter_days: Option<u32>,
    /// `invite_days_kept`, default 90: expired invites.
    pub invite_days: Option<u32>,
    /// `audit_days_kept`, default 3,650: lines of the audit log.
    pub audit_days: Option<u32>,
    /// `base_days_kept`, default 7: packed commits that no conversation uses.
    pub base_days: Option<u32>,
    /// `mirror_days_kept`, default 30: mirrors of repositories that are no longer configured.
    pub mirror_days: Option<u32>,
}

/// The delivery of a model's answer. Both modes give the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerMode {
    /// The answer is delivered as server-sent events.
    Streamed,
    /// The answer is delivered in one piece.
    Whole,
}

/// `[model]`: the model that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSettings {
    /// `default` and `provider` together, as `provider/model`; `anthropic/claude-sonnet-4-5` if neither is set.
    pub default: String,
    /// `fallbacks`, default empty: the models that answer if the default model does not, in order, as `provider/model`.
    pub fallbacks: Vec<String>,
    /// `stream`, by default answers are streamed.
    pub answer_mode: AnswerMode,
}

impl ModelSettings {
    /// Returns the default model and its fallbacks, in order.
    pub fn in_order(&self) -> impl Iterator<Item = &str> {
        let fallbacks = self.fallbacks.iter().map(String::as_str);
        std::iter::once(self.default.as_str()).chain(fallbacks)
    }
}

/// `[providers.<name>]`: an account with one of the known providers, or with a service of any other name.
#[derive(Clone)]
pub struct ProviderSettings {
    /// `api_key`; none if the provider needs no key.
    pub api_key: Option<Secret>,
    /// True if requests require a key: false if the provider needs none, and with `keyless`.
    pub needs_key: bool,
    /// `wire`; the known providers have one of their own, and other services use chat completions.
    pub wire: WireFormat,
    /// `base_url`; required if the provider has no address of its own.
    pub base_url: String,
    /// `request_seconds_max`, default 120: one attempt, from headers to last byte.
    pub request_seconds_max: u64,
    /// `idle_seconds_max`, default 30: between two chunks of an answer.
    pub idle_seconds_max: u64,
    /// `attempts_max`, default 5.
    pub attempts_max: u32,
}

/// `[repositories.<name>]`: one of `path` and `url`.
#[derive(Clone)]
pub struct RepositorySettings {
    /// `path`: a repository on this machine, read only.
    pub path: Option<PathBuf>,
    /// `url`: an https remote, mirrored into the data directory.
    pub url: Option<String>,
    /// `token`: for an https remote that needs one; sent as the password of `x-access-token`.
    pub token: Option<Secret>,
    /// `branch`, default `main`: the trusted branch, which is the base of changes.
    pub branch: String,
}

/// `[limits]`: bounds on turns and conversations; see the reference file for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// The bounds of one turn.
    pub turn: crate::base::model::Limits,
    /// `turns_at_once_max`, default 64.
    pub turns_at_once_max: usize,
    /// `waiting_events_max`, default 200: events of one hook that wait for a turn.
    pub waiting_events_max: usize,
    /// `waiting_messages_max`, default 20: messages of one conversation that wait behind a turn.
    pub waiting_messages_max: usize,
    /// `mirror_age_seconds_max`, default 60: the maximum age of a mirror when a turn starts from it.
    pub mirror_age_max: Duration,
    /// `fetch_wait_seconds_max`, default 10: how long a turn waits for a fetch if a mirror already exists.
    pub fetch_wait_max: Duration,
    /// `inbound_text_chars_max`, default 16,000.
    pub inbound_text_chars_max: usize,
    /// `inline_diff_bytes_max`, default 2,500; larger diffs are sent as a file.
    pub inline_diff_bytes_max: usize,
    /// `strangers_remembered_max`, default 10,000.
    pub strangers_remembered_max: usize,
    /// `invite_attempts_per_minute_max`, default 5, per sender.
    pub invite_attempts_per_minute_max: u32,
}

/// `[messages]`: messages between people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageSettings {
    /// `between_people`, default false: the model of a person may send messages to other people of the server, who must
    /// agree first.
    pub between_people: bool,
}

/// `[sandbox]`: the limits for evaluating a repository's programs; see the reference file for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSettings {
    /// `seconds_max`, default 10.
    pub time_max: Duration,
    /// `memory_bytes_max`, default 512 MiB, not counting the stack.
    pub memory_bytes_max: u64,
    /// `stack_bytes_max`, default 512 MiB, allocated only as needed.
    pub stack_bytes_max: u64,
    /// `output_bytes_max`, default 8 MiB.
    pub output_bytes_max: usize,
    /// `values_max`, default 500,000.
    pub values_max: usize,
    /// `objects_max`, default 10,000.
    pub objects_max: usize,
    /// `imports_max`, default 10,000.
    pub imports_max: usize,
    /// `import_bytes_max`, default 128 MiB.
    pub import_bytes_max: u64,
    /// `file_bytes_max`, default 16 MiB.
    pub file_bytes_max: u64,
    /// `turn_seconds_max`, default 300.
    pub turn_time_max: Duration,
    /// `nesting_max`, default 200.
    pub nesting_max: usize,
    /// `jails_max`, default 2.
    pub jails_max: usize,
    /// `idle_max`, default 2.
    pub idle_max: usize,
    /// `renders_ahead`, default true: the newest commit is rendered at the start of a turn.
    pub renders_ahead: bool,
    /// `recycle_bytes`, default 224 MiB.
    pub recycle_bytes: u64,
    /// `imports_denied`, default empty: globs of files that programs may not import, in addition to `.env` files.
    pub imports_denied: Vec<String>,
    /// `secrets_denied`: globs of file names that usually hold secrets; a glob that begins with `!` exempts files.
    pub secrets_denied: Vec<String>,
    /// `layers_missing`, default empty: layers of the sandbox that may be missing on this system.
    pub layers_missing: Vec<String>,
    /// `[helm]` and `[kustomize]`: the external programs that an evaluation may run.
    pub programs: ProgramSettings,
}

/// `[helm]` and `[kustomize]`: external programs. A program without a path is disabled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramSettings {
    /// `helm.program`, default none.
    pub helm: Option<PathBuf>,
    /// `kustomize.program`, default none.
    pub kustomize: Option<PathBuf>,
    /// `helm.hosts_allowed`, default empty: hosts that charts may be fetched from, over https. If it is empty,
    /// nothing is fetched.
    pub hosts_allowed: Vec<String>,
    /// `helm.seconds_max`, default 30: the time for one evaluation or one tool call.
    pub time_max: Duration,
    /// `helm.memory_bytes_max`, default 1 GiB.
    pub memory_bytes_max: u64,
    /// `helm.output_bytes_max`, default 16 MiB.
    pub output_bytes_max: usize,
    /// The parent of their working directories: the system's temporary directory, or a directory in the server's
    /// data.
    pub scratch: PathBuf,
}
