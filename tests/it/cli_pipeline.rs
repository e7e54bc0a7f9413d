//! `drydock pipeline`: problems with file, line and key, effective values with their sources, and the same file in YAML
//! and in Jsonnet.

use crate::support::shell::Shell;
use crate::support::source::root;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const CONFIG: &str = "[data]\ndirectory = \"./data\"\n\n[pipelines]\nrun_steps_max = 5\nreply_targets = [\"github-comment\"]\n";

fn document() -> String {
    std::fs::read_to_string(root().join("docs/pipelines.md")).unwrap()
}

/// Returns the example of the document.
fn example() -> String {
    let text = document();
    let (_, after) = text.split_once("```yaml\n").unwrap();
    after.split_once("```").unwrap().0.to_owned()
}

fn shell(file: &str, text: &str) -> Shell {
    Shell::with_repository(&[
        (file, text),
        ("lib/model.libsonnet", "{ model: 'anthropic/claude-sonnet-4-5' }"),
    ])
}

/// CI-8
#[test]
fn a_problem_of_a_pipeline_is_named_with_file_line_and_key() {
    let shell = shell(".drydock/pipelines.yaml", &example());
    let fine = shell.run(&["pipeline", "check"]);
    assert_eq!(
        (fine.code, fine.out.as_str()),
        (Some(0), ".drydock/pipelines.yaml: 1 pipeline, no problems\n")
    );
    let wrong = example()
        .replace("max_steps: 40", "max_stepss: 40")
        .replace("steps.review.output", "steps.reviw.output");
    shell.put(".drydock/pipelines.yaml", &wrong);
    let ended = shell.run(&["pipeline", "check"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(
        ended.out,
        ".drydock/pipelines.yaml:17:pipelines.review-pr.budget.max_stepss: unknown key; did you mean max_steps?\n"
    );
    shell.put(
        ".drydock/pipelines.yaml",
        &wrong.replace("max_stepss", "maxSteps"),
    );
    let ended = shell.run(&["pipeline", "check", "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let problem = json!({
        "line": 26, "key": "pipelines.review-pr.steps[1].reply.text",
        "message": "there is no earlier step reviw; did you mean review?",
    });
    assert_eq!(
        ended.json(),
        json!({ "ok": false, "file": ".drydock/pipelines.yaml", "problems": [problem] })
    );
    // Only the configuration of the server knows its hooks.
    shell.put(".drydock/pipelines.yaml", &example());
    shell.put("server.toml", CONFIG);
    let ended = shell.run(&["pipeline", "check", "--config", "server.toml"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(
        ended.out,
        ".drydock/pipelines.yaml:9:pipelines.review-pr.triggers[0].hook.name: the server has no such hook\n"
    );
}

/// CI-8
#[test]
fn a_check_with_a_configuration_names_what_its_server_does_not_run() {
    let file = "\
defaults: {model: anthropic/claude-sonnet-4-5}
pipelines:
  here:
    triggers: [{command_line: {}}]
    steps: [{name: lint, task: {command: [lint, dev]}}]
  there:
    triggers: [{command_line: {}}, {chat: {}}]
    steps:
      - {name: lint, task: {command: [lint, dev]}}
      - {name: look, agent: {prompt: review, image: 'example.com/a:1'}}
";
    let shell = shell(".drydock/pipelines.yaml", file);
    let alone = shell.run(&["pipeline", "check"]);
    assert_eq!(alone.code, Some(0), "{alone:?}");
    let check = |more: &str| {
        shell.put("server.toml", &format!("{CONFIG}{more}"));
        shell.run(&["pipeline", "check", "--config", "server.toml"])
    };
    let program = ".drydock/pipelines.yaml:9:pipelines.there.steps[0].task.command: the program lint is not permitted here; ask \
                   the operator to add it to [pipelines.programs]\n";
    let image = ".drydock/pipelines.yaml:10:pipelines.there.steps[1].agent.image: images are not used yet; remove the key\n";
    let refused = check("");
    assert_eq!(
        (refused.code, refused.out),
        (Some(1), format!("{program}{image}"))
    );
    let refused = check("programs.lint = \"/usr/local/bin/lint\"\n");
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), image));
    shell.put(
        ".drydock/pipelines.yaml",
        &file.replace(", image: 'example.com/a:1'", ""),
    );
    let fine = check("programs.lint = \"/usr/local/bin/lint\"\n");
    assert_eq!(
        (fine.code, fine.out.as_str()),
        (Some(0), ".drydock/pipelines.yaml: 2 pipelines, no problems\n")
    );
}

#[test]
fn a_slash_command_that_no_channel_lists_is_named_with_a_configuration() {
    let file = "pipelines:\n  p:\n    triggers:\n    - chat: {}\n    - slash_command: {command: /review}\n    steps: [{name: tell, reply: \
                {to: slack-response, text: done}}]\n";
    let shell = shell(".drydock/pipelines.yaml", file);
    let alone = shell.run(&["pipeline", "check"]);
    assert_eq!(alone.code, Some(0), "{alone:?}");
    let check = |channels: &str| {
        let config = CONFIG.replace("github-comment", "slack-response");
        shell.put("server.toml", &format!("{config}\n{channels}"));
        shell.run(&["pipeline", "check", "--config", "server.toml"])
    };
    let channel = |name: &str, commands: &str| {
        format!(
            "[channels.{name}]\nkind = \"slack\"\nbot_token = {{ env = \"TOKEN\" }}\nsigning_secret = {{ env = \"SECRET\" }}\n\
             slash_commands = [{commands}]\n"
        )
    };
    let problem = ".drydock/pipelines.yaml:5:pipelines.p.triggers[1].slash_command.command: no channel of the server lists /review in \
                   slash_commands, so it starts nothing; its operator adds it to channels.NAME.slash_commands";
    for (channels, hint) in [
        (String::new(), ""),
        (channel("team", ""), ""),
        (channel("team", "\"/reviews\""), "; did you mean /reviews?"),
    ] {
        let refused = check(&channels);
        assert_eq!(
            (refused.code, refused.out),
            (Some(1), format!("{problem}{hint}\n"))
        );
    }
    let both = channel("other", "\"/deploy\"") + &channel("team", "\"/review\"");
    let fine = check(&both);
    assert_eq!(fine.code, Some(0), "{fine:?}");
}

#[test]
fn a_slash_command_of_several_pipelines_is_named_and_a_hook_of_several_is_not() {
    let pipeline = |name: &str, triggers: &str| {
        let steps = "[{name: tell, reply: {to: slack-response, text: done}}]";
        format!("  {name}:\n    triggers:\n{triggers}    steps: {steps}\n")
    };
    let command = |command: &str| format!("    - slash_command: {{command: {command}}}\n");
    let hook = "    - hook: {name: ci}\n";
    let file = |other: &str| {
        let twice = command("/review") + &command("/review");
        let first = pipeline("first", &(twice + hook));
        let second = pipeline("second", &(hook.to_owned() + &command(other)));
        let third = pipeline("third", &command("/deploy"));
        format!("pipelines:\n{first}{second}{third}")
    };
    let shell = shell(".drydock/pipelines.yaml", &file("/look"));
    let fine = shell.run(&["pipeline", "check"]);
    assert_eq!(fine.code, Some(0), "{fine:?}");
    shell.put(".drydock/pipelines.yaml", &file("/review"));
    let refused = shell.run(&["pipeline", "check"]);
    let problem = ".drydock/pipelines.yaml:11:pipelines.second.triggers[1].slash_command.command: the pipeline first has /review as \
                   well, so it starts neither of them; give each pipeline a command of its own\n";
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), problem));
}

