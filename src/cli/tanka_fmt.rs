//! `drydock tanka fmt`: Jsonnet files in the one style. Every file is read and formatted before the
//! first one is written; if one is no Jsonnet, none is.

use super::Failure;
use super::jsonnet_files::JsonnetFiles;
use super::output::Output;
use crate::jsonnet::format::{Reformatted, reformat};
use crate::model::FileVersion;
use crate::workspace::{Directory, Tree};
use bytes::Bytes;
use clap::Args;
use serde_json::json;

/// The exit code of `--test` when files would change.
const DIFFERS: u8 = 16;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock tanka fmt .                          format every Jsonnet file below this directory
  drydock tanka fmt environments lib --test    only say which ones would change
  drydock tanka fmt main.jsonnet --json

A file that is named is formatted whatever it is called. In a directory, `*.jsonnet` and `*.libsonnet` are, without `vendor`, names that begin with a dot, and what git ignores. If one file is no Jsonnet, none is written.

Exit codes: 0 done, 1 failed, 16 files differ (with --test).";

#[derive(Debug, Args)]
pub(super) struct FmtArguments {
    #[command(flatten)]
    files: JsonnetFiles,
    /// Writes nothing; exit code 16 if files would change
    #[arg(short = 't', long)]
    test: bool,
}

pub(super) fn run(arguments: &FmtArguments, output: &Output) -> Result<(), Failure> {
    #[allow(
        clippy::disallowed_methods,
        reason = "the shell is where the working directory is read"
    )]
    let here = std::env::current_dir().map_err(Failure::failed)?;
    let directory = Directory::open(&here).map_err(Failure::failed)?;
    let paths = arguments.files.chosen(&directory, &here)?;
    let changes = reformat(&directory, &paths).map_err(|problems| {
        let problems = problems.join("\n");
        Failure::failed(format!("{problems}\nnothing was written"))
    })?;
    if !arguments.test {
        write(&directory, &changes)?;
    }
    let names: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    if output.json() {
        output.value(&json!({ "files": paths.len(), "changed": names, "written": !arguments.test }));
    } else {
        names.iter().for_each(|name| output.line(name));
    }
    let (changed, same) = (names.len(), paths.len() - names.len());
    if arguments.test && changed > 0 {
        let message = format!("{changed} of {} files would change", paths.len());
        return Err(Failure {
            code: DIFFERS,
            message,
        });
    }
    output.message(&format!("{changed} changed, {same} already in style"));
    Ok(())
}

/// Writes all changes. If one cannot be written, those before it are put back.
fn write(directory: &Directory, changes: &[Reformatted]) -> Result<(), Failure> {
    for (index, change) in changes.iter().enumerate() {
        let Err(error) = directory.write(&change.path, Bytes::from(change.after.clone())) else {
            continue;
        };
        let mut message = format!("{error}; nothing was changed");
        for done in changes.iter().take(index) {
            let content = Bytes::from(done.after.clone());
            let written = FileVersion {
                content,
                ..done.before.clone()
            };
            if !matches!(
                directory.put_back(&done.path, Some(&written), Some(&done.before)),
                Ok(true)
            ) {
                message = format!("{error}; `{}` stays formatted", done.path);
            }
        }
        return Err(Failure::failed(message));
    }
    Ok(())
}
