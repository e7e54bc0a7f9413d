//! `drydock check`: validates the configuration. It makes no connections and changes nothing.

use super::output::Output;
use super::pipeline_times::next_times;
use super::serve::now;
use super::{CliError, Global, comparer, evaluator, sandbox_layers, tool_commands};
use crate::base::config::{ChannelSettings, Config, DataSettings, PipelineOperatorSettings, ProgramSettings};
use crate::base::model::{RepoPath, pluralize};
use crate::base::recurrence::Recurrence;
use crate::base::redact::Redactor;
use crate::engine::agent::context::check_room;
use crate::engine::pipeline::{LoadedPipelines, OperatorLimits, YAML_FILE};
use crate::interfaces::tool::{self, ToolServices, Toolbox};
use crate::rendering::bundler::OfflineFetcher;
use crate::rendering::helm::Helm;
use crate::rendering::jsonnet::external_program::{ExternalPrograms, ProgramChoice};
use crate::rendering::sandbox::{self, ProgramPath, SandboxError};
use crate::server::app;
use crate::state::store::{self, GroupAccess, OpenError};
use crate::state::workspace::{Repository, RepositoryError};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The most times of pipelines that are shown for a schedule.
const TIMES_SHOWN_MAX: usize = 20;

pub(super) fn run(global: &Global, output: &Output) -> Result<(), CliError> {
    let config = match global
        .sources()
        .and_then(|sources| Config::load(sources).map_err(CliError::config))
    {
        Ok(config) => config,
        Err(failure) if output.json() => return report(misconfigured(&failure), output),
        Err(failure) => return Err(failure),
    };
    let mut findings = vec![finding("data directory", data_directory(&config.data))];
    findings.extend(config.channels.iter().filter_map(webhook_secret));
    findings.extend(previous_secrets(&config));
    findings.extend(secret_mismatch_findings(&config));
    let mut opened = BTreeMap::new();
    for (name, settings) in &config.repositories {
        let what = format!("repository {name}");
        let Some(path) = &settings.path else {
            findings.push(skipped(&what, "remote; not contacted"));
            continue;
        };
        let bases = config.data.directory.join("bases").join(name);
        let head = open_repository(name, path, &settings.branch, &bases);
        findings.push(finding(
            &what,
            head.as_ref().map(|(_, head)| {
                let short: String = head.chars().take(7).collect();
                format!("`{}` is at {short}", settings.branch)
            }),
        ));
        opened.extend(head.ok().map(|head| (name.as_str(), head)));
    }
    for (name, hook) in &config.hooks {
        let what = format!("hook {name}");
        findings.push(match opened.get(hook.repository.as_str()) {
            Some((repository, head)) => finding(&what, prompt(repository, head, &hook.prompt)),
            None => skipped(&what, "its repository was not opened, so its prompt was not read"),
        });
    }
    for (name, schedule) in &config.schedules {
        if schedule.starts_pipelines {
            let opened = opened.get(schedule.definition.repository.as_str());
            findings.push(pipeline_times(&config, name, opened));
            continue;
        }
        let definition = &schedule.definition;
        let next =
            Recurrence::parse(&definition.when, &definition.zone).map(|times| match times.next(now()) {
                Some(next) => format!("next {} {}", times.shown(next), definition.zone),
                None => "its times are over".to_owned(),
            });
        findings.push(finding(&format!("schedule {name}"), next));
    }
    let evaluator = evaluator(&config.sandbox);
    let redactor = Arc::new(Redactor::new(config.secrets()));
    let services = ToolServices {
        packages: Arc::new(OfflineFetcher),
        comparer: comparer(Arc::clone(&evaluator), redactor),
        evaluator,
        helm: Helm::configured(ProgramPath::current(), &config.sandbox.programs).map(Arc::new),
    };
    findings.push(finding("tools", check_tools(&config, &services)));
    findings.push(finding("sandbox", check_sandbox(&config.sandbox.layers_missing)));
    findings.extend(check_programs(&config.sandbox.programs));
    report(findings, output)
}

/// Checks the schemas of the tools, and that every model that may answer has room for them.
fn check_tools(config: &Config, services: &ToolServices) -> Result<String, String> {
    let tools = Toolbox::new(tool::all(services)).map_err(|error| error.to_string())?;
    check_room(config, &tools).map_err(|error| error.to_string())?;
    Ok(format!("{} tools, all schemas are valid", tools.specs().len()))
}

