//! The versions of the schema, in order. A released migration never changes.

use refinery::{Migration, Runner};

/// Name and SQL of each version, oldest first.
const MIGRATIONS: &[(&str, &str)] = &[
    (
        "V1__initial",
        include_str!("../../../migrations/sqlite/V1__initial.sql"),
    ),
    (
        "V2__outputs",
        include_str!("../../../migrations/sqlite/V2__outputs.sql"),
    ),
    (
        "V3__budgets",
        include_str!("../../../migrations/sqlite/V3__budgets.sql"),
    ),
    (
        "V4__context",
        include_str!("../../../migrations/sqlite/V4__context.sql"),
    ),
    (
        "V5__budget_rows",
        include_str!("../../../migrations/sqlite/V5__budget_rows.sql"),
    ),
    (
        "V6__summaries",
        include_str!("../../../migrations/sqlite/V6__summaries.sql"),
    ),
    (
        "V7__steering",
        include_str!("../../../migrations/sqlite/V7__steering.sql"),
    ),
    (
        "V8__questions",
        include_str!("../../../migrations/sqlite/V8__questions.sql"),
    ),
    (
        "V9__messages",
        include_str!("../../../migrations/sqlite/V9__messages.sql"),
    ),
    (
        "V10__history_changes",
        include_str!("../../../migrations/sqlite/V10__history_changes.sql"),
    ),
    (
        "V11__budget_notes",
        include_str!("../../../migrations/sqlite/V11__budget_notes.sql"),
    ),
    (
        "V12__change_overview",
        include_str!("../../../migrations/sqlite/V12__change_overview.sql"),
    ),
    (
        "V13__logins",
        include_str!("../../../migrations/sqlite/V13__logins.sql"),
    ),
    (
        "V14__people",
        include_str!("../../../migrations/sqlite/V14__people.sql"),
    ),
    (
        "V15__channel_position",
        include_str!("../../../migrations/sqlite/V15__channel_position.sql"),
    ),
    (
        "V16__schedules",
        include_str!("../../../migrations/sqlite/V16__schedules.sql"),
    ),
    (
        "V17__auditors_and_retired_secrets",
        include_str!("../../../migrations/sqlite/V17__auditors_and_retired_secrets.sql"),
    ),
    (
        "V18__runs",
        include_str!("../../../migrations/sqlite/V18__runs.sql"),
    ),
    (
        "V19__tokens",
        include_str!("../../../migrations/sqlite/V19__tokens.sql"),
    ),
    (
        "V20__run_questions",
        include_str!("../../../migrations/sqlite/V20__run_questions.sql"),
    ),
    (
        "V21__schedule_timed_at",
        include_str!("../../../migrations/sqlite/V21__schedule_timed_at.sql"),
    ),
    (
        "V22__zone_of_person",
        include_str!("../../../migrations/sqlite/V22__zone_of_person.sql"),
    ),
];

/// Returns the newest schema version of this build.
pub(super) fn newest() -> i64 {
    let newest = MIGRATIONS.last().map(|(name, _)| version(name));
    newest.unwrap_or_default()
}

/// Returns the number in the name of a version: 3 of `V3__budgets`.
fn version(name: &str) -> i64 {
    let digits = name.trim_start_matches('V').split('_').next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

/// Migrates the schema to the newest version, with one transaction per version.
pub(super) fn migrate(connection: &mut rusqlite::Connection) -> Result<(), refinery::Error> {
    // The library also compares the SQL of each version, but at every start it first compiles an expression for their names.
    if is_newest(connection) {
        return Ok(());
    }
    let migrations = MIGRATIONS
        .iter()
        .map(|(name, sql)| Migration::unapplied(name, sql))
        .collect::<Result<Vec<_>, _>>()?;
    Runner::new(&migrations).run(connection)?;
    Ok(())
}

/// Returns true if the versions that were applied are those of this build, by their numbers and names.
fn is_newest(connection: &rusqlite::Connection) -> bool {
    let applied = || -> rusqlite::Result<Vec<String>> {
        let sql = "SELECT 'V' || version || '__' || name FROM refinery_schema_history ORDER BY version";
        let mut statement = connection.prepare(sql)?;
        let names = statement.query_map([], |row| row.get(0))?;
        names.collect()
    };
    // Without a history, nothing was applied.
    applied().is_ok_and(|names| names.iter().eq(MIGRATIONS.iter().map(|(name, _)| name)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{MIGRATIONS, migrate, newest, version};
    use refinery::{Migration, Runner};
    use rusqlite::Connection;

    /// A database of any earlier version keeps its rows and gets the schema of a new one.
    #[test]
    fn a_database_of_every_earlier_version_is_migrated_with_its_rows() {
        let schema = |connection: &Connection| -> Vec<String> {
            let sql = "SELECT name || ': ' || (SELECT group_concat(name, ' ') FROM pragma_table_info(t.name))
                       FROM sqlite_schema AS t WHERE type = 'table' ORDER BY name";
            let mut statement = connection.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| row.get(0)).unwrap();
            rows.collect::<Result<_, _>>().unwrap()
        };
        let mut fresh = Connection::open_in_memory().unwrap();
        migrate(&mut fresh).unwrap();
        for (version, _) in MIGRATIONS.iter().enumerate() {
            let mut connection = Connection::open_in_memory().unwrap();
            let earlier = MIGRATIONS.iter().take(version + 1);
            let earlier: Vec<Migration> = earlier
                .map(|(name, sql)| Migration::unapplied(name, sql).unwrap())
                .collect();
            Runner::new(&earlier).run(&mut connection).unwrap();
            let row = "INSERT INTO conversation
                (key, sender, channel, session, edits, cleared_turn, fence, pending, due, created_at)
                VALUES ('k', 's', 'c', 'x', '{}', 0, 0, 0, 0, 0)";
            connection.execute(row, []).unwrap();
            migrate(&mut connection).unwrap();
            assert_eq!(
                schema(&connection),
                schema(&fresh),
                "from version {}",
                version + 1
            );
            let kept = "SELECT COUNT(*) FROM conversation WHERE key = 'k' AND last_output = 0";
            let kept: i64 = connection.query_row(kept, [], |row| row.get(0)).unwrap();
            assert_eq!(kept, 1);
        }
        let versions: Vec<i64> = MIGRATIONS.iter().map(|(name, _)| version(name)).collect();
        assert!(versions.is_sorted_by(|one, next| one < next), "{versions:?}");
        assert_eq!(versions.last(), Some(&newest()));
    }
}
