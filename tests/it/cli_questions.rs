//! Questions of the model in `drydock chat` and `ask`: a menu at a terminal, an event and a line for scripts, and nobody to ask in a
//! pipe.

use crate::support::screen::{ScreenProgram, key};
use crate::support::shell::{BlockingModel, Shell};
use crate::support::source::root;
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, ScriptedAnswer, calls, queue, says};
use serde_json::{Value, json};

const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");
const MENU: &str = "The model asks: How many replicas?\n  1. Three (default)\n  2. Five\n\
                    Type a number, or your own words; Enter takes the default. Ctrl-C stops the work.";

fn shell() -> Shell {
    Shell::with_repository(&[("a", "one\n")]).set(KEY.0, KEY.1)
}

/// Asks, and repeats the answer.
fn asks(asked: &ModelRequest) -> ScriptedAnswer {
    match asked.last_results() {
        [] => asks_now(),
        [.., last] => says(format!("Told: {}", last.content)),
    }
}

fn asks_now() -> ScriptedAnswer {
    let question = json!({
        "question": "How many replicas?", "choices": ["Three", "Five"], "default": "Three", "minutes": 5,
    });
    calls("ask_user", question)
}

fn url(model: &BlockingModel) -> String {
    format!("providers.anthropic.base_url={}", model.url())
}

#[test]
fn a_question_is_a_menu_that_takes_a_number_words_or_enter() {
    for (typed, told) in [
        ("2", "Told: The person chose: Five"),
        ("", "Told: The person chose: Three"),
        ("none at all", "Told: The person answered: none at all"),
    ] {
        let (shell, model) = (shell(), BlockingModel::start(asks));
        let program = ScreenProgram::start(&shell, &["chat", "--set", &url(&model)], 100, "xterm-256color");
        program.wait_for_prompt();
        program.enter("more replicas");
        program.wait_for(MENU);
        program.wait_for_prompt();
        program.enter(typed);
        program.wait_for(told);
        let screen = program.wait_for_prompt();
        assert!(!screen.contains("step 1 ·"), "{screen}");
        if typed == "2" {
            let document = std::fs::read_to_string(root().join("docs/terminal.md")).unwrap();
            let (_, shown) = screen.split_once("❯ more replicas").unwrap();
            let (shown, _) = shown.split_once("\nTold: ").unwrap();
            assert!(
                document.contains(&format!("```text\n❯ more replicas{shown}\n```")),
                "{shown}"
            );
        }
        program.press(key::CTRL_D);
        assert_eq!(program.end().code, Some(0));
    }
}

#[test]
fn ctrl_c_at_a_question_stops_the_turn() {
    let (shell, model) = (shell(), BlockingModel::start(asks));
    let program = ScreenProgram::start(&shell, &["chat", "--set", &url(&model)], 100, "xterm-256color");
    program.wait_for_prompt();
    program.enter("more replicas");
    program.wait_for(MENU);
    program.wait_for_prompt();
    program.press(key::CTRL_C);
    program.wait_for("Stopped at step 1.");
    program.wait_for_prompt();
    program.press(key::CTRL_D);
    assert_eq!(program.end().code, Some(0));
    assert_eq!(model.asked().len(), 1);
}

#[test]
fn a_question_is_an_event_for_scripts_and_the_next_line_answers_it() {
    for (arguments, input, by, told) in [
        (
            &["--json"][..],
            "more\n2\n",
            "choice",
            "Told: The person chose: Five",
        ),
        (
            &["--json"],
            "more\n",
            "default",
            "Told: Nobody answered in time; the default applies: Three",
        ),
        (
            &["--json", "--yes"],
            "more\n/usage\n",
            "choice",
            "Told: The person chose: Three",
        ),
    ] {
        let model = BlockingModel::start(asks);
        let url = url(&model);
        let arguments = [&["chat", "--set", &url], arguments].concat();
        let ended = shell().run_with_input(&arguments, input);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let events: Vec<Value> = ended
            .out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let event = |name: &str| events.iter().find(|event| event["event"] == name).unwrap();
        assert_eq!(
            *event("question"),
            json!({
                "event": "question",
                "question": "How many replicas?",
                "choices": ["Three", "Five"],
                "default": "Three",
                "seconds": 300,
            })
        );
        assert_eq!(event("question_closed")["by"], by, "{ended:?}");
        assert_eq!(event("turn_ended")["result"]["answer"], told, "{ended:?}");
    }
}

