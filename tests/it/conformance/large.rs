//! Files of several megabytes: generated libraries and texts that are evaluated, imported, shown, formatted and linted.
//! The results are compared with recorded sums of the results of go-jsonnet 0.22, and live with its programs if they
//! are installed. A file above the limit is reported with the key that changes the limit, and affects no other file.

use super::evaluation::values_equal;
use crate::secrets::commit;
use crate::support::app::{TestApp, step_number};
use crate::support::evaluation::{evaluate, evaluator, snippet_request};
use crate::support::require::component;
use crate::support::shell::{LARGE_FILE_LOCK, ProgramOutput, Shell};
use drydock::rendering::jsonnet::{CrossCheckMode, CrossCheckResult, EvalLimits, EvalRequest};
use drydock::simulation::emulator::model::{ModelRequest, calls, says};
use drydock::state::workspace::Directory;
use gix::objs::tree::EntryKind;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

/// The sizes of the libraries, by their names.
const SIZES: [(&str, usize); 2] = [("large-1", 1_200_000), ("large-4", 4_200_000)];
/// The size of a file above the default limit.
const TOO_LARGE: usize = 17 << 20;
/// The message about that file in every command.
const BOUND: &str =
    "`lib/too-large.libsonnet` has 17825792 bytes; the limit is 16777216 (`sandbox.file_bytes_max`)";

/// The time limit. A build without optimisation may be slow on a busy machine.
const SECONDS_MAX: u64 = 120;
const KEY: &str = "DRYDOCK_SANDBOX__FILE_BYTES_MAX";

/// The SHA-256 of the results of go-jsonnet.
const RECORDED: [(&str, &str); 10] = [
    (
        "code large-1",
        "903fb75b4673f6e99619732cb1eabc3d1b9f11865661309af0542f16ad5094ff",
    ),
    (
        "text large-1",
        "580e6c7b49954515937f172911cccf59ea360f2a7d505cd7d294272fa6a688b2",
    ),
    (
        "value large-1",
        "c5f1a6e85625a326079bf5ab0201af7a6890f271a4321960bfa4e849201d198e",
    ),
    (
        "show large-1",
        "b562c0af0db50a08c4d27df20f89105525c29e272470131d403b8ec3029e8821",
    ),
    (
        "fmt large-1",
        "915ae627fd07264b33d75245427746fc0dcc7715509119d612454c9035dd1456",
    ),
    (
        "code large-4",
        "85499525472a6fb8941a99dae470089f613e843b89cf68cbffb94f7040526f4f",
    ),
    (
        "text large-4",
        "6cb5e57a5f9e00410098fd14920c2aa55d1d075b6bb91bce3932469b8c4aa613",
    ),
    (
        "value large-4",
        "6aa13d73e20ef4830292272105c411dfddfa401d4f48a4d380bf7720bc370af1",
    ),
    (
        "show large-4",
        "2a6137d57b89fbfaf8004f618d3d01ddcc240e6a66a47c20a6c28a45307d8fd9",
    ),
    (
        "fmt large-4",
        "a5cb356ead83a6420c52d600ee81c31c3847d2bc689a8b1d03b98bb2c7e87bbd",
    ),
];

/// Returns a library of functions that is not in the standard style.
fn library(bytes: usize) -> String {
    let mut text = "{\n".to_owned();
    for n in 0.. {
        if text.len() >= bytes {
            break;
        }
        let line = writeln!(
            text,
            "  kind{n}( name,replicas = 1 )::{{apiVersion:\"v1\",kind:'Kind{n}',metadata:{{name:name,\
             labels:{{app:name+\"-{n}\"}}}},data:{{number:{n}*3,text:\"x%d\" % replicas}}}},"
        );
        line.expect("a text takes a line");
    }
    text + "}\n"
}

/// Returns a value that is as large as its program.
fn data(bytes: usize) -> String {
    let line = |n: usize| {
        format!(
            "  {{ name: 'item-{n}', list: [{n}, {n}.5, -{n}], 'é ü': \"it's 🚀 {n}{}\" }},\n",
            " filled".repeat(40)
        )
    };
    let lines: String = (1..bytes / line(9_999).len()).map(line).collect();
    format!("[\n{lines}]\n")
}

