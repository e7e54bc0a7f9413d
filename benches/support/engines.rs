//! Other engines that evaluate the same files: jrsonnet in this process, and go-jsonnet and rjsonnet from a Python
//! installation that has them.

use jrsonnet_evaluator::manifest::JsonFormat;
use jrsonnet_evaluator::trace::PathResolver;
use jrsonnet_evaluator::{FileImportResolver, State};
use jrsonnet_stdlib::ContextInitializer;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SCRIPT: &str = include_str!("peers.py");

/// A file to be evaluated: its path below the root, and its environment, as code.
pub(crate) type EngineInput = (String, String);

/// The value of one file in an engine, and the times it took.
pub(crate) struct EngineResult {
    pub(crate) value: serde_json::Value,
    pub(crate) times: Vec<Duration>,
}

/// Evaluates with jrsonnet in this process: a new state, all files read and parsed, the value as one text. The time to
/// free the memory is not counted.
pub(crate) fn jrsonnet(root: &Path, program: &EngineInput) -> (String, Duration) {
    let (path, environment) = program;
    let base = path.rsplit_once('/').unwrap().0;
    let own = format!("{base}/vendor");
    let libraries = [base, "lib", &own, "vendor"].map(|path| root.join(path));
    let started = Instant::now();
    let library = ContextInitializer::new(PathResolver::Absolute);
    library
        .add_ext_code("tanka.dev/environment", environment)
        .unwrap();
    let mut state = State::builder();
    state
        .import_resolver(FileImportResolver::new(libraries.to_vec()))
        .context_initializer(library);
    let state = state.build();
    let entered = state.enter();
    let value = state.import(root.join(path).as_path()).unwrap();
    let text = value.manifest(JsonFormat::minify()).unwrap();
    let took = started.elapsed();
    drop(value);
    drop(entered);
    drop(state);
    // Otherwise the garbage would stay in memory until the end.
    jrsonnet_gcmodule::collect_thread_cycles();
    (text, took)
}

/// Times the same files in an engine of a Python installation, `rounds` times each. Returns `None` if that engine is
/// not installed. The start of the process is not counted.
pub(crate) fn python(
    engine: &str,
    root: &Path,
    programs: &[EngineInput],
    rounds: usize,
) -> Option<Vec<EngineResult>> {
    let python = std::env::var("DRYDOCK_BENCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let module = if engine == "gojsonnet" {
        "_gojsonnet"
    } else {
        engine
    };
    let mut has = Command::new(&python);
    has.args(["-c", &format!("import {module}")]);
    let has = has.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        println!("SKIPPED: `{python}` has no `{engine}`; DRYDOCK_BENCH_PYTHON names one that has");
        return None;
    }
    let mut child = Command::new(&python)
        .args(["-c", SCRIPT, engine])
        .arg(root)
        .arg(rounds.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let asked = serde_json::to_vec(programs).unwrap();
    child.stdin.take().unwrap().write_all(&asked).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{engine}");
    let answers: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let made = answers.iter().map(|answer| EngineResult {
        value: serde_json::from_str(answer["value"].as_str().unwrap()).unwrap(),
        times: answer["seconds"]
            .as_array()
            .unwrap()
            .iter()
            .map(|seconds| Duration::from_secs_f64(seconds.as_f64().unwrap()))
            .collect(),
    });
    Some(made.collect())
}
