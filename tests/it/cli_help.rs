//! What the program says about itself, and how it takes mistakes.

use crate::support::shell::Shell;
use std::process::Stdio;

const VERBS: [&str; 10] = [
    "demo", "serve", "ask", "chat", "check", "invite", "user", "session", "audit", "tanka",
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
        assert!(
            ended
                .out
                .contains("Exit codes: 0 done, 1 failed, 2 wrong usage, 78 wrong configuration.")
        );
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let ended = Shell::new().run(&["--version"]);
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.out, format!("drydock {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_mistyped_verb_or_flag_is_told_with_the_nearest_and_code_2() {
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
    assert_eq!(shell.left_over(), Vec::<String>::new());
}
