//! Tests of rendering, with a stub evaluator.

#![allow(clippy::unwrap_used)]

use super::{Evaluate, Renderer, Target};
use crate::rendering::jsonnet::{CrossCheckResult, EntryPoint, EvalError, EvalRequest, Evaluation};
use crate::rendering::tanka::testing::ReadOnlyTree;
use crate::rendering::tanka::{Filter, TankaError};
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// Answers by the directory of the entry point: the value of the file, and the result of a script about it.
#[derive(Default)]
struct StubEvaluator {
    files: Vec<(&'static str, Value)>,
    scripts: Vec<(&'static str, Value)>,
    requests: Mutex<Vec<EvalRequest>>,
}

#[async_trait]
impl Evaluate for StubEvaluator {
    async fn evaluate(
        &self,
        request: EvalRequest,
        cancel: &CancellationToken,
    ) -> Result<Evaluation, EvalError> {
        if cancel.is_cancelled() {
            return Err(EvalError::Cancelled);
        }
        let (known, path) = match &request.entry {
            EntryPoint::File(path) => (&self.files, path.clone()),
            EntryPoint::Snippet { name, .. } => (&self.scripts, name.clone()),
        };
        self.requests.lock().unwrap().push(request);
        let directory = path.parent().unwrap_or_default();
        let value = known.iter().find(|(known, _)| *known == directory);
        let Some((_, value)) = value else {
            return Err(EvalError::Runtime {
                message: "boom".to_owned(),
                trace: Vec::new(),
            });
        };
        Ok(Evaluation {
            json: Bytes::from(value.to_string()),
            imports: Arc::default(),
            cross_check: CrossCheckResult::NotRun,
        })
    }
}

fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

fn inline(name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "tanka.dev/v1alpha1", "kind": "Environment",
        "metadata": { "name": name, "namespace": "overwritten" },
        "spec": { "namespace": "ns", "apiServer": "h" }, "data": data,
    })
}

fn renderer(known: StubEvaluator) -> (Renderer, Arc<StubEvaluator>) {
    let spec =
        "{\"metadata\":{\"name\":\"ignored\",\"labels\":{\"l\":\"1\"}},\"spec\":{\"namespace\":\"dev-ns\"}}";
    let tree = ReadOnlyTree::new(&[
        ("jsonnetfile.json", "{}"),
        ("environments/dev/main.jsonnet", ""),
        ("environments/dev/spec.json", spec),
        ("environments/inline/main.jsonnet", ""),
        ("environments/broken/main.jsonnet", ""),
        ("environments/malformed/main.jsonnet", ""),
        ("environments/malformed/spec.json", "{\"spec\":1}"),
        ("vendor/x/main.jsonnet", ""),
    ]);
    let known = Arc::new(known);
    (
        Renderer::new(tree, Arc::clone(&known) as Arc<dyn Evaluate>),
        known,
    )
}

async fn show(renderer: &Renderer, target: &Target) -> Result<Vec<String>, String> {
    let rendered = renderer
        .render(target, &Filter::default(), &CancellationToken::new())
        .await
        .map_err(|err| err.to_string())?;
    Ok(rendered
        .objects
        .iter()
        .map(|object| {
            let group = object
                .api_version()
                .split_once('/')
                .map_or("", |(group, _)| group);
            let slash = if group.is_empty() { "" } else { "/" };
            format!(
                "{group}{slash}{} {}/{}",
                object.kind(),
                object.namespace(),
                object.name()
            )
        })
        .collect())
}

fn named(path: &str, name: &str) -> Target {
    Target {
        name: Some(name.to_owned()),
        ..Target::from_path(path)
    }
}

/// TK-5
#[tokio::test]
async fn a_static_environment_is_named_after_its_place_and_knows_itself() {
    let files = vec![("environments/dev", json!({ "a": config_map("a") }))];
    let (renderer, known) = renderer(StubEvaluator {
        files,
        ..StubEvaluator::default()
    });
    let shown = show(&renderer, &Target::from_path("environments/dev")).await;
    assert_eq!(shown, Ok(vec!["ConfigMap dev-ns/a".to_owned()]));
    let asked = known.requests.lock().unwrap();
    assert_eq!(
        asked[0].ext_code["tanka.dev/environment"],
        "{\"apiVersion\":\"tanka.dev/v1alpha1\",\"kind\":\"Environment\",\"metadata\":{\"name\":\"environments/dev\",\
         \"namespace\":\"environments/dev/main.jsonnet\",\"labels\":{\"l\":\"1\"}},\"spec\":{\"namespace\":\"dev-ns\",\
         \"resourceDefaults\":{},\"expectVersions\":{}}}"
    );
    assert_eq!(
        asked[0].jpath,
        ["vendor", "environments/dev/vendor", "lib", "environments/dev"]
    );
}

