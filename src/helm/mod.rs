//! Charts of a repository: what the helm of the operator says of one, what its dependencies become when they
//! are packed into it, and the `chartfile.yaml` that says which charts are vendored.
//!
//! What an operation would write it answers with; it changes nothing itself. Helm itself reaches no network:
//! charts of repositories are fetched by [`ChartRepositories`], from hosts that the operator allowed.

mod archive;
mod chartfile;
mod constraint;
mod declaration;
mod error;
mod gathering;
mod index;
mod lock;
mod packed;
mod repositories;
mod version;

pub use archive::ArchiveError;
pub use chartfile::{Chartfile, ChartfileError, Drift, Requirement, Vendored, vendored};
pub use error::{DependencyError, HelmError};
pub use index::IndexError;
pub use repositories::ChartRepositories;

use crate::config::ProgramSettings;
use crate::download::Watch;
use crate::jsonnet::foreign::{Copies, Order, Programs, Source, Writes, chart, complaint};
use crate::model::RepoPath;
use crate::sandbox::{Program, Ran, Scratch};
use crate::workspace::{Tree, TreeError};
use bytes::Bytes;
use declaration::{Declaration, Dependency, Origin};
use gathering::Gathering;
use serde_json::json;
use std::collections::BTreeMap;

/// The operator's helm, on charts of a tree.
#[derive(Debug)]
pub struct Helm {
    programs: Programs,
    repositories: Option<ChartRepositories>,
}

/// Bytes of a lock that helm may leave.
const LOCK_BYTES_MAX: u64 = 1 << 20;

/// The way dependencies are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pack {
    /// Dependencies are packed at the versions of the lock.
    Build,
    /// Dependencies are packed at the versions `Chart.yaml` asks for; the lock is written.
    Update,
}

/// The result an operation would have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The output of helm, or the origin of what was fetched.
    pub said: String,
    /// The files that become different; `None` is deleted.
    pub changes: BTreeMap<RepoPath, Option<Bytes>>,
}

/// The files of a tree, but those that hold secrets by their names.
struct Files<'a>(&'a dyn Tree);

