//! The versions of the schema, in order. A released migration never changes.

use refinery::{Migration, Runner};

/// Name, checksum and SQL of each version, oldest first. The library computes the checksum, and a test compares it.
const MIGRATIONS: &[(&str, u64, &str)] = &[
    (
        "V1__initial",
        13_760_408_709_259_703_339,
        include_str!("../../../migrations/sqlite/V1__initial.sql"),
    ),
    (
        "V2__outputs",
        2_494_029_118_784_274_057,
        include_str!("../../../migrations/sqlite/V2__outputs.sql"),
    ),
    (
        "V3__budgets",
        5_550_273_877_240_027_830,
        include_str!("../../../migrations/sqlite/V3__budgets.sql"),
    ),
    (
        "V4__context",
        4_393_584_203_590_902_424,
        include_str!("../../../migrations/sqlite/V4__context.sql"),
    ),
    (
        "V5__budget_rows",
        15_553_032_496_036_017_424,
        include_str!("../../../migrations/sqlite/V5__budget_rows.sql"),
    ),
    (
        "V6__summaries",
        2_896_837_560_736_709_612,
        include_str!("../../../migrations/sqlite/V6__summaries.sql"),
    ),
    (
        "V7__steering",
        7_677_800_180_461_112_632,
        include_str!("../../../migrations/sqlite/V7__steering.sql"),
    ),
    (
        "V8__questions",
        7_287_762_311_589_936_173,
        include_str!("../../../migrations/sqlite/V8__questions.sql"),
    ),
    (
        "V9__messages",
        11_041_168_095_751_094_828,
        include_str!("../../../migrations/sqlite/V9__messages.sql"),
    ),
    (
        "V10__history_changes",
        15_534_514_311_216_949_304,
        include_str!("../../../migrations/sqlite/V10__history_changes.sql"),
    ),
    (
        "V11__budget_notes",
        6_033_876_569_707_629_520,
        include_str!("../../../migrations/sqlite/V11__budget_notes.sql"),
    ),
    (
        "V12__change_overview",
        10_360_769_645_015_929_344,
        include_str!("../../../migrations/sqlite/V12__change_overview.sql"),
    ),
    (
        "V13__logins",
        13_645_594_588_472_489_689,
        include_str!("../../../migrations/sqlite/V13__logins.sql"),
    ),
    (
        "V14__people",
        7_584_751_809_063_984_957,
        include_str!("../../../migrations/sqlite/V14__people.sql"),
    ),
    (
        "V15__channel_position",
        8_549_100_349_886_409_332,
        include_str!("../../../migrations/sqlite/V15__channel_position.sql"),
    ),
    (
        "V16__schedules",
        16_230_990_308_827_785_170,
        include_str!("../../../migrations/sqlite/V16__schedules.sql"),
    ),
    (
        "V17__auditors_and_retired_secrets",
        2_813_833_573_098_273_750,
        include_str!("../../../migrations/sqlite/V17__auditors_and_retired_secrets.sql"),
    ),
    (
        "V18__runs",
        11_177_992_919_246_164_294,
        include_str!("../../../migrations/sqlite/V18__runs.sql"),
    ),
    (
        "V19__tokens",
        9_999_249_238_507_116_059,
        include_str!("../../../migrations/sqlite/V19__tokens.sql"),
    ),
    (
        "V20__run_questions",
        11_835_275_151_172_559_725,
        include_str!("../../../migrations/sqlite/V20__run_questions.sql"),
    ),
    (
        "V21__schedule_timed_at",
        6_172_857_889_727_825_493,
        include_str!("../../../migrations/sqlite/V21__schedule_timed_at.sql"),
    ),
    (
        "V22__zone_of_person",
        18_145_616_832_891_549_446,
        include_str!("../../../migrations/sqlite/V22__zone_of_person.sql"),
    ),
];

/// Returns the newest schema version of this build.
pub(super) fn newest() -> i64 {
    let newest = MIGRATIONS.last().map(|(name, ..)| version(name));
    newest.unwrap_or_default()
}

