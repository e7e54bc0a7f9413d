//! The parsing of generated texts: by our parser, by both engines, and by go-jsonnet 0.22, whose answers are recorded
//! beside the generator. The record itself is compared with `jsonnet`, if that is installed.
//!
//! A value that differs from Go's fails the test, even if both engines agree on it. Programs that have a value in only
//! one of Go and here are counted by the reason in `known.toml`.

use super::pack::read_own_file;
use super::written::{FILES, generate_program};
use crate::support::evaluation::{TestTree, evaluator, path, snippet_request};
use crate::support::require::{Component, component};
use drydock::rendering::jsonnet::{
    CrossCheckMode, CrossCheckResult, EvalLimits, EvalRequest, Evaluation, syntax,
};
use drydock::state::workspace::Tree;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The answers of go-jsonnet to the programs from seed 0 on, four characters each.
const RECORDED: &str = include_str!("written/answers.txt");
/// The variable with the number of programs that are compared live with `jsonnet`, and parsed.
const PROGRAMS_VARIABLE: &str = "DRYDOCK_TEST_PROGRAMS";
/// The default number of programs.
const PROGRAMS: usize = 6_000;
/// The number of programs in one batch.
const BATCH: usize = 200;
/// The number of programs in one run of `jsonnet`.
const THEIR_BATCH: usize = 50;

/// The known reasons why only one of Go and our engines has a value, or why the engines disagree although one value is
/// right: words of our error, and their meaning.
#[derive(Debug, Deserialize)]
struct KnownReadingDifferences {
    reading: BTreeMap<String, String>,
}

/// The answer of go-jsonnet to a program.
#[derive(Clone, Debug, PartialEq, Eq)]
enum GoAnswer {
    /// An error, because the program is not valid Jsonnet.
    Refused,
    /// An error, because the program has no value.
    Failed,
    /// A crash of go-jsonnet itself.
    Crashed,
    /// A value with this digest.
    Value(String),
}

impl GoAnswer {
    fn read(recorded: &str) -> Self {
        match recorded {
            "----" => Self::Refused,
            "!!!!" => Self::Failed,
            "????" => Self::Crashed,
            digest => Self::Value(digest.to_owned()),
        }
    }

    fn written(&self) -> &str {
        match self {
            Self::Refused => "----",
            Self::Failed => "!!!!",
            Self::Crashed => "????",
            Self::Value(digest) => digest,
        }
    }
}

fn recorded() -> Vec<GoAnswer> {
    let lines = RECORDED.lines();
    let answers = lines.flat_map(|line| line.as_bytes().chunks(4));
    answers
        .map(|answer| GoAnswer::read(std::str::from_utf8(answer).expect("the answers are ASCII")))
        .collect()
}

/// Returns a digest of a value, with numbers bit by bit.
fn digest(value: &Value) -> String {
    fn add(value: &Value, hash: &mut Sha256) {
        match value {
            Value::Null => hash.update("n"),
            Value::Bool(truth) => hash.update(if *truth { "t" } else { "f" }),
            Value::Number(number) => {
                hash.update("#");
                hash.update(number.as_f64().expect("a number").to_bits().to_be_bytes());
            }
            Value::String(text) => {
                hash.update("\"");
                hash.update(text.len().to_be_bytes());
                hash.update(text);
            }
            Value::Array(items) => {
                hash.update("[");
                items.iter().for_each(|item| add(item, hash));
                hash.update("]");
            }
            Value::Object(fields) => {
                hash.update("{");
                let sorted: BTreeMap<_, _> = fields.iter().collect();
                for (name, value) in sorted {
                    add(&Value::String(name.clone()), hash);
                    add(value, hash);
                }
                hash.update("}");
            }
        }
    }
    let mut hash = Sha256::new();
    add(value, &mut hash);
    let hash = hash.finalize();
    format!("{:02x}{:02x}", hash[0], hash[1])
}

fn programs_wanted() -> usize {
    let wanted = std::env::var(PROGRAMS_VARIABLE);
    wanted.map_or(PROGRAMS, |wanted| wanted.parse().expect("a number of programs"))
}

