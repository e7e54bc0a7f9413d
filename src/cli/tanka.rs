//! `drydock tanka`: lists the environments in the working directory and renders them from the current files. It
//! contacts no model and no cluster.

use super::failure_format::FailureFormatter;
use super::output::Output;
use super::{CliError, Global, evaluator, tanka_charts, tanka_diff, tanka_fmt, tanka_lint};
use crate::base::config::{Config, SandboxSettings};
use crate::base::model::{RepoPath, one_line};
use crate::base::redact::Redactor;
use crate::rendering::inspect::{CrossCheck, CrossCheckState};
use crate::rendering::jsonnet::{CrossCheckMode, CrossCheckResult, yaml};
use crate::rendering::tanka::importers::{self, DependencyRole, ImportGraph, Importer};
use crate::rendering::tanka::{
    self, EnvironmentList, Filter, RenderedEnvironment, Renderer, Selector, Target,
};
use crate::state::workspace::{Directory, Tree};
use clap::{Args, Subcommand, ValueEnum};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub(super) const EXAMPLES: &str = "\
Examples:
  drydock tanka env list
  drydock tanka env list environments -l stage=prod --json
  drydock tanka env show environments/dev
  drydock tanka env show environments/all --name prod-eu -t 'deployment/.*'
  drydock tanka env diff
  drydock tanka env diff environments/dev
  drydock tanka env importers lib/app.libsonnet --why
  drydock tanka fmt . --test
  drydock tanka lint lib/app.libsonnet
  drydock tanka charts diff

Paths are relative to the directory you are in. The list shows every environment that can be loaded; the exit code is 1 if one cannot.";

#[derive(Debug, Subcommand)]
pub(super) enum TankaCommand {
    /// Lists environments, or shows the objects of one
    #[command(subcommand, after_help = EXAMPLES)]
    Env(EnvironmentCommand),
    /// Formats Jsonnet files, byte for byte as `tk fmt`
    #[command(after_help = tanka_fmt::EXAMPLES)]
    Fmt(tanka_fmt::FmtArguments),
    /// Reports problems of Jsonnet files, and whether the environments that use them render
    #[command(after_help = tanka_lint::EXAMPLES)]
    Lint(tanka_lint::JsonnetLintArguments),
    /// Lists and checks charts, and packs their dependencies
    #[command(subcommand, after_help = tanka_charts::EXAMPLES)]
    Charts(tanka_charts::ChartsCommand),
}

#[derive(Debug, Subcommand)]
pub(super) enum EnvironmentCommand {
    /// Lists the environments below a directory
    List(EnvironmentListArguments),
    /// Renders an environment and prints its objects as YAML, byte for byte as `tk show`
    Show(EnvironmentShowArguments),
    /// Shows what the working directory changes in environments, against the commit that is checked out
    Diff(tanka_diff::EnvironmentDiffArguments),
    /// Lists the entry points a file or directory belongs to: those a change of it affects
    Importers(ImportersArguments),
}

#[derive(Debug, Args)]
pub(super) struct ImportersArguments {
    /// Files or directories, with `deleted:` before one that was deleted
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// The way importers are found
    #[arg(long, value_enum, default_value = "exact")]
    mode: Mode,
    /// Shows through which files each entry point imports the path
    #[arg(long, conflicts_with = "mode")]
    why: bool,
}

/// The way importers are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Every import is resolved as an evaluation does
    Exact,
    /// By the names in imports, as `tk tool importers`
    Tk,
}

#[derive(Debug, Args)]
pub(super) struct EnvironmentListArguments {
    /// The directory to search
    #[arg(default_value = ".", value_name = "DIRECTORY")]
    directory: String,
    /// Only environments with these labels: `stage=prod,tier in (1,2),!old`
    #[arg(short = 'l', long, default_value = "", value_name = "LABELS")]
    selector: String,
    /// Prints only names
    #[arg(long)]
    names: bool,
}

