//! Environments whose destination changes: reported first, with a rule of the highest severity and the required
//! grants, whatever they render to and whatever else fails.

use super::{fixture, repository, sides};
use crate::base::model::RequiredGrant;
use crate::base::redact::Redactor;
use crate::rendering::compare::{ChangeReport, CompareRequest, Comparison};
use crate::rendering::review::RiskSeverity;
use tokio_util::sync::CancellationToken;

fn spec(server: &str, namespace: &str) -> String {
    format!(r#"{{"spec":{{"apiServer":"{server}","namespace":"{namespace}"}}}}"#)
}

fn inline(name: &str, server: &str, namespace: &str, data: &str) -> String {
    format!(
        r#"{{"apiVersion":"tanka.dev/v1alpha1","kind":"Environment","metadata":{{"name":"{name}"}},
            "spec":{{"apiServer":"{server}","namespace":"{namespace}"}},"data":{data}}}"#
    )
}

fn taken(needs: &[RequiredGrant]) -> Vec<Option<&str>> {
    let mut taken: Vec<_> = needs.iter().map(|need| need.environment.as_deref()).collect();
    taken.dedup();
    taken
}

/// An object that is the same in every namespace.
const CLUSTER_WIDE: &str = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shared"}}"#;

const DEV: Option<&str> = Some("environments/dev");
const PROD: Option<&str> = Some("environments/prod");
const OTHER: Option<&str> = Some("environments/other");

fn found(comparison: &Comparison) -> Vec<(&str, String)> {
    let risks = comparison.report.risks.iter();
    risks
        .map(|risk| (risk.id, risk.findings[0].detail.clone()))
        .collect()
}

/// Returns dev, prod and other, each in its own cluster, with the same rendered objects.
fn apart() -> [(&'static str, String); 4] {
    [
        ("environments/dev/spec.json", spec("https://dev", "dev")),
        ("environments/prod/spec.json", spec("https://prod", "prod")),
        ("environments/other/spec.json", spec("https://other", "other")),
        ("lib/web.libsonnet", CLUSTER_WIDE.to_owned()),
    ]
}

fn base<'a>(files: &'a [(&'a str, String)]) -> Vec<(&'a str, &'a str)> {
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    repository(&files)
}

fn with<'a>(base: &[(&'a str, &'a str)], name: &'a str, text: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
    let mut files = base.to_vec();
    files.retain(|(known, _)| *known != name);
    files.extend(text.map(|text| (name, text)));
    files
}

#[tokio::test]
async fn an_environment_that_becomes_another_is_said_first_with_the_grants_of_both() {
    let (apart, retargeted) = (apart(), spec("https://prod", "prod"));
    let base = base(&apart);
    let head = with(&base, "environments/dev/spec.json", Some(&retargeted));
    let comparison = fixture().all(&base, &head).await;
    assert_eq!(taken(&comparison.needs), [DEV, PROD]);
    let text = comparison.report.text(1_000);
    let first = "⚠ `environments/dev` moves: `spec.apiServer` https://dev -> https://prod, `spec.namespace` dev -> prod; \
                 it may share the destination of `environments/prod`";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("0 of 3 environments change"), "{text}");
    let risks = &comparison.report.risks;
    assert_eq!((risks[0].id, risks[0].severity), ("DD101", RiskSeverity::High));
    let json = serde_json::to_value(&comparison.report).unwrap();
    assert_eq!(json["settings"][0]["environment"], "environments/dev");
    assert_eq!(json["settings"][0]["happens"], "changed");
    assert_eq!(json["settings"][0]["reaches"][0], "environments/prod");

    // A free destination requires only the grant of the environment. The same applies to labels.
    let elsewhere = spec("https://free", "free");
    let head = with(&base, "environments/dev/spec.json", Some(&elsewhere));
    let comparison = fixture().all(&base, &head).await;
    assert_eq!(
        (taken(&comparison.needs), found(&comparison)[0].0),
        (vec![DEV], "DD101")
    );
    let labelled =
        r#"{"metadata":{"labels":{"a":"b"}},"spec":{"apiServer":"https://dev","namespace":"dev"}}"#;
    let head = with(&base, "environments/dev/spec.json", Some(labelled));
    let comparison = fixture().all(&base, &head).await;
    let change = ("DD103", "`metadata.labels.a` nothing -> b".to_owned());
    assert_eq!(
        (taken(&comparison.needs), found(&comparison)),
        (vec![DEV], vec![change])
    );
    // A different format with the same content is no change.
    let spaced = format!(" {}\n", apart[0].1);
    let head = with(&base, "environments/dev/spec.json", Some(&spaced));
    let comparison = fixture().all(&base, &head).await;
    assert!(comparison.needs.is_empty() && comparison.report.settings.is_empty());
}

