//! The values of generated programs, compared with go-jsonnet as it runs where it is installed. Ours is wrong where both engines agree on
//! what Go does not say.

use super::evaluation::same;
use super::programs::program;
use crate::support::evaluation::{evaluator, snippet};
use crate::support::require::{Component, component};
use drydock::jsonnet::{EvalError, EvalLimits, Evaluated, Request, SecondOpinion, SecondOpinionWanted};
use serde_json::Value;
use std::process::Stdio;
use tokio_util::sync::CancellationToken;

/// Programs that are compared.
const PROGRAMS: u64 = 2_000;
/// Programs of one batch.
const BATCH: usize = 100;

/// Returns the answer of go-jsonnet to a program: its value, or what it says.
fn theirs(jsonnet: &Component, source: &str) -> Result<Value, String> {
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

/// The result of comparing one program.
#[derive(Debug, PartialEq, Eq)]
enum Compared {
    Equal,
    /// Different, and our second engine says so, too.
    Flagged(String),
    Wrong(String),
}

fn compared(theirs: &Result<Value, String>, ours: &Result<Evaluated, EvalError>) -> Compared {
    match (theirs, ours) {
        (Ok(theirs), Ok(evaluated)) => {
            let value: Value = serde_json::from_slice(&evaluated.json).expect("our JSON");
            let agree = evaluated.second_opinion == SecondOpinion::Agrees;
            match (same(theirs, &value), agree) {
                (true, _) => Compared::Equal,
                (false, false) => Compared::Flagged(format!("theirs {theirs}, ours {value}")),
                (false, true) => Compared::Wrong(format!("theirs {theirs}, ours {value}")),
            }
        }
        (Err(_), Err(EvalError::Jail(why))) => Compared::Wrong(format!("the jail: {why}")),
        (Err(_), Err(_)) => Compared::Equal,
        (Ok(theirs), Err(error)) => Compared::Flagged(format!("theirs {theirs}, ours is an error: {error}")),
        (Err(theirs), Ok(evaluated)) => {
            let what = format!(
                "theirs is {theirs}, ours {}",
                String::from_utf8_lossy(&evaluated.json)
            );
            match evaluated.second_opinion {
                SecondOpinion::Agrees => Compared::Wrong(what),
                _ => Compared::Flagged(what),
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
    let sources: Vec<String> = (0..PROGRAMS).map(program).collect();
    let (mut equal, mut values, mut flagged, mut wrong) = (0, 0, Vec::new(), Vec::new());
    for batch in sources.chunks(BATCH) {
        let requests = batch.iter().map(|source| Request {
            second_opinion: SecondOpinionWanted::Yes,
            ..snippet(source)
        });
        let ours = evaluator
            .evaluate_all(requests.collect(), &CancellationToken::new())
            .await;
        for (source, ours) in batch.iter().zip(&ours) {
            let theirs = theirs(&jsonnet, source);
            values += usize::from(theirs.is_ok());
            match compared(&theirs, ours) {
                Compared::Equal => equal += 1,
                Compared::Flagged(what) => flagged.push(format!("{source}  {what}")),
                Compared::Wrong(what) => wrong.push(format!("{source}  {what}")),
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
