//! A bare copy of a remote repository. This product creates and configures it, and only fetches into it. The token
//! is sent only to the configured host.
//!
//! Each fetch adds a pack, and packs are never combined. A copy with too many packs, or a damaged copy, is fetched
//! anew beside the old one and replaces it in one step. Readers are not interrupted.

mod fetch;
mod files;
mod meter;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]
#[allow(
    clippy::disallowed_methods,
    reason = "tests build their own files and ask the real git"
)]
mod tests;

use super::objects::{OBJECT_BYTES_MAX, objects_bounded};
use super::{Repository, RepositoryError, tree_of, unreadable};
use crate::base::model::Secret;
use crate::planted;
pub(crate) use fetch::transport;
use fetch::{FetchResult, check_url, fetch};
use gix::hash::Kind;
use jiff::Timestamp;
pub(crate) use meter::Meter;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// The progress of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchProgress {
    /// The current step, such as `read pack` or `create index file`.
    pub what: String,
    /// Objects or bytes that are finished.
    pub done: usize,
    /// Objects or bytes in all, if known.
    pub total: Option<usize>,
    /// True if bytes are counted rather than objects.
    pub bytes: bool,
}

/// Receives the progress of a fetch. It is called often and from any thread, so it must return at once.
pub type OnFetch = Arc<dyn Fn(FetchProgress) + Send + Sync>;

/// A remote repository and the location of its copy.
#[derive(Clone)]
pub struct Mirror {
    /// The configured name, which grants refer to.
    pub name: String,
    /// The address `https://host/path`, without user or password. Plain http is allowed only to this machine.
    pub url: String,
    /// The token for the remote, sent as the password of basic authorization.
    pub token: Option<Secret>,
    /// The branch that is followed.
    pub branch: String,
    /// The bare copy, which the first fetch creates.
    pub directory: PathBuf,
    /// The directory of packed bases.
    pub bases: PathBuf,
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirror")
            .field("name", &self.name)
            .field("url", &self.url)
            .field("branch", &self.branch)
            .finish_non_exhaustive()
    }
}

/// A remote that a repository follows.
pub(super) struct Remote {
    mirror: Mirror,
    // Held while the copy is written to and while it is replaced.
    writing: Mutex<()>,
    // Held while a new copy is made beside it.
    cloning: Mutex<()>,
}

impl Remote {
    pub(super) fn new(mirror: Mirror) -> Self {
        Self {
            mirror,
            writing: Mutex::new(()),
            cloning: Mutex::new(()),
        }
    }
}

impl Repository {
    /// Opens the copy of a remote. If it is missing or damaged, makes it by a first fetch at time `at`. Removes the
    /// remains of a killed fetch, so no other process may have the copy open. Blocks: call it on a blocking thread,
    /// and set `stop` to end it early.
    pub fn mirror(
        mirror: Mirror,
        at: Timestamp,
        progress: &OnFetch,
        stop: &AtomicBool,
    ) -> Result<Arc<Self>, RepositoryError> {
        check_url(&mirror.url)?;
        if let Err(error) = files::clear_leftovers(&mirror.directory) {
            tracing::warn!(repository = mirror.name, %error, "files of an interrupted fetch remain in a mirror");
        }
        if mirror.directory.exists() {
            match Self::open_mirror(&mirror)
                .and_then(|repository| repository.check_readable().map(|()| repository))
            {
                Ok(repository) => return Ok(Arc::new(repository)),
                Err(error) => {
                    tracing::error!(repository = mirror.name, %error, "a mirror is damaged; it is fetched again \
                                                                       completely");
                }
            }
        }
        clone(&mirror, at, progress, stop).and_then(|_| put_in_place(&mirror))?;
        Ok(Arc::new(Self::open_mirror(&mirror)?))
    }

    fn open_mirror(mirror: &Mirror) -> Result<Self, RepositoryError> {
        Self::open(
            &mirror.name,
            &mirror.directory,
            Some(&mirror.branch),
            &mirror.bases,
            Some(mirror.clone()),
            super::vet::Trust::Nobody,
        )
    }

    /// Fetches new objects and removes branches and tags that the remote no longer has. `at` is the time of the
    /// fetch. Does nothing for a repository on this machine, which is always current. Blocks, like
    /// [`Repository::mirror`].
    pub fn refresh(
        &self,
        at: Timestamp,
        progress: &OnFetch,
        stop: &AtomicBool,
    ) -> Result<(), RepositoryError> {
        let Some(remote) = &self.remote else {
            return Ok(());
        };
        let _writing = remote.writing.lock().unwrap_or_else(PoisonError::into_inner);
        fetch(&self.objects.thread_local(), &remote.mirror, at, progress, stop)?
            .require_complete(&remote.mirror)?;
        self.objects.reopen()
    }

    /// Returns the time of the last successful fetch, or `None` for a repository on this machine.
    pub fn last_fetched(&self) -> Option<Timestamp> {
        files::last_fetched(&self.remote.as_ref()?.mirror.directory)
    }

    /// True if so many packs were added that the copy should be fetched anew.
    pub fn needs_renewal(&self) -> bool {
        let remote = self.remote.as_ref();
        remote.is_some_and(|remote| files::needs_renewal(&remote.mirror.directory))
    }

    /// True if the copy shows the damage that a power failure does to files. This check is cheap. False for a
    /// repository that is not a mirror.
    pub fn is_torn(&self) -> bool {
        self.remote.is_some() && self.check_readable().is_err()
    }

