//! Tests with damaged, cut or replaced files in a data directory.

use crate::state::store::fixture::{accept, at, fresh, says};
use crate::state::store::open::open_within;
use crate::state::store::{Condition, OpenError, Store, StoreError};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const DATABASE: &str = "drydock.db";
const LOG: &str = "drydock.db-wal";
const INDEX: &str = "drydock.db-shm";
const WORD: &str = "last-start";

/// A change that a test makes to a log.
type Damage = Box<dyn Fn(&Path)>;

/// Returns a copy of a data directory as after `kill -9`: unchanged files and no owning process.
fn killed(directory: &Path) -> TempDir {
    let left = tempfile::tempdir().unwrap();
    for name in [DATABASE, LOG, INDEX, WORD, "pepper"] {
        std::fs::copy(directory.join(name), left.path().join(name)).unwrap();
    }
    left
}

/// Returns a killed store with messages in its log.
async fn with_messages(count: usize) -> TempDir {
    let (directory, store) = fresh();
    for number in 0..count {
        accept(
            &store,
            &says(&format!("U{number}"), "x", &[&number.to_string()]),
            0,
        )
        .await;
    }
    killed(directory.path())
}

async fn messages(store: &Store) -> i64 {
    let count = "SELECT COUNT(*) FROM inbox";
    let count = store.read(move |tx| Ok(tx.query_row(count, [], |row| row.get(0))?));
    count.await.unwrap()
}

/// Reads a file. An empty log counts as missing.
fn bytes(directory: &Path, name: &str) -> Vec<u8> {
    std::fs::read(directory.join(name)).unwrap_or_default()
}

fn refused(directory: &Path) -> OpenError {
    let before = [DATABASE, LOG].map(|name| bytes(directory, name));
    let refused = Store::open(directory).unwrap_err();
    assert!(
        [DATABASE, LOG].map(|name| bytes(directory, name)) == before,
        "{refused}"
    );
    refused
}

/// R16: a log that is missing, cut at either end, or changed in one bit holds less than was committed.
#[tokio::test]
async fn a_log_that_was_cut_or_changed_is_refused_and_left_as_it_is() {
    let cut = |to: fn(usize) -> usize| {
        move |log: &Path| {
            let bytes = std::fs::read(log).unwrap();
            std::fs::write(log, &bytes[..to(bytes.len())]).unwrap();
        }
    };
    let flip = |at: fn(usize) -> usize| {
        move |log: &Path| {
            let mut bytes = std::fs::read(log).unwrap();
            let at = at(bytes.len());
            bytes[at] ^= 1;
            std::fs::write(log, bytes).unwrap();
        }
    };
    let damages: [Damage; 7] = [
        Box::new(cut(|length| length / 2)),
        Box::new(cut(|length| length - 1)),
        Box::new(cut(|_| 0)),
        Box::new(flip(|_| 17)),
        Box::new(flip(|length| length / 2)),
        Box::new(flip(|length| length - 1)),
        Box::new(|log: &Path| std::fs::remove_file(log).unwrap()),
    ];
    // Enough that half of the log holds the start of the process, and too few for a checkpoint, which begins a new log.
    let whole = with_messages(40).await;
    for (number, damage) in damages.iter().enumerate() {
        let left = killed(whole.path());
        damage(&left.path().join(LOG));
        let refused = refused(left.path());
        let OpenError::Torn { found, committed, .. } = &refused else {
            panic!("{number}: {refused}")
        };
        assert!(found < committed, "{number}: {refused}");
        let text = refused.to_string();
        assert!(
            text.contains("restore the directory from a backup, or remove"),
            "{text}"
        );
        // Only a manual deletion of the index accepts the loss.
        std::fs::remove_file(left.path().join(INDEX)).unwrap();
        let store = Store::open(left.path()).unwrap();
        assert!(messages(&store).await < 40, "{number}");
    }
}

/// R16: the index is derived from the log. After a restart of the machine it gives no information about the log.
#[tokio::test]
async fn what_a_kill_leaves_is_whole_with_and_without_its_index() {
    let whole = with_messages(10).await;
    let left = killed(whole.path());
    assert_eq!(messages(&Store::open(left.path()).unwrap()).await, 10);
    let left = killed(whole.path());
    std::fs::remove_file(left.path().join(INDEX)).unwrap();
    assert_eq!(messages(&Store::open(left.path()).unwrap()).await, 10);
    // A power failure may remove the unsynced end of the log and leave the index.
    let left = killed(whole.path());
    let log = bytes(left.path(), LOG);
    std::fs::write(left.path().join(LOG), &log[..log.len() - 1]).unwrap();
    std::fs::write(left.path().join(WORD), "1\nanother run of the machine\n").unwrap();
    assert!(messages(&Store::open(left.path()).unwrap()).await < 10);
}

