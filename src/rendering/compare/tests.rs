//! Complete comparisons of small trees, with an evaluator for JSON and one kind of import.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod prerender;
mod moves;
mod cross_check;
mod validate;

use super::{
    ChangeReport, CompareError, CompareProgress, CompareRequest, Comparer, Comparison, NO_ENVIRONMENTS, Sides,
};
use crate::base::model::{CheckState, FileChange, RepoPath, Secret};
use crate::base::redact::Redactor;
use crate::rendering::review::{AskedFor, FailureKind, Impact, NotProven, Presence, Proof};
use crate::rendering::tanka::Evaluate;
use crate::rendering::tanka::testing::{JsonEvaluator, ReadOnlyTree};
use crate::state::workspace::Tree;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

fn path(text: &str) -> RepoPath {
    RepoPath::parse(text).unwrap()
}

struct CompareFixture {
    evaluator: Arc<JsonEvaluator>,
    comparer: Arc<Comparer>,
}

fn fixture() -> CompareFixture {
    let evaluator = Arc::new(JsonEvaluator::default());
    let redactor = Arc::new(Redactor::new([Secret::new("a-live-secret-of-ours".to_owned())]));
    let comparer = Comparer::new(
        Arc::clone(&evaluator) as Arc<dyn Evaluate>,
        redactor,
        b"key".to_vec(),
    );
    CompareFixture {
        evaluator,
        comparer: Arc::new(comparer),
    }
}

impl CompareFixture {
    async fn all(&self, before: &[(&str, &str)], after: &[(&str, &str)]) -> Comparison {
        self.compare(CompareRequest::all(sides(before, after), ""))
            .await
            .unwrap()
    }

    async fn compare(&self, asked: CompareRequest) -> Result<Comparison, CompareError> {
        self.comparer.compare(asked, &CancellationToken::new()).await
    }

    /// Returns the entry points that were evaluated since the last call, sorted.
    fn evaluated(&self) -> Vec<String> {
        let mut asked = std::mem::take(&mut *self.evaluator.requests.lock().unwrap());
        asked.sort();
        asked
    }
}

fn sides(before: &[(&str, &str)], after: &[(&str, &str)]) -> Sides {
    let (base, workspace) = (ReadOnlyTree::new(before), ReadOnlyTree::new(after));
    let names: BTreeSet<&str> = before.iter().chain(after).map(|(name, _)| *name).collect();
    let change = |name: &str| FileChange {
        path: path(name),
        before: base.read(&path(name)).ok(),
        after: workspace.read(&path(name)).ok(),
    };
    let changes = names.into_iter().map(change);
    let changes = changes.filter(|change| change.before != change.after).collect();
    Sides {
        base,
        base_id: Some(format!("{before:?}")),
        workspace,
        changes,
        guard: None,
    }
}

fn web(replicas: u32) -> String {
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"web"}},"spec":{{"replicas":{replicas}}}}}"#
    )
}

const SPEC: &str = r#"{"spec":{"namespace":"web"}}"#;

fn repository<'a>(files: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let environments = ["dev", "prod", "other"];
    let mut all = vec![("jsonnetfile.json", "{}")];
    for environment in environments {
        all.push(match environment {
            "dev" => ("environments/dev/spec.json", SPEC),
            "prod" => ("environments/prod/spec.json", SPEC),
            _ => ("environments/other/spec.json", SPEC),
        });
    }
    all.extend([
        (
            "environments/dev/main.jsonnet",
            "{\"web\": import 'web.libsonnet'}",
        ),
        (
            "environments/prod/main.jsonnet",
            "{\"web\": import 'web.libsonnet'}",
        ),
        ("environments/other/main.jsonnet", "{}"),
    ]);
    for (name, content) in files {
        all.retain(|(known, _)| known != name);
        all.push((name, content));
    }
    all
}

fn impact<'a>(comparison: &'a Comparison, name: &str) -> &'a Impact {
    &comparison.report.environment(name).expect(name).impact
}

