//! `drydock ask`, as a person uses it: the real program, a real repository, an emulated model.

use crate::support::shell::{BlockingModel, Shell};
use crate::support::source::root;
use drydock::simulation::emulator::model::{AnswerFault, RequestRole, calls, queue, says};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub(crate) const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");
pub(crate) const MAIN: &str = "environments/dev/main.jsonnet";

pub(crate) fn shell() -> Shell {
    Shell::with_repository(&[(MAIN, "{ replicas: 2 }\n"), ("README.md", "# infra\n")])
}

pub(crate) fn edit() -> serde_json::Value {
    json!({ "path": MAIN, "old": "replicas: 2", "new": "replicas: 4" })
}

pub(crate) fn anthropic(model: &BlockingModel) -> String {
    format!("providers.anthropic.base_url={}", model.url())
}

/// TK-2, TK-67, TK-68, TK-70, STK-1, TK-13: from any directory inside the repository.
#[test]
fn a_request_edits_the_repository_around_you_and_shows_the_diff() {
    let model = BlockingModel::start(queue([
        says("I look first.").with_call("file_read", json!({ "path": MAIN })),
        calls("file_edit", edit()),
        says("Four replicas now."),
    ]));
    let shell = shell().set(KEY.0, KEY.1);
    let url = anthropic(&model);
    let mut command = shell.drydock(&["ask", "--set", &url, "four replicas", "in dev"]);
    command.current_dir(shell.work().join("environments/dev"));
    let ended = crate::support::shell::run_to_end(command);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(shell.get(MAIN), "{ replicas: 4 }\n");
    assert!(
        ended.out.starts_with("Four replicas now.\ndiff --git "),
        "{ended:?}"
    );
    assert!(
        ended.out.contains("\n-{ replicas: 2 }\n+{ replicas: 4 }\n"),
        "{ended:?}"
    );
    for shown in [
        "I look first.\n[tool: file_read] {\"path\":\"environments/dev/main.jsonnet\"}\n",
        "1 file, +1 −1; nothing was committed.",
        "3 steps, 3150 tokens, anthropic/claude-opus-4-6",
    ] {
        assert!(ended.err.contains(shown), "{shown}: {ended:?}");
    }
    let asked = model.asked();
    assert_eq!(asked[0].last_user_text(), "four replicas in dev");
    assert!(asked[0].system.contains("`work`") || asked[0].system.contains("work"));
    assert!(!ended.out.contains('\x1b') && !ended.err.contains('\x1b'));
}

/// TK-70: the words are shown for a streamed answer and for one in one piece.
#[test]
fn words_before_a_call_are_shown_of_an_answer_that_is_not_streamed() {
    let model = BlockingModel::start(queue([
        says("I look first.").with_call("file_read", json!({ "path": MAIN })),
        says("Two replicas."),
    ]));
    let shell = shell().set(KEY.0, KEY.1);
    let set = ["--set", &anthropic(&model), "--set", "model.stream=false"];
    let ended = shell.run(&[&["ask"], set.as_slice(), &["how many?"]].concat());
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "Two replicas.\n"),
        "{ended:?}"
    );
    let shown = "I look first.\n[tool: file_read] {\"path\":\"environments/dev/main.jsonnet\"}\n";
    assert!(ended.err.contains(shown), "{ended:?}");
    assert!(!ended.err.contains("Two replicas."), "{ended:?}");
}

/// TK-84: a streamed answer is read as it arrives, and is not printed before it is complete.
#[test]
fn an_answer_that_is_streamed_is_printed_whole_and_a_half_of_one_is_not() {
    let half = "The first half. ".repeat(400);
    let model = BlockingModel::start(queue([
        says(&half).with_fault(AnswerFault::EndAfter(half.len() / 2)),
        says("All of it."),
    ]));
    let shell = shell().set(KEY.0, KEY.1);
    let ended = shell.run(&["ask", "--set", &anthropic(&model), "how many?"]);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "All of it.\n"),
        "{ended:?}"
    );
    assert!(!ended.err.contains("first half"), "{ended:?}");
    let streamed: Vec<bool> = model
        .asked()
        .iter()
        .map(|asked| asked.raw.contains("\"stream\":true"))
        .collect();
    assert_eq!(streamed, [true, true]);
}

