//! The tools about packages.

#![allow(clippy::unwrap_used)]

use super::Shelf;
use super::init::Init;
use super::install::Install;
use super::list::List;
use super::plan::Plan;
use super::update::Update;
use crate::access::Role;
use crate::bundler::Offline;
use crate::tool::ToolError;
use crate::tool::arguments::bind;
use crate::tool::desk::Desk;
use crate::tool::schema;
use crate::tool::testing::{desk, desk_of, failure, path, paths_outside};
use crate::tool::work::{Work, perform, readable};
use serde_json::{Value, json};
use std::sync::Arc;

const LOCAL: &str =
    r#"{"version": 1, "dependencies": [{"source": {"local": {"directory": "libs/x"}}, "version": ""}]}"#;
const REMOTE: &str = r#"{"version": 1, "dependencies": [{"source": {"git": {"remote": "https://github.com/org/c.git", "subdir": ""}}, "version": "v1"}]}"#;

fn shelf(desk: Desk) -> Shelf {
    Shelf {
        desk,
        fetch: Arc::new(Offline),
    }
}

fn call<W: Work<On = Shelf>>(shelf: &Shelf, arguments: Value) -> Result<String, ToolError> {
    let schema = schema::render::<W::Arguments>();
    let arguments = bind::<W::Arguments>(W::NAME, &schema, arguments).map_err(readable)?;
    perform::<W>(shelf, arguments)
}

/// TK-44, TK-45, TK-47
#[test]
fn a_project_is_begun_installed_and_listed() {
    let shelf = shelf(desk(&[("libs/x/x.libsonnet", "{}")]));
    let begun = call::<Init>(&shelf, json!({ "path": "." })).unwrap();
    assert_eq!(begun, "wrote jsonnetfile.json");
    let again = failure(call::<Init>(&shelf, json!({ "path": "." })));
    assert_eq!(again, "jsonnetfile.json already exists");
    assert_eq!(
        call::<List>(&shelf, json!({ "path": "." })).unwrap(),
        "no packages are listed or locked"
    );
    let planned = call::<Plan>(&shelf, json!({ "path": ".", "packages": ["libs/x"] })).unwrap();
    assert_eq!(
        planned,
        "added x at local\nLOCAL x -> libs/x\n3 files differ from before\nnothing was written"
    );
    assert_eq!(
        shelf.desk.tree.changes().unwrap().len(),
        1,
        "a plan writes nothing"
    );
    let installed = call::<Install>(&shelf, json!({ "path": ".", "packages": ["libs/x"] })).unwrap();
    assert_eq!(
        installed,
        "added x at local\nLOCAL x -> libs/x\n3 files differ from before"
    );
    let link = shelf.desk.tree.stored(&path("vendor/x")).unwrap().unwrap();
    assert_eq!(link.content, &b"../libs/x"[..]);
    assert_eq!(
        call::<List>(&shelf, json!({ "path": "." })).unwrap(),
        "x in `libs/x`: local, locked: local"
    );
    let again = call::<Install>(&shelf, json!({ "path": "." })).unwrap();
    assert_eq!(again, "1 package is as locked\neverything was in place");
}

/// TK-45, TK-46
#[test]
fn without_a_network_the_key_to_set_is_named() {
    let lock = ("jsonnetfile.lock.json", REMOTE);
    let shelf = shelf(desk(&[("jsonnetfile.json", REMOTE), lock]));
    let off = "failed to install packages: downloading: `github.com/org/c`: the network is off for packages; \
               an operator allows hosts with `[bundler] hosts_allowed`, such as [\"github.com\"]";
    for failed in [
        call::<Install>(&shelf, json!({ "path": "." })),
        call::<Update>(&shelf, json!({ "path": "." })),
        call::<Plan>(&shelf, json!({ "path": ".", "update": true })),
    ] {
        assert_eq!(failure(failed), off);
    }
    assert_eq!(shelf.desk.tree.changes().unwrap(), []);
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
    let dev = shelf(desk_of(&files, Role::Editor, &["dev"]));
    call::<Install>(&dev, json!({ "path": "environments/dev" })).unwrap();
    assert_eq!(
        failure(call::<Install>(&dev, json!({ "path": "." }))),
        "`jsonnetfile.json` is shared by all environments; your grant covers only dev"
    );
    let viewer = shelf(desk_of(&files, Role::Viewer, &["**"]));
    let refused = failure(call::<Install>(&viewer, json!({ "path": "." })));
    assert_eq!(refused, "ada has role viewer: cannot write");
    assert_eq!(viewer.desk.tree.changes().unwrap(), []);
}

#[test]
fn packages_do_not_use_up_the_budget_but_writes_into_them_do() {
    let mut desk = desk(&[("jsonnetfile.json", LOCAL), ("libs/x/x.libsonnet", "{}")]);
    desk.files_changed_max = 2;
    let shelf = shelf(desk);
    call::<Install>(&shelf, json!({ "path": "." })).unwrap();
    let write = |name: &str| shelf.desk.write(&path(name), "{}".to_owned(), "{}");
    assert!(failure(write("vendor/y")).contains("the change budget of 2 files is used up"));
    write("a").unwrap();
    assert!(failure(write("b")).contains("the change budget of 2 files is used up"));
}

/// T35
#[test]
fn paths_outside_are_refused() {
    let shelf = shelf(desk(&[("jsonnetfile.json", LOCAL), ("libs/x/x.libsonnet", "{}")]));
    let root = ["", ".", "./", "a/"];
    for text in paths_outside()
        .iter()
        .filter(|text| !root.contains(&text.as_str()))
    {
        let arguments = || json!({ "path": text });
        for refused in [
            call::<Init>(&shelf, arguments()),
            call::<Install>(&shelf, arguments()),
            call::<Update>(&shelf, arguments()),
            call::<List>(&shelf, arguments()),
            call::<Plan>(&shelf, arguments()),
        ] {
            let refused = failure(refused);
            let says = refused.contains("outside the repository") || refused.contains("git metadata");
            assert!(says, "{text:.60}: {refused}");
        }
    }
    assert_eq!(shelf.desk.tree.changes().unwrap(), []);
}