#[tokio::test]
async fn a_description_that_comes_or_goes_or_cannot_be_read_counts_too() {
    let apart = apart();
    let base = base(&apart);
    let gone = with(&base, "environments/dev/spec.json", None);
    let comparison = fixture().all(&base, &gone).await;
    assert_eq!(
        found(&comparison)[0],
        ("DD101", "its settings are removed".to_owned())
    );
    assert!(
        comparison
            .report
            .text(500)
            .starts_with("⚠ `environments/dev` moves: its settings are removed")
    );

    // The same environment at another path reaches the environments at its destination. The new path has no owner
    // yet.
    let moved = with(&gone, "environments/copy/spec.json", Some(&apart[0].1));
    let moved = with(&moved, "environments/copy/main.jsonnet", Some("{}"));
    let comparison = fixture().all(&base, &moved).await;
    assert_eq!(taken(&comparison.needs), [None, DEV]);
    // An environment below another one belongs to the outer one, and may reach others that the outer one does not.
    for (text, needs) in [(&apart[0].1, vec![DEV]), (&apart[1].1, vec![DEV, PROD])] {
        let nested = with(&base, "environments/dev/more/spec.json", Some(text));
        let nested = with(&nested, "environments/dev/more/main.jsonnet", Some("{}"));
        let comparison = fixture().all(&base, &nested).await;
        assert_eq!(taken(&comparison.needs), needs);
    }
    let double = r#"{"spec":{"namespace":"prod"},"spec":{"apiServer":"https://dev","namespace":"dev"}}"#;
    let head = with(&base, "environments/dev/spec.json", Some(double));
    let comparison = fixture().all(&base, &head).await;
    assert_eq!(taken(&comparison.needs), [None, DEV]);
    let (id, detail) = &found(&comparison)[0];
    assert!(
        *id == "DD102" && detail.contains("`spec` is given twice"),
        "{detail}"
    );
}

#[tokio::test]
async fn an_environment_in_a_program_moves_whatever_else_fails() {
    let apart = apart();
    let mut base = base(&apart);
    base.retain(|(name, _)| *name != "environments/dev/spec.json" && *name != "environments/other/spec.json");
    let (dev, other) = (
        inline("dev", "https://dev", "dev", "{}"),
        inline("other", "https://other", "other", "{}"),
    );
    let base = with(&base, "environments/dev/main.jsonnet", Some(&dev));
    let base = with(&base, "environments/other/main.jsonnet", Some(&other));
    let moved = inline("dev", "https://other", "other", "{}");
    let head = with(&base, "environments/dev/main.jsonnet", Some(&moved));
    // The same change also breaks another environment.
    let head = with(&head, "environments/prod/main.jsonnet", Some("no JSON"));
    let comparison = fixture().all(&base, &head).await;
    assert_eq!(taken(&comparison.needs), [DEV, OTHER]);
    assert!(comparison.report.text(1_000).starts_with("⚠ `dev` moves: "));

    // Its objects are broken, but its destination is known.
    let broken = inline("dev", "https://prod", "prod", "[1]");
    let head = with(&base, "environments/dev/main.jsonnet", Some(&broken));
    let comparison = fixture().all(&base, &head).await;
    assert!(!comparison.failing.is_empty());
    assert_eq!(taken(&comparison.needs), [DEV, PROD]);

    // An environment with unknown settings may have any destination.
    let head = with(&base, "environments/dev/main.jsonnet", Some("no JSON"));
    let comparison = fixture().all(&base, &head).await;
    assert_eq!(taken(&comparison.needs), [None, DEV]);
    assert_eq!(found(&comparison)[0].0, "DD102");
    assert!(
        comparison
            .report
            .text(1_000)
            .starts_with("⚠ Not compared: the destination of `environments/dev` is unknown: ")
    );
}

#[tokio::test]
async fn a_move_counts_even_if_its_target_is_redacted() {
    let mut apart = apart();
    apart[1].1 = spec("https://prod", "a-live-secret-of-ours");
    let (base, retargeted) = (base(&apart), spec("https://prod", "a-live-secret-of-ours"));
    let head = with(&base, "environments/dev/spec.json", Some(&retargeted));
    let comparison = fixture().all(&base, &head).await;
    assert_eq!(taken(&comparison.needs), [DEV, PROD]);
    let shown = format!("{:?}{}", comparison.report, comparison.report.text(5_000));
    assert!(!shown.contains("a-live-secret"), "{shown}");
}

