//! The bounds of processes that are confined.

use std::path::Path;

/// The bounds of a sandbox worker.
pub(crate) struct WorkerLimits {
    /// Bytes of memory beyond what the process has now.
    pub(crate) memory_bytes_max: u64,
    /// Seconds of processor time.
    pub(crate) processor_seconds_max: u64,
}

/// A program that is not ours, and its bounds.
pub(crate) struct ExternalProgram<'a> {
    pub(crate) program: &'a Path,
    /// The only directory the program sees.
    pub(crate) directory: &'a Path,
    /// Bytes of a file it may write there; 0 when it may write none.
    pub(crate) file_bytes_max: u64,
    /// Bytes of memory in use.
    pub(crate) memory_bytes_max: u64,
    /// Seconds of processor time.
    pub(crate) processor_seconds_max: u64,
}
