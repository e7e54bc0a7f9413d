//! Repositories for tests, written object by object. They can hold content that git itself would not write, and
//! they need no git on the machine.

use super::{Base, Repository};
use crate::base::model::{FileMode, RepoPath};
use gix::ObjectId;
use gix::objs::tree::EntryKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) struct Fixture {
    pub(super) directory: tempfile::TempDir,
    pub(super) objects: gix::Repository,
}

/// The path, content and mode of a file of a fixture.
pub(super) type FixtureFile<'a> = (&'a str, &'a [u8], FileMode);

/// Returns a regular file.
pub(super) fn text<'a>(path: &'a str, content: &'a str) -> FixtureFile<'a> {
    (path, content.as_bytes(), FileMode::Regular)
}

/// Returns a symlink.
pub(super) fn link<'a>(path: &'a str, target: &'a str) -> FixtureFile<'a> {
    (path, target.as_bytes(), FileMode::Symlink)
}

pub(super) fn path(text: &str) -> RepoPath {
    RepoPath::parse(text).unwrap()
}

impl Fixture {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let objects: gix::Repository = gix::ThreadSafeRepository::init_opts(
            directory.path().join("repo.git"),
            gix::create::Kind::Bare,
            gix::create::Options::default(),
            gix::open::Options::isolated(),
        )
        .unwrap()
        .into();
        std::fs::write(directory.path().join("repo.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        Self { directory, objects }
    }

    /// Returns a repository with one commit on `main`.
    pub(super) fn with(files: &[FixtureFile<'_>]) -> Self {
        let fixture = Self::new();
        let commit = fixture.commit(files, &[], 1_000);
        fixture.set_reference("refs/heads/main", commit);
        fixture
    }

    pub(super) fn git(&self) -> PathBuf {
        self.directory.path().join("repo.git")
    }

    pub(super) fn bases(&self) -> PathBuf {
        self.directory.path().join("bases")
    }

    pub(super) fn tree(&self, files: &[FixtureFile<'_>]) -> ObjectId {
        let mut editor = self
            .objects
            .edit_tree(ObjectId::empty_tree(gix::hash::Kind::Sha1))
            .unwrap();
        self.objects.write_object(gix::objs::Tree::empty()).unwrap();
        for (path, content, mode) in files {
            let kind = match mode {
                FileMode::Regular => EntryKind::Blob,
                FileMode::Executable => EntryKind::BlobExecutable,
                FileMode::Symlink => EntryKind::Link,
            };
            let blob = self.objects.write_blob(content).unwrap().detach();
            editor.upsert(*path, kind, blob).unwrap();
        }
        editor.write().unwrap().detach()
    }

    pub(super) fn commit(&self, files: &[FixtureFile<'_>], parents: &[ObjectId], seconds: i64) -> ObjectId {
        self.commit_tree(self.tree(files), parents, seconds)
    }

    pub(super) fn commit_tree(&self, tree: ObjectId, parents: &[ObjectId], seconds: i64) -> ObjectId {
        let author = gix::actor::Signature {
            name: "Ada".into(),
            email: "ada@example.com".into(),
            time: gix::date::Time { seconds, offset: 0 },
        };
        let commit = gix::objs::Commit {
            tree,
            parents: parents.iter().copied().collect(),
            author: author.clone(),
            committer: author,
            encoding: None,
            message: format!("commit {seconds}\n").into(),
            extra_headers: Vec::new(),
        };
        self.objects.write_object(&commit).unwrap().detach()
    }

    pub(super) fn set_reference(&self, reference: &str, commit: ObjectId) {
        let file = self.git().join(reference);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, format!("{commit}\n")).unwrap();
    }

    pub(super) fn open(&self) -> Arc<Repository> {
        Repository::open_local("infra", &self.git(), Some("main"), &self.bases()).unwrap()
    }

    /// Returns the base of the newest commit on `main`.
    pub(super) fn head_base(&self) -> Arc<Base> {
        let repository = self.open();
        let head = repository.head().unwrap().unwrap();
        repository.base(&head, &|_| ()).unwrap()
    }
}

/// Returns every file below a directory with its bytes, to check that nothing changed.
pub(super) fn snapshot(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                files.push((entry.path(), std::fs::read(entry.path()).unwrap()));
            }
        }
    }
    files.sort();
    files
}
