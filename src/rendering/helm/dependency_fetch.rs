//! The dependencies of a chart, obtained from their declared sources. Charts in the tree are packed by the
//! operator's helm in the sandbox. Charts in repositories are downloaded here. Nothing is changed until all of them
//! are available.

use super::archive;
use super::constraint::Constraint;
use super::declaration::{ChartDependency, Declaration, DependencyOrigin};
use super::error::{DependencyError, HelmError};
use super::index::{Index, Release};
use super::lock::Lock;
use super::pack_output::{CHARTS, Changes, changed_files, is_in_charts};
use super::version::ChartVersion;
use super::{ChartRepositories, Helm, PackMode, PackResult, beneath, dependency_error};
use crate::base::model::RepoPath;
use crate::rendering::jsonnet::external_program::Copies;
use crate::state::download::DownloadObserver;
use crate::state::workspace::Tree;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Maximum total size of the archives of one chart in bytes.
const BYTES_MAX: usize = 64 << 20;

/// A chart whose dependencies are being collected.
pub(super) struct DependencyFetch<'a> {
    pub(super) helm: &'a Helm,
    pub(super) repositories: &'a ChartRepositories,
    pub(super) tree: &'a dyn Tree,
    pub(super) directory: &'a RepoPath,
    /// The files of the chart.
    pub(super) copies: &'a Copies,
    pub(super) declaration: &'a Declaration,
    pub(super) watch: &'a DownloadObserver,
}

/// The results so far.
#[derive(Default)]
struct FetchedDependencies {
    output: Vec<String>,
    archives: Copies,
    /// The origin of each fetched archive, because one chart may be required under several names.
    fetched: BTreeMap<RepoPath, String>,
}

/// The way a chart version is chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VersionChoice {
    /// The newest matching version.
    Newest,
    /// The locked version.
    Locked,
}