#[test]
fn a_question_that_no_run_waits_for_to_its_end_is_a_problem() {
    let file = |deadline: &str, budget: &str| {
        format!(
            "pipelines:\n  p:\n    triggers: [{{chat: {{}}}}]\n    budget: {{{budget}}}\n    steps:\n      - name: approve\n        \
             ask: {{to: {{group: editors}}, question: Go on?, choices: [a, b], default: b, deadline: {deadline}}}\n"
        )
    };
    let shell = shell(".drydock/pipelines.yaml", &file("1h", "max_steps: 3"));
    shell.put("server.toml", CONFIG);
    let check = || shell.run(&["pipeline", "check", "--config", "server.toml"]);
    let late = check();
    assert_eq!(late.code, Some(1), "{late:?}");
    assert_eq!(
        late.out,
        ".drydock/pipelines.yaml:7:pipelines.p.steps[0].ask.deadline: a run ends after 1h, so its deadline is never reached; give \
         it a shorter time, or the run a longer budget.timeout, up to pipelines.run_seconds_max of the server\n"
    );
    for (deadline, budget, code) in [
        ("59m", "max_steps: 3", 0),
        ("20m", "timeout: 20m", 1),
        ("19m", "timeout: 20m", 0),
    ] {
        shell.put(".drydock/pipelines.yaml", &file(deadline, budget));
        let ended = check();
        assert_eq!(ended.code, Some(code), "{deadline} {budget}: {ended:?}");
    }
}

