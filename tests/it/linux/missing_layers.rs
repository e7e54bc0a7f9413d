//! A system without one layer of the sandbox: every command that evaluates reports this first, and with the layer
//! listed in the configuration all results are the same.

use super::kernel::{FailingSyscall, LANDLOCK, LIMITS, PARENT_DEATH, SECCOMP, SINCE_4_18, without};
use crate::cli_serve::TOML;
use crate::support::shell::{BlockingModel, ProgramOutput, RunningProgram, Shell, run_to_end};
use drydock::simulation::emulator::model::{calls, queue, says};
use serde_json::json;

const MAIN: &str = "environments/dev/main.jsonnet";
const MAY_LACK: &str = "DRYDOCK_SANDBOX__LAYERS_MISSING";

fn shell() -> Shell {
    let shell = Shell::with_repository(&[
        (MAIN, "{ replicas: 2, words: std.join(' ', ['a', 'b']) }\n"),
        (
            "environments/dev/spec.json",
            "{\"apiVersion\":\"tanka.dev/v1alpha1\",\"kind\":\"Environment\",\"metadata\":{\"name\":\"dev\"},\
             \"spec\":{\"namespace\":\"dev\"}}\n",
        ),
        ("drydock.toml", TOML),
    ]);
    shell.set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789")
}

fn run(shell: &Shell, missing: &[FailingSyscall], arguments: &[&str]) -> ProgramOutput {
    let mut command = shell.drydock(arguments);
    without(&mut command, missing);
    run_to_end(command)
}

#[test]
fn without_landlock_every_command_that_evaluates_says_so_before_anything_else() {
    let shell = shell();
    for arguments in [
        &["demo", "--headless"] as &[&str],
        &["demo", "--headless", "--json"],
        &["serve", "--config", "drydock.toml"],
        &["ask", "four replicas"],
        &["ask", "--json", "four replicas"],
        &["chat"],
    ] {
        let ended = run(&shell, LANDLOCK, arguments);
        assert_eq!(
            (ended.code, ended.out.as_str()),
            (Some(78), ""),
            "{arguments:?}: {ended:?}"
        );
        assert!(
            ended
                .err
                .starts_with("This system lacks Landlock of the sandbox "),
            "{arguments:?}: {}",
            ended.err
        );
        for said in [
            "\n  Landlock: Without this layer only seccomp keeps",
            "Linux 5.13 or newer",
            "`sandbox.layers_missing = [\"landlock\"]`",
            "DRYDOCK_SANDBOX__LAYERS_MISSING=landlock",
            "--layers-missing landlock",
        ] {
            assert!(ended.err.contains(said), "{arguments:?}: {said}: {}", ended.err);
        }
        assert_eq!(shell.leftover_files(), Vec::<String>::new());
        assert!(!shell.work().join("data").exists(), "{arguments:?}");
    }
}

#[test]
fn each_layer_that_is_missing_is_named() {
    let shell = shell();
    for (missing, named, listed) in [
        (LANDLOCK, "Landlock", "landlock"),
        (SECCOMP, "seccomp, no_new_privs", "system_calls,no_new_privileges"),
        (PARENT_DEATH, "death with its parent", "parent_death"),
        (LIMITS, "resource limits", "resource_limits"),
    ] {
        let ended = run(&shell, missing, &["serve", "--config", "drydock.toml"]);
        assert_eq!(ended.code, Some(78), "{ended:?}");
        let first = format!("This system lacks {named} of the sandbox ");
        assert!(ended.err.starts_with(&first), "{named}: {}", ended.err);
        let way_out = format!("{MAY_LACK}={listed} in the environment");
        assert!(ended.err.contains(&way_out), "{named}: {}", ended.err);
        let checked = run(
            &shell,
            missing,
            &["check", "--set", &format!("sandbox.layers_missing={listed}")],
        );
        assert!(
            checked.out.contains(&format!("; without {named}, as configured")),
            "{checked:?}"
        );
    }
}

/// Returns the lines of the demo, without the parts that differ between runs.
fn story(ended: &ProgramOutput) -> Vec<(String, String, bool)> {
    let lines = ended.out.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        (text("scene"), text("who"), line["ok"] == true)
    });
    lines.collect()
}