#[test]
fn in_a_pipe_and_in_ask_there_is_nobody_to_ask() {
    let offered = |model: &BlockingModel| {
        let asked = model.asked();
        asked[0].tools.iter().any(|tool| tool.name == "ask_user")
    };
    let model = BlockingModel::start(|_: &ModelRequest| says("Done."));
    let ended = shell().run_with_input(&["chat", "--set", &url(&model)], "more\n");
    assert_eq!((ended.code, offered(&model)), (Some(0), false), "{ended:?}");
    for arguments in [
        &["more"][..],
        &["--json", "--events", "more"],
        &["--shorthand", "debug"],
    ] {
        let model = BlockingModel::start(|_: &ModelRequest| says("Verdict: pass"));
        let url = url(&model);
        shell().run_with_input(&[&["ask", "--set", &url], arguments].concat(), "");
        assert!(!offered(&model), "{arguments:?}");
    }
}

/// A question of one request, and a line that steers it.
#[test]
fn one_request_at_a_terminal_asks_and_is_steered_as_well() {
    let shell = shell();
    let model = BlockingModel::start(|asked: &ModelRequest| match asked.last_results() {
        [] => calls("file_read", json!({ "path": "a" })).with_fault(AnswerFault::Held),
        [read] if read.content.contains("one") => asks_now(),
        [.., last] => says(format!("Told: {}", last.content)),
    });
    let arguments = ["ask", "--set", &url(&model), "more replicas"];
    let program = ScreenProgram::start(&shell, &arguments, 100, "xterm-256color");
    program.wait_for("step 1 ·");
    program.enter("and say who set them");
    program.wait_for("[message] and say who set them");
    model.release();
    program.wait_for(MENU);
    program.wait_for_prompt();
    program.enter("2");
    program.wait_for("Told: The person chose: Five");
    let ended = program.end();
    assert_eq!(ended.code, Some(0), "{}", ended.written);
    let asked = model.asked();
    assert_eq!(asked.len(), 3);
    let steered = "[Message while you worked:]\nand say who set them";
    assert_eq!(asked[1].messages.last().unwrap().text, steered);
}

/// Among uncommitted changes, one request is sent only after a confirmation.
#[test]
fn one_request_that_is_not_confirmed_among_uncommitted_changes_is_not_sent() {
    let shell = shell();
    shell.put("a", "mine\n");
    let model = BlockingModel::start(queue([says("Fine.")]));
    let url = url(&model);
    let start = |arguments: &[&str]| {
        let ask = [&["ask", "--set", &url], arguments].concat();
        ScreenProgram::start(&shell, &ask, 100, "xterm-256color")
    };
    let question = "1 file has uncommitted changes; edits are added to them. Continue? [y/N]";
    let program = start(&["more replicas"]);
    program.wait_for(question);
    program.enter("n");
    let ended = program.end();
    assert_eq!(ended.code, Some(1), "{}", ended.written);
    assert!(ended.written.contains("nothing was done"), "{}", ended.written);
    assert!(model.asked().is_empty());
    let program = start(&["more replicas"]);
    program.wait_for(question);
    program.enter("y");
    program.wait_for("Fine.");
    assert_eq!(program.end().code, Some(0));
    assert_eq!((model.asked().len(), shell.get("a").as_str()), (1, "mine\n"));
}

/// Lines that were entered or typed and reached no step are shown when the request ends, and one request opens no prompt.
#[test]
fn what_one_request_did_not_read_is_shown_when_it_ends() {
    let stopped = "Stopped at step 1.";
    for (ends, answer, code) in [
        ("an answer", says("Two.").with_fault(AnswerFault::Held), 0),
        ("Ctrl-C", says("never").with_fault(AnswerFault::Stall), 1),
    ] {
        let (shell, model) = (shell(), BlockingModel::start(queue([answer])));
        // A prompt would say that earlier requests cannot be recalled.
        std::fs::create_dir_all(shell.home().join(".local/state/drydock/requests")).unwrap();
        let arguments = ["ask", "--set", &url(&model), "how many?"];
        let program = ScreenProgram::start(&shell, &arguments, 100, "xterm-256color");
        program.wait_for("step 1 ·");
        model.wait_for_requests(1);
        program.enter("/diff");
        program.wait_for("[queued] /diff");
        program.press("and say w");
        program.wait_until("the typed line", |screen| {
            screen.trim_end().ends_with("\n❯ and say w")
        });
        match ends {
            "Ctrl-C" => program.press(key::CTRL_C),
            _ => model.release(),
        }
        let ended = program.end();
        assert_eq!(ended.code, Some(code), "{}", ended.written);
        for line in ["/diff", "and say w"] {
            let shown = format!("Not sent, because the request has ended: {line}");
            assert!(ended.written.contains(&shown), "{ends}: {}", ended.written);
        }
        assert_eq!(ended.written.contains(stopped), code == 1, "{}", ended.written);
        assert!(!ended.written.contains("cannot be recalled"), "{}", ended.written);
    }
}
