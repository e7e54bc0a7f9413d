//! `drydock tanka lint`: its findings, its renderings, and its exit codes.

use crate::support::shell::Shell;
use serde_json::json;

fn shell() -> Shell {
    let spec = |name: &str| {
        format!(
            r#"{{"apiVersion":"tanka.dev/v1alpha1","kind":"Environment","metadata":{{"name":"{name}"}},"spec":{{"namespace":"a"}}}}"#
        )
    };
    Shell::with_repository(&[
        ("tkrc.yaml", ""),
        (
            "environments/dev/main.jsonnet",
            "(import 'good.libsonnet') { a: {} }",
        ),
        ("environments/dev/spec.json", &spec("dev")),
        ("environments/bad/main.jsonnet", "import 'fails.libsonnet'"),
        ("environments/bad/spec.json", &spec("bad")),
        ("lib/good.libsonnet", "local unused = 1; {}"),
        ("lib/fails.libsonnet", "{ a: error 'no value' }"),
        ("lib/wrong.libsonnet", "{ a: unknown }"),
        ("vendor/x/y.libsonnet", "{ a: unknown }"),
    ])
}

/// T87: the source line of an error is redacted like the message above it.
#[test]
fn the_line_of_a_failure_shows_no_secret_of_its_file() {
    let shell = shell();
    shell.put(
        "lib/fails.libsonnet",
        "{ password: 'blue moon 42', a: error 'not ' + self.password }\n",
    );
    let lint = shell.run(&["tanka", "lint", "lib/fails.libsonnet"]);
    assert!(!format!("{lint:?}").contains("blue moon 42"), "{lint:?}");
    assert!(
        lint.out.contains("| { password: '⟦secret:1⟧', a: error"),
        "{lint:?}"
    );
}

/// TK-41
#[test]
fn a_file_that_is_wrong_is_named_with_its_place_and_ends_with_1() {
    let shell = shell();
    let good = shell.run(&["tanka", "lint", "lib/good.libsonnet"]);
    assert_eq!(good.code, Some(0), "{good:?}");
    assert!(
        good.out.starts_with("warning: lib/good.libsonnet:1:7-17 "),
        "{good:?}"
    );
    assert!(
        good.err
            .contains("1 file checked; environments that use them: 1 of 1 rendered"),
        "{good:?}"
    );
    let wrong = shell.run(&["tanka", "lint", "lib/wrong.libsonnet"]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(
        wrong.out.starts_with("error: lib/wrong.libsonnet:1:6-13 "),
        "{wrong:?}"
    );
    let fails = shell.run(&["tanka", "lint", "lib/fails.libsonnet"]);
    assert_eq!(fails.code, Some(1), "{fails:?}");
    assert!(
        fails
            .out
            .starts_with("error: `environments/bad` does not render: ")
            && fails.out.contains("no value"),
        "{fails:?}"
    );
}

#[test]
fn a_directory_is_its_jsonnet_files_without_vendor() {
    let shell = shell();
    let ended = shell.run(&["tanka", "lint", ".", "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let reported = ended.json();
    let files: Vec<_> = reported["files"].as_array().unwrap().iter().collect();
    let valid: Vec<_> = files
        .iter()
        .map(|file| json!([file["file"], file["valid"]]))
        .collect();
    assert_eq!(
        json!(valid),
        json!([
            ["environments/bad/main.jsonnet", false],
            ["environments/dev/main.jsonnet", true],
            ["lib/fails.libsonnet", false],
            ["lib/good.libsonnet", true],
            ["lib/wrong.libsonnet", false],
        ])
    );
    assert_eq!(
        files[3]["environments"],
        json!([{ "name": "environments/dev", "renders": true, "error": null }])
    );
    assert_eq!(files[4]["findings"][0]["code"], "unknown_variable");
    let nothing = shell.run(&["tanka", "lint", "none"]);
    assert_eq!(nothing.code, Some(1), "{nothing:?}");
    assert!(
        nothing.err.contains("there is no file and no directory `none`"),
        "{nothing:?}"
    );
}

#[test]
fn many_files_are_linted_with_lines_that_say_how_far_it_is() {
    let spec = r#"{"apiVersion":"tanka.dev/v1alpha1","kind":"Environment","spec":{"namespace":"a"}}"#;
    let shared = ("lib/shared.libsonnet".to_owned(), "{ a: {} }".to_owned());
    let environments = (0..25).flat_map(|number| {
        let directory = format!("environments/e{number}");
        [
            (
                format!("{directory}/main.jsonnet"),
                "import 'shared.libsonnet'".to_owned(),
            ),
            (format!("{directory}/spec.json"), spec.to_owned()),
        ]
    });
    let marker = ("tkrc.yaml".to_owned(), String::new());
    let files: Vec<(String, String)> = environments.chain([shared, marker]).collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let shell = Shell::with_repository(&files);
    shell.put("lib/binary.libsonnet", "{ a: 1 }");
    let bad: &[u8] = &[0xff, 0xfe];
    std::fs::write(shell.work().join("lib/binary.libsonnet"), bad).unwrap();
    let ended = shell.run(&["tanka", "lint", "."]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(
        ended.out, "error: lib/binary.libsonnet: `lib/binary.libsonnet` is not UTF-8 text\n",
        "{ended:?}"
    );
    for line in [
        "[lint] 27 of 27 files",
        "[lint] 25 of 25 entry points rendered",
        "27 files checked; environments that use them: 25 of 25 rendered",
    ] {
        assert_eq!(
            ended.err.lines().filter(|reported| *reported == line).count(),
            1,
            "{ended:?}"
        );
    }
    let one = shell.run(&["tanka", "lint", "lib/shared.libsonnet"]);
    assert!(one.code == Some(0) && !one.err.contains("files\n"), "{one:?}");
}

/// Checks imports of a library that resolve to other files in each environment. An import that only one environment
/// uses is followed.
#[test]
fn an_import_that_means_two_files_is_followed_for_neither() {
    let spec = r#"{"apiVersion":"tanka.dev/v1alpha1","kind":"Environment","spec":{"namespace":"a"}}"#;
    let shell = Shell::with_repository(&[
        ("tkrc.yaml", ""),
        (
            "environments/a/main.jsonnet",
            "(import 'shared.libsonnet') + (import 'only-a.libsonnet')",
        ),
        ("environments/a/spec.json", spec),
        ("environments/a/own.libsonnet", "{ n: 'text' }"),
        ("environments/b/main.jsonnet", "import 'shared.libsonnet'"),
        ("environments/b/spec.json", spec),
        ("environments/b/own.libsonnet", "{ n: 1 }"),
        (
            "lib/shared.libsonnet",
            "{ v:: -(import 'own.libsonnet').n, a: {} }",
        ),
        ("lib/only-a.libsonnet", "{ w:: -(import 'own.libsonnet').n }"),
    ]);
    let ended = shell.run(&["tanka", "lint", "."]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(
        ended.out,
        "error: lib/only-a.libsonnet:1:7-34 Operand is not a number, it is assumed to be a string\n",
        "{ended:?}"
    );
    let alone = shell.run(&["tanka", "lint", "lib/only-a.libsonnet", "--json"]);
    assert_eq!(
        alone.json()["files"][0]["findings"].as_array().map(Vec::len),
        Some(1),
        "{alone:?}"
    );
}
