//! Measures the comparison of a change across environments, and the cost of rendering: `cargo bench --bench compare`.
//!
//! 300 environments share a generated library of Kubernetes kinds. They go through the real comparison and the real
//! sandbox: this benchmark starts its own binary as sandbox workers. Before anything is timed, every value is checked
//! against other engines on the same files: jrsonnet in this process, and go-jsonnet and rjsonnet from a Python
//! installation (`DRYDOCK_BENCH_PYTHON`, or `python3`) if it has them.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

mod support;

use bytes::Bytes;
use drydock::base::model::{CheckState, RepoPath};
use drydock::base::redact::Redactor;
use drydock::rendering::compare::{CompareRequest, Comparer, Comparison, Sides};
use drydock::rendering::jsonnet::{
    CrossCheckMode, CrossCheckResult, EntryPoint, EvalLimits, EvalRequest, Evaluation, Evaluator,
};
use drydock::rendering::review::{Impact, Proof};
use drydock::rendering::sandbox::{LayerName, ProgramPath};
use drydock::rendering::tanka::{Evaluate, Filter, Renderer, Target};
use drydock::state::workspace::{Base, Overlay, Repository, SecretGuard, Tree, Workspace, WorkspaceEdits};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::tanka::environment::{self, EnvironmentStyle};
use support::worker_memory::WorkerMemoryWatch;
use support::{Times, engines, header, millis, repository, row, tanka, value};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const ENVIRONMENTS: usize = 300;
/// The number of environments that the slow peers evaluate.
const SAMPLE: usize = 10;
const PEER_ROUNDS: usize = 3;
/// The environments that are edited alone: one of each style, both of the first stage.
const STATIC: usize = 42;
const INLINE: usize = 45;
/// The number of environments in a batch. One process evaluates them one after another.
const BATCH: usize = 30;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let bench = CompareBench::new();
    header("compare");
    bench.size();
    let medians = bench.engines(if quick { 1 } else { PEER_ROUNDS });
    bench.cold(&medians);
    bench.warm(&medians);
    bench.list(if quick { 3 } else { 11 });
    bench.changes(if quick { 2 } else { 7 });
    bench.unchanged(if quick { 11 } else { 101 });
}

struct CompareBench {
    runtime: Runtime,
    /// The directory with the files, for engines that read from disk.
    root: PathBuf,
    repository: Arc<Repository>,
    base: Arc<Base>,
    programs: Vec<engines::EngineInput>,
    /// The value every environment must evaluate to.
    expected: Vec<serde_json::Value>,
    jrsonnet: Vec<Duration>,
    _directory: tempfile::TempDir,
}

/// The time until the difference is rendered, and the time from then until the second engine agrees.
#[derive(Default)]
struct ComparisonTimes {
    difference: Vec<Duration>,
    agreement: Vec<Duration>,
}

impl ComparisonTimes {
    fn rows(self, name: &str, target: &str) {
        row(name, &Times::new(self.difference), target);
        row(
            "... and until the second engine agrees",
            &Times::new(self.agreement),
            "",
        );
    }
}

/// The median times of the available peers, for one environment.
struct Medians {
    jrsonnet: Option<Duration>,
    rjsonnet: Option<Duration>,
    go: Option<Duration>,
}