/// CI-14: text, status, tokens, steps and duration.
#[test]
fn a_result_for_scripts_has_its_steps_and_its_duration() {
    let model = BlockingModel::start(queue([
        says("I look first.")
            .with_call("file_read", json!({ "path": MAIN }))
            .with_call("file_read", json!({ "path": "nothing.jsonnet" })),
        says("Two replicas."),
    ]));
    let shell = shell().set(KEY.0, KEY.1);
    let ended = shell.run(&["ask", "--json", "--set", &anthropic(&model), "how many replicas?"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let value = ended.json();
    assert_eq!(
        (&value["answer"], &value["verdict"], &value["steps"]),
        (&json!("Two replicas."), &json!("no_change"), &json!(2))
    );
    let trace = value["trace"].as_array().unwrap();
    let of = |index: usize| (&trace[index]["text"], &trace[index]["calls"]);
    let calls = json!([
        { "name": "file_read", "is_error": false },
        { "name": "file_read", "is_error": true },
    ]);
    assert_eq!(of(0), (&json!("I look first."), &calls));
    assert_eq!(of(1), (&json!("Two replicas."), &json!([])));
    assert_eq!(trace.len(), 2);
    let tokens = |usage: &serde_json::Value| usage["output"].as_u64().unwrap();
    let of_steps: u64 = trace.iter().map(|step| tokens(&step["usage"])).sum();
    assert_eq!(tokens(&value["usage"]), of_steps);
    let seconds = value["seconds"].as_f64().unwrap();
    assert!(seconds > 0.0 && seconds < 60.0, "{seconds}");
}

/// TK-4
#[test]
fn outside_of_a_repository_there_is_a_clear_error() {
    let shell = Shell::new().set(KEY.0, KEY.1);
    let ended = shell.run(&["ask", "hello"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert!(
        ended
            .err
            .contains("is not inside a git repository; change to one, or create one with `git init`"),
        "{ended:?}"
    );
}

/// TK-7, TK-8, TK-9, TK-10, TK-11, TK-12: the repository, the file, the flags, the key, the model with its tools.
#[test]
fn a_session_begins_in_order_and_says_what_the_first_mistake_is() {
    let model = BlockingModel::start(queue([says("Here.")]));
    let shell = Shell::new();
    let file = shell.home().join(".config/drydock/drydock.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let model_of_file = "[model]\ndefault = \"openai/of-the-file\"\n";
    std::fs::write(&file, format!("{model_of_file}wrong = 1\n")).unwrap();
    let at = anthropic(&model);
    let chosen = ["--provider", "anthropic", "--model", "chosen"];
    let ask =
        |shell: &Shell, flags: &[&str]| shell.run(&[&["ask", "--set", &at], flags, &["hello"]].concat());
    let reported = |flags: &[&str], code: i32, why: &str| {
        let ended = ask(&shell, flags);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.err.contains(why), "{why}: {ended:?}");
    };
    reported(&chosen, 1, "is not inside a git repository");
    crate::support::shell::commit(&shell.work(), &[("README.md", "# infra\n")]);
    reported(&chosen, 78, "drydock.toml:3: model.wrong: unknown key");
    std::fs::write(&file, model_of_file).unwrap();
    reported(&[], 78, "set OPENAI_API_KEY or this key");
    reported(&chosen, 78, "set ANTHROPIC_API_KEY or this key");
    assert_eq!(model.asked().len(), 0);
    let shell = shell.set(KEY.0, KEY.1);
    let ended = ask(&shell, &chosen);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "Here.\n"),
        "{ended:?}"
    );
    let asked = model.asked();
    assert_eq!((asked.len(), asked[0].model.as_str()), (1, "chosen"));
    let offered: BTreeSet<String> = asked[0].tools.iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(offered, registered_tools());
    assert_eq!(asked[0].messages.len(), 1, "the session is empty");
}

/// Returns the names of the tools that every request may use, without helm. A test of the tools compares their snapshots
/// with what is registered.
fn registered_tools() -> BTreeSet<String> {
    let some_turns_only = ["conclude", "get_step_result", "keep_note", "send_user_message"];
    let snapshots = std::fs::read_dir(root().join("src/interfaces/tool/snapshots")).unwrap();
    let names = snapshots.map(|file| {
        let file = file.unwrap().file_name().into_string().unwrap();
        let (_, name) = file.rsplit_once("__").unwrap();
        name.trim_end_matches(".snap").to_owned()
    });
    let names = names.filter(|name| !name.starts_with("helm_") && !some_turns_only.contains(&name.as_str()));
    names.collect()
}

#[test]
fn wrong_usage_exits_with_code_2() {
    let shell = shell().set(KEY.0, KEY.1);
    for (arguments, why) in [
        (vec!["ask"], "required"),
        (vec!["ask", "  "], "say what should change"),
        (vec!["ask", "--provider", "ollama", "x"], "add --model NAME"),
        (vec!["ask", "--set", "limits", "x"], "write KEY=VALUE"),
        (vec!["ask", "--modle", "a/b", "x"], "--model"),
    ] {
        let ended = shell.run(&arguments);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains(why), "{ended:?}");
    }
}

/// TK-65
#[test]
fn ctrl_c_stops_within_a_second_and_keeps_the_edits() {
    let model = BlockingModel::start(queue([
        calls("file_edit", edit()),
        says("never").with_fault(AnswerFault::Stall),
    ]));
    let shell = shell().set(KEY.0, KEY.1);
    let running = shell.start(&["ask", "--set", &anthropic(&model), "four replicas"]);
    model.wait_for_requests(2);
    let stopped = Instant::now();
    running.interrupt();
    let ended = running.end();
    assert!(
        stopped.elapsed() < Duration::from_secs(3),
        "{:?}",
        stopped.elapsed()
    );
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("Stopped at step 2."), "{ended:?}");
    assert!(ended.out.contains("+{ replicas: 4 }"), "{ended:?}");
    assert_eq!(shell.get(MAIN), "{ replicas: 4 }\n");
}

