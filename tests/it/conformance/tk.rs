//! The output of `tk` for a project written by hand, run by run, compared with ours.

use super::pack::{read_own_file, read_pack};
use crate::support::evaluation::evaluator;
use drydock::base::model::RepoPath;
use drydock::rendering::jsonnet::yaml;
use drydock::rendering::jsonnet::{EvalLimits, Import};
use drydock::rendering::tanka::importers::{self, ImportGraph, PathState};
use drydock::rendering::tanka::{
    self, Evaluate, Filter, Layout, Listing, Renderer, Selector, TankaError, Target,
};
use drydock::state::workspace::{Directory, Tree};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[derive(Deserialize)]
struct TkPack {
    tree: BTreeMap<String, String>,
    runs: Vec<TkRun>,
}

#[derive(Deserialize)]
struct TkRun {
    args: Vec<String>,
    cwd: String,
    rc: i32,
    stdout: String,
    stderr: String,
}

/// The known differences of runs. A key that ends in `*` stands for all runs with that prefix.
#[derive(Deserialize)]
struct KnownTkDifferences {
    tk: BTreeMap<String, String>,
}

/// The output of one of our runs, or its error.
type RunOutput = Result<String, String>;

struct TkProject {
    // Keeps the files until the fixture is dropped.
    _directory: tempfile::TempDir,
    tree: Arc<dyn Tree>,
    renderer: Renderer,
}

impl TkProject {
    fn new(files: &BTreeMap<String, String>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join(".git")).expect("a directory");
        for (path, content) in files {
            put(&directory.path().join(path), content);
        }
        let tree: Arc<dyn Tree> = Arc::new(Directory::open(directory.path()).expect("a work tree"));
        let evaluator: Arc<dyn Evaluate> = Arc::new(evaluator(EvalLimits::default()));
        Self {
            _directory: directory,
            renderer: Renderer::new(Arc::clone(&tree), evaluator),
            tree,
        }
    }

    /// Runs the equivalent of a `tk` command. Returns `None` for a command that is not compared here.
    async fn run(&self, run: &TkRun) -> Option<Result<RunOutput, TankaError>> {
        let args: Vec<&str> = run.args.iter().map(String::as_str).collect();
        let cancel = CancellationToken::new();
        Some(match args.as_slice() {
            ["show", path, flags @ ..] => self.show(&run.cwd, path, flags, &cancel).await.map(Ok),
            ["eval", path, flags @ ..] => self.eval(&run.cwd, path, flags, &cancel).await.map(Ok),
            ["env", "list", flags @ ..] => self.list(&run.cwd, flags, &cancel).await,
            ["tool", "jpath", path] => self.jpath(&run.cwd, path).map(Ok),
            ["tool", "imports", path] => self.imports(&run.cwd, path, &cancel).await.map(Ok),
            ["tool", "importers", files @ ..] => self.importers(&run.cwd, files).map(Ok),
            ["tool", "importers-count", directory, "--recursive"] => {
                self.importers_count(&run.cwd, directory).map(Ok)
            }
            _ => return None,
        })
    }

    async fn show(
        &self,
        cwd: &str,
        path: &str,
        flags: &[&str],
        cancel: &CancellationToken,
    ) -> Result<String, TankaError> {
        let (target, rest) = target(cwd, path, flags);
        let targets: Vec<&str> = rest
            .iter()
            .filter(|(flag, _)| flag == "-t")
            .map(|(_, value)| value.as_str())
            .collect();
        let rendered = self
            .renderer
            .render(&target, &Filter::targets(&targets)?, cancel)
            .await?;
        Ok(yaml::stream(rendered.objects.iter().map(|object| &object.value)))
    }

    async fn eval(
        &self,
        cwd: &str,
        path: &str,
        flags: &[&str],
        cancel: &CancellationToken,
    ) -> Result<String, TankaError> {
        let (target, rest) = target(cwd, path, flags);
        let expression = rest
            .iter()
            .find(|(flag, _)| flag == "-e")
            .map(|(_, value)| value.as_str());
        let value = self.renderer.evaluate(&target, expression, cancel).await?;
        Ok(yaml::indented(&value, "  "))
    }

    async fn list(
        &self,
        cwd: &str,
        flags: &[&str],
        cancel: &CancellationToken,
    ) -> Result<RunOutput, TankaError> {
        let path = flags.first().filter(|first| !first.starts_with('-'));
        let selector = flags
            .iter()
            .position(|flag| *flag == "-l")
            .map_or("", |place| flags[place + 1]);
        let list = self
            .renderer
            .list(&within(cwd, path.unwrap_or(&".")), cancel)
            .await?;
        let selector = Selector::parse(selector)?;
        let found = list.environments.into_iter().map(|found| found.environment);
        let found: Vec<_> = found
            .filter(|environment| selector.selects(&environment.metadata.labels))
            .collect();
        let out = if flags.contains(&"--json") {
            tanka::json(&found)?
        } else if flags.contains(&"--names") {
            found
                .iter()
                .map(|environment| format!("{}\n", environment.metadata.name))
                .collect()
        } else {
            tanka::table(&found)
        };
        Ok(match list.failures.first() {
            Some(failure) => Err(format!("partial: {out}{}", failure.error)),
            None => Ok(out),
        })
    }

    fn jpath(&self, cwd: &str, path: &str) -> Result<String, TankaError> {
        let listing = Listing::new(self.tree.files()?);
        Ok(Layout::find(&listing, &within(cwd, path))?.jpath().join(":"))
    }

    async fn imports(&self, cwd: &str, path: &str, cancel: &CancellationToken) -> Result<String, TankaError> {
        let imports = self
            .renderer
            .imports(&Target::from_path(within(cwd, path)), cancel)
            .await?;
        let read = imports.into_iter().filter_map(|import| match import {
            Import::Read { path, .. } => Some(path.as_str().to_owned()),
            Import::Absent { .. } => None,
        });
        Ok(format!("{}\n", yaml::compact(&read.collect::<Vec<_>>().into())))
    }

    /// Tanka searches the directory in which it is started.
    fn importers(&self, cwd: &str, files: &[&str]) -> Result<String, TankaError> {
        let found = importers::tk_importers(self.tree.as_ref(), cwd, cwd, files)?;
        let found: Vec<&str> = found.iter().map(RepoPath::as_str).collect();
        Ok(format!("{}\n", found.join("\n")))
    }

    fn importers_count(&self, cwd: &str, directory: &str) -> Result<String, TankaError> {
        let directory = within(cwd, directory);
        let counts =
            importers::tk_importers_count(self.tree.as_ref(), cwd, &directory, importers::Depth::Recursive)?;
        let lines = counts.iter().map(|(path, count)| format!("{path}: {count}\n"));
        Ok(lines.chain(["\n".to_owned()]).collect())
    }
}

