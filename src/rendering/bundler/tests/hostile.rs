//! Malicious addresses and files.

use super::{PackageFixture, work_tree};
use crate::rendering::bundler::{
    self, Fetch, InstallRequest, NetworkFetcher, PackageSource, Project, parse_uri,
};
use crate::state::download::DownloadObserver;
use crate::state::workspace::Tree;

/// Returns a network fetcher with one host, which is never contacted here.
fn network(runtime: &tokio::runtime::Runtime) -> NetworkFetcher {
    let hosts = ["github.com".to_owned()];
    let scratch = std::env::temp_dir().join("never-made");
    NetworkFetcher::new(&hosts, reqwest::Client::new(), runtime.handle().clone(), scratch)
}

/// T44
#[test]
fn a_remote_that_is_a_trick_is_refused_before_anything_is_asked() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let network = network(&runtime);
    let not_allowed = |why: &str| format!("remote not allowed: {why}");
    let unparsable = |text: &str| format!("Unable to parse package URI `{text}`");
    let option = || not_allowed("it reads as an option, because it starts with `-`");
    let user = || not_allowed("it holds a user or password");
    let ssh = || not_allowed("scheme ssh; use the https address");
    let host = |host: &str| not_allowed(&format!("host {host} is not in `[bundler] hosts_allowed`"));
    for (text, why) in [
        ("ext::sh -c id", not_allowed("scheme ext")),
        ("ext::https://github.com/org/c", not_allowed("scheme ext")),
        ("fd::17/org/c", not_allowed("scheme fd")),
        ("file:///etc/passwd", not_allowed("scheme file")),
        ("file://github.com/org/c", not_allowed("scheme file")),
        ("git://github.com/org/c", not_allowed("scheme git")),
        ("ftp://github.com/org/c", not_allowed("scheme ftp")),
        ("HTTPS://github.com/org/c", not_allowed("scheme HTTPS")),
        ("--upload-pack=touch x", option()),
        ("-oProxyCommand=id", option()),
        ("ssh://-x/org/c.git", not_allowed("scheme ssh")),
        ("ssh://root@github.com/org/c.git", not_allowed("scheme ssh")),
        ("ssh://git@-oProxyCommand=id/org/c.git", ssh()),
        ("ssh://git@github.com/org/c.git", ssh()),
        ("git@github.com:org/c.git", ssh()),
        ("https://me:s3cret@github.com/org/c", user()),
        ("https://token@github.com/org/c", user()),
        ("https://github.com\\@evil.example.com/org/c", user()),
        (
            "https://169.254.169.254/org/c",
            unparsable("https://169.254.169.254/org/c"),
        ),
        ("https://localhost/org/c", unparsable("https://localhost/org/c")),
        (
            "https://github.com:22/org/c",
            unparsable("https://github.com:22/org/c"),
        ),
        ("https://internal.example.com/org/c", host("internal.example.com")),
        (
            "github.com.evil.example.com/org/c",
            host("github.com.evil.example.com"),
        ),
        ("https://raw.github.com/org/c", host("raw.github.com")),
    ] {
        let refused = match parse_uri(text) {
            Err(err) => err.to_string(),
            Ok(dependency) => {
                let PackageSource::Git(git) = dependency.source else {
                    panic!("{text} is local");
                };
                let asked = network.resolve(&git, "v1", &DownloadObserver::silent());
                asked.unwrap_err().to_string()
            }
        };
        assert_eq!(refused, why, "{text}");
        assert!(!refused.contains("s3cret"));
    }
}

