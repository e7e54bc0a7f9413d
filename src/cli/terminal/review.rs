//! The change that a review is about: what is not committed, a range of commits, or a patch file.

use super::Terminal;
use crate::base::model::FileChange;
use crate::cli::CliError;
use crate::engine::agent::prompt;
use crate::interfaces::tool;
use crate::state::workspace::{Overlay, Tree, WorkspaceEdits};
use std::sync::Arc;

/// Bytes of a patch file that a review reads.
const PATCH_BYTES_MAX: u64 = 1 << 20;

/// The commit that a range begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeStart {
    /// `main..HEAD`: the named commit.
    Named,
    /// `main...HEAD`: the newest commit that both sides have.
    MergeBase,
}

impl Terminal {
    /// Returns the block of data with the change to review. `what` is a range such as `main..HEAD`, or `main...HEAD`
    /// for the changes since the two parted, the path of a patch file, or empty for what is not committed.
    pub(in crate::cli) fn change_block(&self, what: &str) -> Result<String, CliError> {
        let head = self.workspace.base.as_deref();
        if what.is_empty() {
            let repository = &self.workspace.repository;
            let changes = repository.changes_to(head, self.directory.as_ref());
            let source = "the working directory against its commit";
            return self.diff_block(source, changes.map_err(CliError::failed)?);
        }
        match what.split_once("..") {
            // A path such as `../change.patch` is no range.
            Some((from, to)) if !is_file(what) => match to.strip_prefix('.') {
                Some(to) => self.range_block(from, to, RangeStart::MergeBase),
                None => self.range_block(from, to, RangeStart::Named),
            },
            Some(_) | None => patch_file(what).map(|text| self.block(what, &text)),
        }
    }

    fn range_block(&self, from: &str, to: &str, start: RangeStart) -> Result<String, CliError> {
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
        let base = repository.base(&to, &|_| ()).map_err(CliError::failed)?;
        let tree: Arc<dyn Tree> = Arc::new(Overlay::new(base, WorkspaceEdits::new()));
        let changes = repository.changes_to(Some(&from), tree.as_ref());
        self.diff_block(&format!("{from}..{to}"), changes.map_err(CliError::failed)?)
    }

    fn diff_block(&self, source: &str, changes: Vec<FileChange>) -> Result<String, CliError> {
        if changes.is_empty() {
            return Err(CliError::usage(format!(
                "there is nothing to review: {source} has no changes; name a range such as main..HEAD, or a patch file"
            )));
        }
        let diff = tool::diff_for_model(changes, self.directory.as_ref(), &self.workspace.guard);
        Ok(self.block(source, &diff))
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
