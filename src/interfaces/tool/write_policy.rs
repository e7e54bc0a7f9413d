//! The write policy of the tools: one tree, one identity, one budget. All writes go through it, so each of them is
//! checked against the grant, the budget and the redaction.

use super::adapter::stopped;
use super::text::text_of;
use super::{Context, ToolError};
use crate::base::model::{FileChange, FileMode, FileVersion, RepoPath, RequiredGrant};
use crate::rendering::bundler::{self, PreparedOperation};
use crate::rendering::tanka::{
    Destination, DestinationIndex, ExistingEnvironment, ReachedOwners, environment_of, settings,
};
use crate::state::access::Identity;
use crate::state::download::DownloadObserver;
use crate::state::workspace::{SecretGuard, Tree, TreeError, patch};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The beginning of a redacted secret in the model's texts.
const SECRET_PLACEHOLDER: &str = "⟦secret:";

/// A tree and the rules for its changes.
#[derive(Debug)]
pub(super) struct WritePolicy {
    /// The files.
    pub(super) tree: Arc<dyn Tree>,
    /// The guard that keeps secrets out of answers.
    pub(super) guard: SecretGuard,
    /// The repository's configured name, which grants are checked against.
    pub(super) repository: String,
    /// The identity on whose behalf files are read and written.
    pub(super) identity: Identity,
    /// The total number of files that the turn may write or delete.
    pub(super) files_changed_max: usize,
    /// The number of lines that the turn may add and remove.
    pub(super) lines_changed_max: u64,
    /// The number of environments whose own files may differ from the base; 0 means no limit.
    pub(super) environments_changed_max: usize,
    /// Fires when the turn is stopped, and when it runs out of time.
    pub(super) cancel: CancellationToken,
    /// Counts the active writes; the end of a step waits for them.
    pub(super) writers: TaskTracker,
    /// The observer of downloads.
    pub(super) watch: DownloadObserver,
}

impl From<Context<'_>> for WritePolicy {
    fn from(cx: Context<'_>) -> Self {
        Self {
            tree: cx.workspace.guarded_tree(),
            guard: cx.workspace.guard.clone(),
            repository: cx.workspace.repository.name().to_owned(),
            identity: cx.identity.clone(),
            files_changed_max: cx.files_changed_max,
            lines_changed_max: cx.lines_changed_max,
            environments_changed_max: cx.environments_changed_max,
            cancel: cx.cancel.clone(),
            writers: cx.writers.clone(),
            watch: cx.watch.clone(),
        }
    }
}

/// Changes whose secrets are known to the redactor.
#[derive(Debug, Default)]
pub(super) struct LearntChanges {
    /// The changes.
    pub(super) changes: Vec<FileChange>,
    /// The files whose text is not shown, because it is not known whether they are secret as a whole.
    pub(super) unknown: BTreeSet<RepoPath>,
}

/// The permit of an admitted write. Its step does not end while this exists.
#[derive(Debug)]
#[must_use = "a write is waited for only while this is held"]
pub(super) struct WritePermit {
    _under_way: TaskTrackerToken,
}

impl From<TreeError> for ToolError {
    fn from(err: TreeError) -> Self {
        match &err {
            TreeError::Refused { .. } | TreeError::OtherSpelling { .. } | TreeError::Denied { .. } => {
                Self::refused(err.to_string())
            }
            TreeError::NotFound { .. }
            | TreeError::WrongKind { .. }
            | TreeError::TooLarge { .. }
            | TreeError::Io { .. } => Self::Failed(err.to_string()),
        }
    }
}

impl WritePolicy {
    /// Returns the text of a file.
    pub(super) fn text(&self, path: &RepoPath) -> Result<String, ToolError> {
        let file = self.tree.read(path)?;
        Ok(text_of(path, &file)?.to_owned())
    }

    /// Writes a file. `written` is the part of the content that the model wrote.
    pub(super) fn write(&self, path: &RepoPath, content: String, written: &str) -> Result<(), ToolError> {
        refuse_hidden_secrets(written)?;
        let _admitted = self.admit_write(path)?;
        self.admit_settings(path, content.as_bytes())?;
        let content = Bytes::from(content);
        self.admit_lines(&[(path.clone(), Some(content.clone()))].into())?;
        Ok(self.tree.write(path, content)?)
    }

