//! Compares `file_search` with ripgrep: `cargo bench --bench search`.
//!
//! The input is 10,000 files of 25 MB in total, with three edits on top. Ripgrep searches the same files, checked out
//! on disk and in the page cache. Both must find the same lines for every query before anything is timed. Then they
//! alternate. The time of ripgrep includes its process start and its directory walk, as it does in any tool that calls
//! it. Without ripgrep, the benchmark prints SKIPPED and times only ours.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

mod support;

use bytes::Bytes;
use drydock::base::model::RepoPath;
use drydock::interfaces::tool::{self, Context, MemoryOutputs, Outputs, Toolbox};
use drydock::state::access::Access;
use drydock::state::download::DownloadObserver;
use drydock::state::workspace::{Overlay, Repository, SecretGuard, Tree, Workspace, WorkspaceEdits};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Times, header, repository, row, value};
use tokio_util::sync::CancellationToken;

const FILES: usize = 10_000;
const ROUNDS: usize = 7;
/// The number of matches on one page of the tool.
const PAGE: usize = 200;

/// The globs and texts. The texts match nowhere, once, in some files, in many, and on every line.
const QUERIES: [(&str, &str); 24] = [
    ("**", "needle-7777 "),
    ("**", "needle-1 "),
    ("**", "needle-9999 "),
    ("**", "no such text anywhere"),
    ("**", "value_999"),
    ("**", "needle-"),
    ("**", "here"),
    ("**", "key: 'line 5 of 4321'"),
    ("**", "of 4321'"),
    ("**", "line 60 of"),
    ("**", "local value_1 ="),
    ("**", "of 77"),
    ("**", "'line 1"),
    ("**", "changed by hand"),
    ("**", "{ key: 'line 33 of 3333' };"),
    ("**", "e"),
    ("**", "//"),
    ("**", "LOCAL"),
    ("**/*.jsonnet", "needle-42"),
    ("**/*.libsonnet", "needle-42"),
    ("environments/team-7/**", "needle-"),
    ("environments/team-7/**", "line 20 of"),
    ("**/app-77/*.jsonnet", "local"),
    ("**/file-1*.jsonnet", "needle-1"),
];

fn main() {
    let directory = tempfile::tempdir().unwrap();
    let git = directory.path().join("repo.git");
    let commit = repository::of_files(&git, FILES);
    let opened =
        Repository::open_local("bench", &git, Some("main"), &directory.path().join("bases")).unwrap();
    let base = opened.base(&commit, &|_| ()).unwrap();
    let tree = Arc::new(Overlay::new(base, WorkspaceEdits::new()));
    edit(&tree);
    let files = directory.path().join("files");
    check_out(&tree, &files);
    header("search");
    let version = version();
    match &version {
        Some(version) => println!("peer: {version}"),
        None => println!("SKIPPED: there is no ripgrep (`rg`) on this machine"),
    }
    let tool = SearchTool::new(Workspace {
        repository: opened,
        base: Some(commit),
        tree: Arc::clone(&tree) as Arc<dyn Tree>,
        guard: SecretGuard::default(),
    });
    let (mut ours_all, mut called_all, mut theirs_all) = (Vec::new(), Vec::new(), Vec::new());
    for (glob, text) in QUERIES {
        let matcher = globset::GlobBuilder::new(glob)
            .literal_separator(true)
            .build()
            .unwrap()
            .compile_matcher();
        let found = || {
            tree.search(&|path| matcher.is_match(path), text, 0, PAGE)
                .unwrap()
        };
        let (lines, total) = tree
            .search(&|path| matcher.is_match(path), text, 0, usize::MAX)
            .unwrap();
        assert_eq!(lines.len(), total);
        if version.is_some() {
            let ours: BTreeSet<(String, u64)> = lines
                .iter()
                .map(|found| (found.path.as_str().to_owned(), found.line))
                .collect();
            assert_eq!(ours, ripgrep_lines(&files, glob, text), "{glob} {text}");
        }
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            if version.is_some() {
                let started = Instant::now();
                black_box(ripgrep(&files, glob, text).output().unwrap());
                theirs.push(started.elapsed());
            }
            let started = Instant::now();
            black_box(found());
            ours.push(started.elapsed());
            let started = Instant::now();
            let said = tool.call(glob, text);
            called_all.push(started.elapsed());
            assert_eq!(said.starts_with("no matches"), total == 0, "{said}");
        }
        ours_all.extend(ours.iter().copied());
        theirs_all.extend(theirs.iter().copied());
        let ratio = match version {
            Some(_) => format!("rg / ours {:.1}", ratio(&theirs, &ours)),
            None => String::new(),
        };
        row(
            &format!("{glob} {text:?}: {total} lines"),
            &Times::new(ours),
            &ratio,
        );
    }
    let target = "p50 <= 42 ms, p99 <= 50 ms";
    row("search of the tree, all queries", &Times::new(ours_all), "");
    row(
        "file_search as the model calls it, all queries",
        &Times::new(called_all.clone()),
        target,
    );
    if version.is_some() {
        row("ripgrep, all queries", &Times::new(theirs_all.clone()), "");
        value(
            "ripgrep / file_search, medians",
            ratio(&theirs_all, &called_all),
            "times",
            ">= 1",
        );
    }
}

