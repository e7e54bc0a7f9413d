//! `drydock tanka fmt`: Jsonnet files in the one style. Every file is read and formatted before the
//! first one is written; if one is no Jsonnet, none is.

use super::Failure;
use super::output::Output;
use crate::jsonnet::format::{Reformatted, reformat};
use crate::model::{FileVersion, RepoPath};
use crate::workspace::{Directory, Tree};
use bytes::Bytes;
use clap::Args;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

/// What is left out of directories.
const EXCLUDED: [&str; 4] = ["**/.*", ".*", "**/vendor/**", "vendor/**"];
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
    /// Files and directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Writes nothing; exit code 16 if files would change
    #[arg(short = 't', long)]
    test: bool,
    /// Leaves out paths that match, in directories; `*` crosses `/`
    #[arg(short = 'e', long = "exclude", value_name = "GLOB",
          default_values_t = EXCLUDED.map(str::to_owned))]
    excludes: Vec<String>,
}

pub(super) fn run(arguments: &FmtArguments, output: &Output) -> Result<(), Failure> {
    #[allow(
        clippy::disallowed_methods,
        reason = "the shell is where the working directory is read"
    )]
    let here = std::env::current_dir().map_err(Failure::failed)?;
    let directory = Directory::open(&here).map_err(Failure::failed)?;
    let paths = chosen(&directory, &here, &arguments.paths, &arguments.excludes)?;
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

/// The Jsonnet files that paths mean, without what is usually left out.
pub(super) fn below(directory: &Directory, here: &Path, paths: &[String]) -> Result<Vec<RepoPath>, Failure> {
    chosen(directory, here, paths, &EXCLUDED.map(str::to_owned))
}

/// The files that are meant, relative to the root of the repository.
fn chosen(
    directory: &Directory,
    here: &Path,
    paths: &[String],
    excludes: &[String],
) -> Result<Vec<RepoPath>, Failure> {
    let excludes = globs(excludes)?;
    let here = here.canonicalize().map_err(Failure::failed)?;
    let inside = here.strip_prefix(directory.root()).unwrap_or(Path::new(""));
    let files = directory.files().map_err(Failure::failed)?;
    let mut chosen = BTreeSet::new();
    for argument in paths {
        let path = relative(&inside.to_string_lossy(), argument)?;
        if let Ok(file) = RepoPath::parse(&path)
            && directory.read(&file).is_ok()
        {
            chosen.insert(file);
            continue;
        }
        let within = if path.is_empty() { path } else { format!("{path}/") };
        if !within.is_empty() && !files.iter().any(|file| file.as_str().starts_with(&within)) {
            return Err(Failure::failed(format!(
                "there is no file and no directory `{argument}`"
            )));
        }
        let meant = files.iter().filter(|file| {
            let name = file.as_str();
            let jsonnet = name.ends_with(".jsonnet") || name.ends_with(".libsonnet");
            jsonnet && name.starts_with(&within) && !excludes.is_match(name)
        });
        chosen.extend(meant.cloned());
    }
    Ok(chosen.into_iter().collect())
}

fn globs(patterns: &[String]) -> Result<GlobSet, Failure> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = GlobBuilder::new(pattern).literal_separator(false).build();
        set.add(glob.map_err(|error| Failure::usage(format!("--exclude: {error}")))?);
    }
    set.build().map_err(Failure::usage)
}

/// A path as it is typed in `inside`, from the root. What leads out of it is refused.
fn relative(inside: &str, typed: &str) -> Result<String, Failure> {
    if typed.starts_with('/') {
        return Err(Failure::usage(format!(
            "`{typed}`: write the path relative to this directory"
        )));
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in inside.split('/').chain(typed.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => {
                return Err(Failure::failed(format!("`{typed}` is outside of the repository")));
            }
            ".." => {}
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
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
