//! `drydock demo --headless`: it plays the whole demo and leaves nothing behind.

use crate::support::built::built;
use crate::support::require;
use crate::support::shell::{RunningProgram, Shell, run_to_end};
use std::collections::BTreeSet;
use std::process::Command;

#[test]
fn the_story_plays_as_text_and_leaves_nothing_behind() {
    let shell = Shell::new();
    let ended = shell.run(&["demo", "--headless"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains(" lines, all passed, "), "{}", ended.out);
    assert!(
        !ended.out.contains('✗') && !ended.out.contains('\x1b'),
        "{}",
        ended.out
    );
    assert_eq!(shell.leftover_files(), Vec::<String>::new());
    assert_eq!(std::fs::read_dir(shell.work()).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(shell.home()).unwrap().count(), 2);
}

#[test]
fn every_json_line_parses_and_the_last_says_how_it_went() {
    let shell = Shell::new();
    let ended = shell.run(&["demo", "--headless", "--json"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let lines: Vec<serde_json::Value> = ended
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (last, steps) = lines.split_last().unwrap();
    assert_eq!(last["passed"], true);
    assert_eq!(last["lines"], steps.len());
    let scenes: BTreeSet<&str> = steps.iter().map(|line| line["scene"].as_str().unwrap()).collect();
    assert!(scenes.len() >= 8, "{scenes:?}");
    assert!(steps.iter().all(|line| line["ok"] == true));
    let expected = OF_THE_LOOP.iter().chain(OF_THE_PLATFORMS).chain(OF_THE_PIPELINE);
    for (scene, place, who, text) in expected {
        let is_it = |line: &&serde_json::Value| {
            line["scene"] == *scene
                && line["place"] == *place
                && line["who"] == *who
                && line["text"].as_str().is_some_and(|said| said.contains(text))
        };
        let found = steps.iter().find(is_it);
        assert!(
            found.is_some(),
            "no `{text}` of {who} in `{scene}`: {}",
            ended.out
        );
    }
    assert_eq!(shell.leftover_files(), Vec::<String>::new());
}

/// Lines of the scenes about the loop of models and tools: scene, place, speaker, and a part of the text.
const OF_THE_LOOP: &[(&str, &str, &str, &str)] = &[
    (STEERING, THREAD, "alice", "and in staging, too"),
    (
        STEERING,
        THREAD,
        "drydock",
        "is ready: 2 environments, 2 files, +2 −2",
    ),
    (
        STEERING,
        "model",
        "checked",
        "the second message came with the result of the first step",
    ),
    (STEERING, THREAD, "checked", "one answer covers both messages"),
    (
        QUESTION,
        THREAD,
        "drydock",
        "How many replicas should api have in prod?",
    ),
    (QUESTION, THREAD, "alice", "[8 replicas]"),
    (
        QUESTION,
        THREAD,
        "drydock",
        "api in prod has 8 replicas, as you chose.",
    ),
    (
        FALLBACK,
        THREAD,
        "drydock",
        "the model provider is overloaded (529)",
    ),
    (FALLBACK, THREAD, "drydock", "backup/second answered instead."),
    (
        BUDGET,
        "Telegram",
        "drydock",
        "I stopped: the budget of a person for one day",
    ),
    (BUDGET, "#platform", "drydock", "bob needs an administrator"),
    (
        BUDGET,
        "#platform",
        "carol",
        "[Allow 75,000 tokens more for today]",
    ),
    (
        BUDGET,
        "Telegram",
        "drydock",
        "carol allowed 75,000 tokens more for today.",
    ),
    (BUDGET, "Telegram", "drydock", "1 finished step is kept."),
    (BUDGET, "Telegram", "drydock", "Only prod differs"),
];

/// Lines of the scenes about platforms and a person's machine.
const OF_THE_PLATFORMS: &[(&str, &str, &str, &str)] = &[
    (TWO_PEOPLE, "Telegram", "bob", "[Get patch]"),
    (TWO_PEOPLE, "Telegram", "checked", "the patch was sent as a file"),
    (
        SOCKET,
        "Slack 2, #field",
        "checked",
        "by then it was stored, once",
    ),
    (SOCKET, "Slack 2, #field, thread", "dana", "[Get patch]"),
    (SOCKET, "Slack 2, #field", "checked", "no event was lost"),
    (
        DISCORD,
        "Discord, #ops, thread",
        "drydock",
        "is ready: prod, 1 file, +1 −1",
    ),
    (DISCORD, "Discord, #ops, thread", "erin", "[Get patch]"),
    (
        PULL,
        "Slack, direct",
        "drydock",
        "drydock login http://127.0.0.1:",
    ),
    (
        PULL,
        "alice's machine",
        "drydock",
        "Logged in to http://127.0.0.1:",
    ),
    (PULL, "alice's machine", "alice", "drydock pull CHG-"),
    (
        PULL,
        "alice's machine",
        "checked",
        "+    image: 'registry.example.com/cache:7.4.2',",
    ),
    (
        PULL,
        "alice's machine",
        "checked",
        "nothing was staged or committed",
    ),
];

/// Lines of the scene about the pipeline that an alert starts.
const OF_THE_PIPELINE: &[(&str, &str, &str, &str)] = &[
    (ALERT, "webhook", "checked", "answered 200 once it was durable"),
    (
        ALERT,
        "#platform",
        "drydock",
        "Run 1 of more-memory needs a decision.",
    ),
    (ALERT, "#platform", "drydock", "approve  waits for an answer"),
    (ALERT, "#platform", "eve", "[yes]"),
    (
        ALERT,
        "#platform, only alice sees it",
        "drydock",
        "Nothing was answered: this question is for an administrator of infra.",
    ),
    (
        ALERT,
        "#platform",
        "checked",
        "eve was told nothing, and the question is still open",
    ),
    (ALERT, "#platform", "carol", "[yes]"),
    (ALERT, "#oncall", "drydock", "A limit of 256Mi is prepared."),
    (
        ALERT,
        "#platform",
        "drydock",
        "Run 1 of more-memory on infra: succeeded",
    ),
    (
        ALERT,
        "model",
        "checked",
        "the words of the alert came as marked data",
    ),
];
const TWO_PEOPLE: &str = "A change, and another one at the same time";
const SOCKET: &str = "A workspace without a public address: Socket Mode";
const DISCORD: &str = "The same on Discord";
const PULL: &str = "A change is pulled into a checkout";
const STEERING: &str = "A message while the model works";
const QUESTION: &str = "The model asks for a decision";
const FALLBACK: &str = "The model is overloaded, and another one answers";
const BUDGET: &str = "A budget is used up, and an administrator allows more";
const ALERT: &str = "An alert starts a pipeline, which asks before it tells the team";
const THREAD: &str = "#platform, thread";

/// I6
#[test]
fn the_demo_opens_no_connection_beyond_this_machine() {
    let Some(strace) = require::component("strace") else {
        return;
    };
    let shell = Shell::new();
    let log = shell.home().join("connects");
    let mut command = strace.command();
    command
        .args(["-f", "-qq", "-e", "trace=connect,sendto,sendmsg", "-o"])
        .arg(&log)
        .arg(built())
        .args(["demo", "--headless", "--json"]);
    shell.prepare(&mut command);
    let ended = run_to_end(command);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let log = std::fs::read_to_string(log).unwrap();
    let addressed: Vec<&str> = log.lines().filter(|line| line.contains("sa_family=")).collect();
    assert!(!addressed.is_empty(), "nothing was traced");
    let local = |line: &&str| {
        line.contains("sa_family=AF_UNIX")
            || line.contains("inet_addr(\"127.0.0.1\")")
            || line.contains("inet_pton(AF_INET6, \"::1\"")
    };
    let beyond: Vec<&&str> = addressed.iter().filter(|line| !local(line)).collect();
    assert!(beyond.is_empty(), "{beyond:?}");
}

/// Starts the demo like a visitor, without pauses.
fn at_a_terminal(shell: &Shell, mut script: Command) -> RunningProgram {
    let demo = format!("{} demo --pace 0", built().display());
    script.args(["-q", "-e", "-f", "-c", &demo, "/dev/null"]);
    shell.prepare(&mut script);
    RunningProgram::start(script)
}

#[test]
fn a_visitor_at_a_terminal_who_types_help_is_shown_the_tools() {
    let Some(script) = require::component("script") else {
        return;
    };
    let shell = Shell::new();
    let mut running = at_a_terminal(&shell, script.command());
    running.wait_for_stdout_line("`help` lists the tools you have in the terminal.");
    running.type_line("help");
    running.wait_for_stdout_line("Tools in the terminal, each with --json, and their names for a model:");
    let charts = running.wait_for_stdout_line("tanka charts build");
    assert!(charts.contains("helm_dependency_build"), "{charts}");
    running.type_line("");
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(shell.leftover_files(), Vec::<String>::new());
}

#[test]
fn a_visitor_at_a_terminal_is_shown_whole_answers_and_told_what_the_model_knows() {
    let Some(script) = require::component("script") else {
        return;
    };
    let shell = Shell::new();
    let mut running = at_a_terminal(&shell, script.command());
    running.wait_for_stdout_line("An empty line or Ctrl-D ends the demo.");
    running.type_line("paint it blue");
    running.wait_for_stdout_line("This is the demo model; I know these requests:");
    running.type_line("bump web to 4 replicas and 512Mi in dev");
    running.wait_for_stdout_line("Nothing was applied, committed or pushed.");
    running.wait_for_stdout_line("▸ environments/dev/main.jsonnet  +2 −2");
    running.type_line("scale api in prod for the sale");
    running.wait_for_stdout_line("How many replicas should api have in prod?");
    running.type_line("8 replicas");
    running.wait_for_stdout_line("api in prod has 8 replicas, as you chose.");
    running.type_line("!status");
    running.wait_for_stdout_line("Delivery");
    running.type_line("");
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(shell.leftover_files(), Vec::<String>::new());
}

#[test]
fn a_stop_in_the_middle_leaves_no_directory() {
    let shell = Shell::new();
    for stop in [
        RunningProgram::interrupt,
        RunningProgram::terminate,
        RunningProgram::hang_up,
    ] {
        let mut running = shell.start(&["demo", "--headless", "--pace", "2000"]);
        running.wait_for_stdout_line("A change, and another one at the same time");
        stop(&running);
        let ended = running.end();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.ends_with("interrupted\n"), "{ended:?}");
        assert_eq!(shell.leftover_files(), Vec::<String>::new());
    }
}
