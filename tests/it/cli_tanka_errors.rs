//! `drydock tanka` on what cannot be read or evaluated: the place of an error, and what cannot be shown.

use crate::cli_tanka::shell;
use serde_json::json;

#[test]
fn a_broken_environment_is_named_beside_the_others() {
    let shell = shell();
    shell.put("environments/bad/main.jsonnet", "{ a: }\n");
    let listed = shell.run(&["tanka", "env", "list", "--json"]);
    assert_eq!(listed.code, Some(1), "{listed:?}");
    let json = listed.json();
    let names = json["environments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| &found["metadata"]["name"]);
    assert_eq!(
        names.collect::<Vec<_>>(),
        [
            &json!("broken"),
            &json!("environments/dev"),
            &json!("eu"),
            &json!("us")
        ]
    );
    assert_eq!(json["failures"][0]["path"], "environments/bad/main.jsonnet");
    assert!(
        listed.err.contains("1 of the entry points could not be loaded"),
        "{listed:?}"
    );
}

#[test]
fn an_argument_that_is_neither_a_path_nor_a_name_is_reported() {
    let ended = shell().run(&["tanka", "env", "show", "environments/gone"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended
            .err
            .contains("`environments/gone` is not in the repository, neither as a path nor as the name"),
        "{ended:?}"
    );
    // The terminal also has files that are not committed.
    assert!(!ended.err.contains("committed"), "{ended:?}");
}

#[test]
fn an_error_is_shown_with_its_line_and_the_calls_that_led_there() {
    let shell = shell();
    shell.put("lib/m.libsonnet", "{\n  patch(d):: d + $.nope,\n}\n");
    shell.put(
        "environments/dev/main.jsonnet",
        "local m = import 'm.libsonnet';\n{\n  web: m.patch({ a: 1 }),\n}\n",
    );
    let failed = shell.run(&["tanka", "env", "show", "environments/dev"]);
    assert_eq!(failed.code, Some(1));
    for shown in [
        "Field does not exist: nope (at lib/m.libsonnet:2:18)",
        "2 |   patch(d):: d + $.nope,",
        "  |                  ^",
        "environments/dev/main.jsonnet:3:",
    ] {
        assert!(failed.err.contains(shown), "{shown}: {}", failed.err);
    }
    shell.put("environments/dev/main.jsonnet", "{\n  a: (1,\n}\n");
    let failed = shell.run(&["tanka", "env", "show", "environments/dev"]);
    for shown in [
        "environments/dev/main.jsonnet`:2:8: ",
        "2 |   a: (1,",
        "  |        ^",
    ] {
        assert!(failed.err.contains(shown), "{shown}: {}", failed.err);
    }
}

#[test]
fn an_import_that_fails_is_shown_where_it_stands() {
    let shell = shell();
    shell.put("lib/known.libsonnet", "{}\n");
    shell.put("lib/bad.libsonnet", "{\n  a: 1,\n  b 2,\n}\n");
    let long = format!("{{ a: '{}', b: import 'knwon.libsonnet' }}\n", "x".repeat(300));
    for (program, expected) in [
        (
            "{\n  a: 1,\n  b: (import 'knwon.libsonnet').x,\n}\n",
            vec![
                "couldn't open import \"knwon.libsonnet\" of `environments/dev/main.jsonnet`",
                "similar: `lib/known.libsonnet` (at environments/dev/main.jsonnet:3:7)",
                "3 |   b: (import 'knwon.libsonnet').x,\n    |       ^",
            ],
        ),
        (
            "{ a: import '/etc/passwd' }\n",
            vec![
                "import outside the repository: /etc/passwd of `environments/dev/main.jsonnet` \
                 (at environments/dev/main.jsonnet:1:6)",
                "1 | { a: import '/etc/passwd' }\n    |      ^",
            ],
        ),
        (
            "local bad = import 'bad.libsonnet';\n{ a: bad }\n",
            vec![
                "`lib/bad.libsonnet`:3:5: ",
                "3 |   b 2,\n    |     ^",
                "environments/dev/main.jsonnet:1:13: expression",
            ],
        ),
        (long.as_str(), vec!["xxx', b: import 'knwon.libsonnet' }\n"]),
    ] {
        shell.put("environments/dev/main.jsonnet", program);
        for command in [
            &["env", "show", "environments/dev"][..],
            &["lint", "environments/dev/main.jsonnet"],
        ] {
            let failed = shell.run(&[&["tanka"], command].concat());
            assert_eq!(failed.code, Some(1));
            let reported = format!("{}{}", failed.out, failed.err);
            for shown in &expected {
                assert!(reported.contains(shown), "{command:?}, {shown}: {reported}");
            }
        }
    }
    shell.put(
        "environments/dev/main.jsonnet",
        "{ b: import 'knwon.libsonnet', c: import 'knwon.libsonnet' }\n",
    );
    let compared = shell.run(&["tanka", "env", "diff", "environments/dev"]);
    let similar = "\nimports resolve: FAILED, `environments/dev/main.jsonnet` imports \"knwon.libsonnet\": \
                   no match locally or in the Jsonnet library paths; looked for `environments/dev/knwon.libsonnet`, \
                   `lib/knwon.libsonnet`, `environments/dev/vendor/knwon.libsonnet`, `vendor/knwon.libsonnet`; \
                   similar: `lib/known.libsonnet`\n";
    assert!(compared.out.contains(similar), "{compared:?}");
    let linted = shell.run(&["tanka", "lint", "environments/dev"]);
    assert_eq!(
        linted.out.matches("; similar: `lib/known.libsonnet`)\n").count(),
        2,
        "{linted:?}"
    );
    shell.put("environments/all/main.jsonnet", "import 'knwon.libsonnet'\n");
    let listed = shell.run(&["tanka", "env", "list"]);
    assert!(
        listed.err.contains("1 | import 'knwon.libsonnet'\n    | ^"),
        "{listed:?}"
    );
}

#[test]
fn what_cannot_be_shown_says_why() {
    let shell = shell();
    for (arguments, code, why) in [
        (vec!["environments/all"], 1, "evaluating jsonnet: boom"),
        (
            vec!["environments/all", "--name", "x"],
            1,
            "found no matching environments",
        ),
        (vec!["../elsewhere"], 1, "outside the repository"),
        (
            vec!["environments/dev", "-t", "["],
            1,
            "is not a regular expression",
        ),
        (vec!["environments/dev", "--ext-code", "a"], 2, "write NAME=VALUE"),
    ] {
        let arguments = [vec!["tanka", "env", "show"], arguments].concat();
        let ended = shell.run(&arguments);
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{ended:?}");
        assert!(ended.err.contains(why), "{arguments:?}: {ended:?}");
    }
}
