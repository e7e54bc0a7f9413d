//! `ask` and `chat` at a terminal: the prompt and the colours.

use crate::support::screen::{ScreenOutput, ScreenProgram};
use crate::support::shell::{BlockingModel, Shell};
use drydock::simulation::emulator::model::{calls, queue, says};
use serde_json::json;

const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");

const LONG: &str = "texts/of/many/lines.txt";

/// Runs the program on its own terminal, without typed input.
fn on_a_terminal(shell: &Shell, arguments: &[&str]) -> ScreenOutput {
    ScreenProgram::start(shell, arguments, 80, "xterm").end()
}

fn shell() -> Shell {
    Shell::with_repository(&[("a", "one\n")]).set(KEY.0, KEY.1)
}

fn url(model: &BlockingModel) -> String {
    format!("providers.anthropic.base_url={}", model.url())
}

/// TK-58
#[test]
fn chat_on_a_terminal_has_a_prompt() {
    let (shell, model) = (shell(), BlockingModel::start(queue([])));
    let program = ScreenProgram::start(&shell, &["chat", "--set", &url(&model)], 80, "xterm");
    let screen = program.wait_for_prompt();
    assert!(screen.contains("Say what should change, or /help."), "{screen}");
    program.enter("/usage");
    program.wait_for("❯ /usage\n0 tokens");
    program.wait_for_prompt();
    program.enter("/exit");
    assert_eq!(program.end().code, Some(0));
    let piped = shell.run_with_input(&["chat", "--set", &url(&model)], "/usage\n/exit\n");
    assert!(!piped.out.contains('❯') && !piped.err.contains('❯'), "{piped:?}");
}

/// TK-73
#[test]
fn calls_words_and_tool_answers_look_different_on_a_terminal() {
    let lines = || {
        queue([
            says("I look first.").with_call("file_read", json!({ "path": "a" })),
            says("One."),
        ])
    };
    let (shell, model) = (shell(), BlockingModel::start(lines()));
    let ask = ["ask", "-v", "--set", &url(&model), "how many?"];
    let ended = on_a_terminal(&shell, &ask);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for shown in [
        "\u{1b}[33mI look first.\u{1b}[0m",
        "\u{1b}[1;36m▶ file_read({\"path\":\"a\"})\u{1b}[0m",
        "\u{1b}[38;5;240m│\u{1b}[0m\u{1b}[2m [file_read answered] ",
    ] {
        assert!(ended.written.contains(shown), "no {shown:?} in {ended:?}");
    }
    let plain = BlockingModel::start(lines());
    let shell = shell.set("NO_COLOR", "1");
    let ended = on_a_terminal(&shell, &["ask", "-v", "--set", &url(&plain), "how many?"]);
    let style = regex::Regex::new("\u{1b}\\[[0-9;]+m").unwrap();
    assert!(!style.is_match(&ended.written), "{ended:?}");
    assert!(ended.written.contains("│ [file_read answered] "), "{ended:?}");
}

/// TK-69, TK-71: an answer of a tool is one line of 120 characters, or as many as the option says; a pipe gets none.
#[test]
fn an_answer_of_a_tool_is_one_line_of_the_length_that_the_option_sets() {
    let answers = || queue([calls("file_read", json!({ "path": LONG })), says("Long.")]);
    let long = (0..60).map(|line| format!("{line} ä\n")).collect::<String>();
    let shell = Shell::with_repository(&[(LONG, &long)]).set(KEY.0, KEY.1);
    let shown =
        regex::Regex::new("\u{1b}\\[2m\\[file_read answered\\] ([^\u{1b}\r\n]*)\u{1b}\\[0m\r\n").unwrap();
    let called =
        regex::Regex::new("\u{1b}\\[2m\\[tool: file_read\\] ([^\u{1b}\r\n]*)\u{1b}\\[0m\r\n").unwrap();
    let cut = |text: &str, chars_max: usize| match text.chars().count() > chars_max {
        true => text.chars().take(chars_max - 1).chain(['…']).collect::<String>(),
        false => text.to_owned(),
    };
    for (option, chars_max) in [(None, 120), (Some("20"), 20), (Some("200"), 200)] {
        let model = BlockingModel::start(answers());
        let url = url(&model);
        let mut ask = vec!["ask", "--set", &url, "how long?"];
        ask.extend(option.iter().flat_map(|chars| ["--tool-chars", *chars]));
        let ended = on_a_terminal(&shell, &ask);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let answer = model.asked()[1].last_results()[0].content.clone();
        let line = answer.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = shown
            .captures_iter(&ended.written)
            .map(|found| found[1].to_owned())
            .collect();
        assert_eq!(lines, [cut(&line, chars_max)], "{ended:?}");
        let arguments = called.captures(&ended.written).unwrap()[1].to_owned();
        assert_eq!(arguments, cut(&format!(r#"{{"path":"{LONG}"}}"#), chars_max));
    }
    let model = BlockingModel::start(answers());
    let piped = shell.run(&["ask", "--set", &url(&model), "--tool-chars", "20", "how long?"]);
    assert_eq!(piped.code, Some(0), "{piped:?}");
    assert!(!piped.err.contains("answered]"), "{piped:?}");
}

/// TK-74: the diffs of a change, and those a model shows.
#[test]
fn diffs_are_coloured_on_a_terminal() {
    let edit = json!({ "path": "a", "old": "one", "new": "two" });
    let shown = "diff --git a/b b/b\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-three\n+four";
    let model = BlockingModel::start(queue([calls("file_edit", edit), says(shown)]));
    let ended = on_a_terminal(&shell(), &["ask", "--set", &url(&model), "two"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for line in [
        "\u{1b}[1;34mdiff --git a/b b/b\u{1b}[0m",
        "\u{1b}[31m-three\u{1b}[0m",
        "\u{1b}[32m+four\u{1b}[0m",
        "\u{1b}[1;34mdiff --git a/a b/a\u{1b}[0m",
        "\u{1b}[31m-one\u{1b}[0m",
        "\u{1b}[32m+two\u{1b}[0m",
    ] {
        assert!(ended.written.contains(line), "no {line:?} in {ended:?}");
    }
}
