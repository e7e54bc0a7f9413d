//! `drydock tanka fmt`: formats Jsonnet files. A file that cannot be formatted is reported and does not affect the
//! others.

use super::jsonnet_files::JsonnetFiles;
use super::output::Output;
use super::tanka::{WorkingContext, open_working_context};
use super::{CliError, Global};
use crate::base::model::{FileVersion, RepoPath, pluralize};
use crate::rendering::jsonnet::format::{FormatChange, FormatReport, reformat};
use crate::state::workspace::{Directory, Tree, TreeError};
use bytes::Bytes;
use clap::Args;
use serde_json::json;
use std::collections::BTreeSet;

/// The exit code of `--test` when files would change.
const DIFFERS: u8 = 16;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock tanka fmt .                          format every Jsonnet file below this directory
  drydock tanka fmt environments lib --test    only list the files that would change
  drydock tanka fmt main.jsonnet --json

A file argument may have any name. In a directory, `*.jsonnet` and `*.libsonnet` are formatted, without `vendor`, names that begin with a dot, and what git ignores, unless the directory is ignored itself. A file that cannot be formatted is reported, and all others are formatted.

Exit codes: 0 done, 1 a file could not be formatted, 16 files differ (with --test).";

#[derive(Debug, Args)]
pub(super) struct FmtArguments {
    #[command(flatten)]
    files: JsonnetFiles,
    /// Writes nothing; exit code 16 if files would change
    #[arg(short = 't', long)]
    test: bool,
}

pub(super) fn run(arguments: &FmtArguments, global: &Global, output: &Output) -> Result<(), CliError> {
    let WorkingContext { here, directory, .. } = open_working_context(global)?;
    let chosen = arguments.files.resolve(&directory, &here)?;
    // A link stays a link; its target is formatted once.
    let real = |path: RepoPath| directory.real_path(&path).unwrap_or(path);
    let paths: BTreeSet<RepoPath> = chosen.into_iter().map(real).collect();
    let paths = Vec::from_iter(paths);
    let FormatReport {
        mut changes,
        mut problems,
    } = reformat(directory.as_ref(), &paths);
    if !arguments.test {
        changes.retain(|change| match write(&directory, change) {
            Ok(()) => true,
            Err(error) => {
                problems.push((change.path.clone(), error.to_string()));
                false
            }
        });
        problems.sort();
    }
    let names: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    if output.json() {
        let failed = problems.iter();
        let failed: Vec<_> = failed
            .map(|(path, why)| json!({ "file": path, "error": why }))
            .collect();
        output.value(
            &json!({ "files": paths.len(), "changed": names, "written": !arguments.test, "failed": failed }),
        );
    } else {
        names.iter().for_each(|name| output.line(name));
        problems.iter().for_each(|(_, why)| output.message(why));
    }
    let (changed, failed) = (names.len(), problems.len());
    let all = paths.len();
    if failed > 0 {
        let changed = match arguments.test {
            true => format!("{changed} others would change"),
            false => format!("{changed} others changed"),
        };
        return Err(CliError::failed(format!(
            "{failed} of {} could not be formatted; {changed}",
            pluralize(all, "file", "files")
        )));
    }
    if arguments.test && changed > 0 {
        let message = format!("{changed} of {all} files would change");
        return Err(CliError {
            code: DIFFERS,
            message,
        });
    }
    output.message(&format!("{changed} changed, {} already in style", all - changed));
    Ok(())
}

/// Writes a file of any size and keeps its mode.
fn write(directory: &Directory, change: &FormatChange) -> Result<(), TreeError> {
    let after = FileVersion {
        content: Bytes::from(change.after.clone()),
        mode: change.before.mode,
    };
    directory.put(&change.path, Some(after))
}