#[derive(Debug, Args)]
pub(super) struct EnvironmentShowArguments {
    /// The environment: its directory, a file in it, or its name
    #[arg(value_name = "ENVIRONMENT")]
    environment: String,
    /// The name of the environment, where a file holds several
    #[arg(long)]
    name: Option<String>,
    /// Only objects whose `Kind/name` matches; `!` before it leaves them out
    #[arg(short = 't', long = "target", value_name = "EXPRESSION")]
    targets: Vec<String>,
    /// An external variable, as text
    #[arg(short = 'V', long, value_name = "NAME=TEXT")]
    ext_str: Vec<String>,
    /// An external variable, as Jsonnet
    #[arg(long, value_name = "NAME=CODE")]
    ext_code: Vec<String>,
    /// A top-level argument, as text
    #[arg(short = 'A', long, value_name = "NAME=TEXT")]
    tla_str: Vec<String>,
    /// A top-level argument, as Jsonnet
    #[arg(long, value_name = "NAME=CODE")]
    tla_code: Vec<String>,
    /// Renders with one engine only: faster, but not cross-checked
    #[arg(long)]
    no_cross_check: bool,
}

pub(super) async fn run(command: TankaCommand, global: &Global, output: &Output) -> Result<(), CliError> {
    let command = match command {
        TankaCommand::Env(command) => command,
        TankaCommand::Fmt(arguments) => return tanka_fmt::run(&arguments, global, output),
        TankaCommand::Lint(arguments) => return lint(&arguments, global, output).await,
        TankaCommand::Charts(command) => return tanka_charts::run(command, global, *output).await,
    };
    let WorkingContext {
        here,
        directory,
        settings,
    } = open_working_context(global)?;
    let within = PathMapper::new(directory.root(), &here);
    let tree = Arc::clone(&directory) as Arc<dyn Tree>;
    let renderer = Renderer::new(tree, evaluator(&settings));
    let redactor = Redactor::new([]);
    let sources = FailureFormatter {
        tree: directory.as_ref(),
        redactor: &redactor,
    };
    let cancel = CancellationToken::new();
    match command {
        EnvironmentCommand::List(arguments) => {
            let selector = Selector::parse(&arguments.selector).map_err(CliError::failed)?;
            if !is_there(&here, &arguments.directory) {
                let directory = &arguments.directory;
                return Err(CliError::failed(format!("no directory `{directory}`")));
            }
            let place = within.path(&arguments.directory);
            let list = renderer.list(&place, &cancel).await.map_err(CliError::failed)?;
            let columns = match arguments.names {
                true => EnvironmentColumns::Name,
                false => EnvironmentColumns::All,
            };
            list_environments(list, &selector, columns, sources, output)
        }
        EnvironmentCommand::Show(arguments) => {
            let filter = Filter::targets(&arguments.targets).map_err(CliError::failed)?;
            let target = target(arguments, &within)?;
            let rendered = renderer
                .render(&target, &filter, &cancel)
                .await
                .map_err(|error| sources.to_error(&error))?;
            show_environment(&rendered, output)
        }
        EnvironmentCommand::Diff(mut arguments) => {
            arguments.environment = arguments.environment.map(|path| within.path(&path));
            tanka_diff::run(arguments, Arc::clone(&directory), &settings, sources, output).await
        }
        EnvironmentCommand::Importers(arguments) => match arguments.mode {
            Mode::Exact => list_importers(directory.as_ref(), &arguments, &here, &within, output),
            Mode::Tk => list_as_tk(directory.as_ref(), &arguments, &here, &within, output),
        },
    }
}

async fn lint(
    arguments: &tanka_lint::JsonnetLintArguments,
    global: &Global,
    output: &Output,
) -> Result<(), CliError> {
    let WorkingContext {
        here,
        directory,
        settings,
    } = open_working_context(global)?;
    tanka_lint::run(arguments, directory, &here, &settings, output).await
}

/// The working directory, its repository and the settings for rendering.
pub(super) struct WorkingContext {
    pub(super) here: PathBuf,
    pub(super) directory: Arc<Directory>,
    pub(super) settings: SandboxSettings,
}

pub(super) fn open_working_context(global: &Global) -> Result<WorkingContext, CliError> {
    #[allow(
        clippy::disallowed_methods,
        reason = "the shell is where the working directory is read"
    )]
    let here = std::env::current_dir().map_err(CliError::failed)?;
    let directory = Directory::open(&here).map_err(CliError::failed)?;
    let settings = Config::for_rendering(global.personal_sources()?).map_err(CliError::config)?;
    let directory = Arc::new(directory.bounded(settings.file_bytes_max));
    Ok(WorkingContext {
        here,
        directory,
        settings,
    })
}

/// The directory that typed paths are relative to.
struct PathMapper(String);

impl PathMapper {
    fn new(root: &Path, here: &Path) -> Self {
        let here = here.canonicalize().unwrap_or_else(|_| here.to_owned());
        let inside = here.strip_prefix(root).unwrap_or(Path::new(""));
        Self(inside.to_string_lossy().into_owned())
    }

