//! `drydock run` at a terminal: its questions, and signals that end it.

use crate::cli_run::{FILE, MAIN, SCALE, edits, shell, statuses, url};
use crate::support::screen::ScreenProgram;
use crate::support::shell::{BlockingModel, Shell};
use drydock::simulation::emulator::model::{AnswerFault, queue, says};

/// A run that is cancelled keeps what was edited, and begins nothing else.
#[test]
fn ctrl_c_cancels_the_run_and_keeps_its_edits() {
    let shell = shell(SCALE);
    let model = BlockingModel::start(queue([
        edits(MAIN, "2", "4"),
        says("never").with_fault(AnswerFault::Stall),
    ]));
    let program = shell.start(&[
        "run",
        "scale",
        "--param",
        "replicas=4",
        "--json",
        "--set",
        &url(&model),
    ]);
    model.wait_for_requests(2);
    program.interrupt();
    let ended = program.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let report = ended.json();
    assert_eq!(report["status"], "cancelled");
    assert_eq!(statuses(&report), ["cancelled"; 4]);
    assert_eq!(shell.get(MAIN), "{ replicas: 4 }\n");
    assert!(
        ended
            .err
            .ends_with("the run was cancelled; what was edited stays\n"),
        "{ended:?}"
    );
}

const QUESTIONS: &str = "\
pipelines:
  ask:
    triggers: [{command_line: {}}]
    steps:
      - name: release
        ask: {to: {person: alice}, question: Tell the team?, choices: [Yes, Later], deadline: 10m, default: Later}
      - name: again
        when: steps.release.output == 'Yes'
        ask: {to: {person: alice}, question: Are you sure?, choices: [Yes, Later], deadline: 10m}
";

/// A run without a model needs neither a model nor a key.
#[test]
fn a_question_of_a_run_is_a_menu_at_a_terminal() {
    let shell = Shell::with_repository(&[(FILE, QUESTIONS)]);
    let program = ScreenProgram::start(&shell, &["run", "ask"], 120, "xterm-256color");
    program.wait_for(
        "1. Yes\n  2. Later (default)\nType a number; Enter, or no answer within 10m, takes the default.",
    );
    program.wait_for_prompt();
    program.enter("1");
    program.wait_for("Are you sure?");
    program.wait_for_prompt();
    program.enter("9");
    program.wait_for("Type a number from 1 to 2.");
    program.wait_for_prompt();
    program.enter("later");
    let ended = program.end();
    assert_eq!(ended.code, Some(0), "{}", ended.written);
    assert!(ended.written.contains("again    succeeded"), "{}", ended.written);
}

/// Shows the question and the choice that counts, where nobody can be asked.
#[test]
fn a_default_that_counts_is_shown() {
    let shell = Shell::with_repository(&[(FILE, QUESTIONS)]);
    let ended = shell.run(&["run", "ask"]);
    for line in [
        "Tell the team?\nNobody is asked, so the default counts.\n",
        "release: succeeded, Later\n",
    ] {
        assert!(ended.err.contains(line), "{line}: {ended:?}");
    }
}

/// The signal of a service manager is no answer, and the default does not count.
#[test]
fn a_signal_at_a_question_cancels_the_run_and_restores_the_terminal() {
    let shell = Shell::with_repository(&[(FILE, QUESTIONS)]);
    let program = ScreenProgram::start(&shell, &["run", "ask"], 120, "xterm-256color");
    program.wait_for("Tell the team?");
    program.wait_for_prompt();
    program.terminate();
    let screen = program.wait_for("the run was cancelled; what was edited stays");
    assert!(program.has_echo(), "{screen}");
    let ended = program.end();
    assert_eq!(ended.code, Some(1), "{}", ended.written);
    for row in ["release  cancelled", "again    cancelled"] {
        assert!(ended.written.contains(row), "{row}: {}", ended.written);
    }
    assert!(!ended.written.contains("Are you sure?"), "{}", ended.written);
}
