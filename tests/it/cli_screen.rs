//! Tests of the screen of a real pseudo-terminal while a turn runs, and after it.

use crate::support::screen::{ScreenProgram, key};
use crate::support::shell::{BlockingModel, Shell};
use crate::support::source::root;
use drydock::simulation::emulator::model::{AnswerFault, calls, queue, says};
use serde_json::json;

const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");
const MAIN: &str = "environments/dev/main.jsonnet";
const ANSWER: &str = "\
## Done

Web has **four** replicas in `environments/dev` now. I left the memory as it was, because nothing in the request asks for another value.

| environment | replicas |
|---|---|
| dev | 4 |

1. Apply it yourself.
2. Watch the pods.

```sh
tk diff environments/dev
```
";

fn shell() -> Shell {
    let main = "{ web: { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'web' }, spec: { replicas: 2 } } }\n";
    Shell::with_repository(&[(MAIN, main), ("environments/dev/spec.json", "{}\n")]).set(KEY.0, KEY.1)
}

fn chat(shell: &Shell, model: &BlockingModel, columns: u16) -> ScreenProgram {
    let url = format!("providers.anthropic.base_url={}", model.url());
    let started = ScreenProgram::start(shell, &["chat", "--set", &url], columns, "xterm-256color");
    started.wait_for_prompt();
    started
}

fn turn() -> BlockingModel {
    BlockingModel::start(queue([
        says("I look at the file first.").with_call("file_read", json!({ "path": MAIN })),
        calls(
            "file_edit",
            json!({ "path": MAIN, "old": "replicas: 2", "new": "replicas: 4" }),
        )
        .with_call("file_read", json!({ "path": "nothing.jsonnet" })),
        says(ANSWER),
    ]))
}

/// Returns the rows of a screen without the empty prompt at the end, and without the time and the sign of the status row.
fn as_in_documents(screen: &str) -> String {
    let rows = screen.trim_end().trim_end_matches('❯').trim_end();
    let status = regex::Regex::new(r"(?m)^. step ([0-9]+) · [0-9]+ s ·").unwrap();
    status.replace_all(rows, "⠙ step $1 · 1 s ·").into_owned()
}

/// Checks that a document has a block with these rows.
fn assert_is_in(document: &str, rows: &str) {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    assert!(
        text.contains(&format!("```text\n{rows}\n```")),
        "{document}:\n{rows}"
    );
}

/// TK-66, TK-68, TK-69, TK-70: a session as the README shows it, while the model works, after the answer, and with its diff.
#[test]
fn the_readme_shows_a_session_as_it_is_on_the_screen() {
    let main = "{\n  web: {\n    apiVersion: 'apps/v1',\n    kind: 'Deployment',\n    metadata: { name: 'web' },\n    \
                spec: { replicas: 2 },\n  },\n}\n";
    let shell = Shell::with_repository(&[(MAIN, main), ("environments/dev/spec.json", "{}\n")]);
    let shell = shell.set(KEY.0, KEY.1);
    let edit = json!({ "path": MAIN, "old": "replicas: 2", "new": "replicas: 4" });
    let model = BlockingModel::start(queue([
        says("I look at the file first.").with_call("file_read", json!({ "path": MAIN })),
        calls("file_edit", edit).with_fault(AnswerFault::Held),
        says("Web has **four** replicas in `environments/dev` now; it had two."),
    ]));
    let program = chat(&shell, &model, 80);
    program.enter("four replicas");
    let status = regex::Regex::new(r"\n. step 2 · [0-9]+ s · 1050 tokens · .* · Ctrl-C stops$").unwrap();
    let working = program.wait_until("status row", |screen| status.is_match(screen.trim_end()));
    model.release();
    program.wait_for("so far; /diff shows it");
    program.wait_for_prompt();
    program.enter("/diff");
    program.wait_for("+    spec: { replicas: 4 },");
    let screen = program.wait_for_prompt();
    program.press(key::CTRL_D);
    let ended = program.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    // The added line is green.
    assert!(
        ended.written.contains("m+    spec: { replicas: 4 },"),
        "{ended:?}"
    );
    assert_is_in("README.md", as_in_documents(&working).trim_start_matches('\n'));
    let (_, after) = screen.split_once("[tool: file_edit]").unwrap();
    assert_is_in(
        "README.md",
        &as_in_documents(&format!("[tool: file_edit]{after}")),
    );
}

/// TK-66, TK-68, TK-69, TK-70, TK-72: the whole screen of a turn, at three widths, without colours and in an old terminal.
#[test]
fn a_turn_is_readable_at_every_width_with_and_without_colours() {
    let mut plain = Vec::new();
    for (columns, term, no_color) in [
        (60, "xterm-256color", ""),
        (80, "xterm-256color", ""),
        (200, "xterm-256color", ""),
        (80, "vt100", "1"),
    ] {
        let (shell, model) = (shell().set("NO_COLOR", no_color), turn());
        let url = format!("providers.anthropic.base_url={}", model.url());
        let program = ScreenProgram::start(&shell, &["chat", "--set", &url], columns, term);
        program.wait_for_prompt();
        program.enter("four replicas");
        program.wait_for("so far; /diff shows it");
        let screen = program.wait_for_prompt();
        if (columns, term) == (80, "xterm-256color") {
            let (_, shown) = screen.split_once("committed.\n").unwrap();
            assert_is_in("docs/terminal.md", &as_in_documents(shown));
        }
        match no_color {
            "" => insta::assert_snapshot!(format!("screen_at_{columns}"), screen),
            _ => plain.push(screen),
        }
        program.press(key::CTRL_D);
        let ended = program.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(
            ended.written.contains("\u{1b}[38;2;250;202;16m"),
            no_color.is_empty(),
            "{ended:?}"
        );
    }
    let coloured =
        std::fs::read_to_string(root().join("tests/it/snapshots/it__cli_screen__screen_at_80.snap"));
    let coloured = coloured.unwrap();
    assert!(coloured.trim_end().ends_with(plain[0].trim()), "{}", plain[0]);
}

