//! The Jsonnet files a person means: those that are named, and those in directories.

use super::Failure;
use crate::model::RepoPath;
use crate::workspace::{Directory, Tree};
use clap::Args;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::collections::BTreeSet;
use std::path::Path;

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
    /// The files that are meant by somebody in `here`, relative to the root of the repository.
    pub(super) fn chosen(&self, directory: &Directory, here: &Path) -> Result<Vec<RepoPath>, Failure> {
        let excludes = globs(&self.excludes)?;
        let here = here.canonicalize().map_err(Failure::failed)?;
        let inside = here.strip_prefix(directory.root()).unwrap_or(Path::new(""));
        let files = directory.files().map_err(Failure::failed)?;
        let mut chosen = BTreeSet::new();
        for argument in &self.paths {
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
