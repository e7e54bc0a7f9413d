//! The comparison of the documented platforms with the checks that run for them: the table, the README and SECURITY.md
//! claim exactly what `.ci/run` and the workflow do.

use crate::support::source::root;
use regex::Regex;
use std::collections::BTreeSet;
use std::process::Command;

fn file(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).expect("a file of the project")
}

/// Returns the commands of the steps of `.ci/run`.
fn steps() -> BTreeSet<String> {
    let step = Regex::new("(?m)^step '[^']+' (.+)$").expect("a pattern");
    let run = file(".ci/run");
    step.captures_iter(&run).map(|step| step[1].to_owned()).collect()
}

/// Returns the runners of the workflow.
fn runners() -> BTreeSet<String> {
    let workflow = file(".github/workflows/ci.yml");
    let listed = workflow
        .split("        runner:\n")
        .nth(1)
        .expect("a list of runners");
    let names = listed.lines().map_while(|line| line.strip_prefix("          - "));
    names.map(str::to_owned).collect()
}

/// Returns the texts between backticks.
fn spans(cell: &str) -> BTreeSet<String> {
    let span = Regex::new("`([^`]+)`").expect("a pattern");
    span.captures_iter(cell).map(|span| span[1].to_owned()).collect()
}

/// Returns the rows of the table: system, target, built, run, runner.
fn rows() -> Vec<[String; 5]> {
    let text = file("docs/platforms.md");
    let lines = text.lines().filter(|line| line.starts_with("| "));
    let rows = lines.skip(1).map(|line| {
        let cells: Vec<String> = line
            .trim_matches('|')
            .split(" | ")
            .map(|cell| cell.trim().to_owned())
            .collect();
        cells
            .try_into()
            .unwrap_or_else(|cells| panic!("not five columns: {cells:?}"))
    });
    rows.collect()
}

/// The claims of a step about targets, and the words of its script that make them true.
struct StepClaim {
    step: &'static str,
    built: &'static [&'static str],
    run: &'static [&'static str],
    by: &'static [(&'static str, &'static str)],
}

const STATIC: &str = ".ci/platforms/static";
const EMULATED: &str = ".ci/platforms/emulated";
const MACOS: &str = ".ci/platforms/macos";
const X86_64: &str = "x86_64-unknown-linux-musl";
const AARCH64: &str = "aarch64-unknown-linux-musl";

const STEP_CLAIMS: &[StepClaim] = &[
    StepClaim {
        step: "cargo test --locked",
        built: &["x86_64-unknown-linux-gnu"],
        run: &["x86_64-unknown-linux-gnu"],
        by: &[],
    },
    StepClaim {
        step: ".ci/platforms/static build x86_64",
        built: &[X86_64],
        run: &[],
        by: &[
            (
                STATIC,
                "--bin drydock --target \"$1-unknown-linux-musl\" -- $START_FILES) &&\n    is_static \"$1\" \"$program\" || return 1\n",
            ),
            (STATIC, "'^ *Type: +DYN '"),
            (STATIC, "sed -n 's/^!//p' .dockerignore | tar "),
            (STATIC, "'x86_64/Advanced Micro Devices X86-64'"),
        ],
    },
    StepClaim {
        step: ".ci/platforms/static build aarch64",
        built: &[AARCH64],
        run: &[],
        by: &[(STATIC, "'aarch64/AArch64'")],
    },
    StepClaim {
        step: ".ci/platforms/static test",
        built: &[],
        run: &[X86_64],
        by: &[
            (STATIC, "export DRYDOCK_TEST_PROGRAM\n"),
            (STATIC, "\"$DRYDOCK_TEST_PROGRAM\" demo --headless &&"),
            (STATIC, "run_static_tests --lib -- sandbox:: system:: &&"),
            (STATIC, " conformance:: image:: sandbox:: sandbox_bounds:: "),
            (STATIC, "run_tests --test dojo -- "),
        ],
    },
    StepClaim {
        step: ".ci/platforms/emulated x86_64",
        built: &[],
        run: &[X86_64],
        by: &[
            (EMULATED, "qemu-system-x86_64"),
            (EMULATED, "\nwith_all_layers\n"),
            (EMULATED, "then without_landlock; fi\n"),
            (
                EMULATED,
                "boot 'without Landlock' lsm=yama && says '^demo ended: 78$'",
            ),
            (EMULATED, "held flag && held variable"),
        ],
    },
    StepClaim {
        step: ".ci/platforms/emulated aarch64",
        built: &[],
        run: &[AARCH64],
        by: &[
            (EMULATED, "qemu-system-aarch64"),
            (
                EMULATED,
                "resource limits, Landlock, seccomp, no_new_privs' &&\n    held demo\n",
            ),
        ],
    },
    StepClaim {
        step: ".ci/platforms/macos link",
        built: &["aarch64-apple-darwin", "x86_64-apple-darwin"],
        run: &[],
        by: &[
            (MACOS, "set -- aarch64-apple-darwin x86_64-apple-darwin; fi\n"),
            (
                MACOS,
                "zig_cargo build --workspace --bins --tests \"${targets[@]}\" ||",
            ),
            (MACOS, "'aarch64-apple-darwin/feedfacf 0100000c'"),
            (MACOS, "'x86_64-apple-darwin/feedfacf 01000007'"),
        ],
    },
];

