//! `drydock run`: the steps of a pipeline at a terminal, their verdicts, results and traces, and what is refused before a
//! model is asked.

use crate::support::shell::{BlockingModel, ProgramOutput, Shell};
use drydock::simulation::emulator::model::{ScriptedAnswer, calls, queue, says};
use serde_json::{Value, json};

pub(crate) const FILE: &str = ".drydock/pipelines.yaml";
pub(crate) const MAIN: &str = "environments/dev/main.jsonnet";
/// A secret in a known format.
const SECRET: &str = "AKIAQ7RK2ZPX9VTN4WBY";

pub(crate) const SCALE: &str = "\
defaults:
  model: anthropic/claude-sonnet-4-5
pipelines:
  scale:
    triggers:
      - command_line: {}
    params:
      replicas: {type: integer}
    steps:
      - name: scan
        agent:
          prompt: Set the replicas of dev.
          params: {replicas: \"${params.replicas}\"}
      - name: check
        when: steps.scan.output.contains('Four')
        agent:
          prompt: Check what the first step did.
          permissions: {role: viewer}
          tools: [file_read, file_edit]
      - name: explain
        on: failure
        agent: {prompt: debug}
      - name: release
        ask:
          to: {person: alice}
          question: Tell the team?
          values: {result: \"${steps.check.output}\"}
          choices: [\"yes\", \"no\"]
          deadline: 10m
          default: \"no\"
";

pub(crate) fn shell(definition: &str) -> Shell {
    let files = [(MAIN, "{ replicas: 2 }\n"), (FILE, definition)];
    Shell::with_repository(&files).set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
}

pub(crate) fn concludes(verdict: &str, summary: &str) -> ScriptedAnswer {
    calls("conclude", json!({ "verdict": verdict, "summary": summary }))
}

pub(crate) fn edits(path: &str, old: &str, new: &str) -> ScriptedAnswer {
    calls("file_edit", json!({ "path": path, "old": old, "new": new }))
}

pub(crate) fn url(model: &BlockingModel) -> String {
    format!("providers.anthropic.base_url={}", model.url())
}

pub(crate) fn run(shell: &Shell, model: &BlockingModel, arguments: &[&str]) -> ProgramOutput {
    shell.run(&[&["run", "--set", &url(model)], arguments].concat())
}

pub(crate) fn statuses(report: &Value) -> Vec<&str> {
    let steps = report["steps"].as_array().unwrap().iter();
    steps.map(|step| step["status"].as_str().unwrap()).collect()
}

/// CI-1, CI-2, CI-5, CI-6, CI-8, CI-14, CI-15, CI-17, CI-22
#[test]
fn the_steps_of_a_run_have_their_own_limits_read_earlier_results_and_leave_a_report_and_traces() {
    let shell = shell(SCALE);
    let model = BlockingModel::start(queue([
        // A run goes on with the definition that it began with.
        edits(FILE, "Check what the first step did.", "Conclude with pass.")
            .with_call("file_edit", json!({ "path": MAIN, "old": "2", "new": "4" })),
        concludes("pass", &format!("Four replicas. The key is {SECRET}.")),
        calls("get_step_result", json!({ "name": "scan" }))
            .with_call("file_edit", json!({ "path": MAIN, "old": "4", "new": "40" })),
        concludes("pass", "It holds."),
    ]));
    let record = shell.home().join("record");
    let arguments = ["scale", "--param", "replicas=4", "--json", "--record"];
    let ended = run(
        &shell,
        &model,
        &[&arguments[..], &[record.to_str().unwrap()]].concat(),
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(shell.get(MAIN), "{ replicas: 4 }\n");

    let asked = model.asked();
    let first = asked[0].last_user_text();
    assert!(
        first.starts_with("Set the replicas of dev.\n\n<untrusted_data>"),
        "{first}"
    );
    assert!(
        first.contains(r#"{"label":"replicas","source":"pipeline:scale","text":"4"}"#),
        "{first}"
    );
    let tools = |index: usize| -> Vec<&str> {
        let tools = asked[index].tools.iter();
        tools.map(|tool| tool.name.as_str()).collect()
    };
    assert!(
        tools(0).contains(&"file_edit") && tools(0).contains(&"conclude"),
        "{:?}",
        tools(0)
    );
    assert!(!tools(0).contains(&"get_step_result") && !tools(0).contains(&"ask_user"));
    // The second step begins with an empty conversation and the rights of a viewer.
    assert_eq!(asked[2].messages.len(), 1);
    assert!(
        asked[2]
            .last_user_text()
            .starts_with("Check what the first step did.")
    );
    assert_eq!(
        tools(2),
        ["conclude", "file_read", "get_step_result", "read_output"]
    );
    assert!(asked[2].system.contains("The person has role viewer"));
    let [result, refused] = asked[3].last_results() else {
        panic!("{:?}", asked[3].last_results());
    };
    assert!(result.content.starts_with("Four replicas."), "{}", result.content);
    assert!(refused.is_error, "{}", refused.content);

    let report = ended.json();
    assert_eq!(
        statuses(&report),
        ["succeeded", "succeeded", "skipped", "succeeded"]
    );
    let scan = &report["steps"][0];
    assert_eq!(
        (&scan["verdict"], &scan["source"], &scan["kind"], &scan["model"]),
        (
            &json!("pass"),
            &json!("concluded"),
            &json!("agent"),
            &json!("anthropic/claude-sonnet-4-5")
        )
    );
    assert_eq!(scan["steps"].as_array().unwrap().len(), 2);
    assert!(scan["duration"].is_f64() && report["duration"].is_f64());
    assert_eq!(report["steps"][3]["text"], "no");
    let tokens: u64 = report["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["tokensUsed"].as_u64().unwrap())
        .sum();
    assert!(tokens > 0 && report["tokensUsed"] == tokens, "{report}");
    assert!(
        report["patch"].as_str().unwrap().contains("+{ replicas: 4 }"),
        "{report}"
    );
    assert!(
        !ended.out.contains(SECRET) && !ended.err.contains(SECRET),
        "{ended:?}"
    );

    let traces = record.join("runs").join(report["run"].as_str().unwrap());
    let read = |path: &str| std::fs::read_to_string(traces.join(path)).unwrap();
    for (step, status) in [
        ("scan", "succeeded"),
        ("check", "succeeded"),
        ("explain", "skipped"),
        ("release", "succeeded"),
    ] {
        assert_eq!(read(&format!("{step}/status")), status);
    }
    assert_eq!(read("check/result.txt"), "It holds.");
    let trace: Value = serde_json::from_str(&read("scan/trace.json")).unwrap();
    assert_eq!(trace["prompt"], first);
    let texts = |step: &Value| {
        let steps = step["steps"].as_array().unwrap().iter();
        steps.map(|step| step["text"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&trace), texts(scan));
    assert!(read("check/calls/1.stdout").starts_with("Four replicas."));
    assert_eq!(read("check/calls/2.stderr"), refused.content);
    for file in [
        "scan/trace.json",
        "scan/result.txt",
        "check/trace.json",
        "check/calls/1.stdout",
    ] {
        assert!(!read(file).contains(SECRET), "{file}");
    }
}

/// CI-3, CI-7
#[test]
fn a_failed_step_runs_those_for_a_failure_and_the_run_ends_with_a_table_and_exit_code_1() {
    let definition = "\
defaults: {model: anthropic/claude-sonnet-4-5}
pipelines:
  look:
    triggers: [{command_line: {}}]
    steps:
      - name: both
        parallel:
          - {name: one, agent: {prompt: Look at dev.}}
          - {name: two, agent: {prompt: Look at prod.}}
      - {name: release, agent: {prompt: Release it.}}
      - name: decide
        on: failure
        ask: {to: {person: alice}, question: Go on?, choices: [\"yes\", \"no\"], deadline: 10m}
      - {name: explain, on: failure, agent: {prompt: debug}}
";
    let shell = shell(definition);
    let model = BlockingModel::start(queue([
        says("The rendering failed."),
        concludes("pass", "Prod is fine."),
        concludes("pass", "A typing error."),
    ]));
    let ended = run(&shell, &model, &["look"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended
            .err
            .ends_with("the run failed: step one: its verdict is fail\n"),
        "{ended:?}"
    );
    let cells = |row: &str| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = ended.out.lines().map(cells).collect();
    let row = |name: &str| {
        rows.iter()
            .find(|row| row.first().is_some_and(|cell| cell == name))
            .unwrap()
    };
    assert_eq!(
        row("one").get(..4).unwrap(),
        ["one", "failed", "fail", "(inferred)"]
    );
    assert_eq!(
        row("two").get(..4).unwrap(),
        ["two", "succeeded", "pass", "(concluded)"]
    );
    assert_eq!(row("both").as_slice(), ["both", "failed"]);
    assert_eq!(row("release").as_slice(), ["release", "skipped"]);
    assert_eq!(row("decide").as_slice(), ["decide", "failed"]);
    assert_eq!(row("explain").get(1).unwrap(), "succeeded");
    assert!(ended.out.contains("The rendering failed.\n"), "{ended:?}");
    assert!(
        ended
            .err
            .contains("decide: failed, nobody can be asked here, and the question has no default")
    );
    // A standard request of a pipeline has its text, and no tool that edits.
    let last = &model.asked()[2];
    assert!(
        last.last_user_text().contains("Conclude with `"),
        "{}",
        last.last_user_text()
    );
    assert!(!last.tools.iter().any(|tool| tool.name == "file_edit"));
}

/// The checks of the whole run still fail. The next step is neither failed nor asked to repair anything.
#[test]
fn a_step_that_edits_nothing_does_not_answer_for_the_edits_of_earlier_steps() {
    let definition = "\
defaults: {model: anthropic/claude-sonnet-4-5}
pipelines:
  write:
    triggers: [{command_line: {}}]
    steps:
      - {name: limits, agent: {prompt: Write the limits.}}
      - {name: tell, on: always, agent: {prompt: Tell what happened.}}
";
    let shell = shell(definition);
    let model = BlockingModel::start(queue([
        calls(
            "file_write",
            json!({ "path": "limits.json", "content": "{ nope" }),
        ),
        concludes("fail", "It does not parse."),
        concludes("pass", "The limits do not parse."),
    ]));
    let ended = run(&shell, &model, &["write", "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let report = ended.json();
    assert_eq!(statuses(&report), ["failed", "succeeded"], "{ended:?}");
    assert_eq!(model.asked().len(), 3);
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.iter().any(|check| check["state"] == "fail"), "{report}");
}

/// STK-31
#[test]
fn a_run_in_the_readonly_profile_edits_nothing() {
    let definition = "\
defaults: {model: anthropic/claude-sonnet-4-5}
pipelines:
  scale:
    triggers: [{command_line: {}}]
    steps: [{name: scale, agent: {prompt: Set four replicas in dev.}}]
";
    let shell = shell(definition);
    let profiles = "[profiles.default]\nprovider = \"anthropic\"\nmodel = \"claude-sonnet-4-5\"\n\n[profiles.readonly]\n\
                    access = \"read\"\n";
    let directory = shell.home().join(".config/drydock");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("drydock.toml"), profiles).unwrap();
    let model = BlockingModel::start(queue([
        edits(MAIN, "2", "4"),
        concludes("fail", "I cannot edit here."),
        edits(MAIN, "2", "4"),
        concludes("pass", "Dev has four replicas."),
    ]));
    let ended = run(&shell, &model, &["scale", "--profile", "readonly"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(shell.get(MAIN), "{ replicas: 2 }\n");
    let asked = model.asked();
    assert!(
        asked[0].system.contains("The person has role viewer"),
        "{}",
        asked[0].system
    );
    assert!(!asked[0].tools.iter().any(|tool| tool.name == "file_edit"));
    let ended = run(&shell, &model, &["scale"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(shell.get(MAIN), "{ replicas: 4 }\n");
}

/// CI-8, CI-20, CI-21
#[test]
fn what_cannot_run_here_is_refused_with_its_line_before_a_model_is_asked() {
    let model = BlockingModel::start(queue([]));
    let refused = |definition: &str, arguments: &[&str], code: i32, why: &str| {
        let shell = shell(definition);
        let ended = run(&shell, &model, arguments);
        assert_eq!(ended.code, Some(code), "{why}: {ended:?}");
        assert!(ended.err.contains(why), "{why}: {ended:?}");
    };
    let scale = ["scale", "--param", "replicas=4"];
    let task = SCALE.replace("agent: {prompt: debug}", "task: {command: [make]}");
    let line =
        format!("{FILE}:22:pipelines.scale.steps[2].task.command: the program make is not permitted here");
    refused(&task, &scale, 78, &line);
    let elsewhere = SCALE.replace(
        "prompt: debug",
        "prompt: debug, base_url: https://other.example/v1",
    );
    let line =
        format!("{FILE}:22:pipelines.scale.steps[2].agent: the step would send its requests, and your key");
    refused(&elsewhere, &scale, 78, &line);
    let key = "the API key is missing; set OPENAI_API_KEY";
    let other = SCALE.replace("prompt: debug", "prompt: debug, model: openai/gpt-4o");
    let line =
        format!("{FILE}:22:pipelines.scale.steps[2].agent: command line: providers.openai.api_key: {key}");
    refused(&other, &scale, 78, &line);
    let first = SCALE.replace("anthropic/claude-sonnet-4-5", "openai/gpt-4o");
    let line =
        format!("{FILE}:11:pipelines.scale.steps[0].agent: command line: providers.openai.api_key: {key}");
    refused(&first, &scale, 78, &line);
    // Neither the provider of the person nor its key is used for a model of another one.
    let unknown = "agent: the provider house of the model house/large is not known; choose another model, or add \
                   [providers.house] to your own configuration";
    let profile = "[profiles.default]\nprovider = \"anthropic\"\nmodel = \"claude-sonnet-4-5\"\n";
    for (definition, line) in [
        (SCALE.replace("anthropic/claude-sonnet-4-5", "house/large"), 11),
        (
            SCALE.replace("prompt: debug", "prompt: debug, model: house/large"),
            22,
        ),
    ] {
        let shell = shell(&definition);
        shell.put("own.toml", profile);
        let ended = run(
            &shell,
            &model,
            &[&scale[..], &["--yes", "--config", "own.toml"]].concat(),
        );
        assert_eq!(ended.code, Some(78), "{ended:?}");
        assert!(
            ended.err.contains(&format!("{FILE}:{line}:")) && ended.err.contains(unknown),
            "{ended:?}"
        );
    }
    let unpriced = SCALE.replace("    params:\n", "    budget: {max_cents: 5}\n    params:\n");
    let unpriced = unpriced.replace("claude-sonnet-4-5", "of-no-known-price");
    refused(
        &unpriced,
        &scale,
        78,
        "the prices of anthropic/of-no-known-price are not known",
    );
    let chat = SCALE.replace("command_line", "chat");
    refused(
        &chat,
        &scale,
        2,
        "scale is not started from the command line; its triggers are chat",
    );
    let wrong = ["scale", "--param", "replicas=four", "--param", "size=1"];
    refused(
        SCALE,
        &wrong,
        2,
        "--param: replicas: is no integer; expected a whole number, such as 42\n--param: there is no parameter size",
    );
    refused(SCALE, &["scael"], 2, "has no pipeline scael; did you mean scale?");
    refused("pipelines: {}\nmore: 1\n", &scale, 78, "more: unknown key");
    assert_eq!(model.asked().len(), 0);
}
