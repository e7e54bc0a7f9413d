//! The end of a turn whose tool never answers: each tool, at each component on which it can wait.

use super::fixture::{TurnFixture, TurnRun};
use crate::base::model::{FileChange, FileVersion, OutputNumber, RepoPath, Verdict};
use crate::base::redact::Redactor;
use crate::interfaces::provider::scripted::{ScriptedProvider, calls, says};
use crate::interfaces::tool::{self, Outputs, Tool, ToolServices, testing::no_helm};
use crate::rendering::bundler::{Fetch, FetchError, FetchMethod, Git, PackageSnapshot};
use crate::rendering::compare::Comparer;
use crate::rendering::jsonnet::{EvalError, EvalRequest, Evaluation};
use crate::rendering::tanka::Evaluate;
use crate::rendering::tanka::testing::JsonEvaluator;
use crate::state::download::DownloadObserver;
use crate::state::workspace::{Match, Tree, TreeError};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The time limit of a turn.
const TIME_MAX: Duration = Duration::from_secs(600);

const FILES: [(&str, &str); 8] = [
    (
        "charts/web/Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    ),
    ("environments/dev/main.jsonnet", "{ \"image\": \"web:1.8.3\" }\n"),
    ("environments/dev/spec.json", "{}\n"),
    ("environments/inline/main.jsonnet", "{}\n"),
    (
        "jsonnetfile.json",
        "{\"version\":1,\"dependencies\":[{\"source\":{\"git\":{\"remote\":\"https://github.com/org/c\",\"subdir\":\"\"}},\
         \"version\":\"main\"}],\"legacyImports\":true}\n",
    ),
    (
        "jsonnetfile.lock.json",
        "{\"version\":1,\"dependencies\":[],\"legacyImports\":false}\n",
    ),
    ("lib/web.libsonnet", "{}\n"),
    ("README.md", "# infra\n"),
];

/// A component that never answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HangPlace {
    /// Every read of a file.
    Files,
    /// A write that has begun.
    Write,
    Evaluator,
    Packages,
    Outputs,
}

const ALL: [HangPlace; 5] = [
    HangPlace::Files,
    HangPlace::Write,
    HangPlace::Evaluator,
    HangPlace::Packages,
    HangPlace::Outputs,
];

/// A wait without end at one place, until the test releases its threads.
#[derive(Debug)]
struct Hang {
    place: HangPlace,
    reached: Semaphore,
    is_released: Mutex<bool>,
    released: Condvar,
}

impl Hang {
    fn at(place: HangPlace) -> Arc<Self> {
        Arc::new(Self {
            place,
            reached: Semaphore::new(0),
            is_released: Mutex::new(false),
            released: Condvar::new(),
        })
    }

    fn block(&self, place: HangPlace) {
        if place != self.place {
            return;
        }
        self.reached.add_permits(1);
        let mut is_released = self.is_released.lock().unwrap();
        while !*is_released {
            is_released = self.released.wait(is_released).unwrap();
        }
    }

    async fn wait(&self, place: HangPlace) {
        if place == self.place {
            self.reached.add_permits(1);
            std::future::pending::<()>().await;
        }
    }

    fn release(&self) {
        *self.is_released.lock().unwrap() = true;
        self.released.notify_all();
    }
}

/// A tree whose files, or whose writes, never answer.
#[derive(Debug)]
struct HangingTree {
    tree: Arc<dyn Tree>,
    hang: Arc<Hang>,
}

impl HangingTree {
    fn read_from(&self) -> &dyn Tree {
        self.hang.block(HangPlace::Files);
        self.tree.as_ref()
    }

    fn write_to(&self) -> &dyn Tree {
        self.hang.block(HangPlace::Write);
        self.tree.as_ref()
    }
}

impl Tree for HangingTree {
    fn read(&self, path: &RepoPath) -> Result<FileVersion, TreeError> {
        self.read_from().read(path)
    }

