//! Builds the packed file of one commit from the object database. Blobs that the previous base holds are copied
//! from it. The others are inflated on two threads.

use super::pack::{FileRecord, HEADER_BYTES, Header};
use super::{Base, BaseProgress};
use crate::state::workspace::RepositoryError;
use crate::state::workspace::hash::{self, ObjectName};
use crate::state::workspace::repository::{CommitFile, CommitListing, ObjectDatabase};
use bytes::Bytes;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Maximum size of a packed text in bytes. Larger text is read from the object database on demand and is not
/// searched.
const TEXT_BYTES_MAX: u64 = 16 << 20;
/// Number of files that are inflated before they are written.
const BATCH_FILES: usize = 256;
/// Number of bytes that are inflated before they are written. One file may exceed it.
const BATCH_BYTES: u64 = 32 << 20;

/// Writes the packed file for `commit` to `path` atomically.
pub(super) fn build(
    path: &Path,
    commit: ObjectName,
    listing: &CommitListing,
    objects: &ObjectDatabase,
    previous: Option<&Base>,
    progress: &dyn Fn(BaseProgress),
) -> Result<(), RepositoryError> {
    let temporary = path.with_extension(format!("{}{}", super::prune::UNFINISHED, std::process::id()));
    let written = create(&temporary)
        .and_then(|file| write(file, commit, listing, objects, previous, progress))
        .and_then(|_| std::fs::rename(&temporary, path).map_err(|err| disk(&err)));
    if written.is_err() {
        // If this unfinished file cannot be removed now, building the next base or the next start removes it.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// Writes the packed file for `commit` without a name, in a directory with room for it.
pub(super) fn build_unnamed(
    directory: &Path,
    commit: ObjectName,
    listing: &CommitListing,
    objects: &ObjectDatabase,
) -> Result<File, RepositoryError> {
    let file = tempfile::tempfile_in(directory).map_err(|err| disk(&err))?;
    let mut file = write(file, commit, listing, objects, None, &|_| ())?;
    file.rewind().map_err(|err| disk(&err))?;
    Ok(file)
}

fn create(temporary: &Path) -> Result<File, RepositoryError> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(temporary).map_err(|err| disk(&err))
}

fn write(
    file: File,
    commit: ObjectName,
    listing: &CommitListing,
    objects: &ObjectDatabase,
    previous: Option<&Base>,
    progress: &dyn Fn(BaseProgress),
) -> Result<File, RepositoryError> {
    let mut out = std::io::BufWriter::with_capacity(1 << 20, file);
    out.write_all(&[0; HEADER_BYTES]).map_err(|err| disk(&err))?;

    let known = previous.map(by_blob).unwrap_or_default();
    let files = listing.entries.len();
    let mut table = Vec::new();
    let mut names = Vec::new();
    let mut text_bytes = 0_u64;
    let mut done = 0;
    for batch in batches(&listing.entries) {
        for (entry, content) in batch.iter().zip(read_batch(batch, objects, previous, &known)?) {
            let name_start = u32::try_from(names.len())
                .map_err(|_| RepositoryError::Unreadable("its file names are too long in all".to_owned()))?;
            names.extend_from_slice(entry.path.as_str().as_bytes());
            let record = FileRecord {
                blob: entry.blob,
                name_start,
                name_bytes: u32::try_from(entry.path.as_str().len()).unwrap_or(0),
                mode: super::mode_sign(entry.mode),
                packed: content.is_some(),
                size: content
                    .as_ref()
                    .map_or(entry.size, |content| content.len() as u64),
                text_start: text_bytes,
            };
            table.extend_from_slice(&record.encode());
            if let Some(content) = content {
                out.write_all(&content)
                    .and_then(|()| out.write_all(b"\n"))
                    .map_err(|err| disk(&err))?;
                text_bytes = text_bytes.saturating_add(record.size).saturating_add(1);
            }
        }
        done += batch.len();
        progress(BaseProgress { done, total: files });
    }
    let header = Header {
        commit,
        files: u32::try_from(files)
            .map_err(|_| RepositoryError::Unreadable("it has too many files".to_owned()))?,
        skipped_submodules: listing.skipped.submodules,
        skipped_names: listing.skipped.names,
        text_bytes,
    };
    table.extend_from_slice(&names);
    out.write_all(&table)
        .and_then(|()| out.seek(SeekFrom::Start(0)).map(|_| ()))
        .and_then(|()| out.write_all(&header.encode(&table)))
        .and_then(|()| out.flush())
        .and_then(|()| out.get_ref().sync_data())
        .map_err(|err| disk(&err))?;
    out.into_inner().map_err(|err| disk(err.error()))
}

fn batches(entries: &[CommitFile]) -> impl Iterator<Item = &[CommitFile]> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        let mut bytes = 0_u64;
        let mut count = 0;
        for entry in rest.iter().take(BATCH_FILES) {
            bytes = bytes.saturating_add(entry.size);
            count += 1;
            if bytes > BATCH_BYTES {
                break;
            }
        }
        let (batch, after) = rest.split_at_checked(count)?;
        rest = after;
        (!batch.is_empty()).then_some(batch)
    })
}

type ByBlob = HashMap<ObjectName, usize>;

fn by_blob(base: &Base) -> ByBlob {
    (0..base.len())
        .filter_map(|index| {
            base.pack
                .record(index)
                .filter(|record| record.packed)
                .map(|record| (record.blob, index))
        })
        .collect()
}

/// Returns the text of each file of the batch, or `None` for a file that is not packed.
fn read_batch(
    batch: &[CommitFile],
    objects: &ObjectDatabase,
    previous: Option<&Base>,
    known: &ByBlob,
) -> Result<Vec<Option<Bytes>>, RepositoryError> {
    let (left, right) = batch.split_at(batch.len() / 2);
    let read = |part: &[CommitFile]| -> Result<Vec<Option<Bytes>>, RepositoryError> {
        let repository = objects.thread_local();
        part.iter()
            .map(|entry| read_text(&repository, entry, previous, known))
            .collect()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| read(right));
        let mut contents = read(left)?;
        let others = other
            .join()
            .map_err(|_| RepositoryError::Unreadable("reading its files stopped".to_owned()))??;
        contents.extend(others);
        Ok(contents)
    })
}

fn read_text(
    repository: &gix::Repository,
    entry: &CommitFile,
    previous: Option<&Base>,
    known: &ByBlob,
) -> Result<Option<Bytes>, RepositoryError> {
    if entry.size > TEXT_BYTES_MAX {
        return Ok(None);
    }
    let kept = previous.zip(known.get(&entry.blob)).and_then(|(base, &index)| {
        let record = base.pack.record(index)?;
        base.pack.content(&record)
    });
    if let Some(content) = kept {
        return Ok(Some(content));
    }
    let blob = repository
        .find_object(hash::object_id(&entry.blob, repository.object_hash()))
        .map_err(|err| RepositoryError::Unreadable(err.to_string()))?
        .detach();
    let text = memchr::memchr(0, &blob.data).is_none();
    Ok(text.then(|| Bytes::from(blob.data)))
}

fn disk(err: &std::io::Error) -> RepositoryError {
    RepositoryError::Unreadable(format!("its base could not be stored: {err}"))
}
