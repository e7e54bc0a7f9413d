//! Packages of Jsonnet from the network, installed by the program. A real git server on this machine stands in for the
//! hosts.

use crate::support::git_server::GitServer;
use crate::support::shell::Shell;
use drydock::rendering::bundler::{
    ArchiveLimits, Fetch, FetchMethod, Git, NetworkFetcher, PackageSource, parse_uri,
};
use drydock::state::download::DownloadObserver;
use flate2::Compression;
use flate2::write::GzEncoder;
use gix::ObjectId;
use gix::objs::tree::EntryKind;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

const GITHUB: &str = "github.com";

/// A remote `org/c` with three commits, and a network fetcher for it.
struct RemotePackageFixture {
    room: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    commits: Vec<ObjectId>,
}

impl RemotePackageFixture {
    fn new() -> Self {
        let room = tempfile::tempdir().unwrap();
        let git = room.path().join("remotes/org/c.git");
        std::fs::create_dir_all(&git).unwrap();
        let objects: gix::Repository = gix::ThreadSafeRepository::init_opts(
            &git,
            gix::create::Kind::Bare,
            gix::create::Options::default(),
            gix::open::Options::isolated(),
        )
        .unwrap()
        .into();
        let commits = (1..4).map(|number| commit(&objects, number)).collect::<Vec<_>>();
        let tag = gix::objs::Tag {
            target: commits[2],
            target_kind: gix::objs::Kind::Commit,
            name: "v1".into(),
            tagger: None,
            message: "one\n".into(),
            signature: None,
        };
        let tag = objects.write_object(&tag).unwrap().detach();
        std::fs::write(git.join("HEAD"), "ref: refs/heads/master\n").unwrap();
        for (reference, id) in [
            ("heads/master", commits[0]),
            // Sorts before the tag, and has the same ending.
            ("heads/feature/v1", commits[1]),
            ("heads/v1", commits[1]),
            ("tags/v1", tag),
            ("tags/v2", commits[0]),
        ] {
            let file = git.join("refs").join(reference);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, format!("{id}\n")).unwrap();
        }
        Self {
            room,
            runtime: tokio::runtime::Runtime::new().unwrap(),
            commits,
        }
    }

    fn remotes(&self) -> PathBuf {
        self.room.path().join("remotes")
    }

    /// Returns the network fetcher, with the server at an address in place of GitHub.
    fn network(&self, address: &str) -> NetworkFetcher {
        let client = drydock::base::http_client::api_client().unwrap();
        let scratch = self.room.path().join("scratch");
        NetworkFetcher::new(
            &[GITHUB.to_owned()],
            client,
            self.runtime.handle().clone(),
            scratch,
        )
        .with_host_override(GITHUB, address)
        .unwrap()
    }

    /// Publishes an archive of a commit on the host.
    fn archive(&self, commit: ObjectId, content: &str) {
        let file = self.remotes().join(format!("org/c/archive/{commit}.tar.gz"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, archive(content)).unwrap();
    }
}

fn commit(objects: &gix::Repository, number: i64) -> ObjectId {
    let (library, other) = (format!("git {number}"), number.to_string());
    commit_of(objects, number, &[("c.libsonnet", &library), ("lib/x", &other)])
}

/// Stores a commit without a parent that has these files.
pub(crate) fn commit_of(objects: &gix::Repository, number: i64, files: &[(&str, &str)]) -> ObjectId {
    let mut editor = objects
        .edit_tree(ObjectId::empty_tree(gix::hash::Kind::Sha1))
        .unwrap();
    objects.write_object(gix::objs::Tree::empty()).unwrap();
    for (path, content) in files {
        let blob = objects.write_blob(content).unwrap().detach();
        editor.upsert(*path, EntryKind::Blob, blob).unwrap();
    }
    let author = gix::actor::Signature {
        name: "Ada".into(),
        email: "ada@example.com".into(),
        time: gix::date::Time {
            seconds: number,
            offset: 0,
        },
    };
    let commit = gix::objs::Commit {
        tree: editor.write().unwrap().detach(),
        parents: Vec::new().into(),
        author: author.clone(),
        committer: author,
        encoding: None,
        message: "c\n".into(),
        extra_headers: Vec::new(),
    };
    objects.write_object(&commit).unwrap().detach()
}

