//! A repository as a `tar.gz` from GitHub. It is read as a stream, within limits, and never written to disk. Every
//! entry is checked, including those outside the package.

use super::snapshot::{self, EntryContent, PackageError, PackageId, PackageSnapshot, SnapshotBuilder};
use crate::base::model::FileMode;
use crate::state::download::{BoundedGzip, ExceededBound};
use std::io::Read;
use tar::EntryType;

/// The limits for an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Maximum compressed size in bytes.
    pub sent_bytes_max: u64,
    /// Maximum unpacked size of the whole repository in bytes.
    pub unpacked_bytes_max: u64,
    /// Maximum ratio of unpacked to compressed bytes. It is checked only above 1 MiB.
    pub ratio_max: u64,
    /// Maximum number of entries in the whole repository.
    pub entries_max: usize,
    /// Maximum number of files in the package.
    pub files_max: usize,
    /// Maximum size of the package in bytes.
    pub bytes_max: u64,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self {
            sent_bytes_max: 128 << 20,
            unpacked_bytes_max: 512 << 20,
            ratio_max: 100,
            entries_max: 200_000,
            files_max: snapshot::FILES_MAX,
            bytes_max: snapshot::BYTES_MAX,
        }
    }
}

/// The reason why an archive is not accepted as a package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackageArchiveError {
    /// An entry, or all of them together, is not acceptable.
    #[error("archive {0}")]
    Package(#[from] PackageError),
    /// The bytes are not a valid archive.
    #[error("archive cannot be read: {0}")]
    Unreadable(String),
    /// The archive has more entries than a repository may have.
    #[error("archive has more than {0} entries")]
    TooMany(usize),
    /// The archive unpacks to more than is allowed.
    #[error("archive {0}")]
    Unpacks(#[from] ExceededBound),
}

/// Separator after the first path component, which GitHub names after repository and commit. That component is
/// removed.
const COMPONENTS_BEFORE: char = '/';

/// Reads the package `id` from an archive.
pub(super) fn read(
    sent: &[u8],
    id: PackageId,
    limits: ArchiveLimits,
) -> Result<PackageSnapshot, PackageArchiveError> {
    let mut unpacked = BoundedGzip::new(sent, limits.unpacked_bytes_max, limits.ratio_max);
    let result = entries(&mut unpacked, id, limits);
    // The format parser cannot tell why its input ended.
    match unpacked.exceeded() {
        Some(exceeded) => Err(exceeded.into()),
        None => result,
    }
}

impl From<std::io::Error> for PackageArchiveError {
    fn from(why: std::io::Error) -> Self {
        Self::Unreadable(why.to_string())
    }
}

fn entries(
    unpacked: &mut BoundedGzip<'_>,
    id: PackageId,
    limits: ArchiveLimits,
) -> Result<PackageSnapshot, PackageArchiveError> {
    let mut builder = SnapshotBuilder::new(&id.subdir, limits.files_max, limits.bytes_max);
    unpacked.each_entry(|index, entry| {
        if index >= limits.entries_max {
            return Err(PackageArchiveError::TooMany(limits.entries_max));
        }
        add_entry(&mut builder, entry)
    })?;
    Ok(builder.finish(id)?)
}

fn add_entry(
    builder: &mut SnapshotBuilder,
    entry: &mut tar::Entry<'_, impl Read>,
) -> Result<(), PackageArchiveError> {
    let kind = entry.header().entry_type();
    if matches!(kind, EntryType::XGlobalHeader) {
        return Ok(());
    }
    let whole = entry.path_bytes().into_owned();
    let trimmed = whole.strip_suffix(b"/").unwrap_or(&whole);
    // The whole path is checked, including the component that is removed.
    SnapshotBuilder::new("", 0, 0)
        .path_in_package(trimmed)
        .or_else(|err| match err {
            PackageError::Name(_) => Ok(None),
            other => Err(other),
        })?;
    let separator = trimmed
        .iter()
        .position(|byte| char::from(*byte) == COMPONENTS_BEFORE);
    let Some(path) = separator.and_then(|at| trimmed.get(at + 1..)) else {
        if kind == EntryType::Directory {
            return Ok(());
        }
        return Err(PackageError::Name(String::from_utf8_lossy(trimmed).into_owned()).into());
    };
    let found = match kind {
        EntryType::Directory => EntryContent::Directory,
        EntryType::Symlink => EntryContent::Link(entry.link_name_bytes().unwrap_or_default().into_owned()),
        EntryType::Regular | EntryType::Continuous => {
            if builder.path_in_package(path)?.is_none() {
                return Ok(());
            }
            let mode = match entry.header().mode().unwrap_or(0o644) & 0o100 {
                0 => FileMode::Regular,
                _ => FileMode::Executable,
            };
            let bytes_max = builder.bytes_left();
            let mut content = Vec::new();
            entry
                .take(bytes_max.saturating_add(1))
                .read_to_end(&mut content)?;
            EntryContent::File(mode, content.into())
        }
        _ => EntryContent::Special,
    };
    Ok(builder.add(path, found)?)
}
