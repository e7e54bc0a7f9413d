//! Repositories with an unusual format of objects or branches: they work, or the format is reported.

use crate::cli_serve::{TOML, serve};
use crate::support::require::component;
use crate::support::shell::{BlockingModel, Shell, run_to_end};
use drydock::simulation::emulator::model::{calls, queue, says};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-ant-test-0123456789");
const MAIN: &str = "environments/dev/main.jsonnet";
const BOUND: Duration = Duration::from_secs(20);

/// Runs git in a folder, and returns its output.
fn git(place: &Path, arguments: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"])
        .args(arguments)
        .current_dir(place)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", place)
        .output()
        .expect("git runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Returns a shell whose work tree is a repository created by git with SHA-256 names, packed. Returns `None` without
/// git.
fn shell() -> Option<Shell> {
    component("git")?;
    let shell = Shell::new().set(KEY.0, KEY.1);
    shell.put(MAIN, "{ replicas: 2 }\n");
    let work = shell.work();
    git(&work, &["init", "-q", "-b", "main", "--object-format=sha256"]);
    git(&work, &["add", "."]);
    git(&work, &["commit", "-q", "-m", "two"]);
    git(&work, &["gc", "-q"]);
    Some(shell)
}

/// Configures the server of a shell to serve its work tree.
fn configure(shell: &Shell) {
    let work = shell.work();
    let toml = format!("{TOML}[repositories.infra]\npath = \"{}\"\n", work.display());
    shell.put("drydock.toml", &toml);
}

fn readyz(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let request = "GET /readyz HTTP/1.1\r\nhost: drydock\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.rsplit("\r\n\r\n").next().unwrap_or_default().to_owned()
}

/// Waits until `/readyz` contains a text, and returns its whole answer.
fn until_ready(address: &str, wanted: &str) -> String {
    let started = Instant::now();
    loop {
        let reported = readyz(address);
        if reported.contains(wanted) {
            return reported;
        }
        assert!(started.elapsed() < BOUND, "{reported}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_repository_in_sha_256_format_is_checked_and_served() {
    let Some(shell) = shell() else { return };
    configure(&shell);
    let head = git(&shell.work(), &["rev-parse", "HEAD"]);
    assert_eq!(head.len(), 64);
    let checked = shell.run(&["check", "--config", "drydock.toml"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(checked.out.contains("repository infra"), "{checked:?}");
    let (running, address) = serve(&shell);
    assert_eq!(until_ready(&address, "true"), r#"{"ready":true}"#);
    drop(running);
    let bases = shell.work().join("data/bases/infra");
    let packed = std::fs::read_dir(bases)
        .expect("a folder")
        .next()
        .expect("a base");
    let packed = packed.expect("an entry").file_name();
    assert_eq!(packed.to_string_lossy(), format!("{head}.pack"));
}

/// Checks that a change at the terminal is a patch that git accepts in such a repository, with its object names.
#[test]
fn a_change_of_a_repository_in_sha_256_format_is_a_patch_that_git_applies() {
    let Some(shell) = shell() else { return };
    let edit = json!({ "path": MAIN, "old": "replicas: 2", "new": "replicas: 4" });
    let model = BlockingModel::start(queue([
        calls("git_log", json!({})),
        calls("file_edit", edit),
        says("Four."),
    ]));
    let url = format!("providers.anthropic.base_url={}", model.url());
    let asked = run_to_end(shell.drydock(&["ask", "--set", &url, "four replicas"]));
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let work = shell.work();
    let head = git(&work, &["rev-parse", "--short", "HEAD"]);
    let read = format!("{:?}", model.asked()[1]);
    assert!(read.contains(&head), "{head}: {read}");
    let after = git(&work, &["hash-object", MAIN]);
    assert!(asked.out.contains(&format!("..{after} 100644")), "{asked:?}");
    let patch = &asked.out[asked.out.find("diff --git").expect("a patch")..];
    std::fs::write(shell.home().join("patch"), patch).expect("a file");
    git(&work, &["checkout", "-q", "."]);
    git(&work, &["apply", "--index", "../patch"]);
    assert_eq!(shell.get(MAIN), "{ replicas: 4 }\n");
}

/// Checks that `check`, the log and `/readyz` name an unsupported format, and that nothing waits for it.
#[test]
fn a_format_that_is_not_read_is_named() {
    let Some(shell) = shell() else { return };
    configure(&shell);
    for (key, value, why) in [
        (
            "extensions.objectformat",
            "sha512",
            "its objects are in the format `sha512`, and only `sha1` and `sha256` are read",
        ),
        (
            "extensions.refstorage",
            "reftable",
            "its branches are in the format `reftable`, and only `files` is read; `git refs migrate --ref-format=files` converts it",
        ),
    ] {
        let set = |key, value| {
            git(
                shell.home(),
                &["config", "--file", "work/.git/config", key, value],
            )
        };
        set("extensions.objectformat", "sha256");
        set(key, value);
        let checked = shell.run(&["check", "--config", "drydock.toml"]);
        assert_eq!(checked.code, Some(78), "{checked:?}");
        assert!(checked.out.contains(why), "{checked:?}");
        let (running, address) = serve(&shell);
        let reported = until_ready(&address, "format");
        assert!(
            reported.contains(&format!("loading repository infra: {why}")),
            "{reported}"
        );
        // The log may contain it before or after the line with the address.
        running.terminate();
        let logged = running.end().err;
        let mut lines = logged.lines().filter(|line| line.contains("could not be loaded"));
        assert!(lines.any(|line| line.contains(why)), "{logged}");
    }
}