fn archive(content: &str) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = tar::Header::new_ustar();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, "c-1/c.libsonnet", content.as_bytes())
        .unwrap();
    tar.into_inner().unwrap().finish().unwrap()
}

fn c() -> Git {
    match parse_uri("github.com/org/c").unwrap().source {
        PackageSource::Git(git) => git,
        PackageSource::Local(_) => panic!("it is an address"),
    }
}

/// Returns the content of `c.libsonnet`.
fn content(network: &NetworkFetcher, commit: ObjectId, form: FetchMethod) -> Result<String, String> {
    let layer = network.fetch(&c(), &commit.to_string(), form, &DownloadObserver::silent());
    let layer = layer.map_err(|err| err.to_string())?;
    let entry = layer
        .entries()
        .iter()
        .find(|entry| entry.path.as_str() == "c.libsonnet");
    Ok(String::from_utf8_lossy(&entry.unwrap().file.content).into_owned())
}

#[test]
fn a_version_is_exactly_the_tag_of_that_name_peeled_else_the_branch_else_a_commit() {
    let world = RemotePackageFixture::new();
    let Some(server) = GitServer::start(&world.remotes()) else {
        return;
    };
    let network = world.network(&server.address);
    let resolve = |version: &str| {
        let found = network.resolve(&c(), version, &DownloadObserver::silent());
        found.map_err(|err| err.to_string())
    };
    let commit = |index: usize| Ok(world.commits[index].to_string());
    assert_eq!(resolve("v1"), commit(2));
    assert_eq!(resolve("v2"), commit(0));
    assert_eq!(resolve("master"), commit(0));
    assert_eq!(resolve("feature/v1"), commit(1));
    assert_eq!(resolve(&world.commits[1].to_string()), commit(1));
    for missing in [
        "v",
        "1",
        "HEAD",
        "heads/v1",
        "refs/tags/v1",
        &world.commits[1].to_string()[..12],
    ] {
        let why = format!("`github.com/org/c {missing}` has no tag, branch or commit of that name");
        assert_eq!(resolve(missing), Err(why));
    }
}

#[test]
fn an_archive_comes_first_and_git_where_there_is_none() {
    let world = RemotePackageFixture::new();
    let Some(server) = GitServer::start(&world.remotes()) else {
        return;
    };
    world.archive(world.commits[0], "archive");
    let network = world.network(&server.address);
    let [first, second] = [world.commits[0], world.commits[1]];
    assert_eq!(
        content(&network, first, FetchMethod::Preferred),
        Ok("archive".to_owned())
    );
    assert_eq!(
        content(&network, first, FetchMethod::Alternative),
        Ok("git 1".to_owned())
    );
    assert_eq!(
        content(&network, second, FetchMethod::Preferred),
        Ok("git 2".to_owned())
    );
    // A fetched package is cached, and not requested again.
    world.archive(first, "changed");
    assert_eq!(
        content(&network, first, FetchMethod::Preferred),
        Ok("archive".to_owned())
    );
    let mut lib = c();
    lib.subdir = "lib".to_owned();
    let layer = network
        .fetch(
            &lib,
            &second.to_string(),
            FetchMethod::Preferred,
            &DownloadObserver::silent(),
        )
        .unwrap();
    let names: Vec<&str> = layer.entries().iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(names, ["x"]);
    assert_eq!(
        std::fs::read_dir(world.room.path().join("scratch"))
            .unwrap()
            .count(),
        0
    );
}

/// T52
#[test]
fn a_package_with_an_object_that_unpacks_to_very_much_is_refused_before_it_is_unpacked() {
    let world = RemotePackageFixture::new();
    let Some(server) = GitServer::start(&world.remotes()) else {
        return;
    };
    let git = world.remotes().join("org/c.git");
    let objects: gix::Repository = gix::ThreadSafeRepository::open_opts(&git, gix::open::Options::isolated())
        .unwrap()
        .into();
    let zeros = "\0".repeat(101 << 20);
    // The large file is not even in the package, which is another directory of the repository.
    let commit = commit_of(&objects, 9, &[("lib/a", "1"), ("zeros", &zeros)]);
    std::fs::write(git.join("refs/heads/master"), format!("{commit}\n")).unwrap();
    let mut lib = c();
    lib.subdir = "lib".to_owned();
    let network = world.network(&server.address);
    let layer = network.fetch(
        &lib,
        &commit.to_string(),
        FetchMethod::Preferred,
        &DownloadObserver::silent(),
    );
    assert_eq!(
        layer.map(|_| ()).map_err(|err| err.to_string()),
        Err("the repository has an object that unpacks to more than 100 MiB".to_owned())
    );
}

