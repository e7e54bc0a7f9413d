//! Recent activity of the ingress, for `drydock check`, which may run beside a server. It takes only a reader lock, for
//! which no writer waits. It writes neither to the database, nor to its log, nor to the index of the log.

use super::OpenError;
use super::column::{parse, time};
use super::open::{connect_without_trace, database_error};
use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum number of audit lines to read, newest first.
const LINES_MAX: u32 = 50_000;

/// Messages that a gateway accepted and requests that it rejected, as far as its store holds them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IngressActivity {
    /// The time of the newest accepted message, by channel or hook name.
    pub accepted: BTreeMap<String, Timestamp>,
    /// Rejected requests, newest first.
    pub rejected: Vec<RejectedRequest>,
}

/// A request that was rejected or was irrelevant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRequest {
    /// The name of the channel or hook.
    pub name: String,
    /// The reason, in the words of the audit log.
    pub reason: String,
    /// The time of the request.
    pub at: Timestamp,
}

/// Reads the activity of the gateway with this data directory. Returns an empty result if there is no database yet.
pub fn read_ingress_activity(directory: &Path) -> Result<IngressActivity, OpenError> {
    let Some(connection) = connect_without_trace(directory)? else {
        return Ok(IngressActivity::default());
    };
    read(&connection).map_err(|err| database_error(&super::open::database(directory), err))
}

fn read(connection: &Connection) -> rusqlite::Result<IngressActivity> {
    let mut doors = IngressActivity::default();
    let mut statement = connection.prepare(
        "SELECT channel, MAX(accepted_at) FROM inbox JOIN conversation ON conversation.id = inbox.conversation
         GROUP BY channel",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
    for row in rows {
        let (name, at) = row?;
        doors.accepted.extend(time(at).ok().map(|at| (name, at)));
    }
    let mut statement = connection.prepare("SELECT line FROM audit ORDER BY id DESC LIMIT ?1")?;
    let lines = statement.query_map([LINES_MAX], |row| row.get::<_, String>(0))?;
    for line in lines {
        doors.rejected.extend(rejected_request(&line?));
    }
    Ok(doors)
}

fn rejected_request(line: &str) -> Option<RejectedRequest> {
    if !line.contains("\"ingress.") {
        return None;
    }
    let line: Value = parse("audit line", line).ok()?;
    let kind = line["event"].as_str()?;
    ["ingress.rejected", "ingress.ignored"]
        .contains(&kind)
        .then_some(())?;
    Some(RejectedRequest {
        name: line["data"]["name"].as_str()?.to_owned(),
        reason: line["data"]["reason"].as_str()?.to_owned(),
        at: time(line["at"].as_i64()?).ok()?,
    })
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads the files of a store"
)]
mod tests {
    use super::{IngressActivity, RejectedRequest, read_ingress_activity};
    use crate::state::store::Store;
    use crate::state::store::fixture::at;
    use serde_json::json;
    use std::collections::BTreeMap;
    use std::path::Path;

    fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
        let entries = entries.filter(|entry| entry.file_type().unwrap().is_file());
        entries
            .map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                (name, std::fs::read(entry.path()).unwrap())
            })
            .collect()
    }

    /// Beside a running server, after a killed one and after a stopped one, the result is the same and nothing is
    /// written.
    #[tokio::test]
    async fn reading_the_recorded_refusals_writes_nothing() {
        let room = tempfile::tempdir().unwrap();
        let directory = room.path().join("a directory?#%");
        assert_eq!(
            read_ingress_activity(&directory).unwrap(),
            IngressActivity::default()
        );
        let store = Store::open(&directory).unwrap();
        for (second, kind, reason) in [
            (1, "ingress.rejected", "hook.forged"),
            (2, "ingress.ignored", "hook.ping"),
            (3, "ingress.full", "no room"),
        ] {
            let data = json!({ "name": "release", "reason": reason, "count": 1 });
            store.audit(kind, data, at(second)).await.unwrap();
        }
        let seen = |second, reason: &str| RejectedRequest {
            name: "release".to_owned(),
            reason: reason.to_owned(),
            at: at(second),
        };
        let expected = [seen(2, "hook.ping"), seen(1, "hook.forged")];
        let unchanged = |directory: &Path, beside: &str| {
            let but = |mut files: BTreeMap<String, Vec<u8>>| {
                files.remove(beside);
                files
            };
            let before = but(files(directory));
            assert_eq!(read_ingress_activity(directory).unwrap().rejected, expected);
            let after = but(files(directory));
            assert_eq!(
                after.keys().collect::<Vec<_>>(),
                before.keys().collect::<Vec<_>>()
            );
            assert!(after == before, "{}", directory.display());
        };
        // Connections of one process share the index of the log, and the server's connection may write to it.
        unchanged(&directory, "drydock.db-shm");
        let killed = room.path().join("killed");
        std::fs::create_dir(&killed).unwrap();
        for (name, content) in files(&directory) {
            std::fs::write(killed.join(name), content).unwrap();
        }
        unchanged(&killed, "");
        std::fs::remove_file(killed.join("drydock.db-shm")).unwrap();
        let before = files(&killed);
        assert_eq!(
            read_ingress_activity(&killed).unwrap(),
            IngressActivity::default()
        );
        assert!(files(&killed) == before);
        drop(store);
        unchanged(&directory, "");
    }
}