    /// Returns a path relative to the root. A path that leads above the root is left for the renderer to refuse.
    fn path(&self, given: &str) -> String {
        let mut components: Vec<&str> = self.0.split('/').filter(|part| !part.is_empty()).collect();
        if given.starts_with('/') {
            return given.to_owned();
        }
        for part in given.split('/') {
            match part {
                "" | "." => {}
                ".." if !components.is_empty() && components.last() != Some(&"..") => {
                    components.pop();
                }
                part => components.push(part),
            }
        }
        if components.is_empty() {
            ".".to_owned()
        } else {
            components.join("/")
        }
    }
}

/// Returns true if there is a file, a directory or a symlink at a typed path.
fn is_there(here: &Path, typed: &str) -> bool {
    std::fs::symlink_metadata(here.join(typed)).is_ok()
}

/// The mark of a deleted file among the paths of `importers`.
const DELETED: &str = "deleted:";

fn missing_file(typed: &str) -> CliError {
    CliError::failed(format!(
        "no file `{typed}`; write `{DELETED}{typed}` for one that was deleted"
    ))
}

fn target(arguments: EnvironmentShowArguments, within: &PathMapper) -> Result<Target, CliError> {
    Ok(Target {
        name: arguments.name,
        ext_code: variables(&arguments.ext_str, &arguments.ext_code)?,
        tla_code: variables(&arguments.tla_str, &arguments.tla_code)?,
        cross_check: match arguments.no_cross_check {
            true => CrossCheckMode::Off,
            false => CrossCheckMode::On,
        },
        ..Target::from_path(within.path(&arguments.environment))
    })
}

/// Returns variables as Jsonnet code; a text becomes a string literal.
fn variables(texts: &[String], codes: &[String]) -> Result<BTreeMap<String, String>, CliError> {
    let pair = |given: &String| match given.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(CliError {
            code: 2,
            message: format!("`{given}`: write NAME=VALUE"),
        }),
    };
    let texts = texts.iter().map(|given| {
        let (name, text) = pair(given)?;
        Ok((name, serde_json::Value::from(text).to_string()))
    });
    texts.chain(codes.iter().map(pair)).collect()
}

/// The facts that a list shows of each environment.
#[derive(Clone, Copy)]
enum EnvironmentColumns {
    Name,
    All,
}

fn list_environments(
    list: EnvironmentList,
    selector: &Selector,
    columns: EnvironmentColumns,
    sources: FailureFormatter<'_>,
    output: &Output,
) -> Result<(), CliError> {
    let found = list.environments.into_iter().map(|found| found.environment);
    let environments: Vec<_> = found
        .filter(|environment| selector.selects(&environment.metadata.labels))
        .collect();
    let failures: Vec<_> = list
        .failures
        .iter()
        .map(|failure| serde_json::json!({ "path": failure.entrypoint, "error": failure.error.to_string() }))
        .collect();
    if output.json() {
        output.value(&serde_json::json!({ "environments": environments, "failures": failures }));
    } else {
        match columns {
            EnvironmentColumns::Name => {
                for environment in &environments {
                    output.line(&one_line(&environment.metadata.name));
                }
            }
            EnvironmentColumns::All => print_document(&tanka::table(&environments), output),
        }
    }
    for warning in &list.warnings {
        output.message(warning);
    }
    if list.failures.is_empty() {
        return Ok(());
    }
    if !output.json() {
        for failure in &list.failures {
            output.message(&format!(
                "`{}`: {}",
                failure.entrypoint,
                sources.format_error(&failure.error)
            ));
        }
    }
    Err(CliError::failed(format!(
        "{} of the entry points could not be loaded",
        list.failures.len()
    )))
}

fn show_environment(rendered: &RenderedEnvironment, output: &Output) -> Result<(), CliError> {
    let cross_check = CrossCheck::from_verdict(&rendered.cross_check);
    for warning in &rendered.warnings {
        output.message(warning);
    }
    if output.json() {
        let objects: Vec<_> = rendered.objects.iter().map(|object| &object.value).collect();
        output.value(&serde_json::json!({
            "environment": rendered.environment,
            "objects": objects,
            "cross_check": cross_check.state,
        }));
    } else {
        print_document(
            &yaml::stream(rendered.objects.iter().map(|object| &object.value)),
            output,
        );
    }
    match (cross_check.state, &rendered.cross_check) {
        (CrossCheckState::Agrees, CrossCheckResult::Agrees) => Ok(()),
        (CrossCheckState::Disagrees, _) => Err(CliError::failed(cross_check.sentence)),
        _ => {
            output.message(&cross_check.sentence);
            Ok(())
        }
    }
}