/// Creates a commit whose attributes exclude files from archives.
fn commit_with_attributes(world: &RemotePackageFixture) -> ObjectId {
    let git = world.remotes().join("org/c.git");
    let objects: gix::Repository = gix::ThreadSafeRepository::open_opts(&git, gix::open::Options::isolated())
        .unwrap()
        .into();
    let files = [
        (".gitattributes", "docs/ export-ignore\n*.test export-ignore\n"),
        ("docs/a.md", "no package"),
        ("lib/.gitattributes", "keep.test -export-ignore\n"),
        ("lib/keep.test", "kept"),
        ("lib/lose.test", "lost"),
        ("main.libsonnet", "{}"),
    ];
    let commit = commit_of(&objects, 9, &files);
    std::fs::write(git.join("refs/heads/master"), format!("{commit}\n")).unwrap();
    commit
}

#[test]
fn git_in_the_place_of_an_archive_leaves_out_what_the_archive_leaves_out() {
    let world = RemotePackageFixture::new();
    let commit = commit_with_attributes(&world);
    let Some(server) = GitServer::start(&world.remotes()) else {
        return;
    };
    let layer = |form: FetchMethod| {
        let network = world.network(&server.address);
        network
            .fetch(&c(), &commit.to_string(), form, &DownloadObserver::silent())
            .unwrap()
    };
    let names = |form: FetchMethod| -> Vec<String> {
        let layer = layer(form);
        layer
            .entries()
            .iter()
            .map(|entry| entry.path.to_string())
            .collect()
    };
    let exported = names(FetchMethod::Preferred);
    assert_eq!(
        exported,
        [
            ".gitattributes",
            "lib/.gitattributes",
            "lib/keep.test",
            "main.libsonnet"
        ]
    );
    // A lock with the sum of all files is still accepted.
    assert_eq!(names(FetchMethod::Alternative).len(), 6);
    // The archive that git itself creates has the same files, and so the same sum.
    let by_git = layer(FetchMethod::Preferred).sum();
    let git = crate::support::require::component("git").unwrap();
    let archive = world.remotes().join(format!("org/c/archive/{commit}.tar.gz"));
    std::fs::create_dir_all(archive.parent().unwrap()).unwrap();
    let made = git
        .command()
        .arg("--git-dir")
        .arg(world.remotes().join("org/c.git"))
        .args(["archive", "--format=tar.gz", "--prefix=c-1/", "-o"])
        .arg(&archive)
        .arg(commit.to_string())
        .status();
    assert!(made.unwrap().success());
    assert_eq!(names(FetchMethod::Preferred), exported);
    assert_eq!(layer(FetchMethod::Preferred).sum(), by_git);
}

#[test]
fn what_was_fetched_before_a_restart_is_not_fetched_again() {
    let world = RemotePackageFixture::new();
    let Some(server) = GitServer::start(&world.remotes()) else {
        return;
    };
    let first = world.commits[0];
    world.archive(first, "archive");
    let kept = world.room.path().join("kept");
    let network = |bytes_max| {
        world
            .network(&server.address)
            .with_package_cache(kept.clone(), bytes_max)
    };
    assert_eq!(
        content(&network(0), first, FetchMethod::Preferred),
        Ok("archive".to_owned())
    );
    assert!(!kept.exists(), "nothing is cached if the cache is off");
    assert_eq!(
        content(&network(1 << 20), first, FetchMethod::Preferred),
        Ok("archive".to_owned())
    );
    // The host changes its answer. A second fetch does not contact the host.
    world.archive(first, "changed");
    assert_eq!(
        content(&network(1 << 20), first, FetchMethod::Preferred),
        Ok("archive".to_owned())
    );
    assert_eq!(
        content(&network(0), first, FetchMethod::Preferred),
        Ok("changed".to_owned())
    );
    // A host that is no longer allowed provides nothing, not even cached packages.
    let client = drydock::base::http_client::api_client().unwrap();
    let other = ["example.com".to_owned()];
    let scratch = world.room.path().join("scratch");
    let refused = NetworkFetcher::new(&other, client, world.runtime.handle().clone(), scratch)
        .with_package_cache(kept, 1 << 20);
    assert_eq!(
        content(&refused, first, FetchMethod::Preferred),
        Err("remote not allowed: host github.com is not in `[bundler] hosts_allowed`".to_owned())
    );
}