fn states(comparison: &Comparison) -> Vec<(CheckState, &str)> {
    let checks = comparison.checks.iter();
    checks.map(|check| (check.state, check.detail.as_str())).collect()
}

/// TK-80, TK-81
#[tokio::test]
async fn a_library_changes_what_uses_it_and_the_rest_is_proven() {
    let fixture = fixture();
    let (two, three, five) = (web(2), web(3), web(5));
    let base = repository(&[("lib/web.libsonnet", &two)]);
    let first = repository(&[("lib/web.libsonnet", &three)]);
    let asked = CompareRequest::all(sides(&base, &first), "scale web in dev");
    let comparison = fixture.compare(asked).await.unwrap();
    let report = &comparison.report;
    assert_eq!((report.counts.affected, report.counts.unaffected), (2, 1));
    assert_eq!(
        report.classes[0].environments,
        ["environments/dev", "environments/prod"]
    );
    assert_eq!(
        report.environment("environments/dev").unwrap().asked_for,
        AskedFor::Yes
    );
    assert_eq!(
        report.environment("environments/prod").unwrap().asked_for,
        AskedFor::No
    );
    assert!(matches!(
        impact(&comparison, "environments/other"),
        Impact::Unaffected { proof: Proof::ClosureUnchanged { closure } } if closure.len() == 64
    ));
    assert_eq!(states(&comparison), [(CheckState::Pass, ""); 4]);
    let entrypoints = ["dev", "prod"].map(|name| format!("environments/{name}/main.jsonnet"));
    let cross_checked = entrypoints.clone().map(|name| format!("{name} cross-checked"));
    let mut both = [entrypoints, cross_checked.clone()].concat();
    both.sort();
    assert_eq!(fixture.evaluated(), both);

    // The next revision renders only its own changes and nothing of the base.
    let main = format!("{{\"web\": {five}}}");
    let second = repository(&[
        ("lib/web.libsonnet", &three),
        ("environments/dev/main.jsonnet", &main),
    ]);
    let comparison = fixture.all(&base, &second).await;
    assert_eq!(comparison.report.classes.len(), 2);
    assert_eq!(fixture.evaluated(), [cross_checked[0].clone()]);
    fixture.all(&base, &second).await;
    assert!(fixture.evaluated().is_empty());
}

#[tokio::test]
async fn values_the_engines_disagree_on_are_not_proven_and_not_shown() {
    let fixture = fixture();
    let base = repository(&[("lib/web.libsonnet", "{}")]);
    let disputed = r#"{"web": {"apiVersion":"v1","kind":"DISPUTED","metadata":{"name":"x"}}}"#;
    let head = repository(&[
        ("lib/web.libsonnet", "{}"),
        ("environments/dev/main.jsonnet", disputed),
    ]);
    let comparison = fixture.all(&base, &head).await;
    let expected = "the two engines disagree at `$.a`";
    assert!(matches!(
        impact(&comparison, "environments/dev"),
        Impact::NotProven { reason: NotProven::FailsInWorkspace { workspace } }
            if workspace.kind == FailureKind::Disputed && workspace.message == expected
    ));
    assert_eq!(
        states(&comparison)[3],
        (CheckState::Fail, "`environments/dev/main.jsonnet`: at `$.a`")
    );
    assert!(!format!("{comparison:?}").contains("hunter"));
    // The base is cross-checked too, so that an existing disagreement is not attributed to the change.
    let asked = ["", " by the second", " cross-checked"];
    assert_eq!(
        fixture.evaluated(),
        asked.map(|mark| format!("environments/dev/main.jsonnet{mark}"))
    );
    let elsewhere = disputed.replace("\"x\"", "\"y\"");
    let comparison = fixture
        .all(
            &head,
            &repository(&[
                ("lib/web.libsonnet", "{}"),
                ("environments/dev/main.jsonnet", &elsewhere),
            ]),
        )
        .await;
    assert!(matches!(
        impact(&comparison, "environments/dev"),
        Impact::NotProven {
            reason: NotProven::FailsOnBoth { .. }
        }
    ));
}