fn list_importers(
    tree: &dyn Tree,
    arguments: &ImportersArguments,
    here: &Path,
    within: &PathMapper,
    output: &Output,
) -> Result<(), CliError> {
    let graph = ImportGraph::build(tree, Arc::default()).map_err(CliError::failed)?;
    let mut importers: BTreeMap<RepoPath, Importer> = BTreeMap::new();
    for typed in &arguments.paths {
        let deleted = typed.strip_prefix(DELETED).filter(|_| !is_there(here, typed));
        let path = within.path(deleted.unwrap_or(typed));
        let path = RepoPath::parse(&path).map_err(CliError::failed)?;
        let found = graph.importers(&path);
        // A file that does not exist may still be imported.
        if found.is_empty() && deleted.is_none() && !is_there(here, typed) {
            return Err(missing_file(typed));
        }
        for importer in found {
            importers.entry(importer.entrypoint.clone()).or_insert(importer);
        }
    }
    if output.json() {
        let importers: Vec<_> = importers.values().map(importer_json).collect();
        output.value(&serde_json::json!({ "importers": importers }));
        return Ok(());
    }
    for (entrypoint, importer) in &importers {
        let chain: Vec<&str> = importer.chain.iter().map(RepoPath::as_str).collect();
        output.line(&match arguments.why {
            true => chain.join(" > "),
            false => entrypoint.to_string(),
        });
    }
    Ok(())
}

fn importer_json(importer: &Importer) -> serde_json::Value {
    let because = match importer.role {
        DependencyRole::Import => "import",
        DependencyRole::Settings => "settings",
        DependencyRole::Chart => "chart",
        DependencyRole::Lock => "lock",
    };
    serde_json::json!({ "entrypoint": importer.entrypoint, "because": because, "chain": importer.chain })
}

fn list_as_tk(
    tree: &dyn Tree,
    arguments: &ImportersArguments,
    here: &Path,
    within: &PathMapper,
    output: &Output,
) -> Result<(), CliError> {
    let paths: Vec<&str> = arguments.paths.iter().map(String::as_str).collect();
    let is_missing = |typed: &&&str| !typed.starts_with(DELETED) && !is_there(here, typed);
    if let Some(typed) = paths.iter().find(is_missing) {
        return Err(missing_file(typed));
    }
    let found = importers::tk_importers(tree, &within.0, &within.0, &paths).map_err(CliError::failed)?;
    if output.json() {
        let found: Vec<_> = found
            .iter()
            .map(|entrypoint| serde_json::json!({ "entrypoint": entrypoint }))
            .collect();
        output.value(&serde_json::json!({ "importers": found }));
        return Ok(());
    }
    for entrypoint in &found {
        output.line(entrypoint.as_str());
    }
    Ok(())
}

/// Prints a text that already ends with a line end.
fn print_document(text: &str, output: &Output) {
    if let Some(text) = text.strip_suffix('\n') {
        output.line(text);
    }
}

#[cfg(test)]
mod tests {
    use super::{PathMapper, variables};

    #[test]
    fn paths_are_relative_to_where_the_person_is() {
        let within = PathMapper("environments/dev".to_owned());
        for (given, expected) in [
            (".", "environments/dev"),
            ("..", "environments"),
            ("../prod/", "environments/prod"),
            ("./a/../b", "environments/dev/b"),
            ("../..", "."),
            ("../../..", ".."),
            ("../../../x", "../x"),
            ("/etc", "/etc"),
        ] {
            assert_eq!(within.path(given), expected, "{given}");
        }
        assert_eq!(PathMapper(String::new()).path("."), ".");
    }

    #[test]
    fn texts_are_quoted_and_code_is_not() {
        let given = |text: &str| vec![text.to_owned()];
        let variables = variables(&given("a=1\"=2"), &given("b=1 + 1")).map_err(|failure| failure.message);
        let expected = [("a", "\"1\\\"=2\""), ("b", "1 + 1")];
        let expected = expected.map(|(name, code)| (name.to_owned(), code.to_owned()));
        assert_eq!(variables, Ok(expected.into()));
    }
}
