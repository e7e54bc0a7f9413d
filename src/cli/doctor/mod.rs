//! `drydock doctor`: checks everything that a server needs, also at the services it connects to. Each finding is one line
//! with its correction. It changes nothing, except local files with `--fix`.

mod address;
mod files;

use super::channel::inspect;
use super::check;
use super::models;
use super::output::Output;
use super::{CliError, Global};
use crate::base::config::{Config, ConfigSources, RepositorySettings};
use crate::base::http_client;
use crate::base::model::pluralize;
use crate::interfaces::channel::{ChannelFinding, FaultSeverity};
use crate::state::workspace::{Mirror, check_remote};
use clap::Args;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock doctor --config drydock.toml
  drydock doctor --config drydock.toml --json
  drydock doctor --fix                    also create the data directory, and make secret files private

It checks the configuration, secret files, the data directory and its disk, the sandbox, repositories,
the public address, the token and the permissions of each channel, and the clock. It asks each provider
of models once, with a request of a few tokens.

Exit codes: 0 nothing failed; 1 a check failed; 78 wrong configuration.";

/// The longest wait for the answer of a remote repository.
const REMOTE_TIME_MAX: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub(super) struct DoctorArguments {
    /// Creates the data directory if it is missing, and makes secret files private
    #[arg(long)]
    fix: bool,
}

/// The permission to correct local files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Correction {
    /// Faults are only reported.
    Report,
    /// Faults of local files are corrected.
    Fix,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiagnosisResult {
    Fine,
    Fixed,
    Warning,
    Failed,
}

impl DiagnosisResult {
    fn word(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Fixed => "fixed",
            Self::Warning => "warning",
            Self::Failed => "FAILED",
        }
    }
}

/// A result with its reason and its correction.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Diagnosis {
    check: String,
    result: DiagnosisResult,
    detail: String,
    fix: Option<String>,
}

impl Diagnosis {
    fn fine(check: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::of(check, DiagnosisResult::Fine, detail, None)
    }

    fn fixed(check: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::of(check, DiagnosisResult::Fixed, detail, None)
    }

    fn warning(check: impl Into<String>, detail: impl Into<String>, fix: &str) -> Self {
        Self::of(check, DiagnosisResult::Warning, detail, Some(fix.to_owned()))
    }

    fn failed(check: impl Into<String>, detail: impl Into<String>, fix: &str) -> Self {
        Self::of(check, DiagnosisResult::Failed, detail, Some(fix.to_owned()))
    }

    fn of(
        check: impl Into<String>,
        result: DiagnosisResult,
        detail: impl Into<String>,
        fix: Option<String>,
    ) -> Self {
        // A finding is one line.
        let detail: String = detail.into();
        Self {
            check: check.into(),
            result,
            detail: detail.split_whitespace().collect::<Vec<_>>().join(" "),
            fix,
        }
    }
}

/// The results of all checks.
#[derive(Debug)]
pub(super) struct Diagnoses {
    findings: Vec<Diagnosis>,
    /// False if the configuration is not valid; then the parts that do not need all of it are still checked.
    is_configuration_valid: bool,
}

pub(super) async fn run(
    arguments: DoctorArguments,
    global: &Global,
    output: &Output,
) -> Result<(), CliError> {
    let correction = match arguments.fix {
        true => Correction::Fix,
        false => Correction::Report,
    };
    let diagnoses = diagnose(global.sources()?, correction).await?;
    match output.json() {
        true => output.value(&diagnoses.to_json()),
        false => diagnoses.print(output),
    }
    diagnoses.into_result()
}

/// Runs all checks, and corrects nothing.
pub(super) async fn examine(sources: ConfigSources) -> Result<Diagnoses, CliError> {
    diagnose(sources, Correction::Report).await
}

async fn diagnose(sources: ConfigSources, correction: Correction) -> Result<Diagnoses, CliError> {
    // The first client installs the provider of TLS, which the check of a remote needs.
    http_client::api_client().map_err(CliError::failed)?;
    let mut findings = files::check_secret_files(&sources, correction);
    findings.extend(files::check_data_directory(&sources, correction));
    let loaded = Config::load(sources.clone());
    findings.extend(match &loaded {
        Ok(_) => vec![Diagnosis::fine("configuration", location(&sources))],
        Err(error) => problems(&error.to_string(), &sources),
    });
    if let Ok(settings) = Config::for_rendering(sources.clone()) {
        findings.push(sandbox(&settings.layers_missing));
    }
    if let Ok(config) = &loaded {
        findings.extend(repositories(config).await);
    }
    findings.extend(providers(loaded.as_ref().ok(), &sources).await?);
    if let Ok(configured) = Config::for_channel_list(sources.clone()) {
        findings.extend(address::check_public_address(&configured));
        for name in configured.channels.keys() {
            let found = inspect(name, sources.clone()).await?;
            findings.extend(found.into_iter().map(|finding| of_channel(name, finding)));
        }
    }
    Ok(Diagnoses {
        findings,
        is_configuration_valid: loaded.is_ok(),
    })
}

fn location(sources: &ConfigSources) -> String {
    match &sources.file {
        Some(file) => format!("{} is valid", file.path.display()),
        None => "no file; the environment and the defaults are valid".to_owned(),
    }
}

fn problems(text: &str, sources: &ConfigSources) -> Vec<Diagnosis> {
    let fix = match sources.file {
        Some(_) => "correct this line; `drydock check` validates it",
        None => "write drydock.toml, for example with `drydock init`, or name one with --config",
    };
    let problems = text
        .lines()
        .map(|problem| Diagnosis::failed("configuration", problem, fix));
    problems.collect()
}

