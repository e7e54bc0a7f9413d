//! Choosing an environment, with files that are plain JSON.

#![allow(clippy::unwrap_used)]

use super::environment_choice::choose_environment;
use super::{InspectError, file_name, list_environments};
use crate::base::model::{RepoPath, Secret};
use crate::base::redact::Redactor;
use crate::rendering::tanka::testing::{JsonEvaluator, ReadOnlyTree};
use crate::rendering::tanka::{Environment, EnvironmentList, ListedEnvironment, Renderer, Target};
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

async fn chosen_target(given: &str) -> Result<(String, Option<String>), String> {
    let files = [
        ("jsonnetfile.json", "{}"),
        ("environments/dev/main.jsonnet", "{}"),
        ("environments/dev/spec.json", "{}"),
        ("environments/staging/main.jsonnet", "{}"),
        ("environments/staging/spec.json", "{}"),
        ("other/staging/main.jsonnet", "{}"),
        ("other/staging/spec.json", "{}"),
        ("environments/torn/main.jsonnet", "{"),
        ("lib/a.libsonnet", "{}"),
    ];
    let renderer = Renderer::new(ReadOnlyTree::new(&files), Arc::new(JsonEvaluator::default()));
    match choose_environment(&renderer, given, &CancellationToken::new()).await {
        Ok(Target { path, name, .. }) => Ok((path, name)),
        Err(InspectError::NoAnswer(why) | InspectError::Fails { why, .. }) => Err(why),
        Err(InspectError::Cancelled) => Err("cancelled".to_owned()),
    }
}

#[tokio::test]
async fn an_environment_is_selected_by_path_name_or_suffix() {
    let path = |path: &str| Ok((path.to_owned(), None));
    let named = |path: &str, name: &str| Ok((path.to_owned(), Some(name.to_owned())));
    for (given, expected) in [
        ("environments/dev", path("environments/dev")),
        ("`environments/dev/`", path("environments/dev/")),
        (
            "environments/dev/main.jsonnet",
            path("environments/dev/main.jsonnet"),
        ),
        ("dev", named("environments/dev/main.jsonnet", "environments/dev")),
        ("other/staging", path("other/staging")),
        // An environment that cannot be loaded can be chosen. Rendering it returns the reason.
        (
            "torn",
            named("environments/torn/main.jsonnet", "environments/torn"),
        ),
    ] {
        assert_eq!(chosen_target(given).await, expected, "{given}");
    }
}

#[tokio::test]
async fn an_ambiguous_or_unknown_environment_is_refused_with_suggestions() {
    for (given, says) in [
        (
            "staging",
            "`staging` can be `environments/staging`, `other/staging`. Name one of them.",
        ),
        ("inline/", ""),
        (
            "environments/stagin",
            "There is no environment `environments/stagin`. The nearest: `environments/staging`, `other/staging`.",
        ),
        (
            "scratch/own",
            "That path is not in the repository: what git ignores is not part of it.",
        ),
        ("taging", "The nearest: `environments/staging`, `other/staging`."),
        ("ging", "There is no environment `ging`. The nearest: "),
        ("lib", "There is no environment `lib`. "),
        ("no`pe\u{202e}", "There is no environment `nope"),
    ] {
        match chosen_target(given).await {
            Ok((path, _)) => assert_eq!((path.as_str(), says), ("inline/", ""), "{given}"),
            Err(why) => assert!(why.contains(says), "{given}: {why}"),
        }
    }
    let long = "x".repeat(100_000);
    assert!(chosen_target(&long).await.unwrap_err().chars().count() < 400);
}

#[test]
fn a_file_is_named_after_its_environment_and_nothing_else() {
    let redactor = Redactor::new([Secret::new("kept/to/ourselves-41".to_owned())]);
    for (name, expected) in [
        ("environments/dev", "environments-dev.yaml"),
        ("of kept/to/ourselves-41 it is", "of--secret-1--it-is.yaml"),
        ("../../etc/passwd", "etc-passwd.yaml"),
        (" ;rm -rf *", "rm--rf.yaml"),
        ("", "environment.yaml"),
        ("ü", "environment.yaml"),
    ] {
        assert_eq!(file_name(name, "yaml", &redactor), expected);
    }
    assert!(file_name(&"x".repeat(1_000), "yaml", &redactor).len() < 120);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// T43, T69: a list has one line for each environment, whatever its settings contain.
    #[test]
    fn no_setting_can_add_a_line_to_the_list(words in proptest::collection::vec(".*|a\nprod: namespace prod", 5)) {
        let mut environment = Environment::default();
        environment.metadata.name = words[0].clone();
        environment.spec.namespace = words[1].clone();
        environment.spec.api_server = words[2].clone();
        environment.spec.context_names = vec![words[3].clone()];
        environment.metadata.labels.insert("team".to_owned(), words[4].clone());
        let list = EnvironmentList {
            environments: vec![ListedEnvironment {
                entrypoint: RepoPath::parse("environments/dev/main.jsonnet").unwrap(),
                environment,
            }],
            ..EnvironmentList::default()
        };
        let marks = BTreeMap::from([(words[0].clone(), words[4].clone())]);
        let shown = list_environments(&list, &marks, 10);
        prop_assert_eq!(shown.matches('\n').count(), 1);
        prop_assert!(!shown.trim_end().chars().any(char::is_control), "{:?}", shown);
    }
}
