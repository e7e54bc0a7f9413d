//! Removal of packed commits: unfinished packs, and commits that are no longer in use.

use super::{PACKS_MAX, Path, PathBuf};
use std::time::SystemTime;

/// Removes the unfinished packs in all directories of bases and returns their number. The caller must be the only
/// owner of the data directory, and nothing may be packed at the same time.
pub fn clear_unfinished(bases: &Path) -> std::io::Result<usize> {
    let mut removed = 0;
    for directory in directories(bases)? {
        removed += remove_unfinished(&directory)?;
    }
    Ok(removed)
}

/// Returns the packed commits of a repository that may be removed: those older than `before`, except the newest.
/// The file names are the commits.
pub fn old_packs(bases: &Path, repository: &str, before: SystemTime) -> std::io::Result<Vec<String>> {
    let mut packs = packs(&bases.join(repository))?;
    packs.pop();
    let old = packs.into_iter().filter(|(written, _)| *written < before);
    Ok(old
        .filter_map(|(_, path)| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect())
}

/// Removes the packed file of a commit. A process that has it open can continue to use it.
pub fn remove_pack(bases: &Path, repository: &str, commit: &str) -> std::io::Result<()> {
    match std::fs::remove_file(bases.join(repository).join(format!("{commit}.pack"))) {
        Err(err) if err.kind() != std::io::ErrorKind::NotFound => Err(err),
        _ => Ok(()),
    }
}

/// Keeps the newest packed files and removes the others, including unfinished ones. A file that cannot be removed
/// costs disk space and is tried again with the next base. The caller must not pack anything else in this directory
/// meanwhile.
pub(super) fn keep_newest(directory: &Path, newest: &Path) {
    let _ = remove_unfinished(directory);
    let Ok(mut packs) = packs(directory) else { return };
    packs.retain(|(_, path)| path != newest);
    let surplus = (packs.len() + 1).saturating_sub(PACKS_MAX);
    for (_, path) in packs.iter().take(surplus) {
        let _ = std::fs::remove_file(path);
    }
}

fn remove_unfinished(directory: &Path) -> std::io::Result<usize> {
    let mut removed = 0;
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let is_unfinished = path
            .extension()
            .and_then(|kind| kind.to_str())
            .is_some_and(|kind| kind.starts_with(UNFINISHED));
        if is_unfinished && path.is_file() {
            std::fs::remove_file(path)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Prefix of the extension of a file that is being packed, followed by the process id.
pub(super) const UNFINISHED: &str = "tmp-";

/// Returns the packed files of a directory, oldest first.
fn packs(directory: &Path) -> std::io::Result<Vec<(SystemTime, PathBuf)>> {
    let entries = match std::fs::read_dir(directory) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut packs: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "pack"))
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .collect();
    packs.sort();
    Ok(packs)
}

fn directories(bases: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(bases) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    Ok(paths.filter(|path| path.is_dir()).collect())
}
