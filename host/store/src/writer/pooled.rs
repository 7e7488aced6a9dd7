//! Public units on PostgreSQL: one transaction each, ordered by row locks, in a task of its own so that a caller
//! who gives up never tears a commit.

use std::sync::Arc;

use sqlx::AnyPool;

use super::{
    group::{visit_after, visit_before},
    job::{Job, Ran},
};
use crate::{dialect::Dialect, error::StoreError, notify::Notifier, tx::Tx, unit::Durability};

/// A deadlock or serialization failure is tried again so often.
const ATTEMPTS: u32 = 3;

/// What a public write needs.
#[derive(Clone)]
pub(crate) struct PooledWriter {
    pub(crate) pool: AnyPool,
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

    async fn attempt(&self, job: &mut dyn Job) -> Result<(), StoreError> {
        let dialect = Dialect::Postgres;
        let mut transaction = self.pool.begin_with(dialect.begin_write()).await?;
        if job.durability() == Durability::Flushed
            && let Some(statement) = dialect.flushed_after_begin()
        {
            sqlx::query(statement).execute(&mut *transaction).await?;
        }
        let mut tx = Tx::new(&mut transaction, dialect, self.keys.clone(), None);
        match job.run(&mut tx).await {
            Ran::Done => {}
            Ran::Refused => {
                transaction.rollback().await?;
                return Ok(());
            }
            Ran::Failed(error) => return Err(error),
        }
        let outbox = std::mem::take(&mut tx.outbox);
        visit_before(job.name());
        match transaction.commit().await {
            Ok(()) => {
                visit_after(job.name());
                self.notifier.publish(outbox);
                Ok(())
            }
            // The server answered: it rolled back. Anything else leaves the outcome open.
            Err(error @ sqlx::Error::Database(_)) => Err(error.into()),
            Err(error) => Err(StoreError::CommitUnknown(Arc::new(error))),
        }
    }
}
