//! Charts: external programs run in the sandbox on copies, see nothing else, and leave nothing behind. A program of a
//! repository gets the output of the real helm and kustomize.

use crate::support::evaluation::{
    TestTree, evaluate, evaluate_to_json, evaluator, file_request, path, program, snippet_request,
};
use crate::support::hostile::hostile_helm;
use crate::support::require::component;
use drydock::base::config::{ProgramSettings, SandboxSettings};
use drydock::rendering::jsonnet::{
    CrossCheckMode, CrossCheckResult, EvalLimits, EvalRequest, Evaluator, Import,
};
use drydock::state::workspace::Tree;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Returns settings with a helm, in a scratch directory of this test.
pub(crate) fn settings(helm: &Path, scratch: &Path) -> ProgramSettings {
    ProgramSettings {
        helm: Some(helm.to_owned()),
        scratch: scratch.to_owned(),
        ..SandboxSettings::default().programs
    }
}

pub(crate) fn with(settings: &ProgramSettings) -> Evaluator {
    let limits = EvalLimits {
        idle_max: 0,
        workers_max: 1,
        ..EvalLimits::default()
    };
    evaluator(limits).with_programs(program(), settings)
}

const MAIN: &str = "environments/dev/main.jsonnet";

/// Returns a request that calls helm once, beside a chart and an unrelated file.
pub(crate) fn asks(name: &str, options: &str) -> EvalRequest {
    let text = format!(
        "std.native('helmTemplate')('{name}', '../../charts/web', {{ calledFrom: std.thisFile }} + {options})"
    );
    let tree = TestTree::from_texts([
        (MAIN, &text),
        (
            "charts/web/Chart.yaml",
            "apiVersion: v2\nname: web\nversion: 1.0.0\n",
        ),
        ("charts/web/.env", "TOKEN=x"),
        (
            "charts/other/Chart.yaml",
            "apiVersion: v2\nname: other\nversion: 1.0.0\n",
        ),
        ("secrets/token", "x"),
    ]);
    file_request(tree, MAIN)
}

/// Returns the report of a hostile program about its attempts.
pub(crate) async fn tried(helm: &Path, deed: &str, options: &str) -> Value {
    let scratch = tempfile::tempdir().expect("a directory");
    let evaluator = with(&settings(helm, scratch.path()));
    let json = evaluate_to_json(&evaluator, asks(deed, options))
        .await
        .expect("an answer");
    let answer: Value = serde_json::from_str(&json).expect("JSON");
    let left = std::fs::read_dir(scratch.path()).expect("the directory").count();
    assert_eq!(left, 0, "a directory of a run stays");
    answer[format!("deeds_{deed}")]["data"].clone()
}

/// T50
#[tokio::test]
async fn nothing_that_a_program_asks_for_becomes_a_flag() {
    let seen = tried(
        hostile_helm(),
        "arguments",
        "{ namespace: '--debug', apiVersions: ['--kubeconfig=x'], noHooks: true }",
    )
    .await;
    let expected = "template --values - --api-versions=--kubeconfig=x --include-crds --no-hooks \
                    --namespace=--debug -- arguments ./charts/web";
    assert_eq!(seen["arguments"], expected);
}

/// Checks that helm's time does not count as the evaluation's, and that its limit applies to all calls together.
#[tokio::test]
async fn all_calls_of_an_evaluation_share_one_bound_of_time() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut settings = settings(hostile_helm(), scratch.path());
    settings.time_max = Duration::from_secs(2);
    let limits = EvalLimits {
        time_max: Duration::from_secs(1),
        idle_max: 0,
        ..EvalLimits::default()
    };
    let evaluator = evaluator(limits).with_programs(program(), &settings);
    let started = Instant::now();
    let error = evaluate_to_json(&evaluator, asks("hang", "{}"))
        .await
        .expect_err("no value");
    assert!(error.to_string().contains("it took more than 2 s"), "{error}");
    assert!(started.elapsed() >= Duration::from_secs(2));
}

/// T50
#[tokio::test]
async fn a_chart_outside_the_repository_is_refused() {
    let scratch = tempfile::tempdir().expect("a directory");
    let evaluator = with(&settings(hostile_helm(), scratch.path()));
    for (chart, why) in [
        ("../../../../etc", "outside the repository"),
        ("/etc", "outside the repository"),
        ("../../secrets", "there is no `secrets/Chart.yaml`"),
        ("../../.git/hooks", "git metadata"),
    ] {
        let text = format!("std.native('helmTemplate')('look', '{chart}', {{ calledFrom: std.thisFile }})");
        let tree = TestTree::from_texts([(MAIN, &text), ("secrets/token", "x")]);
        let error = evaluate_to_json(&evaluator, file_request(tree, MAIN))
            .await
            .expect_err("no value");
        assert!(error.to_string().contains(why), "{chart}: {error}");
    }
    let error = evaluate_to_json(&evaluator, asks("--post-renderer=./x", "{}"))
        .await
        .expect_err("no value");
    assert!(
        error.to_string().contains("release name may not start with '-'"),
        "{error}"
    );
}

