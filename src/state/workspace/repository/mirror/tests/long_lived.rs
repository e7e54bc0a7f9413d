//! Tests of a mirror that lives for years: many pushes, kills, power failures.

use super::super::files::PACKS_MAX;
use super::{Server, at, mirror, quiet, refused};
use crate::state::workspace::Repository;
use crate::state::workspace::fixture::{Fixture, path, text};
use gix::ObjectId;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of pushes in a test, one commit each. It is larger than the maximum number of packs.
const PUSHES: i64 = 120;
/// Stop flag that no test sets.
static NOT_STOPPED: AtomicBool = AtomicBool::new(false);

/// A remote with one commit on `main`, and its mirror.
struct MirrorFixture {
    fixture: Fixture,
    server: Server,
    head: ObjectId,
}

impl MirrorFixture {
    fn new() -> Option<Self> {
        let fixture = Fixture::new();
        let head = fixture.commit(&[text("a", "0\n")], &[], 1);
        fixture.set_reference("refs/heads/main", head);
        fixture.set_reference("refs/tags/v1", head);
        let server = Server::start(fixture.directory.path(), None)?;
        Some(Self {
            fixture,
            server,
            head,
        })
    }

    fn open(&self) -> Arc<Repository> {
        let mirror = mirror(&self.fixture, &self.server.url, None);
        Repository::mirror(mirror, at(1), &quiet(), &NOT_STOPPED).unwrap()
    }

    fn push(&mut self, number: i64) {
        let content = format!("{number}\n");
        self.head = self.fixture.commit(&[text("a", &content)], &[self.head], number);
        self.fixture.set_reference("refs/heads/main", self.head);
    }

    fn directory(&self) -> PathBuf {
        self.fixture.directory.path().join("data/mirror.git")
    }

    /// Returns the paths beside the mirror.
    fn sibling_paths(&self) -> Vec<PathBuf> {
        let data = std::fs::read_dir(self.fixture.directory.path().join("data")).unwrap();
        let all = data.map(|entry| entry.unwrap().path());
        all.filter(|path| *path != self.directory()).collect()
    }

    fn assert_serves(&self, repository: &Repository, content: &str) {
        assert_serves(repository, self.head, content);
    }
}

fn assert_serves(repository: &Repository, commit: ObjectId, content: &str) {
    let head = repository.head().unwrap().unwrap();
    assert_eq!(head, commit.to_string());
    let file = repository.file_at(&head, &path("a")).unwrap().unwrap();
    assert_eq!(file.content, content.as_bytes());
}

fn packs(mirror: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(mirror.join("objects/pack")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut packs: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "pack"))
        .collect();
    packs.sort();
    packs
}

/// R29
#[test]
fn a_mirror_follows_its_remote_however_often_it_is_pushed_to() {
    let Some(mut followed) = MirrorFixture::new() else {
        return;
    };
    let repository = followed.open();
    let first = followed.head;
    let mut renewed = 0;
    for push in 1..=PUSHES {
        followed.push(push);
        repository.refresh(at(push), &quiet(), &NOT_STOPPED).unwrap();
        followed.assert_serves(&repository, &format!("{push}\n"));
        if repository.needs_renewal() {
            renewed += 1;
            repository.renew(at(push), &quiet(), &NOT_STOPPED).unwrap();
            followed.assert_serves(&repository, &format!("{push}\n"));
        }
        assert!(packs(&followed.directory()).len() <= PACKS_MAX, "push {push}");
    }
    assert_eq!(renewed, PUSHES / i64::try_from(PACKS_MAX).unwrap());
    assert_eq!(followed.sibling_paths(), Vec::<PathBuf>::new());
    let old = repository
        .file_at(&first.to_string(), &path("a"))
        .unwrap()
        .unwrap();
    assert_eq!(old.content, "0\n".as_bytes());
}

#[test]
fn a_mirror_is_read_while_it_is_made_anew() {
    let Some(mut followed) = MirrorFixture::new() else {
        return;
    };
    let repository = followed.open();
    for push in 1..=3 {
        followed.push(push);
        repository.refresh(at(push), &quiet(), &NOT_STOPPED).unwrap();
    }
    let (done, head) = (AtomicBool::new(false), followed.head);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut reads = 0;
                    while !done.load(Ordering::Relaxed) || reads == 0 {
                        assert_serves(&repository, head, "3\n");
                        assert_eq!(repository.log(&head.to_string(), 10).unwrap().len(), 4);
                        reads += 1;
                    }
                })
            })
            .collect();
        let renewals: Vec<_> = (0..10)
            .map(|_| repository.renew(at(9), &quiet(), &NOT_STOPPED))
            .collect();
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
        assert!(renewals.iter().all(Result::is_ok), "{renewals:?}");
    });
    assert_eq!(packs(&followed.directory()).len(), 1);
    assert_eq!(repository.last_fetched(), Some(at(9)));
}

#[test]
fn a_mirror_made_anew_is_never_behind_what_was_fetched() {
    let Some(mut followed) = MirrorFixture::new() else {
        return;
    };
    let repository = followed.open();
    // This push happens while the new copy is made. The old copy gets it before it is replaced.
    let copied = super::super::clone(
        &mirror(&followed.fixture, &followed.server.url, None),
        at(2),
        &quiet(),
        &NOT_STOPPED,
    );
    assert!(copied.is_ok());
    followed.push(1);
    repository.refresh(at(3), &quiet(), &NOT_STOPPED).unwrap();
    repository.renew(at(4), &quiet(), &NOT_STOPPED).unwrap();
    followed.assert_serves(&repository, "1\n");
}

