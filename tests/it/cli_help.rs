//! Tests of the help of the program, and of its answers to wrong arguments.

use crate::support::shell::Shell;
use crate::support::source::{root, rust_files, without_comment};
use std::collections::BTreeSet;
use std::process::Stdio;

const VERBS: [&str; 35] = [
    "demo",
    "serve",
    "up",
    "down",
    "status",
    "logs",
    "ask",
    "chat",
    "check",
    "tanka",
    "jb",
    "invite",
    "user",
    "token",
    "session",
    "audit",
    "auth",
    "secrets",
    "outbox",
    "pipeline",
    "data",
    "models",
    "slack",
    "completions",
    "man",
    "telegram",
    "channel",
    "schedule",
    "run",
    "runs",
    "doctor",
    "init",
    "login",
    "logout",
    "pull",
];

#[test]
fn every_verb_shows_examples_that_name_it() {
    let shell = Shell::new();
    for flag in ["-h", "--help"] {
        let ended = shell.run(&[flag]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        for verb in VERBS {
            assert!(
                ended.out.contains(&format!("\n  {verb} ")),
                "{verb}: {}",
                ended.out
            );
            let help = shell.run(&[verb, flag]);
            assert_eq!(help.code, Some(0));
            let example = format!("drydock {verb}");
            let examples = help.out.split_once("Examples:\n").map_or("", |(_, after)| after);
            assert!(examples.contains(&example), "{verb}: {}", help.out);
        }
        assert!(ended.out.contains("Examples:"));
    }
}

/// TK-10
#[test]
fn the_help_and_the_documents_list_every_exit_code_of_the_source() {
    let of_success = BTreeSet::from([0]);
    let of_source: BTreeSet<u8> = rust_files("src/cli")
        .into_iter()
        .flat_map(|(_, text)| exit_codes(&text))
        .chain(of_success)
        .collect();
    assert!(of_source.len() > 4, "the source was read: {of_source:?}");
    let help = Shell::new().run(&["--help"]).out;
    let (_, help) = help.split_once("Exit codes: ").expect("a list in the help");
    let operate = std::fs::read_to_string(root().join("docs/operate.md")).unwrap();
    let (_, operate) = operate
        .split_once("- **Exit codes:** ")
        .expect("a list in the document");
    for listed in [help, operate] {
        let (listed, _) = listed.split_once('.').expect("an end");
        assert_eq!(listed_codes(listed), of_source, "{listed}");
    }
}

/// Returns the exit codes in a file: `code: 78`, and constants of that kind.
fn exit_codes(text: &str) -> Vec<u8> {
    let lines = text.lines().map(without_comment);
    let values = lines.filter_map(|line| {
        let line = line.trim();
        let constant = line
            .strip_prefix("const ")
            .and_then(|line| line.split_once(": u8 = "));
        match constant {
            Some((name, value)) => (name.starts_with("CODE_") || name == "DIFFERS").then_some(value),
            None => line.strip_prefix("code: "),
        }
    });
    values
        .filter_map(|value| value.trim_end_matches([',', ';']).parse().ok())
        .collect()
}

/// Returns the numbers at the start of the entries of a list: `0 done, 1 failed`.
fn listed_codes(list: &str) -> BTreeSet<u8> {
    let entries = list
        .split(',')
        .filter_map(|entry| entry.split_whitespace().next());
    entries.filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn the_help_of_the_demo_lists_the_tools_of_the_terminal() {
    let shell = Shell::new();
    let help = shell.run(&["demo", "--help"]);
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""), "{help:?}");
    for (command, tool) in [
        ("tanka env list", "tanka_find_environments"),
        ("tanka env show", "tanka_show"),
        ("tanka env diff", "tanka_diff"),
        ("tanka env importers", ""),
        ("tanka fmt", "tanka_format_jsonnet"),
        ("tanka lint", "tanka_validate_jsonnet"),
        ("tanka charts list", ""),
        ("tanka charts diff", ""),
        ("tanka charts lint", "helm_lint"),
        ("tanka charts dependencies", "helm_dependency_list"),
        ("tanka charts build", "helm_dependency_build"),
        ("tanka charts update", "helm_dependency_update"),
        ("jb init", "jb_init"),
        ("jb install", "jb_install"),
        ("jb update", "jb_update"),
        ("jb list", "jb_list"),
        ("jb plan", "jb_plan"),
        ("jb rewrite", ""),
    ] {
        let typed = format!("drydock {command} ");
        let line = help.out.lines().find(|line| line.contains(&typed));
        let line = line.unwrap_or_else(|| panic!("{command}: {}", help.out));
        assert!(line.contains(tool), "{line}");
        // Each listed command exists, and its own help has the same description.
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let own = shell.run(&words);
        let about = own.out.lines().next().unwrap_or_default();
        assert!(
            own.code == Some(0) && line.ends_with(about),
            "{line}\n{}",
            own.out
        );
        assert!(own.out.contains("--json"), "{}", own.out);
    }
}

#[test]
fn the_help_names_the_file_of_a_users_own_configuration() {
    for verb in ["ask", "chat", "models"] {
        let help = Shell::new().run(&[verb, "--help"]).out;
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let named = "Without --config, the configuration file is ~/.config/drydock/drydock.toml";
        assert!(words.contains(named), "{verb}: {help}");
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let ended = Shell::new().run(&["--version"]);
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.out, format!("drydock {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_mistyped_verb_or_flag_names_the_nearest_and_exits_with_code_2() {
    let shell = Shell::new();
    for (arguments, near) in [
        (vec!["serv"], "serve"),
        (vec!["demo", "--headles"], "--headless"),
        (vec!["user", "lst"], "list"),
        (vec!["invite", "alice", "--role", "editr"], "editor"),
    ] {
        let ended = shell.run(&arguments);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.err.contains(&format!("'{near}'")), "{ended:?}");
        assert!(!ended.err.contains('\x1b'), "{ended:?}");
    }
    let nothing = shell.run(&[]);
    assert_eq!(nothing.code, Some(2));
    assert!(nothing.err.contains("Usage: drydock"), "{nothing:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let shell = Shell::new();
    for arguments in [&["--help"][..], &["demo", "--headless", "--json"]] {
        let mut child = shell
            .drydock(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert!(!err.contains("panicked"), "{err}");
    }
    assert_eq!(shell.leftover_files(), Vec::<String>::new());
}
