//! Packages of Jsonnet from the network. A real git server on this machine stands in for the hosts.

use crate::support::git_server::GitServer;
use drydock::rendering::bundler::{Fetch, FetchMethod, Git, NetworkFetcher, PackageSource, parse_uri};
use drydock::state::download::DownloadObserver;
use flate2::Compression;
use flate2::write::GzEncoder;
use gix::ObjectId;
use gix::objs::tree::EntryKind;
use std::path::PathBuf;

pub(crate) const GITHUB: &str = "github.com";

/// A remote `org/c` with three commits, and a network fetcher for it.
pub(crate) struct RemotePackageFixture {
    room: tempfile::TempDir,
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) commits: Vec<ObjectId>,
}

impl RemotePackageFixture {
    pub(crate) fn new() -> Self {
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

    pub(crate) fn remotes(&self) -> PathBuf {
        self.room.path().join("remotes")
    }

    /// Returns the network fetcher, with the server at an address in place of GitHub.
    pub(crate) fn network(&self, address: &str) -> NetworkFetcher {
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
    pub(crate) fn archive(&self, commit: ObjectId, content: &str) {
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

pub(crate) fn c() -> Git {
    match parse_uri("github.com/org/c").unwrap().source {
        PackageSource::Git(git) => git,
        PackageSource::Local(_) => panic!("it is an address"),
    }
}

/// Returns the content of `c.libsonnet`.
pub(crate) fn content(
    network: &NetworkFetcher,
    commit: ObjectId,
    form: FetchMethod,
) -> Result<String, String> {
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
