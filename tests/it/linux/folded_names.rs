//! A work tree on a file system that folds case, as on a Mac: another spelling of a name does not bypass a rule, and
//! normal work succeeds.

use super::folding::FoldingMount;
use crate::support::require;
use crate::support::shell::{BlockingModel, Shell};
use drydock::simulation::emulator::model::{calls, queue, says};
use serde_json::{Value, json};

const MAIN: &str = "environments/dev/main.jsonnet";
const KEY: &str = "SECRET-OF-THE-KEY-0123456789";

/// Returns a shell whose work tree is on such a file system.
fn shell() -> Option<(Shell, FoldingMount)> {
    require::component("fuse")?;
    let shell = Shell::with_repository(&[
        (MAIN, "{ replicas: 2 }\n"),
        (
            "environments/dev/spec.json",
            "{\"apiVersion\":\"tanka.dev/v1alpha1\",\"kind\":\"Environment\",\"metadata\":{\"name\":\"dev\"},\
             \"spec\":{\"namespace\":\"dev\"}}\n",
        ),
        ("secrets/prod.key", KEY),
        ("\u{6a5f}\u{5bc6}/42", KEY),
        ("reading/main.jsonnet", "importstr '../Secrets/PROD.key'\n"),
    ]);
    let files = shell.home().join("files");
    std::fs::rename(shell.work(), &files).unwrap();
    std::fs::create_dir(shell.work()).unwrap();
    let mount = FoldingMount::mount(&files, &shell.work()).expect("a mount");
    assert_eq!(shell.get("SECRETS/prod.KEY"), KEY, "it folds");
    Some((shell.set("ANTHROPIC_API_KEY", "sk-ant-test-0123456789"), mount))
}

#[test]
fn another_spelling_reaches_nothing_that_its_name_denies() {
    let Some((shell, _mount)) = shell() else { return };
    let write = |path: &str| ("file_write", json!({ "path": path, "content": "{}\n" }));
    let attempts: Vec<(&str, Value)> = vec![
        ("file_read", json!({ "path": "Secrets/prod.key" })),
        ("file_read", json!({ "path": "secrets/PROD.KEY" })),
        // Names without letters of two cases.
        ("file_read", json!({ "path": "\u{6a5f}\u{200d}\u{5bc6}/42" })),
        ("file_read", json!({ "path": "\u{6a5f}\u{5bc6}/42." })),
        ("file_read", json!({ "path": "Environments/dev/main.jsonnet" })),
        write("Environments/dev/main.jsonnet"),
        write("environments/DEV/new.jsonnet"),
        ("jb_init", json!({ "path": "Environments/dev" })),
        write("secrets/PROD.key"),
        write(".GIT/config"),
        write(".GitAttributes"),
        ("file_delete", json!({ "path": "environments/dev/MAIN.jsonnet" })),
    ];
    let answers = attempts
        .iter()
        .map(|(tool, arguments)| calls(*tool, arguments.clone()));
    let model = BlockingModel::start(queue(answers.chain([says("No way.")])));
    let shell = shell.set("DRYDOCK_PROVIDERS__ANTHROPIC__BASE_URL", &model.url());
    let ended = shell.run(&["ask", "do it"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!format!("{ended:?}").contains(KEY), "{ended:?}");
    let asked = model.asked();
    assert_eq!(
        asked.len(),
        attempts.len() + 1,
        "each attempt was made, and answered"
    );
    for (asked, (tool, arguments)) in asked.iter().skip(1).zip(&attempts) {
        let result = format!("{:?}", asked.last_results());
        assert!(result.contains("is_error: true"), "{tool} {arguments}: {result}");
        assert!(!result.contains(KEY), "{tool} {arguments}: {result}");
    }
    assert_eq!(shell.get(MAIN), "{ replicas: 2 }\n");
    assert_eq!(shell.get("secrets/prod.key"), KEY);
    assert!(!shell.work().join("environments/dev/jsonnetfile.json").exists());
    let read = shell.run(&["tanka", "env", "show", "reading"]);
    assert!(
        read.code == Some(1) && !format!("{read:?}").contains(KEY),
        "{read:?}"
    );
}

#[test]
fn ordinary_work_goes_on_where_names_are_folded() {
    let Some((shell, _mount)) = shell() else { return };
    let model = BlockingModel::start(queue([
        calls(
            "file_edit",
            json!({ "path": MAIN, "old": "replicas: 2", "new": "replicas: 4" }),
        ),
        calls(
            "file_write",
            json!({ "path": "environments/dev/Extra.libsonnet", "content": "{}\n" }),
        ),
        says("Done."),
    ]));
    let shell = shell.set("DRYDOCK_PROVIDERS__ANTHROPIC__BASE_URL", &model.url());
    let ended = shell.run(&["ask", "four replicas"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(shell.get(MAIN), "{ replicas: 4 }\n");
    assert_eq!(shell.get("environments/dev/Extra.libsonnet"), "{}\n");
    assert!(ended.out.contains("+{ replicas: 4 }"), "{ended:?}");
}
