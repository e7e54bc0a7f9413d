//! The object database of a repository, as it is on the disk now. Whoever holds it sees what was fetched since.

use super::{RepositoryError, vet};
use crate::planted;
use gix::odb::store::init::Slots;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// Packs for which there is room beyond half of those that are there when a repository is opened. gix reads no
/// pack for which it has no room, and makes room only when it opens.
const PACKS_TO_COME: usize = 1_024;

/// Bytes of one object of a repository, unpacked. The pack of a file of zeros has a thousandth of its bytes.
pub(super) const OBJECT_BYTES_MAX: usize = 256 << 20;

/// Threads that unpack a pack which is being fetched: each may hold an object and what it is made from.
const UNPACKING_THREADS: usize = 2;

/// The settings that refuse objects which unpack to more than `bytes_max`, also in a pack that is being fetched,
/// and bound how many are unpacked at once.
pub(crate) fn objects_bounded(bytes_max: usize) -> [String; 2] {
    [
        format!("gitoxide.objects.allocLimit={bytes_max}"),
        format!("pack.threads={UNPACKING_THREADS}"),
    ]
}

/// A repository opened with gix, shared by everybody who reads it.
#[derive(Clone)]
pub(crate) struct ObjectDatabase {
    directory: PathBuf,
    trust: vet::Trust,
    // Held to clone or to replace the handle.
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

    /// A handle for this thread.
    pub(crate) fn thread_local(&self) -> gix::Repository {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        opened.to_thread_local()
    }

    /// Opens the repository anew, with room for the packs that are there by now. Handles that were given out
    /// before stay good.
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
