//! The actions a list of dependencies needs, decided without performing them: from the list, the lock and the content of `vendor/`.

use super::dependency::{Dependency, PackageSource};
use super::error::BundlerError;
use super::vendor::Vendor;
use crate::model::RepoPath;
use std::collections::{BTreeMap, BTreeSet};

/// The action one dependency needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackageAction {
    /// No action: the locked package is there.
    Keep(Dependency),
    /// A download of the package's files at this version. The sum is the one they have to have, where one was locked.
    Fetch {
        /// The dependency to fetch; its version is the locked one if there is one.
        dependency: Dependency,
        /// The sum of the lock.
        expected: Option<String>,
    },
    /// A link to a directory of the repository.
    Link(Dependency),
}

/// The locked dependencies, by name, and which of them are known to be in place.
#[derive(Clone, Debug, Default)]
pub struct LockedDependencies {
    entries: BTreeMap<String, Dependency>,
    in_place: BTreeSet<String>,
}

impl LockedDependencies {
    /// The entries of a lock. None of them is known to be in place.
    pub fn new(entries: impl IntoIterator<Item = Dependency>) -> Self {
        let entries = entries.into_iter().map(|entry| (entry.name(), entry)).collect();
        Self {
            entries,
            in_place: BTreeSet::new(),
        }
    }

    /// Notes that a dependency was put in place.
    pub(super) fn mark_in_place(&mut self, dependency: Dependency) {
        self.in_place.insert(dependency.name());
        self.entries.insert(dependency.name(), dependency);
    }
}

/// Returns the action each dependency needs, in their order. A locked version counts, whatever the list says: whoever wants another one
/// asks for an update.
pub fn plan(
    wanted: &[Dependency],
    locks: &LockedDependencies,
    vendor: &Vendor,
) -> Result<Vec<PackageAction>, BundlerError> {
    wanted
        .iter()
        .map(|dependency| action(dependency, locks, vendor))
        .collect()
}

fn action(
    wanted: &Dependency,
    locks: &LockedDependencies,
    vendor: &Vendor,
) -> Result<PackageAction, BundlerError> {
    let name = wanted.name();
    check_name(&name)?;
    check_legacy_name(&wanted.legacy_name())?;
    let locked = locks.entries.get(&name);
    let mut dependency = wanted.clone();
    if let Some(locked) = locked {
        if locks.in_place.contains(&name) || is_intact(locked, vendor) {
            check_legacy_name(&locked.legacy_name())?;
            return Ok(PackageAction::Keep(locked.clone()));
        }
        dependency.version.clone_from(&locked.version);
    }
    match dependency.source {
        PackageSource::Local(_) => Ok(PackageAction::Link(dependency)),
        PackageSource::Git(_) => {
            check_version(&dependency.version)?;
            let expected = locked
                .map(|locked| locked.sum.clone())
                .filter(|sum| !sum.is_empty());
            Ok(PackageAction::Fetch { dependency, expected })
        }
    }
}

/// Returns true if the locked package lies in `vendor/`. A local directory changes while one works on it, so it only has to be there.
fn is_intact(locked: &Dependency, vendor: &Vendor) -> bool {
    match &locked.source {
        PackageSource::Local(local) => vendor.has_link_target(&local.name),
        PackageSource::Git(_) => {
            !locked.sum.is_empty() && vendor.sum(&locked.name()).as_ref() == Some(&locked.sum)
        }
    }
}

/// A name has to be a path that stays below `vendor/`.
pub(super) fn check_name(name: &str) -> Result<(), BundlerError> {
    match RepoPath::parse(name) {
        Ok(path) if path.as_str() == name => Ok(()),
        Ok(_) | Err(_) => Err(BundlerError::Name(name.chars().take(200).collect())),
    }
}

/// A short name is one component.
fn check_legacy_name(name: &str) -> Result<(), BundlerError> {
    match name.contains('/') {
        true => Err(BundlerError::Name(name.chars().take(200).collect())),
        false => check_name(name),
    }
}

/// A commit, or what a branch or a tag can be called.
pub(super) fn check_version(version: &str) -> Result<(), BundlerError> {
    let refused = || BundlerError::Version(version.chars().take(200).collect());
    let reference = format!("refs/tags/{version}");
    let is_name = !version.starts_with('-')
        && version.len() <= 250
        && gix_validate::reference::name(reference.as_str().into()).is_ok();
    is_name.then_some(()).ok_or_else(refused)
}