impl CompareBench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("files");
        let files = tanka::files(ENVIRONMENTS);
        for (path, content) in &files {
            let file = root.join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, content).unwrap();
        }
        let git = directory.path().join("repo.git");
        let commit = repository::of(&git, files.into_iter());
        let bases = directory.path().join("bases");
        let repository = Repository::open_local("bench", &git, Some("main"), &bases).unwrap();
        let base = repository.base(&commit, &|_| ()).unwrap();
        let programs = (0..ENVIRONMENTS).map(program).collect();
        Self {
            runtime: tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()
                .unwrap(),
            root,
            repository,
            base,
            programs,
            expected: Vec::new(),
            jrsonnet: Vec::new(),
            _directory: directory,
        }
        .evaluated()
    }

    /// Evaluates all environments with jrsonnet. All other engines are compared with these values.
    fn evaluated(mut self) -> Self {
        for program in &self.programs {
            let (text, took) = engines::jrsonnet(&self.root, program);
            self.expected.push(serde_json::from_str(&text).unwrap());
            self.jrsonnet.push(took);
        }
        self
    }

    fn size(&self) {
        let files = tanka::files(ENVIRONMENTS);
        let library = files.iter().filter(|(path, _)| path.starts_with("vendor/k8s/"));
        let bytes: usize = library.map(|(_, content)| content.len()).sum();
        value("the library of kinds", bytes as f64 / 1e6, "MB", "");
        let inline =
            (0..ENVIRONMENTS).filter(|number| environment::style(*number) == EnvironmentStyle::Inline);
        value("environments written inline", inline.count() as f64, "", "");
        let average = |of: &dyn Fn(&serde_json::Value) -> usize| {
            self.expected.iter().map(of).sum::<usize>() as f64 / ENVIRONMENTS as f64
        };
        value("objects of an environment, on average", average(&objects), "", "");
        let compact = |value: &serde_json::Value| value.to_string().len();
        value(
            "JSON of an environment, on average",
            average(&compact) / 1e3,
            "KB",
            "",
        );
    }

    /// Times the peers, one environment after another. All files are read again each time.
    fn engines(&self, rounds: usize) -> Medians {
        let times = Times::new(self.jrsonnet.clone());
        let jrsonnet = Some(times.p50());
        row("jrsonnet in this process, an environment", &times, "peer");
        let sample: Vec<engines::EngineInput> = self.programs.iter().take(SAMPLE).cloned().collect();
        let peer = |engine: &str| -> Option<Duration> {
            let made = engines::python(engine, &self.root, &sample, rounds)?;
            for (made, expected) in made.iter().zip(&self.expected) {
                assert_eq!(&made.value, expected, "{engine}");
            }
            let times = Times::new(made.into_iter().flat_map(|made| made.times).collect());
            let median = times.p50();
            row(&format!("{engine}, an environment"), &times, "peer");
            Some(median)
        };
        Medians {
            jrsonnet,
            rjsonnet: peer("rjsonnet"),
            go: peer("gojsonnet"),
        }
    }

    /// Times every environment in a process of its own.
    fn cold(&self, medians: &Medians) {
        let evaluator = evaluator(EvalLimits::default());
        let tree = self.tree();
        let mut times = Vec::new();
        for (number, expected) in self.expected.iter().enumerate().take(60) {
            let request = self.request(&tree, number);
            let started = Instant::now();
            let evaluated = self
                .runtime
                .block_on(evaluator.evaluate(request, &never()))
                .unwrap();
            times.push(started.elapsed());
            assert_eq!(&parsed(&evaluated), expected, "environment {number}");
            self.wait_for_workers();
        }
        let times = Times::new(times);
        row("cold: an environment in a new process", &times, "");
        ratios("cold", times.p50(), medians, "<= 1.2", ">= 12");
        let renderer = Renderer::new(Arc::clone(&tree), Arc::new(evaluator));
        let mut times = Vec::new();
        for number in 0..60 {
            let target = Target::from_path(tanka::directory(number));
            let started = Instant::now();
            let (filter, cancel) = (Filter::default(), never());
            let shown = renderer.render(&target, &filter, &cancel);
            let rendered = self.runtime.block_on(shown).unwrap();
            times.push(started.elapsed());
            assert_eq!(rendered.objects.len(), objects(&self.expected[number]));
            self.wait_for_workers();
        }
        row("cold: ... to its objects, in order", &Times::new(times), "");
    }

    /// Times environments after the first one in the same process.
    fn warm(&self, medians: &Medians) {
        let limits = EvalLimits {
            workers_max: 1,
            ..EvalLimits::default()
        };
        let evaluator = evaluator(limits);
        let tree = self.tree();
        let evaluate = |count: usize, mode: CrossCheckMode| {
            let requests: Vec<EvalRequest> = (0..count)
                .map(|number| EvalRequest {
                    cross_check: mode,
                    ..self.request(&tree, number)
                })
                .collect();
            self.wait_for_workers();
            let started = Instant::now();
            let answers = self.runtime.block_on(evaluator.evaluate_all(requests, &never()));
            let took = started.elapsed();
            for (answer, expected) in answers.iter().zip(&self.expected) {
                let evaluated = answer.as_ref().unwrap();
                assert_eq!(&parsed(evaluated), expected);
                assert!(matches!(
                    evaluated.cross_check,
                    CrossCheckResult::NotRun | CrossCheckResult::Agrees
                ));
            }
            took
        };
        let each = |mode: CrossCheckMode| {
            let times = (0..9).map(|_| {
                let first = evaluate(1, mode);
                evaluate(BATCH, mode).saturating_sub(first) / (BATCH as u32 - 1)
            });
            Times::new(times.collect())
        };
        let times = each(CrossCheckMode::Off);
        row("warm: an environment after the first of a process", &times, "");
        ratios("warm", times.p50(), medians, "", ">= 30");
        row("warm: ... with the cross-check", &each(CrossCheckMode::On), "");
    }

    fn list(&self, rounds: usize) {
        let (mut cold, mut warm) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let renderer = Renderer::new(self.tree(), Arc::new(evaluator(EvalLimits::default())));
            self.wait_for_workers();
            for times in [&mut cold, &mut warm] {
                let started = Instant::now();
                let list = self.runtime.block_on(renderer.list(".", &never())).unwrap();
                times.push(started.elapsed());
                assert_eq!((list.environments.len(), list.failures.len()), (ENVIRONMENTS, 0));
            }
        }
        row(
            "env list of 300 environments, cold",
            &Times::new(cold),
            "<= 150 ms",
        );
        row("env list of 300 environments, warm", &Times::new(warm), "<= 5 ms");
    }

    /// Times an edit that affects all environments, those of one application, or one environment: until the difference
    /// is rendered, and from then until the second engine agrees.
    fn changes(&self, rounds: usize) {
        let watch = WorkerMemoryWatch::start();
        let (mut first, mut all, mut app, mut one) = (
            ComparisonTimes::default(),
            ComparisonTimes::default(),
            ComparisonTimes::default(),
            ComparisonTimes::default(),
        );
        let (mut one_at_once, mut first_one) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let comparer = comparer(evaluator(EvalLimits::default()));
            let shared = |revision: usize| {
                (
                    tanka::SHARED,
                    "revision:: 'r1'",
                    format!("revision:: 's{revision}'"),
                )
            };
            for (times, revision) in [(&mut first, round), (&mut all, round + 1_000)] {
                self.time_comparison(&comparer, &shared(revision), times, &|compared| {
                    self.check_shared(compared)
                });
            }
            let file = tanka::app_file(3);
            let edit = (file.as_str(), "port: 8003", format!("port: {}", 9_003 + round));
            self.time_comparison(&comparer, &edit, &mut app, &|compared| {
                assert_eq!(compared.report.counts.affected, ENVIRONMENTS / tanka::APPS);
            });
            for turn in 0..5 {
                let edit = self.edit_of_one(100 * round + turn);
                self.time_comparison(&comparer, &edit.edit(), &mut one, &|compared| {
                    self.check_one(compared)
                });
                let edit = self.edit_of_one(100 * round + turn + 50);
                let (compared, took) = self.compared(&comparer, &[edit.edit()]);
                assert_passes(&compared, CheckState::Pass);
                self.check_one(&compared);
                one_at_once.push(took);
            }
            let comparer = self::comparer(evaluator(EvalLimits::default()));
            self.wait_for_workers();
            let (compared, took) = self.compared(&comparer, &[self.edit_of_one(round).edit()]);
            assert_passes(&compared, CheckState::Pass);
            self.check_one(&compared);
            first_one.push(took);
        }
        let largest = watch.largest_mib();
        first.rows("edit of all 300, nothing kept: the difference", "<= 2,000 ms");
        all.rows("edit of all 300, the base is kept: the difference", "<= 2,000 ms");
        app.rows("edit of one application, 15 environments", "");
        one.rows("edit of one environment", "<= 50 ms");
        row(
            "edit of one environment, both engines at once",
            &Times::new(one_at_once),
            "<= 50 ms",
        );
        row(
            "edit of one environment, nothing kept, no graph",
            &Times::new(first_one),
            "",
        );
        value(
            "largest process in the sandbox meanwhile",
            largest,
            "MiB",
            "<= 256 MB",
        );
    }

    /// Compares as soon as one engine has rendered, and then with the second engine.
    fn time_comparison(
        &self,
        comparer: &Arc<Comparer>,
        edit: &(&str, &str, String),
        times: &mut ComparisonTimes,
        check: &dyn Fn(&Comparison),
    ) {
        self.wait_for_workers();
        let asked = CompareRequest::all(self.sides(std::slice::from_ref(edit)), "");
        for (agreement, asked, times) in [
            (
                CheckState::NotRun,
                asked.clone().defer_cross_check(),
                &mut times.difference,
            ),
            (CheckState::Pass, asked, &mut times.agreement),
        ] {
            let started = Instant::now();
            let compared = self.runtime.block_on(comparer.compare(asked, &never())).unwrap();
            times.push(started.elapsed());
            assert_passes(&compared, agreement);
            check(&compared);
        }
    }

    /// Times the proof that an environment is unchanged if the change does not affect it.
    fn unchanged(&self, rounds: usize) {
        let comparer = comparer(evaluator(EvalLimits::default()));
        let sides = self.sides(&[self.edit_of_one(0).edit()]);
        let mut times = Vec::new();
        for round in 0..rounds {
            let asked = CompareRequest::environment(sides.clone(), tanka::directory(round % STATIC));
            let started = Instant::now();
            let compared = self.runtime.block_on(comparer.compare(asked, &never())).unwrap();
            let took = started.elapsed();
            let proof = &compared.report.environments[0].impact;
            let is_proven = matches!(
                proof,
                Impact::Unaffected {
                    proof: Proof::ClosureUnchanged { .. }
                }
            );
            assert!(is_proven, "{proof:?}");
            if round > 0 {
                times.push(took);
            }
        }
        row(
            "an environment the change does not touch",
            &Times::new(times),
            "<= 0.5 ms",
        );
    }

    fn compared(&self, comparer: &Arc<Comparer>, edits: &[(&str, &str, String)]) -> (Comparison, Duration) {
        self.wait_for_workers();
        let asked = CompareRequest::all(self.sides(edits), "");
        let started = Instant::now();
        let compared = self.runtime.block_on(comparer.compare(asked, &never())).unwrap();
        (compared, started.elapsed())
    }

    /// Checks that all environments change, each in all of its deployments and nowhere else.
    fn check_shared(&self, compared: &Comparison) {
        assert_eq!(compared.report.counts.affected, ENVIRONMENTS);
        for environment in &compared.report.environments {
            let number: usize = environment.name.rsplit('-').next().unwrap().parse().unwrap();
            let components = environment::components(number);
            assert_eq!(environment.objects.len(), components, "{}", environment.name);
            for change in &environment.objects {
                assert_eq!(
                    (change.object.kind.as_str(), change.fields.len()),
                    ("Deployment", 1)
                );
                assert_eq!((change.lines_added, change.lines_removed), (1, 1));
            }
        }
    }

    fn check_one(&self, compared: &Comparison) {
        let counts = &compared.report.counts;
        assert_eq!((counts.affected, counts.unaffected), (1, ENVIRONMENTS - 1));
    }

    /// Returns an edit of the static or of the inline environment, alternately.
    fn edit_of_one(&self, round: usize) -> OneEdit {
        let number = [STATIC, INLINE][round % 2];
        OneEdit {
            path: format!("{}/main.jsonnet", tanka::directory(number)),
            to: format!("stage: 'dev',\n    domain: 'd{round}.example.com'"),
        }
    }

    fn sides(&self, edits: &[(&str, &str, String)]) -> Sides {
        let tree = Overlay::new(Arc::clone(&self.base), WorkspaceEdits::new());
        for (path, from, to) in edits {
            let path = RepoPath::parse(path).unwrap();
            let content = String::from_utf8(tree.read(&path).unwrap().content.to_vec()).unwrap();
            assert!(content.contains(from), "{path}");
            tree.write(&path, Bytes::from(content.replace(from, to))).unwrap();
        }
        Sides::from_workspace(&Workspace {
            repository: Arc::clone(&self.repository),
            base: Some(self.base.commit().to_owned()),
            tree: Arc::new(tree),
            guard: SecretGuard::default(),
        })
        .unwrap()
    }

    fn tree(&self) -> Arc<dyn Tree> {
        Arc::new(Overlay::new(Arc::clone(&self.base), WorkspaceEdits::new()))
    }

    fn request(&self, tree: &Arc<dyn Tree>, number: usize) -> EvalRequest {
        let (path, environment) = &self.programs[number];
        let base = tanka::directory(number);
        EvalRequest {
            tree: Arc::clone(tree),
            entry: EntryPoint::File(RepoPath::parse(path).unwrap()),
            jpath: vec![
                "vendor".to_owned(),
                format!("{base}/vendor"),
                "lib".to_owned(),
                base,
            ],
            ext_code: BTreeMap::from([("tanka.dev/environment".to_owned(), environment.clone())]),
            tla_code: BTreeMap::new(),
            max_stack: 0,
            cross_check: CrossCheckMode::Off,
        }
    }

    /// Waits until the idle workers have started, because a person finds them ready, too.
    fn wait_for_workers(&self) {
        std::thread::sleep(Duration::from_millis(150));
    }
}

