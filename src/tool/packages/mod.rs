//! The tools for packages of Jsonnet: what `jb` does, on a workspace. They share a shelf: the desk,
//! where writes are checked, and the place packages come from.

mod init;
mod install;
mod list;
mod plan;
mod update;

#[cfg(test)]
mod tests;

use super::desk::Desk;
use super::work::Framed;
use super::{Tool, ToolError};
use crate::bundler::{self, BundlerError, Fate, Fetch, Package, Prepared, Project};
use crate::jsonnet::Places;
use crate::model::one_line;
use std::sync::Arc;

/// Characters of a commit that are shown.
const COMMIT_CHARS: usize = 12;

/// The desk and the source of packages that these tools work with.
pub(super) struct Shelf {
    desk: Desk,
    fetch: Arc<dyn Fetch>,
}

/// Every tool for packages. Those that may download take turns.
pub(super) fn all(fetch: &Arc<dyn Fetch>, downloads: &Places) -> Vec<Arc<dyn Tool>> {
    let shelf = || {
        let fetch = Arc::clone(fetch);
        move |cx: super::Context<'_>| Shelf {
            desk: Desk::from(cx),
            fetch: Arc::clone(&fetch),
        }
    };
    vec![
        Arc::new(Framed::<init::Init>::on(shelf())),
        Arc::new(Framed::<install::Install>::on(shelf()).in_turn(downloads)),
        Arc::new(Framed::<list::List>::on(shelf())),
        Arc::new(Framed::<plan::Plan>::on(shelf()).in_turn(downloads)),
        Arc::new(Framed::<update::Update>::on(shelf()).in_turn(downloads)),
    ]
}

impl From<BundlerError> for ToolError {
    fn from(err: BundlerError) -> Self {
        Self::Failed(err.to_string())
    }
}

impl Shelf {
    fn project<'a>(&'a self, path: &'a str) -> Result<Project<'a>, ToolError> {
        Ok(Project::new(self.desk.tree.as_ref(), path)?)
    }

    /// Refuses who may not change the project, before anything is downloaded for them.
    fn admit(&self, project: Project<'_>) -> Result<(), ToolError> {
        self.desk.admit_write(&project.path(bundler::FILE)?).map(drop)
    }

    fn put(&self, project: Project<'_>, prepared: &Prepared) -> Result<(), ToolError> {
        self.desk.put(&project.path(bundler::FILE)?, prepared)
    }
}

/// Returns the changes an operation makes, or would make, line by line.
fn told(prepared: &Prepared, nothing: &str) -> String {
    let mut lines: Vec<String> = prepared
        .packages
        .iter()
        .filter_map(line)
        .map(|line| one_line(&line))
        .collect();
    let kept = prepared.packages.len() - lines.len();
    if kept > 0 {
        let packages = if kept == 1 { "package is" } else { "packages are" };
        lines.push(format!("{kept} {packages} as locked"));
    }
    lines.extend(
        prepared
            .notices
            .iter()
            .map(|notice| one_line(&notice.to_string())),
    );
    if prepared.changes.is_empty() {
        lines.push(nothing.to_owned());
    } else {
        let files = prepared.changes.len();
        let plural = if files == 1 { "file" } else { "files" };
        lines.push(format!("{files} {plural} differ from before"));
    }
    lines.join("\n")
}

fn line(package: &Package) -> Option<String> {
    let commit = |version: &Option<String>| match version.as_deref() {
        None | Some("") => "local".to_owned(),
        Some(version) => version.chars().take(COMMIT_CHARS).collect(),
    };
    let name = &package.name;
    let (from, to) = (commit(&package.from), commit(&package.to));
    let compare = package
        .compare
        .as_ref()
        .map_or_else(String::new, |url| format!(" ({url})"));
    match package.fate {
        Fate::Added => Some(format!("added {name} at {to}")),
        Fate::Updated => Some(format!("updated {name} from {from} to {to}{compare}")),
        Fate::Restored => Some(format!("restored {name} at {to}")),
        Fate::Removed => Some(format!("removed {name}, which was at {from}")),
        Fate::Kept => None,
    }
}
