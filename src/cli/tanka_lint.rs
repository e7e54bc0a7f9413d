//! `drydock tanka lint`: reports problems in Jsonnet files, and the environments that use the files and do not
//! render.

use super::failure_format::FailureFormatter;
use super::jsonnet_files::JsonnetFiles;
use super::output::{Output, OutputStyle};
use super::{CliError, comparer, evaluator};
use crate::base::config::SandboxSettings;
use crate::base::model::{RepoPath, pluralize, quoted};
use crate::base::redact::Redactor;
use crate::rendering::compare::{
    CompareError, DependentEnvironment, FileValidation, Sides, Validation, ValidationStage,
};
use crate::state::workspace::{Directory, Tree};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// The number of files or entry points below which no progress is shown.
const PROGRESS_MIN: usize = 20;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock tanka lint .                     every Jsonnet file below this directory
  drydock tanka lint lib/app.libsonnet
  drydock tanka lint environments --json

Syntax, names, imports and types are checked, then every environment that uses a file is rendered. A file argument may have any name. In a directory, `*.jsonnet` and `*.libsonnet` are checked, without `vendor`, names that begin with a dot, and what git ignores, unless the directory is ignored itself.

Exit codes: 0 no errors (there may be warnings), 1 errors.";

#[derive(Debug, Args)]
pub(super) struct JsonnetLintArguments {
    #[command(flatten)]
    files: JsonnetFiles,
}

pub(super) async fn run(
    arguments: &JsonnetLintArguments,
    directory: Arc<Directory>,
    here: &Path,
    settings: &SandboxSettings,
    output: &Output,
) -> Result<(), CliError> {
    let paths = arguments.files.resolve(&directory, here)?;
    // Secrets that match patterns are redacted here as well: terminal output is often pasted elsewhere.
    let redactor = Arc::new(Redactor::new([]));
    let comparer = comparer(evaluator(settings), Arc::clone(&redactor));
    let tree = Arc::clone(&directory) as Arc<dyn Tree>;
    let (sides, far) = (Sides::unchanged_tree(directory), LintProgress::new(*output));
    let seen = comparer
        .validate_all(
            sides,
            paths,
            Arc::new(move |stage| far.report(stage)),
            &CancellationToken::new(),
        )
        .await
        .map_err(CliError::failed)?;
    if output.json() {
        let files: Vec<Value> = seen.iter().map(|(path, found)| as_json(path, found)).collect();
        output.value(&json!({ "files": files }));
    } else {
        let sources = FailureFormatter {
            tree: tree.as_ref(),
            redactor: &redactor,
        };
        show(&seen, sources, output);
    }
    let wrong = seen
        .iter()
        .filter(|(_, found)| !found.as_ref().is_ok_and(Validation::is_valid))
        .count();
    match wrong {
        0 => Ok(()),
        wrong => Err(CliError::failed(format!(
            "{wrong} of {} not valid",
            pluralize(seen.len(), "file is", "files are")
        ))),
    }
}

fn as_json(path: &RepoPath, found: &Result<Validation, CompareError>) -> Value {
    let validation = match found {
        Ok(validation) => validation,
        Err(error) => return json!({ "file": path, "valid": false, "error": error.to_string() }),
    };
    let environments = validation.environments.iter().map(|user| {
        let error = user.failure.as_ref().map(|failure| &failure.message);
        json!({ "name": user.name, "renders": user.failure.is_none(), "error": error })
    });
    json!({
        "file": path,
        "valid": validation.is_valid(),
        "findings": validation.findings,
        "environments": environments.collect::<Vec<_>>(),
        "entrypoints_left_out": validation.left_out,
    })
}

/// Prints the findings file by file, and then each environment that does not render, once.
fn show(seen: &[FileValidation], sources: FailureFormatter<'_>, output: &Output) {
    let mut environments: BTreeMap<&str, &DependentEnvironment> = BTreeMap::new();
    let mut left_out = 0;
    for (path, found) in seen {
        match found {
            Ok(validation) => {
                validation
                    .findings
                    .iter()
                    .for_each(|finding| output.line(&finding.to_string()));
                let users = validation.environments.iter();
                environments.extend(users.map(|user| (user.name.as_str(), user.as_ref())));
                left_out += validation.left_out;
            }
            Err(error) => output.line(&format!("error: {path}: {error}")),
        }
    }
    let broken = environments
        .iter()
        .filter_map(|(name, user)| Some((name, user.failure.as_ref()?)));
    let mut failed = 0;
    for (name, failure) in broken {
        output.line(&format!(
            "error: {} does not render: {}{}",
            quoted(name),
            failure.message,
            sources.format_trace(&failure.trace)
        ));
        failed += 1;
    }
    if left_out > 0 {
        let entry_points = pluralize(left_out, "entry point", "entry points");
        output.message(&format!(
            "{entry_points} more use these files and were not rendered"
        ));
    }
    output.message(&format!(
        "{} checked; environments that use them: {} of {} rendered",
        pluralize(seen.len(), "file", "files"),
        environments.len() - failed,
        environments.len(),
    ));
}

/// The progress of long runs: a line for each tenth of the files and of the environments.
struct LintProgress {
    output: Output,
    // The tenths of files and of environments that were reported. The lock is held during a report, so that reports
    // stay in order.
    reported_tenths: Mutex<[usize; 2]>,
}

impl LintProgress {
    fn new(output: Output) -> Self {
        Self {
            output,
            reported_tenths: Mutex::default(),
        }
    }

    fn report(&self, stage: ValidationStage) {
        let (place, progress, one, many) = match stage {
            ValidationStage::Files(progress) => (0, progress, "file", "files"),
            ValidationStage::Environments(progress) => {
                (1, progress, "entry point rendered", "entry points rendered")
            }
        };
        let tenth = 10 * progress.done / progress.total.max(1);
        if progress.total <= PROGRESS_MIN {
            return;
        }
        let mut reported = self
            .reported_tenths
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(before) = reported.get_mut(place).filter(|before| **before < tenth) else {
            return;
        };
        *before = tenth;
        let text = format!(
            "[lint] {} of {}",
            progress.done,
            pluralize(progress.total, one, many)
        );
        self.output.styled_message(OutputStyle::Dim, &text);
    }
}
