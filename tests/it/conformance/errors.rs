//! What is told of programs that fail, compared with what go-jsonnet 0.22 says of our own programs: the message, and the
//! place of the expression that failed. Frames inside of its standard library have no counterpart.

use crate::support::evaluation::{Files, evaluate, evaluator, path, snippet};
use drydock::jsonnet::{EvalError, EvalLimits, Request};
use drydock::workspace::Tree;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

const PACK: &str = include_str!("errors.json");
const KNOWN: &str = include_str!("known.toml");

#[derive(Debug, Deserialize)]
struct Pack {
    /// The text of `m.libsonnet`.
    library: String,
    cases: Vec<Case>,
}

/// A program that fails, and what go-jsonnet says of it.
#[derive(Debug, Deserialize)]
struct Case {
    name: String,
    program: String,
    message: String,
    /// Empty where it names no place of the program.
    at: String,
}

#[derive(Debug, Deserialize)]
struct Known {
    errors: BTreeMap<String, String>,
}

/// The message and the place that are told of an error.
fn told(error: &EvalError) -> (String, String) {
    match error {
        EvalError::Runtime { message, trace } => {
            let place = trace.iter().find(|frame| !frame.at.is_empty());
            (
                message.clone(),
                place.map(|frame| frame.at.clone()).unwrap_or_default(),
            )
        }
        EvalError::Syntax {
            path,
            line,
            column,
            message,
        } => (message.clone(), format!("{path}:{line}:{column}")),
        error => (error.to_string(), String::new()),
    }
}

#[tokio::test]
async fn errors_have_the_words_and_the_place_that_go_jsonnet_gives_them() {
    let pack: Pack = serde_json::from_str(PACK).expect("the recorded errors");
    let known: Known = toml::from_str(KNOWN).expect("the list of known differences");
    let tree: Arc<dyn Tree> = Files::from_pairs([(path("m.libsonnet"), pack.library.as_str())].into_iter());
    let evaluator = evaluator(EvalLimits::default());
    let (mut equal, mut expected, mut unexpected) = (0, 0, Vec::new());
    for case in &pack.cases {
        let request = Request {
            tree: tree.clone(),
            ..snippet(&case.program)
        };
        let error = evaluate(&evaluator, request).await.expect_err("no value");
        let (message, at) = told(&error);
        let is_equal = message == case.message && (at == case.at || case.at.is_empty());
        match (is_equal, known.errors.get(&case.name)) {
            (true, None) => equal += 1,
            (false, Some(_)) => expected += 1,
            (true, Some(_)) => unexpected.push(format!("{} is listed as known, and is equal", case.name)),
            (false, None) => unexpected.push(format!(
                "{}: theirs {:?} at {}, ours {message:?} at {at}",
                case.name, case.message, case.at
            )),
        }
    }
    println!(
        "errors {}/{} ({expected} known)",
        equal + expected,
        pack.cases.len()
    );
    assert!(unexpected.is_empty(), "\n{}", unexpected.join("\n"));
    for name in known.errors.keys() {
        assert!(
            pack.cases.iter().any(|case| case.name == *name),
            "no program is called `{name}`"
        );
    }
}
