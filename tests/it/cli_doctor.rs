//! `drydock doctor`: the real program between emulators of everything that it asks.

use crate::cli_channels::{ChannelSetup, finding};
use crate::support::git_server::GitServer;
use crate::support::shell::{Shell, commit};
use drydock::simulation::emulator::model::{AnswerFault, ModelEmulator, ModelRequest, says};
use drydock::state::workspace::{Mirror, check_remote};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

const KEY: &str = "sk-ant-test-0123456789";

/// Adds a repository, a data directory and a model to the configuration. The key of the model is in a file.
fn complete(setup: &ChannelSetup, model: &ModelEmulator) -> PathBuf {
    let infra = setup.shell.home().join("infra");
    std::fs::create_dir_all(&infra).unwrap();
    commit(&infra, &[("main.jsonnet", "{}\n")]);
    setup.shell.put("model-key", &format!("{KEY}\n"));
    mode(&setup.shell, 0o600);
    let data = setup.shell.home().join("data");
    let more = format!(
        "\n[data]\ndirectory = \"{}\"\n\n[model]\ndefault = \"anthropic/script\"\n\n[providers.anthropic]\n\
         api_key = {{ file = \"model-key\" }}\nbase_url = \"{}\"\n\n[repositories.infra]\npath = \"{}\"\n",
        data.display(),
        model.url(),
        infra.display(),
    );
    let text = setup.shell.get("drydock.toml");
    setup.shell.put("drydock.toml", &format!("{text}{more}"));
    data
}