#[tokio::test]
async fn a_difference_between_the_engines_that_is_known_is_named_and_fails_nothing() {
    let fixture = fixture();
    let base = repository(&[("lib/web.libsonnet", "{}")]);
    let known = r#"{"web": {"apiVersion":"v1","kind":"DISPUTED","metadata":{"name":"KNOWN"}}}"#;
    let head = repository(&[
        ("lib/web.libsonnet", "{}"),
        ("environments/dev/main.jsonnet", known),
    ]);
    let comparison = fixture.all(&base, &head).await;
    assert_eq!(comparison.report.classes.len(), 1);
    let detail = "except for how many digits fractions have in texts, see docs/tanka.md";
    assert_eq!(states(&comparison)[3], (CheckState::Pass, detail));
}

#[tokio::test]
async fn a_change_is_blamed_for_what_it_breaks_and_not_for_what_was_broken() {
    let fixture = fixture();
    let two = web(2);
    let base = repository(&[
        ("lib/web.libsonnet", &two),
        ("environments/other/main.jsonnet", "broken"),
    ]);
    let head = repository(&[
        ("lib/web.libsonnet", "a-live-secret-of-ours"),
        ("environments/other/main.jsonnet", "still broken"),
        ("environments/prod/main.jsonnet", "{}"),
    ]);
    let comparison = fixture.all(&base, &head).await;
    assert!(matches!(
        impact(&comparison, "environments/dev"),
        Impact::NotProven { reason: NotProven::FailsInWorkspace { workspace } }
            if workspace.kind == FailureKind::Program && workspace.message.contains("⟦secret:1⟧")
    ));
    assert!(matches!(
        impact(&comparison, "environments/other"),
        Impact::NotProven {
            reason: NotProven::FailsOnBoth { .. }
        }
    ));
    let (state, detail) = states(&comparison)[2];
    assert_eq!(state, CheckState::Fail);
    assert!(detail.starts_with("1 more; `environments/dev`: "), "{detail}");
    assert!(!format!("{comparison:?}").contains("a-live-secret-of-ours"));
    assert_eq!(comparison.report.counts.broken, 1);
}

fn inline(names: &[(&str, u32)]) -> String {
    let environment = |(name, replicas): &(&str, u32)| {
        let web = web(*replicas);
        format!(
            r#"{{"apiVersion":"tanka.dev/v1alpha1","kind":"Environment","metadata":{{"name":"{name}"}},"spec":{{"namespace":"{name}"}},"data":{web}}}"#
        )
    };
    let environments: Vec<String> = names.iter().map(environment).collect();
    format!("[{}]", environments.join(","))
}

#[tokio::test]
async fn several_environments_in_one_file_are_compared_separately() {
    let fixture = fixture();
    let (before, after) = (
        inline(&[("eu", 1), ("us", 1), ("old", 1)]),
        inline(&[("eu", 1), ("us", 2), ("new", 1)]),
    );
    let base = [
        ("tkrc.yaml", ""),
        ("environments/all/main.jsonnet", before.as_str()),
    ];
    let head = [
        ("tkrc.yaml", ""),
        ("environments/all/main.jsonnet", after.as_str()),
    ];
    let comparison = fixture.all(&base, &head).await;
    let presence = comparison.report.environments.iter();
    let presence: Vec<_> = presence
        .map(|one| (one.name.as_str(), one.presence, one.is_affected()))
        .collect();
    assert_eq!(
        presence,
        [
            ("eu", Presence::Kept, false),
            ("new", Presence::Created, true),
            ("old", Presence::Deleted, true),
            ("us", Presence::Kept, true),
        ]
    );
    let mut asked = CompareRequest::environment(sides(&base, &head), "environments/all");
    asked.only.as_mut().unwrap().name = Some("us".to_owned());
    let only = fixture.compare(asked).await.unwrap().report;
    assert_eq!(only.environments.len(), 1);
    assert_eq!(only.environments[0].name, "us");
}

