//! The execution lease: one row that says which process may write execution state (architecture 10, SC-2).

use domain::{
    OwnerId, Timestamp,
    lease::{self, Authority, Epoch, Lease},
    time::LEASE_TTL,
};
use sqlx::{Row, any::AnyRow};
use tokio::sync::watch;

use crate::{
    conn::Conn,
    convert::{count_column, int, parse_id},
    dialect::Dialect,
    error::{StoreError, UnitError},
    tx::Tx,
    unit::Unit,
};

/// Proof of ownership for as long as the row agrees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseToken {
    /// Grows with every owner.
    pub epoch: Epoch,
    /// The owning Core: the same for all processes of one data folder, one at a time.
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
    /// What the caller knows about a former owner.
    pub authority: Authority,
}

impl Unit for AcquireLease {
    const NAME: &'static str = "AcquireLease";
    const LEASED: bool = false;
    type Answer = Acquired;
    type Refusal = std::convert::Infallible;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Acquired, UnitError<Self::Refusal>> {
        let row = sqlx::query(tx.dialect.lock_lease())
            .fetch_one(&mut *tx.conn)
            .await?;
        tx.forget_clock();
        let now = tx.now().await?;
        let held = decode(&row)?;
        match lease::acquire(&held, self.owner, self.authority, now) {
            Some(taken) => {
                put(tx.conn, &taken).await?;
                Ok(Acquired::Held(LeaseToken {
                    epoch: taken.epoch,
                    owner: self.owner,
                }))
            }
            None => Ok(Acquired::Other {
                expires_at: held.expires_at.unwrap_or(now),
            }),
        }
    }
}

/// Gives the lease up after a drain, so that the next owner need not wait (SC-2.9).
#[derive(Debug, Clone, Copy)]
pub struct ReleaseLease;

impl Unit for ReleaseLease {
    const NAME: &'static str = "ReleaseLease";
    const LEASED: bool = true;
    type Answer = ();
    type Refusal = std::convert::Infallible;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<Self::Refusal>> {
        // The batch's first statement proved that the row is ours and keeps it locked.
        let epoch = tx.epoch()?;
        put(
            tx.conn,
            &Lease {
                epoch,
                owner: None,
                expires_at: None,
            },
        )
        .await?;
        Ok(())
    }
}

/// Renews the lease while there is no other leased work: the batch's first statement does it, the body is empty.
#[derive(Debug, Clone, Copy)]
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
    conn: &mut Conn,
    dialect: Dialect,
    token: LeaseToken,
) -> Result<bool, StoreError> {
    let ttl = i64::try_from(LEASE_TTL.as_millis()).unwrap_or(i64::MAX);
    let done = sqlx::query(dialect.renew_lease())
        .bind(int(token.epoch.0)?)
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
        Self {
            sender: watch::channel(None).0,
        }
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

/// Writes the lease row.
pub(crate) async fn put(conn: &mut Conn, lease: &Lease) -> Result<(), StoreError> {
    sqlx::query("UPDATE lease SET epoch = $1, owner = $2, expires_at = $3 WHERE id = 1")
        .bind(int(lease.epoch.0)?)
        .bind(lease.owner.map(|owner| owner.to_string()))
        .bind(lease.expires_at.map_or(0, Timestamp::millis))
        .execute(conn)
        .await?;
    Ok(())
}

/// The lease row as stored, for operators and the invariant checker.
pub(crate) async fn read(conn: &mut Conn) -> Result<Lease, StoreError> {
    let row = sqlx::query("SELECT epoch, owner, expires_at FROM lease WHERE id = 1")
        .fetch_one(conn)
        .await?;
    decode(&row)
}

fn decode(row: &AnyRow) -> Result<Lease, StoreError> {
    let owner: Option<String> = row.try_get("owner")?;
    let expires_at: i64 = row.try_get("expires_at")?;
    Ok(Lease {
        epoch: Epoch(count_column(row, "lease", "epoch")?),
        owner: owner
            .map(|text| parse_id(&text, "lease", "owner"))
            .transpose()?,
        expires_at: (expires_at > 0).then(|| Timestamp::from_millis(expires_at)),
    })
}
