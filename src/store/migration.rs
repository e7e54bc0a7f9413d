//! The schema's versions, in order. A migration that was released never changes.

use refinery::{Migration, Runner};

/// Name and SQL of each version, oldest first.
const MIGRATIONS: &[(&str, &str)] = &[(
    "V1__initial",
    include_str!("../../migrations/sqlite/V1__initial.sql"),
)];

/// The newest schema this build knows.
pub(super) fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Brings the schema up to date; each version in a transaction of its own.
pub(super) fn migrate(connection: &mut rusqlite::Connection) -> Result<(), refinery::Error> {
    let migrations = MIGRATIONS
        .iter()
        .map(|(name, sql)| Migration::unapplied(name, sql))
        .collect::<Result<Vec<_>, _>>()?;
    Runner::new(&migrations).run(connection)?;
    Ok(())
}
