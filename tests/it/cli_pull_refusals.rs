//! Refusals of `drydock pull`: changes that a person may not have, and answers of a server that are no change.

use crate::cli_pull::{ALICE, DEV, prepared, prepared_for_machine, scale};
use crate::support::app::{TestApp, step_number};
use crate::support::machine::{Machine, PUBLIC_URL};
use crate::support::shell::{ProgramOutput, Shell, commit};
use drydock::simulation::emulator::model::{ModelRequest, ScriptedAnswer, calls, says};
use drydock::state::access::Role;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

const BOB: &str = "U0BOB";

fn refused(ended: &ProgramOutput) -> &str {
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    &ended.err
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_somebody_else_reads_like_one_that_never_existed() {
    let app = prepared(scale).await;
    app.admit_slack_user(BOB, Role::Admin, &["**"]).await;
    let Some(machine) = Machine::new(&app) else { return };
    machine.log_in(&app, BOB).await;
    let foreign = machine.run(&["pull", "1"]);
    let unknown = machine.run(&["pull", "7"]);
    let said = "there is no CHG-1 for you: it may be discarded, or somebody else's, or never have existed\n";
    assert_eq!(refused(&foreign), said);
    assert_eq!(refused(&unknown).replace("CHG-7", "CHG-1"), said);
    // Neither does the answer of the server tell them apart.
    let text = std::fs::read_to_string(machine.logins()).unwrap();
    let logins: Value = serde_json::from_str(&text).unwrap();
    let token = logins["servers"][app.demo.url()]["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let foreign = app.get_with_token("/api/changes/1", &token).await;
    assert_eq!(foreign, app.get_with_token("/api/changes/7", &token).await);
    assert_eq!(foreign.0, 404);
    assert!(app.audit_lines_with("change.pulled").is_empty());

    // A change that was discarded is gone for its own person as well.
    machine.log_in(&app, ALICE).await;
    assert_eq!(machine.run(&["pull", "1", "--check"]).code, Some(0));
    app.run_slash_command(ALICE, "discard").await;
    assert_eq!(refused(&machine.run(&["pull", "1"])), said);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_is_decided_by_what_its_person_may_do_now() {
    let Some((app, machine)) = prepared_for_machine(scale).await else {
        return;
    };
    app.grant(ALICE, Role::Editor, &["staging"]).await;
    let withheld = machine.run(&["pull", "1"]);
    assert!(
        refused(&withheld).contains("CHG-1 cannot be pulled: Withheld, and not prepared: ")
            && withheld.err.contains("requires a grant for `environments/dev`"),
        "{withheld:?}"
    );
    app.grant(ALICE, Role::Viewer, &["**"]).await;
    assert!(refused(&machine.run(&["pull", "1"])).contains("Withheld"));
    app.grant(ALICE, Role::Editor, &["dev"]).await;
    assert_eq!(machine.run(&["pull", "1", "--check"]).code, Some(0));
    app.revoke(ALICE).await;
    assert!(refused(&machine.run(&["pull", "1"])).contains("is not valid any more"));
    assert_eq!(machine.git(&["status", "--porcelain"]), "");
}

/// Writes a program that does not parse, and never repairs it.
fn broken(asked: &ModelRequest) -> ScriptedAnswer {
    match step_number(asked) {
        0 => calls(
            "file_edit",
            json!({ "path": DEV, "old": "replicas: 2,\n    memory: '256Mi',\n  },\n\n  api", "new": "replicas: 2 +,\n    memory: '256Mi',\n  },\n\n  api" }),
        ),
        _ => says("Done."),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pulled_change_whose_checks_fail_says_so() {
    let settings = [PUBLIC_URL, ("limits.repairs_max", "0")];
    let app = TestApp::with_settings(broken, &settings).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "break it").await;
    assert!(result.text.contains("CHG-1 is not ready"), "{}", result.text);
    let Some(machine) = Machine::new(&app) else { return };
    machine.log_in(&app, ALICE).await;
    let pulled = machine.run(&["pull", "1", "--check"]);
    assert_eq!(pulled.code, Some(0));
    assert!(
        pulled.err.starts_with("CHG-1 is not ready: ") && pulled.err.contains("checks fail.\n"),
        "{pulled:?}"
    );
}

/// Writes a file with a token.
fn leak(asked: &ModelRequest) -> ScriptedAnswer {
    // Shaped like a GitHub token. The text is split so that this file contains no token.
    let planted = format!(
        "token: {}{}\n",
        "ghp_", "CANARYcanary0123456789CANARYcanary012345"
    );
    match step_number(asked) {
        0 => calls(
            "file_write",
            json!({ "path": "environments/dev/secret.yaml", "content": planted }),
        ),
        _ => says("Done."),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_with_a_masked_secret_is_not_pulled() {
    let app = TestApp::with_settings(leak, &[PUBLIC_URL]).await;
    app.admit_slack_editor(ALICE).await;
    app.ask(ALICE, "write it").await;
    let Some(machine) = Machine::new(&app) else { return };
    machine.log_in(&app, ALICE).await;
    for arguments in [&["pull", "1"][..], &["pull", "1", "--patch"]] {
        let said = machine.run(arguments);
        assert_eq!(
            refused(&said),
            "CHG-1 cannot be pulled: a secret in CHG-1 is masked; `patch` in the chat shows the rest\n"
        );
        assert!(!said.err.contains("CANARY"));
    }
}

#[test]
fn a_pull_without_a_login_or_with_another_name_says_what_to_do() {
    let shell = Shell::new();
    let ended = shell.run(&["pull", "CHG-1"]);
    assert_eq!(
        refused(&ended),
        "this machine is not logged in to a server; say `login` to Drydock in a chat, and run the command in its answer\n"
    );
    for (name, why) in [
        ("it", "write a change as CHG-42 or 42"),
        (
            "CHG-1 rev 2",
            "only the newest revision can be pulled; write CHG-1",
        ),
        ("99999999999999999999", "no change has such a number"),
    ] {
        let ended = shell.run(&["pull", name]);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains(why), "{ended:?}");
    }
    let ended = shell.run(&["pull", "1", "--server", "https://drydock.example.com"]);
    assert!(
        refused(&ended).starts_with("this machine is not logged in to https://drydock.example.com; "),
        "{ended:?}"
    );
}

/// A server that gives the same answer to every request.
struct HostileServer {
    url: String,
}

impl HostileServer {
    fn new(status: &str, body: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let head = format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0; 4_096];
                let _read = stream.read(&mut request).unwrap();
                // The program may close the connection early.
                let _ = stream
                    .write_all(head.as_bytes())
                    .and_then(|()| stream.write_all(&body));
            }
        });
        Self { url }
    }

    /// Pulls change 1 from it.
    fn pull(&self, shell: &Shell) -> ProgramOutput {
        let login = json!({ "token": "t", "name": "alice", "expires": "2030-01-01T00:00:00Z" });
        let directory = shell.home().join(".config/drydock");
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("logins.json");
        let logins = json!({ "servers": { self.url.as_str(): login } }).to_string();
        std::fs::write(&file, logins).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        shell.run(&["pull", "1"])
    }
}

/// The object name of `x\n`.
const BLOB: &str = "587be6b4c3f93f93c489c0111bba5596147a26cb";

/// Returns a file that the change adds, with the content `x`.
fn added(path: &str, mode: &str) -> Value {
    let edits = json!([{ "line": 0, "removed": 0, "inserted": { "text": "x\n" } }]);
    json!({ "path": path, "before": null, "after": { "mode": mode, "blob": BLOB }, "edits": edits })
}

fn change(base: &str, files: &[Value]) -> Vec<u8> {
    let change = json!({
        "change": 1, "revision": 1, "repository": "infra", "base": base, "files": files, "patch": { "text": "" },
    });
    change.to_string().into_bytes()
}

/// Returns the names of everything below a directory, except what git keeps.
fn everything(shell: &Shell) -> Vec<String> {
    let mut names = Vec::new();
    let mut directories = vec![shell.work()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() && !path.ends_with(".git") {
                directories.push(path.clone());
            }
            names.push(path.to_string_lossy().into_owned());
        }
    }
    names.sort();
    names
}

