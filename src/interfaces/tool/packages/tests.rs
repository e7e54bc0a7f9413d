//! Tests of the tools for packages.

#![allow(clippy::unwrap_used)]

use super::PackageContext;
use super::init::JbInit;
use super::install::JbInstall;
use super::list::JbList;
use super::plan::JbPlan;
use super::update::JbUpdate;
use crate::interfaces::tool::testing::{call, failure, path, paths_outside, write_policy, write_policy_for};
use crate::interfaces::tool::write_policy::WritePolicy;
use crate::rendering::bundler::OfflineFetcher;
use crate::state::access::Role;
use serde_json::json;
use std::sync::Arc;

const LOCAL: &str =
    r#"{"version": 1, "dependencies": [{"source": {"local": {"directory": "libs/x"}}, "version": ""}]}"#;
const REMOTE: &str = r#"{"version": 1, "dependencies": [{"source": {"git": {"remote": "https://github.com/org/c.git", "subdir": ""}}, "version": "v1"}]}"#;

fn package_context(policy: WritePolicy) -> PackageContext {
    PackageContext {
        policy,
        fetch: Arc::new(OfflineFetcher),
    }
}

/// TK-44, TK-45, TK-47
#[test]
fn a_project_is_begun_installed_and_listed() {
    let context = package_context(write_policy(&[("libs/x/x.libsonnet", "{}")]));
    let begun = call::<JbInit>(&context, json!({ "path": "." })).unwrap();
    assert_eq!(begun, "wrote jsonnetfile.json");
    let again = failure(call::<JbInit>(&context, json!({ "path": "." })));
    assert_eq!(again, "jsonnetfile.json already exists");
    assert_eq!(
        call::<JbList>(&context, json!({ "path": "." })).unwrap(),
        "no packages are listed or locked"
    );
    let planned = call::<JbPlan>(&context, json!({ "path": ".", "packages": ["libs/x"] })).unwrap();
    assert_eq!(
        planned,
        "added x at local\nLOCAL x -> libs/x\n3 files differ from before\nnothing was written"
    );
    assert_eq!(
        context.policy.tree.changes().unwrap().len(),
        1,
        "a plan writes nothing"
    );
    let installed = call::<JbInstall>(&context, json!({ "path": ".", "packages": ["libs/x"] })).unwrap();
    assert_eq!(
        installed,
        "added x at local\nLOCAL x -> libs/x\n3 files differ from before"
    );
    let link = context
        .policy
        .tree
        .read_stored(&path("vendor/x"))
        .unwrap()
        .unwrap();
    assert_eq!(link.content, &b"../libs/x"[..]);
    assert_eq!(
        call::<JbList>(&context, json!({ "path": "." })).unwrap(),
        "x in `libs/x`: local, locked: local"
    );
    let again = call::<JbInstall>(&context, json!({ "path": "." })).unwrap();
    assert_eq!(again, "1 package is as locked\neverything was already installed");
}

/// TK-45, TK-46
#[test]
fn without_a_network_the_key_to_set_is_named() {
    let lock = ("jsonnetfile.lock.json", REMOTE);
    let context = package_context(write_policy(&[("jsonnetfile.json", REMOTE), lock]));
    let off = "failed to install packages: downloading: `github.com/org/c`: downloads of packages are disabled; an \
               operator allows hosts with `[bundler] hosts_allowed`, such as [\"github.com\"]";
    for failed in [
        call::<JbInstall>(&context, json!({ "path": "." })),
        call::<JbUpdate>(&context, json!({ "path": "." })),
        call::<JbPlan>(&context, json!({ "path": ".", "update": true })),
    ] {
        assert_eq!(failure(failed), off);
    }
    assert_eq!(context.policy.tree.changes().unwrap(), []);
}

#[test]
fn a_grant_counts_for_the_project_and_all_of_its_packages() {
    let files = [
        ("environments/dev/main.jsonnet", "{}"),
        ("environments/dev/jsonnetfile.json", LOCAL),
        ("environments/dev/libs/x/main.jsonnet", "{}"),
        ("jsonnetfile.json", LOCAL),
        ("libs/x/x.libsonnet", "{}"),
    ];
    let dev = package_context(write_policy_for(&files, Role::Editor, &["dev"]));
    call::<JbInstall>(&dev, json!({ "path": "environments/dev" })).unwrap();
    assert_eq!(
        failure(call::<JbInstall>(&dev, json!({ "path": "." }))),
        "`jsonnetfile.json` is shared by all environments; your grant covers only dev"
    );
    let viewer = package_context(write_policy_for(&files, Role::Viewer, &["**"]));
    let refused = failure(call::<JbInstall>(&viewer, json!({ "path": "." })));
    assert_eq!(refused, "ada has role viewer: cannot write");
    assert_eq!(viewer.policy.tree.changes().unwrap(), []);
}

#[test]
fn packages_do_not_use_up_the_budget_but_writes_into_them_do() {
    let mut policy = write_policy(&[("jsonnetfile.json", LOCAL), ("libs/x/x.libsonnet", "{}")]);
    policy.files_changed_max = 2;
    let context = package_context(policy);
    call::<JbInstall>(&context, json!({ "path": "." })).unwrap();
    let write = |name: &str| context.policy.write(&path(name), "{}".to_owned(), "{}");
    assert!(failure(write("vendor/y")).contains("the change budget of 2 files is used up"));
    write("a").unwrap();
    assert!(failure(write("b")).contains("the change budget of 2 files is used up"));
}

/// T35
#[test]
fn paths_outside_are_refused() {
    let context = package_context(write_policy(&[
        ("jsonnetfile.json", LOCAL),
        ("libs/x/x.libsonnet", "{}"),
    ]));
    let root = ["", ".", "./", "a/"];
    for text in paths_outside()
        .iter()
        .filter(|text| !root.contains(&text.as_str()))
    {
        let arguments = || json!({ "path": text });
        for refused in [
            call::<JbInit>(&context, arguments()),
            call::<JbInstall>(&context, arguments()),
            call::<JbUpdate>(&context, arguments()),
            call::<JbList>(&context, arguments()),
            call::<JbPlan>(&context, arguments()),
        ] {
            let refused = failure(refused);
            let says = refused.contains("outside the repository") || refused.contains("git metadata");
            assert!(says, "{text:.60}: {refused}");
        }
    }
    assert_eq!(context.policy.tree.changes().unwrap(), []);
}
