//! Connections for reading.
//!
//! A SQLite connection is a thread of its own, and each word with it is a change of threads: the pool of the driver asks every
//! connection that comes back whether it still lives, which costs as much as the read itself. A file does not go away, so
//! SQLite has a pool that asks nothing. A server does, so PostgreSQL has the driver's.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use deadpool::managed::{self, Metrics, Object, PoolError, RecycleError, RecycleResult};
use sqlx::{
    Any, AnyConnection, AnyPool, ConnectOptions, Connection,
    any::{AnyConnectOptions, AnyPoolOptions},
    pool::PoolConnection,
};

use crate::{
    dialect::{Dialect, Role},
    error::StoreError,
};

/// A caller that finds no connection for so long is told so (W-AUTH-2).
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// The connections of one store.
pub(crate) struct Readers {
    dialect: Dialect,
    pool: Pool,
}

enum Pool {
    File(managed::Pool<Opener>),
    Server(AnyPool),
}

impl Readers {
    /// Opens the first of at most `size` connections.
    pub(crate) async fn open(
        dialect: Dialect,
        options: &AnyConnectOptions,
        size: u32,
    ) -> Result<Self, StoreError> {
        let pool = match dialect {
            Dialect::Sqlite => {
                let opener = Opener(options.clone());
                let pool = managed::Pool::builder(opener)
                    .max_size(size.max(1) as usize)
                    // The connection that was used last has its pages and statements at hand.
                    .queue_mode(managed::QueueMode::Lifo)
                    .build()
                    .map_err(|_| StoreError::Settings("no pool of such a size can be made"))?;
                Pool::File(pool)
            }
            Dialect::Postgres => Pool::Server(server_pool(options, size).await?),
        };
        let readers = Self { dialect, pool };
        drop(readers.connection().await?);
        Ok(readers)
    }

    /// A connection, until it is dropped.
    pub(crate) async fn connection(&self) -> Result<Lent, StoreError> {
        match &self.pool {
            Pool::File(pool) => match tokio::time::timeout(ACQUIRE_TIMEOUT, pool.get()).await {
                Ok(Ok(object)) => Ok(Lent::File(object)),
                Ok(Err(PoolError::Backend(error))) => Err(error.into()),
                Ok(Err(PoolError::Closed)) => Err(sqlx::Error::PoolClosed.into()),
                Ok(Err(_)) | Err(_) => Err(sqlx::Error::PoolTimedOut.into()),
            },
            Pool::Server(pool) => Ok(Lent::Server(pool.acquire().await?)),
        }
    }

    /// A connection that sees one state of the database (S-ST-4).
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let conn = self.connection().await?;
        let mut snapshot = Snapshot { conn, ended: false };
        sqlx::query(self.dialect.begin_snapshot())
            .execute(&mut *snapshot)
            .await?;
        Ok(snapshot)
    }

    /// Closes every connection that is not in use, and lends none any more.
    pub(crate) async fn close(&self) {
        match &self.pool {
            Pool::File(pool) => {
                let idle = pool.retain(|_, _| false).removed;
                pool.close();
                for open in idle {
                    let _ = open.conn.close().await;
                }
            }
            Pool::Server(pool) => pool.close().await,
        }
    }
}

/// A pool of connections to a PostgreSQL server.
pub(crate) async fn server_pool(
    options: &AnyConnectOptions,
    size: u32,
) -> Result<AnyPool, StoreError> {
    let pool = AnyPoolOptions::new()
        .max_connections(size.max(1))
        .min_connections(1)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // A stale server connection shows itself at its first statement; asking before each use would double the cost.
        .test_before_acquire(false)
        .after_connect(|conn, _| Box::pin(prepare(conn, Dialect::Postgres)))
        .connect_with(options.clone())
        .await?;
    Ok(pool)
}

async fn prepare(conn: &mut AnyConnection, dialect: Dialect) -> Result<(), sqlx::Error> {
    for statement in dialect.setup(Role::Pool) {
        sqlx::query(*statement).execute(&mut *conn).await?;
    }
    Ok(())
}

/// Opens SQLite connections.
pub(crate) struct Opener(AnyConnectOptions);

/// A SQLite connection.
pub(crate) struct Open {
    conn: AnyConnection,
    /// It was left in the middle of something.
    torn: bool,
}

impl managed::Manager for Opener {
    type Type = Open;
    type Error = sqlx::Error;

    async fn create(&self) -> Result<Open, sqlx::Error> {
        let mut conn = self.0.connect().await?;
        prepare(&mut conn, Dialect::Sqlite).await?;
        Ok(Open { conn, torn: false })
    }

    async fn recycle(&self, open: &mut Open, _: &Metrics) -> RecycleResult<sqlx::Error> {
        if open.torn {
            return Err(RecycleError::message("left in a snapshot"));
        }
        Ok(())
    }
}

/// A connection that goes back to its pool when it is dropped.
pub(crate) enum Lent {
    File(Object<Opener>),
    Server(PoolConnection<Any>),
}

impl Lent {
    /// Nobody gets it after this use.
    fn tear(&mut self) {
        match self {
            Self::File(open) => open.torn = true,
            Self::Server(conn) => conn.close_on_drop(),
        }
    }
}

impl Deref for Lent {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        match self {
            Self::File(open) => &open.conn,
            Self::Server(conn) => conn,
        }
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        match self {
            Self::File(open) => &mut open.conn,
            Self::Server(conn) => conn,
        }
    }
}

/// A connection inside a transaction that only reads. One that is not ended is closed.
pub(crate) struct Snapshot {
    conn: Lent,
    ended: bool,
}

impl Snapshot {
    /// Gives the connection back; the snapshot wrote nothing, so there is nothing to lose.
    pub(crate) async fn end(mut self) -> Result<(), StoreError> {
        sqlx::query("ROLLBACK").execute(&mut *self.conn).await?;
        self.ended = true;
        Ok(())
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if !self.ended {
            self.conn.tear();
        }
    }
}

impl Deref for Snapshot {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        &self.conn
    }
}

impl DerefMut for Snapshot {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        &mut self.conn
    }
}