/// TK-68, TK-69, TK-70, TK-72: the screen of the same turn on a terminal that can only print, and on an old one.
#[test]
fn a_turn_is_readable_on_a_terminal_that_can_only_print_and_on_an_old_one() {
    for term in ["dumb", "vt100"] {
        let (shell, model) = (shell(), turn());
        let url = format!("providers.anthropic.base_url={}", model.url());
        let program = ScreenProgram::start(&shell, &["chat", "--set", &url], 80, term);
        program.wait_for_prompt();
        program.press("four replicas\n");
        program.wait_for("so far; /diff shows it");
        let screen = program.wait_for_prompt();
        insta::assert_snapshot!(format!("screen_of_{term}"), screen);
        program.press(key::CTRL_D);
        let ended = program.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(ended.written.contains('\u{1b}'), term == "vt100", "{ended:?}");
    }
}

/// TK-67, TK-68, TK-69, TK-72: one request on a narrow terminal, with its diff.
#[test]
fn one_request_is_readable_on_a_narrow_terminal() {
    let (shell, model) = (shell(), turn());
    let url = format!("providers.anthropic.base_url={}", model.url());
    let program = ScreenProgram::start(
        &shell,
        &["ask", "--set", &url, "four replicas"],
        60,
        "xterm-256color",
    );
    let screen = program.wait_until("diff", |screen| {
        let added = screen.split_once("+{ web:");
        added.is_some_and(|(_, added)| added.contains("replicas: 4 } } }"))
    });
    insta::assert_snapshot!("screen_of_one_request", screen);
    assert_eq!(program.end().code, Some(0));
}

/// TK-84: words are shown while the model still writes, and a status row says what happens.
#[test]
fn words_are_on_the_screen_before_the_answer_is_complete() {
    let text = format!("The first words. {}", "More words follow. ".repeat(40));
    let stalled = says(text).with_fault(AnswerFault::StallAfter(3_000));
    let (shell, model) = (shell(), BlockingModel::start(queue([stalled])));
    let program = chat(&shell, &model, 80);
    program.enter("tell me");
    program.wait_for("The first words. More words follow.");
    let status = regex::Regex::new(r"\n. step 1 · [0-9]+ s · Ctrl-C stops$").unwrap();
    program.wait_until("status row", |screen| status.is_match(screen.trim_end()));
    program.press(key::CTRL_C);
    program.wait_for("Stopped at step 1.");
    let screen = program.wait_for_prompt();
    assert!(!screen.contains("step 1 ·"), "{screen}");
    program.press(key::CTRL_D);
    assert_eq!(program.end().code, Some(0));
}

/// An answer that breaks off is removed; if it was too long for that, a line says that it does not count.
#[test]
fn an_answer_that_breaks_off_is_not_shown_as_the_answer() {
    let broken = AnswerFault::ErrorEvent("overloaded_error".to_owned());
    for count in [2, 4_000] {
        let first = says("Wrong words.\n\n".repeat(count)).with_fault(broken.clone());
        let (shell, model) = (shell(), BlockingModel::start(queue([first, says("Right.")])));
        let program = chat(&shell, &model, 80);
        program.enter("tell me");
        program.wait_for("retrying in");
        program.wait_for("\nRight.\n");
        let screen = program.wait_for_prompt();
        let says_so = screen.contains("[the answer above broke off and does not count; it starts again]");
        assert_eq!(screen.contains("Wrong words."), says_so, "{screen}");
        assert!(count > 2 || !says_so, "{screen}");
        program.press(key::CTRL_D);
        assert_eq!(program.end().code, Some(0));
    }
}

/// A secret that arrives in pieces is never on the screen, not even its beginning.
#[test]
fn no_piece_of_a_secret_is_shown_while_it_arrives() {
    let text = format!(
        "The key is {} and nothing else. {}",
        KEY.1,
        "It goes on. ".repeat(30)
    );
    for bytes in [1_000, 1_100, 1_200, 1_300] {
        let stalled = says(text.clone()).with_fault(AnswerFault::StallAfter(bytes));
        let (shell, model) = (shell(), BlockingModel::start(queue([stalled])));
        let program = chat(&shell, &model, 80);
        program.enter("tell me");
        program.wait_for("The key is");
        program.press(key::CTRL_C);
        program.wait_for("Stopped at step 1.");
        program.wait_for_prompt();
        program.press(key::CTRL_D);
        let ended = program.end();
        assert!(!ended.written.contains("sk-"), "{bytes}: {ended:?}");
    }
}

/// Characters that are typed during a turn do not appear among its rows; they are at the next prompt.
#[test]
fn what_is_typed_during_a_turn_is_at_the_next_prompt() {
    let (shell, model) = (
        shell(),
        BlockingModel::start(queue([says("never").with_fault(AnswerFault::Stall)])),
    );
    let program = chat(&shell, &model, 80);
    program.enter("think long");
    model.wait_for_requests(1);
    program.wait_for("step 1 ·");
    program.press("next request");
    program.press(key::CTRL_C);
    program.wait_for("Stopped at step 1.");
    let screen = program.wait_for("❯ next request");
    assert_eq!(screen.matches("next request").count(), 1, "{screen}");
    program.press(key::CTRL_C);
    program.wait_for_prompt();
    program.press(key::CTRL_D);
    assert_eq!(program.end().code, Some(0));
}
