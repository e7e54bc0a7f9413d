//! Shared test support: a project on disk, packages in memory, and malicious archives.

mod archives;
mod files;
mod hostile;
mod operations;
mod package_cache;
mod sums;
mod uris;

use super::snapshot::{BYTES_MAX, EntryContent, FILES_MAX, SnapshotBuilder};
use super::{Fetch, FetchError, FetchMethod, Git, PackageId, PackageSnapshot};
use crate::base::model::{FileMode, RepoPath};
use crate::state::download::DownloadObserver;
use crate::state::workspace::{Directory, Tree};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex};
use tar::EntryType;

/// A commit of the fixture.
pub(super) const COMMIT: &str = "788c0b7678709166b21237de039dcfdef7ead946";
/// A newer commit of the fixture.
pub(super) const NEWER: &str = "4a851ca8e198920212fe2ae4230a87394f79c363";

pub(super) fn path(text: &str) -> RepoPath {
    RepoPath::parse(text).unwrap()
}

/// Creates a work tree with these files.
pub(super) fn work_tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Directory) {
    let room = tempfile::tempdir().unwrap();
    std::fs::create_dir(room.path().join(".git")).unwrap();
    let directory = Directory::open(room.path()).unwrap();
    for (name, content) in files {
        directory.write(&path(name), content.to_string().into()).unwrap();
    }
    (room, directory)
}

/// Packages in memory: versions by `name@version`, files by `name@commit`.
#[derive(Default)]
pub(super) struct PackageFixture {
    pub(super) versions: BTreeMap<String, String>,
    pub(super) snapshots: BTreeMap<(String, FetchMethod), Arc<PackageSnapshot>>,
    /// The requests so far.
    pub(super) requests: Mutex<Vec<String>>,
}

impl PackageFixture {
    pub(super) fn with(mut self, name: &str, version: &str, commit: &str, files: &[(&str, &str)]) -> Self {
        self.versions
            .insert(format!("{name}@{version}"), commit.to_owned());
        self.snapshots.insert(
            (format!("{name}@{commit}"), FetchMethod::Preferred),
            snapshot(commit, files),
        );
        self
    }
}

impl Fetch for PackageFixture {
    fn resolve(&self, git: &Git, version: &str, _watch: &DownloadObserver) -> Result<String, FetchError> {
        if version.len() == 40 {
            return Ok(version.to_owned());
        }
        let name = format!("{}@{version}", git.name());
        let found = self.versions.get(&name).cloned();
        found.ok_or(FetchError::NoVersion(name))
    }

    fn fetch(
        &self,
        git: &Git,
        commit: &str,
        form: FetchMethod,
        _watch: &DownloadObserver,
    ) -> Result<Arc<PackageSnapshot>, FetchError> {
        let name = format!("{}@{commit}", git.name());
        self.requests.lock().unwrap().push(name.clone());
        let found = self.snapshots.get(&(name.clone(), form)).cloned();
        found.ok_or(FetchError::NoAlternative)
    }
}

/// Builds a package from these files. The content `->target` is a link.
pub(super) fn snapshot(commit: &str, files: &[(&str, &str)]) -> Arc<PackageSnapshot> {
    let mut builder = SnapshotBuilder::new("", FILES_MAX, BYTES_MAX);
    for (name, content) in files {
        let found = match content.strip_prefix("->") {
            Some(target) => EntryContent::Link(target.as_bytes().to_vec()),
            None => EntryContent::File(FileMode::Regular, content.to_string().into()),
        };
        builder.add(name.as_bytes(), found).unwrap();
    }
    Arc::new(builder.finish(id(commit)).unwrap())
}

pub(super) fn id(commit: &str) -> PackageId {
    PackageId {
        remote: "https://github.com/org/c.git".to_owned(),
        commit: commit.to_owned(),
        subdir: String::new(),
    }
}

/// An entry of an archive with the exact bytes of its name.
pub(super) struct Raw<'a>(pub(super) EntryType, pub(super) &'a str, pub(super) &'a str);

/// Builds an archive of these entries. The last field is the content or the target of a link.
pub(super) fn archive(entries: &[Raw<'_>]) -> Vec<u8> {
    let mut tar = Vec::new();
    for Raw(kind, name, rest) in entries {
        let mut header = tar::Header::new_ustar();
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        let links = matches!(kind, EntryType::Symlink | EntryType::Link);
        if links {
            old.linkname[..rest.len()].copy_from_slice(rest.as_bytes());
        }
        let content = if links { "" } else { rest };
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        header.set_cksum();
        tar.extend_from_slice(header.as_bytes());
        tar.extend_from_slice(content.as_bytes());
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1_024, 0);
    zipped(&tar)
}

pub(super) fn zipped(bytes: &[u8]) -> Vec<u8> {
    let mut zip = GzEncoder::new(Vec::new(), Compression::best());
    zip.write_all(bytes).unwrap();
    zip.finish().unwrap()
}
