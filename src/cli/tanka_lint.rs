//! `drydock tanka lint`: what is wrong with Jsonnet files, and whether the environments that use them
//! render. It is what `tanka_validate_jsonnet` answers a model.

use super::output::Output;
use super::{Failure, comparer, evaluator, tanka_diff, tanka_fmt};
use crate::compare::Validation;
use crate::config::{Config, Sources};
use crate::jsonnet::lint::Severity;
use crate::model::RepoPath;
use crate::redact::Redactor;
use crate::workspace::Directory;
use clap::Args;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock tanka lint environments/dev/main.jsonnet
  drydock tanka lint lib --json

In a directory, `*.jsonnet` and `*.libsonnet` are looked at, without `vendor` and names that begin with a dot. Every environment that uses a file is rendered.

Exit codes: 0 nothing wrong (there may be warnings), 1 something is.";

#[derive(Debug, Args)]
pub(super) struct LintArguments {
    /// Files and directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
}

pub(super) async fn run(
    arguments: &LintArguments,
    sources: Sources,
    here: &Path,
    output: &Output,
) -> Result<(), Failure> {
    let directory = Arc::new(Directory::open(here).map_err(Failure::failed)?);
    let paths = tanka_fmt::below(&directory, here, &arguments.paths)?;
    let settings = Config::for_rendering(sources).map_err(Failure::config)?;
    let sides = tokio::task::spawn_blocking(move || tanka_diff::sides(directory));
    let sides = sides.await.map_err(Failure::failed)??;
    let comparer = comparer(evaluator(&settings), Arc::new(Redactor::new([])));
    let (mut wrong, mut shown) = (0, Vec::new());
    for path in &paths {
        let validation = comparer
            .validate(sides.clone(), path.clone(), &CancellationToken::new())
            .await
            .map_err(Failure::failed)?;
        wrong += usize::from(!validation.is_valid());
        match output.json() {
            true => shown.push(value(path, &validation)),
            false => show(&validation, output),
        }
    }
    if output.json() {
        output.value(&json!({ "files": shown, "valid": wrong == 0 }));
    }
    match (wrong, paths.len()) {
        (0, files) => output.message(&format!("{files} looked at, nothing wrong")),
        (wrong, files) => return Err(Failure::failed(format!("{wrong} of {files} not valid"))),
    }
    Ok(())
}

fn show(validation: &Validation, output: &Output) {
    for finding in &validation.findings {
        let severity = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let hint = finding.hint.as_ref().map(|hint| format!(" ({hint})"));
        output.line(&format!(
            "{severity}: {}:{} {}{}",
            finding.file,
            finding.range,
            finding.message,
            hint.unwrap_or_default()
        ));
    }
    for (environment, failure) in &validation.environments {
        if let Some(failure) = failure {
            output.line(&format!(
                "error: `{environment}` does not render: {}",
                failure.message
            ));
        }
    }
}

fn value(path: &RepoPath, validation: &Validation) -> Value {
    let environment = |(name, failure): &(String, Option<crate::review::Failure>)| json!({ "name": name, "error": failure.as_ref().map(|failure| &failure.message) });
    json!({
        "path": path.as_str(),
        "valid": validation.is_valid(),
        "findings": validation.findings,
        "environments": validation.environments.iter().map(environment).collect::<Vec<_>>(),
        "left_out": validation.left_out,
    })
}