impl DependencyFetch<'_> {
    /// Collects all dependencies. A build without a lock file is an update, as in helm.
    pub(super) fn run(&self, how: PackMode) -> Result<PackResult, HelmError> {
        let declared = self.declaration.dependencies.as_deref();
        let lock = self.declaration.lock.as_ref().filter(|_| how == PackMode::Build);
        let mut gathered = FetchedDependencies::default();
        let mut written = None;
        let dependencies = match lock {
            Some(lock) => {
                self.check_lock(lock)?;
                self.fetch_all(&lock.dependencies, VersionChoice::Locked, &mut gathered)?;
                &lock.dependencies
            }
            None => {
                let declared = declared.unwrap_or_default();
                let chosen = self.fetch_all(declared, VersionChoice::Newest, &mut gathered)?;
                written = self.lock_file(Lock::for_dependencies(Some(declared), chosen))?;
                &declared.to_vec()
            }
        };
        let mut changes = self.outdated(dependencies, &gathered.archives);
        changes.extend(changed_files(self.copies, gathered.archives));
        changes.extend(written.map(|(path, text)| (path, Some(text))));
        Ok(PackResult {
            output: gathered.output.join("\n"),
            changes,
        })
    }

    fn check_lock(&self, lock: &Lock) -> Result<(), HelmError> {
        let Declaration {
            format, dependencies, ..
        } = self.declaration;
        if lock.matches(dependencies.as_deref(), *format) {
            return Ok(());
        }
        Err(HelmError::OutOfSync {
            chart: self.directory.to_string(),
            lock: format.lock(),
            declaration: format.declaration(),
        })
    }

    /// Returns the new lock file if it differs from the existing one.
    fn lock_file(&self, lock: Lock) -> Result<Option<(RepoPath, Bytes)>, HelmError> {
        let before = self.declaration.lock.as_ref();
        if before.is_some_and(|before| before.digest == lock.digest) {
            return Ok(None);
        }
        let name = self.declaration.format.lock();
        let text = lock.text(self.repositories.now());
        Ok(Some((beneath(self.directory, name)?, text.into())))
    }

    /// Fetches each dependency at one version and returns these versions.
    fn fetch_all(
        &self,
        asked: &[ChartDependency],
        choice: VersionChoice,
        gathered: &mut FetchedDependencies,
    ) -> Result<Vec<ChartDependency>, HelmError> {
        // Unsupported dependencies are refused before anything is fetched.
        for dependency in asked {
            self.check_dependency(dependency)?;
        }
        let mut packed = self.pack(asked, gathered)?.into_iter();
        let releases = self.choose_releases(asked, choice)?;
        let mut chosen = Vec::new();
        for (position, dependency) in asked.iter().enumerate() {
            match (dependency.origin(), releases.get(&position)) {
                (_, Some(release)) => {
                    self.fetch(dependency, release, gathered)?;
                    chosen.push(dependency.with_version(release.version.written()));
                }
                (Ok(DependencyOrigin::Local(_)), None) => chosen.extend(packed.next()),
                (_, None) => {
                    self.check_in_charts(dependency)?;
                    gathered.report(format!("{}: is in `{CHARTS}/`", dependency.name));
                    chosen.push(dependency.with_version(&dependency.version));
                }
            }
        }
        Ok(chosen)
    }

    fn check_dependency(&self, dependency: &ChartDependency) -> Result<(), HelmError> {
        let failed = |why| self.failed(dependency, why);
        let is_name = !dependency.name.contains('/') && RepoPath::parse(&dependency.name).is_ok();
        if !is_name {
            return Err(failed(DependencyError::Name));
        }
        constraint(dependency).map_err(failed)?;
        dependency.local_directory(self.directory).map_err(failed)?;
        Ok(())
    }

    /// Packs the charts in the tree with helm.
    fn pack(
        &self,
        asked: &[ChartDependency],
        gathered: &mut FetchedDependencies,
    ) -> Result<Vec<ChartDependency>, HelmError> {
        let local =
            |dependency: &&ChartDependency| matches!(dependency.origin(), Ok(DependencyOrigin::Local(_)));
        let local: Vec<&ChartDependency> = asked.iter().filter(local).collect();
        if local.is_empty() {
            return Ok(Vec::new());
        }
        let (packed, archives) = self
            .helm
            .pack_local(self.tree, self.directory, &local, self.watch)?;
        for (asked, packed) in local.iter().zip(&packed) {
            let ChartDependency { name, version, .. } = packed;
            gathered.report(format!("{name}: packed {version} from {}", asked.repository));
        }
        gathered.archives.extend(archives);
        Ok(packed)
    }

    /// Chooses the version of each dependency from a repository, by position. Each repository is requested once,
    /// and only the chosen versions are kept.
    fn choose_releases(
        &self,
        asked: &[ChartDependency],
        choice: VersionChoice,
    ) -> Result<BTreeMap<usize, Release>, HelmError> {
        let mut repositories: BTreeMap<&str, Vec<(usize, &ChartDependency)>> = BTreeMap::new();
        for (position, dependency) in asked.iter().enumerate() {
            if let Ok(DependencyOrigin::Repository(repository)) = dependency.origin() {
                let wanted = repositories.entry(repository).or_default();
                wanted.push((position, dependency));
            }
        }
        let mut releases = BTreeMap::new();
        for (repository, wanted) in repositories {
            let charts = wanted.iter().map(|(_, dependency)| dependency.name.as_str());
            let index = self.repositories.index(repository, &charts.collect(), self.watch);
            let failed = |dependency, why| self.failed(dependency, why);
            let index = match (index, wanted.first()) {
                (Ok(index), _) => index,
                (Err(why), Some((_, first))) => return Err(failed(first, why)),
                (Err(_), None) => continue,
            };
            for (position, dependency) in wanted {
                let release = release(&index, dependency, choice).map_err(|why| failed(dependency, why))?;
                releases.insert(position, release);
            }
        }
        Ok(releases)
    }

    fn fetch(
        &self,
        dependency: &ChartDependency,
        release: &Release,
        gathered: &mut FetchedDependencies,
    ) -> Result<(), HelmError> {
        let ChartDependency { name, repository, .. } = dependency;
        let failed = |why| self.failed(dependency, why);
        let version = release.version.written();
        let file = format!("{name}-{version}.tgz");
        let path = beneath(&beneath(self.directory, CHARTS)?, &file)?;
        if gathered.fetched.get(&path) == Some(repository) {
            return Ok(());
        }
        let content = self
            .repositories
            .archive(repository, name, release, self.watch)
            .map_err(failed)?;
        gathered.fetched.insert(path.clone(), repository.clone());
        gathered.report(format!("{name}: {version} from {repository}"));
        if release.digest.is_empty() {
            gathered.report(format!(
                "{name}: the repository states no digest, so nothing but its name and version was compared"
            ));
        }
        gathered.add(path, content).map_err(failed)
    }

    /// Checks a chart that is already in `charts/`.
    fn check_in_charts(&self, dependency: &ChartDependency) -> Result<(), HelmError> {
        let failed = |why| self.failed(dependency, why);
        let place = format!("{CHARTS}/{}", dependency.name);
        let chart = beneath(&beneath(self.directory, &place)?, "Chart.yaml")?;
        let text = self
            .copies
            .get(&chart)
            .map(|content| String::from_utf8_lossy(content));
        let found = text.and_then(|text| archive::parse_identity(&text));
        let Some(found) = found else {
            return Err(failed(DependencyError::MissingInCharts(chart.to_string())));
        };
        let wanted = constraint(dependency).map_err(failed)?;
        match ChartVersion::parse(&found.version).is_some_and(|version| wanted.matches(&version)) {
            true => Ok(()),
            false => Err(failed(DependencyError::OtherVersionInCharts {
                place,
                found: found.version,
                wanted: dependency.version.clone(),
            })),
        }
    }

    /// Returns the archives in `charts/` that are no longer required. A file that is not a chart is kept, because a
    /// person may have put it there. Charts of dependencies without a repository are kept too.
    fn outdated(&self, dependencies: &[ChartDependency], archives: &Copies) -> Changes {
        let is_inside = |name: &str| {
            let mut inside = dependencies
                .iter()
                .filter(|dependency| dependency.repository.is_empty());
            inside.any(|dependency| dependency.name == name)
        };
        let outdated = self.copies.iter().filter(|(path, content)| {
            is_in_charts(path, self.directory)
                && !archives.contains_key(*path)
                && archive::read(content).is_ok_and(|chart| !is_inside(&chart.name))
        });
        outdated.map(|(path, _)| (path.clone(), None)).collect()
    }

    fn failed(&self, dependency: &ChartDependency, why: DependencyError) -> HelmError {
        dependency_error(self.directory, dependency, why)
    }
}

