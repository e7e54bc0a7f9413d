//! `drydock ask --review` and `--shorthand`: standard requests that read only and end with a verdict.

use crate::support::screen::ScreenProgram;
use crate::support::shell::{BlockingModel, ProgramOutput, Shell, commit_again};
use crate::support::source::root;
use drydock::simulation::emulator::model::{ScriptedAnswer, calls, queue, says};
use serde_json::json;

const MAIN: &str = "environments/dev/main.jsonnet";

fn shell() -> Shell {
    let files = [(MAIN, "{ replicas: 2 }\n"), ("README.md", "# infra\n")];
    Shell::with_repository(&files).set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
}

fn concludes(verdict: &str, summary: &str) -> ScriptedAnswer {
    calls("conclude", json!({ "verdict": verdict, "summary": summary }))
}

fn ask(shell: &Shell, model: &BlockingModel, arguments: &[&str]) -> ProgramOutput {
    let url = format!("providers.anthropic.base_url={}", model.url());
    shell.run(&[&["ask", "--set", &url], arguments].concat())
}

/// CI-2, CI-3, CI-6
#[test]
fn a_review_reads_the_change_and_ends_with_a_verdict_and_an_exit_code() {
    let shell = shell();
    shell.put(MAIN, "{ replicas: 40 }\n");
    let model = BlockingModel::start(queue([
        calls("file_edit", json!({ "path": MAIN, "old": "40", "new": "4" })),
        concludes("fail", "Forty replicas do not fit into dev."),
        concludes("pass", "It holds."),
    ]));
    let ended = ask(&shell, &model, &["--review"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let said = "Forty replicas do not fit into dev.\nVerdict: fail, concluded by the model\n";
    assert_eq!(ended.out, said, "{ended:?}");
    assert_eq!(shell.get(MAIN), "{ replicas: 40 }\n");
    let asked = model.asked();
    let request = asked[0].last_user_text();
    assert!(
        request.starts_with("Review the change. Do not change any file."),
        "{request}"
    );
    for part in [
        "<untrusted_data>",
        "the working directory against its commit",
        "-{ replicas: 2 }",
        "+{ replicas: 40 }",
    ] {
        assert!(request.contains(part), "{part}: {request}");
    }
    let tools: Vec<&str> = asked[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(
        tools.contains(&"conclude") && tools.contains(&"file_read") && !tools.contains(&"file_edit"),
        "{tools:?}"
    );
    assert!(asked[0].system.contains("The person has role viewer"));
    assert!(
        asked[1].last_results()[0]
            .content
            .starts_with("no tool `file_edit`")
    );
    let ended = ask(&shell, &model, &["--json", "--review"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let shown = ended.json();
    assert_eq!(
        (&shown["verdict"], &shown["source"]),
        (&json!("pass"), &json!("concluded"))
    );
    assert_eq!(shown["answer"], "It holds.");
}

/// CI-6: the last request forces the call by which the model concludes, in each wire format, and no other request does.
#[test]
fn the_last_step_of_a_review_has_to_conclude() {
    let shell = shell().set("HOUSE_API_KEY", "sk-house-0123456789");
    shell.put(MAIN, "{ replicas: 40 }\n");
    let reads = || calls("file_read", json!({ "path": MAIN }));
    for wire in [
        "anthropic-messages",
        "openai-chat",
        "openai-responses",
        "gemini-generate",
    ] {
        let model = BlockingModel::start(queue([
            reads(),
            concludes("fail", "Too many."),
            reads(),
            says("Done."),
        ]));
        let base = match wire {
            "gemini-generate" => format!("{}/v1beta", model.url()),
            _ => format!("{}/v1", model.url()),
        };
        let set = [
            format!("providers.house.wire={wire}"),
            format!("providers.house.base_url={base}"),
            "model.default=house/m".to_owned(),
            "limits.steps_max=2".to_owned(),
        ];
        let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set.as_str()]).collect();
        let ended = shell.run(&[&["ask"][..], &set, &["--json", "--review"]].concat());
        assert_eq!(ended.code, Some(1), "{wire}: {ended:?}");
        assert_eq!(ended.json()["source"], "concluded", "{wire}");
        // A request whose verdict Drydock computes may end with words.
        let ended = shell.run(&[&["ask"][..], &set, &["how many replicas?"]].concat());
        assert_eq!(ended.code, Some(0), "{wire}: {ended:?}");
        let asked = model.asked();
        let forced: Vec<Option<&str>> = asked
            .iter()
            .map(|asked| asked.tool_choice.forced_tool())
            .collect();
        assert_eq!(forced, [None, Some("conclude"), None, None], "{wire}");
    }
}

#[test]
fn a_review_is_of_a_range_or_of_a_patch_file() {
    let shell = shell();
    commit_again(&shell.work(), &[(MAIN, "{ replicas: 3 }\n")]);
    shell.put("../change.patch", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-one\n+two\n");
    let model = BlockingModel::start(queue([concludes("pass", "Fine."), concludes("pass", "Fine.")]));
    let ended = ask(&shell, &model, &["--review", "HEAD~1..HEAD", "is it safe?"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = ask(&shell, &model, &["--review", "../change.patch"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let unchecked =
        "Not checked: files and environments: a patch file is not applied, so only the model has read it";
    assert!(ended.err.contains(unchecked), "{ended:?}");
    let asked = model.asked();
    let range = asked[0].last_user_text();
    assert!(
        range.contains("+{ replicas: 3 }") && range.contains("\n\nis it safe?\n\n"),
        "{range}"
    );
    // The history of the workspace ends where the range begins.
    let commits = range
        .split_once("The commits, newest first:\\n")
        .expect("commits")
        .1;
    let (commits, _) = commits.split_once("\\n\\n").expect("a diff");
    assert!(!commits.contains("\\n") && commits.contains(": "), "{commits}");
    assert!(
        asked[1].last_user_text().contains("-one\\n+two"),
        "{}",
        asked[1].last_user_text()
    );
    for (arguments, why) in [
        (
            &["--review"][..],
            "there is nothing to review: the working directory against its commit has no changes",
        ),
        (&["--review", "HEAD..HEAD"], "there is nothing to review"),
        (
            &["--review", "nowhere.patch"],
            "--review nowhere.patch: it is neither a range nor a file",
        ),
        (
            &["--shorthand", "fix"],
            "the shorthands are debug, review, analyze",
        ),
    ] {
        let ended = ask(&shell, &model, arguments);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains(why), "{why}: {ended:?}");
    }
    assert_eq!(model.asked().len(), 2);
}

/// A broken file decides over the verdict of the model, which reads why and may change it.
///
/// CI-6, REP-2
#[test]
fn the_checks_of_a_reviewed_change_go_back_to_the_model_and_decide_over_its_verdict() {
    let shell = shell();
    shell.put("config/limits.json", "{ nope\n");
    let failing = "JSON parses: no, `config/limits.json`:1:3: key must be a string";
    let model = BlockingModel::start(queue([
        concludes("pass", "It holds."),
        concludes("fail", "limits.json does not parse."),
        concludes("pass", "It holds."),
        concludes("pass", "It still holds."),
        concludes("pass", "It really holds."),
        concludes("pass", "It holds whatever you say."),
    ]));
    let ended = ask(&shell, &model, &["--review"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let said = "limits.json does not parse.\nVerdict: fail, concluded by the model\n";
    assert_eq!(ended.out, said, "{ended:?}");
    let check = "Check failed: JSON parses: `config/limits.json`:1:3: key must be a string";
    assert!(ended.err.contains(check), "{ended:?}");
    let asked = model.asked();
    assert_eq!(asked.len(), 2);
    for part in [failing, "The verdict cannot be `pass` while a check fails."] {
        assert!(asked[1].raw.contains(part), "{part}: {}", asked[1].raw);
    }
    // A model that never changes its mind is asked so many times only.
    let ended = ask(&shell, &model, &["--json", "--review"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let shown = ended.json();
    assert_eq!(
        (&shown["verdict"], &shown["source"], &shown["answer"]),
        (
            &json!("fail"),
            &json!("verified"),
            &json!("It holds whatever you say.")
        )
    );
    let check = json!({
        "name": "JSON parses", "state": "fail", "detail": "`config/limits.json`:1:3: key must be a string",
    });
    assert!(shown["checks"].as_array().unwrap().contains(&check), "{shown}");
    assert_eq!(model.asked().len(), 6);
}

/// The document shows a review as people see it.
#[test]
fn a_review_at_a_terminal_is_the_one_of_the_document() {
    let shell = shell();
    shell.put("config/limits.json", "{ nope\n");
    let model = BlockingModel::start(queue([concludes("fail", "limits.json does not parse.")]));
    let url = format!("providers.anthropic.base_url={}", model.url());
    let arguments = ["ask", "--set", &url, "--review"];
    let program = ScreenProgram::start(&shell, &arguments, 100, "xterm-256color");
    let screen = program.wait_for("1 step, ");
    assert_eq!(program.end().code, Some(1));
    let document = std::fs::read_to_string(root().join("docs/terminal.md")).unwrap();
    let (_, shown) = document.split_once("```text\nlimits.json").unwrap();
    let (shown, _) = shown.split_once("\n```").unwrap();
    assert!(screen.contains(&format!("limits.json{shown}\n")), "{screen}");
}

#[test]
fn a_review_lists_the_checks_of_a_healthy_change() {
    let shell = shell();
    shell.put("config/limits.json", "{ \"cpu\": 2 }\n");
    let model = BlockingModel::start(queue([
        concludes("pass", "It holds."),
        concludes("pass", "It holds."),
    ]));
    let ended = ask(&shell, &model, &["--review"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let shown = "Checks passed: JSON parses, no conflict markers, no secrets in added lines";
    assert!(ended.err.contains(shown), "{ended:?}");
    let shown = ask(&shell, &model, &["--json", "--review"]).json();
    let check = json!({ "name": "JSON parses", "state": "pass", "detail": "" });
    assert!(shown["checks"].as_array().unwrap().contains(&check), "{shown}");
    assert_eq!((&shown["verdict"], &shown["files"]), (&json!("pass"), &json!([])));
}

/// The tools and the checks of a review of a branch read the files of the branch, while another one is checked out.
#[test]
fn a_review_of_another_branch_reads_and_checks_its_files() {
    let shell = shell();
    let branch = |name: &str| shell.work().join(".git/refs/heads").join(name);
    let parted = std::fs::read_to_string(branch("main")).unwrap();
    commit_again(
        &shell.work(),
        &[(MAIN, "{ replicas: 3 }\n"), ("limits.json", "{ nope\n")],
    );
    let feature = std::fs::read_to_string(branch("main")).unwrap();
    std::fs::write(branch("feature"), &feature).unwrap();
    std::fs::write(branch("main"), &parted).unwrap();
    shell.put(MAIN, "{ replicas: 2 }\n");
    std::fs::remove_file(shell.work().join("limits.json")).unwrap();
    let model = BlockingModel::start(queue([
        calls("file_read", json!({ "path": MAIN })),
        concludes("fail", "limits.json does not parse."),
        concludes("pass", "Back again."),
    ]));
    let ended = ask(&shell, &model, &["--review", "main..feature"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.err.contains("Check failed: JSON parses: `limits.json`:1:"),
        "{ended:?}"
    );
    let asked = model.asked();
    let range = format!("{}..{}", parted.trim(), feature.trim());
    let request = asked[0].last_user_text();
    assert!(
        request.contains(&range) && !request.contains("the tools"),
        "{request}"
    );
    let read = &asked[1].last_results()[0].content;
    assert!(
        read.contains("replicas: 3") && !read.contains("replicas: 2"),
        "{read}"
    );
    let ended = ask(&shell, &model, &["--review", "feature..main"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(shell.get(MAIN), "{ replicas: 2 }\n");
}

/// Three dots mean the changes since the two sides parted, as in git.
#[test]
fn a_range_with_three_dots_begins_where_the_two_sides_parted() {
    let shell = shell();
    let branch = |name: &str| shell.work().join(".git/refs/heads").join(name);
    let parted = std::fs::read_to_string(branch("main")).unwrap();
    commit_again(&shell.work(), &[(MAIN, "{ replicas: 3 }\n")]);
    std::fs::rename(branch("main"), branch("feature")).unwrap();
    std::fs::write(branch("main"), parted).unwrap();
    commit_again(&shell.work(), &[("README.md", "# moved on\n")]);
    let model = BlockingModel::start(queue([concludes("pass", "Fine."), concludes("pass", "Fine.")]));
    for range in ["main..feature", "main...feature"] {
        let ended = ask(&shell, &model, &["--review", range]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    let asked = model.asked();
    let reviewed = asked.iter().map(|asked| {
        let text = asked.last_user_text();
        (text.contains("+{ replicas: 3 }"), text.contains("-# moved on"))
    });
    assert_eq!(reviewed.collect::<Vec<_>>(), [(true, true), (true, false)]);
}

/// CI-2, CI-3, CI-7
#[test]
fn a_verdict_that_was_inferred_says_so() {
    let shell = shell();
    let model = BlockingModel::start(queue([
        says("No errors found."),
        says("The build of dev failed."),
    ]));
    let ended = ask(&shell, &model, &["--shorthand", "analyze", "is dev sound?"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let label = "inferred from the words of the model, which did not conclude";
    assert!(
        ended.out.contains(&format!("Verdict: pass, {label}")),
        "{ended:?}"
    );
    let ended = ask(&shell, &model, &["--json", "--shorthand", "debug"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let shown = ended.json();
    assert_eq!(
        (&shown["verdict"], &shown["source"]),
        (&json!("fail"), &json!("inferred"))
    );
    let asked = model.asked();
    assert!(asked[0].last_user_text().starts_with("Analyse the repository"));
    assert!(asked[0].last_user_text().ends_with("\n\nis dev sound?"));
    assert!(
        asked[1]
            .last_user_text()
            .starts_with("Find the cause of the failure.")
    );
}

#[test]
fn the_steps_of_a_review_end_with_its_conclusion() {
    let shell = shell();
    shell.put(MAIN, "{ replicas: 3 }\n");
    let model = BlockingModel::start(queue([concludes("pass", "Fine.")]));
    let ended = ask(&shell, &model, &["--review", "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let value = ended.json();
    let calls = json!([{ "name": "conclude", "is_error": false }]);
    assert_eq!(
        (&value["steps"], &value["trace"][0]["calls"]),
        (&json!(1), &calls),
        "{value}"
    );
}
