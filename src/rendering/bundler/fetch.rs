//! Fetching of packages: a version resolves to a commit, and a commit to files. All requests go through one trait,
//! so that an operation works in the same way with a test fixture, a cache and the network.

use super::archive::PackageArchiveError;
use super::dependency::Git;
use super::snapshot::{PackageError, PackageSnapshot};
use crate::state::download::{DownloadError, DownloadObserver, RemoteRefused};
use std::sync::Arc;

/// The two methods to get the files of a commit. A repository can exclude or change files in its archives, so the
/// two methods can give different checksums. A lock file may have been made with either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FetchMethod {
    /// The method that jsonnet-bundler tries first: an archive if the host has one, otherwise the files as stored
    /// in git.
    Preferred,
    /// The other method, if there is one.
    Alternative,
}

/// The reason why a package could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The remote is not allowed.
    #[error(transparent)]
    Refused(#[from] RemoteRefused),
    /// The network is off.
    #[error(
        "downloads of packages are disabled; an operator allows hosts with `[bundler] hosts_allowed`, such as [\"github.com\"]"
    )]
    FetchDisabled,
    /// No branch, tag or commit has this name.
    #[error("`{0}` has no tag, branch or commit of that name")]
    NoVersion(String),
    /// The package cannot be fetched in another way.
    #[error("there is no other way to fetch this package")]
    NoAlternative,
    /// The archive is not a valid package.
    #[error(transparent)]
    Archive(#[from] PackageArchiveError),
    /// The files of the repository are not a valid package.
    #[error("repository {0}")]
    Repository(PackageError),
    /// The remote is unreachable or gave an invalid response.
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

/// A source of packages. Both methods may block for a long time.
pub trait Fetch: Send + Sync {
    /// Returns the commit of a version as 40 hex digits: a commit itself, otherwise the peeled tag with exactly
    /// that name, otherwise the branch.
    fn resolve(&self, git: &Git, version: &str, watch: &DownloadObserver) -> Result<String, FetchError>;

    /// Returns the files of the package at a commit.
    fn fetch(
        &self,
        git: &Git,
        commit: &str,
        form: FetchMethod,
        watch: &DownloadObserver,
    ) -> Result<Arc<PackageSnapshot>, FetchError>;
}

/// A source without a network. It refuses every package and explains how to allow hosts.
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
