//! Checks once all people have their answers and the program was told to stop: nothing is left to do, nothing lies around, and all that was
//! written is whole.

use crate::talk::Talk;
use crate::world::World;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Counts that must be zero in the database of a program that has nothing left to do.
const LEFT: [(&str, &str); 4] = [
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
        "conversations that somebody works on",
        "SELECT COUNT(*) FROM conversation WHERE owner IS NOT NULL",
    ),
];

/// Stops the program and looks at everything.
pub(crate) async fn check(world: &World, talks: &[Talk]) {
    until_delivered(world).await;
    world.terminate().await;
    if let Err(error) = stored(world) {
        world.violated(format!("the database: {error:#}"));
    }
    audit(world);
    leftovers(world);
    for problem in world.slack.problems() {
        world.violated(format!("Slack would not have taken it: {problem}"));
    }
    for problem in world.model.problems() {
        world.violated(format!("the model would not have taken it: {problem}"));
    }
    let burnt = world.slack.look(|state| {
        let whispers = state.ephemerals.iter().map(crate::reading::shown);
        let burnt = |text: &String| text.contains("used already") || text.contains("too old");
        whispers.filter(burnt).count()
    });
    if burnt > 0 {
        world.violated(format!("{burnt} buttons that were pressed once did not work"));
    }
    for talk in talks {
        talk.check();
    }
}

/// Waits until nothing is to be sent any more, as an operator would see it: a card whose edit failed is edited again
/// a moment later.
async fn until_delivered(world: &World) {
    let deadline = Instant::now() + world.patience;
    while waiting(world) > 0 && Instant::now() < deadline {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Operations that wait to be sent; none where nobody can say.
fn waiting(world: &World) -> u64 {
    let listed = world.launch().ask(&["--json", "outbox", "list"]);
    let listed = listed
        .ok()
        .and_then(|output| serde_json::from_slice(&output.stdout).ok());
    let listed: serde_json::Value = listed.unwrap_or_default();
    let channels = listed["channels"].as_array().into_iter().flatten();
    channels.filter_map(|channel| channel["waiting"].as_u64()).sum()
}

fn stored(world: &World) -> anyhow::Result<()> {
    let file = world.launch().data.join("drydock.db");
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let integrity: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if integrity != "ok" {
        world.violated(format!("the database is damaged: {integrity}"));
    }
    for (what, query) in LEFT {
        let count: i64 = database.query_row(query, [], |row| row.get(0))?;
        if count > 0 {
            world.violated(format!("{count} {what} are left when everything is answered"));
        }
    }
    Ok(())
}

fn audit(world: &World) {
    match world.launch().ask(&["audit", "verify"]) {
        Ok(output) if output.status.success() => {}
        Ok(output) => world.violated(format!(
            "`drydock audit verify` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(error) => world.violated(format!("`drydock audit verify`: {error:#}")),
    }
}

/// Temporary files that nobody will ever look at again.
fn leftovers(world: &World) {
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
                world.violated(format!(
                    "{} is left",
                    path.strip_prefix(&data).unwrap_or(&path).display()
                ));
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
}

/// A lock that git takes for an update of a mirror.
fn is_lock(path: &Path) -> bool {
    let in_mirror = path.components().any(|part| part.as_os_str() == "mirrors");
    in_mirror && path.extension().is_some_and(|extension| extension == "lock")
}