#[tokio::test]
async fn an_environment_missing_on_one_side_can_still_be_compared() {
    let fixture = fixture();
    let (two, three) = (web(2), web(3));
    let base = repository(&[("lib/web.libsonnet", &two)]);
    let mut head = repository(&[("lib/web.libsonnet", &three)]);
    head.retain(|(name, _)| !name.starts_with("environments/dev/"));
    for name in ["environments/dev", "environments/prod", "environments/other"] {
        let asked = CompareRequest::environment(sides(&base, &head), name);
        let comparison = fixture.compare(asked).await.unwrap();
        assert_eq!(comparison.report.environments.len(), 1);
        assert_eq!(comparison.report.environments[0].name, name);
    }
    let asked = CompareRequest::environment(sides(&base, &head), "environments/none");
    assert!(matches!(
        fixture.compare(asked).await,
        Err(CompareError::Tanka(_))
    ));
}

/// An image in a field named like a password is hidden from the rules, and the report states this.
#[tokio::test]
async fn a_masked_field_that_no_rule_can_check_is_reported_as_a_risk() {
    let main = |image: &str, password: &str| {
        format!(
            r#"{{"s":{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"s"}},"stringData":{{"password":"{password}"}}}},
                "d":{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"web"}},"spec":{{"template":
                    {{"spec":{{"containers":[{{"name":"web","image":"{image}"}}]}}}}}}}}}}"#
        )
    };
    let found = async |before: String, after: String| {
        let lib = ("lib/web.libsonnet", "{}");
        let base = repository(&[lib, ("environments/dev/main.jsonnet", before.as_str())]);
        let head = repository(&[lib, ("environments/dev/main.jsonnet", after.as_str())]);
        let comparison = fixture().all(&base, &head).await;
        let ids: Vec<&str> = comparison.report.risks.iter().map(|risk| risk.id).collect();
        ids.into_iter()
            .filter(|id| ["DD060", "DD082"].contains(id))
            .collect::<Vec<_>>()
    };
    let open = found(
        main("web:1.0.0", "kept-to-us-1"),
        main("web:latest", "kept-to-us-1"),
    );
    assert_eq!(open.await, ["DD060"]);
    let hidden = found(
        main("web:1.0.0", "kept-to-us-1"),
        main("web:latest", "web:latest"),
    );
    assert_eq!(hidden.await, ["DD082"]);
}

#[tokio::test]
async fn no_secret_comes_through() {
    let fixture = fixture();
    let object = |value: &str| {
        format!(
            r#"{{"s":{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"s"}},"stringData":{{"p":"pass-{value}"}}}},
                "c":{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"c"}},"data":{{"p":"{value} a-live-secret-of-ours"}}}}}}"#
        )
    };
    let (before, after) = (object("one"), object("two"));
    let base = repository(&[
        ("lib/web.libsonnet", "{}"),
        ("environments/dev/main.jsonnet", &before),
    ]);
    let head = repository(&[
        ("lib/web.libsonnet", "{}"),
        ("environments/dev/main.jsonnet", &after),
    ]);
    let comparison = fixture.all(&base, &head).await;
    assert_eq!(comparison.report.counts.objects_changed, 2);
    let text = format!("{comparison:?}{}", comparison.report.text(10_000));
    for secret in ["pass-one", "pass-two", "a-live-secret-of-ours"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    assert!(text.contains("⟦secret:1⟧") && text.contains("‹hmac:"), "{text}");
}