fn mode(shell: &Shell, mode: u32) {
    let key = shell.work().join("model-key");
    std::fs::set_permissions(key, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Runs the command. Returns the exit code and the findings.
fn diagnosed(setup: &ChannelSetup, options: &[&str]) -> (Option<i32>, Vec<Value>) {
    let ended = setup.run(&[&["doctor", "--json"], options].concat());
    assert!(!format!("{ended:?}").contains(KEY), "{ended:?}");
    let answer = ended.json();
    assert_eq!(answer["ok"], ended.code == Some(0), "{ended:?}");
    (ended.code, answer["findings"].as_array().unwrap().clone())
}

fn failed(findings: &[Value]) -> Vec<&str> {
    let failed = findings.iter().filter(|finding| finding["result"] == "FAILED");
    failed.map(|finding| finding["check"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_can_work_has_no_finding_to_correct() {
    let setup = ChannelSetup::new().await;
    let model = ModelEmulator::start(|_: &ModelRequest| says("ok")).unwrap();
    let data = complete(&setup, &model);
    let (code, findings) = diagnosed(&setup, &[]);
    assert_eq!((code, failed(&findings)), (Some(0), Vec::new()), "{findings:#?}");
    for check in [
        "configuration",
        "sandbox",
        "repository infra",
        "provider anthropic",
        "public address for work",
        "channel work: token",
        "channel work: scopes",
        "channel work: clock",
        "channel bot: token",
        "channel bot: webhook",
    ] {
        assert_eq!(finding(&findings, check)["result"], "ok", "{check}");
    }
    let disk = finding(&findings, "disk")["detail"].as_str().unwrap();
    assert!(disk.ends_with(" MiB are free"), "{disk}");
    // It wrote nothing.
    assert!(!data.exists());
    let shown = setup.run(&["doctor"]);
    assert_eq!((shown.code, shown.err.as_str()), (Some(0), ""), "{shown:?}");
    assert_eq!(
        shown.out.lines().count(),
        findings.len() + 1,
        "one line for each finding: {shown:?}"
    );
    assert_eq!(model.requests().len(), 2);
    model.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn local_files_are_corrected_only_if_the_user_wants_it() {
    let setup = ChannelSetup::new().await;
    let model = ModelEmulator::start(|_: &ModelRequest| says("ok")).unwrap();
    let data = complete(&setup, &model);
    let key = setup.shell.work().join("model-key");
    mode(&setup.shell, 0o644);
    let (code, findings) = diagnosed(&setup, &[]);
    let check = "secret file model-key";
    assert_eq!(code, Some(78), "{findings:#?}");
    assert_eq!(finding(&findings, check)["fix"], "run: chmod 600 model-key");
    assert!(failed(&findings).contains(&"configuration"), "{findings:#?}");
    assert_eq!((mode_of(&key), data.exists()), (0o644, false));
    let (code, findings) = diagnosed(&setup, &["--fix"]);
    assert_eq!((code, failed(&findings)), (Some(0), Vec::new()), "{findings:#?}");
    assert_eq!(finding(&findings, check)["result"], "fixed");
    assert_eq!((mode_of(&key), mode_of(&data)), (0o600, 0o700));
    let (_, findings) = diagnosed(&setup, &["--fix"]);
    assert!(
        findings.iter().all(|finding| finding["result"] != "fixed"),
        "{findings:#?}"
    );
    std::fs::remove_file(&key).unwrap();
    let (code, findings) = diagnosed(&setup, &["--fix"]);
    assert_eq!(
        (code, &finding(&findings, check)["result"]),
        (Some(78), &json!("FAILED"))
    );
    // The mode of a directory is not changed: the path may be wrong.
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (_, findings) = diagnosed(&setup, &["--fix"]);
    let directory = finding(&findings, &format!("data directory {}", data.display()));
    assert!(
        directory["detail"].as_str().unwrap().contains("chmod 700"),
        "{directory}"
    );
    assert_eq!(mode_of(&data), 0o755);
    model.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_service_that_does_not_work_is_one_finding_with_its_fix() {
    let setup = ChannelSetup::new().await;
    let refused = AnswerFault::Status {
        status: 401,
        headers: Vec::new(),
        body: String::new(),
    };
    let script = move |_: &ModelRequest| says("no").with_fault(refused.clone());
    let model = ModelEmulator::start(script).unwrap();
    complete(&setup, &model);
    let text = setup
        .shell
        .get("drydock.toml")
        .replace("https://drydock.example.com", "https://10.0.0.7");
    let remote = "\n[repositories.remote]\nurl = \"https://127.0.0.1:1/a.git\"\n";
    setup.shell.put("drydock.toml", &format!("{text}{remote}"));
    setup.slack.withdraw("commands");
    setup.telegram.connect_to("https://other.example.com/x", "s");
    let (code, findings) = diagnosed(&setup, &[]);
    assert_eq!(code, Some(1));
    let expected = [
        "repository remote",
        "provider anthropic",
        "public address for work",
        "channel bot: webhook",
        "channel work: scopes",
    ];
    assert_eq!(failed(&findings), expected, "{findings:#?}");
    for check in expected {
        let finding = finding(&findings, check);
        assert!(!finding["fix"].as_str().unwrap().is_empty(), "{finding}");
    }
    let remote = finding(&findings, "repository remote")["detail"]
        .as_str()
        .unwrap();
    assert!(remote.contains("the remote could not be reached"), "{remote}");
    let address = &finding(&findings, "public address for work")["detail"];
    assert_eq!(address, "10.0.0.7 is an address in a private network");
    let shown = setup.run(&["doctor"]);
    assert_eq!(shown.err, "5 checks failed\n");
    assert!(
        shown.out.contains(". Fix: run `drydock telegram setup`"),
        "{}",
        shown.out
    );
    model.shutdown().await;
}

/// Everything works without it, so the check does not fail.
#[tokio::test(flavor = "multi_thread")]
async fn a_slack_app_that_is_no_agent_is_told_what_it_lacks() {
    let setup = ChannelSetup::new().await;
    let model = ModelEmulator::start(|_: &ModelRequest| says("ok")).unwrap();
    complete(&setup, &model);
    setup.slack.withdraw("assistant:write");
    let (code, findings) = diagnosed(&setup, &[]);
    assert_eq!((code, failed(&findings)), (Some(0), Vec::new()), "{findings:#?}");
    let finding = finding(&findings, "channel work: scopes");
    assert_eq!(finding["result"], "warning", "{finding}");
    let detail = "no assistant:write, which shows in a thread that work goes on, with a Stop button";
    assert_eq!(finding["detail"], detail);
    assert!(
        finding["fix"].as_str().unwrap().contains("agent_session_stopped"),
        "{finding}"
    );
    model.shutdown().await;
}

#[test]
fn a_directory_without_a_configuration_is_told_how_to_begin() {
    let shell = Shell::new();
    let ended = shell.run(&["doctor", "--json"]);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    let findings = ended.json()["findings"].as_array().unwrap().clone();
    let fix = finding(&findings, "configuration")["fix"].as_str().unwrap();
    assert!(fix.contains("`drydock init`"), "{fix}");
}

/// The branch of a remote is found without a fetch.
#[test]
fn a_remote_is_asked_for_its_branch_and_nothing_is_kept() {
    let remotes = tempfile::tempdir().unwrap();
    let work = remotes.path().join("remote.git");
    std::fs::create_dir(&work).unwrap();
    let head = commit(&work, &[("a", "1\n")]);
    let Some(server) = GitServer::start(remotes.path()) else {
        return;
    };
    drydock::base::http_client::api_client().unwrap();
    let mirror = |path: &str, branch: &str| Mirror {
        name: "remote".to_owned(),
        url: format!("{}{path}", server.address),
        token: None,
        branch: branch.to_owned(),
        directory: remotes.path().join("mirror"),
        bases: remotes.path().join("bases"),
    };
    let ask =
        |mirror: Mirror| check_remote(&mirror, &AtomicBool::new(false)).map_err(|error| error.to_string());
    assert_eq!(ask(mirror("remote.git/.git", "main")), Ok(head));
    let missing = ask(mirror("remote.git/.git", "release")).unwrap_err();
    assert!(missing.contains("it has no branch `release`"), "{missing}");
    let unknown = ask(mirror("other.git", "main")).unwrap_err();
    assert!(unknown.contains("there is no such repository"), "{unknown}");
    server.down();
    assert!(ask(mirror("remote.git/.git", "main")).is_err());
    assert!(!remotes.path().join("mirror").exists());
}
