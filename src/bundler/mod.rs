//! Packages of Jsonnet, as jsonnet-bundler manages them: `jsonnetfile.json` says what a project
//! wants, `jsonnetfile.lock.json` what it got, `vendor/` holds the files.
//!
//! Read `operation.rs` first. An operation reads a tree, asks [`Fetch`] for what is missing, and
//! answers with the writes and deletions that make it so; it changes nothing itself, and names
//! nothing outside `vendor/` and the two files, but for [`rewrite`], which changes imports of programs.
//! A [`PackageSnapshot`] is made of what a remote sends only after a check: there is no way to make one with a path
//! that leaves its package, or with a link.

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