impl Source for Files<'_> {
    fn below(&self, directory: &str) -> Result<Vec<RepoPath>, String> {
        self.0.below(directory).map_err(|error| error.to_string())
    }

    fn read(&mut self, path: &RepoPath) -> Result<Option<Bytes>, String> {
        // As for programs of the repository: what holds secrets by its name is not there for helm.
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
    /// The helm of a configuration; `None` while it has none. `launcher` is started to become it.
    pub fn configured(launcher: Program, settings: &ProgramSettings) -> Option<Self> {
        let programs = Programs::new(launcher, settings);
        programs.have_helm().then_some(Self {
            programs,
            repositories: None,
        })
    }

    /// Sets the repositories that charts may be fetched from.
    #[must_use]
    pub fn with_repositories(mut self, repositories: ChartRepositories) -> Self {
        self.repositories = Some(repositories);
        self
    }

    /// Returns the version of helm. Shows that it runs with every layer of the jail.
    pub fn version(&self) -> Result<String, HelmError> {
        let arguments = ["version", "--short"].map(str::to_owned).to_vec();
        let (ran, scratch) = self.run(arguments, &Copies::new(), Writes::Nothing, &|| false)?;
        succeeded(&ran, &scratch)?;
        Ok(text(&ran))
    }

    /// Returns helm's findings about a chart.
    pub fn lint(
        &self,
        tree: &dyn Tree,
        directory: &RepoPath,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<String, HelmError> {
        let copies = copies(tree, directory)?;
        let (ran, scratch) = self.run(about("lint", directory), &copies, Writes::Nothing, stopped)?;
        // A chart with findings is an answer; nothing but a complaint is a failure.
        let findings = text(&ran);
        match findings.is_empty() {
            true => Err(HelmError::Said(complaint(&ran, &scratch))),
            false => Ok(readable(&findings, &scratch)),
        }
    }

    /// The dependencies of a chart, and whether they are there.
    pub fn dependencies(
        &self,
        tree: &dyn Tree,
        directory: &RepoPath,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<String, HelmError> {
        let copies = copies(tree, directory)?;
        let mut arguments = about("list", directory);
        arguments.insert(0, "dependency".to_owned());
        let (ran, scratch) = self.run(arguments, &copies, Writes::Nothing, stopped)?;
        succeeded(&ran, &scratch)?;
        Ok(readable(&text(&ran), &scratch))
    }

    /// Packs the dependencies of a chart into it: charts of the same tree, and those of repositories.
    pub fn pack(
        &self,
        tree: &dyn Tree,
        directory: &RepoPath,
        how: Pack,
        watch: &Watch,
    ) -> Result<Packed, HelmError> {
        let mut copies = copies(tree, directory)?;
        let declaration = Declaration::read(directory, &copies)?;
        let lock = declaration.lock.iter().filter(|_| how == Pack::Build);
        let locked = lock.flat_map(|lock| &lock.dependencies);
        let mut local = Vec::new();
        let mut fetched = None;
        for dependency in declaration.dependencies.iter().flatten().chain(locked) {
            let failed = |why| dependency_error(directory, dependency, why);
            if let Origin::Repository(_) = dependency.origin().map_err(failed)? {
                fetched = Some(dependency);
            }
            local.extend(dependency.local(directory).map_err(failed)?);
        }
        if let Some(fetched) = fetched {
            let off = || dependency_error(directory, fetched, DependencyError::Off);
            let gathering = Gathering {
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
        let changes = packed::changes(directory, &copies, &scratch);
        let changes = changes.map_err(|why| chart_error(directory, &why))?;
        let said = readable(&text(&ran), &scratch);
        Ok(Packed { said, changes })
    }

    /// Packs charts of the tree for a chart that has other dependencies as well: helm is given one that has
    /// only these. Answers with their versions, in the same order, and their archives.
    fn pack_local(
        &self,
        tree: &dyn Tree,
        directory: &RepoPath,
        local: &[&Dependency],
        watch: &Watch,
    ) -> Result<(Vec<Dependency>, Copies), HelmError> {
        let mut copies = Copies::new();
        for dependency in local {
            let place = dependency.local(directory);
            let place = place.map_err(|why| dependency_error(directory, dependency, why))?;
            if let Some(place) = place {
                copies.extend(self::copies(tree, &place)?);
            }
        }
        let dependencies = local.iter().map(|dependency| {
            let Dependency {
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
        let (_, scratch) = self.pack_copies(directory, &copies, Pack::Update, watch)?;
        let wrong = |why: &dyn std::fmt::Display| chart_error(directory, why);
        let archives = packed::charts(directory, &scratch).map_err(|why| wrong(&why))?;
        let mut left = Copies::new();
        for name in lock::LOCKS {
            let path = beneath(directory, name)?;
            let content = scratch.left(&path, LOCK_BYTES_MAX).map_err(|why| wrong(&why))?;
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
        how: Pack,
        watch: &Watch,
    ) -> Result<(Ran, Scratch), HelmError> {
        let command = match how {
            Pack::Build => "build",
            Pack::Update => "update",
        };
        let mut arguments = about(command, directory);
        arguments.splice(0..0, ["dependency".to_owned()]);
        arguments.insert(2, "--skip-refresh".to_owned());
        let (ran, scratch) = self.run(arguments, copies, Writes::Copies, &|| watch.is_stopped())?;
        succeeded(&ran, &scratch)?;
        Ok((ran, scratch))
    }

    fn run(
        &self,
        arguments: Vec<String>,
        copies: &Copies,
        writes: Writes,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(Ran, Scratch), HelmError> {
        let order = Order {
            arguments,
            input: &[],
            copies,
            writes,
            time_max: self.programs.time_max(),
        };
        Ok(self.programs.helm(order, stopped)?)
    }
}

/// A command on a chart, whose name is never taken for a flag.
fn about(command: &str, directory: &RepoPath) -> Vec<String> {
    vec![command.to_owned(), "--".to_owned(), format!("./{directory}")]
}

fn copies(tree: &dyn Tree, directory: &RepoPath) -> Result<Copies, HelmError> {
    chart(&mut Files(tree), directory.as_str()).map_err(|why| chart_error(directory, &why))
}

fn chart_error(directory: &RepoPath, why: &dyn std::fmt::Display) -> HelmError {
    HelmError::Chart {
        chart: directory.to_string(),
        why: why.to_string(),
    }
}

fn dependency_error(directory: &RepoPath, dependency: &Dependency, why: DependencyError) -> HelmError {
    HelmError::Dependency {
        chart: directory.to_string(),
        name: dependency.name.clone(),
        why: Box::new(why),
    }
}

fn beneath(directory: &RepoPath, name: &str) -> Result<RepoPath, HelmError> {
    RepoPath::parse(&format!("{directory}/{name}")).map_err(|why| chart_error(directory, &why))
}

fn succeeded(ran: &Ran, scratch: &Scratch) -> Result<(), HelmError> {
    match ran.succeeded {
        true => Ok(()),
        false => Err(HelmError::Said(complaint(ran, scratch))),
    }
}

fn text(ran: &Ran) -> String {
    String::from_utf8_lossy(&ran.output).trim().to_owned()
}

/// Returns helm's output with the paths of the repository.
fn readable(text: &str, scratch: &Scratch) -> String {
    let files = format!("{}/", scratch.files().display());
    text.replace(&files, "").replace(" ./", " ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::copies;
    use crate::model::RepoPath;
    use crate::redact::Redactor;
    use crate::tanka::testing::Files;
    use crate::workspace::{Denied, Guard, Guarded, Tree};
    use std::sync::Arc;

    /// T45
    #[test]
    fn a_chart_is_given_no_file_that_holds_secrets_by_its_name() {
        let files = Files::new(&[
            ("charts/web/Chart.yaml", ""),
            ("charts/web/.env", "TOKEN=x"),
            ("charts/web/templates/.env.local", "TOKEN=x"),
            ("charts/web/tls.key", "x"),
            ("charts/web/linked.txt", "-> tls.key"),
            ("charts/web/values.yaml", ""),
        ]);
        let guard = Guard {
            denied: Arc::new(Denied::new(["**/*.key"]).unwrap()),
            redactor: Arc::new(Redactor::new([])),
        };
        let names = |tree: &dyn Tree| {
            let copies = copies(tree, &RepoPath::parse("charts/web").unwrap()).unwrap();
            copies.keys().map(ToString::to_string).collect::<Vec<_>>()
        };
        let guarded = Guarded::new(Arc::clone(&files) as Arc<dyn Tree>, guard);
        assert_eq!(
            names(&guarded),
            ["charts/web/Chart.yaml", "charts/web/values.yaml"]
        );
        // Nobody denied the key here; what is called .env is never given.
        let all =
            ["Chart.yaml", "linked.txt", "tls.key", "values.yaml"].map(|name| format!("charts/web/{name}"));
        assert_eq!(names(files.as_ref()), all);
    }
}