    fn files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        self.read_from().files()
    }

    fn write(&self, path: &RepoPath, content: Bytes) -> Result<(), TreeError> {
        self.write_to().write(path, content)
    }

    fn delete(&self, path: &RepoPath) -> Result<(), TreeError> {
        self.write_to().delete(path)
    }

    fn files_below(&self, directory: &str) -> Result<Vec<RepoPath>, TreeError> {
        self.read_from().files_below(directory)
    }

    fn read_stored(&self, path: &RepoPath) -> Result<Option<FileVersion>, TreeError> {
        self.read_from().read_stored(path)
    }

    fn put(&self, path: &RepoPath, after: Option<FileVersion>) -> Result<(), TreeError> {
        self.write_to().put(path, after)
    }

    fn search(
        &self,
        accepts: &dyn Fn(&str) -> bool,
        needle: &str,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<Match>, usize), TreeError> {
        self.read_from().search(accepts, needle, offset, limit)
    }

    fn changes(&self) -> Result<Vec<FileChange>, TreeError> {
        self.read_from().changes()
    }
}

struct HangingEvaluator(Arc<Hang>);

#[async_trait]
impl Evaluate for HangingEvaluator {
    async fn evaluate(
        &self,
        request: EvalRequest,
        cancel: &CancellationToken,
    ) -> Result<Evaluation, EvalError> {
        self.0.wait(HangPlace::Evaluator).await;
        JsonEvaluator::default().evaluate(request, cancel).await
    }
}

struct HangingPackages(Arc<Hang>);

impl Fetch for HangingPackages {
    fn resolve(&self, _git: &Git, _version: &str, _watch: &DownloadObserver) -> Result<String, FetchError> {
        self.0.block(HangPlace::Packages);
        Err(FetchError::FetchDisabled)
    }

    fn fetch(
        &self,
        _git: &Git,
        _commit: &str,
        _form: FetchMethod,
        _watch: &DownloadObserver,
    ) -> Result<Arc<PackageSnapshot>, FetchError> {
        self.0.block(HangPlace::Packages);
        Err(FetchError::FetchDisabled)
    }
}

#[derive(Debug)]
struct HangingOutputs(Arc<Hang>);

#[async_trait]
impl Outputs for HangingOutputs {
    async fn text(&self, _number: OutputNumber) -> anyhow::Result<Option<String>> {
        self.0.wait(HangPlace::Outputs).await;
        Ok(None)
    }
}

/// Returns the tools that every turn may offer.
fn tools(hang: &Arc<Hang>) -> Vec<Arc<dyn Tool>> {
    let evaluator = || Arc::new(HangingEvaluator(Arc::clone(hang)));
    tool::all(&ToolServices {
        packages: Arc::new(HangingPackages(Arc::clone(hang))),
        evaluator: evaluator(),
        comparer: Arc::new(Comparer::new(
            evaluator(),
            Arc::new(Redactor::new([])),
            b"key".to_vec(),
        )),
        helm: Some(no_helm()),
    })
}

/// Returns the arguments of a call of a tool that comes as far as it can.
fn arguments(tool: &dyn Tool) -> &'static str {
    match tool.spec().name {
        // The project already lists the package that the examples add.
        "jb_update" | "jb_plan" | "jb_install" => r#"{"path":"."}"#,
        _ => tool.examples()[0],
    }
}

