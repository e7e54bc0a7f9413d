//! Complete reviews, from objects to the text for a person.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{
    AskedFor, ChangedFile, EnvironmentRendering, FailureKind, Impact, NotProven, ObjectChangeKind, Presence,
    Proof, RenderFailure, Report, ReviewInput, ReviewedEnvironment, SideResult, review,
};
use serde_json::{Value, json};

const KEY: &[u8] = b"the key of this test";

/// Formats an object in a form that is close to YAML by line.
pub(super) fn yaml(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("JSON");
    text.push('\n');
    text
}

pub(super) fn reviewed(input: ReviewInput) -> Report {
    review(input, KEY, &yaml)
}

pub(super) fn environment(name: &str, base: SideResult, workspace: SideResult) -> ReviewedEnvironment {
    ReviewedEnvironment {
        name: name.to_owned(),
        namespace: name.rsplit('/').next().unwrap_or_default().to_owned(),
        rendering: EnvironmentRendering::Rendered {
            base,
            workspace,
            same: Vec::new(),
        },
    }
}

fn deployment(namespace: &str, replicas: u32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "web", "namespace": namespace, "labels": { "tanka.dev/environment": namespace } },
        "spec": { "replicas": replicas, "template": { "spec": { "containers": [{ "name": "web", "image": image }] } } },
    })
}

fn secret(value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "db" }, "stringData": { "password": value } })
}

/// Returns an environment whose Deployment has another number of replicas and a new image.
pub(super) fn scaled(name: &str, from: u32, to: u32) -> ReviewedEnvironment {
    let namespace = name.rsplit('/').next().unwrap_or_default();
    let base = vec![deployment(namespace, from, "web:1.0.0")];
    let workspace = vec![deployment(namespace, to, "web:1.1.0")];
    environment(name, SideResult::Objects(base), SideResult::Objects(workspace))
}

pub(super) fn failed(message: &str) -> SideResult {
    SideResult::Failed(RenderFailure {
        kind: FailureKind::Program,
        message: message.to_owned(),
        trace: Vec::new(),
    })
}

pub(super) fn of(environments: Vec<ReviewedEnvironment>) -> ReviewInput {
    ReviewInput {
        environments,
        ..ReviewInput::default()
    }
}

/// Returns an environment that imports no changed file.
pub(super) fn unchanged(name: &str) -> ReviewedEnvironment {
    ReviewedEnvironment {
        name: name.to_owned(),
        namespace: String::new(),
        rendering: EnvironmentRendering::ClosureUnchanged {
            closure: "c1".to_owned(),
        },
    }
}

/// Returns a library change: three environments with the same change, one exception, two proofs, and one
/// environment that never renders.
fn library_change() -> ReviewInput {
    let same = || SideResult::Objects(vec![secret("kept")]);
    ReviewInput {
        environments: vec![
            scaled("environments/prod-eu", 3, 0),
            scaled("environments/staging", 1, 2),
            environment(
                "environments/broken",
                failed("no such field"),
                failed("no such field"),
            ),
            scaled("environments/dev", 1, 2),
            environment("environments/same", same(), same()),
            unchanged("environments/docs"),
            scaled("environments/qa", 1, 2),
        ],
        settings: Vec::new(),
        files: vec![
            ChangedFile {
                path: "lib/web.libsonnet".to_owned(),
                added: 3,
                removed: 1,
            },
            ChangedFile {
                path: "environments/prod-eu/main.jsonnet".to_owned(),
                added: 1,
                removed: 0,
            },
        ],
        request: "Use web 1.1.0 in dev, qa and staging: change `lib/web.libsonnet`.".to_owned(),
    }
}

#[test]
fn a_library_change_reads_as_one_change_one_exception_and_proof_for_the_rest() {
    let expected = "\
4 of 7 environments change: 4 objects changed, 0 added, 0 removed.
2 files, +4 -1: `environments/prod-eu/main.jsonnet`, `lib/web.libsonnet`.
⚠ Not requested: environment `environments/prod-eu`.
⚠ Not requested: file `environments/prod-eu/main.jsonnet`.
The same change in 3 environments: `environments/dev`, `environments/qa`, `environments/staging`:
  ~ apps/Deployment dev/web
      spec.replicas: 1 -> 2
      spec.template.spec.containers[name=web].image: web:1.0.0 -> web:1.1.0
Different in 1 environment: `environments/prod-eu`:
  apps/Deployment web spec.replicas: 3 -> 0 (elsewhere 1 -> 2)
Risks:
  high DD002 Scaled to zero. apps/Deployment web: `spec.replicas` goes from 3 to 0 (`environments/prod-eu`)
  medium DD001 Pods are replaced. apps/Deployment web: its pods are replaced for \
`spec.containers[name=web].image` (`environments/dev`, `environments/prod-eu`, `environments/qa`, \
`environments/staging`)
Proven unaffected: 2 environments (1 imports no changed file, 1 renders to the same objects).
Not proven: `environments/broken`, it does not render, neither here nor on the base: no such field";
    assert_eq!(reviewed(library_change()).text(4_000), expected);
}

#[test]
fn what_does_not_fit_is_counted() {
    let named = |n: usize, value: usize| json!({ "kind": "ConfigMap", "metadata": { "name": format!("map-{n:03}") }, "data": { "a": value } });
    let side = |value| SideResult::Objects((0..50).map(|n| named(n, value)).collect());
    let report = reviewed(of(vec![environment("dev", side(1), side(2))]));
    let text = report.text(400);
    assert!(text.chars().count() <= 400, "{text}");
    let shown = text.matches("  ~ ConfigMap").count();
    assert!(shown > 3, "{text}");
    assert!(
        text.ends_with(&format!("… {} more objects, see the file", 50 - shown)),
        "{text}"
    );
    assert!(
        text.starts_with("1 of 1 environment changes: 50 objects changed, 0 added, 0 removed.\n"),
        "{text}"
    );
}

