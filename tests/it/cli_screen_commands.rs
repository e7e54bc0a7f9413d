//! Tests of the screen of a session with commands, a question, a message during the turn and a model that fails, at several
//! widths.

use crate::support::screen::{ScreenProgram, key};
use crate::support::shell::{BlockingModel, Shell};
use drydock::simulation::emulator::model::{AnswerFault, ModelRequest, calls, queue, says};
use serde_json::json;

const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");
const MAIN: &str = "environments/dev/main.jsonnet";

/// Returns a model that is always overloaded.
fn overloaded() -> BlockingModel {
    BlockingModel::start(|_: &ModelRequest| {
        says("never").with_fault(AnswerFault::Status {
            status: 529,
            headers: vec![("retry-after".to_owned(), "1".to_owned())],
            body: String::new(),
        })
    })
}

/// Returns a model that asks the person, reads a file, and answers.
fn asking() -> BlockingModel {
    let question = json!({
        "question": "Which replica count should the deployment of web in the environment dev get for the next week?",
        "choices": ["Three, as in the environment prod", "Five, as before the last release"],
        "default": "Three, as in the environment prod", "minutes": 5,
    });
    BlockingModel::start(queue([
        calls("ask_user", question),
        calls("file_read", json!({ "path": MAIN })).with_fault(AnswerFault::Held),
        says("Five it is. I changed nothing yet, because you asked me to wait for the end of the freeze."),
    ]))
}

/// Returns the screen without the numbers of bytes and tokens, which follow the texts of all tools.
fn without_sizes(screen: &str) -> String {
    let sizes = regex::Regex::new(r"[0-9,]+ bytes, about [0-9,]+ tokens, [0-9]+ %").unwrap();
    sizes
        .replace_all(screen, "… bytes, about … tokens, … %")
        .into_owned()
}

/// TK-58, TK-63, TK-64: `/help`, a wait for a provider, the model that goes on, a question, a message during the turn,
/// `/context` and `/usage`.
#[test]
fn commands_questions_and_failures_are_readable_at_every_width() {
    for columns in [60, 80, 200] {
        let shell = Shell::with_repository(&[(MAIN, "{ replicas: 2 }\n")]).set(KEY.0, KEY.1);
        let (first, second) = (overloaded(), asking());
        let settings = [
            format!("providers.anthropic.base_url={}", first.url()),
            "providers.anthropic.attempts_max=2".to_owned(),
            "model.default=anthropic/claude-opus-4-6".to_owned(),
            "model.fallbacks=backup/second".to_owned(),
            "providers.backup.keyless=true".to_owned(),
            format!("providers.backup.base_url={}", second.url()),
        ];
        let options = settings.iter().flat_map(|setting| ["--set", setting.as_str()]);
        let arguments: Vec<&str> = ["chat"].into_iter().chain(options).collect();
        let program = ScreenProgram::start(&shell, &arguments, columns, "xterm-256color");
        program.wait_for_prompt();
        program.enter("/help");
        program.wait_for("queue: REQUEST");
        let help = program.wait_for_prompt();
        let (_, rows) = help.split_once("❯ /help\n").unwrap();
        let widest = rows.lines().map(|row| row.chars().count()).max().unwrap();
        assert!(widest <= usize::from(columns), "{help}");

        program.enter("how many replicas for the next week?");
        program.wait_for("Ctrl-C stops the work.");
        let asked = program.wait_for_prompt();
        let (_, asked) = asked.split_once("❯ how many").unwrap();
        program.enter("2");
        second.wait_for_requests(2);
        program.wait_for("step 2 ·");
        program.enter("wait for the end of the freeze, and tell me which files you would change");
        program.wait_for("the model reads it at its next step)");
        second.release();
        program.wait_for("`backup/second` answered instead.");
        let answered = program.wait_for_prompt();
        let (_, answered) = answered.split_once("Ctrl-C stops the work.\n").unwrap();

        program.enter("/context");
        program.wait_for("Room for");
        let context = program.wait_for_prompt();
        let (_, context) = context.split_once("❯ /context\n").unwrap();
        program.enter("/usage");
        program.wait_for("answered last");
        let usage = program.wait_for_prompt();
        let (_, usage) = usage.split_once("❯ /usage\n").unwrap();
        let shown = [
            "❯ /help\n",
            rows,
            " how many",
            asked,
            " (answer)\n",
            answered,
            " /context\n",
            &without_sizes(context),
            " /usage\n",
            usage,
        ];
        insta::assert_snapshot!(format!("commands_at_{columns}"), shown.concat());
        program.press(key::CTRL_D);
        let ended = program.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}