/// Runs a turn that calls a tool, and returns it with the time that it took; `None` if the call did not come to the place
/// of the hang.
async fn run(tool: &dyn Tool, place: HangPlace) -> Option<(TurnRun, Duration)> {
    let hang = Hang::at(place);
    let mut fixture = TurnFixture::with_files(&FILES).with_toolbox(tools(&hang));
    fixture.limits.turn_time_max = TIME_MAX;
    fixture.outputs = Some(Arc::new(HangingOutputs(Arc::clone(&hang))));
    // There is something to compare.
    let main = RepoPath::parse("environments/dev/main.jsonnet").unwrap();
    let edited = Bytes::from_static(b"{ \"image\": \"web:1.8.3\", \"more\": 1 }\n");
    fixture.overlay.write(&main, edited).unwrap();
    fixture.replace_tree(|tree| {
        Arc::new(HangingTree {
            tree,
            hang: Arc::clone(&hang),
        })
    });
    let call = calls(&[("1", tool.spec().name, arguments(tool))]);
    let model = ScriptedProvider::new([call, says("Ended.")]);
    let began = Instant::now();
    let turn = fixture.run(&model);
    tokio::pin!(turn);
    tokio::select! {
        biased;
        _ = &mut turn => return None,
        reached = hang.reached.acquire() => reached.unwrap().forget(),
    }
    // While a thread is blocked, a paused clock moves only if it is told to.
    tokio::time::advance(TIME_MAX - Duration::from_secs(1)).await;
    let mut ended = (&mut turn).now_or_never();
    let is_early = ended.is_some();
    for _ in 0..20 {
        if ended.is_none() {
            tokio::time::advance(Duration::from_secs(1)).await;
            ended = (&mut turn).now_or_never();
        }
    }
    let took = began.elapsed();
    // The threads are released before anything is asserted, so that a failure does not block the runtime.
    hang.release();
    let name = tool.spec().name;
    assert!(!is_early, "{name} at {place:?} ended before its time");
    Some((
        ended.unwrap_or_else(|| panic!("{name} at {place:?} never ends")),
        took,
    ))
}

/// R28: only `git_log` and `git_show` wait for none of these components. They read the objects of git from the disk on a
/// thread of their own, and `a_thread_that_stays_blocked_holds_no_turn` is about those threads.
#[tokio::test(start_paused = true)]
async fn every_tool_that_hangs_ends_with_the_time_of_its_turn_and_says_so() {
    let mut hung: BTreeMap<&str, Vec<HangPlace>> = BTreeMap::new();
    for tool in tools(&Hang::at(HangPlace::Files)) {
        let name = tool.spec().name;
        let places = hung.entry(name).or_default();
        for place in ALL {
            let Some((ran, took)) = run(tool.as_ref(), place).await else {
                continue;
            };
            places.push(place);
            let seconds = took.as_secs() - TIME_MAX.as_secs();
            if place == HangPlace::Write {
                // What was written before cannot be told apart from what was not, so the whole step is lost.
                let why = ran.outcome.unwrap_err().to_string();
                assert_eq!(why, "a write did not end within 10 s", "{name}");
                assert!((10..=11).contains(&seconds), "{name}: {seconds} s");
                continue;
            }
            let outcome = ran.outcome();
            assert_eq!(outcome.verdict, Verdict::Limit, "{name} at {place:?}");
            assert_eq!(
                outcome.notice.as_deref(),
                Some("I stopped after 600 s without an answer."),
                "{name} at {place:?}"
            );
            assert_eq!(
                ran.results(),
                [("stopped: the turn ran out of time", true)],
                "{name} at {place:?}"
            );
            assert!(seconds <= 1, "{name} at {place:?}: {seconds} s late");
        }
    }
    let hung = hung.iter().map(|(name, places)| format!("{name}: {places:?}"));
    insta::assert_snapshot!(hung.collect::<Vec<_>>().join("\n"), @"
    file_delete: [Files, Write]
    file_edit: [Files, Write]
    file_list: [Files]
    file_read: [Files]
    file_search: [Files]
    file_write: [Files, Write]
    git_diff: [Files]
    git_log: []
    git_show: []
    git_status: [Files]
    helm_dependency_build: [Files]
    helm_dependency_list: [Files]
    helm_dependency_update: [Files]
    helm_lint: [Files]
    jb_init: [Files, Write]
    jb_install: [Files, Packages]
    jb_list: [Files]
    jb_plan: [Files, Packages]
    jb_update: [Files, Packages]
    read_output: [Outputs]
    tanka_diff: [Files, Evaluator]
    tanka_find_environments: [Files, Evaluator]
    tanka_format_jsonnet: [Files]
    tanka_show: [Files, Evaluator]
    tanka_validate_jsonnet: [Files, Evaluator]
    ");
}
