//! Ctrl-C at a terminal while a turn runs: whatever the turn waits for, the prompt is there again at once.

use crate::support::screen::{ScreenProgram, key};
use crate::support::shell::{BlockingModel, Shell};
use drydock::simulation::emulator::model::{AnswerFault, ScriptedAnswer, calls, queue, says};
use serde_json::json;
use std::time::{Duration, Instant};

const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");
/// A stop takes less than a second; a busy machine may add to it. What is stopped here would take far longer.
const STOP_MAX: Duration = Duration::from_secs(3);
/// Evaluating this takes hours.
const ENDLESS: &str = "local f(n) = if n < 2 then n else f(n - 1) + f(n - 2); { a: f(90) }\n";

/// Starts a turn with this first answer, waits until the screen shows what it waits for, and stops it.
fn assert_stops(answer: ScriptedAnswer, waits: &str) {
    let shell = Shell::with_repository(&[
        ("jsonnetfile.json", "{}\n"),
        ("environments/dev/main.jsonnet", ENDLESS),
        ("environments/dev/spec.json", "{}\n"),
    ]);
    let shell = shell.set(KEY.0, KEY.1);
    let model = BlockingModel::start(queue([answer, says("Still here.")]));
    let url = format!("providers.anthropic.base_url={}", model.url());
    let arguments = ["chat", "--set", &url, "--set", "sandbox.seconds_max=60"];
    let program = ScreenProgram::start(&shell, &arguments, 80, "xterm-256color");
    program.wait_for_prompt();
    program.enter("go on");
    // The status row is there before the first step.
    model.wait_for_requests(1);
    program.wait_for(waits);
    let stopped = Instant::now();
    program.press(key::CTRL_C);
    program.wait_for("Stopped at step 1.");
    program.wait_for_prompt();
    assert!(stopped.elapsed() < STOP_MAX, "{waits}: {:?}", stopped.elapsed());
    program.enter("are you there?");
    program.wait_for("Still here.");
    program.wait_for_prompt();
    program.press(key::CTRL_D);
    assert_eq!(program.end().code, Some(0));
}

/// TK-65
#[test]
fn ctrl_c_stops_a_model_that_sends_nothing() {
    assert_stops(says("never").with_fault(AnswerFault::Stall), "step 1 ·");
}

/// TK-65
#[test]
fn ctrl_c_stops_a_tool_that_renders() {
    let show = calls("tanka_show", json!({ "env_path": "environments/dev" }));
    assert_stops(show, "· tanka_show environments/dev");
}

/// TK-65
#[test]
fn ctrl_c_stops_a_turn_that_waits_for_an_answer() {
    let ask = calls("ask_user", json!({ "question": "How many?", "minutes": 5 }));
    assert_stops(ask, "Type your answer. Ctrl-C stops the work.\n❯");
}
