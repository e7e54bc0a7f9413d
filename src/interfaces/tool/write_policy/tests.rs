//! Tests of the checks of every write.

#![allow(clippy::unwrap_used)]
use crate::interfaces::tool::testing::{failure, path, write_policy, write_policy_for};
use crate::state::access::Role;

#[test]
fn a_grant_covers_its_environments_and_nothing_shared() {
    let files = [
        ("environments/dev/main.jsonnet", "{}\n"),
        ("environments/prod/spec.json", "{}\n"),
        ("lib/dev/k.libsonnet", "{}\n"),
    ];
    let policy = write_policy_for(&files, Role::Editor, &["dev"]);
    let write = |text: &str| {
        policy
            .write(&path(text), "{}".to_owned(), "{}")
            .map_err(|err| err.to_string())
    };
    assert_eq!(write("environments/dev/a.libsonnet"), Ok(()));
    assert_eq!(
        write("environments/prod/spec.json"),
        Err("`environments/prod` is not in your grant (dev)".to_owned())
    );
    for shared in [
        "lib/dev/k.libsonnet",
        "lib/dev/main.jsonnet",
        "environments/new/main.jsonnet",
    ] {
        assert_eq!(
            write(shared),
            Err(format!(
                "`{shared}` is shared by all environments; your grant covers only dev"
            ))
        );
    }
    let deleted = policy.delete(&path("environments/prod/spec.json"));
    assert_eq!(failure(deleted), "`environments/prod` is not in your grant (dev)");
}

#[test]
fn moving_an_environment_next_to_others_needs_a_grant_for_them() {
    let spec = |server: &str, namespace: &str| {
        format!(r#"{{"spec":{{"apiServer":"https://{server}","namespace":"{namespace}"}}}}"#)
    };
    let files = [
        ("environments/dev/main.jsonnet", "{}".to_owned()),
        ("environments/dev/spec.json", spec("dev", "dev")),
        ("environments/qa/main.jsonnet", "{}".to_owned()),
        ("environments/qa/spec.json", spec("qa", "qa")),
        ("environments/prod/main.jsonnet", "{}".to_owned()),
        ("environments/prod/spec.json", spec("prod", "prod")),
        // Files that describe no environment of the repository have no destination.
        (
            "environments/dev/vendor/a/environments/default/main.jsonnet",
            "{}".to_owned(),
        ),
        (
            "environments/dev/vendor/a/environments/default/spec.json",
            "no JSON".to_owned(),
        ),
        ("docs/api/spec.json", "no JSON".to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let write = |grants: &[&str], server: &str, namespace: &str| {
        let policy = write_policy_for(&files, Role::Editor, grants);
        let content = spec(server, namespace);
        let written = policy.write(&path("environments/dev/spec.json"), content.clone(), &content);
        assert_eq!(
            written.is_ok(),
            policy.text(&path("environments/dev/spec.json")).unwrap() == content
        );
        written.map_err(|err| err.to_string())
    };
    for place in [("dev", "free"), ("free", "prod"), ("qa", "qa")] {
        assert_eq!(write(&["dev", "qa"], place.0, place.1), Ok(()), "{place:?}");
    }
    // Another namespace of the same cluster counts as the same destination.
    for place in [("prod", "prod"), ("prod", "free"), ("PROD", "prod")] {
        let refused = "`environments/dev/spec.json` was not changed: `environments/dev` would move to the \
                       destination of `environments/prod`, which requires a grant for `environments/prod`; your \
                       grant covers only dev, qa";
        assert_eq!(
            write(&["dev", "qa"], place.0, place.1),
            Err(refused.to_owned()),
            "{place:?}"
        );
        assert_eq!(write(&["dev", "prod"], place.0, place.1), Ok(()), "{place:?}");
    }
}

#[test]
fn a_viewer_writes_nothing() {
    let policy = write_policy_for(&[("a", "x\n")], Role::Viewer, &["**"]);
    assert_eq!(
        failure(policy.write(&path("a"), "y".to_owned(), "y")),
        "ada has role viewer: cannot write"
    );
    assert_eq!(
        failure(policy.delete(&path("a"))),
        "ada has role viewer: cannot write"
    );
    assert_eq!(policy.text(&path("a")).unwrap(), "x\n");
}

/// T68
#[test]
fn the_fifty_first_file_is_over_the_change_budget() {
    let policy = write_policy(&[("old", "x\n")]);
    for number in 0..50 {
        policy
            .write(&path(&format!("f{number}")), "x".to_owned(), "x")
            .unwrap();
    }
    policy.write(&path("f7"), "again".to_owned(), "again").unwrap();
    for refused in [
        policy.write(&path("f50"), "x".to_owned(), "x"),
        policy.delete(&path("old")),
    ] {
        assert!(failure(refused).starts_with("the change budget of 50 files is used up: `"));
    }
    // Reverting one change makes room for another.
    policy.delete(&path("f0")).unwrap();
    policy.write(&path("f50"), "x".to_owned(), "x").unwrap();
}

/// T87
#[test]
fn a_placeholder_of_a_hidden_secret_is_never_written() {
    let policy = write_policy::<&str>(&[]);
    let content = "token: ⟦secret:1⟧\n";
    let refused = failure(policy.write(&path("a"), content.to_owned(), content));
    assert!(
        refused.contains("stands for a value that was hidden from you"),
        "{refused}"
    );
    assert!(policy.tree.files().unwrap().is_empty());
}

#[test]
fn a_stopped_turn_writes_nothing_more() {
    let policy = write_policy(&[("a", "x\n")]);
    policy.cancel.cancel();
    assert_eq!(
        failure(policy.write(&path("b"), "x".to_owned(), "x")),
        "the turn was stopped"
    );
    assert_eq!(failure(policy.delete(&path("a"))), "the turn was stopped");
}

#[test]
fn ambiguous_settings_do_not_exempt_a_write_that_names_the_cluster_of_prod() {
    let server = r#"{"spec":{"apiServer":"https://prod","namespace":"shop"}}"#;
    let free = r#"{"spec":{"apiServer":"https://prod","namespace":"free"}}"#;
    let context = r#"{"spec":{"contextNames":["prod-eu"],"namespace":"shop"}}"#;
    let within = r#"{"spec":{"contextNames":["eu"],"namespace":"shop"}}"#;
    let nowhere = r#"{"spec":{"namespace":"shop"}}"#;
    let dev_server = r#"{"spec":{"apiServer":"https://dev","namespace":"shop"}}"#;
    for (dev, prod, written) in [
        (within, server, server),
        (within, server, free),
        (nowhere, server, server),
        (nowhere, server, free),
        (within, context, context),
        (dev_server, context, context),
    ] {
        let files = [
            ("environments/dev/main.jsonnet", "{}"),
            ("environments/dev/spec.json", dev),
            ("environments/prod/main.jsonnet", "{}"),
            ("environments/prod/spec.json", prod),
        ];
        let write = |grants: &[&str]| {
            let policy = write_policy_for(&files, Role::Editor, grants);
            policy.write(&path("environments/dev/spec.json"), written.to_owned(), written)
        };
        let refused = failure(write(&["dev"]));
        assert!(
            refused.contains("requires a grant for `environments/prod`"),
            "{refused}"
        );
        write(&["dev", "prod"]).unwrap();
    }
}
