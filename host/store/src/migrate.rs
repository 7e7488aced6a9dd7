//! Schema versions: one list for each database, the same numbers, embedded in the binary.

use std::{borrow::Cow, sync::Arc};

use sqlx::{
    AnyConnection, SqlSafeStr,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
};

use crate::{dialect::Dialect, error::StoreError};

/// Number, description, SQLite text, PostgreSQL text.
const MIGRATIONS: &[(i64, &str, &str, &str)] = &[
    (
        1,
        "foundation",
        include_str!("../../../migrations/sqlite/0001_foundation.sql"),
        include_str!("../../../migrations/postgres/0001_foundation.sql"),
    ),
    (
        2,
        "sessions",
        include_str!("../../../migrations/sqlite/0002_sessions.sql"),
        include_str!("../../../migrations/postgres/0002_sessions.sql"),
    ),
    (
        3,
        "trimming",
        include_str!("../../../migrations/sqlite/0003_trimming.sql"),
        include_str!("../../../migrations/postgres/0003_trimming.sql"),
    ),
    (
        4,
        "delta bytes",
        include_str!("../../../migrations/sqlite/0004_delta_bytes.sql"),
        include_str!("../../../migrations/postgres/0004_delta_bytes.sql"),
    ),
    (
        5,
        "library",
        include_str!("../../../migrations/sqlite/0005_library.sql"),
        include_str!("../../../migrations/postgres/0005_library.sql"),
    ),
    (
        6,
        "vaults",
        include_str!("../../../migrations/sqlite/0006_vaults.sql"),
        include_str!("../../../migrations/postgres/0006_vaults.sql"),
    ),
    (
        7,
        "templates",
        include_str!("../../../migrations/sqlite/0007_templates.sql"),
        include_str!("../../../migrations/postgres/0007_templates.sql"),
    ),
    (
        8,
        "retries",
        include_str!("../../../migrations/sqlite/0008_retries.sql"),
        include_str!("../../../migrations/postgres/0008_retries.sql"),
    ),
    (
        9,
        "provider",
        include_str!("../../../migrations/sqlite/0009_provider.sql"),
        include_str!("../../../migrations/postgres/0009_provider.sql"),
    ),
    (
        10,
        "renewals",
        include_str!("../../../migrations/sqlite/0010_renewals.sql"),
        include_str!("../../../migrations/postgres/0010_renewals.sql"),
    ),
    (
        11,
        "indexes",
        include_str!("../../../migrations/sqlite/0011_indexes.sql"),
        include_str!("../../../migrations/postgres/0011_indexes.sql"),
    ),
    (
        12,
        "writes_of_a_resource",
        include_str!("../../../migrations/sqlite/0012_writes_of_a_resource.sql"),
        include_str!("../../../migrations/postgres/0012_writes_of_a_resource.sql"),
    ),
];

/// The newest schema version that this program knows.
pub(crate) fn newest() -> i64 {
    MIGRATIONS
        .iter()
        .map(|(version, ..)| *version)
        .max()
        .unwrap_or(0)
}

/// Brings the schema up to date.
///
/// # Errors
/// [`StoreError::NewerSchema`] if a newer program wrote the database; then nothing is touched.
pub(crate) async fn run(conn: &mut AnyConnection, dialect: Dialect) -> Result<(), StoreError> {
    let list = MIGRATIONS
        .iter()
        .map(|(version, description, sqlite, postgres)| {
            let text: &'static str = match dialect {
                Dialect::Sqlite => sqlite,
                Dialect::Postgres => postgres,
            };
            Migration::new(
                *version,
                Cow::Borrowed(*description),
                MigrationType::Simple,
                text.into_sql_str(),
                false,
            )
        })
        .collect();
    // `run` takes any `Acquire`, which makes the future of every caller not `Send`.
    match Migrator::with_migrations(list)
        .run_direct(None, conn, false)
        .await
    {
        Ok(()) => Ok(()),
        Err(MigrateError::VersionMissing(found)) => Err(StoreError::NewerSchema {
            found,
            known: newest(),
        }),
        Err(MigrateError::ExecuteMigration(source, version)) => Err(StoreError::Migration {
            version,
            source: Arc::new(source),
        }),
        Err(other) => Err(StoreError::Migration {
            version: newest(),
            source: Arc::new(sqlx::Error::Migrate(Box::new(other))),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The two texts say the same, apart from the name of the byte type and the byte order of text.
    #[test]
    fn both_databases_have_one_schema() {
        for (version, _, sqlite, postgres) in MIGRATIONS {
            // SQLite cannot change the order of a column's text, and needs not: it has only this one.
            let orders = |line: &&str| line.ends_with("TYPE TEXT COLLATE \"C\";\n");
            let plain: String = postgres
                .split_inclusive('\n')
                .filter(|line| !orders(line))
                .collect();
            let plain = plain.replace(" COLLATE \"C\"", "").replace("BYTEA", "BLOB");
            assert_eq!(*sqlite, plain, "migration {version}");
        }
    }

    #[test]
    fn columns_are_of_the_three_types_that_both_databases_and_the_driver_know() {
        for (version, _, sqlite, _) in MIGRATIONS {
            for line in sqlite
                .lines()
                .filter(|line| line.starts_with("    ") && !line.trim_start().starts_with("--"))
            {
                let mut words = line.split_whitespace();
                let first = words.next().unwrap_or_default();
                if first == "PRIMARY" {
                    continue;
                }
                let kind = words.next().unwrap_or_default().trim_end_matches(',');
                assert!(
                    matches!(kind, "BIGINT" | "TEXT" | "BLOB"),
                    "migration {version}: {line}"
                );
            }
        }
    }
}
