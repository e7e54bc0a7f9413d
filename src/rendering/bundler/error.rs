//! The errors of bundler operations. Messages that also exist in jsonnet-bundler keep its wording. Advice names the
//! commands of this program.

use super::fetch::FetchError;
use super::uri::UriError;
use crate::base::model::PathError;
use crate::state::download::RemoteRefused;
use crate::state::workspace::TreeError;

/// The reason why an operation fails.
#[derive(Debug, thiserror::Error)]
pub enum BundlerError {
    /// The project has no `jsonnetfile.json` and must be initialized first.
    #[error("failed to load jsonnetfile: open {0}: no such file or directory")]
    NoFile(String),
    /// The project has no lock file. An update needs one, so the packages must be installed first.
    #[error("failed to load lockfile: open {0}: no such file or directory")]
    NoLock(String),
    /// A rewrite needs the names in a lock file, and there is no readable one.
    #[error(
        "Failed to load lockFile: {0}.\nThe locks are required to compute the new import names. Make sure to run `drydock jb install` first."
    )]
    NoNames(String),
    /// A rewrite needs the files in `vendor/`, and there are none. The packages must be installed first.
    #[error("stat {0}: no such file or directory")]
    NoVendor(String),
    /// The project is already initialized.
    #[error("jsonnetfile.json already exists")]
    Exists,
    /// The `jsonnetfile.json` or its lock file is not valid.
    #[error("{0}")]
    File(#[from] FileError),
    /// A requested package has an invalid address.
    #[error("{0}")]
    Uri(#[from] UriError),
    /// A legacy name was given for more than one package.
    #[error("Cannot use --legacy-name multiple times")]
    OneLegacyName,
    /// A package name is outside `vendor/` or cannot be the name of a file.
    #[error("`{0}` is not a name for a package: it would not stay below `vendor/`")]
    Name(String),
    /// A version is neither a commit nor a possible name of a branch or tag.
    #[error("`{0}` is not a version: use a branch, a tag or a commit of 40 hex digits")]
    Version(String),
    /// The directory of the project is not a path inside the repository.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A local directory is outside the repository.
    #[error("local dependency `{0}` is outside the repository; only its own directories can be linked")]
    OutsideRepository(String),
    /// A local directory does not exist.
    #[error("failed to install packages: downloading: symlink destination path does not exist: `{0}`")]
    NoDirectory(String),
    /// The remote is not allowed. This is checked before any request, where jsonnet-bundler would download.
    #[error("failed to install packages: downloading: {0}")]
    Remote(#[from] RemoteRefused),
    /// A package could not be downloaded.
    #[error("failed to install packages: downloading: `{package}`: {source}")]
    Download {
        /// The package.
        package: String,
        /// The reason.
        source: FetchError,
    },
    /// The downloaded files differ from the locked ones.
    #[error("failed to install packages: checksum mismatch for {package}. Expected {expected} but got {got}")]
    Checksum {
        /// The package.
        package: String,
        /// The locked checksum.
        expected: String,
        /// The checksum of the download.
        got: String,
    },
    /// The project has too many packages.
    #[error("more than {0} packages: a package requires too many others; remove it from `jsonnetfile.json`")]
    TooMany(usize),
    /// The files are too large to compare.
    #[error("`vendor/` has more than {0} bytes; delete files that no package needs")]
    TooLarge(u64),
    /// Two packages need the same path.
    #[error("`vendor/{0}` would be a file and a directory at once; rename one of the two packages")]
    Clash(String),
    /// The workspace could not be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

/// The reason why a `jsonnetfile.json` or its lock file is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The format version is newer than the supported ones.
    #[error("jsonnetfile version unknown, update drydock")]
    Unknown,
    /// The file is not JSON or does not have the expected structure.
    #[error("`{file}`: {why}")]
    Malformed {
        /// The file.
        file: String,
        /// The reason it is not valid.
        why: String,
    },
}
