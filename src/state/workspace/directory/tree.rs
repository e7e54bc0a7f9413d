//! The operations of a tree on the files of a work tree.

use super::handle::DiskEntry;
use super::{COMPARED_BYTES_MAX, Directory, behind_symlink, failed, io};
use crate::base::model::{FileChange, FileMode, FileVersion, RepoPath};
use crate::state::workspace::lines::{self, MatchWindow};
use crate::state::workspace::overlay::{check_read, check_written};
use crate::state::workspace::{Match, Tree, TreeEntry, TreeError, links, spelling};
use bytes::Bytes;
use std::path::Path;
use std::sync::{Arc, PoisonError};

impl Tree for Directory {
    fn real_path(&self, path: &RepoPath) -> Result<RepoPath, TreeError> {
        let target = |path: &RepoPath| match self.disk_entry(path)? {
            Some(DiskEntry::Symlink) => self
                .handle
                .target(path.as_str())
                .map(Some)
                .map_err(|err| failed(path, err)),
            Some(DiskEntry::File { .. } | DiskEntry::Directory | DiskEntry::Other) | None => Ok(None),
        };
        links::follow(path, &target)
    }

    fn read(&self, path: &RepoPath) -> Result<FileVersion, TreeError> {
        let real = self.real_path(path)?;
        if let Some(DiskEntry::File { bytes, .. }) = self.disk_entry(&real)? {
            check_read(path, bytes, self.file_bytes_max)?;
        }
        let version = self.version(&real, self.file_bytes_max)?;
        // A symlink has replaced the file just now.
        match version {
            Some(version) if version.mode == FileMode::Symlink => Err(behind_symlink(path)),
            Some(version) => Ok(version),
            None => Err(self.not_found(path)),
        }
    }

    fn entry(&self, path: &RepoPath) -> Result<Option<TreeEntry>, TreeError> {
        Ok(match self.disk_entry(path)? {
            None => None,
            Some(DiskEntry::File { .. }) => Some(TreeEntry::File),
            Some(DiskEntry::Directory) => Some(TreeEntry::Directory),
            Some(DiskEntry::Other) => Some(TreeEntry::Other),
            Some(DiskEntry::Symlink) => {
                let target = self.handle.target(path.as_str());
                Some(TreeEntry::Symlink(
                    target.map_err(|err| failed(path, err))?.into(),
                ))
            }
        })
    }