/// Returns an environment that uses a library and a text.
fn main(name: &str) -> String {
    format!(
        "local l = import '{name}.libsonnet';\n\
         {{ ['a%d' % n]: l['kind%d' % (n * n)]('a%d' % n, n) for n in std.range(0, 70) }}\n\
         + {{ text: {{ apiVersion: 'v1', kind: 'ConfigMap', metadata: {{ name: 'text' }}, data: {{\n\
         \x20 functions: std.length(std.objectFieldsAll(l)), sum: std.md5(importstr '{name}.txt') }} }} }}\n"
    )
}

const SPEC: &str = r#"{"apiVersion":"tanka.dev/v1alpha1","kind":"Environment","metadata":{"name":"x"},"spec":{"namespace":"large"}}"#;

/// An environment that imports the too large file.
const OVER: &str = "(import 'too-large.libsonnet').a\n";

const ALICE: &str = "U0ALICE";

/// Returns the programs on the files of one size, by their names.
fn programs(name: &str) -> [(String, String); 3] {
    [
        (
            format!("code {name}"),
            format!(
                "local l = import '{name}.libsonnet'; \
                 {{ few: [l.kind0('a'), l.kind7('b', 2), l.kind6000('z', replicas=3)], all: std.length(std.objectFieldsAll(l)) }}"
            ),
        ),
        (
            format!("text {name}"),
            format!(
                "local t = importstr '{name}.libsonnet'; \
                 {{ length: std.length(t), sum: std.md5(t), lines: std.length(std.split(t, '\\n')), begins: t[0:90] }}"
            ),
        ),
        (format!("value {name}"), format!("import '{name}.data'")),
    ]
}

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns the sum of a value, with the fields in the order of their names.
fn sum_of(value: &Value) -> String {
    sum(value.to_string().as_bytes())
}

/// The comparisons so far.
#[derive(Default)]
struct FileComparisons {
    all: usize,
    wrong: Vec<String>,
}

impl FileComparisons {
    fn check(&mut self, what: &str, holds: bool, otherwise: impl FnOnce() -> String) {
        self.all += 1;
        if !holds {
            self.wrong.push(format!("{what}: {}", otherwise()));
        }
    }

    fn check_recorded(&mut self, what: &str, ours: &str) {
        let recorded = RECORDED.iter().find(|(name, _)| *name == what);
        let recorded = recorded.map_or("", |(_, sum)| sum);
        self.check(what, recorded == ours, || {
            format!("recorded {recorded:?}, ours {ours:?}")
        });
    }
}

/// Returns the value of a program in this directory from go-jsonnet, if it is installed.
fn go_jsonnet_value(work: &Path, arguments: &[&str]) -> Option<Value> {
    let jsonnet = component("jsonnet")?;
    let mut command = jsonnet.command();
    command.current_dir(work).args(["-J", "lib"]).args(arguments);
    let run = command.stdin(Stdio::null()).output().expect("jsonnet starts");
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "{said}");
    Some(serde_json::from_slice(&run.stdout).expect("it writes JSON"))
}

fn shell() -> Shell {
    let shell = Shell::with_repository(&[("jsonnetfile.json", "{}\n")]);
    for (name, bytes) in SIZES {
        let library = library(bytes);
        shell.put(&format!("lib/{name}.libsonnet"), &library);
        shell.put(&format!("lib/{name}.txt"), &library);
        shell.put(&format!("lib/{name}.data"), &data(bytes));
        shell.put(&format!("environments/{name}/main.jsonnet"), &main(name));
        shell.put(&format!("environments/{name}/spec.json"), SPEC);
    }
    shell.put("lib/too-large.libsonnet", &too_large());
    shell.put("environments/over/main.jsonnet", OVER);
    shell.put("environments/over/spec.json", SPEC);
    shell
}

/// Returns a library above the size limit.
fn too_large() -> String {
    let (begins, ends) = ("{ a: {} } // ", "\n");
    let filled = "x".repeat(TOO_LARGE - begins.len() - ends.len());
    format!("{begins}{filled}{ends}")
}

