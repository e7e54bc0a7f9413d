//! `drydock ask --review` that is stopped, by Ctrl-C or by its time limit: it ends, and its checks do not begin again.

use crate::support::screen::{ScreenProgram, key};
use crate::support::shell::{BlockingModel, Shell};
use drydock::simulation::emulator::model::{AnswerFault, ScriptedAnswer, calls, queue, says};
use serde_json::json;
use std::time::{Duration, Instant};

/// A stop takes less than a second; a busy machine may add to it. What is stopped here would take far longer.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Evaluating this takes hours.
const ENDLESS: &str = "local f(n) = if n < 2 then n else f(n - 1) + f(n - 2); { a: f(90) }\n";
const UNCHECKED: &str = "Not checked: files and environments: the review was stopped before its checks";

fn shell() -> Shell {
    let shell = Shell::with_repository(&[
        ("jsonnetfile.json", "{}\n"),
        ("environments/dev/main.jsonnet", "{}\n"),
        ("environments/dev/spec.json", "{}\n"),
    ]);
    shell.put("environments/dev/main.jsonnet", ENDLESS);
    shell.set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
}

fn concludes() -> ScriptedAnswer {
    calls("conclude", json!({ "verdict": "pass", "summary": "It holds." }))
}

fn stalls() -> ScriptedAnswer {
    says("never").with_fault(AnswerFault::Stall)
}

/// Starts a review, stops it once the screen shows what it waits for, and returns what was written.
fn stopped_review(answer: ScriptedAnswer, waits: &str) -> String {
    let shell = shell();
    let model = BlockingModel::start(queue([answer]));
    let url = format!("providers.anthropic.base_url={}", model.url());
    let arguments = [
        "ask",
        "--set",
        &url,
        "--set",
        "sandbox.seconds_max=60",
        "--review",
    ];
    let program = ScreenProgram::start(&shell, &arguments, 80, "xterm-256color");
    model.wait_for_requests(1);
    program.wait_for(waits);
    let stopped = Instant::now();
    program.press(key::CTRL_C);
    let ended = program.end();
    assert!(stopped.elapsed() < STOP_MAX, "{waits}: {:?}", stopped.elapsed());
    assert_eq!(ended.code, Some(1), "{}", ended.written);
    assert!(
        ended.written.contains("the request was not finished"),
        "{}",
        ended.written
    );
    ended.written
}

#[test]
fn ctrl_c_stops_the_checks_of_a_review_and_does_not_begin_them_again() {
    let written = stopped_review(concludes(), "checks, ");
    let why = "I could not check all of this change: the comparison was stopped.";
    assert!(written.contains(why), "{written}");
}

#[test]
fn ctrl_c_stops_a_review_before_its_checks_and_does_not_begin_them() {
    let written = stopped_review(stalls(), "step 1 ·");
    assert!(
        written.contains("Stopped at step 1.") && written.contains(UNCHECKED),
        "{written}"
    );
}

#[test]
fn the_time_limit_of_a_review_ends_it_with_its_checks() {
    for (answer, seconds, reason) in [
        (
            concludes(),
            3,
            "I could not check all of this change: the comparison was stopped.",
        ),
        (stalls(), 2, UNCHECKED),
    ] {
        let shell = shell();
        let model = BlockingModel::start(queue([answer]));
        let url = format!("providers.anthropic.base_url={}", model.url());
        let limit = format!("limits.turn_seconds_max={seconds}");
        let began = Instant::now();
        let ended = shell.run(&[
            "ask",
            "--set",
            &url,
            "--set",
            &limit,
            "--set",
            "sandbox.seconds_max=60",
            "--review",
        ]);
        let limit = Duration::from_secs(seconds);
        assert!(
            began.elapsed() < limit + STOP_MAX,
            "{:?}: {ended:?}",
            began.elapsed()
        );
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains(reason), "{ended:?}");
    }
}
