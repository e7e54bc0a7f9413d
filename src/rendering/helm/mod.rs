//! Charts in a repository: lint results from the operator's helm, packing of dependencies, and the `chartfile.yaml`
//! that lists the vendored charts.
//!
//! An operation returns the files to write and changes nothing itself. Helm has no network access. Charts from
//! repositories are downloaded by [`ChartRepositories`], from hosts that the operator allowed.

mod archive;
mod chartfile;
mod constraint;
mod declaration;
mod error;
mod dependency_fetch;
mod index;
mod lock;
mod pack_output;
mod repositories;
mod version;

pub use archive::ChartArchiveError;
pub use chartfile::{Chartfile, ChartfileError, Drift, Requirement, VendoredChart, compare_vendored};
pub use error::{DependencyError, HelmError};
pub use index::IndexError;
pub use repositories::ChartRepositories;

use crate::base::config::ProgramSettings;
use crate::base::model::{RepoPath, plain_output};
use crate::rendering::jsonnet::external_program::{
    Copies, CopyAccess, CopySource, ExternalPrograms, ProgramRun, chart, error_output,
};
use crate::rendering::sandbox::{CommandOutput, ProgramPath, Scratch};
use crate::state::download::DownloadObserver;
use crate::state::workspace::{Tree, TreeError};
use bytes::Bytes;
use declaration::{ChartDependency, Declaration, DependencyOrigin};
use dependency_fetch::DependencyFetch;
use serde_json::json;
use std::collections::BTreeMap;

/// Runs the operator's helm on charts in a tree.
#[derive(Debug)]
pub struct Helm {
    programs: ExternalPrograms,
    repositories: Option<ChartRepositories>,
}

/// Maximum size in bytes of a lock file from helm.
const LOCK_BYTES_MAX: u64 = 1 << 20;

/// The mode of packing dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackMode {
    /// Dependencies are packed at the locked versions.
    Build,
    /// Dependencies are packed at the newest versions that `Chart.yaml` allows, and the lock file is written.
    Update,
}

/// The result of an operation that was not applied yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackResult {
    /// The output of helm, or the origin of the downloaded charts.
    pub output: String,
    /// The changed files; `None` for a deleted file.
    pub changes: BTreeMap<RepoPath, Option<Bytes>>,
}

/// The files of a tree, except those that are known by name to hold secrets.
struct NonSecretFiles<'a>(&'a dyn Tree);

