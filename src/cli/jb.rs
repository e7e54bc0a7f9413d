//! `drydock jb`: Jsonnet packages in the repository of the working directory, as jsonnet-bundler manages them.

use super::output::{Output, OutputStyle};
use super::{CliError, Global, download};
use crate::base::config::Config;
use crate::base::http_client;
use crate::base::model::pluralize;
use crate::rendering::bundler::{
    self, BundlerError, Fetch, NetworkFetcher, OfflineFetcher, PackageChange, PackageChangeKind,
    PreparedOperation, Project,
};
use crate::state::download::DownloadObserver;
use crate::state::workspace::Directory;
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
Only jsonnetfile.json, jsonnetfile.lock.json and vendor/ are written; a rewrite writes only imports in .jsonnet and
.libsonnet files.";

#[derive(Debug, Subcommand)]
pub(super) enum JbCommand {
    /// Creates an empty jsonnetfile.json
    Init(ProjectOptions),
    /// Installs the listed packages at locked versions, and additional packages
    Install(InstallOptions),
    /// Moves packages to the newest commit of their version
    Update(UpdateOptions),
    /// Lists the declared and the locked version of each package
    List(ProjectOptions),
    /// Shows what an install or an update would change
    Plan(PlanOptions),
    /// Rewrites imports by short names to the names packages have below vendor/
    Rewrite(ProjectOptions),
}

#[derive(Debug, Args)]
pub(super) struct ProjectOptions {
    /// The project's directory
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    path: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct InstallOptions {
    /// Packages, such as github.com/org/repo/dir@version or a directory
    packages: Vec<String>,
    /// Leaves out the dependencies of the packages
    #[arg(long)]
    single: bool,
    /// The short name of the one package
    #[arg(long, value_name = "NAME")]
    legacy_name: Option<String>,
    #[command(flatten)]
    project: ProjectOptions,
}

#[derive(Debug, Args)]
pub(super) struct UpdateOptions {
    /// Packages; all of them when none is named
    packages: Vec<String>,
    #[command(flatten)]
    project: ProjectOptions,
}

#[derive(Debug, Args)]
pub(super) struct PlanOptions {
    /// Packages that would be installed or updated
    packages: Vec<String>,
    /// Plans an update
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    project: ProjectOptions,
}

/// Returns the source of packages: the network, or an offline source if no host is allowed.
pub(super) fn fetch(hosts_allowed: &[String], client: reqwest::Client) -> Arc<dyn Fetch> {
    if hosts_allowed.is_empty() {
        return Arc::new(OfflineFetcher);
    }
    let runtime = tokio::runtime::Handle::current();
    Arc::new(NetworkFetcher::new(
        hosts_allowed,
        client,
        runtime,
        std::env::temp_dir(),
    ))
}

pub(super) async fn run(command: JbCommand, global: &Global, output: &Output) -> Result<(), CliError> {
    let settings = Config::for_packages(global.personal_sources()?).map_err(CliError::config)?;
    let client = http_client::download_client().map_err(CliError::failed)?;
    let fetch = fetch(&settings.hosts_allowed, client);
    let output = *output;
    let perform = move |watch: &DownloadObserver| perform(&command, fetch.as_ref(), watch, output);
    download::until_interrupted(output, perform).await
}

fn perform(
    command: &JbCommand,
    fetch: &dyn Fetch,
    watch: &DownloadObserver,
    output: Output,
) -> Result<(), CliError> {
    let place = match command {
        JbCommand::Init(place) | JbCommand::List(place) | JbCommand::Rewrite(place) => place,
        JbCommand::Install(install) => &install.project,
        JbCommand::Update(update) => &update.project,
        JbCommand::Plan(plan) => &plan.project,
    };
    let directory = Directory::open(&place.path).map_err(CliError::failed)?;
    let path = inside(&directory, &place.path)?;
    let project = Project::new(&directory, &path).map_err(CliError::failed)?;
    let failed = |err: BundlerError| CliError::failed(err);
    let prepared = match command {
        JbCommand::List(_) => return list(project, output),
        JbCommand::Init(_) => bundler::init(project),
        JbCommand::Rewrite(_) => bundler::rewrite(project),
        JbCommand::Install(install) => {
            let order = bundler::InstallRequest {
                packages: install.packages.clone(),
                single: install.single,
                legacy_name: install.legacy_name.clone(),
            };
            bundler::install(project, &order, fetch, watch)
        }
        JbCommand::Update(update) => bundler::update(project, &update.packages, fetch, watch),
        JbCommand::Plan(plan) if plan.update => bundler::update(project, &plan.packages, fetch, watch),
        JbCommand::Plan(plan) => {
            let order = bundler::InstallRequest {
                packages: plan.packages.clone(),
                ..bundler::InstallRequest::default()
            };
            bundler::install(project, &order, fetch, watch)
        }
    };
    let prepared = prepared.map_err(failed)?;
    if !matches!(command, JbCommand::Plan(_)) {
        prepared.apply(&directory).map_err(CliError::failed)?;
    }
    report(&prepared, output);
    Ok(())
}

/// Returns the project's path inside the repository.
fn inside(directory: &Directory, place: &Path) -> Result<String, CliError> {
    let place = place.canonicalize().map_err(CliError::failed)?;
    let inside = place.strip_prefix(directory.root()).map_err(CliError::failed)?;
    let text = inside.to_str();
    let text = text.ok_or_else(|| CliError::failed("the name of the project's directory is not UTF-8"))?;
    Ok(text.to_owned())
}

fn list(project: Project<'_>, output: Output) -> Result<(), CliError> {
    let listed = bundler::list(project).map_err(CliError::failed)?;
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

fn report(prepared: &PreparedOperation, output: Output) {
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
    let files = pluralize(prepared.changes.len(), "file differs", "files differ");
    output.styled_message(OutputStyle::Dim, &format!("{files} from before."));
}

fn row(package: &PackageChange) -> Vec<String> {
    let fate = match package.fate {
        PackageChangeKind::Added => "added",
        PackageChangeKind::Updated => "updated",
        PackageChangeKind::Restored => "restored",
        PackageChangeKind::Kept => "as locked",
        PackageChangeKind::Removed => "removed",
    };
    let version = |version: &Option<String>| match version.as_deref() {
        None => "-".to_owned(),
        Some("") => "local".to_owned(),
        Some(version) => version.to_owned(),
    };
    let (from, to) = (version(&package.from), version(&package.to));
    vec![package.name.clone(), fate.to_owned(), from, to]
}
