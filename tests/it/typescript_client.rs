//! The TypeScript client: its types are generated from the description of the API, its code is well typed, and its example
//! runs against the gateway.

use crate::runs_api::{publish, token};
use crate::support::app::TestApp;
use crate::support::require::{CLIENT, Component, component};
use crate::support::source::root;
use drydock::simulation::emulator::model::{calls, queue};
use drydock::state::access::{Role, TokenScope};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const ALICE: &str = "U0ALICE";
pub(crate) const DIRECTORY: &str = "clients/typescript";
const TYPES: &str = "clients/typescript/src/schema.d.ts";

/// The end of a program.
#[derive(Debug)]
pub(crate) struct ProgramEnd {
    pub(crate) code: Option<i32>,
    out: String,
    err: String,
}

/// Runs a program to its end, while the gateway goes on.
fn ended(command: &mut Command, input: &str) -> ProgramEnd {
    tokio::task::block_in_place(|| {
        let command = command
            .current_dir(root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        ProgramEnd {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    })
}

/// Checks a client and writes its programs to a directory.
pub(crate) fn build(node: &Component, client: &Path, out: &Path) -> ProgramEnd {
    let mut command = node.command();
    ended(command.args([CLIENT, "build"]).args([client, out]), "")
}

/// Copies the client without what was installed for it.
fn copy_client(to: &Path) {
    for place in ["tsconfig.json", "src", "examples"] {
        let from = root().join(DIRECTORY).join(place);
        if from.is_file() {
            std::fs::copy(from, to.join(place)).unwrap();
            continue;
        }
        std::fs::create_dir(to.join(place)).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), to.join(place).join(entry.file_name())).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_types_of_the_client_are_those_that_the_server_describes() {
    let Some(node) = component("openapi-typescript") else {
        return;
    };
    let app = TestApp::new(queue([])).await;
    let (status, description) = app.get("/api/openapi.json").await;
    assert_eq!(status, 200);
    let generated = ended(node.command().args([CLIENT, "types"]), &description);
    assert_eq!((generated.code, generated.err.as_str()), (Some(0), ""));
    let file = root().join(TYPES);
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&file, &generated.out).unwrap();
    }
    let kept = std::fs::read_to_string(file).unwrap();
    let mut lines = kept.lines().zip(generated.out.lines());
    let differs = lines.find(|(kept, generated)| kept != generated);
    assert!(
        kept == generated.out,
        "`INSTA_UPDATE=always cargo test --test it typescript_client` writes {TYPES}; it differs at {differs:?}"
    );
}

/// CI-15
#[tokio::test(flavor = "multi_thread")]
async fn a_typed_client_starts_a_run_and_waits_for_its_result() {
    let Some(node) = component("openapi-typescript") else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let [out, wrong, unused] = ["out", "wrong", "unused"].map(|name| {
        let directory = place.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        directory
    });
    let built = build(&node, &root().join(DIRECTORY), &out);
    assert_eq!((built.code, built.out.as_str()), (Some(0), ""), "{built:?}");
    // A program that uses what the API does not have is refused.
    copy_client(&wrong);
    let program = "import { Drydock } from \"../src/client.js\";\n\
                   export const state = async (drydock: Drydock) => (await drydock.run(7)).state;\n";
    std::fs::write(wrong.join("examples/wrong.ts"), program).unwrap();
    let refused = build(&node, &wrong, &unused);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused
            .out
            .contains("wrong.ts:2: Property 'state' does not exist"),
        "{refused:?}"
    );

    let concludes = calls(
        "conclude",
        json!({ "verdict": "pass", "summary": "Seven is odd." }),
    );
    let app = TestApp::with_settings(queue([concludes]), &[]).await;
    app.admit_slack_user(ALICE, Role::Viewer, &[]).await;
    publish(&app);
    let token = token(&app, ALICE, &[TokenScope::RunsRead, TokenScope::RunsWrite]).await;
    let run = |arguments: &[&str]| {
        let mut command = node.command();
        command
            .arg(out.join("examples/start-run.js"))
            .args(arguments)
            .env("DRYDOCK_URL", app.demo.url())
            .env("DRYDOCK_TOKEN", &token)
            .env("DRYDOCK_KEY", "one");
        ended(&mut command, "")
    };
    let refused = run(&["review", "number=seven"]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{refused:?}");
    assert!(refused.err.contains("number: is no integer"), "{refused:?}");
    // The same key starts it once.
    for _ in 0..2 {
        let done = run(&["review", "number=7"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        let end = "run 1 succeeded: look succeeded\nlook: Seven is odd.\n";
        assert!(done.out.ends_with(end), "{done:?}");
    }
    assert_eq!(app.count("SELECT count(*) FROM run"), 1);
}

#[test]
fn the_client_is_built_with_the_versions_that_the_tests_use() {
    let package = |path: &str| -> Value {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let client = package("clients/typescript/package.json");
    let tests = package("tests/strangers/package.json");
    for name in ["openapi-typescript", "typescript"] {
        let version = &client["devDependencies"][name];
        assert!(version.is_string(), "{name}");
        assert_eq!(version, &tests["dependencies"][name], "{name}");
    }
}
