//! Writes of whole versions of files, each checked against the rules of the work tree first.

use super::{Directory, failed, io};
use crate::base::model::{FileMode, FileVersion, RepoPath};
use crate::state::workspace::{TreeError, links, spelling};
use jiff::Timestamp;
use std::collections::BTreeSet;

impl Directory {
    /// Checks whether a file may become `after`, and changes nothing. Returns the file as it is now, or `None` if there is
    /// nothing.
    pub fn check_put(
        &self,
        path: &RepoPath,
        after: Option<&FileVersion>,
    ) -> Result<Option<FileVersion>, TreeError> {
        links::check_put(path, after.map(|after| after.mode))?;
        self.check_place(path)?;
        let was = self.version(path, self.kept_bytes_max())?;
        if let Some(version) = after {
            self.check_kept(path, version.content.len() as u64)?;
            links::check_git_directory(path, &self.handle)?;
            if was.is_none() {
                spelling::check_put(path, &self.handle)?;
            }
        }
        Ok(was)
    }

    /// Makes a file `after` if it still is as `expected`: bytes, mode and existence. Returns false and changes nothing if
    /// the file was changed in the meantime.
    pub fn put_expected(
        &self,
        path: &RepoPath,
        expected: Option<&FileVersion>,
        after: Option<FileVersion>,
    ) -> Result<bool, TreeError> {
        let mut before = self.begin_change();
        let was = self.check_put(path, after.as_ref())?;
        if was.as_ref() != expected {
            return Ok(false);
        }
        self.replace(path, was.as_ref(), after.as_ref())?;
        before.entry(path.clone()).or_insert(was);
        Ok(true)
    }

    /// Removes temporary files in the directories of these files that runs of this program left, because they were killed
    /// while they wrote, unless they were changed shortly before `now`.
    pub fn remove_leftovers<'a>(&self, files: impl Iterator<Item = &'a RepoPath>, now: Timestamp) {
        let files: BTreeSet<&str> = files.map(RepoPath::as_str).collect();
        let directories = files.iter().copied();
        let directories: BTreeSet<&str> = directories
            .map(|path| path.rsplit_once('/').map_or("", |(directory, _)| directory))
            .collect();
        for directory in directories {
            self.handle
                .remove_leftovers(directory, |path| files.contains(path), now);
        }
    }

    /// Writes or removes a file that was checked.
    pub(super) fn replace(
        &self,
        path: &RepoPath,
        was: Option<&FileVersion>,
        after: Option<&FileVersion>,
    ) -> Result<(), TreeError> {
        let delete = || self.handle.delete(path.as_str()).map_err(|err| failed(path, err));
        let Some(version) = after else {
            if was.is_some() {
                delete()?;
                self.handle.prune(path.as_str());
            }
            return Ok(());
        };
        if version.mode == FileMode::Symlink {
            if was.is_some() {
                delete()?;
            }
            let linked = self.handle.link(path.as_str(), &version.content);
            return linked.map_err(|err| failed(path, err));
        }
        let permissions = self.permissions(path, version.mode)?;
        let written = self.handle.write(path.as_str(), &version.content, permissions);
        written.map_err(|err| io(path, &err))
    }
}
