//! `drydock tanka fmt`: the files it changes, the files it leaves, and its exit codes.

use crate::support::shell::Shell;
use serde_json::json;

const UGLY: &str = "{a:1,\n\"b\": 'x'}";
const PRETTY: &str = "{\n  a: 1,\n  b: 'x',\n}\n";

fn shell() -> Shell {
    Shell::with_repository(&[
        ("environments/dev/main.jsonnet", UGLY),
        ("lib/a.libsonnet", PRETTY),
        ("lib/notes.md", UGLY),
        ("vendor/x/y.libsonnet", UGLY),
        ("lib/vendor/z.libsonnet", UGLY),
        ("lib/.hidden.libsonnet", UGLY),
    ])
}

#[test]
fn files_below_a_directory_are_formatted_without_vendor_and_dotfiles() {
    let shell = shell();
    let ended = shell.run(&["tanka", "fmt", "."]);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "environments/dev/main.jsonnet\n"),
        "{ended:?}"
    );
    assert_eq!(shell.get("environments/dev/main.jsonnet"), PRETTY);
    for untouched in [
        "lib/notes.md",
        "vendor/x/y.libsonnet",
        "lib/vendor/z.libsonnet",
        "lib/.hidden.libsonnet",
    ] {
        assert_eq!(shell.get(untouched), UGLY, "{untouched}");
    }
    let named = shell.run(&["tanka", "fmt", "vendor/x/y.libsonnet"]);
    assert_eq!(named.code, Some(0), "{named:?}");
    assert_eq!(shell.get("vendor/x/y.libsonnet"), PRETTY);
}

/// Checks that a link is written through, as `tk` does.
#[test]
fn a_link_stays_a_link_and_what_it_leads_to_is_formatted_once() {
    let shell = shell();
    let link = shell.work().join("environments/dev/other.jsonnet");
    std::os::unix::fs::symlink("main.jsonnet", &link).unwrap();
    let ended = shell.run(&["tanka", "fmt", "."]);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "environments/dev/main.jsonnet\n"),
        "{ended:?}"
    );
    assert_eq!(shell.get("environments/dev/main.jsonnet"), PRETTY);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    let named = shell.run(&["tanka", "fmt", "environments/dev/other.jsonnet", "--test"]);
    assert_eq!(named.code, Some(0), "{named:?}");
}

#[test]
fn a_test_writes_nothing_and_ends_with_16() {
    let shell = shell();
    let ended = shell.run(&["tanka", "fmt", "--test", "environments", "lib"]);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(16), "environments/dev/main.jsonnet\n"),
        "{ended:?}"
    );
    assert_eq!(shell.get("environments/dev/main.jsonnet"), UGLY);
    assert_eq!(shell.run(&["tanka", "fmt", "--test", "lib"]).code, Some(0));
    let ended = shell.run(&[
        "tanka",
        "fmt",
        "--test",
        "--json",
        "environments/dev/main.jsonnet",
    ]);
    assert_eq!(ended.code, Some(16));
    assert_eq!(
        ended.json(),
        json!({ "files": 1, "changed": ["environments/dev/main.jsonnet"], "written": false, "failed": [] })
    );
}

#[test]
fn one_invalid_file_is_reported_and_all_others_are_formatted() {
    let shell = shell();
    shell.put("lib/broken.libsonnet", "{ a: 1 b: 2 }");
    let tried = shell.run(&["tanka", "fmt", ".", "--test"]);
    assert_eq!(
        (tried.code, tried.out.as_str()),
        (Some(1), "environments/dev/main.jsonnet\n"),
        "{tried:?}"
    );
    assert_eq!(shell.get("environments/dev/main.jsonnet"), UGLY);
    let ended = shell.run(&["tanka", "fmt", "."]);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(1), "environments/dev/main.jsonnet\n"),
        "{ended:?}"
    );
    assert!(
        ended
            .err
            .contains("lib/broken.libsonnet:1:8-9 Expected a comma before next field\n")
            && ended
                .err
                .contains("1 of 3 files could not be formatted; 1 others changed"),
        "{ended:?}"
    );
    assert_eq!(shell.get("environments/dev/main.jsonnet"), PRETTY);
    assert_eq!(shell.get("lib/broken.libsonnet"), "{ a: 1 b: 2 }");
}

/// Checks a file of several megabytes, the size of generated libraries of Kubernetes.
#[test]
fn a_file_of_several_megabytes_is_formatted_and_one_above_the_bound_is_refused() {
    let shell = shell();
    let line = "  'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',\n";
    let large = format!("[\n{}]\n", line.repeat(30_000));
    shell.put("lib/large.libsonnet", &large.replacen("  'b", "'b", 1));
    shell.put("lib/huge.libsonnet", &format!("[\n{}]\n", line.repeat(250_000)));
    let ended = shell.run(&["tanka", "fmt", "."]);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(1), "environments/dev/main.jsonnet\nlib/large.libsonnet\n"),
        "{ended:?}"
    );
    assert!(
        ended.err.contains("`lib/huge.libsonnet` has ")
            && ended
                .err
                .contains(" bytes; the limit is 16777216 (`sandbox.file_bytes_max`)"),
        "{ended:?}"
    );
    assert_eq!(shell.get("lib/large.libsonnet"), large);
}

#[test]
fn formatting_a_missing_or_outside_path_is_refused() {
    let shell = shell();
    for (path, says) in [
        ("nowhere", "there is no file and no directory `nowhere`"),
        ("../other", "`../other` is outside of the repository"),
    ] {
        let ended = shell.run(&["tanka", "fmt", path]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains(says), "{ended:?}");
    }
    assert_eq!(shell.run(&["tanka", "fmt"]).code, Some(2));
}

#[test]
fn many_files_are_reported_in_order() {
    let names: Vec<String> = (0..60)
        .map(|number| format!("lib/f{number:02}.libsonnet"))
        .collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), UGLY)).collect();
    let shell = Shell::with_repository(&files);
    let broken = ["lib/f07.libsonnet", "lib/f31.libsonnet", "lib/f59.libsonnet"];
    broken.iter().for_each(|name| shell.put(name, "{ a: "));
    let ended = shell.run(&["tanka", "fmt", "lib"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let is_broken = |name: &&str| broken.contains(name);
    let good: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| !is_broken(name))
        .collect();
    assert_eq!(ended.out.lines().collect::<Vec<_>>(), good, "{ended:?}");
    let reported = ended.err.lines().filter_map(|line| line.split(':').next());
    let reported: Vec<&str> = reported.filter(is_broken).collect();
    assert_eq!(reported, broken, "{ended:?}");
    assert!(good.iter().all(|name| shell.get(name) == PRETTY));
    broken.iter().for_each(|name| shell.put(name, UGLY));
    let ended = shell.run(&["tanka", "fmt", "lib"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out.lines().collect::<Vec<_>>(), broken, "{ended:?}");
    assert!(names.iter().all(|name| shell.get(name) == PRETTY));
}