#[tokio::test]
async fn an_uncompared_change_reports_certain_and_possible_moves() {
    let apart = apart();
    let mut base = base(&apart);
    base.retain(|(name, _)| *name != "environments/other/spec.json");
    let other = inline("other", "https://other", "other", "{}");
    let base = with(&base, "environments/other/main.jsonnet", Some(&other));
    let (retargeted, moved) = (
        spec("https://prod", "prod"),
        inline("other", "https://prod", "prod", "{}"),
    );
    let head = with(&base, "environments/dev/spec.json", Some(&retargeted));
    let head = with(&head, "environments/other/main.jsonnet", Some(&moved));
    let (fixture, sides) = (fixture(), sides(&base, &head));
    let stopped = CancellationToken::new();
    stopped.cancel();
    let asked = CompareRequest::all(sides.clone(), "");
    let error = fixture.comparer.compare(asked, &stopped).await.unwrap_err();
    let uncompared = fixture.comparer.report_uncompared(sides, error).await;
    let report = ChangeReport::new(Err(uncompared), 2_000, &Redactor::new(Vec::new()));
    assert_eq!(taken(&report.needs), [None, DEV, OTHER, PROD]);
    for said in [
        "⚠ `environments/dev` moves: `spec.apiServer` https://dev -> https://prod",
        "⚠ Not compared: the destination of `environments/other` is unknown",
        "DD101",
        "DD102",
    ] {
        assert!(report.effects.contains(said), "{said}: {}", report.effects);
    }
    assert_eq!(report.unknown.as_deref(), Some("the comparison was stopped"));
}

