//! The packed and mapped base of one commit.

use super::BaseProgress;
use crate::base::model::FileMode;
use crate::state::workspace::Repository;
use crate::state::workspace::fixture::{Fixture, path, text};
use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn a_base_is_built_once_and_opened_after_that() {
    let names: Vec<String> = (0..600)
        .map(|number| format!("d{}/f{number}", number % 7))
        .collect();
    let files: Vec<_> = names.iter().map(|name| text(name, name)).collect();
    let fixture = Fixture::with(&files);
    let steps = RefCell::new(Vec::new());
    let repository = fixture.open();
    let head = repository.head().unwrap().unwrap();
    repository
        .base(&head, &|step: BaseProgress| {
            steps.borrow_mut().push((step.done, step.total))
        })
        .unwrap();
    assert_eq!(*steps.borrow(), [(256, 600), (512, 600), (600, 600)]);

    let file = fixture.bases().join(format!("{head}.pack"));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let again = fixture.open();
    let base = again.base(&head, &|_| panic!("built again")).unwrap();
    assert_eq!(base.len(), 600);
    for name in &names {
        assert_eq!(
            base.read(&path(name)).unwrap().unwrap().content,
            name.as_bytes(),
            "{name}"
        );
    }
    assert_eq!(base.read(&path("d0")).unwrap(), None);
    assert_eq!(base.files_below("d3").count(), 86);
    assert!(
        fixture.bases().read_dir().unwrap().count() == 1,
        "no temporary file is left"
    );
}

#[test]
fn a_damaged_base_is_built_again() {
    let fixture = Fixture::with(&[text("a", "aaaa\n"), text("b", "bbbb\n")]);
    let head = fixture.open().head().unwrap().unwrap();
    let file = fixture.bases().join(format!("{head}.pack"));
    let whole = {
        fixture.head_base();
        std::fs::read(&file).unwrap()
    };
    let flip = |at: usize| {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        damaged
    };
    let mut versions = vec![
        Vec::new(),
        whole[..whole.len() - 1].to_vec(),
        whole[..40].to_vec(),
        [&whole[..], b"x"].concat(),
    ];
    // The header, its checksum, the table and the names are covered. Only the length of the text is.
    versions.extend([0, 8, 12, 24, 32, 40, 71, 72, 95].map(flip));
    versions.extend((whole.len() - 122..whole.len()).map(flip));
    for damaged in versions {
        // Written under another name and renamed, like the base itself: a mapped file must not change.
        let beside = file.with_extension("new");
        std::fs::write(&beside, &damaged).unwrap();
        std::fs::rename(&beside, &file).unwrap();
        let base = fixture.head_base();
        assert_eq!(base.read(&path("b")).unwrap().unwrap().content, &b"bbbb\n"[..]);
        assert_eq!(std::fs::read(&file).unwrap(), whole);
    }
}

#[test]
fn old_packed_files_are_removed() {
    let fixture = Fixture::with(&[text("a", "0")]);
    let repository = fixture.open();
    for number in 1..8 {
        let content = number.to_string();
        let commit = fixture.commit(&[text("a", &content)], &[], number);
        let base = repository.base(&commit.to_string(), &|_| ()).unwrap();
        assert_eq!(
            base.read(&path("a")).unwrap().unwrap().content,
            content.as_bytes()
        );
    }
    assert_eq!(fixture.bases().read_dir().unwrap().count(), super::PACKS_MAX);
}

/// R29
#[test]
fn what_a_kill_left_half_packed_goes_at_the_next_start_and_with_the_next_base() {
    let fixture = Fixture::with(&[text("a", "0")]);
    let repository = fixture.open();
    let head = repository.head().unwrap().unwrap();
    repository.base(&head, &|_| ()).unwrap();
    let left = || {
        let half = fixture.bases().join(format!("{head}.tmp-4242"));
        std::fs::write(&half, "half").unwrap();
        half
    };
    let root = fixture.bases().parent().unwrap().to_owned();
    let half = left();
    assert_eq!(super::clear_unfinished(&root).unwrap(), 1);
    assert!(!half.exists() && fixture.bases().join(format!("{head}.pack")).exists());
    let half = left();
    let next = fixture.commit(&[text("a", "1")], &[], 1_000);
    repository.base(&next.to_string(), &|_| ()).unwrap();
    assert!(!half.exists());
    assert_eq!(super::clear_unfinished(&root.join("nowhere")).unwrap(), 0);
}

