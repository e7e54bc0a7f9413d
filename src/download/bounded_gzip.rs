//! Reading of gzip within bounds, so that a few bytes that unpack to very many end as an error.

use flate2::read::MultiGzDecoder;
use std::cell::Cell;
use std::io::Read;
use std::rc::Rc;

/// Bytes below which the ratio of unpacking says nothing.
const RATIO_BYTES_MIN: u64 = 1 << 20;
/// Bytes of all that stands before the content of an entry: its header, and what holds a name that is too long for one.
const HEADERS_BYTES_MAX: u64 = 64 << 10;

/// The bytes that something unpacks to. Reading fails when they are more than allowed.
pub struct BoundedGzip<'a> {
    inner: MultiGzDecoder<&'a [u8]>,
    left: u64,
    bound: ExceededBound,
    exceeded: Option<ExceededBound>,
    headers: Rc<Cell<Option<u64>>>,
}

/// The bound that is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExceededBound {
    /// The content has more than so many bytes.
    #[error("unpacks to more than {0} bytes")]
    Bytes(u64),
    /// The content has more than so many times the bytes that were sent, as a bomb has.
    #[error("unpacks to more than {0} times its size")]
    Ratio(u64),
    /// The names of an entry, which stand before its content, have more than so many bytes.
    #[error("has an entry with more than {0} bytes of names")]
    Names(u64),
}

impl<'a> BoundedGzip<'a> {
    /// Makes a reader of at most `bytes_max`, and of `ratio_max` times what was sent; the ratio is not looked at
    /// below a MiB.
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

    /// Goes through the entries of the tar archive. The bytes read for an entry before its content are bounded: the
    /// reader of the format holds names whole, however long they say they are.
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
            // What nobody wanted is no header of the next one.
            std::io::copy(&mut entry, &mut std::io::sink())?;
        }
        Ok(())
    }

    /// The bound that was reached. Who reads a format out of this cannot tell why it ended.
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
