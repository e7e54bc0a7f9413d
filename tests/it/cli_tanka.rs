//! `drydock tanka`: the output about environments for people and pipes, with real evaluations.

use crate::support::shell::{LARGE_FILE_LOCK, Shell};
use serde_json::json;

pub(crate) fn shell() -> Shell {
    Shell::with_repository(&[
        ("jsonnetfile.json", "{}\n"),
        (
            "lib/k.libsonnet",
            "{ cm(name):: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: name } } }\n",
        ),
        (
            "environments/dev/main.jsonnet",
            "local k = import 'k.libsonnet';\n{ a: k.cm('a') { data: { n: 1000000 } }, s: { apiVersion: 'v1', kind: 'Secret', \
             metadata: { name: 's' } } }\n",
        ),
        (
            "environments/dev/spec.json",
            "{ \"spec\": { \"namespace\": \"web\", \"apiServer\": \"h\" } }\n",
        ),
        (
            "environments/all/main.jsonnet",
            "local k = import 'k.libsonnet';\nlocal env(name) = { apiVersion: 'tanka.dev/v1alpha1', kind: 'Environment', \
             metadata: { name: name, labels: { stage: name } }, spec: { namespace: name }, \
             data: [if name == 'broken' then error 'boom' else k.cm(name)] };\n{ [n]: env(n) for n in ['eu', 'us', 'broken'] }\n",
        ),
    ])
}

#[test]
fn environments_are_listed_without_evaluating_their_objects() {
    let shell = shell();
    let listed = shell.run(&["tanka", "env", "list"]);
    assert_eq!((listed.code, listed.err.as_str()), (Some(0), ""));
    assert_eq!(
        listed.out,
        "NAME                NAMESPACE    SERVER       \n\
         broken              broken                    \n\
         environments/dev    web          https://h    \n\
         eu                  eu                        \n\
         us                  us                        \n"
    );
    let selected = shell.run(&[
        "tanka",
        "env",
        "list",
        "environments",
        "-l",
        "stage in (eu,us)",
        "--names",
    ]);
    assert_eq!((selected.code, selected.out.as_str()), (Some(0), "eu\nus\n"));
}

#[test]
fn an_environment_is_shown_as_tk_shows_it() {
    let shell = shell();
    let shown = shell.run(&["tanka", "env", "show", "environments/dev", "-t", "configmap/.*"]);
    assert_eq!((shown.code, shown.err.as_str()), (Some(0), ""));
    assert_eq!(
        shown.out,
        "apiVersion: v1\ndata:\n  \"n\": 1e+06\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: web\n"
    );
    let one = shell.run(&[
        "tanka",
        "env",
        "show",
        "environments/all",
        "--name",
        "eu",
        "--json",
    ]);
    assert_eq!(one.code, Some(0), "{one:?}");
    assert_eq!(
        one.json()["objects"],
        json!([{ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "eu", "namespace": "eu" } }])
    );
    let by_name = shell.run(&["tanka", "env", "show", "us"]);
    assert!(by_name.out.contains("  name: us\n"), "{by_name:?}");
}