/// Returns the number in the name of a version: 3 of `V3__budgets`.
fn version(name: &str) -> i64 {
    let digits = name.trim_start_matches('V').split('_').next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

/// Migrates the schema to the newest version, with one transaction per version.
pub(super) fn migrate(connection: &mut rusqlite::Connection) -> Result<(), refinery::Error> {
    // The library compares the same, but at every start it first compiles an expression for the names.
    if is_newest(connection) {
        return Ok(());
    }
    let migrations = MIGRATIONS
        .iter()
        .map(|(name, _, sql)| Migration::unapplied(name, sql))
        .collect::<Result<Vec<_>, _>>()?;
    Runner::new(&migrations).run(connection)?;
    Ok(())
}

/// Returns true if the versions that were applied are those of this build, by their numbers, names and checksums.
fn is_newest(connection: &rusqlite::Connection) -> bool {
    let applied = || -> rusqlite::Result<Vec<String>> {
        let sql = "SELECT 'V' || version || '__' || name || ' ' || checksum FROM refinery_schema_history
            ORDER BY version";
        let mut statement = connection.prepare(sql)?;
        let versions = statement.query_map([], |row| row.get(0))?;
        versions.collect()
    };
    let known = MIGRATIONS
        .iter()
        .map(|(name, checksum, _)| format!("{name} {checksum}"));
    // Without a history, nothing was applied.
    applied().is_ok_and(|applied| applied.into_iter().eq(known))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{MIGRATIONS, is_newest, migrate, newest, version};
    use refinery::{Migration, Runner};
    use rusqlite::Connection;

    /// Returns a database with the first versions.
    fn migrated_to(count: usize) -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        let versions: Vec<Migration> = MIGRATIONS
            .iter()
            .take(count)
            .map(|(name, _, sql)| Migration::unapplied(name, sql).unwrap())
            .collect();
        Runner::new(&versions).run(&mut connection).unwrap();
        connection
    }

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
        for version in 0..MIGRATIONS.len() {
            let mut connection = migrated_to(version + 1);
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
        let versions: Vec<i64> = MIGRATIONS.iter().map(|(name, ..)| version(name)).collect();
        assert!(versions.is_sorted_by(|one, next| one < next), "{versions:?}");
        assert_eq!(versions.last(), Some(&newest()));
    }

    #[test]
    fn a_released_migration_has_its_checksum() {
        for (name, checksum, sql) in MIGRATIONS {
            let migration = Migration::unapplied(name, sql).unwrap();
            assert_eq!(migration.checksum(), *checksum, "{name}");
        }
    }

    #[test]
    fn a_history_that_ends_early_is_completed_and_one_of_other_versions_is_refused() {
        let mut empty = Connection::open_in_memory().unwrap();
        assert!(!is_newest(&empty));
        migrate(&mut empty).unwrap();
        assert!(is_newest(&empty));
        let mut early = migrated_to(MIGRATIONS.len() - 1);
        assert!(!is_newest(&early));
        migrate(&mut early).unwrap();
        assert!(is_newest(&early));
        for change in [
            "UPDATE refinery_schema_history SET name = 'other' WHERE version = 2",
            "UPDATE refinery_schema_history SET checksum = '7' WHERE version = 2",
            "UPDATE refinery_schema_history SET name = 'other' WHERE version =
               (SELECT MAX(version) FROM refinery_schema_history)",
            "DELETE FROM refinery_schema_history WHERE version = 2",
            "INSERT INTO refinery_schema_history SELECT version + 1, name, applied_on, checksum
               FROM refinery_schema_history ORDER BY version DESC LIMIT 1",
        ] {
            let mut other = migrated_to(MIGRATIONS.len());
            assert_eq!(other.execute(change, []), Ok(1), "{change}");
            assert!(!is_newest(&other), "{change}");
            assert!(migrate(&mut other).is_err(), "{change}");
        }
    }
}
