//! Secrets that only their position, another file or an earlier call shows: no reader of a repository sees them.

use crate::secrets::{ALICE, PASSWORD, SPEC, app, assert_nothing_shown, commit};
use crate::support::app::step_number;
use drydock::simulation::emulator::model::{ModelRequest, calls, says};
use gix::objs::tree::EntryKind;
use serde_json::json;

/// Returns an inline environment whose name is a secret of another one, wherever a name or a setting is shown.
fn named() -> String {
    let object = "{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' } }";
    format!(
        "local p = (import '../vault/main.jsonnet').secret.stringData.opens;\n\
         {{ apiVersion: 'tanka.dev/v1alpha1', kind: 'Environment', metadata: {{ name: p, labels: {{ vault: p }} }}, \
         spec: {{ namespace: p, apiServer: 'https://' + p }}, data: {{ a: {object} }} }}\n"
    )
}

/// T56, T87: names of environments, of files and of a change's targets show no secret either.
#[tokio::test]
async fn no_name_that_a_program_makes_shows_a_secret() {
    let file = "environments/named/main.jsonnet";
    let app = app(move |asked: &ModelRequest| match step_number(asked) {
        0 => calls("tanka_find_environments", json!({})),
        1 => calls("file_write", json!({"path": file, "content": named()})),
        2 => calls("tanka_find_environments", json!({})),
        3 => calls(
            "file_edit",
            json!({"path": file, "old": "'https://' + p", "new": "'https://x.' + p"}),
        )
        .with_call("tanka_show", json!({"env_path": "environments/named"})),
        _ => says("There you are."),
    })
    .await;
    let result = app.ask(ALICE, "show me").await;
    for words in ["!envs", "!render named", "!diff named", "!risk", "!diff"] {
        app.run_command_in(ALICE, &result.thread, words).await;
    }
    app.wait_until_idle().await;
    let listed = app.model_requests()[3].last_results()[0].content.clone();
    assert!(listed.contains("labels vault=⟦secret:"), "{listed}");
    assert_nothing_shown(&app);
    let needs = format!("SELECT count(*) FROM change WHERE needs LIKE '%{PASSWORD}%'");
    assert_eq!(app.count(&needs), 0);
}

/// Words that are secret only by their position: in files that the configuration names, in a program, on a separate
/// line.
const WORDS: [&str; 5] = [
    "plain-blue-kettle-77",
    "dim-green-lantern-12",
    "grey-stone-bridge-64",
    "soft-moss-carpet-33",
    "calm-river-stones-58",
];

/// T87: a value that the configuration reads as a secret is hidden from every reader of the file. So is a value that a
/// program writes into a `Secret`, a value below its name, and one that is cut at the end of a shown line.
#[tokio::test]
async fn a_value_that_is_secret_only_by_its_position_is_hidden_everywhere() {
    let app = app(|asked: &ModelRequest| {
        let words = asked.last_user_text();
        let (before, arguments) = words.split_once('{').unwrap();
        let tool = before.split_whitespace().last().unwrap();
        match step_number(asked) {
            0 => calls(tool, serde_json::from_str(&format!("{{{arguments}")).unwrap()),
            _ => says("That is it."),
        }
    })
    .await;
    let [colour, shade, own, moss, river] = WORDS;
    let line = |word: &str| format!("{word}\n");
    let object = |name: &str, rest: &str| {
        format!("{{ apiVersion: 'v1', kind: '{name}', metadata: {{ name: 'a' }}, {rest} }}")
    };
    let secret = object(
        "Secret",
        &format!("stringData: {{ colour: importstr '../../keys/colour', moss: '{moss}' }}"),
    );
    let map = object(
        "ConfigMap",
        "data: { x: importstr '../../keys/colour', y: std.base64('u:' + importstr '../../keys/shade') }",
    );
    let long = format!("a: '{}', password: '{PASSWORD}', b: 1\n", "x".repeat(465));
    commit(
        &app,
        &[
            ("keys/colour", EntryKind::Blob, &line(colour)),
            ("keys/shade", EntryKind::Blob, &line(shade)),
            ("keys/db-password", EntryKind::Blob, &line(own)),
            (
                "conf/app.toml",
                EntryKind::Blob,
                "token = { file = \"../keys/shade\" }\n",
            ),
            (
                "conf/block.yaml",
                EntryKind::Blob,
                &format!("password: |\n  {river}\nlevel: 1\n"),
            ),
            ("conf/long.txt", EntryKind::Blob, &long),
            (
                "environments/colours/main.jsonnet",
                EntryKind::Blob,
                &format!("local a = {secret};\n{{ a: a }}\n"),
            ),
            ("environments/colours/spec.json", EntryKind::Blob, SPEC),
            (
                "environments/shades/main.jsonnet",
                EntryKind::Blob,
                &format!("{{ a: {map} }}\n"),
            ),
            ("environments/shades/spec.json", EntryKind::Blob, SPEC),
        ],
    );
    let looks = [
        ("file_read", json!({"path": "keys/colour"})),
        ("file_read", json!({"path": "keys/shade"})),
        ("file_read", json!({"path": "keys/db-password"})),
        ("file_read", json!({"path": "environments/colours/main.jsonnet"})),
        (
            "file_read",
            json!({"path": "conf/block.yaml", "offset": 1, "limit": 1}),
        ),
        (
            "file_search",
            json!({"glob_pattern": "conf/*", "text_query": "xxxx"}),
        ),
        (
            "file_search",
            json!({"glob_pattern": "keys/*", "text_query": "-"}),
        ),
        ("tanka_show", json!({"env_path": "environments/shades"})),
        ("git_show", json!({})),
    ];
    // Each runs in a separate turn, because a turn does not know the secrets that another one found.
    for (tool, arguments) in &looks {
        let before = app.model_requests().len();
        app.ask(ALICE, &format!("{tool} {arguments}")).await;
        let answered = app.model_requests()[before + 1].last_results()[0].clone();
        assert!(!answered.is_error, "{}", answered.content);
        assert!(
            answered.content.contains("⟦secret:"),
            "{tool} {arguments}: {}",
            answered.content
        );
        for word in WORDS.into_iter().chain([&PASSWORD[..12]]) {
            assert!(
                !answered.content.contains(word),
                "{tool} {arguments}: {}",
                answered.content
            );
        }
    }
    app.wait_until_idle().await;
    assert_nothing_shown(&app);
}

/// T87: a call is answered before another call of the same step finds a secret.
#[tokio::test]
async fn a_secret_learned_by_one_call_is_hidden_in_the_answers_of_others() {
    let app = app(|asked: &ModelRequest| match step_number(asked) {
        0 => calls("file_read", json!({"path": "lib/words.libsonnet"}))
            .with_call("tanka_show", json!({"env_path": "environments/late"})),
        _ => says("There you are."),
    })
    .await;
    let words = format!("local a = 1;\n{{ opens: '{PASSWORD}' }}\n");
    let main = "{ a: { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'a' }, stringData: import '../../lib/words.libsonnet' } }\n";
    commit(
        &app,
        &[
            ("lib/words.libsonnet", EntryKind::Blob, &words),
            ("environments/late/main.jsonnet", EntryKind::Blob, main),
            ("environments/late/spec.json", EntryKind::Blob, SPEC),
        ],
    );
    app.ask(ALICE, "show me").await;
    app.wait_until_idle().await;
    let results = app.model_requests()[1].last_results().to_vec();
    assert!(results.iter().all(|result| !result.is_error), "{results:?}");
    assert!(results[0].content.contains("opens: '⟦secret:"), "{results:?}");
    assert_nothing_shown(&app);
}
