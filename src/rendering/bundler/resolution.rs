//! Resolves dependencies and their own dependencies until none is missing. The first resolution of a name is final,
//! and the direct dependencies of the project come first.

use super::dependency::{Dependency, Git, PackageSource};
use super::error::BundlerError;
use super::fetch::{Fetch, FetchError, FetchMethod};
use super::plan::{LockedDependencies, PackageAction, check_version, plan};
use super::project::{FILE, Project, VENDOR, join, under};
use super::snapshot::PackageSnapshot;
use super::vendor::Vendor;
use crate::base::model::RepoPath;
use crate::state::download::DownloadObserver;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of packages of a project, including indirect dependencies.
const PACKAGES_MAX: usize = 500;

/// A notice for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A local directory was linked.
    Linked {
        /// The name of the link.
        name: String,
        /// The directory in the repository.
        directory: String,
    },
    /// A package gets no short name, because the name is taken.
    NameTaken {
        /// The package.
        package: String,
        /// The short name.
        name: String,
        /// The package that has the name; `None` for a file or directory.
        by: Option<String>,
    },
}

impl std::fmt::Display for Notice {
    /// Formats the notice with the wording of jsonnet-bundler and with paths inside the repository.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Linked { name, directory } => write!(f, "LOCAL {name} -> {directory}"),
            Self::NameTaken { package, name, by } => {
                write!(f, "WARN: cannot link '{package}' to '{VENDOR}/{name}', because ")?;
                match by {
                    Some(by) => write!(f, "package '{by}' already uses that name. ")?,
                    None => write!(f, "the file/directory already exists. ")?,
                }
                write!(f, "The absolute import still works")
            }
        }
    }
}

/// The change of a package in an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PackageChangeKind {
    /// The package is new.
    Added,
    /// The package has a new version.
    Updated,
    /// The package was installed again in the same version, because its files were missing or changed.
    Restored,
    /// The package is unchanged.
    Kept,
    /// The package was removed, because no dependency needs it any more.
    Removed,
}

/// A package and its change.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PackageChange {
    /// The name.
    pub name: String,
    /// The kind of the change.
    pub fate: PackageChangeKind,
    /// The commit that was locked before.
    pub from: Option<String>,
    /// The commit that is locked now.
    pub to: Option<String>,
    /// The address of a page that shows the difference, if the host has one.
    pub compare: Option<String>,
}

/// The resolved dependencies, in the order of resolution.
pub(super) struct ResolvedDependencies {
    /// The dependencies for the lock file.
    pub(super) dependencies: Vec<Dependency>,
    /// The names of the dependencies that were fetched or linked.
    pub(super) in_place: BTreeSet<String>,
}

/// Resolves and installs the dependencies in `direct` and their own dependencies.
pub(super) fn resolve_dependencies(
    project: Project<'_>,
    direct: &[Dependency],
    mut locks: LockedDependencies,
    vendor: &mut Vendor,
    fetch: &dyn Fetch,
    watch: &DownloadObserver,
    notices: &mut Vec<Notice>,
) -> Result<ResolvedDependencies, BundlerError> {
    let mut resolved = ResolvedDependencies {
        dependencies: Vec::new(),
        in_place: BTreeSet::new(),
    };
    let mut known = BTreeSet::new();
    // Lists that remain to be processed, each with the base directory of its local paths. The last one is next.
    let mut pending = vec![(direct.to_vec(), project.directory().to_owned())];
    while let Some((wanted, directory)) = pending.pop() {
        let mut nested = Vec::new();
        // Processed one by one, because two dependencies may have the same name.
        for dependency in wanted {
            let actions = plan(std::slice::from_ref(&dependency), &locks, vendor)?;
            for action in actions {
                let target = local_directory(&action, &directory)?;
                let done = perform(project, action, &target, vendor, fetch, watch, notices)?;
                let name = done.dependency.name();
                if done.in_place {
                    resolved.in_place.insert(name.clone());
                }
                locks.mark_in_place(done.dependency.clone());
                if known.insert(name) {
                    resolved.dependencies.push(done.dependency.clone());
                    if !done.dependency.single {
                        nested.extend(nested_dependencies(project, &done.dependency, target, vendor)?);
                    }
                }
                if known.len() > PACKAGES_MAX {
                    return Err(BundlerError::TooMany(PACKAGES_MAX));
                }
            }
        }
        pending.extend(nested.into_iter().rev());
    }
    Ok(resolved)
}

struct ResolvedDependency {
    dependency: Dependency,
    in_place: bool,
}