#[tokio::test]
async fn environments_above_the_render_limit_are_reported_as_not_checked() {
    let mut fixture = fixture();
    Arc::get_mut(&mut fixture.comparer).unwrap().rendered_max = 1;
    let (two, three) = (web(2), web(3));
    let base = repository(&[("lib/web.libsonnet", &two)]);
    let comparison = fixture
        .all(&base, &repository(&[("lib/web.libsonnet", &three)]))
        .await;
    assert_eq!(comparison.report.counts.not_proven, 1);
    let why = "the change touches 2 entry points, and at most 1 are rendered";
    assert!(comparison.report.text(2_000).contains(why));
    let (state, detail) = states(&comparison)[2];
    assert_eq!(
        (state, detail),
        (CheckState::NotRun, format!("`environments/prod`: {why}").as_str())
    );
}

#[tokio::test]
async fn imports_and_syntax_are_checked_without_rendering() {
    let fixture = fixture();
    let two = web(2);
    let base = repository(&[("lib/web.libsonnet", &two)]);
    let head = repository(&[
        ("lib/web.libsonnet", "{ a: 1 b: 2 }"),
        ("lib/unused.libsonnet", "import 'nothing.libsonnet'"),
    ]);
    let comparison = fixture.all(&base, &head).await;
    let (state, detail) = states(&comparison)[0];
    assert_eq!(state, CheckState::Fail);
    assert!(
        detail.starts_with("`lib/web.libsonnet`:1:8-9 Expected a comma"),
        "{detail}"
    );
    let unused = "no environment uses `lib/unused.libsonnet`, so its imports were not checked";
    assert_eq!(states(&comparison)[1], (CheckState::Pass, unused));
}

#[tokio::test]
async fn without_environments_the_checks_say_so() {
    let comparison = fixture().all(&[("a.txt", "1")], &[("a.txt", "2")]).await;
    assert!(comparison.report.environments.is_empty());
    assert_eq!(comparison.report.counts.files, 1);
    let none = (CheckState::NotRun, NO_ENVIRONMENTS);
    let no_jsonnet = (CheckState::NotRun, "no Jsonnet file changed");
    assert_eq!(states(&comparison), [no_jsonnet, none, none, none]);
}

/// Progress counts both sides of every environment. Cached and missing ones count as done.
#[tokio::test]
async fn comparison_progress_counts_up_to_the_total() {
    let (two, three) = (web(2), web(3));
    let base = repository(&[("lib/web.libsonnet", &two)]);
    let head = repository(&[("lib/web.libsonnet", &three)]);
    let fixture = fixture();
    for _ in 0..2 {
        let asked = CompareRequest::all(sides(&base, &head), "");
        let mut progress = Vec::new();
        let compared = fixture
            .comparer
            .compare_with_progress(
                asked,
                &mut |reported| progress.push(reported),
                &CancellationToken::new(),
            )
            .await
            .unwrap();
        let total = 2 * compared.affected.len();
        assert!(
            total > 0 && progress.is_sorted_by_key(|progress| progress.done),
            "{progress:?}"
        );
        assert_eq!(progress.last(), Some(&CompareProgress { done: total, total }));
    }
}

#[tokio::test]
async fn a_comparison_that_is_stopped_says_nothing() {
    let (two, three) = (web(2), web(3));
    let base = repository(&[("lib/web.libsonnet", &two)]);
    let head = repository(&[("lib/web.libsonnet", &three)]);
    let stopped = CancellationToken::new();
    stopped.cancel();
    let (fixture, sides) = (fixture(), sides(&base, &head));
    let asked = CompareRequest::all(sides.clone(), "");
    let error = fixture.comparer.compare(asked, &stopped).await.unwrap_err();
    assert!(matches!(error, CompareError::Cancelled));
    let comparison = Err(fixture.comparer.report_uncompared(sides, error).await);
    // The report states that nothing was examined: no check passes, and the answer is not lost.
    let report = ChangeReport::new(comparison, 1_000, &Redactor::new(Vec::new()));
    let checks = &report.checks;
    assert_eq!((report.effects.as_str(), checks.len()), ("", 1));
    assert_eq!(report.unknown.as_deref(), Some("the comparison was stopped"));
    assert_eq!(
        (checks[0].state, checks[0].detail.as_str()),
        (CheckState::NotRun, "the comparison was stopped")
    );
}
