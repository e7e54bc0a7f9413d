//! A look from outside at what came to the doors: for `drydock check`, which may stand beside a server. It takes no
//! lock but that of a reader, for which no writer waits, and writes neither to the database nor to its log or the index of that.

use super::OpenError;
use super::column::{parse, time};
use super::open::{connect_without_trace, database_error};
use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Lines of the audit log that are looked at, the newest.
const LINES_MAX: u32 = 50_000;

/// The messages a gateway let in and the requests it turned away, as far as its store has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IngressActivity {
    /// The time of the newest message that was let in, by the name of the channel or hook.
    pub accepted: BTreeMap<String, Timestamp>,
    /// Requests that were not, the newest first.
    pub rejected: Vec<RejectedRequest>,
}

/// A request that was refused, or was for somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRequest {
    /// The name of the channel or hook.
    pub name: String,
    /// The reason, in the words of the audit log.
    pub reason: String,
    /// The time of the request.
    pub at: Timestamp,
}

/// Reads the messages and requests of the gateway whose data directory this is; none where there is no database yet.
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
    reason = "a test looks at the files of a store"
)]
mod tests {
    use super::{IngressActivity, RejectedRequest, read_ingress_activity};
    use crate::store::Store;
    use crate::store::fixture::at;
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

    /// Beside a server, after one that was killed, and after one that stopped: the same is seen, and nothing is written.
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
        // Connections of one process share its index, and the server's may write to it.
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