/// Returns the directory in the repository of a local dependency.
fn local_directory(action: &PackageAction, directory: &str) -> Result<Option<String>, BundlerError> {
    let (PackageAction::Link(dependency) | PackageAction::Keep(dependency)) = action else {
        return Ok(None);
    };
    let PackageSource::Local(local) = &dependency.source else {
        return Ok(None);
    };
    let target = join(directory, &local.directory).filter(|target| !target.is_empty());
    let target = target.filter(|target| RepoPath::parse(target).is_ok());
    let outside = || BundlerError::OutsideRepository(local.directory.chars().take(200).collect());
    target.map(Some).ok_or_else(outside)
}

fn perform(
    project: Project<'_>,
    action: PackageAction,
    target: &Option<String>,
    vendor: &mut Vendor,
    fetch: &dyn Fetch,
    watch: &DownloadObserver,
    notices: &mut Vec<Notice>,
) -> Result<ResolvedDependency, BundlerError> {
    match action {
        PackageAction::Keep(dependency) => Ok(ResolvedDependency {
            dependency,
            in_place: false,
        }),
        PackageAction::Link(mut dependency) => {
            let name = dependency.name();
            let directory = target.clone().unwrap_or_default();
            let there = match path_in_vendor(project, &directory) {
                Some(inside) => vendor.has_directory(inside),
                None => project.has_directory(&directory)?,
            };
            if !there {
                return Err(BundlerError::NoDirectory(directory));
            }
            vendor.link_directory(project, &name, &directory);
            notices.push(Notice::Linked { name, directory });
            dependency.version.clear();
            dependency.sum.clear();
            Ok(ResolvedDependency {
                dependency,
                in_place: true,
            })
        }
        PackageAction::Fetch {
            mut dependency,
            expected,
        } => {
            let name = dependency.name();
            if let PackageSource::Git(git) = &dependency.source {
                let (layer, sum) = fetch_verified(git, &name, &dependency.version, expected, fetch, watch)?;
                dependency.version.clone_from(&layer.id().commit);
                dependency.sum = sum;
                vendor.insert(&name, &layer);
            }
            Ok(ResolvedDependency {
                dependency,
                in_place: true,
            })
        }
    }
}

/// Fetches the files of a package. If there is a locked checksum, the files must match it with the preferred method
/// or else with the alternative one.
fn fetch_verified(
    git: &Git,
    name: &str,
    version: &str,
    expected: Option<String>,
    fetch: &dyn Fetch,
    watch: &DownloadObserver,
) -> Result<(Arc<PackageSnapshot>, String), BundlerError> {
    let failed = |source: FetchError| match source {
        FetchError::Refused(refused) => BundlerError::Remote(refused),
        source => BundlerError::Download {
            package: name.to_owned(),
            source,
        },
    };
    let commit = fetch.resolve(git, version, watch).map_err(failed)?;
    check_version(&commit)?;
    let layer = fetch
        .fetch(git, &commit, FetchMethod::Preferred, watch)
        .map_err(failed)?;
    let sum = layer.sum();
    let Some(expected) = expected.filter(|expected| *expected != sum) else {
        return Ok((layer, sum));
    };
    match fetch.fetch(git, &commit, FetchMethod::Alternative, watch) {
        Ok(other) if other.sum() == expected => Ok((other, expected)),
        Ok(_) | Err(_) => Err(BundlerError::Checksum {
            package: name.to_owned(),
            expected,
            got: sum,
        }),
    }
}

/// Reads the dependencies of a package, with the base directory of their local paths.
fn nested_dependencies(
    project: Project<'_>,
    dependency: &Dependency,
    target: Option<String>,
    vendor: &Vendor,
) -> Result<Option<(Vec<Dependency>, String)>, BundlerError> {
    let home = || under(project.directory(), &format!("{VENDOR}/{}", dependency.name()));
    let directory = target.unwrap_or_else(home);
    let path = under(&directory, FILE);
    let file = match path_in_vendor(project, &path) {
        Some(inside) => {
            let content = vendor.file(inside);
            content.map(|content| project.parse(content, &path)).transpose()?
        }
        None => {
            let path = RepoPath::parse(&path).map_err(|_| BundlerError::Name(path))?;
            project.file_at(&path)?
        }
    };
    Ok(file.map(|file| (file.dependencies, directory)))
}

/// Returns the part of a path inside `vendor/`. There, the content about to be written is used instead of the tree.
fn path_in_vendor<'p>(project: Project<'_>, path: &'p str) -> Option<&'p str> {
    path.strip_prefix(&under(project.directory(), VENDOR))?
        .strip_prefix('/')
}
