//! Finds the Jsonnet files of a command's arguments: named files, and files in directories.

use super::CliError;
use crate::base::model::RepoPath;
use crate::state::workspace::{Directory, Tree, TreeEntry};
use clap::Args;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Args)]
pub(super) struct JsonnetFiles {
    /// Files and directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Leaves out paths that match, in directories; `*` crosses `/`
    #[arg(short = 'e', long = "exclude", value_name = "GLOB",
          default_values_t = ["**/.*", ".*", "**/vendor/**", "vendor/**"].map(str::to_owned))]
    excludes: Vec<String>,
}

impl JsonnetFiles {
    /// Returns the files, relative to the root of the repository. The arguments are relative to `here`.
    pub(super) fn resolve(&self, directory: &Directory, here: &Path) -> Result<Vec<RepoPath>, CliError> {
        let excludes = globs(&self.excludes)?;
        let here = here.canonicalize().map_err(CliError::failed)?;
        let inside = here.strip_prefix(directory.root()).unwrap_or(Path::new(""));
        let (mut files, mut chosen) = (None, BTreeSet::new());
        for argument in &self.paths {
            let path = relative(&inside.to_string_lossy(), argument)?;
            if let Ok(file) = RepoPath::parse(&path)
                && is_file(directory, &file)
            {
                chosen.insert(file);
                continue;
            }
            let files = match &files {
                Some(files) => Arc::clone(files),
                None => Arc::clone(files.insert(directory.files().map_err(CliError::failed)?)),
            };
            let is_meant = |file: &RepoPath| {
                let name = file.as_str();
                let jsonnet = name.ends_with(".jsonnet") || name.ends_with(".libsonnet");
                jsonnet && !excludes.is_match(name)
            };
            let below = within(directory, &files, &path, argument)?;
            chosen.extend(below.into_iter().filter(is_meant));
        }
        Ok(chosen.into_iter().collect())
    }
}

/// Returns true for a file of any size, or a link to one.
fn is_file(directory: &Directory, path: &RepoPath) -> bool {
    let real = directory.real_path(path);
    let entry = real.and_then(|real| directory.entry(&real));
    matches!(entry, Ok(Some(TreeEntry::File)))
}

/// Returns the files in a directory. Files that git ignores are left out, unless the directory itself is ignored.
fn within(
    directory: &Directory,
    files: &[RepoPath],
    path: &str,
    argument: &str,
) -> Result<Vec<RepoPath>, CliError> {
    if path.is_empty() {
        return Ok(files.to_vec());
    }
    let prefix = format!("{path}/");
    let listed = files.iter().filter(|file| file.as_str().starts_with(&prefix));
    let listed: Vec<RepoPath> = listed.cloned().collect();
    if !listed.is_empty() {
        return Ok(listed);
    }
    let ignored = match RepoPath::parse(path) {
        Ok(path) => directory.files_below(path.as_str()).map_err(CliError::failed)?,
        Err(_) => Vec::new(),
    };
    match ignored.is_empty() {
        true => Err(CliError::failed(format!(
            "there is no file and no directory `{argument}`"
        ))),
        false => Ok(ignored),
    }
}

fn globs(patterns: &[String]) -> Result<GlobSet, CliError> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = GlobBuilder::new(pattern).literal_separator(false).build();
        set.add(glob.map_err(|error| CliError::usage(format!("--exclude: {error}")))?);
    }
    set.build().map_err(CliError::usage)
}

/// Returns a typed path, which is relative to `inside`, from the root. A path that leads out of the repository is
/// refused.
fn relative(inside: &str, typed: &str) -> Result<String, CliError> {
    if typed.starts_with('/') {
        return Err(CliError::usage(format!(
            "`{typed}`: write the path relative to this directory"
        )));
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in inside.split('/').chain(typed.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => {
                return Err(CliError::failed(format!(
                    "`{typed}` is outside of the repository"
                )));
            }
            ".." => {}
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}
