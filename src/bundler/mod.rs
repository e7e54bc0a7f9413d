//! Packages of Jsonnet, as jsonnet-bundler manages them: `jsonnetfile.json` says what a project
//! wants, `jsonnetfile.lock.json` what it got, `vendor/` holds the files.
//!
//! Read `operation.rs` first. An operation reads a tree, asks [`Fetch`] for what is missing, and
//! answers with the writes and deletions that make it so; it changes nothing itself, and names
//! nothing outside `vendor/` and the two files, but for [`rewrite`], which changes imports of programs.
//! A [`Layer`] is made of what a remote sends only after a check: there is no way to make one with a path
//! that leaves its package, or with a link.

mod archive;
mod dependency;
mod error;
mod export;
mod fetch;
mod file;
mod git;
mod layer;
mod network;
mod operation;
mod plan;
mod project;
mod rewrite;
mod settle;
mod shelf;
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

pub use archive::{ArchiveError, ArchiveLimits};
pub use dependency::{Dependency, Git, Local, Scheme, Source};
pub use error::{BundlerError, FileError};
pub use fetch::{Fetch, FetchError, Form, Offline};
pub use file::JsonnetFile;
pub use layer::{Entry, Layer, LayerError, PackageId};
pub use network::Network;
pub use operation::{Install, Listed, Prepared, init, install, list, update};
pub use plan::{Action, plan};
pub use project::{FILE, LOCK_FILE, Project, VENDOR};
pub use rewrite::rewrite;
pub use settle::{Fate, Notice, Package};
pub use uri::{UriError, parse as parse_uri};
pub use vendor::Vendor;
