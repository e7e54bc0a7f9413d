//! `drydock tanka charts`: compares the charts of `chartfile.yaml` with the present ones, and runs the operator's
//! helm on a chart.

use super::output::{Output, OutputStyle};
use super::{CliError, Global, download, helm};
use crate::base::config::Config;
use crate::base::http_client;
use crate::base::model::{FileMode, FileVersion, RepoPath};
use crate::rendering::helm::{Chartfile, Drift, Helm, PackMode, PackResult, VendoredChart, compare_vendored};
use crate::rendering::jsonnet::path::clean;
use crate::state::download::DownloadObserver;
use crate::state::workspace::{Directory, Tree};
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// The exit code if the present charts differ from `chartfile.yaml`.
const DIFFERS: u8 = 16;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock tanka charts list
  drydock tanka charts diff --path lib --json
  drydock tanka charts lint charts/web --set helm.program=/usr/local/bin/helm
  drydock tanka charts update charts/web
  drydock tanka charts build charts/web --json --set 'helm.hosts_allowed=[\"charts.example.com\"]'

`list` and `diff` read chartfile.yaml and need no helm. The others run the helm of `[helm] program` in the sandbox, without a network: `build` and `update` have it pack charts of this repository, and fetch the others themselves, from hosts of `[helm] hosts_allowed`.

Exit codes: 0 done, 1 failed, 16 charts differ (diff).";

#[derive(Debug, Subcommand)]
pub(super) enum ChartsCommand {
    /// Lists the charts that chartfile.yaml declares, and those that are present
    List(ChartfileArguments),
    /// Lists only charts that are missing, of another version, or not declared
    Diff(ChartfileArguments),
    /// Examines a chart
    Lint(Chart),
    /// Lists the dependencies of a chart
    Dependencies(Chart),
    /// Packs the dependencies of a chart into it, at the versions of its lock
    Build(Chart),
    /// Packs the dependencies of a chart into it, at the versions that it declares
    Update(Chart),
}

#[derive(Debug, Args)]
pub(super) struct ChartfileArguments {
    /// The directory of chartfile.yaml
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    path: String,
}

#[derive(Debug, Args)]
pub(super) struct Chart {
    /// The directory of the chart
    #[arg(value_name = "CHART")]
    path: String,
}

pub(super) async fn run(command: ChartsCommand, global: &Global, output: Output) -> Result<(), CliError> {
    #[allow(
        clippy::disallowed_methods,
        reason = "the shell is where the working directory is read"
    )]
    let here = std::env::current_dir().map_err(CliError::failed)?;
    let directory = Directory::open(&here).map_err(CliError::failed)?;
    let settings = Config::for_rendering(global.personal_sources()?).map_err(CliError::config)?;
    let directory = directory.bounded(settings.file_bytes_max);
    let client = http_client::download_client().map_err(CliError::failed)?;
    let helm = helm(&settings, client);
    // Helm's process ends with the thread that started it, so this thread waits for it.
    let perform = move |watch: &DownloadObserver| perform(&command, &directory, &here, helm, watch, output);
    download::until_interrupted(output, perform).await
}

fn perform(
    command: &ChartsCommand,
    directory: &Directory,
    here: &Path,
    helm: Option<Arc<Helm>>,
    watch: &DownloadObserver,
    output: Output,
) -> Result<(), CliError> {
    let place = |typed: &str| inside(directory, here, typed);
    let chart = |chart: &Chart| RepoPath::parse(&place(&chart.path)?).map_err(CliError::failed);
    let needed = || {
        let needs = "this needs helm, which is not enabled; name it with `[helm] program`";
        helm.as_ref().ok_or_else(|| CliError::failed(needs))
    };
    match command {
        ChartsCommand::List(at) => {
            show(&charts(directory, &place(&at.path)?)?, output);
            Ok(())
        }
        ChartsCommand::Diff(at) => diff(directory, &place(&at.path)?, output),
        ChartsCommand::Lint(at) => {
            let said = needed()?.lint(directory, &chart(at)?, &|| watch.is_stopped());
            say(&said.map_err(CliError::failed)?, output);
            Ok(())
        }
        ChartsCommand::Dependencies(at) => {
            let said = needed()?.dependencies(directory, &chart(at)?, &|| watch.is_stopped());
            say(&said.map_err(CliError::failed)?, output);
            Ok(())
        }
        ChartsCommand::Build(at) => pack(needed()?, directory, &chart(at)?, PackMode::Build, watch, output),
        ChartsCommand::Update(at) => pack(needed()?, directory, &chart(at)?, PackMode::Update, watch, output),
    }
}

/// Returns a typed path, which is relative to the working directory, from the root.
fn inside(directory: &Directory, here: &Path, typed: &str) -> Result<String, CliError> {
    let here = here.canonicalize().map_err(CliError::failed)?;
    let inside = here.strip_prefix(directory.root()).unwrap_or(Path::new(""));
    let outside = || CliError::failed(format!("`{typed}` is outside of the repository"));
    clean(&inside.to_string_lossy(), typed).ok_or_else(outside)
}

fn charts(directory: &Directory, place: &str) -> Result<Vec<VendoredChart>, CliError> {
    let chartfile = Chartfile::read(directory, place).map_err(CliError::failed)?;
    compare_vendored(directory, &chartfile).map_err(CliError::failed)
}

fn diff(directory: &Directory, place: &str, output: Output) -> Result<(), CliError> {
    let mut charts = charts(directory, place)?;
    let all = charts.len();
    charts.retain(|chart| chart.drift != Drift::None);
    show(&charts, output);
    match charts.len() {
        0 => Ok(()),
        differ => Err(CliError {
            code: DIFFERS,
            message: format!("{differ} of {all} charts differ"),
        }),
    }
}

fn show(charts: &[VendoredChart], output: Output) {
    if output.json() {
        output.value(&json!({ "charts": charts }));
        return;
    }
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let row = |chart: &VendoredChart| {
        let drift = match chart.drift {
            Drift::None => "as declared",
            Drift::Missing => "missing",
            Drift::OtherVersion => "another version",
            Drift::NotListed => "not declared",
        };
        vec![
            chart.directory.clone(),
            or_none(&chart.chart),
            or_none(&chart.wanted),
            or_none(&chart.found),
            drift.to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = charts.iter().map(row).collect();
    output.table(&["DIRECTORY", "CHART", "WANTED", "FOUND", ""], &rows);
}

fn say(text: &str, output: Output) {
    match output.json() {
        true => output.value(&json!({ "helm": text })),
        false => text.lines().for_each(|line| output.line(line)),
    }
}

fn pack(
    helm: &Helm,
    directory: &Directory,
    chart: &RepoPath,
    how: PackMode,
    watch: &DownloadObserver,
    output: Output,
) -> Result<(), CliError> {
    let packed = helm.pack(directory, chart, how, watch);
    let PackResult {
        output: said,
        changes,
    } = packed.map_err(CliError::failed)?;
    if watch.is_stopped() {
        return Err(CliError::failed("interrupted; nothing was written"));
    }
    for (path, content) in &changes {
        let after = content.clone().map(|content| FileVersion {
            content,
            mode: FileMode::Regular,
        });
        directory.put(path, after).map_err(CliError::failed)?;
    }
    let files: Vec<String> = changes.keys().map(ToString::to_string).collect();
    if output.json() {
        output.value(&json!({ "helm": said, "files": files }));
        return Ok(());
    }
    output.styled_message(OutputStyle::Dim, &said);
    files.iter().for_each(|file| output.line(file));
    Ok(())
}
