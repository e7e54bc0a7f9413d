//! The operations on packages: initialize, install, update, list. Each returns the necessary writes and deletions
//! and changes nothing itself. A plan is an operation whose result is not applied.

use super::dependency::{Dependency, Local, PackageSource};
use super::error::BundlerError;
use super::fetch::Fetch;
use super::file::JsonnetFile;
use super::plan::LockedDependencies;
use super::project::{FILE, LOCK_FILE, Project, clean_relative, join, local_name};
use super::resolution::{Notice, PackageChange, PackageChangeKind, resolve_dependencies};
use super::uri::{self, UriError};
use super::vendor::Vendor;
use crate::base::model::{FileMode, FileVersion};
use crate::state::download::DownloadObserver;
use crate::state::workspace::{Tree, TreeError, WorkspaceEdits};
use std::collections::BTreeMap;

/// The result of an operation that was not applied yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedOperation {
    /// The files to write or delete. Deletions come first.
    pub changes: WorkspaceEdits,
    /// Every package and its change, by name.
    pub packages: Vec<PackageChange>,
    /// Notices for the user.
    pub notices: Vec<Notice>,
}

impl PreparedOperation {
    /// Applies the changes: deletions first, then writes. Stops at the first failure.
    pub fn apply(&self, tree: &dyn Tree) -> Result<(), TreeError> {
        let (written, deleted): (Vec<_>, Vec<_>) =
            self.changes.iter().partition(|(_, after)| after.is_some());
        for (path, _) in deleted {
            tree.put(path, None)?;
        }
        for (path, after) in written {
            tree.put(path, after.clone())?;
        }
        Ok(())
    }
}

/// The packages to install in addition to those in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstallRequest {
    /// Package addresses as people write them.
    pub packages: Vec<String>,
    /// True to leave out the dependencies of the packages.
    pub single: bool,
    /// The short name, if there is exactly one package.
    pub legacy_name: Option<String>,
}

/// A package in a list.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ListedPackage {
    /// The name.
    pub name: String,
    /// The version in the file; `None` for an indirect dependency.
    pub declared: Option<String>,
    /// The commit in the lock file; `None` if the package is not installed yet.
    pub locked: Option<String>,
    /// The directory of a local package.
    pub local: Option<String>,
}

/// Initializes a project with an empty `jsonnetfile.json`.
pub fn init(project: Project<'_>) -> Result<PreparedOperation, BundlerError> {
    if project.file(FILE).is_ok_and(|file| file.is_none()) {
        let mut prepared = PreparedOperation::default();
        write(&mut prepared.changes, project, FILE, &JsonnetFile::default())?;
        return Ok(prepared);
    }
    Err(BundlerError::Exists)
}

/// Installs the packages in the file at their locked versions, and the requested additional packages.
pub fn install(
    project: Project<'_>,
    order: &InstallRequest,
    fetch: &dyn Fetch,
    watch: &DownloadObserver,
) -> Result<PreparedOperation, BundlerError> {
    let original = wanted(project)?;
    let locked = project.file(LOCK_FILE)?;
    if order.legacy_name.is_some() && order.packages.len() > 1 {
        return Err(BundlerError::OneLegacyName);
    }
    let mut file = original.clone();
    let mut locks = locked.clone().unwrap_or_default();
    for package in &order.packages {
        let mut dependency = parse_package(project, package)?;
        dependency.single = order.single;
        dependency.legacy_name = order.legacy_name.clone().unwrap_or_default();
        let name = dependency.name();
        let same =
            |known: &Dependency| known.version == dependency.version && known.source == dependency.source;
        if !file.get(&name).is_some_and(same) {
            file.set(dependency);
            // The requested version has priority over the locked one.
            locks.remove(&name);
        }
    }
    let mut prepared = ensure(project, &file, &locks, locked.as_ref(), fetch, watch)?;
    file.dependencies = std::mem::take(&mut file.dependencies)
        .into_iter()
        .map(Dependency::without_usual_name)
        .collect();
    if !file.is_equivalent(&original) {
        write(&mut prepared.changes, project, FILE, &file)?;
    }
    Ok(prepared)
}

/// Updates packages to the newest commit of the versions in the file: the named packages, or all.
pub fn update(
    project: Project<'_>,
    packages: &[String],
    fetch: &dyn Fetch,
    watch: &DownloadObserver,
) -> Result<PreparedOperation, BundlerError> {
    let file = wanted(project)?;
    let path = project.path(LOCK_FILE)?;
    let locked = project.file(LOCK_FILE)?;
    let locked = locked.ok_or_else(|| BundlerError::NoLock(path.to_string()))?;
    let mut locks = match packages {
        [] => JsonnetFile::default(),
        _ => locked.clone(),
    };
    for package in packages {
        locks.remove(&parse_package(project, package)?.name());
    }
    ensure(project, &file, &locks, Some(&locked), fetch, watch)
}