#[tokio::test]
async fn ambiguous_old_settings_do_not_exempt_an_inline_environment_from_the_grant() {
    let in_program = |spec: &str| {
        format!(
            r#"{{"apiVersion":"tanka.dev/v1alpha1","kind":"Environment","metadata":{{"name":"dev"}},"spec":{spec},"data":{{}}}}"#
        )
    };
    let server = r#"{"apiServer":"https://prod","namespace":"shop"}"#;
    let free = r#"{"apiServer":"https://prod","namespace":"free"}"#;
    let context = r#"{"contextNames":["prod-eu"],"namespace":"shop"}"#;
    for (dev, prod, moved) in [
        (
            r#"{"contextNames":["kind-dev"],"namespace":"shop"}"#,
            server,
            server,
        ),
        (
            r#"{"contextNames":["kind-dev"],"namespace":"shop"}"#,
            server,
            free,
        ),
        (r#"{"namespace":"shop"}"#, server, server),
        (r#"{"contextNames":["eu"],"namespace":"shop"}"#, context, context),
        (
            r#"{"apiServer":"https://dev","namespace":"shop"}"#,
            context,
            context,
        ),
    ] {
        let prod = format!(r#"{{"spec":{prod}}}"#);
        let (was, is) = (in_program(dev), in_program(moved));
        let base = repository(&[("environments/prod/spec.json", prod.as_str())]);
        let base = with(&base, "environments/dev/spec.json", None);
        let base = with(&base, "environments/other/spec.json", None);
        let base = with(&base, "environments/dev/main.jsonnet", Some(&was));
        let head = with(&base, "environments/dev/main.jsonnet", Some(&is));
        let comparison = fixture().all(&base, &head).await;
        assert_eq!(taken(&comparison.needs), [DEV, PROD], "{dev} {moved}");
        let text = comparison.report.text(1_000);
        assert!(
            text.contains("it may share the destination of `environments/prod`"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn an_unreadable_spec_affects_only_its_own_environment() {
    let (apart, free) = (apart(), spec("https://free", "free"));
    let good = base(&apart);
    // Links to missing targets and to targets outside, before and after the change.
    let bad = with(&good, "environments/other/spec.json", Some("-> nowhere"));
    let bad = with(&bad, "environments/out/spec.json", Some("-> ../../../x"));
    let bad = with(&bad, "environments/out/main.jsonnet", Some("{}"));
    let edited = with(&bad, "lib/web.libsonnet", Some("{}"));
    let comparison = fixture().all(&bad, &edited).await;
    assert!(comparison.needs.is_empty(), "{:?}", comparison.needs);
    assert_ne!(comparison.report.environments.len(), 0);
    // The destinations of these environments are unknown, so that an environment that moves may reach them.
    let moved = with(&bad, "environments/dev/spec.json", Some(&free));
    let comparison = fixture().all(&bad, &moved).await;
    assert_eq!(taken(&comparison.needs), [DEV, OTHER, Some("environments/out")]);
    // A change that breaks the settings makes the destination unknown. A change that repairs them states it.
    let broken = with(&good, "environments/other/spec.json", Some("-> nowhere"));
    let comparison = fixture().all(&good, &broken).await;
    assert_eq!(taken(&comparison.needs), [None, OTHER]);
    assert_eq!(found(&comparison)[0].0, "DD102");
    let comparison = fixture().all(&broken, &good).await;
    assert_eq!(taken(&comparison.needs), [OTHER]);
    let comparison = fixture()
        .all(&broken, &with(&broken, "environments/other/spec.json", None))
        .await;
    assert_eq!(taken(&comparison.needs), [OTHER]);
}

#[tokio::test]
async fn vendored_and_orphaned_specs_never_move_and_occupy_no_cluster() {
    let (apart, free, prod) = (
        apart(),
        spec("https://free", "free"),
        spec("https://prod", "prod"),
    );
    let base = base(&apart);
    // Packages contain environments of their own, and an unrelated file has the name of a settings file without a
    // program beside it.
    let (mut before, mut after) = (base.clone(), base.clone());
    for (name, is_there_before) in [
        ("environments/dev/vendor/a/environments/default", false),
        ("vendor/a/environments/default", false),
        ("vendor/b/environments/default", true),
    ] {
        let main: &str = format!("{name}/main.jsonnet").leak();
        let described: &str = format!("{name}/spec.json").leak();
        if is_there_before {
            before.extend([(main, "{}"), (described, "no JSON")]);
        }
        after.extend([(main, "{}"), (described, prod.as_str())]);
    }
    before.push(("docs/api/spec.json", "no JSON"));
    after.push(("docs/api/spec.json", "-> nowhere"));
    let comparison = fixture().all(&before, &after).await;
    assert!(comparison.needs.is_empty(), "{:?}", comparison.needs);
    assert!(comparison.report.settings.is_empty());
    let moved = with(&before, "environments/dev/spec.json", Some(&free));
    let comparison = fixture().all(&before, &moved).await;
    assert_eq!(taken(&comparison.needs), [DEV]);
    // Any program makes it an environment, because `tk` can be run on the file directly.
    let named = with(&base, "environments/dev/more/spec.json", Some(&prod));
    let named = with(&named, "environments/dev/more/app.jsonnet", Some("{}"));
    let comparison = fixture().all(&base, &named).await;
    assert_eq!(taken(&comparison.needs), [DEV, PROD]);
    // A settings file without a program becomes an environment once it has one.
    let alone = with(&base, "environments/dev/more/spec.json", Some(&prod));
    let comparison = fixture().all(&base, &alone).await;
    assert!(comparison.needs.is_empty(), "{:?}", comparison.needs);
    let comparison = fixture().all(&alone, &named).await;
    assert_eq!(taken(&comparison.needs), [Some("environments/dev/more"), PROD]);
}

/// T54
#[tokio::test]
async fn very_many_environments_that_move_take_a_grant_for_all() {
    let apart = apart();
    let base = base(&apart);
    // One program with more clusters than are compared with each other.
    let many = |domain: &str| {
        let one = |number: usize| {
            let (name, server) = (format!("e{number}"), format!("https://{number}.{domain}"));
            inline(&name, &server, "shop", "{}")
        };
        format!("[{}]", (0..1_100).map(one).collect::<Vec<_>>().join(","))
    };
    let (before, after) = (many("dev"), many("prod"));
    let was = with(&base, "environments/dev/spec.json", None);
    let was = with(&was, "environments/dev/main.jsonnet", Some(&before));
    let is = with(&was, "environments/dev/main.jsonnet", Some(&after));
    let comparison = fixture().all(&was, &is).await;
    assert_eq!(taken(&comparison.needs), [None, DEV]);
    assert_eq!(comparison.needs.len(), 2);
    let said = &comparison.needs[0].because;
    assert!(
        said.ends_with("moves to a destination that any environment may have"),
        "{said}"
    );
    assert_eq!(comparison.report.settings.len(), 1_100);
    assert_eq!(comparison.report.settings[0].reaches, ["**"]);

    // More environments than grants by name.
    let names: Vec<String> = (0..1_001).map(|number| format!("more/{number}")).collect();
    let files = names
        .iter()
        .flat_map(|name| [format!("{name}/main.jsonnet"), format!("{name}/spec.json")]);
    let files: Vec<String> = files.collect();
    let described = |label: &'static str| {
        let content = move |name: &str| if name.ends_with(".json") { label } else { "{}" };
        files.iter().map(move |name| (name.as_str(), content(name)))
    };
    let was: Vec<_> = base.iter().copied().chain(described("{}")).collect();
    let labelled = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    let is: Vec<_> = base.iter().copied().chain(described(labelled)).collect();
    let comparison = fixture().all(&was, &is).await;
    assert_eq!(taken(&comparison.needs), [None]);
    assert_eq!(
        comparison.needs[0].because,
        "1001 environments get other settings or are at the destination of others"
    );
}