/// TK-5
#[tokio::test]
async fn one_inline_environment_needs_no_name_and_several_do() {
    let data = json!({ "c": config_map("c") });
    let files = vec![("environments/inline", json!([inline("one", data.clone())]))];
    let (one, _) = renderer(StubEvaluator {
        files,
        ..StubEvaluator::default()
    });
    let target = Target::from_path("environments/inline");
    assert_eq!(show(&one, &target).await, Ok(vec!["ConfigMap ns/c".to_owned()]));

    let several = json!({ "b": inline("b", data.clone()), "a": [inline("a", data)] });
    let (several, _) = renderer(StubEvaluator {
        files: vec![("environments/inline", several)],
        ..StubEvaluator::default()
    });
    assert_eq!(
        show(&several, &target).await,
        Err("found multiple Environments in \"environments/inline\". Use `--name` to select a single one: \n - a\n - b"
            .to_owned())
    );
}

#[tokio::test]
async fn a_name_selects_one_environment_or_says_which_match() {
    let answer = |answer: Value| {
        let scripts = vec![("environments/inline", answer)];
        renderer(StubEvaluator {
            scripts,
            ..StubEvaluator::default()
        })
        .0
    };
    let target = named("environments/inline", "prod");
    let found = answer(json!({ "found": inline("prod", json!([config_map("x")])) }));
    assert_eq!(show(&found, &target).await, Ok(vec!["ConfigMap ns/x".to_owned()]));
    assert_eq!(
        show(&answer(json!({ "names": ["prod-us", "prod-eu"] })), &target).await,
        Err("found multiple Environments in \"environments/inline\" matching \"prod\". Provide a more specific \
             name that matches a single one: \n - prod-eu\n - prod-us"
            .to_owned())
    );
    assert_eq!(
        show(&answer(json!({ "names": [] })), &target).await,
        Err(
            "found no matching environments; run 'drydock tanka env list environments/inline' to view available options"
                .to_owned()
        )
    );
}

#[tokio::test]
async fn broken_environments_do_not_hide_the_others() {
    let scripts = vec![(
        "environments/inline",
        json!([inline("z", json!(null)), inline("a", json!(null))]),
    )];
    let (renderer, _) = renderer(StubEvaluator {
        scripts,
        ..StubEvaluator::default()
    });
    let list = renderer.list(".", &CancellationToken::new()).await.unwrap();
    let names = list
        .environments
        .iter()
        .map(|found| found.environment.metadata.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["a", "environments/dev", "z"]);
    let namespaces = list
        .environments
        .iter()
        .map(|found| found.environment.metadata.namespace.as_str());
    assert_eq!(
        namespaces.collect::<Vec<_>>(),
        [
            "environments/inline/main.jsonnet",
            "environments/dev/main.jsonnet",
            "environments/inline/main.jsonnet"
        ]
    );
    let failures = list
        .failures
        .iter()
        .map(|failure| (failure.entrypoint.as_str(), failure.error.to_string()));
    assert_eq!(
        failures.collect::<Vec<_>>(),
        [
            (
                "environments/broken/main.jsonnet",
                "evaluating jsonnet: boom".to_owned()
            ),
            (
                "environments/malformed/main.jsonnet",
                "parsing `environments/malformed/spec.json`: `spec` is not an object".to_owned()
            ),
        ]
    );
}

#[tokio::test]
async fn the_name_of_an_environment_is_as_good_as_its_path() {
    let one = inline("prod-eu", json!([config_map("x")]));
    let (renderer, known) = renderer(StubEvaluator {
        // The list and the choice get the same answer. Each uses its own part.
        scripts: vec![("environments/inline", json!([one]))],
        ..StubEvaluator::default()
    });
    let missing = show(&renderer, &Target::from_path("nowhere")).await;
    let missing = missing.unwrap_err();
    let says = [
        "found no matching environments; run 'drydock tanka env list .' to view available options.",
        "`nowhere` is not in the repository, neither as a path nor as the name of an environment.",
    ];
    assert!(says.iter().all(|text| missing.contains(text)), "{missing}");
    let asked_before = known.requests.lock().unwrap().len();
    let _ = renderer
        .render(
            &Target::from_path("prod-eu"),
            &Filter::default(),
            &CancellationToken::new(),
        )
        .await;
    let asked = known.requests.lock().unwrap();
    let last = asked.last().unwrap();
    assert!(asked.len() > asked_before);
    assert_eq!(last.ext_code["drydock.dev/name"], "\"prod-eu\"");
    assert!(
        matches!(&last.entry, EntryPoint::Snippet { name, .. } if name.parent() == Some("environments/inline"))
    );
}

#[tokio::test]
async fn a_stopped_list_is_stopped() {
    let (renderer, _) = renderer(StubEvaluator::default());
    let cancel = CancellationToken::new();
    cancel.cancel();
    let stopped = renderer.list(".", &cancel).await;
    assert!(matches!(
        stopped,
        Err(TankaError::Evaluation(EvalError::Cancelled))
    ));
}

#[tokio::test]
async fn a_value_that_nests_too_deeply_is_an_error() {
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let files = vec![("environments/dev", deep)];
    let (renderer, _) = renderer(StubEvaluator {
        files,
        ..StubEvaluator::default()
    });
    let refused = show(&renderer, &Target::from_path("environments/dev"))
        .await
        .unwrap_err();
    assert!(
        refused.starts_with("the value of the program cannot be used: recursion limit"),
        "{refused}"
    );
}
