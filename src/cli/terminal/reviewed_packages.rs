//! The packages of a reviewed change whose repository ignores `vendor/`: no commit has them, so those that are installed in
//! the working directory are used, or the person is told to install them.

use crate::base::model::{Check, CheckState, MAIN_FILE, RepoPath};
use crate::rendering::bundler::{self, FILE, Project, VENDOR};
use crate::state::workspace::{Overlay, Tree};
use std::collections::BTreeSet;

/// The maximum number of directories that a text names.
const NAMED_MAX: usize = 5;

/// The directories of packages that the commits of a reviewed change do not have.
#[derive(Clone, Debug, Default)]
pub(super) struct ReviewedPackages {
    /// The directories of the working directory that are used instead.
    pub(super) borrowed: Vec<RepoPath>,
    /// The directories that are nowhere, although their project has packages.
    pub(super) missing: Vec<RepoPath>,
}

impl ReviewedPackages {
    /// Returns the checks about the packages, of a change that has effects on environments.
    pub(super) fn checks(&self) -> Vec<Check> {
        let borrowed = (!self.borrowed.is_empty()).then(|| Check {
            name: "packages are those of the reviewed commits".to_owned(),
            state: CheckState::NotRun,
            detail: format!(
                "git ignores files in {}, so those of the working directory were used",
                named(&self.borrowed)
            ),
        });
        let missing = self.remedy().map(|remedy| Check {
            name: "packages are installed".to_owned(),
            state: CheckState::NotRun,
            detail: remedy,
        });
        borrowed.into_iter().chain(missing).collect()
    }

    /// Returns the command that installs the missing packages, as the end of a sentence.
    pub(super) fn remedy(&self) -> Option<String> {
        let are = match self.missing.len() {
            0 => return None,
            1 => "is",
            _ => "are",
        };
        Some(format!(
            "{} {are} missing; run `drydock jb install`, then review again",
            named(&self.missing)
        ))
    }
}

/// Returns the directories in which imports of a tree search packages, sorted.
pub(super) fn package_directories(overlay: &Overlay) -> Vec<RepoPath> {
    let (now, before) = (overlay.files().unwrap_or_default(), overlay.base().files());
    let files = now.iter().chain(before.iter());
    let projects = files.filter(|path| [FILE, "tkrc.yaml", MAIN_FILE].contains(&path.file_name()));
    let directories: BTreeSet<RepoPath> = projects.filter_map(packages_of).collect();
    directories.into_iter().collect()
}

/// Returns the directories of packages that do not exist, although the project beside them has packages.
pub(super) fn missing_directories(tree: &dyn Tree) -> Vec<RepoPath> {
    let files = tree.files().unwrap_or_default();
    let projects = files.iter().filter(|path| path.file_name() == FILE);
    let projects = projects.filter(|path| !path.as_str().split('/').any(|name| name == VENDOR));
    let is_missing = |path: &&RepoPath| {
        let directory = path.parent().unwrap_or_default();
        let packages = Project::new(tree, directory).and_then(bundler::list);
        // A file that cannot be read is reported by what needs it.
        let has_packages = packages.is_ok_and(|packages| !packages.is_empty());
        let packages = packages_of(path);
        has_packages && packages.is_some_and(|packages| matches!(tree.entry(&packages), Ok(None)))
    };
    projects.filter(is_missing).filter_map(packages_of).collect()
}

fn packages_of(file: &RepoPath) -> Option<RepoPath> {
    let directory = match file.parent() {
        None | Some("") => VENDOR.to_owned(),
        Some(parent) => format!("{parent}/{VENDOR}"),
    };
    RepoPath::parse(&directory).ok()
}

fn named(directories: &[RepoPath]) -> String {
    let shown = directories.iter().take(NAMED_MAX);
    let shown: Vec<String> = shown.map(|directory| format!("`{directory}`")).collect();
    match directories.len().saturating_sub(NAMED_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