fn run(shell: &Shell, arguments: &[&str]) -> ProgramOutput {
    let slow = format!("sandbox.seconds_max={SECONDS_MAX}");
    shell.run(&[&["--set", &slow, "tanka"], arguments].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn large_files_give_the_recorded_go_jsonnet_results() {
    let _turn = LARGE_FILE_LOCK.lock().await;
    let (shell, mut compared) = (shell(), FileComparisons::default());
    let work = shell.work();
    let evaluator = evaluator(EvalLimits {
        time_max: Duration::from_secs(SECONDS_MAX),
        ..EvalLimits::default()
    });
    let request = |text: &str| EvalRequest {
        tree: Arc::new(Directory::open(&work).expect("a work tree")),
        jpath: vec!["lib".to_owned()],
        cross_check: CrossCheckMode::On,
        ..snippet_request(text)
    };
    for (name, text) in SIZES.iter().flat_map(|(name, _)| programs(name)) {
        let evaluated = evaluate(&evaluator, request(&text)).await.expect("a value");
        assert_eq!(evaluated.cross_check, CrossCheckResult::Agrees, "{name}");
        let ours: Value = serde_json::from_slice(&evaluated.json).expect("JSON");
        if let Some(theirs) = go_jsonnet_value(&work, &["-e", &text]) {
            assert!(values_equal(&theirs, &ours), "{name}");
        }
        compared.check_recorded(&name, &sum_of(&ours));
    }
    for text in ["import", "importstr"] {
        let failed = evaluate(&evaluator, request(&format!("{text} 'too-large.libsonnet'"))).await;
        let said = failed.expect_err("above the bound").to_string();
        compared.check(text, said.contains(BOUND), || said.clone());
    }
    for (name, _) in SIZES {
        let environment = format!("environments/{name}");
        let shown = run(&shell, &["env", "show", &environment, "--json"]);
        assert_eq!(shown.code, Some(0), "{}", shown.err);
        let shown = shown.json();
        assert_eq!(shown["cross_check"], "agrees", "{name}");
        // By name and without the namespace of the environment, as the program writes them.
        let objects = shown["objects"]
            .as_array()
            .expect("objects")
            .iter()
            .map(|object| {
                let mut object = object.clone();
                let metadata = object["metadata"].as_object_mut().expect("metadata");
                assert_eq!(metadata.remove("namespace"), Some("large".into()), "{name}");
                (
                    object["metadata"]["name"].as_str().expect("a name").to_owned(),
                    object,
                )
            });
        let ours = Value::Object(objects.collect());
        if let Some(theirs) = go_jsonnet_value(&work, &[&format!("{environment}/main.jsonnet")]) {
            assert!(values_equal(&theirs, &ours), "{name}");
        }
        compared.check_recorded(&format!("show {name}"), &sum_of(&ours));
    }
    check_bound_error(&shell, &mut compared);
    linted(&shell, &mut compared);
    formatted(&shell, &mut compared);
    println!(
        "large files {}/{} (0 known)",
        compared.all - compared.wrong.len(),
        compared.all
    );
    assert!(compared.wrong.is_empty(), "{}", compared.wrong.join("\n"));
}

/// Checks that the key in the message changes the limit.
fn check_bound_error(shell: &Shell, compared: &mut FileComparisons) {
    let over = run(shell, &["env", "show", "environments/over"]);
    compared.check(
        "show over",
        over.code == Some(1) && over.err.contains(BOUND),
        || format!("{over:?}"),
    );
    let show = |bound: &str| {
        let slow = format!("sandbox.seconds_max={SECONDS_MAX}");
        let mut command = shell.drydock(&["--set", &slow, "tanka", "env", "show", "environments/large-4"]);
        command.env(KEY, bound);
        let ended = command.output().expect("it starts");
        (
            ended.status.code(),
            String::from_utf8_lossy(&ended.stderr).into_owned(),
        )
    };
    let lower = show("2097152");
    let reported = "bytes; the limit is 2097152 (`sandbox.file_bytes_max`)";
    compared.check(
        "a lower bound",
        lower.0 == Some(1) && lower.1.contains(reported),
        || format!("{lower:?}"),
    );
    let enough = show("5242880");
    compared.check("a bound that is enough", enough.0 == Some(0), || {
        format!("{enough:?}")
    });
}

/// Checks that a file above the limit is an error for itself and for its importers, and for no other file.
fn linted(shell: &Shell, compared: &mut FileComparisons) {
    let linted = run(shell, &["lint", "."]);
    let errors = linted.out.lines().filter(|line| line.starts_with("error: "));
    let errors: Vec<&str> = errors.collect();
    let expected = [
        format!(
            "error: environments/over/main.jsonnet:1:2-30 couldn't open import \"too-large.libsonnet\": {BOUND}"
        ),
        format!("error: lib/too-large.libsonnet: {BOUND}"),
        format!(
            "error: `environments/over` does not render: import \"too-large.libsonnet\" of \
             `environments/over/main.jsonnet`: {BOUND} (at environments/over/main.jsonnet:1:2)"
        ),
    ];
    compared.check("lint", linted.code == Some(1) && errors == expected, || {
        format!("{errors:#?}")
    });
    let reported = "6 files checked; environments that use them: 2 of 3 rendered";
    compared.check("lint, all others", linted.err.contains(reported), || {
        linted.err.clone()
    });
}

/// Checks that a file above the limit is reported, and all others are formatted.
fn formatted(shell: &Shell, compared: &mut FileComparisons) {
    let written = SIZES.map(|(name, _)| shell.get(&format!("lib/{name}.libsonnet")));
    let ended = run(shell, &["fmt", "lib"]);
    let is_told = ended.code == Some(1) && ended.err.contains(BOUND);
    compared.check("fmt", is_told, || format!("{ended:?}"));
    for ((name, _), before) in SIZES.iter().zip(written) {
        let after = shell.get(&format!("lib/{name}.libsonnet"));
        assert_ne!(before, after, "{name}");
        if let Some(jsonnetfmt) = component("jsonnetfmt") {
            let file = shell.home().join("theirs.libsonnet");
            std::fs::write(&file, before).expect("a file");
            let run = jsonnetfmt
                .command()
                .arg(&file)
                .output()
                .expect("jsonnetfmt starts");
            assert!(
                run.stdout == after.as_bytes(),
                "{name} is formatted in another way"
            );
        }
        compared.check_recorded(&format!("fmt {name}"), &sum(after.as_bytes()));
    }
}

/// The MD5 of the larger text, from go-jsonnet.
const SUM_IN_A_CHAT: &str = "sum: 867ac0315373cf9a6843e2600e087977";

#[tokio::test]
async fn a_chat_reads_large_files_and_names_the_key_of_the_bound() {
    let _turn = LARGE_FILE_LOCK.lock().await;
    let show = |environment: &str| {
        calls(
            "tanka_show",
            json!({ "env_path": format!("environments/{environment}") }),
        )
    };
    let seconds = SECONDS_MAX.to_string();
    let settings = [("sandbox.seconds_max", seconds.as_str())];
    let app = TestApp::with_settings(
        move |asked: &ModelRequest| match step_number(asked) {
            0 => show("large-4"),
            1 => show("over"),
            _ => says("That is all."),
        },
        &settings,
    )
    .await;
    let (name, bytes) = SIZES[1];
    let (library, main, too_large) = (library(bytes), main(name), too_large());
    let files = [
        ("lib/large-4.libsonnet", library.as_str()),
        ("lib/large-4.txt", &library),
        ("lib/too-large.libsonnet", &too_large),
        ("environments/large-4/main.jsonnet", &main),
        ("environments/large-4/spec.json", SPEC),
        ("environments/over/main.jsonnet", OVER),
        ("environments/over/spec.json", SPEC),
    ];
    commit(&app, &files.map(|(path, text)| (path, EntryKind::Blob, text)));
    app.admit_slack_editor(ALICE).await;
    app.ask(ALICE, "show me both").await;
    let asked = app.model_requests();
    let results = asked[2].messages.iter().flat_map(|message| &message.results);
    let answers: Vec<&str> = results.map(|result| result.content.as_str()).collect();
    for expected in ["# `environments/large-4`: 72 objects", SUM_IN_A_CHAT, BOUND] {
        assert!(
            answers.iter().any(|answer| answer.contains(expected)),
            "{expected}: {answers:?}"
        );
    }
}
