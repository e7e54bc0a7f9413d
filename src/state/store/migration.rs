//! The versions of the schema, in order. A released migration never changes.

use refinery::{Migration, Runner};

/// Name and SQL of each version, oldest first.
const MIGRATIONS: &[(&str, &str)] = &[(
    "V1__initial",
    include_str!("../../../migrations/sqlite/V1__initial.sql"),
)];

/// Returns the newest schema version of this build.
pub(super) fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Migrates the schema to the newest version, with one transaction per version.
pub(super) fn migrate(connection: &mut rusqlite::Connection) -> Result<(), refinery::Error> {
    let migrations = MIGRATIONS
        .iter()
        .map(|(name, sql)| Migration::unapplied(name, sql))
        .collect::<Result<Vec<_>, _>>()?;
    Runner::new(&migrations).run(connection)?;
    Ok(())
}