impl FetchedDependencies {
    fn report(&mut self, line: String) {
        self.output.push(line);
    }

    /// Adds an archive. Fails if there is a different archive with the same name, or if the total size is too
    /// large.
    fn add(&mut self, path: RepoPath, content: Bytes) -> Result<(), DependencyError> {
        let file = path.file_name().to_owned();
        let before = self.archives.insert(path, content.clone());
        if before.is_some_and(|before| before != content) {
            return Err(DependencyError::DuplicateArchive(file));
        }
        match self.archives.values().map(Bytes::len).sum::<usize>() > BYTES_MAX {
            true => Err(DependencyError::TooLarge(BYTES_MAX)),
            false => Ok(()),
        }
    }
}

fn constraint(dependency: &ChartDependency) -> Result<Constraint, DependencyError> {
    let wanted = &dependency.version;
    Constraint::parse(wanted).ok_or_else(|| DependencyError::Constraint(wanted.clone()))
}

/// Downloads a chart version from a repository.
fn release(
    index: &Index,
    dependency: &ChartDependency,
    choice: VersionChoice,
) -> Result<Release, DependencyError> {
    let ChartDependency {
        name,
        version,
        repository,
        ..
    } = dependency;
    let found = match choice {
        VersionChoice::Newest => index.newest(name, &constraint(dependency)?),
        VersionChoice::Locked => index.find_version(name, version),
    };
    match (found, index.newest_few(name)) {
        (Some(release), _) => Ok(release.clone()),
        (None, None) => Err(DependencyError::NoChart(repository.clone())),
        (None, Some(newest)) => Err(DependencyError::NoVersion {
            repository: repository.clone(),
            wanted: version.clone(),
            newest,
        }),
    }
}
