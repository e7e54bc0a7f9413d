//! The limits of confined processes.

use std::path::Path;

/// The limits of a sandbox worker.
pub(crate) struct WorkerLimits {
    /// Bytes of memory beyond what the process uses now.
    pub(crate) memory_bytes_max: u64,
    /// Seconds of processor time.
    pub(crate) processor_seconds_max: u64,
}

/// An external program and its limits.
pub(crate) struct ExternalProgram<'a> {
    pub(crate) program: &'a Path,
    /// The only directory the program sees.
    pub(crate) directory: &'a Path,
    /// The directory that the program may write, which is `directory` or in it.
    pub(crate) writable: Option<&'a Path>,
    /// Bytes of a file that the program may write there.
    pub(crate) file_bytes_max: u64,
    /// Bytes of memory in use.
    pub(crate) memory_bytes_max: u64,
    /// Seconds of processor time.
    pub(crate) processor_seconds_max: u64,
}
