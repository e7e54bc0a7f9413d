//! The object database of a repository in its current state on disk. Open handles also see objects that were
//! fetched later.

use super::{RepositoryError, vet};
use crate::planted;
use gix::odb::store::init::Slots;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// Minimum number of pack slots when a repository is opened; one with many packs gets one and a half times their
/// number. gix ignores packs without a slot, and allocates slots only when it opens a repository.
const PACKS_TO_COME: usize = 1_024;

/// Maximum size of one unpacked object in bytes. A pack can be a thousand times smaller, for example for a file of
/// zeros.
pub(super) const OBJECT_BYTES_MAX: usize = 256 << 20;

/// Number of threads that unpack a pack during a fetch. Each may hold an object and its delta base in memory.
const UNPACKING_THREADS: usize = 2;

/// Returns the git settings that refuse objects above `bytes_max` unpacked bytes, also during a fetch, and that
/// bound the number of objects unpacked at once.
pub(crate) fn objects_bounded(bytes_max: usize) -> [String; 2] {
    [
        format!("gitoxide.objects.allocLimit={bytes_max}"),
        format!("pack.threads={UNPACKING_THREADS}"),
    ]
}

/// A repository opened with gix, shared by all readers.
#[derive(Clone)]
pub(crate) struct ObjectDatabase {
    directory: PathBuf,
    trust: vet::Trust,
    // The lock is held to clone or to replace the handle.
    opened: Arc<RwLock<gix::ThreadSafeRepository>>,
}

impl ObjectDatabase {
    /// Opens the git directory at `directory`.
    pub(super) fn open(directory: PathBuf, trust: vet::Trust) -> Result<Self, RepositoryError> {
        let opened = Arc::new(RwLock::new(open(&directory, trust)?));
        Ok(Self {
            directory,
            trust,
            opened,
        })
    }

    /// Returns a handle for this thread.
    pub(crate) fn thread_local(&self) -> gix::Repository {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        opened.to_thread_local()
    }

    /// Reopens the repository with slots for the packs that exist now. Existing handles stay valid.
    pub(super) fn reopen(&self) -> Result<(), RepositoryError> {
        if planted::is("E1") {
            return Ok(());
        }
        let opened = open(&self.directory, self.trust)?;
        *self.opened.write().unwrap_or_else(PoisonError::into_inner) = opened;
        Ok(())
    }
}

fn open(directory: &PathBuf, trust: vet::Trust) -> Result<gix::ThreadSafeRepository, RepositoryError> {
    let room = match planted::is("E1") {
        true => Slots::default(),
        false => Slots::AsNeededByDiskState {
            multiplier: 1.5,
            minimum: PACKS_TO_COME,
        },
    };
    gix::open::Options::isolated()
        .strict_config(trust == vet::Trust::Nobody)
        .open_path_as_is(true)
        .object_store_slots(room)
        .config_overrides(objects_bounded(OBJECT_BYTES_MAX))
        .open(directory)
        .map_err(|err| RepositoryError::Unreadable(err.to_string()))
}