/// R29
#[test]
fn old_packed_commits_may_go_but_never_the_newest() {
    let fixture = Fixture::with(&[text("a", "0")]);
    let repository = fixture.open();
    let mut commits = Vec::new();
    let day = |day: u64| std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(day * 86_400);
    for number in 1..4 {
        let commit = fixture
            .commit(
                &[text("a", &number.to_string())],
                &[],
                i64::try_from(number).unwrap(),
            )
            .to_string();
        repository.base(&commit, &|_| ()).unwrap();
        let file = std::fs::File::open(fixture.bases().join(format!("{commit}.pack"))).unwrap();
        file.set_modified(day(number)).unwrap();
        commits.push(commit);
    }
    let (root, name) = (fixture.bases().parent().unwrap().to_owned(), fixture.bases());
    let name = name.file_name().unwrap().to_str().unwrap();
    let old = |before| super::old_packs(&root, name, day(before)).unwrap();
    assert_eq!(old(1), Vec::<String>::new());
    assert_eq!(old(2), commits[..1]);
    assert_eq!(old(99), commits[..2]);
    super::remove_pack(&root, name, &commits[0]).unwrap();
    super::remove_pack(&root, name, &commits[0]).unwrap();
    assert_eq!(old(99), commits[1..2]);
}

#[test]
fn the_next_base_takes_over_what_did_not_change() {
    let fixture = Fixture::with(&[text("kept", "kept\n"), text("old", "old\n")]);
    let repository: std::sync::Arc<Repository> = fixture.open();
    let head = repository.head().unwrap().unwrap();
    repository.base(&head, &|_| ()).unwrap();
    // The object database now returns other content for `kept`, so the old content can only come from the previous
    // base.
    let blob = fixture.objects.write_blob("kept\n").unwrap().to_string();
    let next = fixture.commit(
        &[
            text("kept", "kept\n"),
            text("moved/kept", "kept\n"),
            ("new", b"new\n", FileMode::Executable),
        ],
        &[],
        2_000,
    );
    let (directory, file) = blob.split_at(2);
    let loose = fixture.git().join("objects").join(directory).join(file);
    let mut other = gix::zlib::stream::deflate::Write::new(Vec::new(), gix::zlib::Compression::DEFAULT);
    std::io::Write::write_all(&mut other, b"blob 5\0WRONG").unwrap();
    std::io::Write::flush(&mut other).unwrap();
    std::fs::remove_file(&loose).unwrap();
    std::fs::write(&loose, other.into_inner()).unwrap();
    let base = repository.base(&next.to_string(), &|_| ()).unwrap();
    assert_eq!(
        base.read(&path("moved/kept")).unwrap().unwrap().content,
        &b"kept\n"[..]
    );
    assert_eq!(base.stat(&path("new")), Some((FileMode::Executable, 4)));
    assert_eq!(*base.files(), ["kept", "moved/kept", "new"].map(path));
}

#[test]
fn the_names_in_a_directory_are_those_of_its_files_and_directories() {
    let fixture = Fixture::with(&[
        text("a-b/x", "1"),
        text("a/b/c", "1"),
        text("a/b/d", "1"),
        text("a/e", "1"),
        text("a.txt", "1"),
        text("z", "1"),
    ]);
    let base = fixture.head_base();
    assert_eq!(base.names(""), ["a-b", "a.txt", "a", "z"]);
    assert_eq!(base.names("a"), ["b", "e"]);
    assert_eq!(base.names("a/b"), ["c", "d"]);
    assert_eq!(base.names("nowhere"), Vec::<String>::new());
}