/// Checks that it is found, as with `tk`, which does not use git.
#[test]
fn an_environment_below_a_folder_that_git_ignores_is_there_as_well() {
    let shell = shell();
    shell.put(".gitignore", "scratch/\n");
    let spec = r#"{"apiVersion":"tanka.dev/v1alpha1","kind":"Environment","metadata":{"name":"x"},"spec":{"namespace":"own"}}"#;
    shell.put("scratch/tkrc.yaml", "");
    shell.put("scratch/environments/own/main.jsonnet", "import 'own.libsonnet'");
    shell.put("scratch/environments/own/spec.json", spec);
    shell.put(
        "scratch/lib/own.libsonnet",
        "{ a: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' } } }",
    );
    let shown = shell.run(&["tanka", "env", "show", "scratch/environments/own"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.out.contains("  namespace: own\n"), "{shown:?}");
    for directory in ["scratch", "scratch/environments"] {
        let listed = shell.run(&["tanka", "env", "list", directory, "--names"]);
        assert_eq!(
            (listed.code, listed.out.as_str()),
            (Some(0), "environments/own\n"),
            "{listed:?}"
        );
    }
    let all = shell.run(&["tanka", "env", "list", ".", "--names"]);
    assert!(all.out.lines().any(|name| name == "environments/own"), "{all:?}");
    let importers = shell.run(&["tanka", "env", "importers", "scratch/lib/own.libsonnet"]);
    assert_eq!(
        importers.out, "scratch/environments/own/main.jsonnet\n",
        "{importers:?}"
    );
    let linted = shell.run(&["tanka", "lint", "scratch"]);
    assert_eq!(linted.code, Some(0), "{linted:?}");
    assert!(
        linted
            .err
            .contains("2 files checked; environments that use them: 1 of 1 rendered"),
        "{linted:?}"
    );
    let changed = shell.run(&["tanka", "env", "diff", "scratch/environments/own"]);
    assert_eq!(changed.code, Some(1), "{changed:?}");
    let why =
        "`scratch/environments/own/main.jsonnet` is ignored by git, so there is no base to compare it with";
    assert!(changed.err.contains(why), "{changed:?}");
}

/// Checks a library of 4.1 MB, the size of the generated library of ksonnet.
#[test]
fn a_library_of_several_megabytes_is_imported_and_the_bound_is_named() {
    let _turn = LARGE_FILE_LOCK.blocking_lock();
    let shell = shell();
    let line = "  kind(name):: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: name } },\n";
    let library: String = (0..52_000)
        .map(|number| line.replacen("kind", &format!("kind{number}"), 1))
        .collect();
    shell.put("lib/large.libsonnet", &format!("{{\n{library}}}\n"));
    shell.put(
        "environments/dev/main.jsonnet",
        "local l = import 'large.libsonnet';\n{ a: l.kind7('a') }\n",
    );
    // A build without optimisation may be slow on a busy machine.
    let slow = ["--set", "sandbox.seconds_max=120"];
    let shown = shell.run(&[&slow[..], &["tanka", "env", "show", "environments/dev"]].concat());
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.out.contains("  name: a\n"), "{shown:?}");
    let linted = shell.run(&[&slow[..], &["tanka", "lint", "environments/dev"]].concat());
    assert_eq!(linted.code, Some(0), "{linted:?}");
    let bounded = ["--set", "sandbox.file_bytes_max=1048576"];
    let refused = shell.run(&[&bounded[..], &["tanka", "env", "show", "environments/dev"]].concat());
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("`lib/large.libsonnet` has 4")
            && refused
                .err
                .contains("the limit is 1048576 (`sandbox.file_bytes_max`)"),
        "{refused:?}"
    );
}

/// Checks that unread files are never reported as unchanged.
#[test]
fn a_change_of_a_very_large_library_is_seen() {
    let _turn = LARGE_FILE_LOCK.blocking_lock();
    let library = |port: u32| format!("{{ port:: {port}, text:: '{}' }}\n", "x".repeat(17 << 20));
    let spec = r#"{"apiVersion":"tanka.dev/v1alpha1","kind":"Environment","metadata":{"name":"x"},"spec":{"namespace":"web"}}"#;
    let map = "{ a: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a%s' % (import 'large.libsonnet').port } } }\n";
    let shell = Shell::with_repository(&[
        ("tkrc.yaml", ""),
        ("environments/dev/main.jsonnet", map),
        ("environments/dev/spec.json", spec),
        ("lib/large.libsonnet", &library(1)),
    ]);
    let diff = ["tanka", "env", "diff"];
    let same = shell.run(&diff);
    assert!(same.out.contains("0 of "), "{same:?}");
    shell.put("lib/large.libsonnet", &library(2));
    // With the default limit it is not rendered, and the output says so.
    let refused = shell.run(&diff);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.out.contains("(`sandbox.file_bytes_max`)"), "{refused:?}");
}

