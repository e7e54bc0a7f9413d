//! `drydock completions` and `drydock man`, read by the programs that they are for.

use crate::support::require::component;
use crate::support::shell::{Shell, run_to_end};
use std::collections::BTreeSet;

/// Returns the verbs in the help of the program.
fn verbs(shell: &Shell) -> BTreeSet<String> {
    let help = shell.run(&["--help"]).out;
    let (_, commands) = help.split_once("Commands:\n").expect("a list of commands");
    let lines = commands.lines().take_while(|line| !line.trim().is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    names.map(str::to_owned).collect()
}

fn script(shell: &Shell, name: &str) -> String {
    let ended = shell.run(&["completions", name]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    let json = shell.run(&["completions", name, "--json"]).json();
    assert_eq!(json["shell"], name);
    assert_eq!(json["script"].as_str().unwrap().trim_end(), ended.out.trim_end());
    ended.out
}

#[test]
fn bash_completes_verbs_subcommands_and_values() {
    let Some(bash) = component("bash") else { return };
    let shell = Shell::new();
    shell.put("drydock.bash", &script(&shell, "bash"));
    for (words, expected) in [
        (&["drydock", "mod"][..], "models"),
        (&["drydock", "slack", ""], "manifest"),
        (&["drydock", "slack", "manifest", "--so"], "--socket"),
        (&["drydock", "completions", "z"], "zsh"),
        (&["drydock", "invite", "alice", "--role", "ed"], "editor"),
    ] {
        let typed: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let last = words.len() - 1;
        let (current, previous) = (words[last], words[last - 1]);
        let mut command = bash.command();
        shell.prepare(&mut command);
        command.arg("-c").arg(format!(
            "source ./drydock.bash; COMP_WORDS=({}); COMP_CWORD={last}; \
             _drydock drydock '{current}' '{previous}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            typed.join(" ")
        ));
        let ended = run_to_end(command);
        assert_eq!(ended.err, "", "{words:?}");
        let offered: Vec<&str> = ended.out.lines().map(str::trim).collect();
        assert!(offered.contains(&expected), "{words:?}: {offered:?}");
    }
}

#[test]
fn every_shell_gets_every_verb() {
    let shell = Shell::new();
    let verbs = verbs(&shell);
    assert!(verbs.len() > 15, "{verbs:?}");
    for name in ["bash", "zsh", "fish"] {
        let script = script(&shell, name);
        for verb in &verbs {
            assert!(script.contains(verb.as_str()), "{name}: {verb}");
        }
    }
    let ended = shell.run(&["completions", "tcsh"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""));
    assert!(
        ended.err.contains("[possible values: bash, zsh, fish]"),
        "{ended:?}"
    );
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let shell = Shell::new();
    let page = shell.run(&["man"]);
    assert_eq!((page.code, page.err.as_str()), (Some(0), ""));
    assert!(page.out.contains(".TH drydock 1"), "{}", page.out);
    let ended = shell.run(&["man", "--out", "pages/man1"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""), "{ended:?}");
    for verb in verbs(&shell) {
        assert!(page.out.contains(&format!("drydock\\-{verb}(1)")), "{verb}");
        let page = shell.get(&format!("pages/man1/drydock-{verb}.1"));
        assert!(page.contains("Examples:"), "{verb}: {page}");
    }
    let below = shell.get("pages/man1/drydock-slack-manifest.1");
    assert!(below.contains("\\-\\-socket"), "{below}");
    let Some(groff) = component("groff") else { return };
    let mut command = groff.command();
    shell.prepare(&mut command);
    command.args([
        "-man",
        "-Tascii",
        "-ww",
        "-z",
        "pages/man1/drydock.1",
        "pages/man1/drydock-serve.1",
    ]);
    let read = run_to_end(command);
    assert_eq!((read.code, read.err.as_str()), (Some(0), ""), "{read:?}");
}

#[test]
fn a_manual_that_cannot_be_written_is_an_error() {
    let shell = Shell::new();
    shell.put("file", "");
    let ended = shell.run(&["man", "--out", "file/man1"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.err.contains("file/man1: "), "{ended:?}");
}
