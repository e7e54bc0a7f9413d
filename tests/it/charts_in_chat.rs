//! A dependency of a chart that a person updates in a chat. It comes from a host that the configuration allows, and is
//! part of the change.

use crate::support::app::TestApp;
use crate::support::file_host::FileHost;
use crate::support::packed_chart::{packed_chart, sha256};
use crate::support::world::{Host, world};
use drydock::simulation::emulator::model::{calls, queue, says};
use serde_json::json;

const ALICE: &str = "U0ALICE";
const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n- name: redis\n  version: ^1\n  \
                     repository: https://charts.example.com\n";

/// Returns the model's result of an update, the requests to the host, and the answer to the person.
async fn updated(hosts_allowed: &str) -> (String, Vec<String>, String) {
    let host = FileHost::start();
    let redis = packed_chart("redis", "1.2.0", &[]);
    let index = format!(
        "apiVersion: v1\nentries: {{redis: [{{version: 1.2.0, urls: [redis.tgz], digest: {}}}]}}\n",
        sha256(&redis)
    );
    host.serve_file("/index.yaml", index);
    host.serve_file("/redis.tgz", redis);
    let address: &'static str = host.address.clone().leak();
    let world = Host {
        host_overrides: vec![("charts.example.com", address)].leak(),
        ..world::<0>()
    };
    // Dependencies from repositories do not use helm.
    let settings = [
        ("helm.program", "/nonexistent/helm"),
        ("helm.hosts_allowed", hosts_allowed),
    ];
    let script = queue([
        calls(
            "file_write",
            json!({ "path": "charts/web/Chart.yaml", "content": CHART }),
        ),
        calls("helm_dependency_update", json!({ "path": "charts/web" })),
        says("It has its dependency."),
    ]);
    let app = TestApp::with_host(script, world, &settings).await;
    app.admit_slack_editor(ALICE).await;
    let result = app.ask(ALICE, "add redis to charts/web").await;
    let asked = app.model_requests();
    let read = asked.last().unwrap().last_results();
    let read = read.iter().map(|result| result.content.as_str()).collect();
    (read, host.take_requests(), format!("{result:?}"))
}

/// TK-49
#[tokio::test]
async fn a_dependency_comes_from_a_host_that_is_allowed_and_is_part_of_the_change() {
    let (read, asked, result) = updated("[\"charts.example.com\"]").await;
    assert!(
        read.contains("redis: 1.2.0 from https://charts.example.com"),
        "{read}"
    );
    assert_eq!(asked, ["/index.yaml", "/redis.tgz"]);
    assert!(result.contains("3 files"), "{result}");
}

/// T44
#[tokio::test]
async fn no_chart_host_is_contacted_while_none_is_allowed() {
    let (read, asked, result) = updated("[]").await;
    assert!(read.contains("downloads of charts are disabled"), "{read}");
    assert_eq!(asked, [""; 0]);
    assert!(result.contains("1 file,"), "{result}");
}
