//! Converts the layers to a [`Config`], and reads the sections that depend on no other: server, data, limits.

use crate::base::config::channels::{ChannelConfig, ConfiguredChannels};
use crate::base::config::error::ConfigError;
use crate::base::config::pipelines::PipelineOperatorSettings;
use crate::base::config::profiles::{self, ProfileSettings};
use crate::base::config::reader::SettingsReader;
use crate::base::config::sandbox::sandbox;
use crate::base::config::settings::{
    BundlerSettings, Config, DataSettings, LimitSettings, MessageSettings, OperatorSettings,
    RetentionSettings, SandboxSettings, ServerSettings,
};
use crate::base::config::sources::ConfigSources;
use crate::base::config::{
    budgets, channels, hooks, model_choice, model_facts, models, pipelines, provider_keys, repositories,
    schedules, services,
};
use crate::base::model::{ContextStrategyName, Limits, Secret};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

impl Config {
    /// Builds the configuration of a server. The error lists all problems.
    pub fn load(sources: ConfigSources) -> Result<Self, ConfigError> {
        let mut reader = SettingsReader::new(&sources);
        let model = model_choice::for_server(&mut reader);
        let mut used = reader.names("providers");
        used.extend(
            model
                .in_order()
                .filter_map(model_choice::provider_of)
                .map(str::to_owned),
        );
        let models = model_facts::model_table(&mut reader);
        let mut config = Self {
            file: absolute_file(&sources),
            server: server(&mut reader),
            data: data(&mut reader),
            retention: retention(&mut reader),
            providers: models::providers(&mut reader, &used),
            budgets: budgets::budgets(&mut reader, &models, &model),
            models,
            model,
            profile: ProfileSettings::default(),
            repositories: repositories::repositories(&mut reader),
            channels: channels::channels(&mut reader),
            hooks: hooks::hooks(&mut reader),
            schedules: schedules::schedules(&mut reader),
            services: services::services(&mut reader),
            bundler: bundler(&mut reader),
            limits: limits(&mut reader),
            messages: messages(&mut reader),
            pipelines: pipelines::pipelines(&mut reader),
            sandbox: sandbox(&mut reader),
            fetched_secrets: Vec::new(),
        };
        config.fetched_secrets = reader.finish()?;
        Ok(config)
    }

    /// Builds the configuration of a terminal session from the same sources: a model, its provider and limits.
    /// Channels, hooks and repositories stay empty and their secrets are not fetched, so a server's file works on a
    /// laptop. If no model is set, the session uses the default model of the first provider whose key is present.
    pub fn for_terminal(sources: ConfigSources) -> Result<Self, ConfigError> {
        Self::without_server(&sources, |_| BTreeSet::new())
    }

    /// Builds the configuration of a terminal session with every provider that has a section or whose key is present.
    pub fn for_models(sources: ConfigSources) -> Result<Self, ConfigError> {
        Self::without_server(&sources, |reader| {
            let mut used = reader.names("providers");
            used.extend(models::with_conventional_key(reader));
            used
        })
    }

