//! Charts of a repository: what the helm of the operator says of one, what its local dependencies become
//! when they are packed into it, and the `chartfile.yaml` that says which charts are vendored.
//!
//! Nothing is fetched here. What an operation would write it answers with; it changes nothing itself.

mod archive;
mod chartfile;
mod dependency;

pub use chartfile::{Chartfile, ChartfileError, Drift, Requirement, Vendored, vendored};

use crate::config::ProgramSettings;
use crate::jsonnet::foreign::{Copies, ForeignError, Order, Programs, Source, Writes, chart, complaint};
use crate::model::RepoPath;
use crate::sandbox::{Program, Ran, Scratch};
use crate::workspace::Tree;
use bytes::Bytes;
use std::collections::BTreeMap;

/// The operator's helm, on charts of a tree.
#[derive(Debug)]
pub struct Helm {
    programs: Programs,
}

/// Why there is no answer about a chart.
#[derive(Debug, thiserror::Error)]
pub enum HelmError {
    /// It is no chart, or none that may be read.
    #[error("chart `{chart}`: {why}")]
    Chart {
        /// Its directory.
        chart: String,
        /// What is wrong with it.
        why: String,
    },
    /// A dependency would have to be fetched.
    #[error(
        "chart `{chart}`: dependency `{name}` comes from `{repository}`, and charts are not fetched here; put the \
         chart into `{chart}/charts` or refer to one of this repository with `file://../NAME`"
    )]
    Fetch {
        /// The chart's directory.
        chart: String,
        /// The dependency.
        name: String,
        /// Where it comes from.
        repository: String,
    },
    /// Helm did not run.
    #[error("helm: {0}")]
    Program(#[from] ForeignError),
    /// Helm ran and refuses.
    #[error("{0}")]
    Said(String),
}

/// How dependencies are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pack {
    /// At the versions of the lock.
    Build,
    /// At the versions `Chart.yaml` asks for; the lock is written.
    Update,
}

/// What an operation would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// What helm said.
    pub said: String,
    /// The files that become different; `None` is deleted.
    pub changes: BTreeMap<RepoPath, Option<Bytes>>,
}

/// The files of a tree, all of them.
struct Files<'a>(&'a dyn Tree);

impl Source for Files<'_> {
    fn below(&self, directory: &str) -> Result<Vec<RepoPath>, String> {
        self.0.below(directory).map_err(|error| error.to_string())
    }

    fn read(&mut self, path: &RepoPath) -> Result<Option<Bytes>, String> {
        let version = self.0.read(path).map_err(|error| error.to_string())?;
        Ok(Some(version.content))
    }
}

impl Helm {
    /// The helm of a configuration; `None` while it has none. `launcher` is started to become it.
    pub fn configured(launcher: Program, settings: &ProgramSettings) -> Option<Self> {
        let programs = Programs::new(launcher, settings);
        programs.have_helm().then_some(Self { programs })
    }

    /// Which helm it is. Shows that it runs with every layer of the jail.
    pub fn version(&self) -> Result<String, HelmError> {
        let arguments = ["version", "--short"].map(str::to_owned).to_vec();
        let (ran, scratch) = self.run(arguments, &Copies::new(), Writes::Nothing, &|| false)?;
        succeeded(&ran, &scratch)?;
        Ok(text(&ran))
    }

    /// What helm says is wrong with a chart.
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

    /// Packs the dependencies of a chart into it: those that are charts of the same tree.
    pub fn pack(
        &self,
        tree: &dyn Tree,
        directory: &RepoPath,
        how: Pack,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Packed, HelmError> {
        let mut copies = copies(tree, directory)?;
        for local in dependency::local(directory, &copies)? {
            copies.extend(self::copies(tree, &local)?);
        }
        let command = match how {
            Pack::Build => "build",
            Pack::Update => "update",
        };
        let mut arguments = about(command, directory);
        arguments.splice(0..0, ["dependency".to_owned()]);
        arguments.insert(2, "--skip-refresh".to_owned());
        let (ran, scratch) = self.run(arguments, &copies, Writes::Copies, stopped)?;
        succeeded(&ran, &scratch)?;
        let changes = dependency::changes(directory, &copies, &scratch);
        let changes = changes.map_err(|why| chart_error(directory, &why))?;
        let said = readable(&text(&ran), &scratch);
        Ok(Packed { said, changes })
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

fn succeeded(ran: &Ran, scratch: &Scratch) -> Result<(), HelmError> {
    match ran.succeeded {
        true => Ok(()),
        false => Err(HelmError::Said(complaint(ran, scratch))),
    }
}

fn text(ran: &Ran) -> String {
    String::from_utf8_lossy(&ran.output).trim().to_owned()
}

/// What helm says, with the paths of the repository.
fn readable(text: &str, scratch: &Scratch) -> String {
    let files = format!("{}/", scratch.files().display());
    text.replace(&files, "").replace(" ./", " ")
}
