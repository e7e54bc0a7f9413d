//! Operations on packages from the in-memory fixture.

use super::{COMMIT, NEWER, PackageFixture, path, snapshot, work_tree};
use crate::base::model::FileMode;
use crate::rendering::bundler::{
    self, FetchMethod, InstallRequest, PackageChange, PackageChangeKind, PreparedOperation, Project,
};
use crate::state::download::DownloadObserver;
use crate::state::workspace::{Directory, Tree};

const C: &str = "github.com/org/c";

fn order(packages: &[&str]) -> InstallRequest {
    InstallRequest {
        packages: packages.iter().map(|package| (*package).to_owned()).collect(),
        ..InstallRequest::default()
    }
}

fn install(tree: &Directory, shop: &PackageFixture, packages: &[&str]) -> PreparedOperation {
    let project = Project::new(tree, "").unwrap();
    let prepared = bundler::install(project, &order(packages), shop, &DownloadObserver::silent()).unwrap();
    prepared.apply(tree).unwrap();
    prepared
}

fn lines(prepared: &PreparedOperation) -> Vec<String> {
    let line = |(path, after): (
        &crate::base::model::RepoPath,
        &Option<crate::base::model::FileVersion>,
    )| match after {
        None => format!("-{path}"),
        Some(file) if file.mode == FileMode::Symlink => {
            format!("{path} -> {}", String::from_utf8_lossy(&file.content))
        }
        Some(_) => path.to_string(),
    };
    prepared.changes.iter().map(line).collect()
}

fn started() -> (tempfile::TempDir, Directory) {
    work_tree(&[
        ("jsonnetfile.json", "{}"),
        ("vendor/README", "mine"),
        ("vendor/old/x", "x"),
    ])
}

#[test]
fn an_install_says_what_it_writes_and_deletes_and_nothing_else() {
    let (_room, tree) = started();
    let shop = PackageFixture::default().with(
        C,
        "v1",
        COMMIT,
        &[("c.libsonnet", "{}"), ("link", "->c.libsonnet")],
    );
    let prepared = install(&tree, &shop, &["github.com/org/c@v1"]);
    assert_eq!(
        lines(&prepared),
        [
            "jsonnetfile.json",
            "jsonnetfile.lock.json",
            "vendor/c -> github.com/org/c",
            "vendor/github.com/org/c/c.libsonnet",
            "-vendor/old/x",
        ],
        "the file beside the packages stays, the link inside the package is not kept"
    );
    assert!(tree.read(&path("vendor/c/c.libsonnet")).is_ok());
}

#[test]
fn an_installed_package_is_not_fetched_again() {
    let (_room, tree) = started();
    let shop = PackageFixture::default().with(C, "v1", COMMIT, &[("c.libsonnet", "{}")]);
    install(&tree, &shop, &["github.com/org/c@v1"]);
    let again = install(&tree, &shop, &["github.com/org/c@v1"]);
    assert_eq!(
        (lines(&again), again.packages[0].fate),
        (Vec::new(), PackageChangeKind::Kept)
    );
    assert_eq!(shop.requests.lock().unwrap().len(), 1);
    tree.write(&path("vendor/github.com/org/c/c.libsonnet"), "changed".into())
        .unwrap();
    let restored = install(&tree, &shop, &[]);
    assert_eq!(lines(&restored), ["vendor/github.com/org/c/c.libsonnet"]);
    assert_eq!(restored.packages[0].fate, PackageChangeKind::Restored);
}

/// TK-46
#[test]
fn an_update_reports_the_old_and_the_new_version() {
    let (_room, tree) = started();
    let shop = PackageFixture::default().with(C, "master", COMMIT, &[("c.libsonnet", "{}")]);
    install(&tree, &shop, &["github.com/org/c"]);
    let shop = shop.with(C, "master", NEWER, &[("d.libsonnet", "{}")]);
    let project = Project::new(&tree, "").unwrap();
    let prepared = bundler::update(project, &[], &shop, &DownloadObserver::silent()).unwrap();
    assert_eq!(
        prepared.packages,
        [PackageChange {
            name: C.to_owned(),
            fate: PackageChangeKind::Updated,
            from: Some(COMMIT.to_owned()),
            to: Some(NEWER.to_owned()),
            compare: Some(format!("https://github.com/org/c/compare/{COMMIT}...{NEWER}")),
        }]
    );
    assert_eq!(
        lines(&prepared),
        [
            "jsonnetfile.lock.json",
            "-vendor/github.com/org/c/c.libsonnet",
            "vendor/github.com/org/c/d.libsonnet"
        ]
    );
    let listed = bundler::list(project).unwrap();
    assert_eq!(listed[0].declared.as_deref(), Some("master"));
    assert_eq!(
        listed[0].locked.as_deref(),
        Some(COMMIT),
        "nothing was written yet"
    );
}

#[test]
fn a_lock_made_with_the_other_form_of_a_package_is_honoured() {
    let (_room, tree) = started();
    let usual = [("c.libsonnet", "{}")];
    let mut shop =
        PackageFixture::default().with(C, "v1", COMMIT, &[("c.libsonnet", "{}"), (".travis.yml", "x")]);
    install(&tree, &shop, &["github.com/org/c@v1"]);
    tree.delete(&path("vendor/github.com/org/c/c.libsonnet")).unwrap();
    let name = format!("{C}@{COMMIT}");
    let whole = shop
        .snapshots
        .remove(&(name.clone(), FetchMethod::Preferred))
        .unwrap();
    shop.snapshots
        .insert((name.clone(), FetchMethod::Preferred), snapshot(COMMIT, &usual));
    shop.snapshots.insert((name, FetchMethod::Alternative), whole);
    let restored = install(&tree, &shop, &[]);
    assert_eq!(lines(&restored), ["vendor/github.com/org/c/c.libsonnet"]);
}

