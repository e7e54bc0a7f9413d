//! A git repository, read with gix: branch, history, objects. It is never written to, and configuration files
//! inside it have no effect.

mod tree_changes;
mod mirror;
mod objects;
mod revision;
mod vet;
mod walk;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[allow(clippy::disallowed_methods, reason = "tests build their own files")]
mod tests;

pub use mirror::{FetchProgress, Mirror, OnFetch, check_remote};
pub(crate) use mirror::{Meter, transport};
pub(crate) use objects::ObjectDatabase;
pub(crate) use objects::objects_bounded;
pub(super) use walk::{CommitFile, CommitListing};

use super::base::{Base, BaseProgress};
use crate::base::model::{FileChange, FileVersion, RepoPath};
use crate::state::workspace::Tree;
use gix::ObjectId;
use jiff::Timestamp;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Maximum number of open bases. Older ones are opened again from their packed files.
const BASES_MAX: usize = 4;
/// Maximum size in bytes of a ref file that names a commit.
const REF_BYTES_MAX: u64 = 80;
/// Maximum number of commits that one call of `log` returns.
const LOG_COMMITS_MAX: usize = 1_000;

/// A repository on this machine: one that the operator named, or a mirror of a remote.
pub struct Repository {
    name: String,
    branch: Option<String>,
    objects: ObjectDatabase,
    /// The directory of the refs. In a linked work tree it belongs to the main work tree.
    common: PathBuf,
    bases_directory: PathBuf,
    // Newest last. The lock is held only to look up and to add. A base is built under `building`.
    bases: Mutex<Vec<Arc<Base>>>,
    // Held while a base is built, so that two callers do not build the same one.
    building: Mutex<()>,
    /// The maximum size of a file that is read from a base.
    file_bytes_max: OnceLock<u64>,
    remote: Option<mirror::Remote>,
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repository")
            .field("name", &self.name)
            .field("branch", &self.branch)
            .finish_non_exhaustive()
    }
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The commit id in hex digits: 40 of SHA-1, 64 of SHA-256.
    pub id: String,
    /// The author as `Name <email>`.
    pub author: String,
    /// The author time.
    pub at: Timestamp,
    /// The whole message.
    pub message: String,
}

/// A reason why a repository or its history could not be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RepositoryError {
    /// No commit with this name is reachable from a branch or tag.
    #[error("unknown revision `{0}`")]
    UnknownRevision(String),
    /// The path is no repository, or its configuration could run programs.
    #[error("{0}")]
    Refused(String),
    /// The repository must be converted, because its format is not supported. The text names the format, without a
    /// path.
    #[error("{0}")]
    Format(String),
    /// The object database could not be read.
    #[error("the repository could not be read: {0}")]
    Unreadable(String),
    /// The caller stopped the read.
    #[error("stopped before it was read")]
    Stopped,
    /// The fetch from the remote failed. The mirror is unchanged.
    #[error("`{repository}` could not be fetched: {why}")]
    Fetch {
        /// The configured name of the repository.
        repository: String,
        /// A short reason without an address.
        why: String,
    },
}

impl RepositoryError {
    /// Returns a short reason without a path or an address.
    pub fn brief(&self) -> String {
        match self {
            Self::Format(why) => why.clone(),
            Self::Fetch { why, .. } => format!("it could not be fetched: {why}"),
            Self::UnknownRevision(branch) => format!("it has no branch `{branch}`"),
            Self::Refused(_) | Self::Unreadable(_) | Self::Stopped => {
                "it cannot be read; the log has the reason".to_owned()
            }
        }
    }
}

impl Repository {
    /// Opens a repository on this machine in place and read-only, bare or not. [`Repository::head`] follows
    /// `branch`, or the checked-out branch if there is none. Packed bases are stored in `bases`, a directory of
    /// this product.
    pub fn open_local(
        name: &str,
        path: &Path,
        branch: Option<&str>,
        bases: &Path,
    ) -> Result<Arc<Self>, RepositoryError> {
        let trust = vet::Trust::Nobody;
        Ok(Arc::new(Self::open(name, path, branch, bases, None, trust)?))
    }