fn put(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    match content.strip_prefix("->") {
        Some(target) => std::os::unix::fs::symlink(target.trim_end(), path).expect("a link"),
        None => std::fs::write(path, content).expect("a file"),
    }
}

fn within(cwd: &str, path: &str) -> String {
    match (cwd, path) {
        ("" | ".", path) => path.to_owned(),
        (cwd, ".") => cwd.to_owned(),
        (cwd, path) => format!("{cwd}/{path}"),
    }
}

/// Returns the target to evaluate, and the overrides from the flags.
fn target(cwd: &str, path: &str, flags: &[&str]) -> (Target, Vec<(String, String)>) {
    let mut target = Target::from_path(within(cwd, path));
    let mut rest = Vec::new();
    for pair in flags.chunks(2) {
        let (flag, value) = (pair[0], pair[1]);
        let argument = value.split_once('=').unwrap_or_default();
        match flag {
            "--name" => target.name = Some(value.to_owned()),
            "-A" => {
                let code = serde_json::Value::from(argument.1).to_string();
                target.tla_code.insert(argument.0.to_owned(), code);
            }
            "--tla-code" => {
                target
                    .tla_code
                    .insert(argument.0.to_owned(), argument.1.to_owned());
            }
            _ => rest.push((flag.to_owned(), value.to_owned())),
        }
    }
    (target, rest)
}

