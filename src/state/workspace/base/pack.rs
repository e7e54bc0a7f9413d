//! The packed file of a base: the text blobs of one commit in sequence, and a table of their positions. The file is
//! private, written once, renamed into place and never modified.
//!
//! Layout, all numbers little-endian:
//! header (96 bytes) | text, files separated by `\n` | table of 60-byte records | names.

use crate::state::workspace::hash::ObjectName;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;

const MAGIC: &[u8; 8] = b"DRYDOCKB";
const VERSION: u32 = 2;
pub(super) const HEADER_BYTES: usize = 96;
/// Number of bytes of the header before its checksum.
const SUMMED_BYTES: usize = 72;
pub(super) const RECORD_BYTES: usize = 60;

/// The entry of one file in the table of a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileRecord {
    /// The object name of the blob.
    pub blob: ObjectName,
    /// The offset of the file name in the block of names.
    pub name_start: u32,
    /// The length of the file name in bytes.
    pub name_bytes: u32,
    /// The mode: `R` for regular, `X` for executable, `L` for link.
    pub mode: u8,
    /// True if the content is part of the packed text.
    pub packed: bool,
    /// The size of the file in bytes.
    pub size: u64,
    /// The offset of the content in the packed text.
    pub text_start: u64,
}

impl FileRecord {
    pub(super) fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = Vec::with_capacity(RECORD_BYTES);
        bytes.extend_from_slice(&self.blob);
        bytes.extend_from_slice(&self.name_start.to_le_bytes());
        bytes.extend_from_slice(&self.name_bytes.to_le_bytes());
        bytes.extend_from_slice(&[self.mode, u8::from(self.packed), 0, 0]);
        bytes.extend_from_slice(&self.size.to_le_bytes());
        bytes.extend_from_slice(&self.text_start.to_le_bytes());
        let mut record = [0; RECORD_BYTES];
        record.copy_from_slice(&bytes);
        record
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            blob: bytes.get(..32)?.try_into().ok()?,
            name_start: u32_at(bytes, 32)?,
            name_bytes: u32_at(bytes, 36)?,
            mode: *bytes.get(40)?,
            packed: *bytes.get(41)? == 1,
            size: u64_at(bytes, 44)?,
            text_start: u64_at(bytes, 52)?,
        })
    }
}

/// The contents of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub commit: ObjectName,
    pub files: u32,
    pub skipped_submodules: u32,
    pub skipped_names: u32,
    pub text_bytes: u64,
}

impl Header {
    /// Encodes the header of a file whose table and names are `tail`.
    pub(super) fn encode(&self, tail: &[u8]) -> [u8; HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.files.to_le_bytes());
        bytes.extend_from_slice(&self.skipped_submodules.to_le_bytes());
        bytes.extend_from_slice(&self.skipped_names.to_le_bytes());
        bytes.extend_from_slice(&self.text_bytes.to_le_bytes());
        bytes.extend_from_slice(&(tail.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&self.commit);
        let sum = checksum(&bytes, tail);
        bytes.extend_from_slice(sum.get(..HEADER_BYTES - SUMMED_BYTES).unwrap_or_default());
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&bytes);
        header
    }

    /// Decodes the header and the length of the tail. Returns `None` for a foreign file or another version.
    fn decode(bytes: &[u8]) -> Option<(Self, u64)> {
        if bytes.get(..8)? != MAGIC || u32_at(bytes, 8)? != VERSION {
            return None;
        }
        let header = Self {
            files: u32_at(bytes, 12)?,
            skipped_submodules: u32_at(bytes, 16)?,
            skipped_names: u32_at(bytes, 20)?,
            text_bytes: u64_at(bytes, 24)?,
            commit: bytes.get(40..SUMMED_BYTES)?.try_into().ok()?,
        };
        Some((header, u64_at(bytes, 32)?))
    }
}

fn checksum(header: &[u8], tail: &[u8]) -> [u8; 32] {
    Sha256::new()
        .chain_update(header)
        .chain_update(tail)
        .finalize()
        .into()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(
        bytes.get(at..at.checked_add(8)?)?.try_into().ok()?,
    ))
}

/// A memory-mapped packed file.
pub(super) struct PackedBase {
    bytes: Bytes,
    header: Header,
    table: Range<usize>,
    names: Range<usize>,
}

impl std::fmt::Debug for PackedBase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pack")
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