fn sandbox(may_lack: &[String]) -> Diagnosis {
    match check::check_sandbox(may_lack) {
        Ok(layers) => Diagnosis::fine("sandbox", layers),
        Err(error) => Diagnosis::failed(
            "sandbox",
            error.to_string(),
            "use a newer kernel or a runtime that allows it, or list the layer in sandbox.layers_missing",
        ),
    }
}

async fn repositories(config: &Config) -> Vec<Diagnosis> {
    let mut findings = Vec::new();
    for (name, settings) in &config.repositories {
        let check = format!("repository {name}");
        findings.push(match (&settings.path, &settings.url) {
            (Some(path), _) => {
                let bases = config.data.directory.join("bases").join(name);
                match check::open_repository(name, path, &settings.branch, &bases) {
                    Ok((_, head)) => Diagnosis::fine(check, at(&settings.branch, &head)),
                    Err(error) => {
                        let fix = format!(
                            "correct repositories.{name}.path or .branch, or the rights of this user"
                        );
                        Diagnosis::failed(check, error.to_string(), &fix)
                    }
                }
            }
            (None, Some(url)) => remote(check, name, url, settings).await,
            // Such a configuration is not valid.
            (None, None) => continue,
        });
    }
    findings
}

fn at(branch: &str, commit: &str) -> String {
    let short: String = commit.chars().take(7).collect();
    format!("`{branch}` is at {short}")
}

/// Asks a remote for its branches, and fetches nothing.
async fn remote(check: String, name: &str, url: &str, settings: &RepositorySettings) -> Diagnosis {
    let mirror = Mirror {
        name: name.to_owned(),
        url: url.to_owned(),
        token: settings.token.clone(),
        branch: settings.branch.clone(),
        directory: Default::default(),
        bases: Default::default(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let asking = tokio::task::spawn_blocking(move || check_remote(&mirror, &stopped));
    let asked = tokio::time::timeout(REMOTE_TIME_MAX, asking).await;
    stop.store(true, Ordering::Relaxed);
    let fix = format!("correct repositories.{name}.url, .token or .branch, or the network of this machine");
    match asked {
        Ok(Ok(Ok(head))) => Diagnosis::fine(check, at(&settings.branch, &head)),
        Ok(Ok(Err(error))) => Diagnosis::failed(check, error.to_string(), &fix),
        Ok(Err(_)) => Diagnosis::failed(check, "the check ended unexpectedly", &fix),
        Err(_) => {
            let why = format!("no answer within {} s", REMOTE_TIME_MAX.as_secs());
            Diagnosis::failed(check, why, &fix)
        }
    }
}

/// Asks each provider of models once.
async fn providers(config: Option<&Config>, sources: &ConfigSources) -> Result<Vec<Diagnosis>, CliError> {
    let of_models;
    let config = match config {
        Some(config) => config,
        None => match Config::for_models(sources.clone()) {
            Ok(config) => {
                of_models = config;
                &of_models
            }
            Err(_) => return Ok(Vec::new()),
        },
    };
    let checks = models::check_all(config).await?;
    let findings = checks.into_iter().map(|asked| {
        let check = format!("provider {}", asked.provider);
        let model = asked.model.as_deref().unwrap_or_default();
        match asked.outcome {
            Ok(_) => Diagnosis::fine(check, format!("{model} answered")),
            Err(why) => {
                let fix = format!(
                    "correct providers.{}.api_key, its base_url or the model; `drydock models --check` repeats this",
                    asked.provider
                );
                Diagnosis::failed(check, format!("{model}: {why}"), &fix)
            }
        }
    });
    Ok(findings.collect())
}

fn of_channel(name: &str, finding: ChannelFinding) -> Diagnosis {
    let check = format!("channel {name}: {}", finding.subject);
    match finding.outcome {
        Ok(state) => Diagnosis::fine(check, state),
        Err(fault) => match fault.severity {
            FaultSeverity::Warning => Diagnosis::warning(check, fault.why, &fault.fix),
            FaultSeverity::Failure => Diagnosis::failed(check, fault.why, &fault.fix),
        },
    }
}

impl Diagnoses {
    fn failed(&self) -> usize {
        let results = self.findings.iter().map(|finding| finding.result);
        results
            .filter(|result| *result == DiagnosisResult::Failed)
            .count()
    }

    /// Returns true if something has to be corrected.
    pub(super) fn has_failed(&self) -> bool {
        self.failed() > 0 || !self.is_configuration_valid
    }

    /// Returns an error if a check failed.
    pub(super) fn into_result(self) -> Result<(), CliError> {
        match (self.failed(), self.is_configuration_valid) {
            (_, false) => Err(CliError::config(
                "the configuration is not valid; correct it first",
            )),
            (0, true) => Ok(()),
            (failed, true) => Err(CliError::failed(format!(
                "{} failed",
                pluralize(failed, "check", "checks")
            ))),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let findings = self.findings.iter().map(|finding| {
            json!({
                "check": finding.check, "result": finding.result.word(), "detail": finding.detail, "fix": finding.fix,
            })
        });
        json!({"ok": self.failed() == 0, "findings": findings.collect::<Vec<_>>()})
    }

    pub(super) fn print(&self, output: &Output) {
        let rows = self.findings.iter().map(|finding| {
            let detail = match &finding.fix {
                None => finding.detail.clone(),
                Some(fix) => format!("{}. Fix: {fix}", finding.detail),
            };
            vec![finding.check.clone(), finding.result.word().to_owned(), detail]
        });
        output.table(&["CHECK", "RESULT", "DETAIL"], &rows.collect::<Vec<_>>());
    }
}
