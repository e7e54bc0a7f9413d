//! Validation of several files.

use super::{fixture, path};
use crate::rendering::compare::{CompareError, CompareProgress, Sides, ValidationStage};
use crate::rendering::tanka::testing::ReadOnlyTree;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

const SPEC: &str = r#"{"apiVersion":"tanka.dev/v1alpha1","kind":"Environment"}"#;

fn files() -> Vec<(String, String)> {
    let environments = (0..50).flat_map(|number| {
        let program = match number {
            7 => "{ broken".to_owned(),
            number => format!("{{\"n\": {number}, \"l\": import 'l{}'}}", number % 5),
        };
        let directory = format!("environments/e{number}");
        [
            (format!("{directory}/main.jsonnet"), program),
            (format!("{directory}/spec.json"), SPEC.to_owned()),
        ]
    });
    let libraries = (0..5).map(|number| (format!("lib/l{number}"), "{}".to_owned()));
    let marker = ("tkrc.yaml".to_owned(), String::new());
    environments.chain(libraries).chain([marker]).collect()
}

#[tokio::test]
async fn every_environment_is_rendered_once_however_many_files_are_validated() {
    let (fixture, files) = (fixture(), files());
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let is_program = |name: &&str| name.ends_with("main.jsonnet") || name.starts_with("lib/");
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).filter(is_program).collect();
    let paths = names.iter().map(|name| path(name)).chain([path("lib/none")]);
    let stages = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&stages);
    let on_stage = Arc::new(move |stage| reported.lock().unwrap().push(stage));
    let (sides, cancel) = (
        Sides::unchanged_tree(ReadOnlyTree::new(&files)),
        CancellationToken::new(),
    );
    let found = fixture
        .comparer
        .validate_all(sides.clone(), paths.collect(), on_stage, &cancel);
    let found = found.await.unwrap();
    let evaluated = fixture.evaluated();
    let mut once = evaluated.clone();
    once.dedup();
    assert_eq!((evaluated.len(), once.len()), (50, 50));
    for (path, validation) in &found {
        let alone = fixture
            .comparer
            .validate(sides.clone(), path.clone(), &cancel)
            .await;
        match (validation, alone) {
            (Ok(together), Ok(alone)) => {
                assert_eq!(together.findings, alone.findings, "{path}");
                assert_eq!(together.environments, alone.environments, "{path}");
                assert_eq!((together.left_out, alone.left_out), (0, 0), "{path}");
            }
            (Err(CompareError::Tree(_)), Err(CompareError::Tree(_))) => assert_eq!(path.as_str(), "lib/none"),
            (together, alone) => panic!("{path}: {together:?} {alone:?}"),
        }
    }
    let users = |name: &str| {
        let (_, found) = found.iter().find(|(path, _)| path.as_str() == name).unwrap();
        found.as_ref().unwrap().environments.len()
    };
    assert_eq!(
        (
            users("lib/l0"),
            users("lib/l2"),
            users("environments/e7/main.jsonnet")
        ),
        (10, 9, 1)
    );
    let stages = stages.lock().unwrap();
    let ended = |all: usize| {
        let progress = CompareProgress {
            done: all,
            total: all,
        };
        [
            ValidationStage::Files(progress),
            ValidationStage::Environments(progress),
        ]
        .map(|stage| stages.iter().filter(|reported| **reported == stage).count())
    };
    assert_eq!((ended(56), ended(50)), ([1, 0], [0, 1]));
}

/// T87: each message is redacted with the secrets of its own files, even if there are many other secrets.
#[tokio::test]
async fn the_messages_of_a_large_repository_are_shown_without_the_secrets_of_their_own_files() {
    let mut state = 7_u64;
    let mut random = || {
        let letters = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            char::from(
                b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[(state >> 58) as usize],
            )
        });
        letters.take(17_000).collect::<String>()
    };
    let mut files = vec![("tkrc.yaml".to_owned(), String::new())];
    for number in 0..40 {
        let held: Vec<String> = (0..4)
            .map(|key| format!("\"k{key}\": \"{}\"", random()))
            .collect();
        let held = format!(
            r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"s"}},"stringData":{{{}}}}}"#,
            held.join(",")
        );
        let directory = format!("environments/e{number}");
        files.push((format!("{directory}/main.jsonnet"), held));
        files.push((format!("{directory}/spec.json"), SPEC.to_owned()));
    }
    let broken = r#"{"password": "kept-to-ourselves-4711", "a": import 'kept', broken"#;
    files.push(("environments/broken/main.jsonnet".to_owned(), broken.to_owned()));
    files.push(("environments/broken/spec.json".to_owned(), SPEC.to_owned()));
    // A failure may quote the content of another imported file.
    files.push((
        "lib/kept".to_owned(),
        "{ token: 'q7Rk2ZpX9vTn4WbY6mLc' }".to_owned(),
    ));
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let is_program = |name: &&str| name.ends_with("main.jsonnet") || name.starts_with("lib/");
    let paths = files.iter().map(|(name, _)| *name).filter(is_program).map(path);
    let (sides, cancel) = (
        Sides::unchanged_tree(ReadOnlyTree::new(&files)),
        CancellationToken::new(),
    );
    let on_stage = Arc::new(|_| {});
    let found = fixture()
        .comparer
        .validate_all(sides, paths.collect(), on_stage, &cancel)
        .await
        .unwrap();
    let of = |name: &str| {
        let (_, found) = found.iter().find(|(path, _)| path.as_str() == name).unwrap();
        found.as_ref().unwrap()
    };
    let failure = of("environments/broken/main.jsonnet").environments[0]
        .failure
        .clone()
        .unwrap();
    assert!(
        failure.message.contains("broken") && failure.message.contains("⟦secret:"),
        "{failure:?}"
    );
    let findings = &of("environments/broken/main.jsonnet").findings;
    assert!(findings[0].message.contains("Expected"), "{findings:?}");
    let all = format!("{found:?}");
    for secret in ["kept-to-ourselves-4711", "q7Rk2ZpX9vTn4WbY6mLc"] {
        assert!(!all.contains(secret), "{failure:?}");
    }
}
