//! Files that are validated together.

use super::{bench, path};
use crate::compare::{CompareError, Progress, Sides, Stage};
use crate::tanka::testing::Files;
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
    let (bench, files) = (bench(), files());
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let is_program = |name: &&str| name.ends_with("main.jsonnet") || name.starts_with("lib/");
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).filter(is_program).collect();
    let paths = names.iter().map(|name| path(name)).chain([path("lib/none")]);
    let stages = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&stages);
    let tell = Arc::new(move |stage| told.lock().unwrap().push(stage));
    let (sides, cancel) = (Sides::only(Files::new(&files)), CancellationToken::new());
    let found = bench
        .comparer
        .validate_all(sides.clone(), paths.collect(), tell, &cancel);
    let found = found.await.unwrap();
    let evaluated = bench.evaluated();
    let mut once = evaluated.clone();
    once.dedup();
    assert_eq!((evaluated.len(), once.len()), (50, 50));
    for (path, validation) in &found {
        let alone = bench
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
        let progress = Progress {
            done: all,
            total: all,
        };
        [Stage::Files(progress), Stage::Environments(progress)]
            .map(|stage| stages.iter().filter(|told| **told == stage).count())
    };
    assert_eq!((ended(56), ended(50)), ([1, 0], [0, 1]));
}
