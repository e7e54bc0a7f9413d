//! `drydock tanka lint`: what is found in files, and its exit codes.

use crate::support::shell::Shell;
use serde_json::json;

fn shell() -> Shell {
    Shell::with_repository(&[
        ("jsonnetfile.json", "{}"),
        (
            "environments/dev/main.jsonnet",
            "(import 'app.libsonnet') { n:: 1 }",
        ),
        ("environments/dev/spec.json", "{}"),
        ("lib/app.libsonnet", "local unused = 1; { app:: 2 }"),
        ("lib/broken.libsonnet", "{ a: missing }"),
        ("vendor/x.libsonnet", "{ a: }"),
    ])
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_code_1() {
    let shell = shell();
    let ended = shell.run(&["tanka", "lint", "."]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(
        ended.out,
        "warning: lib/app.libsonnet:1:7-17 Unused variable: unused\n\
         error: lib/broken.libsonnet:1:6-13 Unknown variable: missing\n"
    );
    assert_eq!(ended.err, "1 of 3 not valid\n");
    let one = shell.run(&["tanka", "lint", "lib/app.libsonnet"]);
    assert_eq!(one.code, Some(0), "a warning is nothing wrong: {one:?}");
    let none = shell.run(&["tanka", "lint", "gone.libsonnet"]);
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(
        none.err
            .contains("there is no file and no directory `gone.libsonnet`"),
        "{none:?}"
    );
}

#[test]
fn the_findings_are_there_as_json() {
    let shell = shell();
    let ended = shell.run(&["tanka", "lint", "lib/broken.libsonnet", "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let said = ended.json();
    assert_eq!(said["valid"], false);
    let finding = &said["files"][0]["findings"][0];
    assert_eq!(said["files"][0]["path"], "lib/broken.libsonnet");
    assert_eq!(finding["message"], "Unknown variable: missing");
    assert_eq!(
        finding["range"],
        json!({ "begin": { "line": 1, "column": 6 }, "end": { "line": 1, "column": 13 } })
    );
}
