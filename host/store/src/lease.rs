//! The execution lease: one row that says which process may write execution state (architecture 10, SC-2).

use domain::{OwnerId, Timestamp, time::LEASE_TTL};
use sqlx::{AnyConnection, Row};
use tokio::sync::watch;

use crate::{
    convert::parse_id,
    dialect::Dialect,
    error::{StoreError, UnitError},
    tx::Tx,
    unit::Unit,
};

/// Proof of ownership for as long as the row agrees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseToken {
    /// Grows with every owner.
    pub epoch: i64,
    /// The owning process.
    pub owner: OwnerId,
}

/// What an attempt to acquire found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acquired {
    /// It is ours, under a new epoch.
    Held(LeaseToken),
    /// Another process holds it until then (database clock).
    Other {
        /// When it may be taken without renewal.
        expires_at: Timestamp,
    },
}

/// Takes the lease if it is free, expired, or its holder is proved dead (D31).
#[derive(Debug)]
pub struct AcquireLease {
    /// The new owner.
    pub owner: OwnerId,
    /// On SQLite the caller holds the data folder's lock: the former owner cannot be alive.
    pub predecessor_is_dead: bool,
}

impl Unit for AcquireLease {
    const NAME: &'static str = "AcquireLease";
    const LEASED: bool = false;
    type Answer = Acquired;
    type Refusal = std::convert::Infallible;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Acquired, UnitError<Self::Refusal>> {
        let row = sqlx::query(tx.dialect.lock_lease()).fetch_one(&mut *tx.conn).await?;
        tx.forget_clock();
        let now = tx.now().await?;
        let epoch: i64 = row.try_get("epoch")?;
        let owner: Option<String> = row.try_get("owner")?;
        let expires_at = Timestamp::from_millis(row.try_get("expires_at")?);
        let mine = owner.as_deref() == Some(self.owner.to_string().as_str());
        if owner.is_some() && !mine && expires_at > now && !self.predecessor_is_dead {
            return Ok(Acquired::Other { expires_at });
        }
        let token = LeaseToken { epoch: epoch + 1, owner: self.owner };
        sqlx::query("UPDATE lease SET epoch = $1, owner = $2, expires_at = $3 WHERE id = 1")
            .bind(token.epoch)
            .bind(token.owner.to_string())
            .bind((now + LEASE_TTL).millis())
            .execute(&mut *tx.conn)
            .await?;
        Ok(Acquired::Held(token))
    }
}

/// Gives the lease up after a drain, so that the next owner need not wait (SC-2.9).
#[derive(Debug)]
pub struct ReleaseLease;

impl Unit for ReleaseLease {
    const NAME: &'static str = "ReleaseLease";
    const LEASED: bool = true;
    type Answer = ();
    type Refusal = std::convert::Infallible;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<Self::Refusal>> {
        let epoch = tx.epoch()?;
        sqlx::query("UPDATE lease SET owner = NULL, expires_at = 0 WHERE id = 1 AND epoch = $1")
            .bind(epoch)
            .execute(&mut *tx.conn)
            .await?;
        Ok(())
    }
}

/// Renews the lease while there is no other leased work: the batch's first statement does it, the body is empty.
#[derive(Debug)]
pub struct RenewLease;

impl Unit for RenewLease {
    const NAME: &'static str = "RenewLease";
    const LEASED: bool = true;
    type Answer = ();
    type Refusal = std::convert::Infallible;

    async fn run(&self, _tx: &mut Tx<'_>) -> Result<(), UnitError<Self::Refusal>> {
        Ok(())
    }
}

/// First statement of a batch with leased units. `false`: the lease is lost, nothing may be written.
pub(crate) async fn check_and_renew(
    conn: &mut AnyConnection,
    dialect: Dialect,
    token: LeaseToken,
) -> Result<bool, StoreError> {
    let ttl = i64::try_from(LEASE_TTL.as_millis()).unwrap_or(i64::MAX);
    let done = sqlx::query(dialect.renew_lease())
        .bind(token.epoch)
        .bind(token.owner.to_string())
        .bind(ttl)
        .execute(conn)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// The lease as this process knows it. Losing it is final for its epoch.
#[derive(Debug, Clone)]
pub(crate) struct LeaseCell {
    sender: watch::Sender<Option<LeaseToken>>,
}

impl LeaseCell {
    pub(crate) fn new() -> Self {
        Self { sender: watch::channel(None).0 }
    }

    pub(crate) fn current(&self) -> Option<LeaseToken> {
        *self.sender.borrow()
    }

    pub(crate) fn hold(&self, token: LeaseToken) {
        self.sender.send_replace(Some(token));
    }

    /// Forgets `token`, unless a newer one took its place.
    pub(crate) fn lose(&self, token: LeaseToken) {
        self.sender.send_if_modified(|held| {
            let lost = *held == Some(token);
            if lost {
                *held = None;
            }
            lost
        });
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<LeaseToken>> {
        self.sender.subscribe()
    }
}

/// The lease row as stored, for operators and the invariant checker.
pub(crate) async fn read(conn: &mut AnyConnection) -> Result<(i64, Option<OwnerId>, Timestamp), StoreError> {
    let row = sqlx::query("SELECT epoch, owner, expires_at FROM lease WHERE id = 1").fetch_one(conn).await?;
    let owner: Option<String> = row.try_get("owner")?;
    let owner = owner.map(|text| parse_id(&text, "lease", "owner")).transpose()?;
    Ok((row.try_get("epoch")?, owner, Timestamp::from_millis(row.try_get("expires_at")?)))
}