#[test]
fn what_a_killed_fetch_left_is_taken_away_and_the_next_one_works() {
    let Some(mut followed) = MirrorFixture::new() else {
        return;
    };
    let repository = followed.open();
    let mirror = followed.directory();
    let left = [
        "packed-refs.lock",
        "HEAD.lock",
        "refs/heads/main.lock",
        "refs/heads/x.lock",
        "objects/pack/.tmpq4Yx2B",
        "objects/pack/pack-1111111111111111111111111111111111111111.pack",
        "objects/pack/pack-2222222222222222222222222222222222222222.idx",
        "objects/pack/pack-3333333333333333333333333333333333333333.keep",
        "../mirror.git.unfinished/objects/pack/.tmpz",
        "../mirror.gone/HEAD",
    ];
    for name in left {
        let file = mirror.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
    }
    followed.push(1);
    assert!(
        repository.refresh(at(2), &quiet(), &NOT_STOPPED).is_err(),
        "the locks are those of a fetch"
    );
    drop(repository);
    let repository = followed.open();
    for name in left {
        assert!(!mirror.join(name).exists(), "{name}");
    }
    repository.refresh(at(3), &quiet(), &NOT_STOPPED).unwrap();
    followed.assert_serves(&repository, "1\n");
    assert_eq!(followed.sibling_paths(), Vec::<PathBuf>::new());
}

type Damage = fn(&Path);

/// Returns the kinds of damage that a power failure can do to the files of a mirror.
fn damages() -> Vec<(&'static str, Damage)> {
    fn cut(file: &Path) {
        let bytes = std::fs::read(file).unwrap();
        std::fs::remove_file(file).unwrap();
        std::fs::write(file, bytes.get(..bytes.len() / 2).unwrap()).unwrap();
    }
    fn zero_end(file: &Path) {
        let mut bytes = std::fs::read(file).unwrap();
        let end = bytes.len() - 20;
        bytes.get_mut(end..).unwrap().fill(0);
        std::fs::remove_file(file).unwrap();
        std::fs::write(file, bytes).unwrap();
    }
    fn pack(mirror: &Path) -> PathBuf {
        packs(mirror).remove(0)
    }
    vec![
        ("a pack that is torn", |mirror| cut(&pack(mirror))),
        ("a pack whose end is zero", |mirror| zero_end(&pack(mirror))),
        ("a pack that is empty", |mirror| {
            let pack = pack(mirror);
            std::fs::remove_file(&pack).unwrap();
            std::fs::write(pack, "").unwrap();
        }),
        ("an index that is torn", |mirror| {
            cut(&pack(mirror).with_extension("idx"));
        }),
        ("no index", |mirror| {
            std::fs::remove_file(pack(mirror).with_extension("idx")).unwrap();
        }),
        ("branches that are torn", |mirror| {
            let file = mirror.join("packed-refs");
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, text.get(..text.len() - 15).unwrap()).unwrap();
        }),
        ("branches that are zero", |mirror| {
            std::fs::write(mirror.join("packed-refs"), [0; 100]).unwrap();
        }),
        ("a HEAD that is zero", |mirror| {
            std::fs::write(mirror.join("HEAD"), [0; 20]).unwrap();
        }),
        ("no HEAD", |mirror| {
            std::fs::remove_file(mirror.join("HEAD")).unwrap()
        }),
        ("a configuration that is zero", |mirror| {
            std::fs::write(mirror.join("config"), [0; 20]).unwrap();
        }),
    ]
}

#[test]
fn a_mirror_that_a_power_failure_damaged_is_fetched_anew() {
    let Some(mut followed) = MirrorFixture::new() else {
        return;
    };
    for (push, (what, damage)) in (1..).zip(damages()) {
        drop(followed.open());
        damage(&followed.directory());
        let repository = followed.open();
        followed.assert_serves(&repository, &format!("{}\n", push - 1));
        assert!(!repository.is_damaged(&NOT_STOPPED), "{what}");
        followed.push(push);
        repository.refresh(at(push), &quiet(), &NOT_STOPPED).unwrap();
        followed.assert_serves(&repository, &format!("{push}\n"));
        assert_eq!(followed.sibling_paths(), Vec::<PathBuf>::new(), "{what}");
    }
}

#[test]
fn a_damaged_mirror_stays_until_its_remote_answers() {
    let Some(followed) = MirrorFixture::new() else {
        return;
    };
    drop(followed.open());
    let head = followed.directory().join("HEAD");
    std::fs::write(&head, "").unwrap();
    let away = mirror(&followed.fixture, "http://127.0.0.1:9/404/401.git", None);
    let why = refused(Repository::mirror(away, at(2), &quiet(), &NOT_STOPPED));
    assert_eq!(
        why,
        "`infra` could not be fetched: the remote could not be reached"
    );
    assert!(head.exists() && followed.sibling_paths().is_empty());
    followed.assert_serves(&followed.open(), "0\n");
}

#[test]
fn a_byte_that_changed_on_the_disk_is_found_and_mended_by_a_fetch() {
    let Some(followed) = MirrorFixture::new() else {
        return;
    };
    let repository = followed.open();
    assert!(!repository.is_damaged(&NOT_STOPPED));
    let pack = packs(&followed.directory()).remove(0);
    let mut bytes = std::fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    *bytes.get_mut(middle).unwrap() ^= 1;
    std::fs::remove_file(&pack).unwrap();
    std::fs::write(&pack, bytes).unwrap();
    assert!(repository.is_damaged(&NOT_STOPPED));
    repository.renew(at(2), &quiet(), &NOT_STOPPED).unwrap();
    assert!(!repository.is_damaged(&NOT_STOPPED));
    followed.assert_serves(&repository, "0\n");
}