fn shown(step: &str) -> &'static StepClaim {
    let known = STEP_CLAIMS.iter().find(|shown| shown.step == step);
    known.unwrap_or_else(|| panic!("nothing is known of what `{step}` shows"))
}

#[test]
fn the_table_of_platforms_claims_what_the_scripts_do() {
    let (steps, runners) = (steps(), runners());
    let (mut reported, mut told_runners) = (BTreeSet::new(), BTreeSet::new());
    let rows = rows();
    assert!(rows.len() > 5, "the table was read: {rows:?}");
    for [system, target, built, run, workflow] in &rows {
        let target = target.trim_matches('`');
        for (cell, is_run) in [(built, false), (run, true)] {
            let commands = spans(cell);
            for command in &commands {
                assert!(
                    steps.contains(command),
                    "{system}: no step of .ci/run is `{command}`"
                );
                for (script, what) in shown(command).by {
                    assert!(file(script).contains(what), "{command}: {script} does not {what}");
                }
            }
            let shows = |command: &String| {
                let shown = shown(command);
                if is_run { shown.run } else { shown.built }.contains(&target)
            };
            let claims = !(cell == "no" || cell.starts_with("no; "));
            assert_eq!(
                (claims, claims),
                (commands.iter().any(shows), claims && commands.iter().all(shows)),
                "{system}: {cell}"
            );
            reported.extend(commands);
        }
        let named = spans(workflow);
        let fits = |runner: &String| match target {
            "x86_64-unknown-linux-gnu" => runner.starts_with("ubuntu-") && !runner.ends_with("-arm"),
            "aarch64-unknown-linux-gnu" => runner.starts_with("ubuntu-") && runner.ends_with("-arm"),
            "aarch64-apple-darwin" => runner.starts_with("macos-") && !runner.ends_with("-intel"),
            "x86_64-apple-darwin" => runner.starts_with("macos-") && runner.ends_with("-intel"),
            _ => false,
        };
        assert!(named.iter().all(fits), "{system}: {workflow}");
        assert_eq!(named.is_empty(), workflow == "no", "{system}: {workflow}");
        told_runners.extend(named);
    }
    assert_eq!(told_runners, runners);
    let of_platforms = |step: &&String| step.starts_with(".ci/platforms/");
    let untold: Vec<_> = steps
        .iter()
        .filter(of_platforms)
        .filter(|step| !reported.contains(*step))
        .collect();
    assert_eq!(untold, Vec::<&String>::new());
}

/// Compares the words about macOS with the steps that link it.
#[test]
fn what_is_said_of_macos_is_what_was_done_for_it() {
    let links = |processor: &str| {
        let target = format!("{processor}-apple-darwin");
        steps().iter().any(|step| {
            let known = STEP_CLAIMS.iter().find(|shown| shown.step == *step);
            known.is_some_and(|shown| shown.built.contains(&target.as_str()))
        })
    };
    let said = match (links("aarch64"), links("x86_64")) {
        (true, true) => "built and linked with all tests, not run by us",
        (true, false) => "built and linked with all tests, for ARM; not run by us",
        _ => "not linked, not run by us",
    };
    for document in ["README.md", "SECURITY.md"] {
        let text = file(document).replace('\n', " ");
        assert!(text.contains(said), "{document} does not say: {said}");
    }
}

#[test]
fn the_workflow_runs_the_two_commands_with_pinned_actions_and_few_rights() {
    let workflow = file(".github/workflows/ci.yml");
    let readme = file("README.md");
    for command in ["cargo run --release -- demo", "cargo test"] {
        assert!(
            readme
                .lines()
                .any(|line| line.starts_with(&format!("{command} "))),
            "{command}"
        );
    }
    let lines: Vec<&str> = workflow.lines().collect();
    for line in [
        "      - run: cargo run --release -- demo --headless",
        "      - run: cargo test",
    ] {
        let at = lines.iter().position(|one| *one == line).expect(line);
        assert!(lines[at + 1].starts_with("        timeout-minutes: "), "{line}");
    }
    assert!(workflow.contains("\n    timeout-minutes: "), "the job ends");
    assert!(
        workflow.contains("\npermissions:\n  contents: read\n\n"),
        "few rights"
    );
    assert_eq!(workflow.matches("permissions:").count(), 1);
    assert!(!workflow.contains("secrets."), "no secret");
    let pinned = Regex::new("^[a-z]+/[a-z-]+@[0-9a-f]{40} # v[0-9.]+$").expect("a pattern");
    let mut actions = lines
        .iter()
        .filter_map(|line| line.trim_start().strip_prefix("- uses: "))
        .peekable();
    assert!(actions.peek().is_some());
    assert!(actions.all(|action| pinned.is_match(action)));
    assert_eq!(
        workflow.matches("uses:").count(),
        workflow.matches("- uses: ").count()
    );
    let version = format!("RUSTUP_TOOLCHAIN: \"{}\"", rust());
    assert!(workflow.contains(&version) && workflow.contains(&format!("install {} ", rust())));
}

