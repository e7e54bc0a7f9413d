//! The location of a failure in a program, with its line, a mark and the calls that led there, in each terminal command
//! that reports it.

use crate::support::shell::{BlockingModel, Shell};
use drydock::simulation::emulator::model::{ModelRequest, calls, says};
use serde_json::json;

/// A library whose function fails in its second line.
const BROKEN: &str =
    "{\n  cm(name):: $.nope + { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: name } },\n}\n";
const FINE: &str = "{\n  cm(name):: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: name } },\n}\n";

/// The line, the mark below its column, and the calls.
const PLACE: [&str; 4] = [
    "\n  2 |   cm(name):: $.nope + { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: name } },\n",
    "\n    |              ^\n",
    "\n  lib/k.libsonnet:2:14: ",
    "\n  environments/dev/main.jsonnet:2:6: function <anonymous>\n",
];

fn shell() -> Shell {
    let main = "local k = import 'k.libsonnet';\n{ a: k.cm('a') }\n";
    Shell::with_repository(&[
        ("jsonnetfile.json", "{}\n"),
        ("lib/k.libsonnet", FINE),
        ("environments/dev/main.jsonnet", main),
        ("environments/dev/spec.json", "{}\n"),
        ("environments/prod/main.jsonnet", main),
        ("environments/prod/spec.json", "{}\n"),
    ])
}

fn assert_placed(what: &str, reported: &str) {
    for shown in PLACE {
        assert!(
            reported.contains(shown),
            "{what}: {shown:?} is not in\n{reported}"
        );
    }
}

#[test]
fn each_command_about_environments_shows_the_line_and_the_calls() {
    let shell = shell();
    shell.put("lib/k.libsonnet", BROKEN);
    for (arguments, is_error) in [
        (&["env", "show", "environments/dev"][..], true),
        (&["env", "diff", "environments/dev"], false),
        (&["lint", "lib/k.libsonnet"], false),
    ] {
        let ended = shell.run(&[&["tanka"], arguments].concat());
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let reported = if is_error { &ended.err } else { &ended.out };
        assert_placed(&arguments.join(" "), reported);
    }
    // The same failure is reported once.
    shell.put("lib/k.libsonnet", &FINE.replacen("name: name", "name: $.nope", 1));
    let all = shell.run(&["tanka", "env", "diff"]);
    let place = "\n`environments/dev`, `environments/prod` fail here:\n  2 | ";
    assert!(all.out.contains(place), "{all:?}");
    assert_eq!(all.out.matches("\n  2 | ").count(), 1, "{all:?}");
}

#[test]
fn each_command_of_a_chat_shows_the_line_and_the_calls() {
    let shell = shell().set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");
    let edit = json!({ "path": "lib/k.libsonnet", "old": "{ apiVersion", "new": "$.nope + { apiVersion" });
    let model = BlockingModel::start(move |asked: &ModelRequest| match asked.messages.len() {
        1 => calls("file_edit", edit.clone()),
        _ => says("Changed."),
    });
    let url = format!("providers.anthropic.base_url={}", model.url());
    let commands = ["/diff dev", "/envs", "/risk", "/render dev"];
    let input = format!("change it\n{}\n", commands.join("\n"));
    let ended = shell.run_with_input(&["chat", "--set", &url], input);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_placed("a chat", &ended.err);
    // `/envs` and `/risk` report both environments after the turn, and the other commands report one.
    for shown in [PLACE[0], PLACE[1]] {
        assert_eq!(ended.err.matches(shown).count(), 3 * 2 + 2, "{}", ended.err);
    }
    assert!(ended.err.contains("\n`dev` does not render: "), "{}", ended.err);
}