/// Reports the next time of each pipeline that a schedule starts; fails if the definitions on the branch have problems. A program
/// is not evaluated.
fn pipeline_times(config: &Config, name: &str, opened: Option<&(Arc<Repository>, String)>) -> Finding {
    let what = format!("schedule {name}");
    let Some((repository, head)) = opened else {
        return skipped(
            &what,
            "its repository was not opened, so its pipelines were not read",
        );
    };
    let file = RepoPath::parse(YAML_FILE).map_err(|error| RepositoryError::Refused(error.to_string()));
    let loaded = match file.and_then(|file| repository.file_at(head, &file)) {
        Ok(Some(file)) => LoadedPipelines::from_yaml(&file.content, &operator_limits(config)),
        Ok(None) => {
            let why =
                format!("`{YAML_FILE}` is not on the branch; the times of a program are not shown here");
            return skipped(&what, &why);
        }
        Err(error) => return finding(&what, Err(error)),
    };
    // The file can hold secrets by mistake, and output is often pasted elsewhere.
    let loaded = loaded.map_err(|why| Redactor::new([]).redact(&why.to_string()).into_owned());
    finding(&what, loaded.map(|loaded| shown_times(&loaded)))
}

fn operator_limits(config: &Config) -> OperatorLimits {
    OperatorLimits {
        tools: tool_commands::tool_names(),
        server: Some(PipelineOperatorSettings::of(config)),
    }
}

fn shown_times(loaded: &LoadedPipelines) -> String {
    let pipelines = loaded.file.pipelines.iter();
    let mut times = pipelines.flat_map(|(pipeline, definition)| {
        let next = next_times(definition, 1, now()).into_iter();
        next.map(move |(_, next)| format!("{pipeline} next {next}"))
    });
    let mut shown: Vec<String> = times.by_ref().take(TIMES_SHOWN_MAX).collect();
    match (shown.is_empty(), times.count()) {
        (true, _) => "no pipeline has a trigger with times".to_owned(),
        (false, 0) => shown.join("; "),
        (false, more) => {
            shown.push(format!("and {more} more"));
            shown.join("; ")
        }
    }
}

/// Runs each configured external program in the sandbox and reports its version.
fn check_programs(settings: &ProgramSettings) -> Vec<Finding> {
    let programs = ExternalPrograms::new(ProgramPath::current(), settings);
    let configured = [
        (ProgramChoice::Helm, "helm", &settings.helm),
        (ProgramChoice::Kustomize, "kustomize", &settings.kustomize),
    ];
    let configured = configured
        .into_iter()
        .filter_map(|(program, name, path)| Some((program, name, path.as_ref()?)));
    let findings = configured.map(|(program, name, path)| {
        let version = programs.version(program);
        let version =
            version.map_err(|why| format!("`{name}.program`, which is `{}`: {why}", path.display()));
        finding(name, version)
    });
    findings.collect()
}

/// Returns a hint if the secret of a channel's requests does not have the form of its platform's secrets.
fn webhook_secret((name, settings): (&String, &ChannelSettings)) -> Option<Finding> {
    let settings = settings.common();
    let hint = settings.webhook_secret_hint()?;
    let hint = format!("`channels.{name}.{}` {hint}", settings.webhook_secret_key());
    Some(skipped(&format!("channel {name}"), &hint))
}