struct OneEdit {
    path: String,
    to: String,
}

impl OneEdit {
    fn edit(&self) -> (&str, &str, String) {
        (&self.path, "stage: 'dev'", self.to.clone())
    }
}

fn program(number: usize) -> engines::EngineInput {
    let directory = tanka::directory(number);
    (format!("{directory}/main.jsonnet"), environment::given(number))
}

fn evaluator(limits: EvalLimits) -> Evaluator {
    let program = ProgramPath::at(env!("CARGO_BIN_EXE_drydock"));
    Evaluator::for_program(program, limits, LayerName::ALL.to_vec()).unwrap()
}

fn comparer(evaluator: Evaluator) -> Arc<Comparer> {
    let evaluator: Arc<dyn Evaluate> = Arc::new(evaluator);
    Arc::new(Comparer::new(
        evaluator,
        Arc::new(Redactor::new([])),
        b"bench".to_vec(),
    ))
}

fn parsed(evaluated: &Evaluation) -> serde_json::Value {
    serde_json::from_slice(&evaluated.json).unwrap()
}

/// Counts the objects of an environment. An inline environment is not counted as an object itself.
fn objects(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Object(fields) if value["kind"] == "Environment" => objects(&fields["data"]),
        serde_json::Value::Object(fields) if fields.contains_key("kind") => 1,
        serde_json::Value::Object(fields) => fields.values().map(objects).sum(),
        _ => 0,
    }
}

/// Checks that all checks pass, except for the agreement of the engines, which is not run before the second engine.
fn assert_passes(compared: &Comparison, agreement: CheckState) {
    for check in &compared.checks {
        let expected = match check.name.as_str() {
            "both engines agree" => agreement,
            _ => CheckState::Pass,
        };
        assert_eq!(check.state, expected, "{check:?}");
    }
}

fn ratios(what: &str, ours: Duration, medians: &Medians, to_jrsonnet: &str, to_go: &str) {
    let of_peer = [("jrsonnet", medians.jrsonnet), ("rjsonnet", medians.rjsonnet)];
    for (peer, theirs) in of_peer {
        let Some(theirs) = theirs else { continue };
        let ratio = millis(ours) / millis(theirs);
        value(
            &format!("{what}: ours / {peer}, medians"),
            ratio,
            "times",
            to_jrsonnet,
        );
    }
    if let Some(go) = medians.go {
        let ratio = millis(go) / millis(ours);
        value(
            &format!("{what}: go-jsonnet / ours, medians"),
            ratio,
            "times",
            to_go,
        );
    }
}

fn never() -> CancellationToken {
    CancellationToken::new()
}
