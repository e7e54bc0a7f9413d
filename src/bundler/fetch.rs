//! The fetching of packages: a version becomes a commit, a commit becomes files. All requests go through this trait, so a test, a cache and
//! the network are the same to an operation.

use super::archive::PackageArchiveError;
use super::dependency::Git;
use super::snapshot::{PackageError, PackageSnapshot};
use crate::download::{DownloadError, DownloadObserver, RemoteRefused};
use std::sync::Arc;

/// The two ways to the files of a commit. A repository may say that its archives leave files out or
/// change them, so the two can have different sums, and a lock may have been made with either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FetchMethod {
    /// The form jsonnet-bundler tries first: an archive where the host has them, else the files as git keeps them.
    Preferred,
    /// The other form, if there is one.
    Alternative,
}

/// The reason a package could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The remote is not one that may be asked.
    #[error(transparent)]
    Refused(#[from] RemoteRefused),
    /// The network is off.
    #[error(
        "the network is off for packages; an operator allows hosts with `[bundler] hosts_allowed`, such as [\"github.com\"]"
    )]
    FetchDisabled,
    /// No branch, tag or commit has that name.
    #[error("`{0}` has no tag, branch or commit of that name")]
    NoVersion(String),
    /// The package has no other form.
    #[error("there is no other form of this package")]
    NoAlternative,
    /// The archive is no package.
    #[error(transparent)]
    Archive(#[from] PackageArchiveError),
    /// The repository's files are no package.
    #[error("repository {0}")]
    Repository(PackageError),
    /// The remote could not be reached, or did not answer as it should.
    #[error("{0}")]
    Remote(String),
    /// The fetch was stopped.
    #[error("the download was stopped")]
    Stopped,
}

impl From<DownloadError> for FetchError {
    fn from(err: DownloadError) -> Self {
        match err {
            DownloadError::Refused(refused) => Self::Refused(refused),
            DownloadError::Remote(why) => Self::Remote(why),
            DownloadError::Stopped => Self::Stopped,
        }
    }
}

/// A source of packages. Both methods may block for long.
pub trait Fetch: Send + Sync {
    /// The commit a version names, as 40 hex digits: a commit itself, else the tag of exactly that
    /// name, peeled, else the branch.
    fn resolve(&self, git: &Git, version: &str, watch: &DownloadObserver) -> Result<String, FetchError>;

    /// The files of the package at a commit.
    fn fetch(
        &self,
        git: &Git,
        commit: &str,
        form: FetchMethod,
        watch: &DownloadObserver,
    ) -> Result<Arc<PackageSnapshot>, FetchError>;
}

/// A source without a network: every package is refused with how to change that.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfflineFetcher;

impl Fetch for OfflineFetcher {
    fn resolve(&self, _git: &Git, _version: &str, _watch: &DownloadObserver) -> Result<String, FetchError> {
        Err(FetchError::FetchDisabled)
    }

    fn fetch(
        &self,
        _git: &Git,
        _commit: &str,
        _form: FetchMethod,
        _watch: &DownloadObserver,
    ) -> Result<Arc<PackageSnapshot>, FetchError> {
        Err(FetchError::FetchDisabled)
    }
}
