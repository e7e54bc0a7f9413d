//! `drydock jb`: packages of Jsonnet in the repository around you, as jsonnet-bundler manages them.

use super::output::{Output, Style};
use super::{Failure, Global, download};
use crate::bundler::{self, BundlerError, Fate, Fetch, Network, Offline, Package, Prepared, Project};
use crate::config::Config;
use crate::download::Watch;
use crate::provider;
use crate::workspace::Directory;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock jb init
  drydock jb install github.com/grafana/jsonnet-libs/ksonnet-util@master
  drydock jb plan --update
  drydock jb update github.com/grafana/jsonnet-libs/ksonnet-util --json
  drydock jb rewrite

Packages come from the hosts of `[bundler] hosts_allowed`: --set 'bundler.hosts_allowed=[\"github.com\"]'.
Nothing outside jsonnetfile.json, jsonnetfile.lock.json and vendor/ is touched, but by a rewrite, which touches
nothing else than imports in .jsonnet and .libsonnet files.";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Begins a project: an empty jsonnetfile.json
    Init(Place),
    /// Installs what is listed, at locked versions, and more packages beside it
    Install(Install),
    /// Moves packages to the newest commit of their version
    Update(Update),
    /// Lists what is asked for and what is locked
    List(Place),
    /// Shows what an install or an update would change
    Plan(Plan),
    /// Rewrites imports by short names to the names packages have below vendor/
    Rewrite(Place),
}

#[derive(Debug, Args)]
pub(super) struct Place {
    /// The project's directory
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    path: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct Install {
    /// Packages, such as github.com/org/repo/dir@version or a directory
    packages: Vec<String>,
    /// Leaves out what the packages depend on themselves
    #[arg(long)]
    single: bool,
    /// The short name of the one package
    #[arg(long, value_name = "NAME")]
    legacy_name: Option<String>,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub(super) struct Update {
    /// Packages; all of them when none is named
    packages: Vec<String>,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub(super) struct Plan {
    /// Packages that would be installed or updated
    packages: Vec<String>,
    /// Plans an update
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    place: Place,
}

/// Returns the source of packages: the network, or none while no host is allowed.
pub(super) fn fetch(hosts_allowed: &[String], client: reqwest::Client) -> Arc<dyn Fetch> {
    if hosts_allowed.is_empty() {
        return Arc::new(Offline);
    }
    let runtime = tokio::runtime::Handle::current();
    Arc::new(Network::new(hosts_allowed, client, runtime, std::env::temp_dir()))
}

pub(super) async fn run(command: Command, global: &Global, output: &Output) -> Result<(), Failure> {
    let settings = Config::for_packages(global.own_sources()?).map_err(Failure::config)?;
    let client = provider::download_client().map_err(Failure::failed)?;
    let fetch = fetch(&settings.hosts_allowed, client);
    let output = *output;
    let perform = move |watch: &Watch| perform(&command, fetch.as_ref(), watch, output);
    download::until_interrupted(output, perform).await
}

fn perform(command: &Command, fetch: &dyn Fetch, watch: &Watch, output: Output) -> Result<(), Failure> {
    let place = match command {
        Command::Init(place) | Command::List(place) | Command::Rewrite(place) => place,
        Command::Install(install) => &install.place,
        Command::Update(update) => &update.place,
        Command::Plan(plan) => &plan.place,
    };
    let directory = Directory::open(&place.path).map_err(Failure::failed)?;
    let path = inside(&directory, &place.path)?;
    let project = Project::new(&directory, &path).map_err(Failure::failed)?;
    let failed = |err: BundlerError| Failure::failed(err);
    let prepared = match command {
        Command::List(_) => return list(project, output),
        Command::Init(_) => bundler::init(project),
        Command::Rewrite(_) => bundler::rewrite(project),
        Command::Install(install) => {
            let order = bundler::Install {
                packages: install.packages.clone(),
                single: install.single,
                legacy_name: install.legacy_name.clone(),
            };
            bundler::install(project, &order, fetch, watch)
        }
        Command::Update(update) => bundler::update(project, &update.packages, fetch, watch),
        Command::Plan(plan) if plan.update => bundler::update(project, &plan.packages, fetch, watch),
        Command::Plan(plan) => {
            let order = bundler::Install {
                packages: plan.packages.clone(),
                ..bundler::Install::default()
            };
            bundler::install(project, &order, fetch, watch)
        }
    };
    let prepared = prepared.map_err(failed)?;
    if !matches!(command, Command::Plan(_)) {
        prepared.apply(&directory).map_err(Failure::failed)?;
    }
    report(&prepared, output);
    Ok(())
}

/// The project's path inside the repository.
fn inside(directory: &Directory, place: &Path) -> Result<String, Failure> {
    let place = place.canonicalize().map_err(Failure::failed)?;
    let inside = place.strip_prefix(directory.root()).map_err(Failure::failed)?;
    let text = inside.to_str();
    let text = text.ok_or_else(|| Failure::failed("the project's directory has a name that is no text"))?;
    Ok(text.to_owned())
}

fn list(project: Project<'_>, output: Output) -> Result<(), Failure> {
    let listed = bundler::list(project).map_err(Failure::failed)?;
    if output.json() {
        output.value(&serde_json::json!({ "packages": listed }));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = listed
        .into_iter()
        .map(|package| {
            let missing = || "-".to_owned();
            vec![
                package.name,
                package.declared.unwrap_or_else(missing),
                package.locked.unwrap_or_else(missing),
            ]
        })
        .collect();
    output.table(&["PACKAGE", "DECLARED", "LOCKED"], &rows);
    Ok(())
}

fn report(prepared: &Prepared, output: Output) {
    for notice in &prepared.notices {
        output.message(&notice.to_string());
    }
    if output.json() {
        let files: Vec<String> = prepared.changes.keys().map(ToString::to_string).collect();
        let notices: Vec<String> = prepared.notices.iter().map(ToString::to_string).collect();
        output.value(&serde_json::json!({
            "packages": prepared.packages,
            "files": files,
            "notices": notices,
        }));
        return;
    }
    let rows: Vec<Vec<String>> = prepared.packages.iter().map(row).collect();
    if !rows.is_empty() {
        output.table(&["PACKAGE", "", "FROM", "TO"], &rows);
    }
    let files = prepared.changes.len();
    let plural = if files == 1 { "file" } else { "files" };
    output.aside(Style::Dim, &format!("{files} {plural} differ from before."));
}

fn row(package: &Package) -> Vec<String> {
    let fate = match package.fate {
        Fate::Added => "added",
        Fate::Updated => "updated",
        Fate::Restored => "restored",
        Fate::Kept => "as locked",
        Fate::Removed => "removed",
    };
    let version = |version: &Option<String>| match version.as_deref() {
        None => "-".to_owned(),
        Some("") => "local".to_owned(),
        Some(version) => version.to_owned(),
    };
    let (from, to) = (version(&package.from), version(&package.to));
    vec![package.name.clone(), fate.to_owned(), from, to]
}