/// Returns a hint for each previous secret, so that it is not forgotten, with its state in the store.
fn previous_secrets(config: &Config) -> Vec<Finding> {
    let retired = store::read_retired_secrets(&config.data.directory);
    config.secret_pairs(|keys, secret| {
        let key = keys.previous;
        let retired = match &retired {
            Ok(retired) => retired.retired_at(&key, secret).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let hint = match retired {
            Ok(Some(at)) => {
                format!("`{key}` was retired at {at:.0} and is refused; remove it from the configuration")
            }
            Ok(None) => format!(
                "`{key}` is accepted too; without the key, the next start refuses it, and `drydock secrets retire \
                 {key}` does so at once"
            ),
            Err(error) => format!("`{key}` is accepted, if it was not retired: not checked, {error}"),
        };
        skipped(&keys.section, &hint)
    })
}

/// Returns a hint for each secret with which no recent request was signed, according to the records of the server. It
/// is not a failure, because the secret may have been corrected since.
fn secret_mismatch_findings(config: &Config) -> Vec<Finding> {
    match store::read_ingress_activity(&config.data.directory) {
        Ok(activity) => app::secret_mismatches(config, &activity)
            .into_iter()
            .map(|(what, why)| skipped(&what, &why))
            .collect(),
        Err(error) => vec![skipped(
            "requests that were refused",
            &format!("not checked: {error}"),
        )],
    }
}

/// Checks the mode of the data directory; fails if other users can read it.
fn data_directory(settings: &DataSettings) -> Result<String, OpenError> {
    let group = GroupAccess::from_setting(settings.group_access);
    let found = store::check_directory(&settings.directory, group)?;
    Ok(match found {
        Some(mode) => format!("mode {mode:04o}"),
        None => "created at the first start, for this user only".to_owned(),
    })
}

/// Opens a local repository and returns it with the newest commit of its branch.
pub(super) fn open_repository(
    name: &str,
    path: &Path,
    branch: &str,
    bases: &Path,
) -> Result<(Arc<Repository>, String), RepositoryError> {
    let repository = Repository::open_local(name, path, Some(branch), bases)?;
    let head = repository.head().map_err(|error| match error {
        RepositoryError::UnknownRevision(branch) => {
            RepositoryError::Refused(format!("`{}` has no branch `{branch}`", path.display()))
        }
        other => other,
    })?;
    let head = head.ok_or_else(|| RepositoryError::Refused(format!("branch `{branch}` has no commit")))?;
    Ok((repository, head))
}

/// Checks that a hook's instructions exist on the trusted branch and are text.
fn prompt(repository: &Repository, head: &str, path: &str) -> Result<String, RepositoryError> {
    let name = RepoPath::parse(path).map_err(|error| RepositoryError::Refused(error.to_string()))?;
    let refused = |why: &str| RepositoryError::Refused(format!("`{path}` {why}"));
    let file = repository
        .file_at(head, &name)?
        .ok_or_else(|| refused("is not on the branch; commit it, or change `prompt`"))?;
    let text = std::str::from_utf8(&file.content).map_err(|_| refused("is not UTF-8 text"))?;
    if text.trim().is_empty() {
        return Err(refused("is empty"));
    }
    Ok(format!("`{path}` is on the branch, {} bytes", text.len()))
}

/// Reports the layers of the sandbox on this system; fails if a required one is missing.
pub(super) fn check_sandbox(may_lack: &[String]) -> Result<String, SandboxError> {
    let status = sandbox::layer_status(sandbox::layers(&ProgramPath::current())?, may_lack)?;
    let present = sandbox_layers::format_layers(&status.present);
    Ok(match status.absent.as_slice() {
        [] => present,
        absent => format!(
            "{present}; without {}, as configured",
            sandbox_layers::format_layers(absent)
        ),
    })
}

/// Returns each problem of the configuration as a separate finding.
fn misconfigured(failure: &CliError) -> Vec<Finding> {
    let found = failure.message.lines().map(|problem| Finding {
        what: "configuration".to_owned(),
        ok: false,
        detail: problem.to_owned(),
    });
    found.collect()
}

fn report(findings: Vec<Finding>, output: &Output) -> Result<(), CliError> {
    let failed = findings.iter().filter(|finding| !finding.ok).count();
    if output.json() {
        let list: Vec<_> = findings
            .iter()
            .map(|f| serde_json::json!({"what": f.what, "ok": f.ok, "detail": f.detail}))
            .collect();
        output.value(&serde_json::json!({ "ok": failed == 0, "findings": list }));
    } else {
        let rows: Vec<Vec<String>> = findings
            .into_iter()
            .map(|finding| {
                vec![
                    finding.what,
                    if finding.ok { "ok" } else { "FAILED" }.to_owned(),
                    finding.detail,
                ]
            })
            .collect();
        output.table(&["CHECK", "RESULT", "DETAIL"], &rows);
    }
    if failed > 0 {
        let checks = pluralize(failed, "check", "checks");
        Err(CliError::config(format!("{checks} failed")))
    } else {
        Ok(())
    }
}

struct Finding {
    what: String,
    ok: bool,
    detail: String,
}

fn skipped(what: &str, detail: &str) -> Finding {
    Finding {
        what: what.to_owned(),
        ok: true,
        detail: detail.to_owned(),
    }
}

fn finding<E: std::fmt::Display>(what: &str, result: Result<String, E>) -> Finding {
    match result {
        Ok(detail) => Finding {
            what: what.to_owned(),
            ok: true,
            detail,
        },
        Err(error) => Finding {
            what: what.to_owned(),
            ok: false,
            detail: error.to_string(),
        },
    }
}