    /// Deletes a file.
    pub(super) fn delete(&self, path: &RepoPath) -> Result<(), ToolError> {
        let _admitted = self.admit_write(path)?;
        self.admit_lines(&[(path.clone(), None)].into())?;
        Ok(self.tree.delete(path)?)
    }

    /// Applies the prepared changes of a package operation. They are all in its project's directory, so the grant for
    /// its `file` covers all of them.
    pub(super) fn apply_packages(
        &self,
        file: &RepoPath,
        prepared: &PreparedOperation,
    ) -> Result<(), ToolError> {
        if prepared.changes.is_empty() {
            return Ok(());
        }
        let _admitted = self.admit_write(file)?;
        Ok(prepared.apply(self.tree.as_ref())?)
    }

    /// Writes or deletes the files that an external program produced. All of them are admitted before the first one
    /// is written.
    pub(super) fn apply_files(&self, changes: &BTreeMap<RepoPath, Option<Bytes>>) -> Result<(), ToolError> {
        let admitted = changes.keys().map(|path| self.admit_write(path));
        let _admitted = admitted.collect::<Result<Vec<WritePermit>, _>>()?;
        let before = self.tree.changes()?;
        let is_new = |path: &&RepoPath| before.iter().all(|change| change.path != **path);
        let counted = before.len() + changes.keys().filter(is_new).count();
        if counted > self.files_changed_max {
            return Err(ToolError::refused(format!(
                "this would change {counted} files, and the change budget is {}: nothing was written",
                self.files_changed_max
            )));
        }
        self.admit_lines(changes)?;
        for (path, content) in changes {
            let after = content.clone().map(|content| FileVersion {
                content,
                mode: FileMode::Regular,
            });
            self.tree.put(path, after)?;
        }
        Ok(())
    }

    /// Returns the number of lines that a file adds to the base and removes from it: `+3 −1 against the base`.
    pub(super) fn delta(&self, path: &RepoPath) -> Result<String, ToolError> {
        let changes = self.tree.changes()?;
        let Some(change) = changes.into_iter().find(|change| change.path == *path) else {
            return Ok("same as the base".to_owned());
        };
        let stats = patch::write(std::slice::from_ref(&change)).stats;
        Ok(match stats.first() {
            Some(stats) if !stats.binary => format!("+{} −{} against the base", stats.added, stats.removed),
            Some(_) | None => "differs from the base".to_owned(),
        })
    }

    /// Returns the changes against the base, at `path` or below it. They may be shown, because the redactor knows
    /// their secrets.
    pub(super) fn changes(&self, path: Option<&RepoPath>) -> Result<LearntChanges, ToolError> {
        let mut changes = self.tree.changes()?;
        if let Some(path) = path {
            changes.retain(|change| is_at_or_below(&change.path, path));
        }
        let is_stopped = || self.cancel.is_cancelled();
        let unknown = self.guard.learn(&changes, self.tree.as_ref(), &is_stopped);
        let unknown = unknown.ok_or_else(stopped)?;
        Ok(LearntChanges { changes, unknown })
    }

    /// Refuses a write that the grant or the budget does not allow, or that comes after the end of the turn.
    pub(super) fn admit_write(&self, path: &RepoPath) -> Result<WritePermit, ToolError> {
        let files = self.tree.files()?;
        self.identity
            .may_write(&self.repository, path, environment_of(path, &files))
            .map_err(ToolError::refused)?;
        let changes = self.tree.changes()?;
        let is_new = changes.iter().all(|change| change.path != *path);
        // Files of packages do not count against the budget. If a file in `vendor/` is written directly, they all
        // count.
        let packaged = |path: &RepoPath| is_packaged(path, &files);
        let counted = match packaged(path) {
            true => changes.len(),
            false => changes.iter().filter(|change| !packaged(&change.path)).count(),
        };
        if is_new && counted >= self.files_changed_max {
            let why = format!(
                "the change budget of {} files is used up: `{path}` was not changed",
                self.files_changed_max
            );
            let instead = "; finish with the files changed so far or ask the person to split the request";
            return Err(ToolError::refused_with_advice(why, instead));
        }
        self.admit_environment(path, &changes, &files)?;
        // The write is counted before the check of the token, so a caller that cancels and then waits for the writers
        // misses no write.
        let admitted = WritePermit {
            _under_way: self.writers.token(),
        };
        if self.cancel.is_cancelled() {
            return Err(stopped());
        }
        Ok(admitted)
    }

