//! What was packed with gzip, read within bounds, so that a few bytes that unpack to very many end as an
//! error.

use flate2::read::MultiGzDecoder;
use std::io::Read;

/// Below this, how far something unpacks says nothing.
const RATIO_BYTES_MIN: u64 = 1 << 20;

/// The bytes that something unpacks to. Reading fails when they are more than allowed.
pub struct Unpacked<'a> {
    inner: MultiGzDecoder<&'a [u8]>,
    left: u64,
    bound: Exceeded,
    over: bool,
}

/// Which bound there is too much for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// It has more than so many bytes.
    #[error("unpacks to more than {0} bytes")]
    Bytes(u64),
    /// It has more than so many times the bytes that were sent, as a bomb has.
    #[error("unpacks to more than {0} times its size")]
    Ratio(u64),
}

impl<'a> Unpacked<'a> {
    /// At most `bytes_max`, and `ratio_max` times what was sent; that is not looked at below a MiB.
    pub fn new(sent: &'a [u8], bytes_max: u64, ratio_max: u64) -> Self {
        let by_ratio = (sent.len() as u64).saturating_mul(ratio_max).max(RATIO_BYTES_MIN);
        Self {
            inner: MultiGzDecoder::new(sent),
            left: bytes_max.min(by_ratio),
            bound: match bytes_max <= by_ratio {
                true => Exceeded::Bytes(bytes_max),
                false => Exceeded::Ratio(ratio_max),
            },
            over: false,
        }
    }

    /// The bound that was reached. Who reads a format out of this cannot tell why it ended.
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.over.then_some(self.bound)
    }
}

impl Read for Unpacked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => {
                self.over = true;
                return Err(std::io::Error::other("too large"));
            }
        }
        Ok(count)
    }
}

impl std::fmt::Debug for Unpacked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacked").finish_non_exhaustive()
    }
}
