//! The prompt of `drydock chat` on a real pseudo-terminal: editing, history, completion, several lines, stopping.

use crate::support::screen::{ScreenProgram, key};
use crate::support::shell::{BlockingModel, Shell};
use drydock::simulation::emulator::model::{AnswerFault, queue, says};
use std::os::unix::fs::PermissionsExt;

const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");

fn shell() -> Shell {
    Shell::with_repository(&[
        ("environments/dev/main.jsonnet", "{}\n"),
        ("environments/dev/spec.json", "{}\n"),
        ("lib/web.libsonnet", "{}\n"),
    ])
    .set(KEY.0, KEY.1)
}

fn chat(shell: &Shell, model: &BlockingModel, columns: u16) -> ScreenProgram {
    let url = format!("providers.anthropic.base_url={}", model.url());
    let started = ScreenProgram::start(shell, &["chat", "--set", &url], columns, "xterm-256color");
    started.wait_for_prompt();
    started
}

fn asked(model: &BlockingModel) -> Vec<String> {
    let asked = model.asked();
    asked
        .iter()
        .map(|asked| asked.last_user_text().to_owned())
        .collect()
}

/// TK-58, TK-59, TK-61: a typed line is corrected before it is sent, and Ctrl-D ends the session.
#[test]
fn a_line_is_edited_before_it_is_sent() {
    for columns in [60, 80, 200] {
        let (shell, model) = (shell(), BlockingModel::start(queue([says("Fine.")])));
        let program = chat(&shell, &model, columns);
        program.press("what is thix");
        program.wait_for("❯ what is thix");
        program.press(&format!("\u{7f}s{}say ", key::HOME));
        program.wait_for("❯ say what is this");
        program.press(key::ENTER);
        program.wait_for("Fine.");
        program.wait_for_prompt();
        program.press(key::CTRL_D);
        let ended = program.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(asked(&model), ["say what is this"]);
    }
}

/// TK-60: requests of an earlier session are recalled and searched. A secret is never stored.
#[test]
fn requests_of_an_earlier_session_are_recalled_and_searched() {
    let secret = "use the token ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let (shell, model) = (
        shell(),
        BlockingModel::start(queue(["1", "2", "3", "4", "5"].map(says))),
    );
    let program = chat(&shell, &model, 80);
    for (number, request) in ["count the pods", "list the libraries", secret]
        .iter()
        .enumerate()
    {
        program.enter(request);
        model.wait_for_requests(number + 1);
        program.wait_until("answer", |screen| {
            screen.contains(&format!("\n{}\n", number + 1)) && screen.trim_end().ends_with('❯')
        });
    }
    program.press(key::CTRL_D);
    assert_eq!(program.end().code, Some(0));
    let file = shell.home().join(".local/state/drydock/requests");
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "count the pods\nlist the libraries\n"
    );
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let program = chat(&shell, &model, 80);
    program.press(key::UP);
    program.wait_for("❯ list the libraries");
    program.press(key::CTRL_C);
    program.wait_for_prompt();
    program.press(key::CTRL_R);
    program.press("pods");
    program.wait_for("count the pods");
    program.press(&key::ENTER.repeat(2));
    program.wait_for_prompt();
    model.wait_for_requests(4);
    assert_eq!(asked(&model)[3], "count the pods");
    program.enter("/exit");
    assert_eq!(program.end().code, Some(0));
    let model_used = asked(&model).len();
    assert_eq!(model_used, 4);
    // The fifth answer is for a pipe, which neither reads nor writes the history.
    let url = format!("providers.anthropic.base_url={}", model.url());
    let piped = shell.run_with_input(&["chat", "--set", &url], "from a pipe\n");
    assert_eq!((piped.code, piped.out.as_str()), (Some(0), "5\n"));
    assert!(!std::fs::read_to_string(&file).unwrap().contains("pipe"));
}

/// TK-59: Alt-Enter, a trailing backslash and pasted text make a request of several lines.
#[test]
fn a_request_may_have_several_lines() {
    let (shell, model) = (shell(), BlockingModel::start(queue(["1", "2", "3"].map(says))));
    let program = chat(&shell, &model, 80);
    program.press(&format!("one{}two", key::ALT_ENTER));
    program.wait_for("❯ one\n  two");
    program.press(key::ENTER);
    model.wait_for_requests(1);
    program.wait_for_prompt();
    program.press(&format!("three\\{}", key::ENTER));
    program.wait_for("❯ three\\\n");
    program.enter("four");
    model.wait_for_requests(2);
    program.wait_for_prompt();
    program.press("\u{1b}[200~five\r\nsix\n\u{1b}[201~");
    program.wait_for("❯ five\n  six");
    program.press(key::ENTER);
    model.wait_for_requests(3);
    program.wait_for_prompt();
    program.press(key::CTRL_D);
    assert_eq!(program.end().code, Some(0));
    assert_eq!(asked(&model), ["one\ntwo", "three\nfour", "five\nsix"]);
}

