//! Repositories: which ones are opened or refused, and what their history shows.

use super::{Repository, RepositoryError};
use crate::base::model::{FileChange, FileMode, FileVersion};
use crate::state::workspace::fixture::{Fixture, path, text};
use bytes::Bytes;
use gix::ObjectId;

fn version(content: &str) -> FileVersion {
    FileVersion {
        content: Bytes::copy_from_slice(content.as_bytes()),
        mode: FileMode::Regular,
    }
}

fn refusal(result: Result<impl std::fmt::Debug, RepositoryError>) -> String {
    match result {
        Err(RepositoryError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_newest_commit_is_seen_at_a_glance_once_its_files_are_open() {
    let fixture = Fixture::new();
    let first = fixture.commit(&[text("a", "1\n")], &[], 10);
    let second = fixture.commit(&[text("a", "2\n")], &[first], 20);
    fixture.set_reference("refs/heads/main", first);
    let repository = fixture.open();
    assert_eq!(repository.cached_head(), None);
    for commit in [first, second, first] {
        fixture.set_reference("refs/heads/main", commit);
        repository.base(&commit.to_string(), &|_| ()).unwrap();
        assert_eq!(repository.cached_head(), Some(commit.to_string()));
        assert_eq!(repository.cached_head(), repository.head().unwrap());
    }
    // A packed ref and a symbolic ref both need a full lookup.
    let reference = fixture.git().join("refs/heads/main");
    std::fs::write(&reference, "ref: refs/heads/other\n").unwrap();
    assert_eq!(repository.cached_head(), None);
    std::fs::remove_file(&reference).unwrap();
    let packed = format!("# pack-refs with: peeled fully-peeled sorted\n{second} refs/heads/main\n");
    std::fs::write(fixture.git().join("packed-refs"), packed).unwrap();
    assert_eq!(repository.cached_head(), None);
    assert_eq!(repository.head().unwrap(), Some(second.to_string()));
}

#[test]
fn history_is_read_as_people_name_it() {
    let fixture = Fixture::new();
    let first = fixture.commit(&[text("a", "1\n")], &[], 10);
    let second = fixture.commit(&[text("a", "2\n"), text("d/b", "b\n")], &[first], 20);
    let side = fixture.commit(&[text("a", "1\n"), text("s", "s\n")], &[first], 15);
    let merge = fixture.commit(&[text("a", "2\n"), text("s", "s\n")], &[second, side], 30);
    fixture.set_reference("refs/heads/main", merge);
    fixture.set_reference("refs/heads/feature/x", side);
    fixture.set_reference("refs/tags/v1", first);
    let repository = fixture.open();
    let head = repository.head().unwrap().unwrap();
    assert_eq!(head, merge.to_string());

    let ids: Vec<String> = repository
        .log(&head, 10)
        .unwrap()
        .into_iter()
        .map(|commit| commit.id)
        .collect();
    assert_eq!(ids, [merge, second, side, first].map(|id| id.to_string()));
    assert_eq!(repository.log(&head, 1).unwrap().len(), 1);

    let short: String = second.to_string().chars().take(7).collect();
    let merge_parent = format!("{merge}^2");
    for (revision, meant) in [
        ("HEAD", merge),
        ("@", merge),
        ("HEAD~", second),
        ("HEAD~2", first),
        ("HEAD^", second),
        ("HEAD^2", side),
        ("HEAD^2~1", first),
        ("HEAD^^", first),
        ("HEAD^0", merge),
        ("main", merge),
        ("feature/x", side),
        ("refs/heads/feature/x", side),
        ("v1", first),
        (&short, second),
        (&merge_parent, side),
    ] {
        assert_eq!(
            repository.resolve(revision, &head).unwrap(),
            meant.to_string(),
            "{revision}"
        );
    }

    let (commit, changes) = repository.show("HEAD~", &head, &|| false).unwrap();
    assert_eq!(
        (commit.author.as_str(), commit.message.as_str()),
        ("Ada <ada@example.com>", "commit 20\n")
    );
    assert_eq!(commit.at.as_second(), 20);
    let changed = |name: &str, before: Option<&str>, after: Option<&str>| FileChange {
        path: path(name),
        before: before.map(version),
        after: after.map(version),
    };
    assert_eq!(
        changes,
        [
            changed("a", Some("1\n"), Some("2\n")),
            changed("d/b", None, Some("b\n"))
        ]
    );
    let (_, root) = repository.show("v1", &head, &|| false).unwrap();
    assert_eq!(root, [changed("a", None, Some("1\n"))]);
    assert_eq!(
        repository.file_at(&head, &path("a")).unwrap(),
        Some(version("2\n"))
    );
    assert_eq!(
        repository.file_at(&second.to_string(), &path("d/b")).unwrap(),
        Some(version("b\n"))
    );
    assert_eq!(repository.file_at(&head, &path("d")).unwrap(), None);
}

/// T27
#[test]
fn objects_that_no_branch_or_tag_reaches_are_unknown() {
    let fixture = Fixture::with(&[text("a", "a\n")]);
    let dangling = fixture.commit(&[text("secret", "theirs\n")], &[], 99);
    let blob = fixture.objects.write_blob("theirs\n").unwrap().detach();
    fixture.set_reference("refs/stash", dangling);
    let repository = fixture.open();
    let head = repository.head().unwrap().unwrap();
    let tree = fixture.tree(&[text("a", "a\n")]);
    let short: String = dangling.to_string().chars().take(8).collect();
    for revision in [
        dangling.to_string(),
        short,
        blob.to_string(),
        tree.to_string(),
        format!("{dangling}~0"),
        "refs/stash".to_owned(),
        "stash".to_owned(),
        "HEAD~1".to_owned(),
        "HEAD^2".to_owned(),
        "HEAD~99999999999".to_owned(),
        "HEAD@{1}".to_owned(),
        ":/commit".to_owned(),
        "main:a".to_owned(),
        "--all".to_owned(),
        "abc".to_owned(),
        String::new(),
        "../../HEAD".to_owned(),
        "refs/heads/../../HEAD".to_owned(),
        "x".repeat(10_000),
    ] {
        let error = repository.show(&revision, &head, &|| false).unwrap_err();
        assert!(
            matches!(error, RepositoryError::UnknownRevision(_)),
            "{revision}: {error:?}"
        );
    }
}

#[test]
fn reading_a_long_history_or_a_large_commit_ends_when_cancelled() {
    let names: Vec<String> = (0..100).map(|number| format!("file{number}")).collect();
    let many: Vec<_> = names.iter().map(|name| text(name, "x\n")).collect();
    let fixture = Fixture::with(&many);
    let mut newest = fixture.commit(&many, &[], 1_000);
    for second in 0..100 {
        newest = fixture.commit(&many, &[newest], 2_000 + second);
    }
    fixture.set_reference("refs/heads/long", newest);
    let dangling = fixture.commit(&[text("theirs", "x\n")], &[], 99).to_string();
    let repository = fixture.open();
    let head = repository.head().unwrap().unwrap();
    for revision in [dangling.as_str(), "HEAD"] {
        let asked = std::cell::Cell::new(0);
        let is_stopped = || {
            asked.set(asked.get() + 1);
            asked.get() > 50
        };
        let error = repository.show(revision, &head, &is_stopped).unwrap_err();
        assert!(matches!(error, RepositoryError::Stopped), "{revision}: {error:?}");
        assert_eq!(asked.get(), 51, "{revision}");
    }
}

/// T40
#[test]
fn a_configuration_that_could_run_programs_is_refused_with_its_line() {
    let head = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n# note\n\n\n";
    for (text, message) in [
        (
            "\tfsmonitor = /bin/sh\n",
            "repo.git/config:7: core.fsmonitor is not allowed",
        ),
        (
            "\tFSMonitor\n",
            "repo.git/config:7: core.FSMonitor is not allowed",
        ),
        (
            "\thooksPath = x\n",
            "repo.git/config:7: core.hooksPath is not allowed",
        ),
        (
            "\tsshCommand = x\n",
            "repo.git/config:7: core.sshCommand is not allowed",
        ),
        (
            "\tworktree = /\n",
            "repo.git/config:7: core.worktree is not allowed",
        ),
        (
            "[filter \"x\"]\n\tclean = y\n",
            "repo.git/config:8: filter.clean is not allowed",
        ),
        (
            "[filter \"x\"] smudge = y\n",
            "repo.git/config:7: filter.smudge is not allowed",
        ),
        (
            "[diff \"x\"]\n\tcommand = y\n",
            "repo.git/config:8: diff.command is not allowed",
        ),
        (
            "[diff \"x\"]\n\ttextconv = y\n",
            "repo.git/config:8: diff.textconv is not allowed",
        ),
        (
            "[merge \"x\"]\n\tdriver = y\n",
            "repo.git/config:8: merge.driver is not allowed",
        ),
        (
            "[anything \"x\"]\n\tprocess = y\n",
            "repo.git/config:8: anything.process is not allowed",
        ),
        (
            "[include]\n\tpath = /x\n",
            "repo.git/config:7: include is not allowed",
        ),
        (
            "[includeIf \"gitdir:/\"]\n\tpath = /x\n",
            "repo.git/config:7: includeif is not allowed",
        ),
        ("[oops\n", "repo.git/config: this is not a git configuration"),
    ] {
        let fixture = Fixture::with(&[crate::state::workspace::fixture::text("a", "a")]);
        std::fs::write(fixture.git().join("config"), format!("{head}{text}")).unwrap();
        let opened = Repository::open_local("infra", &fixture.git(), Some("main"), &fixture.bases());
        assert_eq!(refusal(opened), message);
    }
}

/// T40
#[test]
fn objects_may_not_be_borrowed_from_outside() {
    let fixture = Fixture::with(&[text("a", "a")]);
    let other = Fixture::with(&[text("secret", "s")]);
    let alternates = fixture.git().join("objects/info/alternates");
    std::fs::create_dir_all(alternates.parent().unwrap()).unwrap();
    std::fs::write(
        &alternates,
        format!("{}\n", other.git().join("objects").display()),
    )
    .unwrap();
    let opened = Repository::open_local("infra", &fixture.git(), Some("main"), &fixture.bases());
    assert_eq!(
        refusal(opened),
        "repo.git/objects/info/alternates:1: objects outside of the repository are not allowed"
    );
}

/// TK-4
#[test]
fn a_directory_without_git_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let opened = Repository::open_local("infra", directory.path(), None, directory.path());
    assert_eq!(
        refusal(opened),
        format!(
            "`{}` is not a git repository; name a directory that holds `.git`, or a bare repository",
            directory.path().display()
        )
    );
}

#[test]
fn a_branch_without_commits_has_no_head_and_a_missing_branch_is_an_error() {
    let fixture = Fixture::new();
    assert_eq!(fixture.open().head().unwrap(), None);
    let commit = fixture.commit(&[text("a", "a")], &[], 1);
    fixture.set_reference("refs/heads/main", commit);
    assert_eq!(fixture.open().head().unwrap(), Some(commit.to_string()));
    let other = Repository::open_local("infra", &fixture.git(), Some("gone"), &fixture.bases()).unwrap();
    assert!(matches!(other.head(), Err(RepositoryError::UnknownRevision(name)) if name == "gone"));
    let checked_out = Repository::open_local("infra", &fixture.git(), None, &fixture.bases()).unwrap();
    assert_eq!(checked_out.head().unwrap(), Some(commit.to_string()));
}

fn crafted(fixture: &Fixture, entries: &[(&[u8], gix::objs::tree::EntryKind, ObjectId)]) -> ObjectId {
    let entries = entries
        .iter()
        .map(|(name, kind, id)| gix::objs::tree::Entry {
            mode: (*kind).into(),
            filename: (*name).into(),
            oid: *id,
        })
        .collect();
    fixture
        .objects
        .write_object(gix::objs::Tree { entries })
        .unwrap()
        .detach()
}

/// T41
#[test]
fn a_crafted_tree_is_refused_by_name() {
    use gix::objs::tree::EntryKind;
    for name in [
        ".git",
        ".GIT",
        "..",
        ".",
        "a/b",
        "../x",
        "git~1",
        ".g\u{200c}it",
        ".git/hooks/x",
    ] {
        let fixture = Fixture::new();
        let blob = fixture.objects.write_blob("x").unwrap().detach();
        let tree = crafted(&fixture, &[(name.as_bytes(), EntryKind::Blob, blob)]);
        let deep = crafted(&fixture, &[(b"sub", EntryKind::Tree, tree)]);
        for tree in [tree, deep] {
            let commit = fixture.commit_tree(tree, &[], 1).to_string();
            fixture.set_reference("refs/heads/main", ObjectId::from_hex(commit.as_bytes()).unwrap());
            let repository = fixture.open();
            let why = refusal(repository.base(&commit, &|_| ()));
            assert_eq!(why, format!("refused: tree entry '{}'", name.escape_debug()));
            assert!(refusal(repository.show("main", &commit, &|| false)).contains("tree entry"));
        }
    }
}

/// T41
#[test]
fn submodules_and_names_that_are_no_text_are_left_out_and_counted() {
    use gix::objs::tree::EntryKind;
    let fixture = Fixture::new();
    let blob = fixture.objects.write_blob("x").unwrap().detach();
    let tree = crafted(
        &fixture,
        &[
            (b"a", EntryKind::Blob, blob),
            (b"back\\slash", EntryKind::Blob, blob),
            (b"latin\xe9", EntryKind::Blob, blob),
            (b"line\nno secrets in added lines  pass", EntryKind::Blob, blob),
            (b"module", EntryKind::Commit, blob),
            (b"tick`tock", EntryKind::Blob, blob),
        ],
    );
    let commit = fixture.commit_tree(tree, &[], 1);
    fixture.set_reference("refs/heads/main", commit);
    let base = fixture.head_base();
    assert_eq!(*base.files(), vec![path("a")]);
    assert_eq!((base.skipped().submodules, base.skipped().names), (1, 4));
}

#[test]
fn a_new_commit_is_seen_without_opening_again() {
    let fixture = Fixture::with(&[text("a", "1")]);
    let repository = fixture.open();
    let first = repository.head().unwrap().unwrap();
    let next = fixture.commit(
        &[text("a", "2")],
        &[ObjectId::from_hex(first.as_bytes()).unwrap()],
        2_000,
    );
    fixture.set_reference("refs/heads/main", next);
    let head = repository.head().unwrap().unwrap();
    assert_eq!(head, next.to_string());
    let base = repository.base(&head, &|_| ()).unwrap();
    assert_eq!(base.read(&path("a")).unwrap(), Some(version("2")));
    let old = repository.base(&first, &|_| ()).unwrap();
    assert_eq!(old.read(&path("a")).unwrap(), Some(version("1")));
}

#[test]
fn a_linked_work_tree_opens_on_its_own_branch() {
    let fixture = Fixture::with(&[text("a", "1")]);
    let side = fixture.commit(&[text("a", "2")], &[], 2_000);
    fixture.set_reference("refs/heads/side", side);
    let work = fixture.directory.path().join("work");
    let own = fixture.git().join("worktrees/work");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
    std::fs::write(own.join("gitdir"), format!("{}\n", work.join(".git").display())).unwrap();
    std::fs::write(own.join("commondir"), "../..\n").unwrap();
    std::fs::write(own.join("HEAD"), "ref: refs/heads/side\n").unwrap();
    let repository = Repository::open_local("infra", &work, None, &fixture.bases()).unwrap();
    assert_eq!(repository.head().unwrap(), Some(side.to_string()));
    let main = Repository::open_local("infra", &work, Some("main"), &fixture.bases()).unwrap();
    assert_eq!(main.head().unwrap(), fixture.open().head().unwrap());

    let config = fixture.git().join("config");
    std::fs::write(
        &config,
        "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = x\n",
    )
    .unwrap();
    let opened = Repository::open_local("infra", &work, None, &fixture.bases());
    assert_eq!(
        refusal(opened),
        "repo.git/config:3: core.fsmonitor is not allowed"
    );
}

/// T40
#[test]
fn an_ordinary_work_tree_names_its_configuration() {
    let fixture = Fixture::with(&[text("a", "1")]);
    let work = fixture.directory.path().join("app");
    std::fs::create_dir(&work).unwrap();
    std::fs::rename(fixture.git(), work.join(".git")).unwrap();
    std::fs::write(work.join(".git/config"), "[core]\n\tworktree = ..\n").unwrap();
    assert!(Repository::open_local("infra", &work, None, &fixture.bases()).is_ok());
    std::fs::write(work.join(".git/config"), "[core]\n\tworktree = ../..\n").unwrap();
    let opened = Repository::open_local("infra", &work, None, &fixture.bases());
    assert_eq!(refusal(opened), "app/.git/config:2: core.worktree is not allowed");
}

/// TK-6, I5: people with husky, git-lfs or a file system monitor can work in the terminal.
#[test]
fn ones_own_repository_may_name_programs_and_none_of_them_runs() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new();
    let attributes = text(".gitattributes", "* filter=lfs diff=lfs merge=lfs\n");
    let first = fixture.commit(&[attributes, text("a", "1\n")], &[], 10);
    let second = fixture.commit(&[attributes, text("a", "2\n")], &[first], 20);
    fixture.set_reference("refs/heads/main", second);
    let work = fixture.directory.path().join("app");
    std::fs::create_dir(&work).unwrap();
    std::fs::rename(fixture.git(), work.join(".git")).unwrap();
    let (program, ran) = (work.join("program"), work.join("ran"));
    std::fs::write(&program, format!("#!/bin/sh\ntouch '{}'\ncat\n", ran.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    for hook in ["post-checkout", "reference-transaction", "fsmonitor-watchman"] {
        std::fs::create_dir_all(work.join(".git/hooks")).unwrap();
        std::fs::copy(&program, work.join(".git/hooks").join(hook)).unwrap();
    }
    let name = program.display();
    let config = format!(
        "[core]\n\tbare = false\n\thooksPath = {}\n\tfsmonitor = {name}\n\tsshCommand = {name}\n\tpager = {name}\n\
         [filter \"lfs\"]\n\tclean = {name}\n\tsmudge = {name}\n\tprocess = {name}\n\trequired = true\n\
         [diff]\n\texternal = {name}\n[diff \"lfs\"]\n\ttextconv = {name}\n\tcommand = {name}\n\
         [merge \"lfs\"]\n\tdriver = {name}\n[credential]\n\thelper = !{name}\n[include]\n\tpath = elsewhere\n",
        work.join(".git/hooks").display(),
    );
    std::fs::write(work.join(".git/config"), config).unwrap();

    let refused = refusal(Repository::open_local("app", &work, None, &fixture.bases()));
    assert_eq!(refused, "app/.git/config:3: core.hooksPath is not allowed");
    let repository = Repository::open_personal("app", &work).unwrap();
    let head = repository.head().unwrap().unwrap();
    assert_eq!(head, second.to_string());
    assert_eq!(repository.log(&head, 10).unwrap().len(), 2);
    assert_eq!(repository.show("HEAD", &head, &|| false).unwrap().1.len(), 1);
    let file = repository.file_at(&head, &path("a")).unwrap().unwrap();
    assert_eq!(file.content.as_ref(), b"2\n");
    assert!(!ran.exists(), "a program of the repository was run");
}

#[test]
fn a_tree_is_compared_with_a_commit() {
    use crate::state::workspace::Tree as _;
    let fixture = Fixture::with(&[text("kept", "k"), text("edited", "old"), text("gone", "g")]);
    let repository = Repository::open_local("infra", &fixture.git(), Some("main"), &fixture.bases()).unwrap();
    let head = repository.head().unwrap().unwrap();
    let edits: crate::state::workspace::WorkspaceEdits = [
        (path("edited"), Some(version("new"))),
        (path("gone"), None),
        (path("added"), Some(version("a"))),
    ]
    .into();
    let tree = crate::state::workspace::Overlay::new(fixture.head_base(), edits);
    assert_eq!(
        repository.changes_to(Some(&head), &tree).unwrap(),
        tree.changes().unwrap()
    );
    let from_nothing = repository.changes_to(None, &tree).unwrap();
    let names: Vec<&str> = from_nothing.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(names, ["added", "edited", "kept"]);
    assert!(from_nothing.iter().all(|change| change.before.is_none()));
}
