//! Tests of opening and migrating the log.

use super::{OpenError, READERS, directory_error, migration};
use crate::state::store::Store;
use crate::state::store::fixture::{accept, fresh, says};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Barrier};

/// Every reader has opened its files at the start: what later happens to their names does not make a read fail.
#[tokio::test]
async fn the_readers_are_open_before_their_first_read() {
    let (directory, store) = fresh();
    let all = Arc::new(Barrier::new(READERS));
    drop(directory);
    let reads = (0..READERS).map(|_| {
        let all = Arc::clone(&all);
        store.read(move |tx| {
            // Each read has a thread of its own.
            all.wait();
            Ok(tx.query_row("SELECT COUNT(*) FROM process", [], |row| row.get::<_, i64>(0))?)
        })
    });
    assert_eq!(futures_util::future::join_all(reads).await, vec![Ok(1); READERS]);
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_data_directory_and_its_files_are_private() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("a/data");
    let _store = Store::open(&directory).unwrap();
    assert_eq!(mode(&directory), 0o700);
    for entry in std::fs::read_dir(&directory).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(mode(&entry.path()), 0o600, "{entry:?}");
    }
}

#[test]
fn a_new_database_has_pages_of_two_kibibytes_and_is_synced_with_each_commit() {
    let directory = tempfile::tempdir().unwrap();
    let opened = super::open(directory.path()).unwrap();
    let pragma_value = |pragma: &str| {
        let value = opened
            .writer
            .pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        value.unwrap()
    };
    assert_eq!(
        (pragma_value("page_size"), pragma_value("synchronous")),
        (2_048, 2)
    );
}

/// R25
#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let (directory, store) = fresh();
    drop(store);
    let file = directory.path().join("drydock.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection
        .execute(
            "UPDATE refinery_schema_history SET version = 999
             WHERE version = (SELECT MAX(version) FROM refinery_schema_history)",
            [],
        )
        .unwrap();
    drop(connection);
    let before = std::fs::read(&file).unwrap();
    let text = Store::open(directory.path()).unwrap_err().to_string();
    let known = migration::newest();
    assert!(
        text.starts_with(&format!(
            "database is schema 999, this build supports up to {known};"
        )),
        "{text}"
    );
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[tokio::test]
async fn a_damaged_or_missing_database_is_never_replaced() {
    let damages: [fn(&Path); 6] = [
        |file| std::fs::write(file, vec![b'x'; 8_192]).unwrap(),
        |file| std::fs::write(file, "").unwrap(),
        |file| std::fs::remove_file(file).unwrap(),
        |file| {
            let bytes = std::fs::read(file).unwrap();
            std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
        },
        |file| {
            std::fs::remove_file(file).unwrap();
            std::fs::create_dir(file).unwrap();
        },
        |file| {
            std::fs::remove_file(file).unwrap();
            let other = rusqlite::Connection::open(file).unwrap();
            other.execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
        },
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let (directory, store) = fresh();
        accept(&store, &says("U1", "x", &["1"]), 0).await;
        drop(store);
        let file = directory.path().join("drydock.db");
        damage(&file);
        let before = std::fs::read(&file).ok();
        let refused = Store::open(directory.path()).unwrap_err();
        assert!(
            matches!(refused, OpenError::Damaged { .. } | OpenError::Missing(_)),
            "{number}: {refused}"
        );
        assert!(
            refused.to_string().contains("restore it from a backup"),
            "{number}: {refused}"
        );
        assert_eq!(std::fs::read(&file).ok(), before, "{number}");
    }
}

#[test]
fn a_directory_we_cannot_use_is_named_with_what_to_do() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let text = Store::open(&file.join("data")).unwrap_err().to_string();
    assert!(text.contains("set `data.directory` to another path"), "{text}");
    for kind in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem] {
        let text = directory_error(&file, &kind.into()).to_string();
        assert!(
            text.contains("is read-only for this user; make it writable"),
            "{text}"
        );
    }
}
