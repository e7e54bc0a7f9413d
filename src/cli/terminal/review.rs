//! The change that a review is about: what is not committed, a range of commits, or a patch file.

use super::Terminal;
use super::checking::CheckedChange;
use crate::cli::CliError;
use crate::engine::agent::prompt;
use crate::interfaces::tool;
use crate::rendering::compare::Sides;
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
    /// Makes a change the subject of the checks and of the tools, and returns the block of data with it. `what` is a range
    /// such as `main..HEAD`, or `main...HEAD` for the changes since the two parted, the path of a patch file, or empty for
    /// what is not committed.
    pub(in crate::cli) fn begin_review(&mut self, what: &str) -> Result<String, CliError> {
        if what.is_empty() {
            let source = "the working directory against its commit";
            let base = self.workspace.base.clone();
            return self.diff_block(source, source, base.as_deref());
        }
        match what.split_once("..") {
            // A path such as `../change.patch` is no range.
            Some((from, to)) if !is_file(what) => match to.strip_prefix('.') {
                Some(to) => self.range_block(from, to, RangeStart::MergeBase),
                None => self.range_block(from, to, RangeStart::Named),
            },
            Some(_) | None => {
                let text = patch_file(what)?;
                self.checking.subject = CheckedChange::PatchFile;
                Ok(self.block(what, &text))
            }
        }
    }

    fn range_block(&mut self, from: &str, to: &str, start: RangeStart) -> Result<String, CliError> {
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
        let range = format!("{from}..{to}");
        // The tools read the files as they are after the change, whatever is checked out.
        let source = format!(
            "{range}; the tools read the files of {to}, and those that compare show nothing of this change"
        );
        (self.workspace.tree, self.workspace.base) = (tree, Some(to));
        self.diff_block(&range, &source, Some(&from))
    }

    /// Returns the block with the differences between a commit and the tree that the tools read.
    fn diff_block(&mut self, what: &str, source: &str, from: Option<&str>) -> Result<String, CliError> {
        let tree = Arc::clone(&self.workspace.tree);
        let changes = self.workspace.repository.changes_to(from, tree.as_ref());
        let changes = changes.map_err(CliError::failed)?;
        if changes.is_empty() {
            return Err(CliError::usage(format!(
                "there is nothing to review: {what} has no changes; name a range such as main..HEAD, or a patch file"
            )));
        }
        let sides = Sides {
            guard: Some(self.workspace.guard.clone()),
            ..Sides::from_changes(Arc::clone(&tree), changes.clone()).map_err(CliError::failed)?
        };
        self.checking.subject = CheckedChange::Reviewed(Box::new(sides));
        let diff = tool::diff_for_model(changes, tree.as_ref(), &self.workspace.guard);
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
