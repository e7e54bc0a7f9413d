//! `drydock tanka env diff`: shows the effect of the working directory's changes on environments, compared with the
//! commit that is checked out.

use super::failure_format::FailureFormatter;
use super::output::Output;
use super::{CliError, comparer, evaluator};
use crate::base::config::SandboxSettings;
use crate::base::model::{Check, CheckState};
use crate::base::redact::Redactor;
use crate::rendering::compare::{
    BrokenEnvironment, CompareError, CompareRequest, Comparison, CrossCheckWanted, EnvironmentSelection,
    Sides,
};
use crate::state::workspace::{Directory, Repository, Tree};
use clap::Args;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The maximum number of characters of a report; it is large because terminals scroll.
const REPORT_CHARS_MAX: usize = 100_000;

#[derive(Debug, Args)]
pub(super) struct EnvironmentDiffArguments {
    /// The environment: its directory, a file in it, or its name; every one that changes without it
    #[arg(value_name = "ENVIRONMENT")]
    pub(super) environment: Option<String>,
    /// The name of the environment, where a file holds several
    #[arg(long, requires = "environment")]
    name: Option<String>,
    /// Renders with one engine only: faster, but not cross-checked
    #[arg(long)]
    no_cross_check: bool,
}

pub(super) async fn run(
    arguments: EnvironmentDiffArguments,
    directory: Arc<Directory>,
    settings: &SandboxSettings,
    sources: FailureFormatter<'_>,
    output: &Output,
) -> Result<(), CliError> {
    let EnvironmentDiffArguments {
        environment,
        name,
        no_cross_check,
    } = arguments;
    let detail = match environment {
        Some(_) => DiffDetail::Patches,
        None => DiffDetail::Summary,
    };
    let sides = tokio::task::spawn_blocking(move || sides(directory));
    let sides = sides.await.map_err(CliError::failed)??;
    let mut asked = CompareRequest::all(sides, "");
    asked.only = environment.map(|path| EnvironmentSelection { path, name });
    if no_cross_check {
        asked.cross_check = CrossCheckWanted::Never;
    }
    // Secrets that match patterns are redacted here as well: terminal output is often pasted elsewhere.
    let redactor = Arc::new(Redactor::new([]));
    let comparer = comparer(evaluator(settings), Arc::clone(&redactor));
    let comparison = comparer.compare(asked, &CancellationToken::new()).await;
    let comparison = comparison.map_err(|error| match error {
        CompareError::Tanka(error) => sources.to_error(&error),
        error => CliError::failed(error),
    })?;
    show(&comparison, detail, sources, output);
    let failed = comparison
        .checks
        .iter()
        .filter(|check| check.state == CheckState::Fail);
    match failed.count() {
        0 => Ok(()),
        1 => Err(CliError::failed("a check failed")),
        failed => Err(CliError::failed(format!("{failed} checks failed"))),
    }
}

/// Returns the working directory and its base, which is the current commit, or nothing before the first commit.
pub(super) fn sides(directory: Arc<Directory>) -> Result<Sides, CliError> {
    let name = directory.root().file_name().unwrap_or_default().to_string_lossy();
    let repository = Repository::open_personal(&name, directory.root()).map_err(CliError::failed)?;
    let commit = repository.head().map_err(CliError::failed)?;
    let tree = directory as Arc<dyn Tree>;
    let changes = repository
        .changes_to(commit.as_deref(), tree.as_ref())
        .map_err(CliError::failed)?;
    Sides::from_changes(tree, changes).map_err(CliError::failed)
}

/// The detail in which a comparison is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DiffDetail {
    Summary,
    /// The summary and the difference of each object.
    Patches,
}

fn show(comparison: &Comparison, detail: DiffDetail, sources: FailureFormatter<'_>, output: &Output) {
    let Comparison { report, checks, .. } = comparison;
    if output.json() {
        output.value(&serde_json::json!({ "report": report, "checks": checks }));
        return;
    }
    output.line(&report.text(REPORT_CHARS_MAX));
    let patches = report.environments.iter().map(|environment| environment.patch());
    for patch in patches.filter(|patch| detail == DiffDetail::Patches && !patch.is_empty()) {
        output.line(&format!("\n{}", output.diff(patch.trim_end_matches('\n'))));
    }
    for place in sources.format_failures(&BrokenEnvironment::from_report(report)) {
        output.line(&format!("\n{place}"));
    }
    output.line("");
    checks.iter().for_each(|check| output.line(&line(check)));
}

fn line(check: &Check) -> String {
    let state = match check.state {
        CheckState::Pass => "ok",
        CheckState::Fail => "FAILED",
        CheckState::NotRun => "not run",
    };
    match check.detail.as_str() {
        "" => format!("{}: {state}", check.name),
        detail => format!("{}: {state}, {detail}", check.name),
    }
}