/// Returns the Rust version that the manifest requires.
fn rust() -> String {
    let manifest: toml::Table = toml::from_str(&file("Cargo.toml")).expect("a manifest");
    manifest["package"]["rust-version"]
        .as_str()
        .expect("a version")
        .to_owned()
}

#[test]
fn the_first_screen_says_where_it_runs_and_what_it_needs() {
    let readme = file("README.md");
    let first = readme.lines().take(16).collect::<Vec<_>>().join("\n");
    let mut paragraphs = first.split("\n\n");
    let reported = paragraphs
        .find(|one| one.starts_with("Runs on "))
        .expect("a paragraph");
    let layer = file("src/base/system/linux/layer.rs");
    let kernel = Regex::new(r"Linux (\d+\.\d+) or newer").expect("a pattern");
    let kernel = &kernel.captures(&layer).expect("the kernel that has all layers")[1];
    for said in [
        "Linux (x86-64 and ARM)".to_owned(),
        "macOS".to_owned(),
        "](docs/platforms.md)".to_owned(),
        format!("Rust {}", rust()),
        "a C compiler".to_owned(),
        format!("kernel {kernel} or newer"),
    ] {
        assert!(reported.contains(&said), "{said}: {reported}");
    }
}

/// A compiler that reports an older version.
const OLDER: &str = "#!/bin/sh
\"$THE_COMPILER\" \"$@\" | sed -e 's/^rustc [0-9.]*/rustc 1.85.0/' -e 's/^release: .*/release: 1.85.0/'
";

#[test]
fn cargo_names_the_version_that_is_needed_when_rust_is_too_old() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().expect("a folder");
    let older = place.path().join("rustc");
    std::fs::write(&older, OLDER).expect("a script");
    std::fs::set_permissions(&older, std::fs::Permissions::from_mode(0o755)).expect("a program");
    let asked = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--offline"])
        .current_dir(root())
        .env("RUSTC", &older)
        .env("THE_COMPILER", option_env!("RUSTC").unwrap_or("rustc"))
        .env("CARGO_TARGET_DIR", place.path().join("target"))
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&asked.stderr);
    assert!(!asked.status.success(), "{said}");
    let version = env!("CARGO_PKG_VERSION");
    let needed = format!("drydock@{version} requires rustc {}", rust());
    assert!(said.contains("rustc 1.85.0 is not supported"), "{said}");
    assert!(said.lines().any(|line| line.trim() == needed), "{needed}: {said}");
    assert!(!said.contains("Compiling"), "{said}");
}

/// Returns the function of `.ci/run` that runs a step, with the bound of its late steps.
fn step_function() -> String {
    let run = file(".ci/run");
    let bound = run
        .lines()
        .find(|line| line.starts_with("PLATFORM_START_SECONDS_MAX="));
    let (_, function) = run.split_once("\nstep() {\n").expect("the function");
    let (body, _) = function.split_once("\n}\n").expect("its end");
    format!(
        "set -euo pipefail\n{}\nstep() {{\n{body}\n}}\n",
        bound.expect("the bound")
    )
}

#[test]
fn a_late_step_for_another_system_is_skipped_with_a_line_that_says_how_to_run_it() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().expect("a folder");
    let scripts = place.path().join(".ci/platforms");
    std::fs::create_dir_all(&scripts).expect("a folder");
    let script = scripts.join("static");
    std::fs::write(&script, "#!/bin/sh\necho ran \"$@\"\n").expect("a script");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("a program");
    let steps = "step 'static program' .ci/platforms/static test\nstep 'another' echo other\n";
    let run = |bound: Option<&str>| {
        let mut bash = Command::new("bash");
        bash.arg("-c")
            .arg(step_function() + steps)
            .current_dir(place.path());
        bash.env_remove("DRYDOCK_CI_PLATFORM_START_SECONDS_MAX");
        bash.envs(bound.map(|bound| ("DRYDOCK_CI_PLATFORM_START_SECONDS_MAX", bound)));
        let ended = bash.output().expect("bash runs");
        assert!(ended.status.success(), "{ended:?}");
        String::from_utf8(ended.stdout).expect("a text")
    };
    let late = run(Some("-1"));
    let lines: Vec<&str> = late.lines().collect();
    let skipped = Regex::new(
        r"^SKIPPED static program: it would start after \d+ s\. Run it alone: \.ci/platforms/static test$",
    );
    assert!(skipped.expect("a pattern").is_match(lines[0]), "{late}");
    // Other steps run at any time.
    assert_eq!(lines[1..3], ["==> another", "other"], "{late}");
    let early = run(None);
    assert!(
        early.starts_with("==> static program\nran test\n==> static program: "),
        "{early}"
    );
}