#[test]
fn the_demo_plays_the_same_story_without_a_layer_that_may_be_missing() {
    let shell = Shell::new();
    let whole = shell.run(&["demo", "--headless", "--json"]);
    assert_eq!(whole.code, Some(0), "{whole:?}");
    let reported = "this system lacks Landlock; the configuration allows this. ";
    let by_flag = run(
        &shell,
        LANDLOCK,
        &["demo", "--headless", "--json", "--layers-missing", "landlock"],
    );
    let by_variable = |missing| {
        let shell = Shell::new().set(MAY_LACK, "[\"landlock\"]");
        run(&shell, missing, &["demo", "--headless", "--json"])
    };
    for ended in [by_flag, by_variable(LANDLOCK), by_variable(SINCE_4_18)] {
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.err.starts_with(reported), "{}", ended.err);
        assert_eq!(story(&ended), story(&whole));
    }
}

#[test]
fn a_layer_nobody_knows_is_refused_by_the_demo_with_the_names_there_are() {
    let shell = Shell::new();
    let ended = shell.run(&["demo", "--headless", "--layers-missing", "walls"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(78), ""), "{ended:?}");
    assert!(
        ended
            .err
            .contains("entry 1 is not a layer of this system; its layers are parent_death, "),
        "{ended:?}"
    );
}

#[test]
fn a_server_that_may_lack_a_layer_starts_and_logs_which() {
    let shell = shell();
    let mut command = shell.drydock(&["serve", "--set", "sandbox.layers_missing=landlock"]);
    without(&mut command, LANDLOCK);
    let mut running = RunningProgram::start(command);
    let line = running.wait_for_stderr_line("the configuration allows this");
    assert!(line.contains("this system lacks Landlock"), "{line}");
    running.wait_for_stderr_line("listening on http://");
    running.terminate();
    assert_eq!(running.end().code, Some(0));
}

/// Returns the result of a command: its exit code, its output, and the file it may have changed.
fn left(ended: &ProgramOutput, shell: &Shell) -> (Option<i32>, String, String) {
    (ended.code, ended.out.clone(), shell.get(MAIN))
}

#[test]
fn with_fewer_layers_the_result_of_a_command_is_the_same() {
    let all: Vec<FailingSyscall> = [SINCE_4_18, SECCOMP, PARENT_DEATH, LIMITS].concat();
    let names = "landlock,system_calls,no_new_privileges,parent_death,resource_limits";
    for arguments in [
        &["tanka", "env", "list"] as &[&str],
        &["tanka", "env", "show", "environments/dev"],
        &["tanka", "env", "diff", "environments/dev"],
        &["tanka", "env", "show", "environments/nowhere"],
        &["ask", "four replicas"],
    ] {
        let results = [false, true].map(|is_weak| {
            let model = (arguments[0] == "ask").then(|| {
                BlockingModel::start(queue([
                    calls(
                        "file_edit",
                        json!({ "path": MAIN, "old": "replicas: 2", "new": "replicas: 4" }),
                    ),
                    calls("tanka_show", json!({ "env_path": "environments/dev" })),
                    says("Four replicas now."),
                ]))
            });
            let mut shell = shell().set(MAY_LACK, names);
            if let Some(model) = &model {
                shell = shell.set("DRYDOCK_PROVIDERS__ANTHROPIC__BASE_URL", &model.url());
            }
            let mut command = shell.drydock(arguments);
            if is_weak {
                without(&mut command, &all);
            }
            let ended = run_to_end(command);
            let asked = model.iter().flat_map(BlockingModel::asked);
            let answers = asked.map(|asked| {
                let results = format!("{:?}", asked.last_results());
                (asked.last_user_text().to_owned(), results)
            });
            let answers: Vec<(String, String)> = answers.collect();
            if arguments[0] == "ask" {
                assert_eq!(answers.len(), 3, "{answers:?}");
                assert!(
                    answers.iter().skip(1).all(|(_, results)| results != "[]"),
                    "{answers:?}"
                );
            }
            (left(&ended, &shell), answers, ended.err)
        });
        let [(strong, reported, words), (weak, weakly_told, weak_words)] = results;
        // This kernel cannot resolve paths in one call either, so the program walks them.
        assert_eq!(strong, weak, "{arguments:?}: {words} {weak_words}");
        assert_eq!(reported, weakly_told, "{arguments:?}");
    }
}
