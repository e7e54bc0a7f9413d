//! A gzip reader with bounds: an archive that unpacks to too many bytes ends as an error.

use flate2::read::MultiGzDecoder;
use std::cell::Cell;
use std::io::Read;
use std::rc::Rc;

/// Bytes below which the compression ratio is not checked.
const RATIO_BYTES_MIN: u64 = 1 << 20;
/// Bytes of everything before the content of an entry: its header, and the blocks for names that do not fit into it.
const HEADERS_BYTES_MAX: u64 = 64 << 10;

/// A reader of unpacked bytes. Reading fails if they exceed the bounds.
pub struct BoundedGzip<'a> {
    inner: MultiGzDecoder<&'a [u8]>,
    left: u64,
    bound: ExceededBound,
    exceeded: Option<ExceededBound>,
    headers: Rc<Cell<Option<u64>>>,
}

/// The bound that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExceededBound {
    /// The content has more than this many bytes.
    #[error("unpacks to more than {0} bytes")]
    Bytes(u64),
    /// The content has more than this many times the received bytes, as a decompression bomb does.
    #[error("unpacks to more than {0} times its size")]
    Ratio(u64),
    /// The names of an entry, which come before its content, have more than this many bytes.
    #[error("has an entry with more than {0} bytes of names")]
    Names(u64),
}

impl<'a> BoundedGzip<'a> {
    /// Creates a reader of at most `bytes_max` bytes, and of at most `ratio_max` times the received bytes. The ratio is
    /// not checked below one MiB.
    pub fn new(sent: &'a [u8], bytes_max: u64, ratio_max: u64) -> Self {
        let by_ratio = (sent.len() as u64).saturating_mul(ratio_max).max(RATIO_BYTES_MIN);
        Self {
            inner: MultiGzDecoder::new(sent),
            left: bytes_max.min(by_ratio),
            bound: match bytes_max <= by_ratio {
                true => ExceededBound::Bytes(bytes_max),
                false => ExceededBound::Ratio(ratio_max),
            },
            exceeded: None,
            headers: Rc::default(),
        }
    }

    /// Calls a function for each entry of the tar archive. The bytes before an entry's content are bounded, because the
    /// tar reader keeps names of any length in memory.
    pub fn each_entry<E: From<std::io::Error>>(
        &mut self,
        mut look: impl FnMut(usize, &mut tar::Entry<'_, &mut Self>) -> Result<(), E>,
    ) -> Result<(), E> {
        let headers = Rc::clone(&self.headers);
        let mut archive = tar::Archive::new(self);
        let mut entries = archive.entries()?;
        for index in 0.. {
            headers.set(Some(HEADERS_BYTES_MAX));
            let Some(entry) = entries.next() else { break };
            headers.set(None);
            let mut entry = entry?;
            look(index, &mut entry)?;
            // The unread rest of this entry must not count as the header of the next.
            std::io::copy(&mut entry, &mut std::io::sink())?;
        }
        Ok(())
    }

    /// Returns the exceeded bound. A format reader on top of this one cannot report it.
    pub fn exceeded(&self) -> Option<ExceededBound> {
        self.exceeded
    }
}

impl Read for BoundedGzip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let headers = self.headers.get().map(|left| left.checked_sub(count as u64));
        match (self.left.checked_sub(count as u64), headers) {
            (None, _) => self.exceeded = Some(self.bound),
            (Some(_), Some(None)) => self.exceeded = Some(ExceededBound::Names(HEADERS_BYTES_MAX)),
            (Some(left), headers) => {
                self.left = left;
                self.headers.set(headers.flatten());
                return Ok(count);
            }
        }
        Err(std::io::Error::other("too large"))
    }
}

impl std::fmt::Debug for BoundedGzip<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacked").finish_non_exhaustive()
    }
}
