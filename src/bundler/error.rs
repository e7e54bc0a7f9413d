//! The errors of bundler operations, in the words of jsonnet-bundler where it has words for them; advice names our own
//! program.

use super::fetch::FetchError;
use super::uri::UriError;
use crate::download::RemoteRefused;
use crate::model::PathError;
use crate::workspace::TreeError;

/// The reason an operation does nothing.
#[derive(Debug, thiserror::Error)]
pub enum BundlerError {
    /// The project has no `jsonnetfile.json`: it has to be initialised.
    #[error("failed to load jsonnetfile: open {0}: no such file or directory")]
    NoFile(String),
    /// The project has no lock, and an update starts from one: install first.
    #[error("failed to load lockfile: open {0}: no such file or directory")]
    NoLock(String),
    /// A rewrite needs the names of a lock, and there is none that can be read.
    #[error(
        "Failed to load lockFile: {0}.\nThe locks are required to compute the new import names. Make sure to run `drydock jb install` first."
    )]
    NoNames(String),
    /// A rewrite leads to files of `vendor/`, and there are none: install first.
    #[error("stat {0}: no such file or directory")]
    NoVendor(String),
    /// The project is initialised already.
    #[error("jsonnetfile.json already exists")]
    Exists,
    /// The `jsonnetfile.json` or its lock is not valid.
    #[error("{0}")]
    File(#[from] FileError),
    /// A package that was asked for is not named as packages are.
    #[error("{0}")]
    Uri(#[from] UriError),
    /// A legacy name fits one package only.
    #[error("Cannot use --legacy-name multiple times")]
    OneLegacyName,
    /// A name that would lie outside `vendor/`, or under which a file could not be stored.
    #[error("`{0}` is not a name for a package: it would not stay below `vendor/`")]
    Name(String),
    /// A version that is no commit, and that no branch or tag can have.
    #[error("`{0}` is not a version: use a branch, a tag or a commit of 40 hex digits")]
    Version(String),
    /// The project's directory is not a path inside the repository.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A directory outside the repository.
    #[error("local dependency `{0}` is outside the repository; only its own directories can be linked")]
    OutsideRepository(String),
    /// A local directory that is not there.
    #[error("failed to install packages: downloading: symlink destination path does not exist: `{0}`")]
    NoDirectory(String),
    /// The remote is not one that may be asked. Refused before anything is, where jsonnet-bundler
    /// would download.
    #[error("failed to install packages: downloading: {0}")]
    Remote(#[from] RemoteRefused),
    /// The package could not be had.
    #[error("failed to install packages: downloading: `{package}`: {source}")]
    Download {
        /// The package.
        package: String,
        /// The reason.
        source: FetchError,
    },
    /// The remote sends something else than what was locked.
    #[error("failed to install packages: checksum mismatch for {package}. Expected {expected} but got {got}")]
    Checksum {
        /// The package.
        package: String,
        /// The sum of the lock.
        expected: String,
        /// The sum of what came.
        got: String,
    },
    /// More packages than a project may have.
    #[error("more than {0} packages; a dependency of a dependency asks for too much")]
    TooMany(usize),
    /// More files than can be compared.
    #[error("`vendor/` has more than {0} bytes; delete what no package needs")]
    TooLarge(u64),
    /// Two packages want to be in each other's place.
    #[error("`vendor/{0}` would be a file and a directory at once; rename one of the two packages")]
    Clash(String),
    /// The workspace could not be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

/// The reason a `jsonnetfile.json` or its lock is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// Written by something newer than we know.
    #[error("jsonnetfile version unknown, update drydock")]
    Unknown,
    /// Not JSON, or not of the form such a file has.
    #[error("`{file}`: {why}")]
    Malformed {
        /// The file.
        file: String,
        /// The reason it is not valid.
        why: String,
    },
}
