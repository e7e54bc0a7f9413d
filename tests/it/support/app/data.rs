//! The data directory of the gateway: its database, audit log and recordings.

use super::{BOUND, TestApp};
use rusqlite::{Connection, OpenFlags};
use sha2::{Digest, Sha256};
use std::time::Duration;

impl TestApp {
    /// Returns the first column of the first row of a query, as a number.
    pub(crate) fn count(&self, query: &str) -> i64 {
        self.database().query_row(query, [], |row| row.get(0)).unwrap()
    }

    /// Returns the first column of every row of a query, as text.
    pub(crate) fn column(&self, query: &str) -> Vec<String> {
        let database = self.database();
        let mut statement = database.prepare(query).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// Changes the database without the gateway.
    pub(crate) fn alter_database(&self, statement: &str) {
        let database = Connection::open(self.database_file()).unwrap();
        database.busy_timeout(BOUND).unwrap();
        database.execute_batch(statement).unwrap();
    }

    /// Returns the lines of the audit log that contain a text.
    pub(crate) fn audit_lines_with(&self, text: &str) -> Vec<String> {
        let mut lines = self.column("SELECT line FROM audit ORDER BY id");
        lines.retain(|line| line.contains(text));
        lines
    }

    /// Waits until the audit log has a line with this text. It may be written after the answer.
    pub(crate) async fn wait_for_audit_line(&self, text: &str) {
        let started = std::time::Instant::now();
        while self.audit_lines_with(text).is_empty() {
            assert!(started.elapsed() < BOUND, "nothing audited says `{text}`");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns the recordings: file names and contents.
    pub(crate) fn recordings(&self) -> Vec<(String, String)> {
        let Ok(entries) = std::fs::read_dir(self.demo.data().join("sessions")) else {
            return Vec::new();
        };
        let files = entries.map(|entry| {
            let entry = entry.unwrap();
            let text = String::from_utf8(std::fs::read(entry.path()).unwrap()).unwrap();
            (entry.file_name().into_string().unwrap(), text)
        });
        files.collect()
    }

    /// Searches all files below the data directory for bytes that must not be there.
    pub(crate) fn data_files_with(&self, needle: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut directories = vec![self.demo.data()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    directories.push(entry.path());
                } else if kind.is_file()
                    && memchr::memmem::find(&std::fs::read(entry.path()).unwrap(), needle.as_bytes())
                        .is_some()
                {
                    found.push(entry.file_name().to_string_lossy().into_owned());
                }
            }
        }
        found
    }

    fn database_file(&self) -> std::path::PathBuf {
        self.demo.data().join("drydock.db")
    }

    fn database(&self) -> Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(self.database_file(), flags).unwrap();
        database.busy_timeout(BOUND).unwrap();
        database
    }

    /// Returns the faults of the database. The hash chain is computed here from its definition.
    pub(super) fn damage(&self) -> Option<String> {
        let database = self.database();
        let integrity: String = database
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        if integrity != "ok" {
            return Some(integrity);
        }
        let mut statement = database
            .prepare("SELECT line, hash FROM audit ORDER BY id")
            .unwrap();
        let rows = statement.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?))
        });
        let mut previous = vec![0_u8; 32];
        for row in rows.unwrap() {
            let (line, hash) = row.unwrap();
            let mut digest = Sha256::new();
            digest.update(&previous);
            digest.update(line.as_bytes());
            previous = digest.finalize().to_vec();
            if previous != hash {
                return Some(format!("the audit chain is broken at {line}"));
            }
        }
        None
    }
}