/// T51
#[tokio::test]
async fn a_remote_base_is_refused_before_anything_runs() {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut settings = settings(hostile_helm(), scratch.path());
    settings.kustomize = Some("/nonexistent/kustomize".into());
    let evaluator = with(&settings);
    let tree = TestTree::from_texts([
        (
            MAIN,
            "std.native('kustomizeBuild')('./k', { calledFrom: std.thisFile })",
        ),
        (
            "environments/dev/k/kustomization.yaml",
            "resources: ['https://evil.example/base']\n",
        ),
    ]);
    let error = evaluate_to_json(&evaluator, file_request(tree, MAIN))
        .await
        .expect_err("no value");
    assert!(
        error.to_string().contains("remote bases are not allowed"),
        "{error}"
    );
    let text = "std.native('kustomizeBuild')('https://evil.example/k', { calledFrom: std.thisFile })";
    let error = evaluate_to_json(&evaluator, snippet_request(text))
        .await
        .expect_err("no value");
    assert!(
        error.to_string().contains("remote bases are not allowed"),
        "{error}"
    );
}

/// Returns a chart that uses all options of a call.
fn chart(main: &str) -> Arc<dyn Tree> {
    TestTree::from_texts([
        (MAIN, main),
        (
            "charts/web/Chart.yaml",
            "apiVersion: v2\nname: web\nversion: 1.0.0\n",
        ),
        ("charts/web/values.yaml", "replicas: 1\n"),
        (
            "charts/web/crds/crd.yaml",
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.example.com}\n",
        ),
        (
            "charts/web/templates/all.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-settings\n  \
             namespace: {{ .Release.Namespace }}\ndata:\n  replicas: {{ .Values.replicas | quote }}\n  \
             kube: {{ .Capabilities.KubeVersion.Version }}\n  \
             has: {{ .Capabilities.APIVersions.Has \"x/v1\" | quote }}\n---\n{{- if .Values.none }}\nx: 1\n{{- end }}\n",
        ),
        (
            "charts/web/templates/hook.yaml",
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: hook\n  annotations: {helm.sh/hook: pre-install}\n",
        ),
    ])
}

fn call(options: &str) -> String {
    format!(
        "std.native('helmTemplate')('rel', '../../charts/web', {{ calledFrom: std.thisFile }} + {options})"
    )
}

/// TK-49
#[tokio::test]
async fn the_real_helm_renders_charts() {
    let Some(helm) = component("helm") else { return };
    let scratch = tempfile::tempdir().expect("a directory");
    let evaluator = with(&settings(&helm.place(), scratch.path()));
    let options =
        "{ values: { replicas: 3 }, namespace: 'apps', kubeVersion: 'v1.30.0', apiVersions: ['x/v1'] }";
    let request = EvalRequest {
        cross_check: CrossCheckMode::On,
        ..file_request(chart(&call(options)), MAIN)
    };
    let evaluated = evaluate(&evaluator, request).await.expect("a value");
    assert_eq!(evaluated.cross_check, CrossCheckResult::Agrees);
    let objects: Value = serde_json::from_slice(&evaluated.json).expect("JSON");
    let expected = json!({
        "config_map_rel_settings": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": "rel-settings", "namespace": "apps" },
            "data": { "replicas": "3", "kube": "v1.30.0", "has": "true" },
        },
        "custom_resource_definition_a.example.com": {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": "a.example.com" },
        },
        "secret_hook": {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": "hook", "annotations": { "helm.sh/hook": "pre-install" } },
        },
    });
    assert_eq!(objects, expected);
    let read: Vec<&str> = evaluated
        .imports
        .iter()
        .filter_map(|import| match import {
            Import::Read { path, .. } => Some(path.as_str()),
            Import::Absent { .. } => None,
        })
        .collect();
    assert!(read.contains(&"charts/web/values.yaml"), "{read:?}");
    let fewer = "{ includeCrds: false, noHooks: true, nameFormat: '{{ .metadata.name }}' }";
    let fewer = evaluate_to_json(&evaluator, file_request(chart(&call(fewer)), MAIN))
        .await
        .expect("a value");
    let fewer: Value = serde_json::from_str(&fewer).expect("JSON");
    let names: Vec<&String> = fewer.as_object().expect("an object").keys().collect();
    assert_eq!(names, ["rel-settings"]);
    let broken = file_request(
        chart(&call("{ values: { replicas: 3 }, kubeVersion: 'x' }")),
        MAIN,
    );
    let error = evaluate_to_json(&evaluator, broken).await.expect_err("no value");
    assert!(error.to_string().contains("invalid kube version"), "{error}");
}

