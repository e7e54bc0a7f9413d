//! `weekly-packages.yaml`: a time, packages that are updated if something is new, and the change for the team.

use super::{Example, concludes, last_results, steps};
use crate::packages::commit_of;
use crate::runs::{ALICE, ended_runs, posts, say};
use crate::schedules::{ended_fires, wait_for_schedule, wake};
use crate::secrets::commit;
use crate::support::app::TestApp;
use crate::support::git_server::GitServer;
use crate::support::world::{Host, advance, world};
use base64::Engine as _;
use drydock::simulation::demo::environment::SLACK_CHANNEL;
use drydock::simulation::emulator::model::{ScriptedAnswer, calls, queue};
use gix::ObjectId;
use gix::objs::tree::EntryKind;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::path::Path;

const CLOCK: usize = 28;
const NIGHTLY: &str = "C0NIGHTLY";
const UPDATED: &str = "org/c has a new commit. The objects of environments/monitoring change.";
/// 06:00 in Berlin on the Monday after the beginning of the time of a test, in milliseconds.
const MONDAY: i64 = 1_795_410_000_000;
/// The seconds from the beginning to half a minute after it.
const TO_MONDAY: i64 = 147_630;
const WEEK: i64 = 604_800;

/// A repository of a package on another host.
struct PackageHost {
    // The directory is removed after the test.
    room: tempfile::TempDir,
    objects: gix::Repository,
}

impl PackageHost {
    fn new() -> Self {
        let room = tempfile::tempdir().unwrap();
        let git = room.path().join("org/c.git");
        std::fs::create_dir_all(&git).unwrap();
        let kind = gix::create::Kind::Bare;
        let options = gix::open::Options::isolated();
        let made = gix::ThreadSafeRepository::init_opts(&git, kind, gix::create::Options::default(), options);
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        Self {
            room,
            objects: made.unwrap().into(),
        }
    }

    /// Publishes a version of the only file.
    fn publish(&self, number: i64, text: &str) -> ObjectId {
        let id = commit_of(&self.objects, number, &[("c.libsonnet", text)]);
        let heads = self.path().join("org/c.git/refs/heads");
        std::fs::create_dir_all(&heads).unwrap();
        std::fs::write(heads.join("main"), format!("{id}\n")).unwrap();
        id
    }

    fn path(&self) -> &Path {
        self.room.path()
    }
}

/// Returns the host with a server in place of GitHub.
fn with_github(server: &GitServer) -> Host {
    let address: &'static str = server.address.clone().leak();
    Host {
        host_overrides: vec![("github.com", address)].leak(),
        ..world::<CLOCK>()
    }
}

/// Returns a file of packages with the only one in a version.
fn package_file(version: &str, sum: Option<&str>) -> String {
    let mut dependency = json!({
        "source": {"git": {"remote": "https://github.com/org/c.git", "subdir": ""}},
        "version": version,
    });
    if let Some(sum) = sum {
        dependency["sum"] = json!(sum);
    }
    json!({"version": 1, "dependencies": [dependency], "legacyImports": false}).to_string()
}

/// Adds the package to the repository, and an environment that uses it.
fn install(app: &TestApp, id: ObjectId, text: &str) {
    let sum = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text));
    let (wanted, locked) = (
        package_file("main", None),
        package_file(&id.to_string(), Some(&sum)),
    );
    let environment = "{ alerts: { apiVersion: 'v1', kind: 'ConfigMap', \
                       metadata: { name: 'alerts', namespace: 'monitoring' }, \
                       data: import 'github.com/org/c/c.libsonnet' } }\n";
    let files = [
        ("jsonnetfile.json", wanted.as_str()),
        ("jsonnetfile.lock.json", locked.as_str()),
        ("vendor/github.com/org/c/c.libsonnet", text),
        ("environments/monitoring/main.jsonnet", environment),
    ];
    commit(app, &files.map(|(path, text)| (path, EntryKind::Blob, text)));
}

fn plans() -> ScriptedAnswer {
    calls("jb_plan", json!({"path": ".", "update": true}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_week_without_news_is_silent_and_a_new_commit_of_a_package_is_a_change_for_the_team() {
    let host = PackageHost::new();
    let Some(server) = GitServer::start(host.path()) else {
        return;
    };
    let first = "{ level: 'one' }\n";
    let old = host.publish(1, first);
    let answers = [
        plans(),
        concludes("pass", "Nothing to update."),
        plans(),
        calls("jb_update", json!({"path": "."})),
        concludes("pass", UPDATED),
    ];
    let example = Example::read("weekly-packages.yaml");
    let app = example.start(queue(answers), with_github(&server), &[]).await;
    install(&app, old, first);
    app.demo.slack.add_channel(NIGHTLY, &[]);
    app.admit_slack_editor(ALICE).await;
    // Somebody uses the repository, so its newest commit is seen.
    say(&app, ALICE, "!run").await;
    let due = format!("name = 'infra/weekly-packages' AND due = {MONDAY}");
    wait_for_schedule(&app, &due).await;

    advance::<CLOCK>(TO_MONDAY);
    wake(&app);
    assert_eq!(ended_runs(&app, 1).await, ["succeeded"]);
    let planned = last_results(&app, 1);
    assert!(planned.contains("nothing would change"), "{planned}");
    assert_eq!(steps(&app, 1), ["update succeeded", "report skipped"]);
    assert_eq!(app.count("SELECT count(*) FROM change"), 0);
    for channel in [SLACK_CHANNEL, NIGHTLY] {
        assert_eq!(posts(&app, channel, ""), Vec::<String>::new());
    }

    let new = host.publish(2, "{ level: 'two' }\n");
    advance::<CLOCK>(WEEK);
    wake(&app);
    assert_eq!(ended_runs(&app, 2).await, ["succeeded", "succeeded"]);
    assert_eq!(ended_fires(&app, 2).await, ["done", "done"]);
    let updated = last_results(&app, 4);
    let short = |id: ObjectId| id.to_hex_with_len(12).to_string();
    let moved = format!("updated github.com/org/c from {} to {}", short(old), short(new));
    assert!(updated.contains(&moved), "{updated}");
    assert_eq!(steps(&app, 2), ["update succeeded", "report succeeded"]);
    assert_eq!(posts(&app, SLACK_CHANNEL, ""), [UPDATED]);
    let ended = posts(&app, NIGHTLY, "Run 2 of weekly-packages on infra: succeeded");
    assert!(ended.len() == 1 && ended[0].contains("CHG-1"), "{ended:?}");
    assert_eq!(app.count("SELECT count(*) FROM change"), 1);
}