/// T44, T53
#[test]
fn a_file_that_is_a_trick_says_why_and_changes_nothing() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let network = network(&runtime);
    let local = |directory: &str| format!(r#"{{"local": {{"directory": "{directory}"}}}}, "version": """#);
    let git = |remote: &str, subdir: &str, version: &str| {
        format!(r#"{{"git": {{"remote": "{remote}", "subdir": "{subdir}"}}}}, "version": "{version}""#)
    };
    let c = "https://github.com/org/c.git";
    let downloading = |why: &str| format!("failed to install packages: downloading: {why}");
    let outside = |directory: &str| {
        format!(
            "local dependency `{directory}` is outside the repository; only its own directories can be linked"
        )
    };
    let name =
        |name: &str| format!("`{name}` is not a name for a package: it would not stay below `vendor/`");
    let version = |version: &str| {
        format!("`{version}` is not a version: use a branch, a tag or a commit of 40 hex digits")
    };
    for (source, why) in [
        (local("../../../../etc"), outside("../../../../etc")),
        (local("/etc"), outside("/etc")),
        (local(".git/hooks"), outside(".git/hooks")),
        (
            git(c, "", "--upload-pack=touch x"),
            version("--upload-pack=touch x"),
        ),
        (git(c, "", "v1 --x"), version("v1 --x")),
        (git(c, "", "../../x"), version("../../x")),
        (git(c, "../../../x", "v1"), name("github.com/org/c/../../../x")),
        (
            git(c, "a/.git/hooks", "v1"),
            name("github.com/org/c/a/.git/hooks"),
        ),
        (git("https://github.com/../x", "", "v1"), name("github.com/../x")),
        (git(c, "", "v1") + r#", "name": "../../x""#, name("../../x")),
        (git(c, "", "v1") + r#", "name": ".git""#, name(".git")),
        (
            git("ext::sh -c id", "", "v1"),
            "`jsonnetfile.json`: remote not allowed: scheme ext".to_owned(),
        ),
        (
            git("file:///etc", "", "v1"),
            "`jsonnetfile.json`: remote not allowed: scheme file".to_owned(),
        ),
        (
            git("git@github.com:org/c.git", "", "v1"),
            downloading("remote not allowed: scheme ssh; use the https address"),
        ),
        (
            git("https://internal.example.com/org/c", "", "v1"),
            downloading("remote not allowed: host internal.example.com is not in `[bundler] hosts_allowed`"),
        ),
    ] {
        let file = format!(r#"{{"version": 1, "dependencies": [{{"source": {source}}}]}}"#);
        let (_room, tree) = work_tree(&[("jsonnetfile.json", &file), ("libs/x/x.libsonnet", "{}")]);
        let before = tree.changes().unwrap();
        let project = Project::new(&tree, ".").unwrap();
        let installed = bundler::install(
            project,
            &InstallRequest::default(),
            &network,
            &DownloadObserver::silent(),
        );
        assert_eq!(installed.unwrap_err().to_string(), why, "{file}");
        assert_eq!(tree.changes().unwrap(), before);
    }
}

/// T53
#[test]
fn a_package_cannot_link_out_of_the_repository_either() {
    let nested = |directory: &str| {
        format!(
            r#"{{"version": 1, "dependencies": [{{"source": {{"local": {{"directory": "{directory}"}}}}, "version": ""}}]}}"#
        )
    };
    let file = r#"{"version": 1, "dependencies": [{"source": {"git": {"remote": "github.com/org/c"}}, "version": "v1"}]}"#;
    for (directory, why) in [
        (
            "../../../../../etc",
            "local dependency `../../../../../etc` is outside the repository; only its own directories can be linked",
        ),
        (
            "../missing",
            "failed to install packages: downloading: symlink destination path does not exist: \
             `vendor/github.com/org/missing`",
        ),
    ] {
        let (_room, tree) = work_tree(&[("jsonnetfile.json", file)]);
        let files = [("jsonnetfile.json", &*nested(directory)), ("c.libsonnet", "{}")];
        let shop = PackageFixture::default().with("github.com/org/c", "v1", super::COMMIT, &files);
        let project = Project::new(&tree, "").unwrap();
        let installed = bundler::install(
            project,
            &InstallRequest::default(),
            &shop,
            &DownloadObserver::silent(),
        );
        assert_eq!(installed.unwrap_err().to_string(), why);
    }
}

/// T53
#[test]
fn a_lock_is_believed_no_more_than_a_file() {
    let file = |version: &str| {
        format!(
            r#"{{"version": 1, "dependencies": [{{"source": {{"git": {{"remote": "github.com/org/c", "subdir": ""}}}}, "version": "{version}", "sum": "AAAA"}}]}}"#
        )
    };
    let (_room, tree) = work_tree(&[
        ("jsonnetfile.json", &file("v1")),
        ("jsonnetfile.lock.json", &file("--upload-pack=touch x")),
    ]);
    let shop = PackageFixture::default().with("github.com/org/c", "v1", super::COMMIT, &[("c", "{}")]);
    let project = Project::new(&tree, "").unwrap();
    let refused = bundler::install(
        project,
        &InstallRequest::default(),
        &shop,
        &DownloadObserver::silent(),
    )
    .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`--upload-pack=touch x` is not a version: use a branch, a tag or a commit of 40 hex digits"
    );
    tree.write(&super::path("jsonnetfile.lock.json"), file(super::COMMIT).into())
        .unwrap();
    let refused = bundler::install(
        project,
        &InstallRequest::default(),
        &shop,
        &DownloadObserver::silent(),
    )
    .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "failed to install packages: checksum mismatch for github.com/org/c. Expected AAAA but got \
         RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o="
    );
}