/// Checks a directory whose `.gitignore` is a pipe, where a list of all files would block.
#[test]
fn showing_one_environment_does_not_list_unrelated_files() {
    let shell = shell();
    let pipe = shell.work().join(".gitignore");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let all = shell.run(&["tanka", "lint", "."]);
    assert!(
        all.code == Some(1) && all.err.contains("`.gitignore` could not be read"),
        "{all:?}"
    );
    let shown = shell.run(&["tanka", "env", "show", "environments/dev"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let listed = shell.run(&["tanka", "env", "list", "environments", "--names"]);
    assert_eq!(listed.out, "broken\nenvironments/dev\neu\nus\n", "{listed:?}");
}

#[test]
fn what_is_shown_is_cross_checked_or_says_that_it_is_not() {
    let shell = shell();
    let show = |flags: &[&str]| shell.run(&[&["tanka", "env", "show", "environments/dev"], flags].concat());
    assert_eq!(show(&["--json"]).json()["cross_check"], "agrees");
    let unchecked = show(&["--no-cross-check", "-t", "configmap/.*"]);
    assert_eq!(unchecked.code, Some(0));
    assert!(
        unchecked
            .err
            .contains("Not cross-checked: the second engine was not used."),
        "{unchecked:?}"
    );
    let unchecked = show(&["--no-cross-check", "--json"]);
    assert_eq!(unchecked.json()["cross_check"], "not_asked");
    // One of the engines allows for a tiny difference between numbers.
    shell.put(
        "environments/dev/main.jsonnet",
        "local k = import 'k.libsonnet';\n{ a: k.cm('a') { data: { x: if std.member([0.1 + 0.2], 0.3) then 'y' else 'n' } } }\n",
    );
    let disputed = show(&[]);
    assert_eq!(disputed.code, Some(1));
    assert!(disputed.out.contains("name: a"), "{disputed:?}");
    let expected = "Do not rely on it: a second engine has another value at `$.a.data.x`.";
    assert!(disputed.err.contains(expected), "{disputed:?}");
    let diff = |flags: &[&str]| shell.run(&[&["tanka", "env", "diff", "environments/dev"], flags].concat());
    let disputed = diff(&[]);
    assert_eq!(disputed.code, Some(1), "{disputed:?}");
    assert!(
        disputed.out.contains("\nboth engines agree: FAILED, "),
        "{disputed:?}"
    );
    let unchecked = diff(&["--no-cross-check"]);
    assert_eq!(unchecked.code, Some(0), "{unchecked:?}");
    let expected = "\nboth engines agree: not run, the second engine was not used\n";
    assert!(unchecked.out.contains(expected), "{unchecked:?}");
    let unchecked = diff(&["--no-cross-check", "--json"]).json();
    assert_eq!(unchecked["checks"][3]["state"], "not_run");
}

#[test]
fn importers_are_listed_with_the_reason() {
    let shell = shell();
    let importers = |arguments: &[&str]| {
        let ended = shell.run(&[&["tanka", "env", "importers"], arguments].concat());
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        ended
    };
    let both = "environments/all/main.jsonnet\nenvironments/dev/main.jsonnet\n";
    assert_eq!(importers(&["lib/k.libsonnet"]).out, both);
    assert_eq!(importers(&["lib/k.libsonnet", "--mode", "tk"]).out, both);
    assert_eq!(
        importers(&["environments/dev/spec.json"]).out,
        "environments/dev/main.jsonnet\n"
    );
    assert_eq!(importers(&["jsonnetfile.json"]).out, "");
    assert_eq!(
        importers(&["lib", "environments/dev/spec.json", "--why"]).out,
        "environments/all/main.jsonnet > lib/k.libsonnet\n\
         environments/dev/main.jsonnet > lib/k.libsonnet\n"
    );
    assert_eq!(
        importers(&["environments/all/k.libsonnet", "--json"]).json()["importers"],
        json!([{
            "entrypoint": "environments/all/main.jsonnet",
            "because": "import",
            "chain": ["environments/all/main.jsonnet", "environments/all/k.libsonnet"],
        }])
    );
    for (arguments, why) in [
        (&["list", "nope"][..], "no directory `nope`\n"),
        (
            &["importers", "nope"],
            "no file `nope`; write `deleted:nope` for one that was deleted\n",
        ),
        (&["importers", "nope", "--mode", "tk"], "no file `nope`; "),
    ] {
        let ended = shell.run(&[&["tanka", "env"], arguments].concat());
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
        assert!(ended.err.starts_with(why), "{ended:?}");
    }
    assert_eq!(importers(&["deleted:nope"]).out, "");
    importers(&["deleted:nope", "--mode", "tk"]);
    let outside = shell.run(&["tanka", "env", "importers", "../x"]);
    assert_eq!((outside.code, outside.out.as_str()), (Some(1), ""));
    assert!(outside.err.contains("outside the repository"), "{outside:?}");
}

#[test]
fn what_the_working_directory_changes_is_shown_against_the_commit() {
    let shell = shell();
    let same = shell.run(&["tanka", "env", "diff"]);
    assert_eq!(same.code, Some(0), "{same:?}");
    assert!(same.out.starts_with("0 of 2 environments change: "), "{same:?}");
    assert!(same.out.contains("imports resolve: not run"), "{same:?}");

    shell.put(
        "lib/k.libsonnet",
        "{ cm(name):: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: name, labels: { new: 'yes' } } } }\n",
    );
    let one = shell.run(&["tanka", "env", "diff", "environments/dev"]);
    assert_eq!(one.code, Some(0), "{one:?}");
    assert!(
        one.out
            .starts_with("1 of 1 environment changes: 1 object changed, 0 added, 0 removed.\n"),
        "{one:?}"
    );
    assert!(
        one.out.contains("=== ConfigMap web/a (changed, +2 -0)\n"),
        "{one:?}"
    );
    assert!(one.out.contains("+    new: \"yes\"\n"), "{one:?}");
    assert!(
        one.out
            .contains("\nevery affected environment renders: ok\nboth engines agree: ok\n"),
        "{one:?}"
    );

    // One environment of the other file fails on both sides. It hides none of the others.
    let all = shell.run(&["tanka", "env", "diff", "--json"]);
    assert_eq!(all.code, Some(1), "{all:?}");
    let json = all.json();
    assert_eq!(json["report"]["counts"]["files"], 1);
    assert_eq!(json["report"]["environments"][1]["name"], "environments/dev");
    assert_eq!(json["checks"][2]["state"], "fail");

    // The new location of an environment comes first, for one environment, for all, and in the data.
    shell.put(
        "environments/dev/spec.json",
        "{ \"spec\": { \"namespace\": \"eu\", \"apiServer\": \"h\" } }\n",
    );
    let moves = "⚠ `environments/dev` moves: `spec.namespace` web -> eu; it may share the destination of \
                 `environments/all`\n";
    for arguments in [
        &["tanka", "env", "diff"][..],
        &["tanka", "env", "diff", "environments/dev"],
    ] {
        let moved = shell.run(arguments);
        assert!(moved.out.starts_with(moves), "{moved:?}");
        assert!(moved.out.contains("high DD101"), "{moved:?}");
    }
    let json = shell
        .run(&["tanka", "env", "diff", "environments/dev", "--json"])
        .json();
    assert_eq!(json["report"]["settings"][0]["settings"][0]["after"], "eu");

    let unknown = shell.run(&["tanka", "env", "diff", "environments/none"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(unknown.err.contains("environments"), "{unknown:?}");
}