    /// Refuses settings that move an environment to a destination of other environments, unless the grant covers
    /// them. Settings inside programs are checked when the change is prepared.
    fn admit_settings(&self, path: &RepoPath, content: &[u8]) -> Result<(), ToolError> {
        let Some(directory) = settings::spec_directory(path) else {
            return Ok(());
        };
        let Ok(after) = settings::parse_spec_file(content, path.as_str()) else {
            // Invalid settings cannot be applied, and no change is prepared with them.
            return Ok(());
        };
        let before = self.tree.read_stored(path)?;
        let before = before.and_then(|file| settings::parse_spec_file(&file.content, path.as_str()).ok());
        let (from, to) = (
            before.as_ref().map(Destination::from_settings),
            Destination::from_settings(&after),
        );
        if from.as_ref() == Some(&to) {
            return Ok(());
        }
        let owner = Some(directory.to_owned()).filter(|directory| !directory.is_empty());
        let mut residents = settings::existing_environments(self.tree.as_ref(), Some(directory))?;
        residents.extend(from.map(|from| ExistingEnvironment {
            owner: owner.clone(),
            destination: Some(from),
        }));
        let stopped_now = || self.cancel.is_cancelled();
        let neighbourhood = DestinationIndex::new(&residents, [&to], &stopped_now).ok_or_else(stopped)?;
        let need = |environment: &Option<String>, there: &str| RequiredGrant {
            environment: environment.clone(),
            because: format!(
                "`{path}` was not changed: `{directory}` would move to the destination of {there}"
            ),
        };
        let needs: Vec<RequiredGrant> = match neighbourhood.owners_reached(&owner, &to) {
            ReachedOwners::Owners(owners) => owners
                .into_iter()
                .map(|owner| need(owner, &format!("`{}`", owner.as_deref().unwrap_or("."))))
                .collect(),
            ReachedOwners::All => vec![need(&None, "any environment")],
        };
        self.identity
            .may_prepare(&self.repository, &needs)
            .map_err(ToolError::refused)
    }

    /// Refuses a write that exceeds the limit of changed environments.
    fn admit_environment(
        &self,
        path: &RepoPath,
        changes: &[FileChange],
        files: &[RepoPath],
    ) -> Result<(), ToolError> {
        let Some(environment) = environment_of(path, files) else {
            return Ok(());
        };
        let max = self.environments_changed_max;
        let changed = changes
            .iter()
            .filter_map(|change| environment_of(&change.path, files));
        let changed: BTreeSet<&str> = changed.collect();
        if max == 0 || changed.contains(environment) || changed.len() < max {
            return Ok(());
        }
        let changed: Vec<&str> = changed.into_iter().collect();
        let why = format!(
            "this change is limited to {max} of the environments and edits {} already: `{path}` was not changed",
            changed.join(", ")
        );
        let instead = "; finish with that, or ask the person to split the request";
        Err(ToolError::refused_with_advice(why, instead))
    }
}

/// Returns true if a path is in the `vendor/` directory of a project with a lock file.
pub(super) fn is_packaged(path: &RepoPath, files: &[RepoPath]) -> bool {
    let parts: Vec<&str> = path.as_str().split('/').collect();
    let holds_lock = |depth: usize| {
        let directory = parts.get(..depth).unwrap_or_default();
        let lock = [directory, &[bundler::LOCK_FILE]].concat().join("/");
        files.binary_search_by(|file| file.as_str().cmp(&lock)).is_ok()
    };
    let mut vendors = parts
        .iter()
        .enumerate()
        .filter(|(_, part)| **part == bundler::VENDOR);
    vendors.any(|(depth, _)| holds_lock(depth))
}

fn is_at_or_below(path: &RepoPath, directory: &RepoPath) -> bool {
    path.as_str()
        .strip_prefix(directory.as_str())
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn refuse_hidden_secrets(written: &str) -> Result<(), ToolError> {
    if !written.contains(SECRET_PLACEHOLDER) {
        return Ok(());
    }
    Err(ToolError::Refused {
        answer: format!(
            "the text contains `{SECRET_PLACEHOLDER}…⟧`, which stands for a value that was hidden from you; writing \
             it would destroy the value. Use `file_edit` on the lines around it and leave it out of `old` and `new`"
        ),
        why: "the text would have put a placeholder where a secret is".to_owned(),
    })
}

#[cfg(test)]
mod tests;