/// Returns the reason why a program is not parsed as in Go, or `Err` if its value is wrong.
fn difference(
    source: &str,
    theirs: &GoAnswer,
    ours: &Result<Evaluation, drydock::rendering::jsonnet::EvalError>,
) -> Result<Option<String>, String> {
    let is_refused = syntax::parse(source).is_err();
    match (theirs, ours) {
        (GoAnswer::Crashed, _) => Ok(None),
        (GoAnswer::Refused, _) if !is_refused => Err("our tree takes it".to_owned()),
        (GoAnswer::Failed | GoAnswer::Value(_), _) if is_refused => Err("our tree refuses it".to_owned()),
        (GoAnswer::Refused | GoAnswer::Failed, Err(_)) => Ok(None),
        (GoAnswer::Value(_), Err(error)) => Ok(Some(format!("- {error}"))),
        (GoAnswer::Failed, Ok(_)) if source.contains("tailstrict") => Ok(Some("+ tailstrict".to_owned())),
        (GoAnswer::Refused | GoAnswer::Failed, Ok(evaluated)) => match &evaluated.cross_check {
            CrossCheckResult::Failed(error) => Ok(Some(format!("+ {error}"))),
            cross_check => Err(format!("ours has a value, {cross_check:?}")),
        },
        (GoAnswer::Value(theirs), Ok(evaluated)) => {
            let value: Value = serde_json::from_slice(&evaluated.json).expect("our JSON");
            match (&digest(&value) == theirs, &evaluated.cross_check) {
                (true, CrossCheckResult::Agrees) => Ok(None),
                (true, cross_check) => Ok(Some(format!("= {cross_check:?}"))),
                (false, cross_check) => Err(format!("ours is {value}, {cross_check:?}")),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generated_texts_are_read_as_go_jsonnet_reads_them() {
    let wanted = programs_wanted();
    let mut answers = recorded();
    if wanted > answers.len() {
        match component("jsonnet") {
            Some(jsonnet) => answers = asked(&jsonnet, wanted),
            None => skipped(answers.len(), wanted),
        }
    }
    let wanted = wanted.min(answers.len());
    let listed: KnownReadingDifferences =
        toml::from_str(&read_own_file("known.toml")).expect("the list of known differences");
    let evaluator = evaluator(EvalLimits::default());
    let files = FILES.iter().map(|(name, text)| (path(name), *text));
    let tree: Arc<dyn Tree> = TestTree::from_pairs(files);
    let sources: Vec<String> = (0..wanted as u64).map(generate_program).collect();
    let (mut equal, mut wrong, mut known) = (0, Vec::new(), BTreeMap::new());
    for (sources, answers) in sources.chunks(BATCH).zip(answers.chunks(BATCH)) {
        let requests = sources.iter().map(|source| EvalRequest {
            cross_check: CrossCheckMode::On,
            tree: tree.clone(),
            ..snippet_request(source)
        });
        let ours = evaluator
            .evaluate_all(requests.collect(), &CancellationToken::new())
            .await;
        for ((source, theirs), ours) in sources.iter().zip(answers).zip(&ours) {
            match difference(source, theirs, ours) {
                Ok(None) => equal += 1,
                Ok(Some(why)) => match listed.reading.keys().find(|words| why.contains(*words)) {
                    Some(words) => *known.entry(words.as_str()).or_insert(0) += 1,
                    None => wrong.push(format!("{source:?}: {why}")),
                },
                Err(why) => wrong.push(format!("{source:?}: {why}")),
            }
        }
    }
    let expected: usize = known.values().sum();
    println!(
        "reading {}/{wanted} ({expected} known: {known:?})",
        equal + expected
    );
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    let values = answers
        .iter()
        .filter(|answer| matches!(answer, GoAnswer::Value(_)));
    assert!(values.count() > answers.len() / 2, "most programs have a value");
}

/// Reports, past the capture of the test harness, that fewer programs are compared than requested.
fn skipped(recorded: usize, wanted: usize) {
    let left = wanted - recorded;
    let line = format!("SKIPPED {left} of {wanted} generated texts: {recorded} answers are recorded\n");
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("stderr takes a line");
}

/// Returns the answers of go-jsonnet to programs. A list imports each program as a file. The error names a program
/// without a value, and the others are tried again without it.
fn go_jsonnet_answers(jsonnet: &Component, sources: &[String], place: &Path) -> Vec<GoAnswer> {
    for (name, text) in FILES {
        std::fs::write(place.join(name), text).expect("a file");
    }
    for (index, source) in sources.iter().enumerate() {
        std::fs::write(place.join(format!("p{index}.jsonnet")), source).expect("a program");
    }
    let mut answers = vec![GoAnswer::Failed; sources.len()];
    let mut left: Vec<usize> = (0..sources.len()).collect();
    while !left.is_empty() {
        let said = match values(jsonnet, &left, place) {
            Ok(values) => {
                for (index, value) in left.iter().zip(&values) {
                    answers[*index] = GoAnswer::Value(digest(value));
                }
                break;
            }
            Err(said) => said,
        };
        // A crash names no program.
        let at = match is_crash(&said) {
            true => left.iter().position(|index| {
                let alone = values(jsonnet, &[*index], place);
                alone.is_err_and(|said| is_crash(&said))
            }),
            false => failing(&said, &left),
        };
        let index = left.remove(at.unwrap_or_else(|| panic!("no program is named: {said}")));
        answers[index] = match (is_crash(&said), is_refusal(&said, index)) {
            (true, _) => GoAnswer::Crashed,
            (false, true) => GoAnswer::Refused,
            (false, false) => GoAnswer::Failed,
        };
    }
    answers
}

fn is_crash(said: &str) -> bool {
    said.starts_with("INTERNAL ERROR")
}

/// Returns the values of programs in one list, or the error of `jsonnet` for the first without a value.
fn values(jsonnet: &Component, programs: &[usize], place: &Path) -> Result<Vec<Value>, String> {
    let imports = programs
        .iter()
        .map(|index| format!("import 'p{index}.jsonnet',\n"));
    let list = format!("[{}]", imports.collect::<String>());
    std::fs::write(place.join("main.jsonnet"), list).expect("a list");
    let run = jsonnet
        .command()
        .arg("main.jsonnet")
        .current_dir(place)
        .stdin(Stdio::null())
        .output()
        .expect("jsonnet starts");
    match run.status.success() {
        true => Ok(serde_json::from_slice(&run.stdout).expect("it writes a list")),
        false => Err(String::from_utf8_lossy(&run.stderr).into_owned()),
    }
}

/// Returns the position in the list of the program that an error names.
fn failing(said: &str, left: &[usize]) -> Option<usize> {
    let number = |text: &str| -> Option<usize> {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    let mut names = said.match_indices("p").filter_map(|(at, _)| {
        let rest = said.get(at + 1..)?;
        let index = number(rest)?;
        let is_name = rest.get(index.to_string().len()..)?.starts_with(".jsonnet");
        is_name
            .then(|| left.iter().position(|left| *left == index))
            .flatten()
    });
    names.next().or_else(|| {
        let (_, rest) = said.split_once("Array element ")?;
        number(rest)
    })
}

/// Returns true for an error about invalid Jsonnet. Unknown names are found by a later analysis.
fn is_refusal(said: &str, index: usize) -> bool {
    let analysed = [
        "Unknown variable",
        "No top-level object",
        "Can't use self",
        "Can't use super",
    ];
    said.starts_with(&format!("RUNTIME ERROR: p{index}.jsonnet:"))
        && !analysed.iter().any(|words| said.contains(words))
}

#[test]
fn the_recorded_answers_are_those_of_jsonnet() {
    let Some(jsonnet) = component("jsonnet") else {
        return;
    };
    let recorded = recorded();
    let wanted = programs_wanted().min(recorded.len());
    let answers = asked(&jsonnet, wanted);
    if answers != recorded[..wanted] {
        let written: String = answers
            .chunks(25)
            .map(|line| line.iter().map(GoAnswer::written).collect::<String>() + "\n")
            .collect();
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("answers.txt");
        std::fs::write(&place, written).expect("a file");
        panic!(
            "jsonnet answers otherwise; its answers are in {}",
            place.display()
        );
    }
}

/// Returns the answers of go-jsonnet to this number of programs, from two threads.
fn asked(jsonnet: &Component, programs: usize) -> Vec<GoAnswer> {
    let sources: Vec<String> = (0..programs as u64).map(generate_program).collect();
    let batches: Vec<&[String]> = sources.chunks(THEIR_BATCH).collect();
    let half = batches.len().div_ceil(2);
    std::thread::scope(|scope| {
        let work = |batches: &[&[String]]| -> Vec<GoAnswer> {
            let place = tempfile::tempdir().expect("a directory");
            let answers = batches
                .iter()
                .map(|sources| go_jsonnet_answers(jsonnet, sources, place.path()));
            answers.flatten().collect()
        };
        let (first, second) = batches.split_at(half);
        let first = scope.spawn(move || work(first));
        let second = work(second);
        [first.join().expect("the first half"), second].concat()
    })
}
