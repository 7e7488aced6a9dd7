//! What a unit sees of the database: one connection inside a transaction, the database clock, the lease.

use std::sync::Arc;

use domain::{ProjectId, Refusal, SessionId, Timestamp, lease::Epoch};
use sqlx::Row;

use crate::{
    conn::Conn,
    dialect::Dialect,
    error::{StoreError, UnitError},
    lease::LeaseToken,
    notify::Outbox,
};

/// The transaction of a unit.
pub struct Tx<'c> {
    pub(crate) conn: &'c mut Conn,
    pub(crate) dialect: Dialect,
    pub(crate) keys: Arc<seal::KeyRing>,
    /// The lease under which this unit runs; `None` for public units.
    pub(crate) lease: Option<LeaseToken>,
    pub(crate) outbox: Outbox,
    now: Option<Timestamp>,
}

impl<'c> Tx<'c> {
    pub(crate) fn new(
        conn: &'c mut Conn,
        dialect: Dialect,
        keys: Arc<seal::KeyRing>,
        lease: Option<LeaseToken>,
    ) -> Self {
        Self {
            conn,
            dialect,
            keys,
            lease,
            outbox: Outbox::default(),
            now: None,
        }
    }

    /// The database clock, read once per unit, after its first lock (SC-6.6).
    pub(crate) async fn now(&mut self) -> Result<Timestamp, StoreError> {
        match self.now {
            Some(now) => Ok(now),
            None => {
                let now = read_clock(self.conn, self.dialect).await?;
                self.now = Some(now);
                Ok(now)
            }
        }
    }

    /// Takes the Session's row lock, where there is one, and forgets the clock, so that it is read under the lock. Whether the
    /// Session exists is known once it is loaded.
    pub(crate) async fn lock_session(&mut self, session: SessionId) -> Result<(), StoreError> {
        if let Some(statement) = self.dialect.lock_session() {
            sqlx::query(statement)
                .bind(session.to_string())
                .fetch_optional(&mut *self.conn)
                .await?;
        }
        self.now = None;
        Ok(())
    }

    /// As [`Tx::lock_session`], but gives up at once if somebody else holds the lock or the Session does not exist: `false`.
    pub(crate) async fn try_lock_session(
        &mut self,
        session: SessionId,
    ) -> Result<bool, StoreError> {
        let row = sqlx::query(self.dialect.try_lock_session())
            .bind(session.to_string())
            .fetch_optional(&mut *self.conn)
            .await?;
        self.now = None;
        Ok(row.is_some())
    }

    /// Takes the row lock of a resource of a Project by writing to it, and reads the clock under it. `statement` changes
    /// nothing of the row `$1` of the Project `$2`.
    pub(crate) async fn lock_row(
        &mut self,
        statement: &'static str,
        id: impl ToString,
        project: ProjectId,
    ) -> Result<Timestamp, UnitError<Refusal>> {
        let done = sqlx::query(statement)
            .bind(id.to_string())
            .bind(project.to_string())
            .execute(&mut *self.conn)
            .await?;
        if done.rows_affected() == 0 {
            return Err(UnitError::Refused(Refusal::NotFound));
        }
        self.forget_clock();
        Ok(self.now().await?)
    }

    /// The epoch of the lease under which this unit runs.
    pub(crate) fn epoch(&self) -> Result<Epoch, StoreError> {
        self.lease
            .as_ref()
            .map(|lease| lease.epoch)
            .ok_or(StoreError::LeaseLost)
    }

    pub(crate) fn forget_clock(&mut self) {
        self.now = None;
    }
}

/// Reads the database clock on any connection.
pub(crate) async fn read_clock(conn: &mut Conn, dialect: Dialect) -> Result<Timestamp, StoreError> {
    let row = sqlx::query(dialect.now()).fetch_one(conn).await?;
    Ok(Timestamp::from_millis(row.try_get(0)?))
}