#[test]
fn a_hostile_answer_writes_nothing_anywhere() {
    let shell = Shell::new();
    let files = [("a.txt", "one\n"), ("Lib/a", "two\n"), ("lib2/x", "x\n")];
    for (path, text) in files {
        shell.put(path, text);
    }
    let base = commit(&shell.work(), &files);
    std::os::unix::fs::symlink(shell.home(), shell.work().join("link")).unwrap();
    std::fs::create_dir(shell.work().join("directory")).unwrap();
    let before = everything(&shell);
    let good = added("good.txt", "regular");
    let edited = |blob: &str, edits: Value| {
        json!({
            "path": "a.txt", "before": { "mode": "regular", "blob": "5626abf0f72e58d7a153368ba57db4c673c0e171" },
            "after": { "mode": "regular", "blob": blob }, "edits": edits,
        })
    };
    let at = |line: i64, removed: i64| json!([{ "line": line, "removed": removed, "inserted": { "text": "x\n" } }]);
    for (files, why) in [
        (
            vec![good.clone(), added("../x", "regular")],
            "`../x` is outside the repository",
        ),
        (
            vec![good.clone(), added("/etc/x", "regular")],
            "`/etc/x` is outside the repository",
        ),
        (
            vec![good.clone(), added(".git/config", "regular")],
            "git metadata is read-only",
        ),
        (
            vec![good.clone(), added(".GIT/hooks/post-checkout", "executable")],
            "git metadata is read-only",
        ),
        (
            vec![good.clone(), added("sub/.git/config", "regular")],
            "git metadata is read-only",
        ),
        (
            vec![good.clone(), added(".gitmodules", "regular")],
            "git metadata is read-only",
        ),
        (
            vec![good.clone(), added("link/x", "regular")],
            "`link/x`: it is below a symlink",
        ),
        (
            vec![good.clone(), added("directory", "regular")],
            "`directory` is a directory",
        ),
        (
            vec![good.clone(), added("a.txt/x", "regular")],
            "`a.txt` is a file",
        ),
        (
            vec![good.clone(), added("LIB/new", "regular")],
            "under a name with another spelling",
        ),
        (
            vec![added("New/x", "regular"), added("new/y", "regular")],
            "the change adds `New` and `new`, which are one name on some file systems",
        ),
        (vec![good.clone(), good.clone()], "has `good.txt` twice"),
        (
            vec![good.clone(), added("b\u{1b}[2J", "regular")],
            "names with line ends, control characters or backticks",
        ),
        (
            vec![good.clone(), added("x", "directory")],
            "unknown variant `directory`",
        ),
        // The base of this repository is not the one of the answer.
        (
            vec![good.clone(), added("lib2/x", "regular")],
            "`lib2/x` in commit",
        ),
        (
            vec![good.clone(), edited(BLOB, at(1, 0))],
            "the edits of `a.txt` in the answer do not make its content",
        ),
        (
            vec![good.clone(), edited(BLOB, at(7, 0))],
            "do not make its content",
        ),
        (
            vec![good.clone(), edited(BLOB, at(0, 9))],
            "do not make its content",
        ),
        (vec![good.clone(), edited(BLOB, at(-1, 0))], "invalid value"),
    ] {
        let server = HostileServer::new("200 OK", change(&base, &files));
        let ended = server.pull(&shell);
        let said = refused(&ended);
        assert!(
            said.starts_with("nothing was written: ") && said.contains(why) && !said.contains('\u{1b}'),
            "{why}: {said}"
        );
        assert_eq!(everything(&shell), before, "{why}");
    }
    assert!(!shell.home().join("x").exists());
    // A file that is refused by no rule is written.
    let server = HostileServer::new("200 OK", change(&base, &[edited(BLOB, at(0, 1)), good]));
    let ended = server.pull(&shell);
    assert_eq!(ended.out, "written    a.txt\nwritten    good.txt\n", "{ended:?}");
    assert_eq!(shell.get("a.txt"), "x\n");
}