    /// True if the copy is damaged. This check reads every byte. False for a repository that is not a mirror.
    pub fn is_damaged(&self, stop: &AtomicBool) -> bool {
        self.remote.as_ref().is_some_and(|remote| {
            let is_damaged = self.check_readable().is_err()
                || files::check_checksums(
                    &remote.mirror.directory,
                    self.objects.thread_local().object_hash(),
                    stop,
                )
                .is_err();
            // An interrupted check has no result.
            is_damaged && !stop.load(Ordering::SeqCst)
        })
    }

    /// Fetches a new copy beside the old one, which stays in use until the new copy replaces it. Commits that only
    /// an overwritten branch reached are gone afterwards.
    pub fn renew(&self, at: Timestamp, progress: &OnFetch, stop: &AtomicBool) -> Result<(), RepositoryError> {
        let Some(remote) = &self.remote else {
            return Ok(());
        };
        // Planted fault: a new copy would have pack slots again.
        if planted::is("E1") {
            return Ok(());
        }
        let _cloning = match remote.cloning.try_lock() {
            Ok(cloning) => cloning,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread is already making a new copy.
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        let fresh = clone(&remote.mirror, at, progress, stop)?;
        let _writing = remote.writing.lock().unwrap_or_else(PoisonError::into_inner);
        // The old copy may have later pushes. This second fetch brings them, so that no head goes back.
        fetch(&fresh, &remote.mirror, at, progress, stop)?.require_complete(&remote.mirror)?;
        put_in_place(&remote.mirror)?;
        self.objects.reopen()
    }

    /// Checks for the damage that a power failure does to files: an incomplete pack, or an unreadable branch or
    /// HEAD.
    fn check_readable(&self) -> Result<(), RepositoryError> {
        if let Some(remote) = &self.remote {
            files::check_ends(
                &remote.mirror.directory,
                self.objects.thread_local().object_hash(),
            )?;
        }
        let repository = self.objects.thread_local();
        repository.head().map_err(|err| unreadable(&err))?;
        let references = repository.references().map_err(|err| unreadable(&err))?;
        for reference in references.all().map_err(|err| unreadable(&err))? {
            reference.map_err(|err| RepositoryError::Unreadable(err.to_string()))?;
        }
        match self.head() {
            Ok(Some(head)) => tree_of(&repository, self.commit_id(&head)?).map(|_| ()),
            Ok(None) | Err(RepositoryError::UnknownRevision(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Returns the commit of the branch of a remote. Only a temporary directory is written. Blocks, like
/// [`Repository::mirror`].
pub fn check_remote(mirror: &Mirror, stop: &AtomicBool) -> Result<String, RepositoryError> {
    let room = tempfile::tempdir().map_err(|err| no_room(&err))?;
    let repository = empty_repository(room.path(), Kind::Sha1)?;
    fetch::branch_commit(&repository, mirror, stop)
}

fn empty_repository(directory: &std::path::Path, format: Kind) -> Result<gix::Repository, RepositoryError> {
    let made = gix::ThreadSafeRepository::init_opts(
        directory,
        gix::create::Kind::Bare,
        gix::create::Options {
            object_hash: Some(format),
            ..Default::default()
        },
        gix::open::Options::isolated().config_overrides(objects_bounded(OBJECT_BYTES_MAX)),
    );
    let made = made.map_err(|err| RepositoryError::Unreadable(err.to_string()))?;
    Ok(made.into())
}

/// Clones everything into a directory beside the copy, so that the copy is complete or absent.
fn clone(
    mirror: &Mirror,
    at: Timestamp,
    progress: &OnFetch,
    stop: &AtomicBool,
) -> Result<gix::Repository, RepositoryError> {
    // The first try finds out which hash format the remote uses.
    match clone_in(Kind::Sha1, mirror, at, progress, stop)? {
        CloneResult::Complete(repository) => Ok(*repository),
        CloneResult::OtherFormat(format) => match clone_in(format, mirror, at, progress, stop)? {
            CloneResult::Complete(repository) => Ok(*repository),
            CloneResult::OtherFormat(_) => Err(fetch::other_format_error(mirror)),
        },
    }
}

/// The result of one try to clone.
enum CloneResult {
    Complete(Box<gix::Repository>),
    OtherFormat(Kind),
}

fn clone_in(
    format: Kind,
    mirror: &Mirror,
    at: Timestamp,
    progress: &OnFetch,
    stop: &AtomicBool,
) -> Result<CloneResult, RepositoryError> {
    let fresh = files::prepare_unfinished(&mirror.directory).map_err(|err| no_room(&err))?;
    let repository = empty_repository(&fresh, format)?;
    let fetched = fetch(&repository, mirror, at, progress, stop);
    if !matches!(fetched, Ok(FetchResult::Complete)) {
        // The next try also removes any remaining files.
        let _ = std::fs::remove_dir_all(&fresh);
    }
    Ok(match fetched? {
        FetchResult::Complete => CloneResult::Complete(Box::new(repository)),
        FetchResult::OtherFormat(format) => CloneResult::OtherFormat(format),
    })
}

fn put_in_place(mirror: &Mirror) -> Result<(), RepositoryError> {
    files::put_in_place(&mirror.directory).map_err(|err| no_room(&err))
}

fn no_room(err: &std::io::Error) -> RepositoryError {
    RepositoryError::Unreadable(format!("not enough disk space for the copy: {err}"))
}
