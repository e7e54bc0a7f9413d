//! The operations of a tree on the files of a workspace.

use super::{Overlay, check_stored, check_written};
use crate::base::model::{FileChange, FileMode, FileVersion, RepoPath};
use crate::state::workspace::base::Base;
use crate::state::workspace::lines::{self, MatchWindow};
use crate::state::workspace::spelling;
use crate::state::workspace::{Match, Tree, TreeEntry, TreeError, links, names_of, with_blob};
use bytes::Bytes;
use std::sync::Arc;

impl Tree for Overlay {
    fn read(&self, path: &RepoPath) -> Result<FileVersion, TreeError> {
        let (_, version) = self.file(&self.state().edits, path)?;
        Ok(version)
    }

    fn read_with_blob(&self, path: &RepoPath) -> Result<(FileVersion, String), TreeError> {
        let (known, version) = {
            let state = self.state();
            let (real, version) = self.file(&state.edits, path)?;
            // An unedited file has the hash from its commit.
            let is_edited = state.edits.contains_key(&real);
            let known = (!is_edited).then(|| self.base.blob(&real));
            (known.flatten(), version)
        };
        match known {
            Some(blob) => Ok((version, blob)),
            None => with_blob(path, version),
        }
    }

    fn real_path(&self, path: &RepoPath) -> Result<RepoPath, TreeError> {
        Overlay::real(self, &self.state().edits, path)
    }

    fn entry(&self, path: &RepoPath) -> Result<Option<TreeEntry>, TreeError> {
        let state = self.state();
        let edits = &state.edits;
        Ok(match self.mode(edits, path) {
            Some(FileMode::Regular | FileMode::Executable) => Some(TreeEntry::File),
            Some(FileMode::Symlink) => {
                let version = self.version(edits, path)?;
                version.map(|version| TreeEntry::Symlink(version.content))
            }
            None => self
                .is_directory(edits, path.as_str())
                .then_some(TreeEntry::Directory),
        })
    }

    fn files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        let mut state = self.state();
        if let Some(files) = &state.files {
            return Ok(files.clone());
        }
        let files = self.merged(&state.edits);
        state.files = Some(files.clone());
        Ok(files)
    }

    fn write(&self, path: &RepoPath, content: Bytes) -> Result<(), TreeError> {
        let mut state = self.state();
        self.check_change(&state.edits, path)?;
        check_written(path, content.len() as u64)?;
        links::check_git_directory(path, &self.names(&state.edits))?;
        let kept = self.mode(&state.edits, path);
        if kept == Some(FileMode::Symlink) {
            return Err(TreeError::Refused {
                path: path.clone(),
                why: "it is a symlink; write to the file it points to",
            });
        }
        if kept.is_none() && self.is_directory(&state.edits, path.as_str()) {
            return Err(TreeError::WrongKind {
                path: path.clone(),
                what: "directory",
            });
        }
        if kept.is_none() {
            spelling::check_new(path, &self.names(&state.edits))?;
        }
        // For git, a file that was deleted and written again is the same file.
        let before = self
            .base
            .stat(path)
            .map(|(mode, _)| mode)
            .filter(|mode| *mode != FileMode::Symlink);
        let mode = kept.or(before).unwrap_or(FileMode::Regular);
        self.edit(&mut state, path, Some(FileVersion { content, mode }))
    }

    fn delete(&self, path: &RepoPath) -> Result<(), TreeError> {
        let mut state = self.state();
        self.check_change(&state.edits, path)?;
        if self.mode(&state.edits, path).is_none() {
            return Err(match self.is_directory(&state.edits, path.as_str()) {
                true => TreeError::WrongKind {
                    path: path.clone(),
                    what: "directory",
                },
                false => self.not_found(&state.edits, path),
            });
        }
        self.edit(&mut state, path, None)
    }

    fn files_below(&self, directory: &str) -> Result<Vec<RepoPath>, TreeError> {
        let files = self.files()?;
        if directory.is_empty() {
            return Ok(files.to_vec());
        }
        let prefix = format!("{directory}/");
        let first = files.partition_point(|path| path.as_str() < prefix.as_str());
        let below = files.iter().skip(first);
        Ok(below
            .take_while(|path| path.as_str().starts_with(&prefix))
            .cloned()
            .collect())
    }

    fn list_directory(&self, directory: &str) -> Result<Vec<(String, bool)>, TreeError> {
        Ok(names_of(&self.files()?, directory))
    }

    fn read_stored(&self, path: &RepoPath) -> Result<Option<FileVersion>, TreeError> {
        let state = self.state();
        let bytes = match state.edits.get(path) {
            Some(edit) => edit.as_ref().map(|version| version.content.len() as u64),
            None => self.base.stat(path).map(|(_, bytes)| bytes),
        };
        check_stored(path, bytes.unwrap_or(0))?;
        self.version(&state.edits, path)
    }

    fn put(&self, path: &RepoPath, after: Option<FileVersion>) -> Result<(), TreeError> {
        let mut state = self.state();
        links::check_put(path, after.as_ref().map(|after| after.mode))?;
        self.check_place(&state.edits, path)?;
        if let Some(after) = &after {
            check_stored(path, after.content.len() as u64)?;
            links::check_git_directory(path, &self.names(&state.edits))?;
            if self.mode(&state.edits, path).is_none() {
                if self.is_directory(&state.edits, path.as_str()) {
                    return Err(TreeError::WrongKind {
                        path: path.clone(),
                        what: "directory",
                    });
                }
                spelling::check_put(path, &self.names(&state.edits))?;
            }
        }
        self.edit(&mut state, path, after)
    }

    fn search(
        &self,
        accepts: &dyn Fn(&str) -> bool,
        needle: &str,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<Match>, usize), TreeError> {
        if !lines::fits_a_line(needle) {
            return Ok((Vec::new(), 0));
        }
        // Copying the edits copies only a few references. The search itself holds no lock.
        let edits = self.edits();
        let finder = memchr::memmem::Finder::new(needle.as_bytes());
        let mut found = MatchWindow::new(offset, limit);
        let mut edited = edits.iter().peekable();
        let visit_edit = |(path, edit): (&RepoPath, &Option<FileVersion>), found: &mut MatchWindow| {
            if let Some(version) = edit
                && version.mode != FileMode::Symlink
                && accepts(path.as_str())
            {
                lines::search_text(&version.content, &finder, path.as_str(), found);
            }
        };
        self.base.each_file_with(&finder, &mut |name, content| {
            while let Some(next) = edited.next_if(|(path, _)| path.as_str() < name) {
                visit_edit(next, &mut found);
            }
            let is_edited = edited.peek().is_some_and(|(path, _)| path.as_str() == name);
            if !is_edited && accepts(name) {
                lines::search(content, &finder, name, &mut found);
            }
        });
        for next in edited {
            visit_edit(next, &mut found);
        }
        Ok(found.finish())
    }

    fn overlay_base(&self) -> Option<Arc<Base>> {
        Some(Arc::clone(&self.base))
    }

    fn changes(&self) -> Result<Vec<FileChange>, TreeError> {
        let edits = self.edits();
        let mut changes = Vec::with_capacity(edits.len());
        for (path, after) in edits {
            let before = self.base.read(&path)?;
            if before != after {
                changes.push(FileChange { path, before, after });
            }
        }
        Ok(changes)
    }
}