    fn files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        if !has_plain_ignore_file(&self.root) {
            return Err(TreeError::Io {
                path: ".gitignore".to_owned(),
                why: "not a regular file".to_owned(),
            });
        }
        let walk = ignore::WalkBuilder::new(&self.root)
            .hidden(false)
            .ignore(false)
            .parents(false)
            .git_global(false)
            .git_exclude(true)
            .git_ignore(true)
            .require_git(false)
            .follow_links(false)
            .filter_entry(|entry| {
                let directory = entry.file_type().is_some_and(|kind| kind.is_dir());
                entry.file_name() != ".git" && (!directory || has_plain_ignore_file(entry.path()))
            })
            .build();
        let mut files = self.listed(walk)?;
        files.sort();
        Ok(Arc::new(files))
    }

    fn all_files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        self.files_below("").map(Arc::new)
    }

    fn write(&self, path: &RepoPath, content: Bytes) -> Result<(), TreeError> {
        let mut before = self.begin_change();
        self.check_change(path)?;
        check_written(path, content.len() as u64)?;
        links::check_git_directory(path, &self.handle)?;
        let permissions = match self.disk_entry(path)? {
            Some(DiskEntry::File { permissions, .. }) => Some(permissions),
            Some(DiskEntry::Symlink) => {
                return Err(TreeError::Refused {
                    path: path.clone(),
                    why: "it is a symlink; write to the file it points to",
                });
            }
            Some(DiskEntry::Directory | DiskEntry::Other) => None,
            None => {
                spelling::check_new(path, &self.handle)?;
                None
            }
        };
        let was = self.version(path, self.kept_bytes_max())?;
        self.handle
            .write(path.as_str(), &content, permissions)
            .map_err(|err| io(path, &err))?;
        before.entry(path.clone()).or_insert(was);
        Ok(())
    }

    fn delete(&self, path: &RepoPath) -> Result<(), TreeError> {
        let mut before = self.begin_change();
        self.check_change(path)?;
        let was = self
            .version(path, self.kept_bytes_max())?
            .ok_or_else(|| self.not_found(path))?;
        if let Some(DiskEntry::File { permissions, .. }) = self.disk_entry(path)? {
            let mut deleted = self.deleted.lock().unwrap_or_else(PoisonError::into_inner);
            deleted.entry(path.clone()).or_insert(permissions);
        }
        self.handle
            .delete(path.as_str())
            .map_err(|err| failed(path, err))?;
        before.entry(path.clone()).or_insert(Some(was));
        Ok(())
    }

    fn files_below(&self, directory: &str) -> Result<Vec<RepoPath>, TreeError> {
        let at = |err| TreeError::Io {
            path: directory.to_owned(),
            why: format!("{err}"),
        };
        let named = RepoPath::parse(directory).ok().filter(|_| !directory.is_empty());
        let node = match (&named, directory) {
            (Some(named), _) => self.disk_entry(named)?,
            (None, "") => self.handle.entry(".").map_err(at)?,
            (None, _) => None,
        };
        // A symlink is excluded, because the walk would follow it.
        match node {
            Some(DiskEntry::Directory) => {}
            Some(DiskEntry::File { .. } | DiskEntry::Symlink | DiskEntry::Other) | None => {
                return Ok(Vec::new());
            }
        }
        let walk = ignore::WalkBuilder::new(self.root.join(directory))
            .standard_filters(false)
            .follow_links(false)
            .filter_entry(|entry| entry.file_name() != ".git")
            .build();
        let mut files = self.listed(walk)?;
        files.sort();
        Ok(files)
    }

    fn list_directory(&self, directory: &str) -> Result<Vec<(String, bool)>, TreeError> {
        let is_directory = match RepoPath::parse(directory) {
            _ if directory.is_empty() => true,
            Ok(named) => self.disk_entry(&named)? == Some(DiskEntry::Directory),
            Err(_) => false,
        };
        if !is_directory {
            return Ok(Vec::new());
        }
        let entries = self.handle.entries(directory);
        let mut entries = entries.map_err(|err| TreeError::Io {
            path: directory.to_owned(),
            why: err.to_string(),
        })?;
        entries.retain(|(name, _)| name != ".git");
        entries.sort_unstable();
        Ok(entries)
    }

    fn read_stored(&self, path: &RepoPath) -> Result<Option<FileVersion>, TreeError> {
        match self.version(path, COMPARED_BYTES_MAX) {
            // A directory or another entry, or another spelling of the name, is there. The file itself is gone.
            Err(TreeError::WrongKind { .. } | TreeError::OtherSpelling { .. }) => Ok(None),
            other => other,
        }
    }

    fn put(&self, path: &RepoPath, after: Option<FileVersion>) -> Result<(), TreeError> {
        let mut before = self.begin_change();
        let was = self.check_put(path, after.as_ref())?;
        if was.is_none() && after.is_none() {
            return Ok(());
        }
        self.replace(path, was.as_ref(), after.as_ref())?;
        before.entry(path.clone()).or_insert(was);
        Ok(())
    }

    fn search(
        &self,
        accepts: &dyn Fn(&str) -> bool,
        needle: &str,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<Match>, usize), TreeError> {
        let mut found = MatchWindow::new(offset, limit);
        if !lines::fits_a_line(needle) {
            return Ok(found.finish());
        }
        let finder = memchr::memmem::Finder::new(needle.as_bytes());
        for path in self.files()?.iter().filter(|path| accepts(path.as_str())) {
            // Links and unreadable files have no lines, so a search skips them. The names from the walk are spelled
            // as on disk.
            let file = matches!(self.handle.entry(path.as_str()), Ok(Some(DiskEntry::File { .. })));
            if file && let Ok(Some(content)) = self.handle.read(path.as_str(), self.kept_bytes_max()) {
                lines::search_text(&content, &finder, path.as_str(), &mut found);
            }
        }
        Ok(found.finish())
    }

    fn changes(&self) -> Result<Vec<FileChange>, TreeError> {
        let before = self.before().clone();
        let mut changes = Vec::new();
        for (path, before) in before {
            let after = match self.version(&path, self.kept_bytes_max()) {
                // Another process replaced the file by another kind of entry or renamed it. The file itself is
                // gone.
                Err(TreeError::WrongKind { .. } | TreeError::OtherSpelling { .. }) => None,
                other => other?,
            };
            if before != after {
                changes.push(FileChange { path, before, after });
            }
        }
        Ok(changes)
    }
}

/// True if the `.gitignore` of the directory is a regular file or absent. Reading a pipe in its place would block.
fn has_plain_ignore_file(directory: &Path) -> bool {
    match directory.join(".gitignore").metadata() {
        Ok(metadata) => metadata.is_file() || metadata.is_dir(),
        Err(_) => true,
    }
}