impl CopySource for NonSecretFiles<'_> {
    fn below(&self, directory: &str) -> Result<Vec<RepoPath>, String> {
        self.0.files_below(directory).map_err(|error| error.to_string())
    }

    fn read(&mut self, path: &RepoPath) -> Result<Option<Bytes>, String> {
        // As for programs of the repository, files that hold secrets by name are hidden from helm.
        let is_environment = |part: &str| part == ".env" || part.starts_with(".env.");
        if path.as_str().split('/').any(is_environment) {
            return Ok(None);
        }
        match self.0.read(path) {
            Ok(version) => Ok(Some(version.content)),
            Err(TreeError::Denied { .. }) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Helm {
    /// Returns the configured helm, or `None` if none is configured. `launcher` is the executable that starts it in
    /// the sandbox.
    pub fn configured(launcher: ProgramPath, settings: &ProgramSettings) -> Option<Self> {
        let programs = ExternalPrograms::new(launcher, settings);
        programs.has_helm().then_some(Self {
            programs,
            repositories: None,
        })
    }

    /// Sets the repositories from which charts may be downloaded.
    #[must_use]
    pub fn with_repositories(mut self, repositories: ChartRepositories) -> Self {
        self.repositories = Some(repositories);
        self
    }

    /// Returns the lint results of helm for a chart.
    pub fn lint(
        &self,
        tree: &dyn Tree,
        directory: &RepoPath,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<String, HelmError> {
        let copies = copies(tree, directory)?;
        let (ran, scratch) = self.run(
            chart_arguments("lint", directory),
            &copies,
            CopyAccess::ReadOnly,
            stopped,
        )?;
        // Lint findings are a result. Output without findings is a failure.
        let findings = text(&ran);
        match findings.is_empty() {
            true => Err(HelmError::Refused(error_output(&ran, &scratch))),
            false => Ok(readable(&findings, &scratch)),
        }
    }

    /// Returns the dependencies of a chart and whether they are present.
    pub fn dependencies(
        &self,
        tree: &dyn Tree,
        directory: &RepoPath,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<String, HelmError> {
        let copies = copies(tree, directory)?;
        let mut arguments = chart_arguments("list", directory);
        arguments.insert(0, "dependency".to_owned());
        let (ran, scratch) = self.run(arguments, &copies, CopyAccess::ReadOnly, stopped)?;
        check_success(&ran, &scratch)?;
        Ok(readable(&text(&ran), &scratch))
    }

    /// Packs the dependencies of a chart into it: charts in the same tree and charts from repositories.
    pub fn pack(
        &self,
        tree: &dyn Tree,
        directory: &RepoPath,
        how: PackMode,
        watch: &DownloadObserver,
    ) -> Result<PackResult, HelmError> {
        let mut copies = copies(tree, directory)?;
        let declaration = Declaration::read(directory, &copies)?;
        let lock = declaration.lock.iter().filter(|_| how == PackMode::Build);
        let locked = lock.flat_map(|lock| &lock.dependencies);
        let mut local = Vec::new();
        let mut fetched = None;
        for dependency in declaration.dependencies.iter().flatten().chain(locked) {
            let failed = |why| dependency_error(directory, dependency, why);
            if let DependencyOrigin::Repository(_) = dependency.origin().map_err(failed)? {
                fetched = Some(dependency);
            }
            local.extend(dependency.local_directory(directory).map_err(failed)?);
        }
        if let Some(fetched) = fetched {
            let off = || dependency_error(directory, fetched, DependencyError::FetchDisabled);
            let gathering = DependencyFetch {
                helm: self,
                repositories: self.repositories.as_ref().ok_or_else(off)?,
                tree,
                directory,
                copies: &copies,
                declaration: &declaration,
                watch,
            };
            return gathering.run(how);
        }
        for local in local {
            copies.extend(self::copies(tree, &local)?);
        }
        let (ran, scratch) = self.pack_copies(directory, &copies, how, watch)?;
        let changes = pack_output::changes(directory, &copies, &scratch);
        let changes = changes.map_err(|why| chart_error(directory, &why))?;
        let said = readable(&text(&ran), &scratch);
        Ok(PackResult {
            output: said,
            changes,
        })
    }

    /// Packs the charts in the tree for a chart that also has other dependencies. Helm gets a chart that has only
    /// these dependencies. Returns their versions in the same order, and their archives.
    fn pack_local(
        &self,
        tree: &dyn Tree,
        directory: &RepoPath,
        local: &[&ChartDependency],
        watch: &DownloadObserver,
    ) -> Result<(Vec<ChartDependency>, Copies), HelmError> {
        let mut copies = Copies::new();
        for dependency in local {
            let place = dependency.local_directory(directory);
            let place = place.map_err(|why| dependency_error(directory, dependency, why))?;
            if let Some(place) = place {
                copies.extend(self::copies(tree, &place)?);
            }
        }
        let dependencies = local.iter().map(|dependency| {
            let ChartDependency {
                name,
                version,
                repository,
                ..
            } = dependency;
            json!({ "name": name, "version": version, "repository": repository })
        });
        let only = json!({
            "apiVersion": "v2",
            "name": "only",
            "version": "0.0.0",
            "dependencies": dependencies.collect::<Vec<_>>(),
        });
        copies.insert(beneath(directory, "Chart.yaml")?, only.to_string().into());
        let (_, scratch) = self.pack_copies(directory, &copies, PackMode::Update, watch)?;
        let wrong = |why: &dyn std::fmt::Display| chart_error(directory, why);
        let archives = pack_output::charts(directory, &scratch).map_err(|why| wrong(&why))?;
        let mut left = Copies::new();
        for name in lock::LOCKS {
            let path = beneath(directory, name)?;
            let content = scratch
                .read_file(&path, LOCK_BYTES_MAX)
                .map_err(|why| wrong(&why))?;
            left.extend(content.map(|content| (path, Bytes::from(content))));
        }
        let packed = lock::Lock::read(directory, &left)?;
        let packed = packed.map(|lock| lock.dependencies).unwrap_or_default();
        match packed.len() == local.len() {
            true => Ok((packed, archives)),
            false => Err(wrong(&"helm did not pack all charts of this repository")),
        }
    }

    fn pack_copies(
        &self,
        directory: &RepoPath,
        copies: &Copies,
        how: PackMode,
        watch: &DownloadObserver,
    ) -> Result<(CommandOutput, Scratch), HelmError> {
        let command = match how {
            PackMode::Build => "build",
            PackMode::Update => "update",
        };
        let mut arguments = chart_arguments(command, directory);
        arguments.splice(0..0, ["dependency".to_owned()]);
        arguments.insert(2, "--skip-refresh".to_owned());
        let (ran, scratch) = self.run(arguments, copies, CopyAccess::ReadWrite, &|| watch.is_stopped())?;
        check_success(&ran, &scratch)?;
        Ok((ran, scratch))
    }

    fn run(
        &self,
        arguments: Vec<String>,
        copies: &Copies,
        writes: CopyAccess,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(CommandOutput, Scratch), HelmError> {
        let order = ProgramRun {
            arguments,
            input: &[],
            copies,
            access: writes,
            time_max: self.programs.time_max(),
        };
        Ok(self.programs.helm(order, stopped)?)
    }
}

/// Builds the arguments of a command on a chart. The chart name is never parsed as a flag.
fn chart_arguments(command: &str, directory: &RepoPath) -> Vec<String> {
    vec![command.to_owned(), "--".to_owned(), format!("./{directory}")]
}

fn copies(tree: &dyn Tree, directory: &RepoPath) -> Result<Copies, HelmError> {
    chart(&mut NonSecretFiles(tree), directory.as_str()).map_err(|why| chart_error(directory, &why))
}

fn chart_error(directory: &RepoPath, why: &dyn std::fmt::Display) -> HelmError {
    HelmError::Chart {
        chart: directory.to_string(),
        why: why.to_string(),
    }
}

fn dependency_error(directory: &RepoPath, dependency: &ChartDependency, why: DependencyError) -> HelmError {
    HelmError::Dependency {
        chart: directory.to_string(),
        name: dependency.name.clone(),
        why: Box::new(why),
    }
}

fn beneath(directory: &RepoPath, name: &str) -> Result<RepoPath, HelmError> {
    RepoPath::parse(&format!("{directory}/{name}")).map_err(|why| chart_error(directory, &why))
}

fn check_success(ran: &CommandOutput, scratch: &Scratch) -> Result<(), HelmError> {
    match ran.succeeded {
        true => Ok(()),
        false => Err(HelmError::Refused(error_output(ran, scratch))),
    }
}

fn text(ran: &CommandOutput) -> String {
    let text = String::from_utf8_lossy(&ran.output);
    plain_output(&text).trim().to_owned()
}

/// Returns the output of helm with paths of the repository.
fn readable(text: &str, scratch: &Scratch) -> String {
    let files = format!("{}/", scratch.files().display());
    text.replace(&files, "").replace(" ./", " ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::copies;
    use crate::base::model::RepoPath;
    use crate::base::redact::Redactor;
    use crate::rendering::tanka::testing::ReadOnlyTree;
    use crate::state::workspace::{DeniedFiles, GuardedTree, SecretGuard, Tree};
    use std::sync::Arc;

    /// T45
    #[test]
    fn a_chart_is_given_no_file_that_holds_secrets_by_its_name() {
        let files = ReadOnlyTree::new(&[
            ("charts/web/Chart.yaml", ""),
            ("charts/web/.env", "TOKEN=x"),
            ("charts/web/templates/.env.local", "TOKEN=x"),
            ("charts/web/tls.key", "x"),
            ("charts/web/linked.txt", "-> tls.key"),
            ("charts/web/values.yaml", ""),
        ]);
        let guard = SecretGuard {
            denied: Arc::new(DeniedFiles::new(["**/*.key"]).unwrap()),
            redactor: Arc::new(Redactor::new([])),
        };
        let names = |tree: &dyn Tree| {
            let copies = copies(tree, &RepoPath::parse("charts/web").unwrap()).unwrap();
            copies.keys().map(ToString::to_string).collect::<Vec<_>>()
        };
        let guarded = GuardedTree::new(Arc::clone(&files) as Arc<dyn Tree>, guard);
        assert_eq!(
            names(&guarded),
            ["charts/web/Chart.yaml", "charts/web/values.yaml"]
        );
        // `files` has no guard, so it includes the key. Files named .env are always left out.
        let all =
            ["Chart.yaml", "linked.txt", "tls.key", "values.yaml"].map(|name| format!("charts/web/{name}"));
        assert_eq!(names(files.as_ref()), all);
    }
}