    /// Builds the configuration without channels, hooks and repositories. `others` are the providers beside that of the
    /// model.
    fn without_server(
        sources: &ConfigSources,
        others: fn(&SettingsReader<'_>) -> BTreeSet<String>,
    ) -> Result<Self, ConfigError> {
        let mut reader = SettingsReader::new(sources);
        let profile = profiles::apply(&mut reader);
        let model = model_choice::for_terminal(&mut reader);
        let mut used = others(&reader);
        used.extend(
            model
                .in_order()
                .filter_map(model_choice::provider_of)
                .map(str::to_owned),
        );
        let models = model_facts::model_table(&mut reader);
        let mut config = Self {
            file: absolute_file(sources),
            server: server(&mut reader),
            data: data(&mut reader),
            retention: retention(&mut reader),
            providers: models::providers(&mut reader, &used),
            budgets: budgets::budgets(&mut reader, &models, &model),
            models,
            model,
            profile,
            repositories: BTreeMap::new(),
            channels: BTreeMap::new(),
            hooks: BTreeMap::new(),
            schedules: BTreeMap::new(),
            services: BTreeMap::new(),
            bundler: bundler(&mut reader),
            limits: limits(&mut reader),
            messages: messages(&mut reader),
            pipelines: pipelines::pipelines(&mut reader),
            sandbox: sandbox(&mut reader),
            fetched_secrets: Vec::new(),
        };
        provider_keys::fetch_stored(&mut reader);
        config.fetched_secrets = reader.finish()?;
        Ok(config)
    }

    /// Reads the part of a server's configuration that operator commands need: the location of the data, retention,
    /// and limits. No secret is fetched, so that the commands work in a shell without secrets; all checks that need
    /// no secret are still made.
    pub fn for_operator(sources: ConfigSources) -> Result<OperatorSettings, ConfigError> {
        let mut reader = SettingsReader::new(&sources);
        let settings = OperatorSettings {
            data: data(&mut reader),
            retention: retention(&mut reader),
            limits: limits(&mut reader),
            repositories: reader.names("repositories"),
            channels: reader.names("channels"),
            schedules: {
                schedules::server_zone(&mut reader);
                schedules::schedules(&mut reader)
            },
            services: services::services(&mut reader),
            is_directory_named: sources.file.is_some() || reader.is_set("data.directory"),
        };
        reader.finish()?;
        Ok(settings)
    }

    /// Reads the public address and the channels of a server. A secret that cannot be fetched is a part of the result and
    /// no problem.
    pub fn for_channel_list(sources: ConfigSources) -> Result<ConfiguredChannels, ConfigError> {
        let mut reader = SettingsReader::new(&sources);
        let configured = ConfiguredChannels {
            public_url: server(&mut reader).public_url,
            channels: channels::outlines(&mut reader),
        };
        hooks::check_channels(&mut reader);
        schedules::schedules(&mut reader);
        reader.finish()?;
        Ok(configured)
    }

    /// Returns the paths of all secret files that the configuration names, valid or not.
    pub fn secret_files(sources: &ConfigSources) -> BTreeSet<PathBuf> {
        SettingsReader::new(sources).secret_files()
    }

    /// Reads one channel with its secrets, and the settings of the server. Secrets of other channels are not fetched. Returns
    /// `None` if there is no such channel.
    pub fn for_channel(sources: ConfigSources, name: &str) -> Result<Option<ChannelConfig>, ConfigError> {
        let mut reader = SettingsReader::new(&sources);
        let server = server(&mut reader);
        let settings = match reader.names("channels").contains(name) {
            true => channels::channel(&mut reader, &format!("channels.{name}")),
            false => None,
        };
        reader.finish()?;
        Ok(settings.map(|settings| ChannelConfig { server, settings }))
    }

    /// Reads the allowed sources of Jsonnet packages, for use in a terminal. No secret is fetched.
    pub fn for_packages(sources: ConfigSources) -> Result<BundlerSettings, ConfigError> {
        let mut reader = SettingsReader::new(&sources);
        let settings = bundler(&mut reader);
        reader.finish()?;
        Ok(settings)
    }

    /// Reads the limits of the sandbox, which evaluations need. No secret is fetched.
    pub fn for_rendering(sources: ConfigSources) -> Result<SandboxSettings, ConfigError> {
        let mut reader = SettingsReader::new(&sources);
        let settings = sandbox(&mut reader);
        reader.finish()?;
        Ok(settings)
    }

    /// Reads what the definitions of pipelines are checked with. No secret is fetched.
    pub fn for_pipelines(sources: ConfigSources) -> Result<PipelineOperatorSettings, ConfigError> {
        let mut reader = SettingsReader::new(&sources);
        let settings = pipelines::for_operator(&mut reader);
        reader.finish()?;
        Ok(settings)
    }

    /// Returns every secret of this configuration, for the redactor.
    pub fn secrets(&self) -> Vec<Secret> {
        self.fetched_secrets.clone()
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        server(&mut SettingsReader::new(&ConfigSources::default()))
    }
}

impl Default for DataSettings {
    fn default() -> Self {
        data(&mut SettingsReader::new(&ConfigSources::default()))
    }
}

impl Default for RetentionSettings {
    fn default() -> Self {
        retention(&mut SettingsReader::new(&ConfigSources::default()))
    }
}

impl Default for LimitSettings {
    fn default() -> Self {
        limits(&mut SettingsReader::new(&ConfigSources::default()))
    }
}

/// Returns the absolute path of the configuration file.
fn absolute_file(sources: &ConfigSources) -> Option<PathBuf> {
    let path = &sources.file.as_ref()?.path;
    Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()))
}

fn server(reader: &mut SettingsReader<'_>) -> ServerSettings {
    let listen = reader.address("server.listen");
    let behind_proxy = reader.boolean("server.behind_proxy");
    let is_direct = !behind_proxy && !reader.refused("server.behind_proxy");
    if listen.is_some_and(|listen| !listen.ip().is_loopback()) && is_direct {
        let why = "others could reach this address without TLS; listen on 127.0.0.1, or put a TLS proxy in front and set server.behind_proxy = true";
        reader.problem("server.listen", why);
    }
    let settings = ServerSettings {
        // The address is missing only if it was refused, and then loading fails, so this default is never used.
        listen: listen.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        behind_proxy,
        public_url: reader
            .url("server.public_url")
            .map(|url| url.as_str().to_owned())
            .unwrap_or_default(),
        body_bytes_max: reader.integer("server.body_bytes_max"),
        header_seconds_max: reader.integer("server.header_seconds_max"),
        body_seconds_max: reader.integer("server.body_seconds_max"),
        idle_seconds_max: reader.integer("server.idle_seconds_max"),
        connections_max: reader.integer("server.connections_max"),
        connections_per_ip_max: reader.integer("server.connections_per_ip_max"),
        zone: schedules::server_zone(reader),
        link_hosts: hosts(reader, "server.link_hosts", "grafana.example.com"),
    };
    if settings.connections_per_ip_max > settings.connections_max && settings.connections_max > 0 {
        reader.problem(
            "server.connections_per_ip_max",
            "is more than server.connections_max",
        );
    }
    settings
}

