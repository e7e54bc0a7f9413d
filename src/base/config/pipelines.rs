//! `[pipelines]`: what pipelines of repositories may do at most.

use crate::base::config::reader::SettingsReader;
use crate::base::config::settings::Config;
use crate::base::config::sources::ConfigSources;
use crate::base::webhook::HookScheme;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// The maximum number of programs of tasks.
const PROGRAMS_MAX: usize = 100;

/// `[pipelines]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineSettings {
    /// `tools`: the tools that agents of pipelines may use; by default all.
    pub tools: Option<Vec<String>>,
    /// `reply_targets`, default empty: the targets that pipelines may send replies to.
    pub reply_targets: Vec<String>,
    /// `run_steps_max`, default 200: model calls of one run.
    pub run_steps_max: u32,
    /// `run_tokens_max`, default 2,000,000: tokens of one run; 0 means no bound.
    pub run_tokens_max: u64,
    /// `run_cents_max`, default 0: US cents of one run; 0 means no bound.
    pub run_cents_max: u64,
    /// `run_seconds_max`, default 3,600: the time of one run.
    pub run_time_max: Duration,
    /// `programs.<name>`, default none: the programs that task steps may run, by name.
    pub programs: BTreeMap<String, PathBuf>,
    /// `programs_at_once_max`, default 2.
    pub programs_at_once_max: usize,
    /// `program_memory_bytes_max`, default 1 GiB.
    pub program_memory_bytes_max: u64,
}

/// The part of a server's configuration that the definitions of pipelines are checked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineOperatorSettings {
    /// `[pipelines]`
    pub pipelines: PipelineSettings,
    /// The names of `[hooks.<name>]`, with their schemes.
    pub hooks: BTreeMap<String, HookScheme>,
    /// The entries of `slash_commands` of all channels.
    pub slash_commands: BTreeSet<String>,
}

impl PipelineOperatorSettings {
    /// Returns this part of a whole configuration.
    pub fn of(config: &Config) -> Self {
        let hooks = config.hooks.iter();
        let channels = config.channels.values();
        Self {
            pipelines: config.pipelines.clone(),
            hooks: hooks.map(|(name, hook)| (name.clone(), hook.scheme)).collect(),
            slash_commands: channels
                .flat_map(|channel| channel.slash_commands().iter().cloned())
                .collect(),
        }
    }
}

impl Default for PipelineSettings {
    fn default() -> Self {
        pipelines(&mut SettingsReader::new(&ConfigSources::default()))
    }
}

/// Reads the section.
pub(super) fn pipelines(reader: &mut SettingsReader<'_>) -> PipelineSettings {
    PipelineSettings {
        tools: match reader.is_set("pipelines.tools") {
            true => Some(reader.list("pipelines.tools")),
            false => None,
        },
        reply_targets: reply_targets(reader),
        run_steps_max: reader.integer("pipelines.run_steps_max"),
        run_tokens_max: reader.integer("pipelines.run_tokens_max"),
        run_cents_max: reader.integer("pipelines.run_cents_max"),
        run_time_max: Duration::from_secs(reader.integer("pipelines.run_seconds_max")),
        programs: programs(reader),
        programs_at_once_max: reader.integer("pipelines.programs_at_once_max"),
        program_memory_bytes_max: reader.integer("pipelines.program_memory_bytes_max"),
    }
}

/// Reads the absolute path of each program. A relative path could refer to a file in a repository.
fn programs(reader: &mut SettingsReader<'_>) -> BTreeMap<String, PathBuf> {
    const SECTION: &str = "pipelines.programs";
    let names = reader.keys_in(SECTION);
    if names.len() > PROGRAMS_MAX {
        reader.problem(SECTION, format!("there are at most {PROGRAMS_MAX} programs"));
    }
    let mut programs = BTreeMap::new();
    for name in names.into_iter().take(PROGRAMS_MAX) {
        let key = format!("{SECTION}.{name}");
        let Some(path) = reader.path(&key) else {
            continue;
        };
        if !path.is_absolute() {
            reader.problem(
                &key,
                "expected an absolute path, such as /usr/local/bin/kubeconform",
            );
        }
        programs.insert(name, path);
    }
    programs
}

/// Reads the section, the schemes of hooks and the commands of channels. No secret is fetched.
pub(super) fn for_operator(reader: &mut SettingsReader<'_>) -> PipelineOperatorSettings {
    let schemes: Vec<(&str, HookScheme)> = HookScheme::ALL
        .iter()
        .map(|scheme| (scheme.definition().word, *scheme))
        .collect();
    let mut hooks = BTreeMap::new();
    for name in reader.names("hooks") {
        let scheme = reader.choice(&format!("hooks.{name}.scheme"), &schemes);
        hooks.extend(scheme.map(|scheme| (name, scheme)));
    }
    let mut slash_commands = BTreeSet::new();
    for name in reader.names("channels") {
        slash_commands.extend(reader.list(&format!("channels.{name}.slash_commands")));
    }
    PipelineOperatorSettings {
        pipelines: pipelines(reader),
        hooks,
        slash_commands,
    }
}

fn reply_targets(reader: &mut SettingsReader<'_>) -> Vec<String> {
    const KEY: &str = "pipelines.reply_targets";
    let targets = reader.list(KEY);
    let channels = reader.names("channels");
    for (index, target) in targets.iter().enumerate() {
        let channel = target
            .strip_prefix("channel:")
            .and_then(|rest| rest.split_once(':'));
        let problem = match (target.as_str(), channel) {
            ("github-comment" | "slack-response", _) => continue,
            (_, Some((name, chat))) if channels.contains(name) && !chat.is_empty() => continue,
            (_, Some(_)) => "names no channel and chat",
            (_, None) => "expected github-comment, slack-response or channel:NAME:CHAT",
        };
        reader.problem(KEY, format!("entry {}: {problem}", index + 1));
    }
    targets
}
