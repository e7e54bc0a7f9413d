//! `drydock tanka lint`: what is wrong with Jsonnet files, and whether every environment that uses them
//! renders.

use super::jsonnet_files::JsonnetFiles;
use super::output::Output;
use super::{Failure, comparer, evaluator, tanka_diff};
use crate::compare::Validation;
use crate::config::SandboxSettings;
use crate::model::{RepoPath, counted, quoted};
use crate::redact::Redactor;
use crate::workspace::Directory;
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock tanka lint .                     every Jsonnet file below this directory
  drydock tanka lint lib/app.libsonnet
  drydock tanka lint environments --json

Syntax, names, imports and types are looked at, then every environment that uses a file is rendered. A file that is named is read whatever it is called. In a directory, `*.jsonnet` and `*.libsonnet` are, without `vendor`, names that begin with a dot, and what git ignores.

Exit codes: 0 nothing is wrong (there may be warnings), 1 something is.";

#[derive(Debug, Args)]
pub(super) struct LintArguments {
    #[command(flatten)]
    files: JsonnetFiles,
}

pub(super) async fn run(
    arguments: &LintArguments,
    directory: Arc<Directory>,
    here: &Path,
    settings: &SandboxSettings,
    output: &Output,
) -> Result<(), Failure> {
    let paths = arguments.files.chosen(&directory, here)?;
    let sides = tokio::task::spawn_blocking(move || tanka_diff::sides(directory));
    let sides = sides.await.map_err(Failure::failed)??;
    // What patterns know of secrets is hidden here, too: what a terminal shows is pasted elsewhere.
    let redactor = Arc::new(Redactor::new([]));
    let comparer = comparer(evaluator(settings), redactor);
    let cancel = CancellationToken::new();
    let mut seen = Vec::new();
    for path in paths {
        let validation = comparer.validate(sides.clone(), path.clone(), &cancel).await;
        seen.push((path, validation.map_err(Failure::failed)?));
    }
    if output.json() {
        let files: Vec<Value> = seen
            .iter()
            .map(|(path, validation)| as_json(path, validation))
            .collect();
        output.value(&json!({ "files": files }));
    } else {
        show(&seen, output);
    }
    let wrong = seen
        .iter()
        .filter(|(_, validation)| !validation.is_valid())
        .count();
    match wrong {
        0 => Ok(()),
        wrong => Err(Failure::failed(format!(
            "{wrong} of {} not valid",
            counted(seen.len(), "file is", "files are")
        ))),
    }
}

fn as_json(path: &RepoPath, validation: &Validation) -> Value {
    let environments = validation.environments.iter().map(|(name, failure)| {
        let error = failure.as_ref().map(|failure| &failure.message);
        json!({ "name": name, "renders": failure.is_none(), "error": error })
    });
    json!({
        "file": path,
        "valid": validation.is_valid(),
        "findings": validation.findings,
        "environments": environments.collect::<Vec<_>>(),
        "entrypoints_left_out": validation.left_out,
    })
}

/// Findings file by file, then each environment that does not render once, whichever files it uses.
fn show(seen: &[(RepoPath, Validation)], output: &Output) {
    let mut environments = BTreeMap::new();
    for (_, validation) in seen {
        validation
            .findings
            .iter()
            .for_each(|finding| output.line(&finding.to_string()));
        environments.extend(
            validation
                .environments
                .iter()
                .map(|(name, failure)| (name, failure)),
        );
    }
    let broken = environments
        .iter()
        .filter_map(|(name, failure)| Some((name, failure.as_ref()?)));
    let mut failed = 0;
    for (name, failure) in broken {
        output.line(&format!(
            "error: {} does not render: {}",
            quoted(name),
            failure.message
        ));
        failed += 1;
    }
    let left_out: usize = seen.iter().map(|(_, validation)| validation.left_out).sum();
    if left_out > 0 {
        let entry_points = counted(left_out, "entry point", "entry points");
        output.message(&format!(
            "{entry_points} more use these files and were not looked at"
        ));
    }
    output.message(&format!(
        "{} looked at; environments with any of it: {} of {} rendered",
        counted(seen.len(), "file", "files"),
        environments.len() - failed,
        environments.len(),
    ));
}