/// T52
#[test]
fn an_archive_that_is_too_large_or_no_archive_is_refused() {
    let world = RemotePackageFixture::new();
    let Some(server) = GitServer::start(&world.remotes()) else {
        return;
    };
    world.archive(world.commits[0], &"x".repeat(5_000_000));
    let bounded = |limits| {
        content(
            &world.network(&server.address).with_limits(limits),
            world.commits[0],
            FetchMethod::Preferred,
        )
    };
    let usual = ArchiveLimits::default();
    assert_eq!(
        bounded(usual),
        Err("archive unpacks to more than 100 times its size".to_owned())
    );
    let roomy = ArchiveLimits {
        ratio_max: 10_000,
        ..usual
    };
    assert_eq!(bounded(roomy).map(|content| content.len()), Ok(5_000_000));
    let small = ArchiveLimits {
        bytes_max: 1_000_000,
        ..roomy
    };
    assert_eq!(
        bounded(small),
        Err("archive has more than 1000000 bytes".to_owned())
    );
    let none_sent = ArchiveLimits {
        sent_bytes_max: 100,
        ..roomy
    };
    // Too much was sent. Git provides it in another way.
    assert_eq!(bounded(none_sent), Ok("git 1".to_owned()));
}

/// T44
#[test]
fn a_redirect_is_checked_like_an_address() {
    let world = RemotePackageFixture::new();
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    target.set_nonblocking(true).unwrap();
    let elsewhere = format!("http://{}/x", target.local_addr().unwrap());
    for (location, why) in [
        (elsewhere.as_str(), "redirect with scheme http"),
        (
            "http://169.254.169.254/latest/meta-data",
            "redirect with scheme http",
        ),
        ("file:///etc/passwd", "redirect with scheme file"),
        (
            "https://internal.example.com/x",
            "host internal.example.com is not in `[bundler] hosts_allowed`",
        ),
        (
            "https://codeload.github.com.example.com/x",
            "host codeload.github.com.example.com is not in `[bundler] hosts_allowed`",
        ),
        (
            "https://127.0.0.1/x",
            "host 127.0.0.1 is not in `[bundler] hosts_allowed`",
        ),
        (
            "https://me:s3cret@github.com/x",
            "redirect with a user or password",
        ),
        ("https://github.com:8443/x", "redirect with a port"),
        ("/again", "more than 5 redirects"),
    ] {
        let network = world.network(&redirecting(location));
        let refused = content(&network, world.commits[0], FetchMethod::Preferred);
        assert_eq!(refused, Err(format!("remote not allowed: {why}")), "{location}");
    }
    assert!(
        target.accept().is_err(),
        "no connection was made to the other host"
    );
}

/// Starts a server that redirects all requests.
fn redirecting(location: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let location = location.to_owned();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut head = [0; 4_096];
            let _ = stream.read(&mut head);
            let _ = write!(
                stream,
                "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
    });
    address
}

#[test]
fn only_a_loopback_address_can_override_a_host() {
    let world = RemotePackageFixture::new();
    for address in [
        "https://127.0.0.1/",
        "http://127.0.0.2.example.com/",
        "http://10.0.0.1/",
        "nonsense",
    ] {
        let client = drydock::base::http_client::api_client().unwrap();
        let network = NetworkFetcher::new(&[], client, world.runtime.handle().clone(), world.remotes());
        let why = network
            .with_host_override(GITHUB, address)
            .unwrap_err()
            .to_string();
        assert_eq!(why, format!("`{address}` is not an address of this machine"));
    }
}

fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// TK-44, TK-45, TK-46, TK-47
#[test]
fn the_program_begins_installs_plans_updates_and_lists() {
    let shell = Shell::with_repository(&[("libs/x/x.libsonnet", "{}\n"), (".gitignore", "vendor/\n")]);
    let begun = shell.run(&["jb", "init", "--json"]);
    assert_eq!(begun.code, Some(0), "{begun:?}");
    assert_eq!(
        begun.json(),
        json!({"packages": [], "files": ["jsonnetfile.json"], "notices": []})
    );
    let again = shell.run(&["jb", "init"]);
    assert_eq!(
        (again.code, again.err.as_str()),
        (Some(1), "jsonnetfile.json already exists\n")
    );
    let elsewhere = Shell::with_repository(&[("a", "one\n")]).run(&["jb", "init"]);
    assert_eq!(elsewhere.err, "1 file differs from before.\n");
    let planned = shell.run(&["jb", "plan", "libs/x", "--json"]);
    assert_eq!(
        planned.json()["files"],
        json!(["jsonnetfile.json", "jsonnetfile.lock.json", "vendor/x"])
    );
    assert!(!shell.work().join("vendor").exists());
    let installed = shell.run(&["jb", "install", "libs/x"]);
    assert_eq!(installed.code, Some(0), "{installed:?}");
    assert_eq!(installed.err, "LOCAL x -> libs/x\n3 files differ from before.\n");
    assert_eq!(shell.get("vendor/x/x.libsonnet"), "{}\n");
    let listed = shell.run(&["jb", "list", "--json"]);
    let x = json!({"name": "x", "declared": "local", "locked": "local", "local": "libs/x"});
    assert_eq!(listed.json(), json!({ "packages": [x] }));
    // Installed packages are managed even if git ignores them.
    let again = shell.run(&["jb", "update"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(files(&shell.work().join("vendor")), ["x"]);
    let off = shell.run(&["jb", "install", "github.com/org/c"]);
    assert_eq!(off.code, Some(1));
    assert_eq!(
        off.err,
        "failed to install packages: downloading: `github.com/org/c`: downloads of packages are disabled; an \
         operator allows hosts with `[bundler] hosts_allowed`, such as [\"github.com\"]\n"
    );
    let host = ["--set", "bundler.hosts_allowed=[\"git.example.com\"]"];
    let other = shell.run(&["jb", "install", "github.com/org/c", host[0], host[1]]);
    assert_eq!(
        other.err,
        "failed to install packages: downloading: remote not allowed: host github.com is not in \
         `[bundler] hosts_allowed`\n"
    );
}

#[test]
fn the_program_rewrites_imports_of_packages_by_their_short_names() {
    let lock = json!({"version": 1, "legacyImports": false, "dependencies": [
        {"source": {"git": {"remote": "https://github.com/org/c.git", "subdir": "lib"}}, "version": "v1", "sum": ""}]});
    let files = [
        (
            "main.jsonnet",
            "(import 'lib/a.libsonnet') + (import 'b.libsonnet')\n",
        ),
        ("notes.md", "import 'lib/a.libsonnet'\n"),
        ("jsonnetfile.lock.json", &lock.to_string()),
    ];
    let shell = Shell::with_repository(&files);
    let early = shell.run(&["jb", "rewrite"]);
    assert_eq!(
        (early.code, early.err.as_str()),
        (Some(1), "stat vendor: no such file or directory\n")
    );
    assert_eq!(shell.get("main.jsonnet"), files[0].1);
    let unlocked = Shell::with_repository(&files[..1]).run(&["jb", "rewrite"]);
    let advice = "\nThe locks are required to compute the new import names. Make sure to run `drydock jb install` first.\n";
    assert!(
        unlocked.code == Some(1) && unlocked.err.ends_with(advice),
        "{unlocked:?}"
    );
    let vendored = "vendor/github.com/org/c/lib/a.libsonnet";
    shell.put(vendored, "import 'lib/b.libsonnet'\n");
    let rewritten = shell.run(&["jb", "rewrite", "--json"]);
    assert_eq!(rewritten.code, Some(0), "{rewritten:?}");
    let changed = json!({"packages": [], "files": ["main.jsonnet"], "notices": []});
    assert_eq!(rewritten.json(), changed);
    let expected = "(import 'github.com/org/c/lib/a.libsonnet') + (import 'b.libsonnet')\n";
    assert_eq!(shell.get("main.jsonnet"), expected);
    assert_eq!(shell.get("notes.md"), files[1].1);
    assert_eq!(shell.get(vendored), "import 'lib/b.libsonnet'\n");
    assert_eq!(shell.run(&["jb", "rewrite"]).err, "0 files differ from before.\n");
}
