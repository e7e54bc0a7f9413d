//! The values of programs, compared with the recorded values of go-jsonnet 0.22.

use super::pack::{read_own_file, read_pack};
use crate::support::evaluation::{TestTree, evaluate, evaluator, path, snippet_request};
use drydock::rendering::jsonnet::{
    CrossCheckMode, CrossCheckResult, EntryPoint, EvalError, EvalLimits, EvalRequest, Evaluation,
};
use drydock::state::workspace::Tree;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One recorded program.
#[derive(Debug, Deserialize)]
struct EvaluationCase {
    name: String,
    src: String,
    status: String,
    out: String,
}

/// The known differences, by the name of the program.
#[derive(Debug, Deserialize)]
struct KnownValueDifferences {
    eval: BTreeMap<String, String>,
}

/// Returns the recorded programs, or `None` after one line with the reason.
fn cases() -> Option<Vec<EvaluationCase>> {
    let pack = read_pack("gojsonnet-0.22-eval.jsonl.gz")?;
    let cases = pack
        .lines()
        .map(|line| serde_json::from_str(line).expect("a case"));
    Some(cases.collect())
}

/// Returns the variables of the recorded programs.
fn variables() -> BTreeMap<String, String> {
    [
        ("stringVar", "'2 + 2'"),
        ("codeVar", "3 + 3"),
        ("errorVar", "error 'xyz'"),
        ("staticErrorVar", ")"),
        ("UndeclaredX", "x"),
        ("selfRecursiveVar", "[42, std.extVar('selfRecursiveVar')[0] + 1]"),
        (
            "mutuallyRecursiveVar1",
            "[42, std.extVar('mutuallyRecursiveVar2')[0] + 1]",
        ),
        (
            "mutuallyRecursiveVar2",
            "[42, std.extVar('mutuallyRecursiveVar1')[0] + 1]",
        ),
    ]
    .map(|(name, code)| (name.to_owned(), code.to_owned()))
    .into()
}

/// Returns the reason why our value differs from theirs, or `None` if it does not.
fn difference(case: &EvaluationCase, ours: &Result<Evaluation, EvalError>) -> Option<String> {
    match (case.status.as_str(), ours) {
        ("OK", Ok(evaluated)) => {
            let theirs: Value = serde_json::from_str(&case.out).expect("recorded JSON");
            let ours: Value = serde_json::from_slice(&evaluated.json).expect("our JSON");
            if values_equal(&theirs, &ours) {
                return None;
            }
            let flagged = match &evaluated.cross_check {
                CrossCheckResult::Agrees | CrossCheckResult::NotRun => "unflagged",
                CrossCheckResult::Differs { .. } | CrossCheckResult::Failed(_) => "flagged",
            };
            Some(format!("{flagged}: theirs {theirs}, ours {ours}"))
        }
        ("OK", Err(error)) => Some(format!("theirs is a value, ours an error: {error}")),
        (_, Ok(evaluated)) => Some(format!(
            "theirs is an error, ours {}",
            String::from_utf8_lossy(&evaluated.json)
        )),
        (_, Err(EvalError::Sandbox(why))) => Some(format!("the sandbox: {why}")),
        (_, Err(_)) => None,
    }
}

/// Returns true if two values are equal as Go reads both: numbers bit by bit.
pub(super) fn values_equal(first: &Value, second: &Value) -> bool {
    match (first, second) {
        (Value::Number(first), Value::Number(second)) => {
            first.as_f64().map(f64::to_bits) == second.as_f64().map(f64::to_bits)
        }
        (Value::Array(first), Value::Array(second)) => {
            first.len() == second.len()
                && first
                    .iter()
                    .zip(second)
                    .all(|(first, second)| values_equal(first, second))
        }
        (Value::Object(first), Value::Object(second)) => {
            first.len() == second.len()
                && first
                    .iter()
                    .all(|(name, first)| second.get(name).is_some_and(|second| values_equal(first, second)))
        }
        (first, second) => first == second,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_evaluate_to_what_go_jsonnet_makes_of_them() {
    let Some(cases) = cases() else { return };
    let known: KnownValueDifferences =
        toml::from_str(&read_own_file("known.toml")).expect("the list of known differences");
    let files = cases.iter().map(|case| {
        (
            path(&format!("testdata/{}.jsonnet", case.name)),
            case.src.as_str(),
        )
    });
    let tree: Arc<dyn Tree> = TestTree::from_pairs(files);
    let evaluator = evaluator(EvalLimits::default());
    let (mut equal, mut expected, mut unexpected) = (0, 0, Vec::new());
    for case in &cases {
        let request = EvalRequest {
            tree: tree.clone(),
            entry: EntryPoint::Snippet {
                name: path(&format!("testdata/{}", case.name)),
                text: case.src.clone(),
            },
            ext_code: variables(),
            cross_check: CrossCheckMode::On,
            ..snippet_request("")
        };
        let ours = evaluate(&evaluator, request).await;
        let listed = known.eval.get(&case.name);
        match (difference(case, &ours), listed) {
            (None, None) => equal += 1,
            (Some(why), Some(reason)) if reason.starts_with("flagged") && !why.starts_with("flagged") => {
                unexpected.push(format!("{} is listed as flagged, and is not: {why}", case.name));
            }
            (Some(_), Some(_)) => expected += 1,
            (None, Some(_)) => unexpected.push(format!("{} is listed as known, and is equal", case.name)),
            (Some(why), None) => unexpected.push(format!("{}: {why}", case.name)),
        }
    }
    println!("eval {}/{} ({expected} known)", equal + expected, cases.len());
    assert!(unexpected.is_empty(), "\n{}", unexpected.join("\n"));
    for name in known.eval.keys() {
        assert!(
            cases.iter().any(|case| case.name == *name),
            "no program is called `{name}`"
        );
    }
}