#[test]
fn the_impact_on_each_environment_is_reported_with_its_proof() {
    let report = reviewed(library_change());
    let standing = |name: &str| report.environment(name).map(|one| one.impact.clone());
    let closure = "c1".to_owned();
    assert_eq!(
        standing("environments/docs"),
        Some(Impact::Unaffected {
            proof: Proof::ClosureUnchanged { closure }
        })
    );
    let Some(Impact::Unaffected {
        proof: Proof::SameObjects { objects: 1, sha256 },
    }) = standing("environments/same")
    else {
        panic!("no proof: {:?}", standing("environments/same"));
    };
    assert_eq!(sha256.len(), 64);
    assert_eq!(standing("environments/dev"), Some(Impact::Affected { class: 0 }));
    assert_eq!(
        standing("environments/prod-eu"),
        Some(Impact::Affected { class: 1 })
    );
    assert_eq!(report.counts.environments_not_asked_for, 1);
    assert_eq!(
        report.environment("environments/qa").map(|one| one.asked_for),
        Some(AskedFor::Yes)
    );
}

#[test]
fn an_environment_that_does_not_render_is_never_unaffected() {
    let fine = || SideResult::Objects(vec![secret("a")]);
    let report = reviewed(of(vec![
        environment("both", failed("x"), failed("y")),
        environment("base", failed("x"), fine()),
        environment("workspace", fine(), failed("y")),
    ]));
    let reasons: Vec<String> = report
        .environments
        .iter()
        .map(|one| match &one.impact {
            Impact::NotProven { reason } => match reason {
                NotProven::FailsOnBoth { base, workspace } => {
                    format!("{} {}", base.message, workspace.message)
                }
                NotProven::FailsOnBase { base } => format!("repaired {}", base.message),
                NotProven::FailsInWorkspace { workspace } => format!("broken {}", workspace.message),
                NotProven::NotLookedAt { why } => format!("not looked at: {why}"),
            },
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(reasons, ["repaired x", "x y", "broken y"]);
    assert_eq!((report.counts.not_proven, report.counts.broken), (3, 1));
    let text = report.text(1_000);
    assert!(
        text.contains("⚠ Broken by this change: `workspace`, it does not render any more: y"),
        "{text}"
    );
}

#[test]
fn environments_come_and_go_with_all_their_objects() {
    let objects = || SideResult::Objects(vec![deployment("dev", 1, "web:1.0.0")]);
    let report = reviewed(of(vec![
        environment("gone", objects(), SideResult::Absent),
        environment("new", SideResult::Absent, objects()),
    ]));
    let shown: Vec<_> = report
        .environments
        .iter()
        .map(|one| (one.presence, one.objects[0].happens))
        .collect();
    assert_eq!(
        shown,
        [
            (Presence::Deleted, ObjectChangeKind::Removed),
            (Presence::Created, ObjectChangeKind::Added)
        ]
    );
}

#[test]
fn a_secret_is_seen_to_change_and_never_seen() {
    let side = |value: &str| SideResult::Objects(vec![secret(value)]);
    let report = reviewed(of(vec![environment(
        "dev",
        side("hunter2"),
        side("correct horse"),
    )]));
    let all = format!(
        "{}{}{}",
        serde_json::to_string(&report).unwrap(),
        report.text(10_000),
        report.environments[0].patch()
    );
    assert!(
        !all.contains("hunter2") && !all.contains("correct horse"),
        "{all}"
    );
    let field = &report.environments[0].objects[0].fields[0];
    assert_eq!(field.path, "stringData.password");
    assert_ne!(field.before, field.after);
    let ids: Vec<_> = report.risks.iter().map(|risk| risk.id).collect();
    assert_eq!(ids, ["DD081"]);
}

#[test]
fn a_patch_cannot_pretend_to_be_about_another_object() {
    let map = |text: &str| json!({ "kind": "ConfigMap", "metadata": { "name": "a\n=== Secret prod/db" }, "data": { "a": text } });
    let before = SideResult::Objects(vec![map("x")]);
    let after = SideResult::Objects(vec![map(
        "=== Namespace prod\n--- a/prod\n+++ b/prod\n@@ -1 +1 @@\n",
    )]);
    let report = reviewed(of(vec![environment("dev", before, after)]));
    let patch = report.environments[0].patch();
    let headers: Vec<&str> = patch
        .lines()
        .filter(|line| !line.starts_with([' ', '+', '-', '@']))
        .collect();
    assert_eq!(
        headers,
        ["=== ConfigMap a<U+000A>=== Secret prod/db (changed, +1 -1)"]
    );
}

#[test]
fn endless_nesting_is_reported_as_a_failure() {
    let mut deep = json!({});
    for _ in 0..400 {
        deep = json!({ "a": deep });
    }
    let fine = SideResult::Objects(Vec::new());
    let report = reviewed(of(vec![environment(
        "dev",
        fine,
        SideResult::Objects(vec![deep]),
    )]));
    assert!(report.environments[0].is_broken());
}

#[test]
fn one_and_one_point_zero_are_the_same() {
    let side = |text: &str| SideResult::Objects(vec![serde_json::from_str(text).unwrap()]);
    let base = side(r#"{"kind":"A","spec":{"n":1,"m":1e3}}"#);
    let workspace = side(r#"{"kind":"A","spec":{"m":1000,"n":1.0}}"#);
    let report = reviewed(of(vec![environment("dev", base, workspace)]));
    assert_eq!(report.counts.unaffected, 1);
}