/// R16
#[tokio::test]
async fn a_page_that_does_not_fit_is_refused_with_its_table_and_page() {
    let (directory, store) = fresh();
    for number in 0..20 {
        accept(
            &store,
            &says(&format!("U{number}"), "x", &[&number.to_string()]),
            0,
        )
        .await;
    }
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'inbox'";
    let root: u32 = store
        .read(move |tx| Ok(tx.query_row(root, [], |row| row.get(0))?))
        .await
        .unwrap();
    let root = root as usize;
    drop(store);
    let file = directory.path().join(DATABASE);
    let good = std::fs::read(&file).unwrap();
    let page_bytes = 2_048;
    // The first byte of a page is its kind. One bit of it is changed in each page after the first.
    for page in 1..good.len() / page_bytes {
        let mut bad = good.clone();
        bad[page * page_bytes] ^= 0x40;
        std::fs::write(&file, &bad).unwrap();
        let refused = refused(directory.path());
        assert!(matches!(refused, OpenError::Damaged { .. }), "{page}: {refused}");
        if page + 1 == root {
            let text = refused.to_string();
            assert!(text.contains("table inbox"), "{text}");
            assert!(text.contains(&format!("page {root}")), "{text}");
            assert!(text.contains("restore it from a backup"), "{text}");
        }
    }
    std::fs::write(&file, &good).unwrap();
    assert_eq!(messages(&Store::open(directory.path()).unwrap()).await, 20);
}

/// R16
#[tokio::test]
async fn an_older_database_in_the_place_of_the_newer_one_is_refused() {
    let (directory, store) = fresh();
    accept(&store, &says("U1", "x", &["1"]), 0).await;
    drop(store);
    let file = directory.path().join(DATABASE);
    let older = std::fs::read(&file).unwrap();
    let store = Store::open(directory.path()).unwrap();
    accept(&store, &says("U1", "y", &["2"]), 1).await;
    drop(store);
    std::fs::write(&file, &older).unwrap();
    let text = refused(directory.path()).to_string();
    assert!(text.contains("it records 1 of 2 starts"), "{text}");
    // The operator restored a backup on purpose.
    std::fs::remove_file(directory.path().join(WORD)).unwrap();
    assert_eq!(messages(&Store::open(directory.path()).unwrap()).await, 1);
}

/// R16: data keyed with the pepper is useless without it.
#[tokio::test]
async fn a_database_without_its_pepper_gets_no_new_one() {
    let (directory, store) = fresh();
    drop(store);
    let pepper = directory.path().join("pepper");
    // An interrupted first start leaves no data that needs the pepper.
    std::fs::remove_file(&pepper).unwrap();
    let store = Store::open(directory.path()).unwrap();
    accept(&store, &says("U1", "x", &["1"]), 0).await;
    drop(store);
    let kept = std::fs::read(&pepper).unwrap();
    std::fs::remove_file(&pepper).unwrap();
    let text = refused(directory.path()).to_string();
    assert!(
        text.contains("pepper` is missing, and without it no invite is valid"),
        "{text}"
    );
    assert!(!pepper.exists());
    std::fs::write(&pepper, kept).unwrap();
    assert_eq!(messages(&Store::open(directory.path()).unwrap()).await, 1);
}

/// Returns a larger store, which was closed.
async fn large() -> TempDir {
    let (directory, store) = fresh();
    let insert = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 50000)
        INSERT INTO delivery (name, at) SELECT printf('%08d', n), 0 FROM number";
    store.write(move |tx| Ok(tx.execute(insert, [])?)).await.unwrap();
    directory
}

/// Pages that are not checked at the start are checked in the background. Damage found then breaks the store.
#[tokio::test]
async fn a_large_database_is_checked_in_the_background() {
    let directory = large().await;
    let opened = |directory: &Path| Store::start(open_within(directory, Duration::ZERO).unwrap()).unwrap();
    let store = opened(directory.path());
    assert!(!store.is_checked());
    let never = CancellationToken::new();
    assert_eq!(store.check(&never).await, Ok(()));
    never.cancel();
    assert_eq!(store.check(&never).await, Ok(()));
    assert_eq!(*store.condition().borrow(), Condition::Sound);
    drop(store);
    let file = directory.path().join(DATABASE);
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 2_048;
    bytes[last] ^= 0x40;
    std::fs::write(&file, &bytes).unwrap();
    let store = opened(directory.path());
    let found = store.check(&CancellationToken::new()).await.unwrap_err();
    assert!(matches!(&found, StoreError::Broken(_)), "{found}");
    assert!(matches!(*store.condition().borrow(), Condition::Broken(_)));
    let accepted = store.probe_writes(at(0)).await;
    assert_eq!(accepted, Err(found));
}