impl PackedBase {
    /// Maps the file. Returns `None` if it is missing, incomplete, of another version or of another commit.
    #[allow(clippy::disallowed_methods, reason = "the workspace owns its packs")]
    pub(super) fn open(path: &Path, commit: ObjectName) -> Option<Self> {
        Self::read(File::open(path).ok()?, commit)
    }

    /// Maps an open file, which is read from its beginning.
    pub(super) fn read(mut file: File, commit: ObjectName) -> Option<Self> {
        let mut header_bytes = [0; HEADER_BYTES];
        file.read_exact(&mut header_bytes).ok()?;
        let (header, tail_bytes) = Header::decode(&header_bytes)?;
        let text_end = (HEADER_BYTES as u64).checked_add(header.text_bytes)?;
        let length = text_end.checked_add(tail_bytes)?;
        if header.commit != commit || file.metadata().ok()?.len() != length {
            return None;
        }
        let text_end = usize::try_from(text_end).ok()?;
        let table_end =
            text_end.checked_add(usize::try_from(header.files).ok()?.checked_mul(RECORD_BYTES)?)?;
        let length = usize::try_from(length).ok()?;
        if table_end > length {
            return None;
        }
        let bytes = map(&file)?;
        let sum = checksum(bytes.get(..SUMMED_BYTES)?, bytes.get(text_end..length)?);
        if bytes.get(SUMMED_BYTES..HEADER_BYTES)? != sum.get(..HEADER_BYTES - SUMMED_BYTES)? {
            return None;
        }
        Some(Self {
            bytes,
            header,
            table: text_end..table_end,
            names: table_end..length,
        })
    }

    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    pub(super) fn len(&self) -> usize {
        self.header.files as usize
    }

    pub(super) fn record(&self, index: usize) -> Option<FileRecord> {
        let table = self.bytes.get(self.table.clone())?;
        let start = index.checked_mul(RECORD_BYTES)?;
        FileRecord::decode(table.get(start..start.checked_add(RECORD_BYTES)?)?)
    }

    /// Returns the path of a file as bytes.
    pub(super) fn name(&self, record: &FileRecord) -> &[u8] {
        let start = record.name_start as usize;
        let end = start.saturating_add(record.name_bytes as usize);
        let names = self.bytes.get(self.names.clone()).unwrap_or_default();
        names.get(start..end).unwrap_or_default()
    }

    /// Returns the whole text, with the files separated by line ends.
    pub(super) fn text(&self) -> &[u8] {
        let end = self.table.start;
        self.bytes.get(HEADER_BYTES..end).unwrap_or_default()
    }

    /// Returns the content of one packed file without copying it.
    pub(super) fn content(&self, record: &FileRecord) -> Option<Bytes> {
        let start = HEADER_BYTES.checked_add(usize::try_from(record.text_start).ok()?)?;
        let end = start.checked_add(usize::try_from(record.size).ok()?)?;
        (record.packed && end <= self.table.start).then(|| self.bytes.slice(start..end))
    }

    /// Returns the first file whose path is not less than `path`.
    pub(super) fn lower_bound(&self, path: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let less = self
                .record(middle)
                .is_some_and(|record| self.name(&record) < path);
            if less { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Returns the last file that starts at or before `offset` in the text. The table is sorted by offset, because
    /// an unpacked file carries the offset where its content would be.
    pub(super) fn at_offset(&self, offset: u64) -> Option<FileRecord> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let before = self
                .record(middle)
                .is_some_and(|record| record.text_start <= offset);
            if before { low = middle + 1 } else { high = middle }
        }
        let mut index = low.checked_sub(1)?;
        loop {
            let record = self.record(index)?;
            if record.packed {
                return Some(record);
            }
            index = index.checked_sub(1)?;
        }
    }
}

/// Maps a file that only this process writes, under a temporary name or without one, and that is never modified in place.
#[allow(unsafe_code)]
fn map(file: &File) -> Option<Bytes> {
    // SAFETY: the file has mode 0600 and is in the data directory of this product. It is written under a temporary
    // name, renamed into place and never changed or truncated after that. Pruning only unlinks it, which leaves
    // existing mappings valid. A file without a name cannot be opened by others, and its writer is done.
    let mapping = unsafe { memmap2::Mmap::map(file) }.ok()?;
    Some(Bytes::from_owner(mapping))
}
