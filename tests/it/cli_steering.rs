//! Lines that a person enters at a terminal while a turn runs.

use crate::support::screen::{ScreenProgram, key};
use crate::support::shell::{BlockingModel, Shell};
use crate::support::source::root;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, calls, queue, says};
use serde_json::json;

const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");
const MAIN: &str = "environments/dev/main.jsonnet";
const TAKEN: &str = "[Message while you worked:]\nand who set them?";

fn shell() -> Shell {
    Shell::with_repository(&[(MAIN, "{ replicas: 2 }\n")]).set(KEY.0, KEY.1)
}

fn chat(shell: &Shell, model: &BlockingModel, arguments: &[&str]) -> ScreenProgram {
    let url = format!("providers.anthropic.base_url={}", model.url());
    let arguments = [&["chat", "--set", &url], arguments].concat();
    let program = ScreenProgram::start(shell, &arguments, 80, "xterm-256color");
    program.wait_for_prompt();
    program
}

/// Starts a turn whose first answer is held back.
fn start_turn(program: &ScreenProgram, request: &str) {
    program.enter(request);
    program.wait_for("step 1 ·");
}

fn end(program: ScreenProgram) {
    program.press(key::CTRL_D);
    let ended = program.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

fn last_text(asked: &ModelRequest) -> &str {
    &asked.messages.last().unwrap().text
}

/// STK-57: a line reaches the next step of the turn, is part of the recording, and is there when the session goes on.
#[test]
fn a_line_that_is_entered_during_a_turn_reaches_its_next_step() {
    let shell = shell();
    let read = says("I look at the file first.").with_call("file_read", json!({ "path": MAIN }));
    let model = BlockingModel::start(queue([
        read.with_fault(AnswerFault::Held),
        says("Two, since the first commit."),
        says("You asked who set them."),
    ]));
    let kept = shell.home().join("kept").display().to_string();
    let program = chat(&shell, &model, &["--record", &kept]);
    start_turn(&program, "how many replicas?");
    program.press("and who set tham?\u{7f}\u{7f}\u{7f}em?");
    let typing = program.wait_until("the line below the status", |screen| {
        screen.trim_end().ends_with("Ctrl-C stops\n❯ and who set them?")
    });
    assert!(!typing.contains("[message]"), "{typing}");
    program.press(key::ENTER);
    program.wait_for("[message] and who set them? (the model reads it at its next step)");
    model.release();
    program.wait_for("[message read] and who set them?");
    program.wait_for("Two, since the first commit.");
    let screen = program.wait_for_prompt();
    let (_, shown) = screen.split_once("committed.\n").unwrap();
    let shown = shown.trim_end().trim_end_matches('❯').trim_end();
    let document = std::fs::read_to_string(root().join("docs/terminal.md")).unwrap();
    assert!(document.contains(&format!("```text\n{shown}\n```")), "{shown}");
    assert_eq!(last_text(&model.asked()[1]), TAKEN);
    program.enter("/context");
    program.wait_for("you, during the turn: [Message while you worked:]");
    program.wait_for_prompt();
    end(program);

    let url = format!("providers.anthropic.base_url={}", model.url());
    let resume = ["chat", "--set", &url, "--record", &kept, "--resume"];
    let resumed = shell.run_with_input(&resume, "what did I ask?\n");
    assert_eq!(
        (resumed.code, resumed.out.as_str()),
        (Some(0), "You asked who set them.\n"),
        "{resumed:?}"
    );
    let asked = model.asked();
    assert_eq!(asked[2].messages[..3], asked[1].messages);
    assert_eq!(asked[2].messages[3].text, "Two, since the first commit.");
    assert_eq!(asked[2].messages.len(), 5);
}

/// A line that is entered while the model writes its last answer is answered in the same turn.
#[test]
fn an_answer_at_a_terminal_waits_for_a_line_that_came_while_it_was_written() {
    let held = says("Two.").with_fault(AnswerFault::Held);
    let (shell, model) = (
        shell(),
        BlockingModel::start(queue([held, says("Two, as in the file.")])),
    );
    let program = chat(&shell, &model, &[]);
    start_turn(&program, "how many?");
    program.enter("say where");
    program.wait_for("[message] say where");
    model.release();
    let screen = program.wait_for("Two, as in the file.");
    let read = screen.find("Two.\n[message read] say where\n");
    assert!(
        read.is_some() && read < screen.find("Two, as in the file."),
        "{screen}"
    );
    program.wait_for_prompt();
    end(program);
    let asked = model.asked();
    assert!(last_text(&asked[1]).ends_with("]\nsay where"), "{:?}", asked[1]);
    assert_eq!(asked.len(), 2);
}

/// A request with `queue:` and a command run after the turn, in order, and can be recalled.
#[test]
fn what_is_queued_at_a_terminal_runs_after_the_turn() {
    let held = says("One.").with_fault(AnswerFault::Held);
    let (shell, model) = (shell(), BlockingModel::start(queue([held, says("Two.")])));
    let program = chat(&shell, &model, &[]);
    start_turn(&program, "first");
    program.enter("queue:");
    program.wait_for("[not queued] write your request after `queue:`");
    program.enter("queue: then second");
    program.wait_for("[queued] then second (for the end of this turn)");
    program.enter("/usage");
    program.wait_for("[queued] /usage (for the end of this turn)");
    model.release();
    program.wait_for("❯ /usage\n2100 tokens");
    let screen = program.wait_for_prompt();
    assert!(screen.contains("❯ queue: then second\n"), "{screen}");
    program.press(key::UP);
    program.wait_until("recalled line", |screen| {
        screen.trim_end().ends_with("\n❯ /usage")
    });
    program.press(key::CTRL_C);
    program.wait_for_prompt();
    end(program);
    let asked = model.asked();
    assert_eq!(asked[1].last_user_text(), "then second");
    assert_eq!((asked[1].messages.len(), asked.len()), (3, 2));
}

/// After a stop, the person decides about what the turn did not read.
#[test]
fn after_a_stop_what_was_entered_is_at_the_prompt_again() {
    let stalled = says("never").with_fault(AnswerFault::Stall);
    let (shell, model) = (shell(), BlockingModel::start(queue([stalled, says("Because.")])));
    let program = chat(&shell, &model, &[]);
    start_turn(&program, "think long");
    model.wait_for_requests(1);
    program.enter("say why");
    program.wait_for("[message] say why");
    program.press(key::CTRL_C);
    program.wait_for("Stopped at step 1.");
    program.wait_until("the line at the prompt", |screen| {
        screen.trim_end().ends_with("\n❯ say why")
    });
    assert_eq!(model.asked().len(), 1);
    program.press(key::ENTER);
    program.wait_for("Because.");
    program.wait_for_prompt();
    end(program);
    assert_eq!(model.asked()[1].last_user_text(), "say why");
}

/// Lines of a pipe are requests, one after the other, also if they arrive while a turn runs.
#[test]
fn lines_of_a_pipe_wait_for_the_end_of_the_turn() {
    let (shell, model) = (
        shell(),
        BlockingModel::start(queue([
            calls("file_read", json!({ "path": MAIN })),
            says("Two."),
            says("You."),
        ])),
    );
    let url = format!("providers.anthropic.base_url={}", model.url());
    let ended = shell.run_with_input(&["chat", "--set", &url], "how many?\nqueue: who set them?\n");
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "Two.\nYou.\n"),
        "{ended:?}"
    );
    assert_eq!(model.asked()[2].last_user_text(), "who set them?");
}
