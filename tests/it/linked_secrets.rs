//! Files that are secret by their names, and links to them from directories that other programs read: charts,
//! kustomizations and packages are rendered without their contents. The contents do not look like secrets, so only the
//! names protect them.

use crate::secrets::commit;
use crate::support::app::{TestApp, step_number};
use crate::support::require::component;
use drydock::simulation::emulator::model::{ModelRequest, RequestResult, calls, says};
use gix::objs::tree::EntryKind::{Blob, Link};
use serde_json::{Value, json};

const ALICE: &str = "U0ALICE";
/// The secrets in denied files.
const DENIED: [&str; 2] = ["magpie in the orchard", "otter in the brook"];
/// The secret in a file that a link leads to as well.
const OPEN: &str = "heron at the lake";
const MAIN: &str = "environments/dev/main.jsonnet";

/// Creates a repository with a chart, a kustomization and a directory of denied files, with links to them.
fn repository(app: &TestApp) {
    let [dotenv, key] = DENIED.map(|words| format!("COLOUR={words}\n"));
    let get = |name: &str| format!("  {name}: {{{{ .Files.Get \"{name}.txt\" | quote }}}}\n");
    let template = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: of-the-chart\ndata:\n{}{}{}  all: {{{{ (.Files.Glob \"**\").AsConfig | toJson }}}}\n",
        get("dotenv"),
        get("key"),
        get("open"),
    );
    let generator = |files: &str| format!("configMapGenerator:\n- name: made\n  files: [{files}]\n");
    commit(
        app,
        &[
            (".env", Blob, &dotenv),
            ("secrets/prod.key", Blob, &key),
            ("secrets/words.txt", Blob, &key),
            ("notes/open.txt", Blob, OPEN),
            (
                "charts/web/Chart.yaml",
                Blob,
                "apiVersion: v2\nname: web\nversion: 1.0.0\n",
            ),
            ("charts/web/templates/map.yaml", Blob, &template),
            ("charts/web/dotenv.txt", Link, "../../.env"),
            ("charts/web/key.txt", Link, "../../secrets/prod.key"),
            ("environments/dev/vendor/linked", Link, "../../../secrets"),
            ("charts/web/open.txt", Link, "../../notes/open.txt"),
            ("k/open/kustomization.yaml", Blob, &generator("open.txt")),
            ("k/open/open.txt", Link, "../../notes/open.txt"),
            ("k/dotenv/kustomization.yaml", Blob, &generator("a.txt")),
            ("k/dotenv/a.txt", Link, "../../.env"),
            ("k/key/kustomization.yaml", Blob, &generator("a.txt")),
            ("k/key/a.txt", Link, "../../secrets/prod.key"),
            ("k/whole/kustomization.yaml", Blob, &generator("all/prod.key")),
            ("k/whole/all", Link, "../../secrets"),
        ],
    );
}

/// Returns the model's result of showing a program: whether it is an error, and the text.
async fn shown(program: &str, settings: &[(&str, &str)]) -> (bool, String) {
    let results = results(program, settings, &[]).await;
    let (last, before) = results.split_last().unwrap();
    assert!(before.iter().all(|result| !result.is_error), "{before:?}");
    (last.is_error, last.content.clone())
}

/// Returns the model's results of these calls and of a program that it writes and shows. Checks that no denied content
/// is in the output to the model or to a person.
async fn results(
    program: &str,
    settings: &[(&str, &str)],
    first: &[(&'static str, Value)],
) -> Vec<RequestResult> {
    let write = json!({ "path": MAIN, "content": program });
    let first = first.to_vec();
    let script = move |asked: &ModelRequest| {
        let before = first.len();
        match step_number(asked) {
            number if number < before => calls(first[number].0, first[number].1.clone()),
            number if number == before => calls("file_write", write.clone()),
            number if number == before + 1 => calls("tanka_show", json!({ "env_path": "environments/dev" })),
            _ => says("That is all."),
        }
    };
    let app = TestApp::with_settings(script, &[&[("limits.repairs_max", "0")], settings].concat()).await;
    repository(&app);
    app.admit_slack_editor(ALICE).await;
    app.ask(ALICE, "show me").await;
    app.wait_until_idle().await;
    for denied in DENIED {
        for asked in app.model_requests() {
            assert!(!asked.raw.contains(denied), "{denied} in {}", asked.raw);
        }
        assert!(
            !app.all_slack_output().contains(denied),
            "{}",
            app.all_slack_output()
        );
        app.demo.slack.with_state(|state| {
            for file in &state.files {
                assert!(
                    !String::from_utf8_lossy(&file.content).contains(denied),
                    "{}",
                    file.name
                );
            }
        });
    }
    let asked = app.model_requests();
    asked
        .iter()
        .flat_map(|asked| asked.last_results().to_vec())
        .collect()
}

/// T45
#[tokio::test]
async fn a_chart_with_links_to_files_of_secrets_renders_without_what_is_in_them() {
    let Some(helm) = component("helm") else { return };
    let program =
        "{ web: std.native('helmTemplate')('web', '../../charts/web', { calledFrom: std.thisFile }) }\n";
    let helm = helm.place().display().to_string();
    let (is_error, text) = shown(program, &[("helm.program", &helm)]).await;
    assert!(
        !is_error && text.contains(OPEN) && text.contains("of-the-chart"),
        "{text}"
    );
    for name in ["dotenv", "key"] {
        assert!(
            text.contains(&format!("{name}: \"\"")) || text.contains(&format!("{name}: ''")),
            "{text}"
        );
    }
}

/// T45
#[tokio::test]
async fn a_kustomization_with_links_to_files_of_secrets_is_built_of_nothing_in_them() {
    let Some(kustomize) = component("kustomize") else {
        return;
    };
    let kustomize = kustomize.place().display().to_string();
    for (name, is_built) in [
        ("open", true),
        ("dotenv", false),
        ("key", false),
        ("whole", false),
    ] {
        let program = format!(
            "{{ k: std.native('kustomizeBuild')('../../k/{name}', {{ calledFrom: std.thisFile }}) }}\n"
        );
        let (is_error, text) = shown(&program, &[("kustomize.program", &kustomize)]).await;
        assert_eq!(
            (is_error, text.contains(OPEN)),
            (!is_built, is_built),
            "{name}: {text}"
        );
    }
}

fn map_of(import: &str) -> String {
    format!(
        "{{ a: {{ apiVersion: 'v1', kind: 'ConfigMap', metadata: {{ name: 'a' }}, data: {{ x: std.toString({import}) }} }} }}\n"
    )
}

/// T45
#[tokio::test]
async fn a_directory_of_secrets_is_no_package_and_nothing_is_imported_from_it() {
    let path = "environments/dev";
    let install = [
        ("jb_init", json!({ "path": path })),
        (
            "jb_install",
            json!({ "path": path, "packages": ["../../secrets"] }),
        ),
    ];
    let results = results(&map_of("importstr 'secrets/words.txt'"), &[], &install).await;
    let (installed, shown) = (&results[1], &results[3]);
    assert!(
        installed.is_error && installed.content.contains("`sandbox.secrets_denied`"),
        "{installed:?}"
    );
    assert!(shown.is_error, "{shown:?}");
    for import in [
        "importstr 'linked/words.txt'",
        "importbin 'linked/words.txt'",
        "importstr 'linked/prod.key'",
        "importstr '../../secrets/prod.key'",
    ] {
        let (is_error, text) = self::shown(&map_of(import), &[]).await;
        let is_refused = text.contains("on the list of files no program may read");
        assert!(is_error && is_refused, "{import}: {text}");
    }
}