    /// Opens the repository of the person at the terminal, read-only. Its branch is the one that is checked out.
    /// Its configuration may name hooks, filters and other programs, as husky and git-lfs do. None of them is ever
    /// run, and includes are not followed.
    pub fn open_personal(name: &str, path: &Path) -> Result<Arc<Self>, RepositoryError> {
        // The terminal reads the files directly or packs them without a name, so no base is stored.
        let bases = path.join(".git/drydock");
        let trust = vet::Trust::Owner;
        Ok(Arc::new(Self::open(name, path, None, &bases, None, trust)?))
    }

    fn open(
        name: &str,
        path: &Path,
        branch: Option<&str>,
        bases: &Path,
        mirror: Option<Mirror>,
        trust: vet::Trust,
    ) -> Result<Self, RepositoryError> {
        let place = vet::find(path)?;
        vet::check_formats(&place)?;
        if trust == vet::Trust::Nobody {
            vet::vet(&place)?;
        }
        let objects = ObjectDatabase::open(place.git, trust)?;
        let here = objects.thread_local();
        Ok(Self {
            name: name.to_owned(),
            branch: branch.map(str::to_owned),
            common: here.common_dir().to_owned(),
            objects,
            bases_directory: bases.to_owned(),
            bases: Mutex::new(Vec::new()),
            building: Mutex::new(()),
            file_bytes_max: OnceLock::new(),
            remote: mirror.map(mirror::Remote::new),
        })
    }

    /// Sets the maximum size of a file that is read, for bases that are opened afterwards. Only the first call has
    /// an effect.
    pub fn bound_files(&self, bytes_max: u64) {
        // The first caller is the one that opened the repository.
        let _ = self.file_bytes_max.set(bytes_max);
    }

    /// Returns the configured name, which grants refer to.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the newest commit of the branch in hex digits, read from disk on each call, or `None` if the branch
    /// has no commits yet.
    pub fn head(&self) -> Result<Option<String>, RepositoryError> {
        let repository = self.objects.thread_local();
        let Some(branch) = &self.branch else {
            let mut head = repository.head().map_err(|err| unreadable(&err))?;
            let id = head.try_peel_to_id().map_err(|err| unreadable(&err))?;
            return Ok(id.map(|id| id.detach().to_string()));
        };
        let name = format!("refs/heads/{branch}");
        if gix_validate::reference::name(name.as_str().into()).is_err() {
            return Err(RepositoryError::UnknownRevision(branch.clone()));
        }
        let reference = repository
            .try_find_reference(name.as_str())
            .map_err(|err| unreadable(&err))?;
        let Some(mut reference) = reference else {
            // A missing branch in a repository with commits is a configuration error, so it is reported.
            let references = repository.references().map_err(|err| unreadable(&err))?;
            let has_commits = references
                .local_branches()
                .is_ok_and(|mut branches| branches.next().is_some());
            return match has_commits {
                true => Err(RepositoryError::UnknownRevision(branch.clone())),
                false => Ok(None),
            };
        };
        let commit = reference.peel_to_commit().map_err(|err| unreadable(&err))?;
        Ok(Some(commit.id.to_string()))
    }

    /// Returns the files of a commit from memory or from its packed file, or builds that file. Building takes
    /// seconds in a large repository and reports to `progress`. Call this on a blocking thread.
    pub fn base(&self, commit: &str, progress: &dyn Fn(BaseProgress)) -> Result<Arc<Base>, RepositoryError> {
        if let Some(base) = self.cached_base(commit) {
            return Ok(base);
        }
        let _building = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(base) = self.cached_base(commit) {
            return Ok(base);
        }
        let id = self.commit_id(commit)?;
        let base = match Base::load(&self.bases_directory, id, &self.objects) {
            Some(base) => base,
            None => {
                let repository = self.objects.thread_local();
                let listing = walk::list(&repository, tree_of(&repository, id)?)?;
                let previous = self.bases().last().cloned();
                Base::build(
                    &self.bases_directory,
                    id,
                    &listing,
                    &self.objects,
                    previous.as_deref(),
                    progress,
                )?
            }
        };
        let base = Arc::new(base.bounded(self.file_bytes_max()));
        let mut bases = self.bases();
        bases.push(base.clone());
        if bases.len() > BASES_MAX {
            bases.remove(0);
        }
        Ok(base)
    }