/// CI-13
#[test]
fn an_effective_value_is_explained_with_its_level_and_line() {
    let text = example()
        .replace("name: ci", "name: release")
        .replace("      - hook:", "      - api: {}\n      - hook:");
    let text = text.replace(
        "events: [pull_request.opened, pull_request.synchronize]",
        "events: []",
    );
    let shell = shell(".drydock/pipelines.yaml", &text);
    shell.put("server.toml", CONFIG);
    let ended = shell.run(&["pipeline", "explain", "review-pr", "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let explained = ended.json();
    let value = |setting: &str| {
        let rows = explained["values"].as_array().unwrap();
        let row = rows.iter().find(|row| row["setting"] == setting).unwrap();
        (
            row["value"].as_str().unwrap().to_owned(),
            row["source"].as_str().unwrap().to_owned(),
        )
    };
    let expected = |value: &str, source: &str| (value.to_owned(), source.to_owned());
    assert_eq!(
        value("steps.review.model"),
        expected("anthropic/claude-sonnet-4-5", "file, .drydock/pipelines.yaml:2")
    );
    assert_eq!(value("steps.review.max_steps"), expected("20", "default"));
    assert_eq!(
        value("budget.max_steps"),
        expected("40", "pipeline, .drydock/pipelines.yaml:18")
    );
    assert_eq!(
        value("permissions.role"),
        expected("viewer", "pipeline, .drydock/pipelines.yaml:19")
    );
    assert_eq!(
        value("budget.max_cents"),
        expected("no bound", "server, pipelines.run_cents_max")
    );
    let missing = shell.run(&["pipeline", "explain", "review-rp"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert!(
        missing
            .err
            .contains("has no pipeline review-rp; did you mean review-pr?"),
        "{missing:?}"
    );
}

#[test]
fn a_file_in_jsonnet_means_the_same_as_in_yaml() {
    let yaml = shell(".drydock/pipelines.yaml", &example());
    let listed = yaml.run(&["pipeline", "list", "--json"]);
    let expected = json!([{
        "name": "review-pr", "description": "Reviews a pull request and comments on it.",
        "triggers": ["hook ci: pull_request.opened, pull_request.synchronize", "chat"], "params": ["number"],
        "steps": [{"name": "review", "kind": "agent"}, {"name": "answer", "kind": "reply"}],
    }]);
    assert_eq!(listed.json()["pipelines"], expected);
    let program = "{ defaults: import 'model.libsonnet', pipelines: { 'review-pr': {\n\
        description: 'Reviews a pull request and comments on it.',\n\
        triggers: [{ hook: { name: 'ci', events: ['pull_request.' + kind for kind in ['opened', 'synchronize']],\n\
                             params: { number: '/pull_request/number' } }, when: 'event.pull_request.draft == false' },\n\
                   { chat: {} }],\n\
        params: { number: { type: 'integer' } },\n\
        concurrency: { group: '${params.number}', onConflict: 'cancel' },\n\
        budget: { maxSteps: 40, maxTokens: 200000, timeout: '30m' },\n\
        permissions: { tools: ['file_read', 'file_search', 'git_diff'], role: 'viewer' },\n\
        steps: [{ name: 'review', agent: { prompt: 'review', params: { pull_request: '${params.number}' } } },\n\
                { name: 'answer', on: 'always', reply: { to: 'github-comment', text: '${steps.review.output}' } }] } } }\n";
    let jsonnet = shell(".drydock/pipelines.jsonnet", program);
    let same = jsonnet.run(&["pipeline", "list", "--json"]);
    assert_eq!(same.code, Some(0), "{same:?}");
    assert_eq!(same.json()["pipelines"], expected);
    let values = |shell: &Shell| {
        let explained = shell.run(&["pipeline", "explain", "review-pr", "--json"]).json();
        let rows = explained["values"].as_array().unwrap().clone();
        rows.into_iter()
            .map(|row| json!([row["setting"], row["value"]]))
            .collect::<Vec<Value>>()
    };
    assert_eq!(values(&jsonnet), values(&yaml));
    // A problem has no line there, and the key says where.
    jsonnet.put(
        ".drydock/pipelines.jsonnet",
        &program.replace("maxSteps: 40", "maxSteps: 40 + 1.5"),
    );
    let wrong = jsonnet.run(&["pipeline", "check"]);
    assert_eq!(
        wrong.out,
        ".drydock/pipelines.jsonnet:pipelines.review-pr.budget.max_steps: expected a whole number from 1 to 100000, found a number\n"
    );
    jsonnet.put(
        ".drydock/pipelines.jsonnet",
        "{ pipelines: import '/etc/passwd' }\n",
    );
    let outside = jsonnet.run(&["pipeline", "check"]);
    assert_eq!(outside.code, Some(1), "{outside:?}");
    assert!(
        outside
            .out
            .starts_with(".drydock/pipelines.jsonnet: cannot be evaluated: "),
        "{outside:?}"
    );
}

#[test]
fn the_schema_is_printed_and_a_repository_without_pipelines_is_told_what_to_write() {
    let shell = Shell::with_repository(&[("README.md", "")]);
    let schema = shell.run(&["pipeline", "schema"]).json();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["required"], json!(["pipelines"]));
    let none = shell.run(&["pipeline", "check"]);
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(
        none.err.contains(
            "this repository has no pipelines; write .drydock/pipelines.yaml or .drydock/pipelines.jsonnet"
        ),
        "{none:?}"
    );
}

#[test]
fn the_document_names_the_required_keys_of_each_kind_of_step() {
    let steps = ["agent", "task", "ask", "reply"].map(|kind| format!("{{name: {kind}, {kind}: {{}}}}"));
    let text = format!(
        "pipelines:\n  a:\n    triggers: [{{chat: {{}}}}]\n    steps: [{}]\n",
        steps.join(", ")
    );
    let checked = shell(".drydock/pipelines.yaml", &text).run(&["pipeline", "check", "--json"]);
    let checked = checked.json();
    let problems = checked["problems"].as_array().unwrap();
    let missing = problems
        .iter()
        .filter(|problem| problem["message"] == "is required");
    let keys = missing.map(|problem| problem["key"].as_str().unwrap());
    let required: BTreeSet<&str> = keys.map(|key| key.rsplit('.').next().unwrap()).collect();
    let document = document();
    let (_, after) = document.split_once("\nRequired are ").unwrap();
    let named = after.lines().next().unwrap().split('`').skip(1).step_by(2);
    assert_eq!(named.collect::<BTreeSet<&str>>(), required);
}
