//! The files of a mirror: removal of the remains of a killed fetch, the number and integrity of packs, and
//! replacement by a new copy.

use crate::state::workspace::RepositoryError;
use gix::hash::Kind;
use gix::odb::pack;
use jiff::Timestamp;
use rustix::fs::{CWD, RenameFlags, renameat_with, statvfs};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Name of the file with the time of the last successful fetch.
pub(super) const FETCHED: &str = "fetched";
/// Maximum number of packs of a mirror. Each fetch with new objects adds one.
pub(super) const PACKS_MAX: usize = 100;
/// Size of all incremental packs in bytes that is always allowed. Above it, they may have up to twice the size of
/// the largest pack, which comes from the first fetch.
const PIECES_BYTES_MIN: u64 = 256 << 20;

/// Free disk space in bytes that must remain beside a second copy of a mirror.
const ROOM_LEFT_MIN: u64 = 256 << 20;

/// Returns the path at which a new copy is made before it replaces the mirror.
pub(super) fn unfinished_path(mirror: &Path) -> PathBuf {
    let mut name = mirror.file_name().unwrap_or_default().to_owned();
    name.push(".unfinished");
    mirror.with_file_name(name)
}

/// Returns the path of the old copy during its removal, for file systems that cannot exchange two directories.
fn removal_path(mirror: &Path) -> PathBuf {
    mirror.with_extension("gone")
}

/// Creates an empty directory for a new copy beside the mirror and returns its path.
pub(super) fn prepare_unfinished(mirror: &Path) -> std::io::Result<PathBuf> {
    let fresh = unfinished_path(mirror);
    remove_all(&fresh)?;
    if let Some(parent) = fresh.parent() {
        crate::state::workspace::make_private(parent)?;
    }
    Ok(fresh)
}

/// Replaces the mirror by the new copy beside it. Where the file system can exchange two directories, a mirror
/// exists at every moment. Elsewhere a kill between the two steps leaves none, and it is fetched at the next start.
pub(super) fn put_in_place(mirror: &Path) -> std::io::Result<()> {
    let fresh = unfinished_path(mirror);
    if !mirror.exists() {
        return std::fs::rename(&fresh, mirror);
    }
    let old = match renameat_with(CWD, &fresh, CWD, mirror, RenameFlags::EXCHANGE) {
        Ok(()) => fresh,
        Err(_) => {
            let old = removal_path(mirror);
            remove_all(&old)?;
            std::fs::rename(mirror, &old)?;
            std::fs::rename(&fresh, mirror)?;
            old
        }
    };
    // Remaining files are removed at the next start or before the next copy.
    let _ = std::fs::remove_dir_all(old);
    Ok(())
}

/// Removes the remains of a killed fetch: locks, incomplete packs, and a copy that did not replace the mirror.
pub(super) fn clear_leftovers(mirror: &Path) -> std::io::Result<()> {
    remove_all(&unfinished_path(mirror))?;
    remove_all(&removal_path(mirror))?;
    if !mirror.exists() {
        return Ok(());
    }
    let objects = mirror.join("objects");
    let mut waiting = vec![mirror.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let (kind, path) = (entry.file_type()?, entry.path());
            if kind.is_dir() && path != objects {
                waiting.push(path);
            } else if kind.is_file() && has_extension(&path, "lock") {
                std::fs::remove_file(path)?;
            }
        }
    }
    for path in in_packs(mirror)? {
        let has = |extension: &str| path.with_extension(extension).is_file();
        let is_named = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"pack-"));
        let is_whole =
            (has_extension(&path, "pack") && has("idx")) || (has_extension(&path, "idx") && has("pack"));
        if !(is_named && is_whole) && path.is_file() {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Returns the time of the last successful fetch of the mirror.
#[allow(clippy::disallowed_methods, reason = "it is a file of the mirror")]
pub(super) fn last_fetched(mirror: &Path) -> Option<Timestamp> {
    let text = std::fs::read_to_string(mirror.join(FETCHED)).ok()?;
    text.trim().parse().ok()
}

/// True if the mirror has so many packs, or so many bytes in them, that it should be fetched anew. False without
/// room for a second copy, because the database is on the same disk.
pub(super) fn needs_renewal(mirror: &Path) -> bool {
    let paths = in_packs(mirror).unwrap_or_default();
    let packs = paths.iter().filter(|path| has_extension(path, "pack"));
    let sizes: Vec<u64> = packs
        .filter_map(|path| Some(path.metadata().ok()?.len()))
        .collect();
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let all = sizes.iter().sum::<u64>();
    let pieces = all - largest;
    let is_too_much = sizes.len() > PACKS_MAX || pieces > PIECES_BYTES_MIN.max(largest.saturating_mul(2));
    is_too_much && has_room_for(mirror, all)
}

/// True if this number of bytes fits on the disk and leaves enough free space.
fn has_room_for(mirror: &Path, bytes: u64) -> bool {
    let free = statvfs(mirror).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    free.is_ok_and(|free| free >= bytes.saturating_add(ROOM_LEFT_MIN))
}

/// Compares the trailer of each pack with its index. They differ for a pack that was not written completely.
pub(super) fn check_ends(mirror: &Path, format: Kind) -> Result<(), RepositoryError> {
    each_pack(mirror, format, |index, pack| {
        (index.pack_checksum() == pack.checksum())
            .then_some(())
            .ok_or("its end is missing")
    })
}

/// Reads all packs and compares them with their checksums.
pub(super) fn check_checksums(mirror: &Path, format: Kind, stop: &AtomicBool) -> Result<(), RepositoryError> {
    each_pack(mirror, format, |index, pack| {
        let no_progress = &mut gix::progress::Discard;
        let whole = index
            .verify_checksum(no_progress, stop)
            .and_then(|_| pack.verify_checksum(no_progress, stop));
        whole.map(|_| ()).map_err(|_| "its checksum differs")
    })
}

fn each_pack(
    mirror: &Path,
    format: Kind,
    check: impl Fn(&pack::index::File, &pack::data::File) -> Result<(), &'static str>,
) -> Result<(), RepositoryError> {
    let damaged = |why: &str| RepositoryError::Unreadable(format!("a pack of its copy is damaged: {why}"));
    let paths = in_packs(mirror).map_err(|err| RepositoryError::Unreadable(err.to_string()))?;
    for path in paths.iter().filter(|path| has_extension(path, "idx")) {
        let index = pack::index::File::at(path, format).map_err(|_| damaged("its index cannot be read"))?;
        let pack = pack::data::File::at(path.with_extension("pack"), format)
            .map_err(|_| damaged("it cannot be read"))?;
        check(&index, &pack).map_err(damaged)?;
    }
    Ok(())
}

fn in_packs(mirror: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(mirror.join("objects/pack")) {
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries.map(|entry| Ok(entry?.path())).collect()
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn remove_all(directory: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(err) if err.kind() != ErrorKind::NotFound => Err(err),
        _ => Ok(()),
    }
}
