//! The documents show what the program does: its commands and flags, its exit codes, and what its demo says.

use crate::docs::{blocks, code_spans, document, pattern, rows};
use crate::support::built::built;
use drydock::engine::command;
use std::process::{Command, Output};

pub(crate) fn drydock(arguments: &[&str]) -> Output {
    let place = tempfile::tempdir().expect("a folder");
    Command::new(built())
        .args(arguments)
        .env_clear()
        .current_dir(place.path())
        .output()
        .expect("the program runs")
}

fn help(verbs: &[&str]) -> Option<String> {
    let output = drydock(&[verbs, &["--help"]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

#[test]
fn every_command_and_flag_in_the_documents_is_one_of_the_programs() {
    let documents = [
        "README.md",
        "docs/connect.md",
        "docs/operate.md",
        "docs/demo.md",
        "docs/pipelines.md",
    ];
    let documents = documents.map(document).join("\n");
    let word = pattern("^[a-z]+$");
    let flag = pattern("--[a-z-]+");
    let mut all = help(&[]).expect("help");
    let mut lines: Vec<String> = code_spans(&documents);
    lines.extend(
        blocks(&documents, "sh")
            .iter()
            .flat_map(|block| block.lines().map(str::to_owned)),
    );
    let mut asked = 0;
    let mut wrong = Vec::new();
    for line in lines.iter().filter(|line| line.starts_with("drydock ")) {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let nested = [
            "user", "token", "session", "audit", "data", "outbox", "slack", "telegram", "channel", "secrets",
            "runs", "schedule", "pipeline",
        ];
        let nested = nested.contains(words.first().expect("a verb"));
        let verbs = &words[..if nested { words.len().min(2) } else { 1 }];
        let Some(help) = verbs
            .iter()
            .all(|verb| word.is_match(verb))
            .then(|| help(verbs))
            .flatten()
        else {
            wrong.push(line.to_owned());
            continue;
        };
        asked += 1;
        wrong.extend(
            flag.find_iter(line)
                .map(|flag| flag.as_str())
                .filter(|flag| !help.contains(flag))
                .map(|flag| format!("{line}: {flag}")),
        );
        all.push_str(&help);
    }
    assert!(asked > 8, "the commands were read: {asked}");
    let lonely = lines.iter().filter(|line| line.starts_with("--"));
    let lonely = lonely.flat_map(|line| flag.find_iter(line).map(|flag| flag.as_str().to_owned()));
    wrong.extend(lonely.filter(|flag| !all.contains(flag.as_str())));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_readme_lists_the_commands_of_chats_as_they_are() {
    let readme = document("README.md");
    let listed = readme.split("### Commands").nth(1).expect("the section");
    let listed: Vec<Vec<String>> = rows(listed).into_iter().take(command::ALL.len()).collect();
    let known: Vec<Vec<String>> = command::ALL
        .iter()
        .map(|known| vec![format!("`{}`", known.usage()), known.what.to_owned()])
        .collect();
    assert_eq!(listed, known);
}

/// Returns a line without numbers that may differ between runs: changes are numbered in the order in which they are
/// ready.
fn comparable(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    pattern(r"CHG-\d+")
        .replace_all(&words.join(" "), "CHG-n")
        .into_owned()
}

/// TK-1, SDK-3, SDK-4, SDK-8, SDK-9, SDK-10, SDK-18, CI-23, T01, STK-5, STK-10
#[test]
fn the_demo_plays_and_the_documents_show_what_it_says() {
    let output = drydock(&["demo", "--headless"]);
    let reported = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}\n{reported}");
    let documents = [("README.md", 0, 8), ("README.md", 3, 10), ("docs/demo.md", 0, 20)];
    for (name, block, shown_min) in documents {
        let excerpt = blocks(&document(name), "text").remove(block);
        let mut lines = reported.lines().map(comparable);
        let mut shown = 0;
        for line in excerpt.lines().map(comparable).filter(|line| !line.is_empty()) {
            assert!(
                lines.any(|reported| reported == line),
                "the demo did not print, in the order of {name}: {line}\n{reported}"
            );
            shown += 1;
        }
        assert!(shown >= shown_min, "the transcript of {name} was read: {shown}");
    }
}

/// Checks that the README shows the file of the demo, with the model that people use.
#[test]
fn the_readme_shows_the_pipeline_that_the_demo_runs() {
    let shown = blocks(&document("README.md"), "yaml").remove(0);
    let run = document("src/simulation/demo/demo_script/alert.yaml");
    assert_eq!(run.matches("anthropic/demo").count(), 1);
    assert_eq!(
        shown,
        run.replace("anthropic/demo", "anthropic/claude-sonnet-4-5")
    );
}

/// TK-10
#[test]
fn exit_codes_tell_what_went_wrong() {
    assert_eq!(drydock(&["--version"]).status.code(), Some(0));
    assert_eq!(
        drydock(&["ask", "anything"]).status.code(),
        Some(1),
        "outside a repository"
    );
    assert_eq!(drydock(&["no-such-command"]).status.code(), Some(2));
    let checked = drydock(&["check"]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert_eq!(checked.status.code(), Some(78), "{said}");
    assert!(said.contains("ANTHROPIC_API_KEY"), "{said}");
}
