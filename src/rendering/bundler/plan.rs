//! Computes the actions for a list of dependencies without performing them, from the list, the lock file and the
//! content of `vendor/`.

use super::dependency::{Dependency, PackageSource};
use super::error::BundlerError;
use super::vendor::Vendor;
use crate::base::model::RepoPath;
use std::collections::{BTreeMap, BTreeSet};

/// The action for one dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackageAction {
    /// No action, because the locked package is in place.
    Keep(Dependency),
    /// A download of the files at this version. If a checksum was locked, the files must match it.
    Fetch {
        /// The dependency to fetch. Its version is the locked one, if there is one.
        dependency: Dependency,
        /// The locked checksum.
        expected: Option<String>,
    },
    /// A link to a directory in the repository.
    Link(Dependency),
}

/// The locked dependencies by name, and those that are known to be in place.
#[derive(Clone, Debug, Default)]
pub struct LockedDependencies {
    entries: BTreeMap<String, Dependency>,
    in_place: BTreeSet<String>,
}

impl LockedDependencies {
    /// Creates the set of locked dependencies. None of them is known to be in place.
    pub fn new(entries: impl IntoIterator<Item = Dependency>) -> Self {
        let entries = entries.into_iter().map(|entry| (entry.name(), entry)).collect();
        Self {
            entries,
            in_place: BTreeSet::new(),
        }
    }

    /// Records that a dependency was put in place.
    pub(super) fn mark_in_place(&mut self, dependency: Dependency) {
        self.in_place.insert(dependency.name());
        self.entries.insert(dependency.name(), dependency);
    }
}

/// Returns the action for each dependency, in the same order. A locked version has priority over the list. Only an
/// update changes it.
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

/// True if the locked package is in `vendor/`. A local directory changes during work, so it only has to exist.
fn is_intact(locked: &Dependency, vendor: &Vendor) -> bool {
    match &locked.source {
        PackageSource::Local(local) => vendor.has_link_target(&local.name),
        PackageSource::Git(_) => {
            !locked.sum.is_empty() && vendor.sum(&locked.name()).as_ref() == Some(&locked.sum)
        }
    }
}

/// Checks that a name is a path below `vendor/`.
pub(super) fn check_name(name: &str) -> Result<(), BundlerError> {
    match RepoPath::parse(name) {
        Ok(path) if path.as_str() == name => Ok(()),
        Ok(_) | Err(_) => Err(BundlerError::Name(name.chars().take(200).collect())),
    }
}

/// Checks that a short name is a single path component.
fn check_legacy_name(name: &str) -> Result<(), BundlerError> {
    match name.contains('/') {
        true => Err(BundlerError::Name(name.chars().take(200).collect())),
        false => check_name(name),
    }
}

/// Checks that a version is a commit or a valid name of a branch or tag.
pub(super) fn check_version(version: &str) -> Result<(), BundlerError> {
    let refused = || BundlerError::Version(version.chars().take(200).collect());
    let reference = format!("refs/tags/{version}");
    let is_name = !version.starts_with('-')
        && version.len() <= 250
        && gix_validate::reference::name(reference.as_str().into()).is_ok();
    is_name.then_some(()).ok_or_else(refused)
}
