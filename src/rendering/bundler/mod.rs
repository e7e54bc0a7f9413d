//! Jsonnet packages as managed by jsonnet-bundler: `jsonnetfile.json` lists the dependencies of a project,
//! `jsonnetfile.lock.json` the installed versions, and `vendor/` contains the files.
//!
//! Read `operation.rs` first. An operation reads a tree, requests missing packages through [`Fetch`], and returns
//! the necessary writes and deletions. It changes nothing itself, and affects only `vendor/` and the two files. The
//! exception is [`rewrite`], which changes imports in programs. A [`PackageSnapshot`] can only be built from
//! checked data: a path or link that leaves its package cannot occur in it.

mod archive;
mod dependency;
mod error;
mod export;
mod fetch;
mod file;
mod git;
mod snapshot;
mod network;
mod operation;
mod plan;
mod project;
mod rewrite;
mod resolution;
mod package_cache;
mod sum;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]
#[allow(
    clippy::disallowed_methods,
    reason = "tests build their own files and ask the real git"
)]
mod tests;
mod uri;
mod vendor;

pub use archive::{ArchiveLimits, PackageArchiveError};
pub use dependency::{Dependency, Git, Local, PackageSource, Scheme};
pub use error::{BundlerError, FileError};
pub use fetch::{Fetch, FetchError, FetchMethod, OfflineFetcher};
pub use file::JsonnetFile;
pub use network::NetworkFetcher;
pub use operation::{InstallRequest, ListedPackage, PreparedOperation, init, install, list, update};
pub use plan::{PackageAction, plan};
pub use project::{FILE, LOCK_FILE, Project, VENDOR};
pub use resolution::{Notice, PackageChange, PackageChangeKind};
pub use rewrite::rewrite;
pub use snapshot::{PackageError, PackageFile, PackageId, PackageSnapshot};
pub use uri::{UriError, parse as parse_uri};
pub use vendor::Vendor;