/// TK-21
#[test]
fn verbose_shows_what_tools_answer() {
    let read = || calls("file_read", json!({ "path": MAIN }));
    let model = BlockingModel::start(queue([read(), says("Two."), read(), says("Two.")]));
    let shell = shell().set(KEY.0, KEY.1);
    let url = anthropic(&model);
    let plain = shell.run(&["ask", "--set", &url, "how many?"]);
    assert!(!plain.err.contains("replicas"), "{plain:?}");
    let verbose = shell.run(&["ask", "-v", "--set", &url, "how many?"]);
    assert!(verbose.err.contains("▶ file_read({\"path\""), "{verbose:?}");
    assert!(verbose.err.contains("│ [file_read answered]"), "{verbose:?}");
    assert!(verbose.err.contains("{ replicas: 2 }"), "{verbose:?}");
    assert_eq!(
        (plain.out, verbose.out),
        ("Two.\n".to_owned(), "Two.\n".to_owned())
    );
}

/// TK-79: our own checks decide, not the model's claim.
#[test]
fn a_broken_file_is_reported_whatever_the_model_says() {
    let broken = json!({ "path": "a.json", "content": "{ nope" });
    let model = BlockingModel::start(queue([
        calls("file_write", broken),
        says("All is well."),
        says("All is well, I say."),
    ]));
    let shell = shell().set(KEY.0, KEY.1);
    let ended = shell.run(&["ask", "--set", &anthropic(&model), "write a.json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.err.contains("Check failed: JSON parses: `a.json`:1:3"),
        "{ended:?}"
    );
}

/// TK-79: the error goes back to the model first. If that does not help, the person gets a report of the actual state.
#[test]
fn a_file_that_does_not_parse_goes_back_to_the_model() {
    let write = |text: &str| json!({ "path": "lib/a.libsonnet", "content": text });
    let model = BlockingModel::start(queue([
        calls("file_write", write("{ a: 192Mi }\n")),
        says("All is well."),
        calls("file_write", write("{ a: '192Mi' }\n")),
        says("Mended."),
    ]));
    let shell = shell().set(KEY.0, KEY.1);
    let ended = shell.run(&["ask", "--set", &anthropic(&model), "write a library"]);
    assert_eq!(
        (ended.code, ended.out.contains("Mended.")),
        (Some(0), true),
        "{ended:?}"
    );
    assert!(!ended.out.contains("All is well."), "{ended:?}");
    let remark = model.asked()[2].messages.last().unwrap().text.clone();
    let fails = "- every changed Jsonnet file parses: no, `lib/a.libsonnet`:1:";
    assert!(remark.contains(fails), "{remark}");
    assert!(
        ended
            .err
            .contains("[checks] every changed Jsonnet file parses: no"),
        "{ended:?}"
    );
}

/// T42: a work tree with husky, git-lfs, custom filters, custom line endings and a file system monitor: Drydock works,
/// a change is shown byte for byte, and no hook or filter runs.
#[test]
fn hooks_and_filters_of_ones_own_repository_do_not_run() {
    use std::os::unix::fs::PermissionsExt;
    let model = BlockingModel::start(queue([
        calls("git_log", json!({})).with_call("git_status", json!({})),
        calls("file_edit", edit()),
        calls("git_diff", json!({})).with_call("git_show", json!({ "ref": "HEAD" })),
        says("Done."),
    ]));
    let shell = shell().set(KEY.0, KEY.1);
    let (program, ran) = (shell.home().join("program"), shell.home().join("ran"));
    std::fs::write(&program, format!("#!/bin/sh\ntouch '{}'\ncat\n", ran.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let name = program.display();
    let config = format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\thooksPath = .husky\n\tfsmonitor = {name}\n\
         [filter \"lfs\"]\n\tclean = {name}\n\tsmudge = {name}\n\tprocess = {name}\n\trequired = true\n\
         [diff]\n\texternal = {name}\n[diff \"lfs\"]\n\ttextconv = {name}\n\
         [filter \"own\"]\n\tclean = {name}\n\tsmudge = {name}\n\trequired = true\n"
    );
    std::fs::write(shell.work().join(".git/config"), config).unwrap();
    let attributes = "* filter=lfs diff=lfs\n*.jsonnet filter=own text eol=crlf\n";
    shell.put(".gitattributes", attributes);
    shell.put(
        ".husky/pre-commit",
        &format!("#!/bin/sh\ntouch '{}'\n", ran.display()),
    );
    let ended = shell.run(&["ask", "--set", &anthropic(&model), "four replicas"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(shell.get(MAIN), "{ replicas: 4 }\n");
    assert!(!ran.exists());
    let last = model.asked().pop().unwrap();
    let results = last
        .messages
        .iter()
        .filter(|message| message.role == RequestRole::User);
    let failed: Vec<_> = results
        .flat_map(|message| &message.results)
        .filter(|result| result.is_error)
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
    let asked = model.asked();
    let diff = &asked[3].last_results()[0].content;
    assert!(diff.contains("-{ replicas: 2 }\n+{ replicas: 4 }\n"), "{diff}");
}

/// T92
#[test]
fn the_model_is_told_in_time_that_the_budget_of_the_request_is_nearly_used() {
    let model = BlockingModel::start(queue([
        calls("file_read", json!({ "path": MAIN })),
        calls("file_read", json!({ "path": "README.md" })),
        says("Two replicas."),
    ]));
    let shell = shell().set(KEY.0, KEY.1);
    let set = [
        "ask",
        "--set",
        &anthropic(&model),
        "--set",
        "budgets.turn_cents_max=60",
    ];
    let ended = shell.run(&[set.as_slice(), &["how many?"]].concat());
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "Two replicas.\n"),
        "{ended:?}"
    );
    let asked = model.asked();
    let told = "[Drydock: Of the budget of one request, $0 of $0.6000 and 0 of 500,000 tokens are used.";
    let said = &asked[1].last_results()[0].content;
    assert!(said.contains(told), "{said}");
    assert_eq!(asked[2].raw.matches("Of the budget of one request").count(), 1);
}

/// T92
#[test]
fn a_request_that_nobody_watches_ends_at_its_own_budget() {
    let model = BlockingModel::start(queue([
        calls("file_read", json!({ "path": MAIN })),
        says("Two replicas."),
    ]));
    let shell = shell().set(KEY.0, KEY.1);
    let set = ["ask", "--set", &anthropic(&model), "how many?"];
    let bounded = |tokens: &str| {
        let bound = format!("budgets.unattended_turn_tokens_max={tokens}");
        shell.run(&[set.as_slice(), &["--set", &bound]].concat())
    };
    let ended = bounded("1000");
    assert_eq!((ended.code, model.asked().len()), (Some(1), 0), "{ended:?}");
    let why = "the budget of one request is 1,000 tokens; 0 of them are used";
    assert!(format!("{}{}", ended.out, ended.err).contains(why), "{ended:?}");
    // The words of Drydock are no step of the model.
    let value = shell.run(
        &[
            set.as_slice(),
            &["--json", "--set", "budgets.unattended_turn_tokens_max=1000"],
        ]
        .concat(),
    );
    let value = value.json();
    assert_eq!(
        (&value["steps"], &value["trace"]),
        (&json!(0), &json!([])),
        "{value}"
    );
    let ended = bounded("0");
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "Two replicas.\n"),
        "{ended:?}"
    );
}