    /// Returns the files of a commit, or no files without one, in a file without a name in `directory`: nothing is
    /// stored in the repository, and nothing is left behind. Takes seconds in a large repository.
    pub fn unnamed_base(&self, commit: Option<&str>, directory: &Path) -> Result<Arc<Base>, RepositoryError> {
        let repository = self.objects.thread_local();
        let (id, listing) = match commit {
            Some(commit) => {
                let id = self.commit_id(commit)?;
                (id, walk::list(&repository, tree_of(&repository, id)?)?)
            }
            None => (
                ObjectId::null(repository.object_hash()),
                walk::CommitListing::default(),
            ),
        };
        let base = Base::build_unnamed(directory, id, &listing, &self.objects)?;
        Ok(Arc::new(base.bounded(self.file_bytes_max())))
    }

    fn file_bytes_max(&self) -> u64 {
        let configured = self.file_bytes_max.get().copied();
        configured.unwrap_or(super::FILE_BYTES_MAX)
    }

    /// Returns the newest `limit` commits reachable from `from`, newest first.
    pub fn log(&self, from: &str, limit: usize) -> Result<Vec<Commit>, RepositoryError> {
        self.newest_commits(from, None, limit)
    }

    /// Returns the newest `limit` commits reachable from `to` and not from `from`, newest first.
    pub fn log_between(&self, from: &str, to: &str, limit: usize) -> Result<Vec<Commit>, RepositoryError> {
        self.newest_commits(to, Some(from), limit)
    }