/// Lists the packages in the file and in the lock file.
pub fn list(project: Project<'_>) -> Result<Vec<ListedPackage>, BundlerError> {
    let file = wanted(project)?;
    let locked = project.file(LOCK_FILE)?.unwrap_or_default();
    let mut listed: BTreeMap<String, ListedPackage> = BTreeMap::new();
    let both = file.dependencies.iter().map(|dependency| (dependency, true));
    for (dependency, declared) in both.chain(locked.dependencies.iter().map(|dependency| (dependency, false)))
    {
        let name = dependency.name();
        let entry = listed.entry(name.clone()).or_insert_with(|| ListedPackage {
            name,
            declared: None,
            locked: None,
            local: None,
        });
        let version = match &dependency.source {
            PackageSource::Git(_) => dependency.version.clone(),
            PackageSource::Local(local) => {
                entry.local = Some(local.directory.clone());
                "local".to_owned()
            }
        };
        match declared {
            true => entry.declared = Some(version),
            false => entry.locked = Some(version),
        }
    }
    Ok(listed.into_values().collect())
}

fn wanted(project: Project<'_>) -> Result<JsonnetFile, BundlerError> {
    let path = project.path(FILE)?;
    project
        .file(FILE)?
        .ok_or_else(|| BundlerError::NoFile(path.to_string()))
}

/// Parses a package as a person names it: an address, or a directory in the repository of the project.
fn parse_package(project: Project<'_>, text: &str) -> Result<Dependency, BundlerError> {
    match uri::parse(text) {
        Err(UriError::Unparsable(_)) => {}
        parsed => return Ok(parsed?),
    }
    let unparsable = || BundlerError::Uri(UriError::Unparsable(text.chars().take(200).collect()));
    let directory = clean_relative(text);
    let outside = || match text.starts_with(['/', '.', '~']) {
        true => BundlerError::OutsideRepository(text.chars().take(200).collect()),
        false => unparsable(),
    };
    let there = join(project.directory(), text).ok_or_else(outside)?;
    if text.is_empty() || there.is_empty() || !project.has_directory(&there).unwrap_or(false) {
        return Err(unparsable());
    }
    let name = local_name(project.directory(), &directory).ok_or_else(unparsable)?;
    Ok(Dependency::new(
        PackageSource::Local(Local { directory, name }),
        "",
    ))
}

/// Resolves and installs everything, and writes the lock file.
fn ensure(
    project: Project<'_>,
    file: &JsonnetFile,
    locks: &JsonnetFile,
    locked: Option<&JsonnetFile>,
    fetch: &dyn Fetch,
    watch: &DownloadObserver,
) -> Result<PreparedOperation, BundlerError> {
    let mut prepared = PreparedOperation::default();
    let mut vendor = Vendor::read(project)?;
    let known = LockedDependencies::new(locks.dependencies.clone());
    let notices = &mut prepared.notices;
    let resolved = resolve_dependencies(
        project,
        &file.dependencies,
        known,
        &mut vendor,
        fetch,
        watch,
        notices,
    )?;
    let dependencies = resolved
        .dependencies
        .into_iter()
        .map(Dependency::without_usual_name);
    let lock = JsonnetFile {
        dependencies: dependencies.collect(),
        legacy_imports: false,
    };
    vendor.remove_unused(&lock.dependencies);
    if file.legacy_imports {
        vendor.link_legacy_names(&lock.dependencies, notices);
    }
    prepared.changes = vendor.changes(project)?;
    if locked.is_none_or(|locked| !locked.is_equivalent(&lock)) {
        write(&mut prepared.changes, project, LOCK_FILE, &lock)?;
    }
    prepared.packages = package_changes(locked, &lock, &|name| resolved.in_place.contains(name));
    Ok(prepared)
}

/// Compares the packages before and after, by name.
fn package_changes(
    before: Option<&JsonnetFile>,
    after: &JsonnetFile,
    placed: &dyn Fn(&str) -> bool,
) -> Vec<PackageChange> {
    let before = before.cloned().unwrap_or_default();
    let mut packages: BTreeMap<String, PackageChange> = BTreeMap::new();
    for dependency in &after.dependencies {
        let name = dependency.name();
        let old = before.get(&name);
        let fate = match old {
            None => PackageChangeKind::Added,
            Some(old) if old.version != dependency.version => PackageChangeKind::Updated,
            Some(_) if placed(&name) => PackageChangeKind::Restored,
            Some(_) => PackageChangeKind::Kept,
        };
        let from = old.map(|old| old.version.clone());
        let compare = from.as_ref().and_then(|from| comparison_url(dependency, from));
        let package = PackageChange {
            name: name.clone(),
            fate,
            from,
            to: Some(dependency.version.clone()),
            compare,
        };
        packages.insert(name, package);
    }
    for dependency in before.dependencies {
        let name = dependency.name();
        packages.entry(name.clone()).or_insert(PackageChange {
            name,
            fate: PackageChangeKind::Removed,
            from: Some(dependency.version),
            to: None,
            compare: None,
        });
    }
    packages.into_values().collect()
}

fn comparison_url(dependency: &Dependency, from: &str) -> Option<String> {
    let PackageSource::Git(git) = &dependency.source else {
        return None;
    };
    let to = &dependency.version;
    let place = format!("https://{}/{}/{}", git.host, git.user, git.repo);
    (git.host == "github.com" && from != to && !from.is_empty())
        .then(|| format!("{place}/compare/{from}...{to}"))
}

fn write(
    edits: &mut WorkspaceEdits,
    project: Project<'_>,
    name: &str,
    file: &JsonnetFile,
) -> Result<(), BundlerError> {
    let version = FileVersion {
        content: file.write().into(),
        mode: FileMode::Regular,
    };
    edits.insert(project.path(name)?, Some(version));
    Ok(())
}