/// The tool as the agent uses it.
struct SearchTool {
    workspace: Workspace,
    toolbox: Toolbox,
    runtime: tokio::runtime::Runtime,
}

impl SearchTool {
    fn new(workspace: Workspace) -> Self {
        Self {
            workspace,
            toolbox: Toolbox::new(tool::workspace_tools()).unwrap(),
            runtime: tokio::runtime::Builder::new_multi_thread().build().unwrap(),
        }
    }

    fn call(&self, glob: &str, text: &str) -> String {
        let (identity, cancel) = (Access::terminal_identity("bench"), CancellationToken::new());
        let outputs: Arc<dyn Outputs> = Arc::new(MemoryOutputs::default());
        let cx = Context {
            workspace: &self.workspace,
            identity: &identity,
            files_changed_max: 100,
            lines_changed_max: 5_000,
            environments_changed_max: 0,
            cancel: &cancel,
            writers: &tokio_util::task::TaskTracker::new(),
            watch: &DownloadObserver::silent(),
            outputs: &outputs,
            output_bytes_max: 65_536,
        };
        let arguments = serde_json::json!({ "glob_pattern": glob, "text_query": text });
        let search = self.toolbox.find("file_search").unwrap();
        self.runtime.block_on(search.call(cx, arguments)).unwrap()
    }
}

fn ratio(theirs: &[Duration], ours: &[Duration]) -> f64 {
    let median = |times: &[Duration]| Times::new(times.to_vec()).p50().as_secs_f64();
    median(theirs) / median(ours)
}

/// Changes three files, adds one, and deletes one.
fn edit(tree: &Overlay) {
    for number in [0, 4_000, 9_999] {
        let path = RepoPath::parse(&repository::name(number)).unwrap();
        let content = repository::content(number).replace("line 5", "changed by hand 5");
        tree.write(&path, Bytes::from(content)).unwrap();
    }
    let added = RepoPath::parse("environments/team-7/new/main.jsonnet").unwrap();
    tree.write(&added, Bytes::from("// needle-new, changed by hand\n"))
        .unwrap();
    tree.delete(&RepoPath::parse(&repository::name(42)).unwrap())
        .unwrap();
}

fn check_out(tree: &Overlay, files: &Path) {
    for path in tree.files().unwrap().iter() {
        let file = files.join(path.as_str());
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, tree.read(path).unwrap().content).unwrap();
    }
}

fn version() -> Option<String> {
    let output = Command::new("rg").arg("--version").output().ok()?;
    String::from_utf8(output.stdout)
        .ok()?
        .lines()
        .next()
        .map(str::to_owned)
}

fn ripgrep(files: &Path, glob: &str, text: &str) -> Command {
    let mut command = Command::new("rg");
    command.args([
        "--no-config",
        "--fixed-strings",
        "--line-number",
        "--no-heading",
        "--color=never",
    ]);
    if glob != "**" {
        // Without a leading slash, the glob would match at any depth.
        command.arg("--glob").arg(format!("/{glob}"));
    }
    command.arg("-e").arg(text).arg(".").current_dir(files);
    command
}

fn ripgrep_lines(files: &Path, glob: &str, text: &str) -> BTreeSet<(String, u64)> {
    let output = ripgrep(files, glob, text).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let place = |line: &str| {
        let mut parts = line.trim_start_matches("./").splitn(3, ':');
        Some((parts.next()?.to_owned(), parts.next()?.parse().ok()?))
    };
    text.lines().map(|line| place(line).unwrap()).collect()
}
