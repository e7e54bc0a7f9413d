//! The tools for Jsonnet packages, which do the work of `jb` in a workspace. They share a [`PackageContext`]: the
//! write policy, which checks writes, and the source of packages.

mod init;
mod install;
mod list;
mod plan;
mod update;

#[cfg(test)]
mod tests;

use super::adapter::ToolAdapter;
use super::write_policy::WritePolicy;
use super::{Tool, ToolError};
use crate::base::model::{one_line, pluralize};
use crate::rendering::bundler::{
    self, BundlerError, Fetch, PackageChange, PackageChangeKind, PreparedOperation, Project,
};
use crate::rendering::jsonnet::FairSlots;
use std::sync::Arc;

/// The number of characters of a commit that are shown.
const COMMIT_CHARS: usize = 12;

/// The write policy and the source of packages that these tools use.
pub(super) struct PackageContext {
    policy: WritePolicy,
    fetch: Arc<dyn Fetch>,
}

/// Returns every tool for packages. Concurrent calls of tools that may download are limited.
pub(super) fn all(fetch: &Arc<dyn Fetch>, downloads: &FairSlots) -> Vec<Arc<dyn Tool>> {
    let context = || {
        let fetch = Arc::clone(fetch);
        move |cx: super::Context<'_>| PackageContext {
            policy: WritePolicy::from(cx),
            fetch: Arc::clone(&fetch),
        }
    };
    vec![
        Arc::new(ToolAdapter::<init::JbInit>::with_context(context())),
        Arc::new(ToolAdapter::<install::JbInstall>::with_context(context()).limited_by(downloads)),
        Arc::new(ToolAdapter::<list::JbList>::with_context(context())),
        Arc::new(ToolAdapter::<plan::JbPlan>::with_context(context()).limited_by(downloads)),
        Arc::new(ToolAdapter::<update::JbUpdate>::with_context(context()).limited_by(downloads)),
    ]
}

impl From<BundlerError> for ToolError {
    fn from(err: BundlerError) -> Self {
        Self::Failed(err.to_string())
    }
}

impl PackageContext {
    fn project<'a>(&'a self, path: &'a str) -> Result<Project<'a>, ToolError> {
        Ok(Project::new(self.policy.tree.as_ref(), path)?)
    }

    /// Fails if the user may not change the project. Checked before anything is downloaded.
    fn admit(&self, project: Project<'_>) -> Result<(), ToolError> {
        self.policy.admit_write(&project.path(bundler::FILE)?).map(drop)
    }

    fn put(&self, project: Project<'_>, prepared: &PreparedOperation) -> Result<(), ToolError> {
        self.policy
            .apply_packages(&project.path(bundler::FILE)?, prepared)
    }
}

/// Returns the changes that an operation makes, or would make, line by line.
fn format_changes(prepared: &PreparedOperation, nothing: &str) -> String {
    let mut lines: Vec<String> = prepared
        .packages
        .iter()
        .filter_map(line)
        .map(|line| one_line(&line))
        .collect();
    let kept = prepared.packages.len() - lines.len();
    if kept > 0 {
        let packages = pluralize(kept, "package is", "packages are");
        lines.push(format!("{packages} as locked"));
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
        let files = pluralize(prepared.changes.len(), "file differs", "files differ");
        lines.push(format!("{files} from before"));
    }
    lines.join("\n")
}

fn line(package: &PackageChange) -> Option<String> {
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
        PackageChangeKind::Added => Some(format!("added {name} at {to}")),
        PackageChangeKind::Updated => Some(format!("updated {name} from {from} to {to}{compare}")),
        PackageChangeKind::Restored => Some(format!("restored {name} at {to}")),
        PackageChangeKind::Removed => Some(format!("removed {name}, which was at {from}")),
        PackageChangeKind::Kept => None,
    }
}
