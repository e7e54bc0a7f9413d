//! Packages of Jsonnet that a person installs in a chat, from a host that is slow or unreachable.

use crate::support::app::TestApp;
use crate::support::file_host::{FileHost, FileResponse};
use crate::support::world::{Host, world};
use drydock::simulation::emulator::model::{ScriptedAnswer, calls, queue, says};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

const ALICE: &str = "U0ALICE";
const BOB: &str = "U0BOB";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const ALLOWED: (&str, &str) = ("bundler.hosts_allowed", "[\"github.com\"]");

/// Returns the path at which GitHub has the archive of the commit.
fn target() -> String {
    format!("/org/c/archive/{COMMIT}.tar.gz")
}

/// Returns an archive with a package in `lib`, and `beside` uncompressed bytes in other files.
fn archive(beside: usize) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::none()));
    let beside = vec![0; beside];
    for (path, content) in [
        ("c-1/lib/c.libsonnet", b"{}\n".as_slice()),
        ("c-1/beside", &beside),
    ] {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, content).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

/// Returns the answers of a model that creates a project and installs the package.
fn installing() -> [ScriptedAnswer; 3] {
    [
        calls("jb_init", json!({ "path": "." })),
        calls(
            "jb_install",
            json!({ "path": ".", "packages": [format!("github.com/org/c/lib@{COMMIT}")] }),
        ),
        says("The package is there."),
    ]
}

/// Returns the host environment with this server in place of GitHub.
fn with_github(host: &FileHost) -> Host {
    let address: &'static str = host.address.clone().leak();
    Host {
        host_overrides: vec![("github.com", address)].leak(),
        ..world::<0>()
    }
}

/// Returns the last results that the model received.
fn last_answer(app: &TestApp) -> String {
    let asked = app.model_requests();
    let results = asked.last().unwrap().last_results();
    results.iter().map(|result| result.content.as_str()).collect()
}

#[tokio::test]
async fn a_card_shows_how_far_a_long_download_is() {
    let host = FileHost::start();
    host.serve_response(&target(), FileResponse::Held(archive(9 << 20), 5 << 20));
    let app = TestApp::with_host(queue(installing()), with_github(&host), &[ALLOWED]).await;
    app.admit_slack_editor(ALICE).await;
    let said = app.say(ALICE, "install c").await;
    app.wait_for_slack_reply(&said.ts, "jb_install .: archive 4 of 9 MiB")
        .await;
    host.release_held();
    let result = app.wait_for_result(&said.ts, 1).await;
    assert!(result.text.contains("CHG-1 is ready"), "{}", result.text);
    assert!(last_answer(&app).contains("added github.com/org/c/lib at 0123456789ab"));
    // The progress is for people: the model did not receive it, and the result does not repeat it.
    let read = format!("{:?}", app.model_requests());
    assert!(!read.contains("MiB") && !result.text.contains("MiB"), "{read}");
}

/// Installs a package, restarts without the host's archive, and installs the same package as another person. Returns
/// the model's second result, and the requests to the host after the restart.
async fn again_after_a_restart(kept_bytes_max: &str) -> (String, Vec<String>) {
    let host = FileHost::start();
    host.serve_file(&target(), archive(0));
    let settings = [ALLOWED, ("bundler.kept_bytes_max", kept_bytes_max)];
    let script = queue(installing().into_iter().chain(installing()));
    let mut app = TestApp::with_host(script, with_github(&host), &settings).await;
    app.admit_slack_editor(ALICE).await;
    app.admit_slack_editor(BOB).await;
    app.ask(ALICE, "install c").await;
    assert_eq!(host.take_requests(), [target()]);
    host.remove_all();
    app.restart().await;
    app.ask(BOB, "install c").await;
    (last_answer(&app), host.take_requests())
}

#[tokio::test]
async fn a_package_that_was_installed_before_a_restart_needs_its_host_no_more() {
    let (answer, asked) = again_after_a_restart("1048576").await;
    assert!(
        answer.contains("added github.com/org/c/lib at 0123456789ab"),
        "{answer}"
    );
    assert_eq!(asked, [""; 0]);
}

#[tokio::test]
async fn without_a_package_cache_the_host_is_asked_again() {
    let (answer, asked) = again_after_a_restart("0").await;
    assert!(answer.contains("`github.com/org/c/lib`"), "{answer}");
    assert_eq!(asked.first(), Some(&target()));
}
