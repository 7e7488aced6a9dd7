//! The only place where the two databases differ. Everything else is one SQL text.

/// Which database a connection talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// SQLite in one file: one writer, group commit.
    Sqlite,
    /// PostgreSQL: row locks, many processes.
    Postgres,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The one writer.
    Writer,
    /// Reads, and public writes on PostgreSQL.
    Pool,
    /// Migrations at the start.
    Opening,
    /// Moving the log of a file into it.
    Checkpoint,
}

impl Dialect {
    /// Database clock in Unix milliseconds plus the offset row. Statement time, not transaction time: deadlines are
    /// judged after the lock is held (SC-6.6, SC-11.1).
    pub(crate) const fn now(self) -> &'static str {
        match self {
            Self::Sqlite => {
                "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) + (SELECT offset_ms FROM clock WHERE id = 1)"
            }
            Self::Postgres => {
                "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) + (SELECT offset_ms FROM clock WHERE id = 1)"
            }
        }
    }

    /// Takes the row lock that orders all writes of one Session. SQLite has one writer and needs none.
    pub(crate) const fn lock_session(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => None,
            Self::Postgres => Some("SELECT id FROM sessions WHERE id = $1 FOR UPDATE"),
        }
    }

    /// Takes a Session lock unless somebody holds it (SC-3.1).
    pub(crate) const fn try_lock_session(self) -> &'static str {
        match self {
            Self::Sqlite => "SELECT id FROM sessions WHERE id = $1",
            Self::Postgres => "SELECT id FROM sessions WHERE id = $1 FOR UPDATE SKIP LOCKED",
        }
    }

    /// Reads the lease row and keeps others from changing it.
    pub(crate) const fn lock_lease(self) -> &'static str {
        match self {
            Self::Sqlite => "SELECT epoch, owner, expires_at FROM lease WHERE id = 1",
            Self::Postgres => "SELECT epoch, owner, expires_at FROM lease WHERE id = 1 FOR UPDATE",
        }
    }

    /// The first statement of every batch that holds leased units: renews the lease, and touches no row if it is lost
    /// (SC-2.5). `$1` epoch, `$2` owner, `$3` time to live in milliseconds.
    pub(crate) const fn renew_lease(self) -> &'static str {
        match self {
            Self::Sqlite => {
                "UPDATE lease SET expires_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) \
                 + (SELECT offset_ms FROM clock WHERE id = 1) + $3 WHERE id = 1 AND epoch = $1 AND owner = $2"
            }
            Self::Postgres => {
                "UPDATE lease SET expires_at = CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) \
                 + (SELECT offset_ms FROM clock WHERE id = 1) + $3 WHERE id = 1 AND epoch = $1 AND owner = $2"
            }
        }
    }

    /// Starts a batch of writes.
    pub(crate) const fn begin_write(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN IMMEDIATE",
            Self::Postgres => "BEGIN ISOLATION LEVEL READ COMMITTED",
        }
    }

    /// Starts a snapshot that sees one state of the database (S-ST-4).
    pub(crate) const fn begin_snapshot(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN DEFERRED",
            Self::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        }
    }

    /// What every connection sets once.
    pub(crate) const fn setup(self, role: Role) -> &'static [&'static str] {
        match (self, role) {
            // The checkpoint task moves pages; a commit of the writer never does (its latency would jump).
            (Self::Sqlite, Role::Writer | Role::Opening) => &[
                "PRAGMA busy_timeout = 5000",
                "PRAGMA journal_mode = WAL",
                "PRAGMA synchronous = FULL",
                "PRAGMA foreign_keys = ON",
                "PRAGMA wal_autocheckpoint = 0",
                "PRAGMA journal_size_limit = 67108864",
                // A statement that may have to be undone keeps its few pages in memory, in no file of its own.
                "PRAGMA temp_store = MEMORY",
                "PRAGMA cache_size = -8000",
            ],
            (Self::Sqlite, Role::Pool) => &[
                "PRAGMA busy_timeout = 5000",
                "PRAGMA foreign_keys = ON",
                "PRAGMA wal_autocheckpoint = 0",
                "PRAGMA query_only = ON",
                "PRAGMA cache_size = -4000",
            ],
            // While it waits for readers the writer waits too, so it asks again rather than for long.
            (Self::Sqlite, Role::Checkpoint) => &["PRAGMA busy_timeout = 500"],
            // A busy row sends a leased unit back to the queue, so that one locked Session delays nobody. The server ends
            // the transaction of a process that was stopped inside it, or the next owner could not read the lease row.
            (Self::Postgres, Role::Writer) => &[
                "SET lock_timeout = '25ms'",
                "SET statement_timeout = '5s'",
                "SET idle_in_transaction_session_timeout = '5s'",
            ],
            (Self::Postgres, Role::Pool) => &[
                "SET lock_timeout = '5s'",
                "SET statement_timeout = '10s'",
                "SET idle_in_transaction_session_timeout = '10s'",
            ],
            // A migration takes as long as it takes, and waits for another process that migrates.
            (Self::Postgres, Role::Opening | Role::Checkpoint) => &[],
        }
    }

    /// Statement before `BEGIN` that makes commits wait for the disk, or not (SQLite).
    pub(crate) const fn durability_before_begin(self, synced: bool) -> Option<&'static str> {
        match (self, synced) {
            (Self::Sqlite, true) => Some("PRAGMA synchronous = FULL"),
            (Self::Sqlite, false) => Some("PRAGMA synchronous = NORMAL"),
            (Self::Postgres, _) => None,
        }
    }

    /// Statement after `BEGIN` that lets this commit not wait for the disk (PostgreSQL).
    pub(crate) const fn flushed_after_begin(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => None,
            Self::Postgres => Some("SET LOCAL synchronous_commit = off"),
        }
    }
}
