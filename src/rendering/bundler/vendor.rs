//! The content of `vendor/`. It is read once, changed in memory, and finally compared with its first state.

use super::dependency::{Dependency, PackageSource};
use super::error::BundlerError;
use super::project::{Project, VENDOR, join, relative, under};
use super::resolution::Notice;
use super::snapshot::PackageSnapshot;
use super::sum;
use crate::base::model::{FileMode, FileVersion, RepoPath};
use crate::state::workspace::WorkspaceEdits;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum size of a `vendor/` directory in bytes.
const VENDOR_BYTES_MAX: u64 = 512 << 20;

/// The files of a `vendor/` directory by their paths inside it.
#[derive(Clone, Debug, Default)]
pub struct Vendor {
    before: BTreeMap<String, FileVersion>,
    now: BTreeMap<String, FileVersion>,
    // Links to directories in the repository.
    linked: BTreeSet<String>,
}

impl Vendor {
    /// Reads the `vendor/` directory of a project.
    pub fn read(project: Project<'_>) -> Result<Self, BundlerError> {
        let home = under(project.directory(), VENDOR);
        let mut vendor = Self::default();
        let mut bytes: u64 = 0;
        for path in project.tree().files_below(&home)? {
            let Some(file) = project.tree().read_stored(&path)? else {
                continue;
            };
            bytes = bytes.saturating_add(file.content.len() as u64);
            if bytes > VENDOR_BYTES_MAX {
                return Err(BundlerError::TooLarge(VENDOR_BYTES_MAX));
            }
            let inside = path.as_str().strip_prefix(&home).unwrap_or_default();
            let inside = inside.trim_start_matches('/').to_owned();
            if file.mode == FileMode::Symlink
                && !inside.contains('/')
                && let Ok(target) = std::str::from_utf8(&file.content)
                && let Some(target) = join(&home, target)
                && project.has_directory(&target)?
            {
                vendor.linked.insert(inside.clone());
            }
            vendor.before.insert(inside, file);
        }
        vendor.now.clone_from(&vendor.before);
        Ok(vendor)
    }

    /// Returns the checksum of an installed package, or `None` if it is missing.
    pub fn sum(&self, name: &str) -> Option<String> {
        let prefix = format!("{name}/");
        let files: BTreeMap<&str, &FileVersion> = self
            .now
            .range(prefix.clone()..)
            .take_while(|(path, _)| path.starts_with(&prefix))
            .filter_map(|(path, file)| Some((path.strip_prefix(&prefix)?, file)))
            .collect();
        (!files.is_empty()).then(|| sum::sum(&files))
    }

    /// True if a link with this name leads to a directory in the repository, or if such a directory is in its
    /// place.
    pub fn has_link_target(&self, name: &str) -> bool {
        self.linked.contains(name) || self.has_directory(name)
    }

    /// Returns the content of a file. Links are not followed.
    pub(super) fn file(&self, path: &str) -> Option<&Bytes> {
        let file = self.now.get(path)?;
        (file.mode != FileMode::Symlink).then_some(&file.content)
    }

    /// Installs a package and replaces the entry with its name.
    pub(super) fn insert(&mut self, name: &str, layer: &PackageSnapshot) {
        self.remove(name);
        for entry in layer.entries() {
            self.now
                .insert(format!("{name}/{}", entry.path), entry.file.clone());
        }
    }

    /// Creates a link to a directory in the repository and replaces the entry with its name.
    pub(super) fn link_directory(&mut self, project: Project<'_>, name: &str, directory: &str) {
        self.remove(name);
        let target = relative(&under(project.directory(), VENDOR), directory);
        self.now.insert(name.to_owned(), link(&target));
        self.linked.insert(name.to_owned());
    }

    /// Removes everything that no package needs: directories with unknown names, and all links except those to
    /// local directories.
    pub(super) fn remove_unused(&mut self, known: &[Dependency]) {
        let names: Vec<String> = known.iter().map(Dependency::name).collect();
        // The comparison is that of jsonnet-bundler: a name keeps each directory that is a prefix of the name, or
        // of which the name is a prefix.
        let is_known = |directory: &str| {
            let related = |name: &String| name.starts_with(directory) || directory.starts_with(name.as_str());
            names.iter().any(related)
        };
        let locals: BTreeSet<&str> = known
            .iter()
            .filter_map(|dependency| match &dependency.source {
                PackageSource::Local(local) => Some(local.name.as_str()),
                PackageSource::Git(_) => None,
            })
            .collect();
        self.now.retain(|path, file| {
            let mut directories = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
            let stays = file.mode != FileMode::Symlink || locals.contains(path.as_str());
            stays && directories.all(is_known)
        });
    }

    /// Creates links for the short names of packages. The first package with a name gets it.
    pub(super) fn link_legacy_names(&mut self, known: &[Dependency], notices: &mut Vec<Notice>) {
        for dependency in known {
            if matches!(dependency.source, PackageSource::Local(_)) {
                continue;
            }
            let (name, short) = (dependency.name(), dependency.legacy_name());
            let taken = match self.now.get(&short) {
                Some(file) if file.mode == FileMode::Symlink => {
                    Some(Some(String::from_utf8_lossy(&file.content).into_owned()))
                }
                Some(_) => Some(None),
                None => self.has_directory(&short).then_some(None),
            };
            match taken {
                None => drop(self.now.insert(short, link(&name))),
                Some(by) => notices.push(Notice::NameTaken {
                    package: name,
                    name: short,
                    by,
                }),
            }
        }
    }

    /// Returns the files to write and delete so that `vendor/` matches this state.
    pub(super) fn changes(&self, project: Project<'_>) -> Result<WorkspaceEdits, BundlerError> {
        for path in self.now.keys() {
            let mut directories = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
            if let Some(clash) = directories.find(|directory| self.now.contains_key(*directory)) {
                return Err(BundlerError::Clash(clash.to_owned()));
            }
        }
        let paths: BTreeSet<&String> = self.before.keys().chain(self.now.keys()).collect();
        let mut edits = WorkspaceEdits::new();
        for path in paths {
            let (before, now) = (self.before.get(path), self.now.get(path));
            if before != now {
                edits.insert(stored_at(project, path)?, now.cloned());
            }
        }
        Ok(edits)
    }

    /// True if there are files below a directory.
    pub(super) fn has_directory(&self, name: &str) -> bool {
        let prefix = format!("{name}/");
        let mut after = self.now.range(prefix.clone()..);
        after.next().is_some_and(|(path, _)| path.starts_with(&prefix))
    }

    fn remove(&mut self, name: &str) {
        let prefix = format!("{name}/");
        self.now
            .retain(|path, _| path != name && !path.starts_with(&prefix));
        self.linked.remove(name);
    }
}

fn stored_at(project: Project<'_>, inside: &str) -> Result<RepoPath, BundlerError> {
    project.path(&format!("{VENDOR}/{inside}"))
}

fn link(target: &str) -> FileVersion {
    FileVersion {
        content: Bytes::copy_from_slice(target.as_bytes()),
        mode: FileMode::Symlink,
    }
}
