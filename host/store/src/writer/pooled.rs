//! Public units on PostgreSQL: one transaction each, ordered by row locks, in a task of its own so that a caller
//! who gives up never tears a commit.

use std::sync::Arc;

use sqlx::Executor;

use super::{
    group::{visit_after, visit_before},
    job::{Job, Ran},
};
use crate::{
    conn::Conn, dialect::Dialect, error::StoreError, notify::Notifier, pool::Pool, tx::Tx,
    unit::Durability,
};

/// A deadlock or serialization failure is tried again so often.
const ATTEMPTS: u32 = 3;

/// What a public write needs.
#[derive(Clone)]
pub(crate) struct PooledWriter {
    pub(crate) pool: Pool,
    pub(crate) keys: Arc<seal::KeyRing>,
    pub(crate) notifier: Notifier,
}

impl PooledWriter {
    /// Runs one unit to its end and answers it.
    pub(crate) async fn run(self, mut job: Box<dyn Job>) {
        let mut attempt = 1;
        loop {
            match self.attempt(job.as_mut()).await {
                Ok(()) => return job.conclude(),
                Err(error) if error.is_lock() && attempt < ATTEMPTS => attempt += 1,
                Err(error) if error.is_lock() => return job.fail(StoreError::Busy),
                Err(error) => return job.fail(error),
            }
        }
    }

    async fn begin(&self, durability: Durability) -> Result<Conn, StoreError> {
        let dialect = Dialect::Postgres;
        let mut conn = self.pool.connection().await?;
        conn.tear();
        conn.execute(dialect.begin_write()).await?;
        if durability == Durability::Flushed
            && let Some(statement) = dialect.flushed_after_begin()
        {
            sqlx::query(statement).execute(&mut conn).await?;
        }
        Ok(conn)
    }

    async fn attempt(&self, job: &mut dyn Job) -> Result<(), StoreError> {
        let mut conn = match self.begin(job.durability()).await {
            // The server was started again: nothing was done yet, and the next connection is a new one.
            Err(error) if error.is_fatal() => self.begin(job.durability()).await?,
            begun => begun?,
        };
        let mut tx = Tx::new(&mut conn, Dialect::Postgres, self.keys.clone(), None);
        let ran = job.run(&mut tx).await;
        let outbox = std::mem::take(&mut tx.outbox);
        let failed = match ran {
            Ran::Done => {
                visit_before(job.name());
                match conn.execute("COMMIT").await {
                    Ok(_) => {
                        conn.whole();
                        visit_after(job.name());
                        self.notifier.publish(outbox);
                        return Ok(());
                    }
                    // The server answered: it rolled back. Anything else leaves the outcome open.
                    Err(error @ sqlx::Error::Database(_)) => Some(error.into()),
                    Err(error) => return Err(StoreError::CommitUnknown(Arc::new(error))),
                }
            }
            Ran::Refused => None,
            Ran::Failed(error) => Some(error),
        };
        // A connection that cannot do this is closed, and its transaction with it.
        if conn.execute("ROLLBACK").await.is_ok() {
            conn.whole();
        }
        failed.map_or(Ok(()), Err)
    }
}