/// Reads a list of hosts; `example` is one.
pub(super) fn hosts(reader: &mut SettingsReader<'_>, key: &str, example: &str) -> Vec<String> {
    let hosts = reader.list(key);
    if !hosts.iter().all(|host| is_host(host)) {
        let why = format!("expected host names such as {example}, without scheme or path");
        reader.problem(key, &why);
    }
    hosts
}

fn is_host(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let part = |part: &str| !part.is_empty() && part.chars().all(fits);
    text.len() <= 253 && text.split('.').all(part)
}

fn bundler(reader: &mut SettingsReader<'_>) -> BundlerSettings {
    BundlerSettings {
        hosts_allowed: hosts(reader, "bundler.hosts_allowed", "github.com"),
        kept_bytes_max: reader.integer("bundler.kept_bytes_max"),
    }
}

fn messages(reader: &mut SettingsReader<'_>) -> MessageSettings {
    MessageSettings {
        between_people: reader.boolean("messages.between_people"),
    }
}

fn data(reader: &mut SettingsReader<'_>) -> DataSettings {
    DataSettings {
        directory: reader.path("data.directory").unwrap_or_default(),
        group_access: reader.boolean("data.group_access"),
        delivery_hours_kept: reader.integer("data.delivery_hours_kept"),
    }
}

fn retention(reader: &mut SettingsReader<'_>) -> RetentionSettings {
    let mut days = |kind: &str| {
        let days = reader.integer(&format!("retention.{kind}_days_kept"));
        (days > 0).then_some(days)
    };
    RetentionSettings {
        message_days: days("message"),
        usage_days: days("usage"),
        change_days: days("change"),
        recording_days: days("recording"),
        dead_letter_days: days("dead_letter"),
        invite_days: days("invite"),
        audit_days: days("audit"),
        base_days: days("base"),
        mirror_days: days("mirror"),
    }
}

fn limits(reader: &mut SettingsReader<'_>) -> LimitSettings {
    LimitSettings {
        turn: Limits {
            steps_max: reader.integer("limits.steps_max"),
            turn_time_max: Duration::from_secs(reader.integer("limits.turn_seconds_max")),
            turn_tokens_max: reader.integer("limits.turn_tokens_max"),
            answer_tokens_max: reader.integer("limits.answer_tokens_max"),
            calls_per_step_max: reader.integer("limits.calls_per_step_max"),
            question_minutes_max: reader.integer("limits.question_minutes_max"),
            call_arguments_bytes_max: reader.integer("limits.call_arguments_bytes_max"),
            tool_output_bytes_max: reader.integer("limits.tool_output_bytes_max"),
            identical_calls_max: reader.integer("limits.identical_calls_max"),
            malformed_calls_max: reader.integer("limits.malformed_calls_max"),
            repairs_max: reader.integer("limits.repairs_max"),
            files_changed_max: reader.integer("limits.files_changed_max"),
            lines_changed_max: reader.integer("limits.lines_changed_max"),
            environments_changed_max: reader.integer("limits.environments_changed_max"),
            history_turns_max: reader.integer("limits.history_turns_max"),
            history_bytes_max: reader.integer("limits.history_bytes_max"),
            context_strategy: reader
                .choice(
                    "limits.context_strategy",
                    &ContextStrategyName::ALL.map(|name| (name.word(), name)),
                )
                .unwrap_or_default(),
        },
        turns_at_once_max: reader.integer("limits.turns_at_once_max"),
        waiting_events_max: reader.integer("limits.waiting_events_max"),
        waiting_messages_max: reader.integer("limits.waiting_messages_max"),
        mirror_age_max: Duration::from_secs(reader.integer("limits.mirror_age_seconds_max")),
        fetch_wait_max: Duration::from_secs(reader.integer("limits.fetch_wait_seconds_max")),
        inbound_text_chars_max: reader.integer("limits.inbound_text_chars_max"),
        inline_diff_bytes_max: reader.integer("limits.inline_diff_bytes_max"),
        strangers_remembered_max: reader.integer("limits.strangers_remembered_max"),
        invite_attempts_per_minute_max: reader.integer("limits.invite_attempts_per_minute_max"),
    }
}