/// T50
#[tokio::test]
async fn an_archive_that_unpacks_to_too_much_is_an_error_of_its_call() {
    let Some(helm) = component("helm") else { return };
    let scratch = tempfile::tempdir().expect("a directory");
    let evaluator = with(&settings(&helm.place(), scratch.path()));
    let text = "std.native('helmTemplate')('rel', './bomb.tgz', { calledFrom: std.thisFile })";
    let tree = TestTree::with_bytes([("main.jsonnet", text)], "bomb.tgz", bomb());
    let error = evaluate_to_json(&evaluator, file_request(tree, "main.jsonnet"))
        .await
        .expect_err("no value");
    assert!(error.to_string().contains("larger than the maximum"), "{error}");
}

/// Returns a chart of a few KiB that contains a file of 200 MiB.
fn bomb() -> Vec<u8> {
    let packed = |bytes: &[u8]| {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(bytes).expect("memory");
        packed.finish().expect("memory")
    };
    const PART: usize = 10 << 20;
    let mut header = tar::Header::new_gnu();
    header.set_path("bomb/Chart.yaml").expect("a path");
    header.set_size(20 * PART as u64);
    header.set_mode(0o644);
    header.set_cksum();
    // An archive may consist of several concatenated parts.
    let part = packed(&vec![b' '; PART]);
    [packed(header.as_bytes()), part.repeat(20)].concat()
}

/// Checks that random values of a chart are the same in both engines and in every rendering of the same chart.
#[tokio::test]
async fn random_values_of_a_chart_are_generated_once_for_both_engines() {
    let Some(helm) = component("helm") else { return };
    let scratch = tempfile::tempdir().expect("a directory");
    let evaluator = with(&settings(&helm.place(), scratch.path()));
    let text = "std.native('helmTemplate')('rel', './web', { calledFrom: std.thisFile })";
    let template = "kind: Secret\nmetadata: {name: {{ randAlphaNum 24 }}}\n";
    let tree = TestTree::from_texts([
        ("main.jsonnet", text),
        ("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        ("web/templates/a.yaml", template),
    ]);
    let request = EvalRequest {
        cross_check: CrossCheckMode::On,
        ..file_request(tree, "main.jsonnet")
    };
    let first = evaluate(&evaluator, request.clone()).await.expect("a value");
    assert_eq!(first.cross_check, CrossCheckResult::Agrees);
    let again = evaluate(&evaluator, request).await.expect("a value");
    assert_eq!(first.json, again.json);
}

/// Checks that programs of a batch that share a library with a chart each record the chart as a dependency.
#[tokio::test]
async fn every_program_of_a_batch_accounts_for_its_chart() {
    let scratch = tempfile::tempdir().expect("a directory");
    let evaluator = with(&settings(hostile_helm(), scratch.path()));
    let library = "std.native('helmTemplate')('arguments', '../charts/web', { calledFrom: std.thisFile })";
    let main = "(import '../lib/web.libsonnet') + { own: std.thisFile }";
    let tree = TestTree::from_texts([
        ("a/main.jsonnet", main),
        ("b/main.jsonnet", main),
        ("lib/web.libsonnet", library),
        (
            "charts/web/Chart.yaml",
            "apiVersion: v2\nname: web\nversion: 1.0.0\n",
        ),
    ]);
    let requests = ["a/main.jsonnet", "b/main.jsonnet"].map(|name| file_request(Arc::clone(&tree), name));
    let answers = evaluator
        .evaluate_all(requests.into(), &CancellationToken::new())
        .await;
    for answer in answers {
        let evaluated = answer.expect("a value");
        let chart = path("charts/web/Chart.yaml");
        let accounts = evaluated
            .imports
            .iter()
            .any(|import| matches!(import, Import::Read { path, .. } if *path == chart));
        assert!(accounts, "{:?}", evaluated.imports);
    }
}

/// TK-49
#[tokio::test]
async fn the_real_kustomize_builds() {
    let Some(kustomize) = component("kustomize") else {
        return;
    };
    let scratch = tempfile::tempdir().expect("a directory");
    let mut settings = settings(hostile_helm(), scratch.path());
    settings.kustomize = Some(kustomize.place());
    let evaluator = with(&settings);
    let tree = TestTree::from_texts([
        (
            MAIN,
            "std.native('kustomizeBuild')('../../k/dev', { calledFrom: std.thisFile })",
        ),
        (
            "k/dev/kustomization.yaml",
            "resources: [../base]\nnamePrefix: dev-\n",
        ),
        ("k/base/kustomization.yaml", "resources: [cm.yaml]\n"),
        (
            "k/base/cm.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
        ),
    ]);
    let json = evaluate_to_json(&evaluator, file_request(tree, MAIN))
        .await
        .expect("a value");
    let objects: Value = serde_json::from_str(&json).expect("JSON");
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "dev-a" } });
    assert_eq!(objects, json!({ "config_map_dev_a": object }));
}
