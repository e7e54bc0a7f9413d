//! Values of the standard library and of operators, compared with those of go-jsonnet 0.22 for our own programs: the
//! scalars of YAML, formats, fractions in texts, last digits. Both engines must have the same value.

use super::pack::read_own_file;
use crate::support::evaluation::{evaluator, snippet_request};
use drydock::rendering::jsonnet::{
    CrossCheckMode, CrossCheckResult, EvalError, EvalLimits, EvalRequest, Evaluation,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

/// A program, and the answer of go-jsonnet to it: a value or an error.
#[derive(Debug, Deserialize)]
struct ValueCase {
    program: String,
    value: Option<String>,
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct KnownStdDifferences {
    values: BTreeMap<String, String>,
    /// The values of those programs in our engines.
    values_here: BTreeMap<String, String>,
}

/// Returns the reason why our value differs from theirs, or `None` if it does not.
fn difference(case: &ValueCase, ours: &Result<Evaluation, EvalError>) -> Option<String> {
    match (&case.value, &case.error, ours) {
        (Some(theirs), _, Ok(evaluated)) => {
            let theirs: Value = serde_json::from_str(theirs).expect("recorded JSON");
            let ours: Value = serde_json::from_slice(&evaluated.json).expect("our JSON");
            let (theirs, ours) = (theirs.to_string(), ours.to_string());
            match &evaluated.cross_check {
                CrossCheckResult::Agrees if theirs == ours => None,
                CrossCheckResult::Agrees => Some(format!("theirs {theirs}, ours {ours}")),
                cross_check => Some(format!("theirs {theirs}, ours {ours}, and {cross_check:?}")),
            }
        }
        (Some(theirs), _, Err(error)) => Some(format!("theirs {theirs}, ours {error}")),
        (None, theirs, Ok(evaluated)) => {
            let ours = String::from_utf8_lossy(&evaluated.json);
            Some(format!("theirs {theirs:?}, ours {ours}"))
        }
        (None, _, Err(EvalError::Runtime { .. } | EvalError::Syntax { .. })) => None,
        (None, theirs, Err(error)) => Some(format!("theirs {theirs:?}, ours {error}")),
    }
}

#[tokio::test]
async fn values_are_those_of_go_jsonnet_in_both_engines() {
    let cases: Vec<ValueCase> =
        serde_json::from_str(&read_own_file("values.json")).expect("the recorded values");
    let known: KnownStdDifferences =
        toml::from_str(&read_own_file("known.toml")).expect("the list of known differences");
    let requests = cases.iter().map(|case| EvalRequest {
        cross_check: CrossCheckMode::On,
        ..snippet_request(&case.program)
    });
    let evaluator = evaluator(EvalLimits::default());
    let ours = evaluator
        .evaluate_all(requests.collect(), &CancellationToken::new())
        .await;
    let (mut equal, mut expected, mut unexpected) = (0, 0, Vec::new());
    for (case, ours) in cases.iter().zip(&ours) {
        match (difference(case, ours), known.values.get(&case.program)) {
            (None, None) => equal += 1,
            (Some(_), Some(_)) => {
                let here = ours.as_ref().map(|ours| String::from_utf8_lossy(&ours.json));
                let here = here.unwrap_or_else(|error| error.to_string().into());
                match known.values_here.get(&case.program) {
                    Some(expected_here) if *expected_here == here => expected += 1,
                    other => unexpected.push(format!("{} = {here}, and not {other:?}", case.program)),
                }
            }
            (None, Some(_)) => unexpected.push(format!("{} is listed as known, and is equal", case.program)),
            (Some(difference), None) => unexpected.push(format!("{}: {difference}", case.program)),
        }
    }
    println!("values {}/{} ({expected} known)", equal + expected, cases.len());
    assert!(unexpected.is_empty(), "\n{}", unexpected.join("\n"));
    for program in known.values.keys() {
        assert!(
            cases.iter().any(|case| case.program == *program),
            "no program is `{program}`"
        );
    }
}