/// TK-59: a backslash in a pasted text is a part of it, also where a line ends, and when the request is recalled.
#[test]
fn a_pasted_text_keeps_its_backslashes() {
    let (shell, model) = (shell(), BlockingModel::start(queue(["1", "2", "3"].map(says))));
    let command = "helm install web \\\n  --set replicas=2 \\\n  ./charts/web";
    let program = chat(&shell, &model, 80);
    program.press(&format!("explain\\{}\u{1b}[200~{command}\u{1b}[201~", key::ENTER));
    program.wait_for("./charts/web");
    program.press(key::ENTER);
    model.wait_for_requests(1);
    program.wait_for_prompt();
    // A pasted text that ends with a backslash is complete.
    program.press(&format!("\u{1b}[200~C:\\\u{1b}[201~{}", key::ENTER));
    model.wait_for_requests(2);
    program.wait_for_prompt();
    program.press(&key::UP.repeat(2));
    program.wait_for("./charts/web");
    program.press(key::ENTER);
    model.wait_for_requests(3);
    program.wait_for_prompt();
    program.press(key::CTRL_D);
    assert_eq!(program.end().code, Some(0));
    let explained = format!("explain\n{command}");
    assert_eq!(asked(&model), [explained.as_str(), "C:\\", explained.as_str()]);
}

/// TK-59
#[test]
fn commands_environments_and_paths_are_completed_at_the_prompt() {
    let (shell, model) = (shell(), BlockingModel::start(queue([])));
    let program = chat(&shell, &model, 80);
    program.press(&format!("/who{}", key::TAB));
    program.wait_for("❯ /who-imports");
    program.press(&format!("li{}", key::TAB));
    program.wait_for("❯ /who-imports lib/");
    program.press(key::TAB);
    program.wait_for("❯ /who-imports lib/web.libsonnet");
    program.press(key::CTRL_C);
    program.wait_for_prompt();
    program.press(&format!("/diff d{}", key::TAB));
    program.wait_for("❯ /diff environments/dev");
    program.press(key::CTRL_C);
    program.wait_for_prompt();
    program.press(&format!("/{}", key::TAB));
    let screen = program.wait_for("/usage");
    assert!(
        screen.contains("/clear") && screen.contains("/who-imports"),
        "{screen}"
    );
    program.press(key::CTRL_C);
    program.wait_for_prompt();
    program.press(key::CTRL_D);
    assert_eq!(program.end().code, Some(0));
}

/// TK-65: Ctrl-C clears what is typed; during a turn it stops the turn, and the session goes on.
#[test]
fn ctrl_c_clears_the_line_or_stops_the_turn() {
    let (shell, model) = (
        shell(),
        BlockingModel::start(queue([
            says("never").with_fault(AnswerFault::Stall),
            says("Still here."),
        ])),
    );
    let program = chat(&shell, &model, 80);
    program.press("not to be sent");
    program.wait_for("❯ not to be sent");
    program.press(key::CTRL_C);
    program.wait_for_prompt();
    program.enter("think long");
    model.wait_for_requests(1);
    let stopped = std::time::Instant::now();
    program.press(key::CTRL_C);
    program.wait_for("Stopped at step 1.");
    assert!(stopped.elapsed().as_secs() < 3, "{:?}", stopped.elapsed());
    program.wait_for_prompt();
    program.enter("are you there?");
    program.wait_for("Still here.");
    program.wait_for_prompt();
    program.press(key::CTRL_D);
    assert_eq!(program.end().code, Some(0));
    assert_eq!(asked(&model), ["think long", "are you there?"]);
}

/// A signal at the prompt ends the program with the terminal as it was.
#[test]
fn a_signal_at_the_prompt_restores_the_terminal() {
    let (shell, model) = (shell(), BlockingModel::start(queue([])));
    let program = chat(&shell, &model, 80);
    program.terminate();
    let screen = program.wait_for("the session was ended by a signal");
    assert!(program.has_echo(), "{screen}");
    assert_eq!(program.end().code, Some(1));
}

/// A terminal that can only print gets plain lines, and no escape sequence.
#[test]
fn a_dumb_terminal_gets_lines_without_escape_sequences() {
    let (shell, model) = (shell(), BlockingModel::start(queue([says("Fine.")])));
    let url = format!("providers.anthropic.base_url={}", model.url());
    let program = ScreenProgram::start(&shell, &["chat", "--set", &url], 80, "dumb");
    program.wait_for_prompt();
    program.press("how are you?\n");
    program.wait_for("Fine.");
    program.wait_for_prompt();
    program.press(key::CTRL_D);
    let ended = program.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.written.contains('\u{1b}'), "{ended:?}");
    assert!(!shell.home().join(".local").exists());
}
