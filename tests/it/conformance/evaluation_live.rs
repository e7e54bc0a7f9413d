//! The values of generated programs, compared with an installed go-jsonnet. Ours is wrong if both engines agree on a
//! value that Go does not have.

use super::evaluation::values_equal;
use super::programs::generate_program;
use crate::support::evaluation::{evaluator, snippet_request};
use crate::support::require::{Component, component};
use drydock::rendering::jsonnet::{
    CrossCheckMode, CrossCheckResult, EvalError, EvalLimits, EvalRequest, Evaluation,
};
use serde_json::Value;
use std::process::Stdio;
use tokio_util::sync::CancellationToken;

/// The number of programs that are compared.
const PROGRAMS: u64 = 2_000;
/// The number of programs in one batch.
const BATCH: usize = 100;

/// Returns the answer of go-jsonnet to a program: its value, or its error.
fn go_jsonnet_value(jsonnet: &Component, source: &str) -> Result<Value, String> {
    let run = jsonnet
        .command()
        .args(["-e", source])
        .stdin(Stdio::null())
        .output()
        .expect("jsonnet starts");
    match run.status.success() {
        true => Ok(serde_json::from_slice(&run.stdout).expect("it writes JSON")),
        false => Err(String::from_utf8_lossy(&run.stderr).into_owned()),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum LiveComparison {
    Equal,
    /// A difference that our second engine also reports.
    Flagged(String),
    Wrong(String),
}

fn compare_values(theirs: &Result<Value, String>, ours: &Result<Evaluation, EvalError>) -> LiveComparison {
    match (theirs, ours) {
        (Ok(theirs), Ok(evaluated)) => {
            let value: Value = serde_json::from_slice(&evaluated.json).expect("our JSON");
            let agree = evaluated.cross_check == CrossCheckResult::Agrees;
            match (values_equal(theirs, &value), agree) {
                (true, _) => LiveComparison::Equal,
                (false, false) => LiveComparison::Flagged(format!("theirs {theirs}, ours {value}")),
                (false, true) => LiveComparison::Wrong(format!("theirs {theirs}, ours {value}")),
            }
        }
        (Err(_), Err(EvalError::Sandbox(why))) => LiveComparison::Wrong(format!("the sandbox: {why}")),
        (Err(_), Err(_)) => LiveComparison::Equal,
        (Ok(theirs), Err(error)) => {
            LiveComparison::Flagged(format!("theirs {theirs}, ours is an error: {error}"))
        }
        (Err(theirs), Ok(evaluated)) => {
            let what = format!(
                "theirs is {theirs}, ours {}",
                String::from_utf8_lossy(&evaluated.json)
            );
            match evaluated.cross_check {
                CrossCheckResult::Agrees => LiveComparison::Wrong(what),
                _ => LiveComparison::Flagged(what),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generated_programs_evaluate_to_what_go_jsonnet_makes_of_them() {
    let Some(jsonnet) = component("jsonnet") else {
        return;
    };
    let evaluator = evaluator(EvalLimits::default());
    let sources: Vec<String> = (0..PROGRAMS).map(generate_program).collect();
    let (mut equal, mut values, mut flagged, mut wrong) = (0, 0, Vec::new(), Vec::new());
    for batch in sources.chunks(BATCH) {
        let requests = batch.iter().map(|source| EvalRequest {
            cross_check: CrossCheckMode::On,
            ..snippet_request(source)
        });
        let ours = evaluator
            .evaluate_all(requests.collect(), &CancellationToken::new())
            .await;
        for (source, ours) in batch.iter().zip(&ours) {
            let theirs = go_jsonnet_value(&jsonnet, source);
            values += usize::from(theirs.is_ok());
            match compare_values(&theirs, ours) {
                LiveComparison::Equal => equal += 1,
                LiveComparison::Flagged(what) => flagged.push(format!("{source}  {what}")),
                LiveComparison::Wrong(what) => wrong.push(format!("{source}  {what}")),
            }
        }
    }
    println!(
        "eval live {equal}/{} ({} flagged, {values} values)",
        sources.len(),
        flagged.len()
    );
    for what in &flagged {
        eprintln!("flagged: {what}");
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(
        values > sources.len() / 2,
        "only {values} of the programs have a value"
    );
}
