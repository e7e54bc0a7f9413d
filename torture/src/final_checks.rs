//! Checks after all people have their answers and the program was asked to stop: no work remains, no temporary files
//! remain, and everything that was written is intact.

use crate::conversation::UserConversation;
use crate::testbed::Testbed;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The counts that must be zero in the database of a program without remaining work.
const REMAINING_COUNTS: [(&str, &str); 4] = [
    (
        "messages without an end",
        "SELECT COUNT(*) FROM inbox WHERE done_at IS NULL",
    ),
    (
        "operations that are not delivered",
        "SELECT COUNT(*) FROM outbox WHERE done_at IS NULL",
    ),
    (
        "operations that were given up",
        "SELECT COUNT(*) FROM outbox WHERE state IN ('failed', 'ambiguous')",
    ),
    (
        "claimed conversations",
        "SELECT COUNT(*) FROM conversation WHERE owner IS NOT NULL",
    ),
];

/// Stops the program and checks everything.
pub(crate) async fn check(world: &Testbed, talks: &[UserConversation]) {
    until_delivered(world).await;
    world.terminate().await;
    if let Err(error) = check_database(world) {
        world.report_violation(format!("the database: {error:#}"));
    }
    audit(world);
    leftovers(world);
    for problem in world.slack.problems() {
        world.report_violation(format!("Slack would have refused it: {problem}"));
    }
    for problem in world.model.problems() {
        world.report_violation(format!("the model would have refused it: {problem}"));
    }
    let burnt = world.slack.with_state(|state| {
        let ephemeral = state.ephemerals.iter().map(crate::slack_thread::shown);
        let burnt = |text: &String| text.contains("used already") || text.contains("too old");
        ephemeral.filter(burnt).count()
    });
    if burnt > 0 {
        world.report_violation(format!("{burnt} buttons that were pressed once did not work"));
    }
    for talk in talks {
        talk.check();
    }
}

/// Waits until the delivery queue is empty, as an operator would see it. A card whose edit failed is edited again a
/// moment later.
async fn until_delivered(world: &Testbed) {
    let deadline = Instant::now() + world.patience;
    while waiting(world) > 0 && Instant::now() < deadline {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns the number of operations that wait for delivery, or zero if the number cannot be read.
fn waiting(world: &Testbed) -> u64 {
    let listed = world.launch().run_command(&["--json", "outbox", "list"]);
    let listed = listed
        .ok()
        .and_then(|output| serde_json::from_slice(&output.stdout).ok());
    let listed: serde_json::Value = listed.unwrap_or_default();
    let channels = listed["channels"].as_array().into_iter().flatten();
    channels.filter_map(|channel| channel["waiting"].as_u64()).sum()
}

fn check_database(world: &Testbed) -> anyhow::Result<()> {
    let file = world.launch().data.join("drydock.db");
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let integrity: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if integrity != "ok" {
        world.report_violation(format!("the database is damaged: {integrity}"));
    }
    for (what, query) in REMAINING_COUNTS {
        let count: i64 = database.query_row(query, [], |row| row.get(0))?;
        if count > 0 {
            world.report_violation(format!("{count} {what} are left when everything is answered"));
        }
    }
    Ok(())
}

fn audit(world: &Testbed) {
    match world.launch().run_command(&["audit", "verify"]) {
        Ok(output) if output.status.success() => {}
        Ok(output) => world.report_violation(format!(
            "`drydock audit verify` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(error) => world.report_violation(format!("`drydock audit verify`: {error:#}")),
    }
}

/// Checks for temporary files that no process uses any more.
fn leftovers(world: &Testbed) {
    let data = world.launch().data;
    let mut folders = vec![data.clone()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let in_scratch = path.parent() == Some(&data.join("scratch"));
            if in_scratch || name.contains(".tmp") || is_lock(&path) {
                world.report_violation(format!(
                    "{} is left",
                    path.strip_prefix(&data).unwrap_or(&path).display()
                ));
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
}

/// Returns true for a lock file of git, which git creates while it updates a mirror.
fn is_lock(path: &Path) -> bool {
    let in_mirror = path.components().any(|part| part.as_os_str() == "mirrors");
    in_mirror && path.extension().is_some_and(|extension| extension == "lock")
}
