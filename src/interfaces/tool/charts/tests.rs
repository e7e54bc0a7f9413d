//! Tests of the tools for charts.

#![allow(clippy::unwrap_used)]

use super::build::HelmDependencyBuild;
use super::lint::HelmLint;
use super::list::HelmDependencyList;
use super::update::HelmDependencyUpdate;
use super::{ChartContext, PackResult, all, format_result};
use crate::base::model::Effect;
use crate::interfaces::tool::testing::{
    call, failure, no_helm, path, paths_outside, write_policy, write_policy_for,
};
use crate::interfaces::tool::write_policy::WritePolicy;
use crate::rendering::jsonnet::FairSlots;
use crate::state::access::Role;
use bytes::Bytes;
use serde_json::json;
use std::collections::BTreeMap;

fn chart_context(policy: WritePolicy) -> ChartContext {
    ChartContext {
        policy,
        helm: no_helm(),
    }
}

/// TK-49
#[test]
fn without_a_helm_there_are_no_tools_for_charts() {
    let downloads = FairSlots::new(1);
    assert!(all(None, &downloads).is_empty());
    let tools = all(Some(&no_helm()), &downloads);
    let offered: Vec<(&str, Effect)> = tools
        .iter()
        .map(|tool| (tool.spec().name, tool.effect()))
        .collect();
    let expected = [
        ("helm_dependency_build", Effect::WriteWorkspace),
        ("helm_lint", Effect::Read),
        ("helm_dependency_list", Effect::Read),
        ("helm_dependency_update", Effect::WriteWorkspace),
    ];
    assert_eq!(offered, expected);
}

/// T35, T50
#[test]
fn charts_outside_are_refused() {
    let context = chart_context(write_policy(&[("charts/web/Chart.yaml", "name: web\n")]));
    for text in paths_outside() {
        let arguments = || json!({ "path": text });
        for refused in [
            call::<HelmDependencyBuild>(&context, arguments()),
            call::<HelmLint>(&context, arguments()),
            call::<HelmDependencyList>(&context, arguments()),
            call::<HelmDependencyUpdate>(&context, arguments()),
        ] {
            let refused = failure(refused);
            let says = refused.contains("outside the repository") || refused.contains("git metadata");
            assert!(says, "{text:.60}: {refused}");
        }
    }
    let missing = failure(call::<HelmLint>(&context, json!({ "path": "charts" })));
    assert_eq!(missing, "chart `charts`: there is no `charts/Chart.yaml`");
    let broken = failure(call::<HelmLint>(&context, json!({ "chart": "charts/web" })));
    assert!(broken.starts_with("helm: the sandbox did not start"), "{broken}");
    assert_eq!(context.policy.tree.changes().unwrap(), []);
}

const FETCHED: (&str, &str) = (
    "charts/web/Chart.yaml",
    "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n- {name: redis, version: 1, repository: \
     'https://charts.example.com'}\n",
);

#[test]
fn nothing_is_fetched_for_who_may_not_write_or_where_no_host_is_allowed() {
    let arguments = || json!({ "path": "charts/web" });
    let viewer = chart_context(write_policy_for(&[FETCHED], Role::Viewer, &["**"]));
    let refused = failure(call::<HelmDependencyUpdate>(&viewer, arguments()));
    assert!(!refused.contains("network"), "{refused}");
    let editor = chart_context(write_policy(&[FETCHED]));
    let off = failure(call::<HelmDependencyBuild>(&editor, arguments()));
    assert_eq!(
        off,
        "chart `charts/web`: dependency `redis`: downloads of charts are disabled; an operator allows hosts with \
         `[helm] hosts_allowed`, such as [\"charts.example.com\"]"
    );
}

#[test]
fn what_was_packed_is_admitted_before_it_is_written() {
    let changes = BTreeMap::from([
        (path("charts/web/Chart.lock"), Some(Bytes::from_static(b"lock"))),
        (path("charts/web/charts/old-1.tgz"), None),
    ]);
    let files = [("charts/web/charts/old-1.tgz", "x")];
    let viewer = write_policy_for(&files, Role::Viewer, &["**"]);
    assert!(viewer.apply_files(&changes).is_err());
    assert_eq!(viewer.tree.changes().unwrap(), []);
    let mut editor = write_policy(&files);
    editor.files_changed_max = 1;
    let refused = failure(editor.apply_files(&changes));
    assert_eq!(
        refused,
        "this would change 2 files, and the change budget is 1: nothing was written"
    );
    assert_eq!(editor.tree.changes().unwrap(), []);
    editor.files_changed_max = 2;
    editor.apply_files(&changes).unwrap();
    assert_eq!(*editor.tree.files().unwrap(), [path("charts/web/Chart.lock")]);
    let packed = PackResult {
        output: "Saving 1 charts".to_owned(),
        changes,
    };
    assert_eq!(
        format_result(&packed),
        "Saving 1 charts\nwrote charts/web/Chart.lock\ndeleted charts/web/charts/old-1.tgz"
    );
}
