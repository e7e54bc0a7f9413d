//! Large texts that wait to be read. They lie in unnamed files and are mapped, so the system can reclaim the memory of
//! texts that are not in use.

use bytes::Bytes;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes from which a text goes to a file.
const LARGE_BYTES: usize = 512 << 10;

/// Bytes of all spooled texts at a time. Beyond that nothing more is evaluated, so that the disk keeps room for the
/// database.
pub(crate) const BYTES_MAX: u64 = 4 << 30;

/// Bytes of all spooled texts that exist now.
static BYTES: AtomicU64 = AtomicU64::new(0);

/// A directory for spooled texts. If a text cannot be written there, a warning is logged and the text stays in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spool(Option<PathBuf>);

impl Spool {
    /// Creates a spool that keeps large texts in files in `directory`, which is created if needed.
    pub(crate) fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self(Some(directory.into()))
    }

    /// True if a text of `bytes` fits. A small text stays in memory and always fits.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let is_file = self.0.is_some() && bytes >= LARGE_BYTES;
        !is_file || BYTES.load(Ordering::Relaxed).saturating_add(bytes as u64) <= BYTES_MAX
    }

    /// Returns the same bytes, backed by a file if they are large. May block on the disk.
    pub(crate) fn keep(&self, text: Vec<u8>) -> Bytes {
        let Some(directory) = self.0.as_ref().filter(|_| text.len() >= LARGE_BYTES) else {
            return text.into();
        };
        let written = std::fs::create_dir_all(directory)
            .and_then(|()| tempfile::tempfile_in(directory))
            .and_then(|mut file| {
                file.write_all(&text)?;
                map(&file)
            });
        written.unwrap_or_else(|error| {
            let bytes = text.len();
            tracing::warn!(%error, bytes, "a large text is kept in memory, since it cannot be written to the disk");
            text.into()
        })
    }
}

/// Maps a file that has no name and is no longer written.
#[allow(unsafe_code)]
fn map(file: &File) -> std::io::Result<Bytes> {
    // SAFETY: the file never had a name that others could open it by, or has none any more, and its only descriptor is
    // closed when this is done: nothing can change or truncate it while it is mapped.
    let mapping = unsafe { memmap2::Mmap::map(file)? };
    Ok(Bytes::from_owner(CountedMapping::new(mapping)))
}

/// A mapping whose bytes count as spooled while it exists.
struct CountedMapping(memmap2::Mmap);

impl CountedMapping {
    fn new(mapping: memmap2::Mmap) -> Self {
        BYTES.fetch_add(mapping.len() as u64, Ordering::Relaxed);
        Self(mapping)
    }
}

impl AsRef<[u8]> for CountedMapping {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for CountedMapping {
    fn drop(&mut self) {
        BYTES.fetch_sub(self.0.len() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]
    use super::{BYTES, BYTES_MAX, LARGE_BYTES, Spool};
    use std::sync::atomic::Ordering;

    /// Other tests spool texts at the same time, but none of this size.
    #[test]
    fn the_bytes_spooled_to_files_are_bounded() {
        let place = tempfile::tempdir().unwrap();
        let (spool, memory) = (Spool::in_directory(place.path()), Spool::default());
        let all = usize::try_from(BYTES_MAX).unwrap();
        assert!(spool.has_room(LARGE_BYTES) && !spool.has_room(all + 1) && memory.has_room(all + 1));
        let before = BYTES.load(Ordering::Relaxed);
        let kept = spool.keep(vec![b'a'; 64 << 20]);
        assert!(BYTES.load(Ordering::Relaxed) >= 64 << 20 && !spool.has_room(all - (32 << 20)));
        drop(kept);
        assert!(BYTES.load(Ordering::Relaxed) < before + (64 << 20));
    }

    #[test]
    fn a_text_that_cannot_be_written_stays_in_memory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let spool = Spool::in_directory(file.path().join("below a file"));
        assert_eq!(spool.keep(vec![b'x'; LARGE_BYTES]), vec![b'x'; LARGE_BYTES]);
        let memory = Spool::default().keep(vec![b'y'; LARGE_BYTES]);
        assert_eq!(memory, vec![b'y'; LARGE_BYTES]);
    }
}
