//! `drydock jb`: the commands for packages of Jsonnet, in the files of a repository.

use crate::support::shell::Shell;
use serde_json::json;
use std::path::Path;

fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// TK-44, TK-45, TK-46, TK-47
#[test]
fn the_program_begins_installs_plans_updates_and_lists() {
    let shell = Shell::with_repository(&[("libs/x/x.libsonnet", "{}\n"), (".gitignore", "vendor/\n")]);
    let begun = shell.run(&["jb", "init", "--json"]);
    assert_eq!(begun.code, Some(0), "{begun:?}");
    assert_eq!(
        begun.json(),
        json!({"packages": [], "files": ["jsonnetfile.json"], "notices": []})
    );
    let again = shell.run(&["jb", "init"]);
    assert_eq!(
        (again.code, again.err.as_str()),
        (Some(1), "jsonnetfile.json already exists\n")
    );
    let elsewhere = Shell::with_repository(&[("a", "one\n")]).run(&["jb", "init"]);
    assert_eq!(elsewhere.err, "1 file differs from before.\n");
    let planned = shell.run(&["jb", "plan", "libs/x", "--json"]);
    assert_eq!(
        planned.json()["files"],
        json!(["jsonnetfile.json", "jsonnetfile.lock.json", "vendor/x"])
    );
    assert!(!shell.work().join("vendor").exists());
    let installed = shell.run(&["jb", "install", "libs/x"]);
    assert_eq!(installed.code, Some(0), "{installed:?}");
    assert_eq!(installed.err, "LOCAL x -> libs/x\n3 files differ from before.\n");
    assert_eq!(shell.get("vendor/x/x.libsonnet"), "{}\n");
    let listed = shell.run(&["jb", "list", "--json"]);
    let x = json!({"name": "x", "declared": "local", "locked": "local", "local": "libs/x"});
    assert_eq!(listed.json(), json!({ "packages": [x] }));
    // Installed packages are managed even if git ignores them.
    let again = shell.run(&["jb", "update"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(files(&shell.work().join("vendor")), ["x"]);
    let off = shell.run(&["jb", "install", "github.com/org/c"]);
    assert_eq!(off.code, Some(1));
    assert_eq!(
        off.err,
        "failed to install packages: downloading: `github.com/org/c`: downloads of packages are disabled; an \
         operator allows hosts with `[bundler] hosts_allowed`, such as [\"github.com\"]\n"
    );
    let host = ["--set", "bundler.hosts_allowed=[\"git.example.com\"]"];
    let other = shell.run(&["jb", "install", "github.com/org/c", host[0], host[1]]);
    assert_eq!(
        other.err,
        "failed to install packages: downloading: remote not allowed: host github.com is not in \
         `[bundler] hosts_allowed`\n"
    );
}

#[test]
fn the_program_rewrites_imports_of_packages_by_their_short_names() {
    let lock = json!({"version": 1, "legacyImports": false, "dependencies": [
        {"source": {"git": {"remote": "https://github.com/org/c.git", "subdir": "lib"}}, "version": "v1", "sum": ""}]});
    let files = [
        (
            "main.jsonnet",
            "(import 'lib/a.libsonnet') + (import 'b.libsonnet')\n",
        ),
        ("notes.md", "import 'lib/a.libsonnet'\n"),
        ("jsonnetfile.lock.json", &lock.to_string()),
    ];
    let shell = Shell::with_repository(&files);
    let early = shell.run(&["jb", "rewrite"]);
    assert_eq!(
        (early.code, early.err.as_str()),
        (Some(1), "stat vendor: no such file or directory\n")
    );
    assert_eq!(shell.get("main.jsonnet"), files[0].1);
    let unlocked = Shell::with_repository(&files[..1]).run(&["jb", "rewrite"]);
    let advice = "\nThe locks are required to compute the new import names. Make sure to run `drydock jb install` first.\n";
    assert!(
        unlocked.code == Some(1) && unlocked.err.ends_with(advice),
        "{unlocked:?}"
    );
    let vendored = "vendor/github.com/org/c/lib/a.libsonnet";
    shell.put(vendored, "import 'lib/b.libsonnet'\n");
    let rewritten = shell.run(&["jb", "rewrite", "--json"]);
    assert_eq!(rewritten.code, Some(0), "{rewritten:?}");
    let changed = json!({"packages": [], "files": ["main.jsonnet"], "notices": []});
    assert_eq!(rewritten.json(), changed);
    let expected = "(import 'github.com/org/c/lib/a.libsonnet') + (import 'b.libsonnet')\n";
    assert_eq!(shell.get("main.jsonnet"), expected);
    assert_eq!(shell.get("notes.md"), files[1].1);
    assert_eq!(shell.get(vendored), "import 'lib/b.libsonnet'\n");
    assert_eq!(shell.run(&["jb", "rewrite"]).err, "0 files differ from before.\n");
}