#[test]
fn an_answer_that_is_no_change_is_reported_and_writes_nothing() {
    let shell = Shell::with_repository(&[("a.txt", "one\n")]);
    let before = everything(&shell);
    let long = vec![b' '; (16 << 20) + 1];
    let moved = json!({ "change": 2, "revision": 1, "repository": "r", "base": "", "files": [], "patch": { "text": "" } });
    let detail = json!({ "error": "refused", "detail": "no\u{1b}[2J\nmore" });
    let not_hex = change("HEAD\n--upload-pack", &[added("x", "regular")]);
    for (status, body, why) in [
        ("200 OK", b"<html>".to_vec(), "is refused: expected value"),
        ("200 OK", long, "sent an answer that is too long"),
        ("200 OK", moved.to_string().into_bytes(), "sent another change"),
        (
            "200 OK",
            not_hex,
            "nothing was written: commit ? of the repository",
        ),
        ("301 Moved Permanently", Vec::new(), "sent the answer 301"),
        ("500 Internal Server Error", Vec::new(), "sent the answer 500"),
        (
            "503 Service Unavailable",
            Vec::new(),
            "is not available now; try again",
        ),
        (
            "409 Conflict",
            detail.to_string().into_bytes(),
            "CHG-1 cannot be pulled: no<U+001B>[2J<U+000A>more",
        ),
    ] {
        let ended = HostileServer::new(status, body).pull(&shell);
        let said = refused(&ended);
        assert!(said.contains(why) && !said.contains('\u{1b}'), "{why}: {said}");
        assert_eq!(everything(&shell), before, "{why}");
    }
}
