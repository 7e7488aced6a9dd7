//! Connections that many share: the readers' of both databases, and those of public writes on PostgreSQL.
//!
//! The driver's own pool asks every connection that comes back whether it still lives, which costs as much as a read and waits
//! for a silent server without an end. This one asks only what nobody used for a while: a [`Conn`] knows by itself whether
//! somebody else may have it.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use deadpool::managed::{self, Metrics, PoolError, RecycleError, RecycleResult};
use sqlx::{AnyConnection, Connection, any::AnyConnectOptions};
use tokio::time::timeout;

use crate::{
    conn::{self, Conn},
    dialect::{Dialect, Role},
    error::StoreError,
    settings::StoreSettings,
};

/// A connection to a server is used for so long, and kept without use for so long: whoever stands between forgets it later.
const OLDEST: Duration = Duration::from_secs(30 * 60);
const IDLE: Duration = Duration::from_secs(10 * 60);
/// One that lay for so long is asked whether it lives: its server may have been started again. Under load none does.
const ASKED: Duration = Duration::from_secs(1);
/// For its answer.
const ANSWERS: Duration = Duration::from_secs(2);
/// Longest time for saying goodbye to the connections that are open at the end.
const CLOSING: Duration = Duration::from_secs(5);

/// The connections of one kind. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Pool {
    dialect: Dialect,
    /// Longest time of a statement; none in a file.
    limit: Option<Duration>,
    acquire: Duration,
    pool: managed::Pool<Opener>,
}

impl Pool {
    /// Opens the first of at most `size` connections.
    pub(crate) async fn open(
        settings: &StoreSettings,
        options: &AnyConnectOptions,
        size: u32,
    ) -> Result<Self, StoreError> {
        let dialect = settings.dialect();
        let opener = Opener {
            options: options.clone(),
            dialect,
            losses: Arc::default(),
        };
        let pool = managed::Pool::builder(opener)
            .max_size(size.max(1) as usize)
            // The connection that was used last has its pages and statements at hand.
            .queue_mode(managed::QueueMode::Lifo)
            .build()
            .map_err(|_| StoreError::Settings("no pool of such a size can be made"))?;
        let pool = Self {
            dialect,
            limit: settings.limit(),
            acquire: settings.acquire,
            pool,
        };
        drop(pool.connection().await?);
        Ok(pool)
    }

    /// A connection, until it is dropped.
    pub(crate) async fn connection(&self) -> Result<Conn, StoreError> {
        match timeout(self.acquire, self.pool.get()).await {
            Ok(Ok(object)) => Ok(Conn::lent(object, self.limit)),
            Ok(Err(PoolError::Backend(error))) => Err(error.into()),
            Ok(Err(PoolError::Closed)) => Err(sqlx::Error::PoolClosed.into()),
            Ok(Err(_)) | Err(_) => Err(sqlx::Error::PoolTimedOut.into()),
        }
    }

    /// A connection that sees one state of the database (S-ST-4).
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let mut conn = self.connection().await?;
        conn.tear();
        sqlx::query(self.dialect.begin_snapshot())
            .execute(&mut conn)
            .await?;
        Ok(Snapshot { conn })
    }

    /// Closes every connection that is not in use, and lends none any more.
    pub(crate) async fn close(&self) {
        let idle = self.pool.retain(|_, _| false).removed;
        self.pool.close();
        let goodbyes = async {
            for open in idle {
                let _ = open.conn.close().await;
            }
        };
        let _ = timeout(CLOSING, goodbyes).await;
    }
}

/// Opens connections.
pub(crate) struct Opener {
    options: AnyConnectOptions,
    dialect: Dialect,
    /// How often a connection was lost: what was opened before the last time is lost too, most likely.
    losses: Arc<AtomicU64>,
}

/// An open connection of a pool.
pub(crate) struct Open {
    pub(crate) conn: AnyConnection,
    losses: Arc<AtomicU64>,
    /// The count of losses when it was opened.
    born: u64,
}

impl Open {
    /// The server does not answer here any more.
    pub(crate) fn lost(&self) {
        self.losses.fetch_max(self.born + 1, Ordering::Relaxed);
    }
}

impl managed::Manager for Opener {
    type Type = Open;
    type Error = sqlx::Error;

    async fn create(&self) -> Result<Open, sqlx::Error> {
        let born = self.losses.load(Ordering::Relaxed);
        let conn = conn::connect(&self.options, self.dialect, Role::Pool).await?;
        Ok(Open {
            conn,
            losses: self.losses.clone(),
            born,
        })
    }

    async fn recycle(&self, open: &mut Open, metrics: &Metrics) -> RecycleResult<sqlx::Error> {
        if self.dialect == Dialect::Sqlite {
            return Ok(());
        }
        if open.born < self.losses.load(Ordering::Relaxed) {
            return Err(RecycleError::message("others of its time were lost"));
        }
        if metrics.age() > OLDEST || metrics.last_used() > IDLE {
            return Err(RecycleError::message("too old"));
        }
        if metrics.last_used() > ASKED
            && !matches!(timeout(ANSWERS, open.conn.ping()).await, Ok(Ok(())))
        {
            open.lost();
            return Err(RecycleError::message("its server is gone"));
        }
        Ok(())
    }
}

/// A connection inside a transaction that only reads. One that is not ended is closed.
pub(crate) struct Snapshot {
    conn: Conn,
}

impl Snapshot {
    /// Gives the connection back; the snapshot wrote nothing, so there is nothing to lose.
    pub(crate) async fn end(mut self) -> Result<(), StoreError> {
        sqlx::query("ROLLBACK").execute(&mut self.conn).await?;
        self.conn.whole();
        Ok(())
    }
}

impl Deref for Snapshot {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        &self.conn
    }
}

impl DerefMut for Snapshot {
    fn deref_mut(&mut self) -> &mut Conn {
        &mut self.conn
    }
}