    fn newest_commits(
        &self,
        tip: &str,
        hidden: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Commit>, RepositoryError> {
        let repository = self.objects.thread_local();
        let tip = self.commit_id(tip)?;
        let hidden = hidden.map(|hidden| self.commit_id(hidden)).transpose()?;
        let newest_first = gix::revision::walk::Sorting::ByCommitTime(Default::default());
        repository
            .rev_walk([tip])
            .with_hidden(hidden)
            .sorting(newest_first)
            .all()
            .map_err(|err| unreadable(&err))?
            .take(limit.min(LOG_COMMITS_MAX))
            .map(|commit| {
                let commit = commit.map_err(|err| RepositoryError::Unreadable(err.to_string()))?;
                read_commit(&repository, commit.id)
            })
            .collect()
    }

    /// Returns a commit and its changes against its first parent. The revision is written as for git: `HEAD` (which
    /// is `head`), `HEAD~1`, a branch, a tag or a hash. Only commits that a branch or a tag reaches are found.
    /// Stops once `is_stopped` returns true.
    pub fn show(
        &self,
        revision: &str,
        head: &str,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(Commit, Vec<FileChange>), RepositoryError> {
        let repository = self.objects.thread_local();
        let id = revision::resolve(&repository, revision, head, is_stopped)?;
        let parent = repository
            .find_commit(id)
            .map_err(|err| unreadable(&err))?
            .parent_ids()
            .next()
            .map(|parent| tree_of(&repository, parent.detach()))
            .transpose()?;
        let tree = Some(tree_of(&repository, id)?);
        let changes = walk::changes(&repository, parent, tree, is_stopped)?;
        Ok((read_commit(&repository, id)?, changes))
    }

    /// Returns the full hash of a revision, with the same lookup as [`Repository::show`].
    pub fn resolve(&self, revision: &str, head: &str) -> Result<String, RepositoryError> {
        let repository = self.objects.thread_local();
        revision::resolve(&repository, revision, head, &|| false).map(|id| id.to_string())
    }

    /// Returns the newest common ancestor of two commits.
    pub fn merge_base(&self, one: &str, other: &str) -> Result<String, RepositoryError> {
        let repository = self.objects.thread_local();
        let (one, other) = (self.commit_id(one)?, self.commit_id(other)?);
        revision::merge_base(&repository, one, other).map(|base| base.to_string())
    }

    /// Returns the file at `path` in a commit. Symlinks are not followed.
    pub fn file_at(&self, commit: &str, path: &RepoPath) -> Result<Option<FileVersion>, RepositoryError> {
        let repository = self.objects.thread_local();
        walk::file(&repository, tree_of(&repository, self.commit_id(commit)?)?, path)
    }

    /// Returns the differences between a commit (or the empty tree) and a tree, sorted by path. Files of more than
    /// 16 MiB count as unchanged.
    pub fn changes_to(
        &self,
        commit: Option<&str>,
        tree: &dyn Tree,
    ) -> Result<Vec<FileChange>, RepositoryError> {
        let repository = self.objects.thread_local();
        let listing = match commit {
            Some(commit) => walk::list(&repository, tree_of(&repository, self.commit_id(commit)?)?)?,
            None => walk::CommitListing::default(),
        };
        tree_changes::changes(&repository, &listing, tree)
    }

    /// Returns the differences between two commits, sorted by path, of at most 64 MiB.
    pub fn changes_between(&self, from: &str, to: &str) -> Result<Vec<FileChange>, RepositoryError> {
        let repository = self.objects.thread_local();
        let tree = |commit: &str| tree_of(&repository, self.commit_id(commit)?);
        walk::changes(&repository, Some(tree(from)?), Some(tree(to)?), &|| false)
    }

    /// Returns the files of a commit if they are in memory.
    pub fn cached_base(&self, commit: &str) -> Option<Arc<Base>> {
        let mut bases = self.bases();
        let index = bases.iter().position(|base| base.commit() == commit)?;
        let base = bases.remove(index);
        bases.push(base.clone());
        Some(base)
    }

    /// Returns the newest commit of the branch if its files are in memory and its ref is a loose file. This reads
    /// only a few bytes. [`Repository::head`] covers all cases.
    #[allow(clippy::disallowed_methods, reason = "a ref is a file of the repository")]
    pub fn cached_head(&self) -> Option<String> {
        let reference = Path::new("refs/heads").join(self.branch.as_ref()?);
        let file = File::open(self.common.join(reference)).ok()?;
        let mut text = String::new();
        file.take(REF_BYTES_MAX).read_to_string(&mut text).ok()?;
        let commit = text.trim_end();
        let is_open = self.bases().iter().any(|base| base.commit() == commit);
        is_open.then(|| commit.to_owned())
    }

    fn bases(&self) -> MutexGuard<'_, Vec<Arc<Base>>> {
        self.bases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit_id(&self, text: &str) -> Result<ObjectId, RepositoryError> {
        let unknown = || RepositoryError::UnknownRevision(text.chars().take(100).collect());
        let id = ObjectId::from_hex(text.as_bytes()).map_err(|_| unknown())?;
        let header = self
            .objects
            .thread_local()
            .find_header(id)
            .map_err(|_| unknown())?;
        match header.kind() {
            gix::objs::Kind::Commit => Ok(id),
            _ => Err(unknown()),
        }
    }
}

fn tree_of(repository: &gix::Repository, commit: ObjectId) -> Result<ObjectId, RepositoryError> {
    let commit = repository.find_commit(commit).map_err(|err| unreadable(&err))?;
    Ok(commit.tree_id().map_err(|err| unreadable(&err))?.detach())
}

fn read_commit(repository: &gix::Repository, id: ObjectId) -> Result<Commit, RepositoryError> {
    let commit = repository.find_commit(id).map_err(|err| unreadable(&err))?;
    let author = commit.author().map_err(|err| unreadable(&err))?;
    // The time in a commit can be invalid. Such a time is shown as the epoch.
    let seconds = author.time().map(|time| time.seconds).unwrap_or_default();
    Ok(Commit {
        id: id.to_string(),
        author: format!("{} <{}>", author.name, author.email),
        at: Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH),
        message: commit.message_raw_sloppy().to_string(),
    })
}

fn unreadable(err: &gix::Error) -> RepositoryError {
    RepositoryError::Unreadable(err.to_string())
}
