//! What can go wrong between a unit and its database.

use std::sync::Arc;

/// A failure of the database or of the store around it. Never carries a value of a row.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The database refused or failed; the transaction was rolled back.
    #[error("the database failed ({})", said(.0))]
    Database(Arc<sqlx::Error>),
    /// The disk of the database is full; the transaction was rolled back.
    #[error("the disk of the database is full")]
    Full,
    /// The connection was lost inside `COMMIT`: the unit may or may not have happened. Re-read, never repeat.
    #[error("the outcome of a commit is unknown ({})", said(.0))]
    CommitUnknown(Arc<sqlx::Error>),
    /// A row lock was not free in time; nothing was written.
    #[error("a row stayed locked for too long")]
    Busy,
    /// A leased unit was not run, or was rolled back, because this process does not hold the execution lease (SC-2.5).
    #[error("this process does not hold the execution lease")]
    LeaseLost,
    /// A leased unit waited longer than its budget (SC-2.4); nothing was written.
    #[error("the unit waited longer than its time budget")]
    Timeout,
    /// The store was closed, or its writer stopped after a failed commit.
    #[error("the store is closed")]
    Closed,
    /// A stored value cannot be read: written by another version, or altered.
    #[error("column {column} of table {table} holds an unreadable value")]
    Corrupt {
        /// Table of the value.
        table: &'static str,
        /// Column of the value.
        column: &'static str,
    },
    /// A row that must exist does not: a bug, or an altered database.
    #[error("a row of table {table} is missing")]
    Missing {
        /// Table of the row.
        table: &'static str,
    },
    /// A sealed column cannot be opened.
    #[error("a sealed value cannot be opened")]
    Seal(#[from] seal::SealError),
    /// The database belongs to another installation.
    #[error("the database belongs to installation {found}, not to this one")]
    OtherInstallation {
        /// The installation that made it.
        found: domain::InstallationId,
    },
    /// A domain function reported a state that cannot exist; the unit was rolled back.
    #[error("a state that cannot exist: {0}")]
    Impossible(String),
    /// The database has a schema of a newer Berth.
    #[error(
        "the database has schema version {found}, but this program knows only {known}: start the newer berth \
         that wrote it, or restore a backup made before the upgrade"
    )]
    NewerSchema {
        /// The newest migration in the database.
        found: i64,
        /// The newest migration of this program.
        known: i64,
    },
    /// A migration failed; the database is as it was before it.
    #[error("migration {version} failed ({})", said(source))]
    Migration {
        /// Its number.
        version: i64,
        /// Why.
        source: Arc<sqlx::Error>,
    },
    /// The settings do not describe a database.
    #[error("the database settings are not usable: {0}")]
    Settings(&'static str),
    /// The service key does not open this installation's values (KEY-002, KEY-004).
    #[error(
        "the service key {loaded} does not belong to this database, which was sealed under {needed}"
    )]
    WrongServiceKey {
        /// The key that was given.
        loaded: seal::KeyId,
        /// The key that the database needs.
        needed: seal::KeyId,
    },
}

impl StoreError {
    /// Whether the unit may have been committed.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::CommitUnknown(_))
    }

    /// Whether only the rows that were asked for are at fault, and not the database: whoever works through many Sessions passes
    /// over this one.
    pub fn is_of_these_rows(&self) -> bool {
        matches!(
            self,
            Self::Corrupt { .. } | Self::Missing { .. } | Self::Seal(_) | Self::Impossible(_)
        )
    }

    /// Whether the database waited for a lock in vain, so that the unit may run again.
    pub(crate) fn is_lock(&self) -> bool {
        match self {
            Self::Busy => true,
            // PostgreSQL: lock_not_available, deadlock_detected, serialization_failure. SQLite has one writer.
            Self::Database(error) => matches!(&**error, sqlx::Error::Database(error) if error
                .code()
                .is_some_and(|code| matches!(code.as_ref(), "55P03" | "40P01" | "40001"))),
            _ => false,
        }
    }

    /// Whether the connection is gone or the transaction with it, so that no later statement can succeed.
    pub(crate) fn is_fatal(&self) -> bool {
        let Self::Database(error) = self else {
            return matches!(self, Self::Full);
        };
        match &**error {
            // SQLite ends the transaction by itself on these: out of memory, I/O.
            sqlx::Error::Database(refused) => {
                matches!(sqlite_code(&**refused), Some(7 | 10)) || is_lost(error)
            }
            sqlx::Error::WorkerCrashed | sqlx::Error::PoolClosed => true,
            error => is_lost(error),
        }
    }
}

/// The answer of a write that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError<R> {
    /// The rules refused it; nothing was written (I33).
    #[error("refused")]
    Refused(R),
    /// The database failed; see [`StoreError::is_unknown`].
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How the body of a unit ends without an answer.
#[derive(Debug)]
pub enum UnitError<R> {
    /// The rules refused it.
    Refused(R),
    /// The database failed.
    Store(StoreError),
}

impl<R> From<StoreError> for UnitError<R> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl<R> From<sqlx::Error> for UnitError<R> {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        if is_full(&error) {
            return Self::Full;
        }
        Self::Database(Arc::new(error))
    }
}

/// What the driver says, for the log. A server's sentence about data and constraints may quote a row (SQLSTATE classes 22 and
/// 23), so of those only the code is told.
fn said(error: &sqlx::Error) -> String {
    let sqlx::Error::Database(refused) = error else {
        return error.to_string();
    };
    let code = refused.code().unwrap_or_default();
    let quotes = code.len() == 5 && (code.starts_with("22") || code.starts_with("23"));
    match refused.constraint().filter(|_| quotes) {
        Some(constraint) => format!("{code}, {constraint}"),
        None if quotes => code.into_owned(),
        None => format!("{code}, {}", refused.message()),
    }
}

/// SQLite's primary result code. Its codes have at most four digits, PostgreSQL's exactly five characters.
fn sqlite_code(error: &dyn sqlx::error::DatabaseError) -> Option<u32> {
    let code = error.code().filter(|code| code.len() < 5)?;
    code.parse::<u32>().ok().map(|code| code & 0xff)
}

/// Whether the connection is gone: broken, or ended by its server (`admin_shutdown`, `crash_shutdown`, `database_dropped`).
pub(crate) fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => true,
        sqlx::Error::Database(error) => error
            .code()
            .is_some_and(|code| matches!(&*code, "57P01" | "57P02" | "57P04")),
        _ => false,
    }
}

/// Whether there is no room for a write: SQLite's "full", PostgreSQL's `disk_full`.
pub(crate) fn is_full(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else {
        return false;
    };
    sqlite_code(&**error) == Some(13) || error.code().is_some_and(|code| code == "53100")
}
