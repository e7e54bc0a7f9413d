//! The errors of failing programs, compared with those of go-jsonnet 0.22 for our own programs: the message, the
//! location of the failed expression, and the locations that led there. Frames inside its standard library have no
//! counterpart.

use super::pack::read_own_file;
use crate::support::evaluation::{TestTree, evaluate, evaluator, path, snippet_request};
use drydock::rendering::jsonnet::{EvalError, EvalLimits, EvalRequest};
use drydock::state::workspace::Tree;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Deserialize)]
struct ErrorPack {
    /// The files that programs import.
    files: BTreeMap<String, String>,
    cases: Vec<ErrorCase>,
}

/// A failing program, and the error of go-jsonnet for it.
#[derive(Debug, Deserialize)]
struct ErrorCase {
    name: String,
    program: String,
    message: String,
    /// The location in the program, or empty if the error names none.
    at: String,
    /// The locations of the program in the trace, innermost first.
    chain: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct KnownErrorDifferences {
    errors: BTreeMap<String, String>,
    said: BTreeMap<String, String>,
    chains: BTreeMap<String, String>,
}

/// Returns the message and the location of an error.
fn message_and_location(error: &EvalError) -> (String, String) {
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
            ..
        } => (message.clone(), format!("{path}:{line}:{column}")),
        error => {
            let place = error.trace().first().map(|frame| frame.at.clone());
            let place = place.unwrap_or_default();
            let message = error.to_string();
            let at = format!(" (at {place})");
            (message.strip_suffix(&at).unwrap_or(&message).to_owned(), place)
        }
    }
}

/// Returns true if their locations are among ours, in the same order.
fn has_places_in_order(theirs: &[String], ours: &[&str]) -> bool {
    let mut ours = ours.iter();
    let mut theirs = theirs.to_vec();
    theirs.dedup();
    theirs.iter().all(|place| ours.any(|at| at == place))
}

/// The comparison of all programs: the numbers of equal and known results, and the unexpected ones.
#[derive(Debug, Default)]
struct ErrorComparison {
    equal: usize,
    known: usize,
    unexpected: Vec<String>,
}

impl ErrorComparison {
    fn add(&mut self, name: &str, difference: Option<String>, known: Option<&String>) {
        match (difference, known) {
            (None, None) => self.equal += 1,
            (Some(_), Some(_)) => self.known += 1,
            (None, Some(_)) => self
                .unexpected
                .push(format!("{name} is listed as known, and is equal")),
            (Some(difference), None) => self.unexpected.push(format!("{name}: {difference}")),
        }
    }
}

#[tokio::test]
async fn errors_have_the_words_and_the_place_that_go_jsonnet_gives_them() {
    let pack: ErrorPack = serde_json::from_str(&read_own_file("errors.json")).expect("the recorded errors");
    let known: KnownErrorDifferences =
        toml::from_str(&read_own_file("known.toml")).expect("the list of known differences");
    let files = pack.files.iter().map(|(name, text)| (path(name), text.as_str()));
    let tree: Arc<dyn Tree> = TestTree::from_pairs(files);
    let evaluator = evaluator(EvalLimits::default());
    let (mut words, mut chains) = (ErrorComparison::default(), ErrorComparison::default());
    for case in &pack.cases {
        let request = EvalRequest {
            tree: tree.clone(),
            ..snippet_request(&case.program)
        };
        let error = evaluate(&evaluator, request).await.expect_err("no value");
        let (message, at) = message_and_location(&error);
        let is_equal = message == case.message && (at == case.at || case.at.is_empty());
        let theirs = (&case.message, &case.at);
        let difference = (!is_equal).then(|| format!("theirs {theirs:?}, ours {:?}", (&message, &at)));
        words.add(&case.name, difference, known.errors.get(&case.name));
        if known.errors.contains_key(&case.name) {
            let said = known.said.get(&case.name).cloned().unwrap_or_default();
            let ours = format!("{message} (at {at})");
            if said != ours {
                words
                    .unexpected
                    .push(format!("{} says {ours:?}, and listed is {said:?}", case.name));
            }
        }
        let places: Vec<&str> = error.trace().iter().map(|frame| frame.at.as_str()).collect();
        let leads = has_places_in_order(&case.chain, &places);
        let difference = (!leads).then(|| format!("theirs {:?}, ours {places:?}", case.chain));
        chains.add(&case.name, difference, known.chains.get(&case.name));
    }
    let all = pack.cases.len();
    println!(
        "errors {}/{all} ({} known)",
        words.equal + words.known,
        words.known
    );
    println!(
        "chains {}/{all} ({} known)",
        chains.equal + chains.known,
        chains.known
    );
    let unexpected = [words.unexpected, chains.unexpected].concat();
    assert!(unexpected.is_empty(), "\n{}", unexpected.join("\n"));
    for name in known.errors.keys().chain(known.chains.keys()) {
        assert!(
            pack.cases.iter().any(|case| case.name == *name),
            "no program is called `{name}`"
        );
    }
}
