//! The change that a review is about: what is not committed, a range of commits, or a patch file.

use super::Terminal;
use super::checking::CheckedChange;
use super::reviewed_packages::{ReviewedPackages, missing_directories, package_directories};
use crate::base::model::{FileChange, RepoPath};
use crate::cli::CliError;
use crate::engine::agent::prompt;
use crate::interfaces::tool;
use crate::state::workspace::{IgnoredFiles, Overlay, WorkspaceEdits};
use std::sync::Arc;

/// Bytes of a patch file that a review reads.
const PATCH_BYTES_MAX: u64 = 1 << 20;
/// The maximum number of commits of a range that a review names.
const COMMITS_MAX: usize = 50;

/// The commit that a range begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeStart {
    /// `main..HEAD`: the named commit.
    Named,
    /// `main...HEAD`: the newest commit that both sides have.
    MergeBase,
}

impl Terminal {
    /// Makes a change the subject of the checks and of the tools, and returns the block of data with it. `what` is a range
    /// such as `main..HEAD`, or `main...HEAD` for the changes since the two parted, the path of a patch file, or empty for
    /// what is not committed.
    ///
    /// From now on the tools and the checks read the files as they are after the change, on the commit that it begins with.
    /// Later edits in the working directory have no effect on them, except in files that git ignores. A patch file changes
    /// nothing: the tools then read the working directory.
    pub(in crate::cli) fn begin_review(&mut self, what: &str) -> Result<String, CliError> {
        if what.is_empty() {
            return self.review_working_directory();
        }
        match what.split_once("..") {
            // A path such as `../change.patch` is no range.
            Some((from, to)) if !is_file(what) => match to.strip_prefix('.') {
                Some(to) => self.review_range(from, to, RangeStart::MergeBase),
                None => self.review_range(from, to, RangeStart::Named),
            },
            Some(_) | None => {
                let text = patch_file(what)?;
                self.checking.subject = CheckedChange::PatchFile;
                Ok(self.block(what, &text))
            }
        }
    }

    fn review_working_directory(&mut self) -> Result<String, CliError> {
        let what = "the working directory against its commit";
        let base = self.workspace.base.clone();
        let changes = self
            .workspace
            .repository
            .changes_to(base.as_deref(), self.directory.as_ref());
        let changes = changes.map_err(CliError::failed)?;
        let overlay = self.reviewed_overlay(what, base.as_deref(), &changes)?;
        let ignored = IgnoredFiles::all(overlay, Arc::clone(&self.directory));
        let ignored = ignored.map_err(CliError::failed)?;
        Ok(self.review(what, "", (base, changes), ignored, Vec::new()))
    }

    fn review_range(&mut self, from: &str, to: &str, start: RangeStart) -> Result<String, CliError> {
        let repository = &self.workspace.repository;
        let head = self.workspace.base.as_deref();
        let head = head.ok_or_else(|| CliError::failed("the repository has no commits yet"))?;
        let resolve = |revision: &str| {
            let revision = if revision.is_empty() { "HEAD" } else { revision };
            repository.resolve(revision, head).map_err(CliError::usage)
        };
        let (from, to) = (resolve(from)?, resolve(to)?);
        let from = match start {
            RangeStart::Named => from,
            RangeStart::MergeBase => repository.merge_base(&from, &to).map_err(CliError::usage)?,
        };
        let range = format!("{from}..{to}");
        let changes = repository.changes_between(&from, &to);
        let changes = changes.map_err(CliError::failed)?;
        let overlay = self.reviewed_overlay(&range, Some(&from), &changes)?;
        let candidates = package_directories(&overlay);
        let ignored = IgnoredFiles::below(overlay, Arc::clone(&self.directory), candidates);
        let (ignored, borrowed) = ignored.map_err(CliError::failed)?;
        let commits = self.commits_of(&from, &to)?;
        Ok(self.review(&range, &commits, (Some(from), changes), ignored, borrowed))
    }

    /// Returns the lines about the commits of a range.
    fn commits_of(&self, from: &str, to: &str) -> Result<String, CliError> {
        let commits = self.workspace.repository.log_between(from, to, COMMITS_MAX + 1);
        let mut commits = commits.map_err(CliError::failed)?;
        let title = match commits.len() > COMMITS_MAX {
            true => format!("The newest {COMMITS_MAX} commits"),
            false => "The commits".to_owned(),
        };
        commits.truncate(COMMITS_MAX);
        let lines = tool::commit_lines(&commits, &self.redactor);
        Ok(format!("{title}, newest first:\n{lines}\n"))
    }

    /// Returns the files of a commit with these changes.
    fn reviewed_overlay(
        &self,
        what: &str,
        base: Option<&str>,
        changes: &[FileChange],
    ) -> Result<Overlay, CliError> {
        if changes.is_empty() {
            return Err(CliError::usage(format!(
                "there is nothing to review: {what} has no changes; name a range such as main..HEAD, or a patch file"
            )));
        }
        let scratch = &self.config.sandbox.programs.scratch;
        let base = self.workspace.repository.unnamed_base(base, scratch);
        let edits = changes.iter();
        let edits: WorkspaceEdits = edits
            .map(|change| (change.path.clone(), change.after.clone()))
            .collect();
        Ok(Overlay::new(base.map_err(CliError::failed)?, edits))
    }

    /// Makes a change on a base the subject, and returns its block, with the lines about its commits.
    fn review(
        &mut self,
        what: &str,
        commits: &str,
        (base, changes): (Option<String>, Vec<FileChange>),
        files: IgnoredFiles,
        borrowed: Vec<RepoPath>,
    ) -> String {
        self.workspace.tree = files.into_tree();
        self.workspace.base = base;
        self.checking.workspace = self.workspace.clone();
        self.checking.subject = CheckedChange::Reviewed(ReviewedPackages {
            missing: missing_directories(self.workspace.tree.as_ref()),
            borrowed,
        });
        let diff = tool::diff_for_model(changes, self.workspace.tree.as_ref(), &self.workspace.guard);
        self.block(what, &format!("{commits}{diff}"))
    }

    fn block(&self, source: &str, text: &str) -> String {
        prompt::data_block("the change to review", source, &self.redactor.redact(text))
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the shell reads the files that its arguments name"
)]
fn is_file(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|about| about.is_file())
}

fn patch_file(path: &str) -> Result<String, CliError> {
    let wrong = |why: String| {
        CliError::usage(format!(
            "--review {path}: {why}; give a range such as main..HEAD or the path of a patch file, or nothing for what is \
             not committed"
        ))
    };
    #[allow(
        clippy::disallowed_methods,
        reason = "the shell reads the files that its arguments name"
    )]
    let about = std::fs::metadata(path).map_err(|_| wrong("it is neither a range nor a file".to_owned()))?;
    if about.len() > PATCH_BYTES_MAX {
        return Err(wrong(format!(
            "the file has {} bytes, and at most {PATCH_BYTES_MAX} are read",
            about.len()
        )));
    }
    #[allow(
        clippy::disallowed_methods,
        reason = "the shell reads the files that its arguments name"
    )]
    let text = std::fs::read_to_string(path).map_err(|why| wrong(why.to_string()))?;
    match text.trim().is_empty() {
        true => Err(wrong("the file is empty".to_owned())),
        false => Ok(text),
    }
}