/// Returns the reason why our run differs from theirs, or `None` if it does not. Messages of the evaluator itself may
/// differ.
fn difference(run: &TkRun, ours: Option<Result<RunOutput, TankaError>>) -> Option<String> {
    let Some(ours) = ours else {
        return Some("not compared".to_owned());
    };
    let ours = ours.unwrap_or_else(|err| Err(err.to_string()));
    let relative = |text: &str| text.replace("$ROOT/", "");
    match (&ours, run.rc) {
        (Ok(out), 0) => {
            (relative(&run.stdout) != *out).then(|| format!("theirs:\n{}\nours:\n{out}", run.stdout))
        }
        (Err(err), 1) => {
            let lines = run.stderr.lines().filter(|line| !line.starts_with("{\"level\""));
            let theirs: String = lines.map(|line| format!("{line}\n")).collect();
            let is_evaluation = |text: &str| text.starts_with("evaluating jsonnet");
            let theirs = relative(theirs.strip_prefix("Error: ").unwrap_or(&theirs));
            // Advice names our own command.
            let err = err.replace("'drydock tanka env list", "'tk env list");
            let is_equal = theirs == format!("{err}\n") || is_evaluation(&theirs) && is_evaluation(&err);
            (!is_equal).then(|| format!("theirs: {theirs}\nours: {err}"))
        }
        _ => Some(format!(
            "theirs: {} {}{}\nours: {ours:?}",
            run.rc, run.stdout, run.stderr
        )),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tanka_commands_match_recorded_tk_output() {
    let Some(pack) = read_pack("tk-oracle.json.gz") else {
        return;
    };
    let pack: TkPack = serde_json::from_str(&pack).expect("the pack is JSON");
    let known: KnownTkDifferences = toml::from_str(&read_own_file("known.toml")).expect("the list is TOML");
    let project = TkProject::new(&pack.tree);
    let (mut equal, mut expected, mut unexpected) = (0, 0, Vec::new());
    let mut used: BTreeMap<&str, usize> = BTreeMap::new();
    for run in &pack.runs {
        let words = std::iter::once(run.cwd.as_str()).filter(|cwd| !cwd.is_empty());
        let line = words
            .chain(run.args.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" ");
        let is_key = |key: &&String| match key.strip_suffix('*') {
            Some(start) => line.starts_with(start),
            None => **key == line,
        };
        let reason = known.tk.keys().find(is_key);
        match (difference(run, project.run(run).await), reason) {
            (None, None) => equal += 1,
            (Some(_), Some(key)) => {
                expected += 1;
                *used.entry(key).or_default() += 1;
            }
            (None, Some(_)) => unexpected.push(format!("{line}\nis equal, but listed as known to differ")),
            (Some(difference), None) => unexpected.push(format!("{line}\n{difference}")),
        }
    }
    let unused = known.tk.keys().filter(|key| !used.contains_key(key.as_str()));
    unexpected.extend(unused.map(|key| format!("{key}\nis listed, but no run of that name differs")));
    println!("tk {}/{} ({expected} known)", equal + expected, pack.runs.len());
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n\n"));
}

/// Checks that the static closure contains every file that an evaluation reads or misses. An entry point outside the
/// closure of a change is therefore unaffected and not evaluated again.
#[tokio::test(flavor = "multi_thread")]
async fn every_import_of_an_evaluation_is_in_the_static_closure() {
    let Some(pack) = read_pack("tk-oracle.json.gz") else {
        return;
    };
    let pack: TkPack = serde_json::from_str(&pack).expect("the pack is JSON");
    let project = TkProject::new(&pack.tree);
    let graph = ImportGraph::build(project.tree.as_ref(), Arc::default()).expect("a graph");
    let cancel = CancellationToken::new();
    let (mut evaluated, mut missing) = (0, Vec::new());
    for (entrypoint, closure) in graph.closures() {
        let target = Target::from_path(entrypoint.as_str());
        let Ok(imports) = project.renderer.imports(&target, &cancel).await else {
            continue;
        };
        evaluated += 1;
        for import in imports {
            let (path, state) = match import {
                Import::Read { path, blob } => (path, PathState::File { blob }),
                Import::Absent { path } => (path, PathState::Absent),
            };
            let known = closure.dependencies.get(&path).map(|known| &known.state);
            if known != Some(&state) {
                missing.push(format!("{entrypoint}: {path} is {state:?}, known as {known:?}"));
            }
        }
    }
    println!("importers {evaluated}/{evaluated} evaluations read what is known");
    assert!(
        evaluated > 15,
        "only {evaluated} of {} evaluate",
        graph.closures().len()
    );
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