#[test]
fn packages_that_need_each_other_are_installed_once() {
    let needs = |name: &str| {
        format!(
            r#"{{"version": 1, "dependencies": [{{"source": {{"git": {{"remote": "github.com/org/{name}"}}}}, "version": "v1"}}]}}"#
        )
    };
    let (_room, tree) = started();
    let shop = PackageFixture::default()
        .with(
            "github.com/org/a",
            "v1",
            COMMIT,
            &[("jsonnetfile.json", &needs("b"))],
        )
        .with(
            "github.com/org/b",
            "v1",
            NEWER,
            &[("jsonnetfile.json", &needs("a"))],
        );
    let prepared = install(&tree, &shop, &["github.com/org/a@v1"]);
    let names: Vec<&str> = prepared
        .packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    assert_eq!(names, ["github.com/org/a", "github.com/org/b"]);
    assert_eq!(shop.requests.lock().unwrap().len(), 2);
}

#[test]
fn a_chain_of_packages_without_end_is_given_up() {
    let (_room, tree) = started();
    let mut shop = PackageFixture::default();
    for number in 0..600 {
        let next = format!(
            r#"{{"version": 1, "dependencies": [{{"source": {{"git": {{"remote": "github.com/org/p{}"}}}}, "version": "v1"}}]}}"#,
            number + 1
        );
        let name = format!("github.com/org/p{number}");
        shop = shop.with(&name, "v1", COMMIT, &[("jsonnetfile.json", &next)]);
    }
    let project = Project::new(&tree, "").unwrap();
    let refused = bundler::install(
        project,
        &order(&["github.com/org/p0@v1"]),
        &shop,
        &DownloadObserver::silent(),
    );
    assert_eq!(
        refused.unwrap_err().to_string(),
        "more than 500 packages: a package requires too many others; remove it from `jsonnetfile.json`"
    );
}

#[test]
fn packages_with_conflicting_vendor_paths_are_refused() {
    let (_room, tree) = work_tree(&[("jsonnetfile.json", "{}"), ("libs/github.com/x", "{}")]);
    let shop = PackageFixture::default().with(C, "v1", COMMIT, &[("c.libsonnet", "{}")]);
    let project = Project::new(&tree, "").unwrap();
    let packages = order(&["github.com/org/c@v1", "libs/github.com"]);
    let prepared = bundler::install(project, &packages, &shop, &DownloadObserver::silent()).unwrap();
    // The later one gets the name, as in jsonnet-bundler.
    assert!(
        !lines(&prepared)
            .iter()
            .any(|line| line.starts_with("vendor/github.com/"))
    );
    let packages = order(&["libs/github.com", "github.com/org/c@v1"]);
    let clash = bundler::install(project, &packages, &shop, &DownloadObserver::silent()).unwrap_err();
    assert_eq!(
        clash.to_string(),
        "`vendor/github.com` would be a file and a directory at once; rename one of the two packages"
    );
}

#[test]
fn a_project_in_a_directory_stays_in_it() {
    let (_room, tree) = work_tree(&[
        ("apps/one/jsonnetfile.json", "{}"),
        (
            "libs/x/jsonnetfile.json",
            r#"{"version": 1, "dependencies": [{"source": {"local": {"directory": "../y"}}, "version": ""}]}"#,
        ),
        ("libs/y/y.libsonnet", "{}"),
        ("vendor/other/x", "mine"),
    ]);
    let project = Project::new(&tree, "apps/one").unwrap();
    let prepared = bundler::install(
        project,
        &order(&["../../libs/x"]),
        &PackageFixture::default(),
        &DownloadObserver::silent(),
    )
    .unwrap();
    assert_eq!(
        lines(&prepared),
        [
            "apps/one/jsonnetfile.json",
            "apps/one/jsonnetfile.lock.json",
            "apps/one/vendor/x -> ../../../libs/x",
            "apps/one/vendor/y -> ../../../libs/y",
        ]
    );
    prepared.apply(&tree).unwrap();
    assert!(tree.read(&path("apps/one/vendor/y/y.libsonnet")).is_ok());
    let outside = bundler::install(
        project,
        &order(&["../../../etc"]),
        &PackageFixture::default(),
        &DownloadObserver::silent(),
    );
    assert_eq!(
        outside.unwrap_err().to_string(),
        "local dependency `../../../etc` is outside the repository; only its own directories can be linked"
    );
}

#[test]
fn a_package_may_link_a_directory_of_its_own() {
    let nested =
        r#"{"version": 1, "dependencies": [{"source": {"local": {"directory": "libs/in"}}, "version": ""}]}"#;
    let (_room, tree) = started();
    let files = [("jsonnetfile.json", nested), ("libs/in/i.libsonnet", "{}")];
    let shop = PackageFixture::default().with(C, "v1", COMMIT, &files);
    let prepared = install(&tree, &shop, &["github.com/org/c@v1"]);
    assert!(lines(&prepared).contains(&"vendor/in -> github.com/org/c/libs/in".to_owned()));
    assert!(tree.read(&path("vendor/in/i.libsonnet")).is_ok());
    assert_eq!(lines(&install(&tree, &shop, &[])), Vec::<String>::new());
}
