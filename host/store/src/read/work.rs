//! What there is to do: the scans of the scheduler (scheduler.md 3). A scan gives no right; each unit checks again.

use std::time::Duration;

use domain::{
    DeviceId, EnvironmentId, ReservationId, SessionId, Timestamp, TurnId, allocation::Allocation,
    binding::Binding, environment::Environment, session::receipt_wait,
};
use sqlx::{
    Any, Row,
    any::{AnyArguments, AnyRow},
    query::Query,
};

use super::Reader;
use crate::{
    convert::{count_column, id_column, json_column},
    error::StoreError,
    load::Parts,
};

/// A reservation past its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueReservation {
    /// Its Session.
    pub session: SessionId,
    /// The reservation.
    pub reservation: ReservationId,
    /// Its deadline; with the id the cursor.
    pub deadline: Timestamp,
}

/// A Session with pending input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingInput {
    /// The Session; also the cursor.
    pub session: SessionId,
    /// The reservation.
    pub reservation: ReservationId,
    /// Its deadline.
    pub deadline: Timestamp,
}

/// A Turn that waits for a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedTurn {
    /// Its Session.
    pub session: SessionId,
    /// The Turn.
    pub turn: TurnId,
    /// Admission; with the id the cursor.
    pub created_at: Timestamp,
}

/// A deleted Session that may be purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletedSession {
    /// The Session.
    pub session: SessionId,
    /// Its deletion; with the id the cursor.
    pub deleted_at: Timestamp,
}

/// An Environment with something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvironmentWork {
    /// Its Session.
    pub session: SessionId,
    /// The Environment; also the cursor.
    pub environment: EnvironmentId,
}

/// Where a scan by id goes on: every id is greater than no text.
fn behind(id: Option<impl ToString>) -> String {
    id.map(|id| id.to_string()).unwrap_or_default()
}

/// The same for a scan by time, and by id within one moment.
fn behind_both(cursor: Option<(Timestamp, impl ToString)>) -> (i64, String) {
    cursor.map_or((i64::MIN, String::new()), |(at, id)| {
        (at.millis(), id.to_string())
    })
}

impl Reader<'_> {
    /// One page of a scan.
    async fn page<T>(
        &self,
        query: Query<'_, Any, AnyArguments>,
        read: impl Fn(&AnyRow) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut conn = self.connection().await?;
        let rows = query.fetch_all(&mut conn).await?;
        rows.iter().map(read).collect()
    }

    /// Allocations that hold compute or may.
    ///
    /// # Errors
    /// What the database says.
    pub async fn live_allocations(&self) -> Result<u64, StoreError> {
        let mut conn = self.connection().await?;
        let row = sqlx::query("SELECT COUNT(*) AS live FROM allocations WHERE phase <> 'released'")
            .fetch_one(&mut conn)
            .await?;
        count_column(&row, "allocations", "live")
    }

    /// Reservations past their deadline at statement time, behind a cursor, oldest deadline first, at most `limit` (SC-3.1).
    ///
    /// # Errors
    /// What the database says.
    pub async fn due_reservations(
        &self,
        after: Option<DueReservation>,
        limit: u32,
    ) -> Result<Vec<DueReservation>, StoreError> {
        let now = self.store.now().await?;
        let (at, id) = behind_both(after.map(|due| (due.deadline, due.reservation)));
        let query = sqlx::query(
            "SELECT session_id, id, deadline FROM reservations WHERE state = 'pending' AND deadline <= $1 \
             AND (deadline, id) > ($2, $3) ORDER BY deadline, id LIMIT $4",
        )
        .bind(now.millis())
        .bind(at)
        .bind(id)
        .bind(i64::from(limit));
        self.page(query, |row| {
            Ok(DueReservation {
                session: id_column(row, "reservations", "session_id")?,
                reservation: id_column(row, "reservations", "id")?,
                deadline: Timestamp::from_millis(row.try_get("deadline")?),
            })
        })
        .await
    }

    /// Sessions with pending input behind a cursor, at most `limit`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn pending_inputs(
        &self,
        after: Option<SessionId>,
        limit: u32,
    ) -> Result<Vec<PendingInput>, StoreError> {
        let query = sqlx::query(
            "SELECT session_id, id, deadline FROM reservations WHERE state = 'pending' AND session_id > $1 \
             ORDER BY session_id LIMIT $2",
        )
        .bind(behind(after))
        .bind(i64::from(limit));
        self.page(query, |row| {
            Ok(PendingInput {
                session: id_column(row, "reservations", "session_id")?,
                reservation: id_column(row, "reservations", "id")?,
                deadline: Timestamp::from_millis(row.try_get("deadline")?),
            })
        })
        .await
    }

    /// Queued Turns of live Sessions behind a cursor, oldest first, at most `limit`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn queued_turns(
        &self,
        after: Option<QueuedTurn>,
        limit: u32,
    ) -> Result<Vec<QueuedTurn>, StoreError> {
        let (at, id) = behind_both(after.map(|turn| (turn.created_at, turn.turn)));
        let query = sqlx::query(
            "SELECT t.session_id, t.id, t.created_at FROM turns t JOIN sessions s ON s.id = t.session_id \
             WHERE t.status = 'queued' AND s.deleted_at IS NULL AND (t.created_at, t.id) > ($1, $2) \
             ORDER BY t.created_at, t.id LIMIT $3",
        )
        .bind(at)
        .bind(id)
        .bind(i64::from(limit));
        self.page(query, |row| {
            Ok(QueuedTurn {
                session: id_column(row, "turns", "session_id")?,
                turn: id_column(row, "turns", "id")?,
                created_at: Timestamp::from_millis(row.try_get("created_at")?),
            })
        })
        .await
    }

    /// How long the socket of a Session's ended Environment is still kept for the receipt of its Turn's cancel (D42).
    ///
    /// # Errors
    /// What the database says.
    pub async fn receipt_wait(&self, session: SessionId) -> Result<Option<Duration>, StoreError> {
        let Some(state) = self.state(session, &Parts::default()).await? else {
            return Ok(None);
        };
        Ok(receipt_wait(&state, self.store.now().await?))
    }

    /// Sessions with a claimed Turn that is not over, deleted ones included, behind a cursor, at most `limit`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn claimed_turns(
        &self,
        after: Option<SessionId>,
        limit: u32,
    ) -> Result<Vec<SessionId>, StoreError> {
        let query = sqlx::query(
            "SELECT session_id FROM turns WHERE live = 1 AND status <> 'queued' AND session_id > $1 \
             ORDER BY session_id LIMIT $2",
        )
        .bind(behind(after))
        .bind(i64::from(limit));
        self.page(query, |row| id_column(row, "turns", "session_id"))
            .await
    }

    /// Deleted Sessions with nothing owed any more, behind a cursor, oldest deletion first, at most `limit`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn sessions_to_purge(
        &self,
        after: Option<DeletedSession>,
        limit: u32,
    ) -> Result<Vec<DeletedSession>, StoreError> {
        let (at, id) = behind_both(after.map(|deleted| (deleted.deleted_at, deleted.session)));
        let query = sqlx::query(
            "SELECT s.id, s.deleted_at FROM sessions s WHERE s.deleted_at IS NOT NULL AND s.purged_at IS NULL \
             AND (s.deleted_at, s.id) > ($1, $2) \
             AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.session_id = s.id AND t.live = 1) \
             AND NOT EXISTS (SELECT 1 FROM bindings b WHERE b.session_id = s.id AND b.release_owed = 1) \
             AND NOT EXISTS (SELECT 1 FROM environments e JOIN allocations a ON a.environment_id = e.id \
             WHERE e.session_id = s.id AND a.phase <> 'released') \
             ORDER BY s.deleted_at, s.id LIMIT $3",
        )
        .bind(at)
        .bind(id)
        .bind(i64::from(limit));
        self.page(query, |row| {
            Ok(DeletedSession {
                session: id_column(row, "sessions", "id")?,
                deleted_at: Timestamp::from_millis(row.try_get("deleted_at")?),
            })
        })
        .await
    }

    /// Sessions with old deltas worth a write, behind a cursor, at most `limit` (SC-11.6).
    ///
    /// # Errors
    /// What the database says.
    pub async fn sessions_to_trim(
        &self,
        after: Option<SessionId>,
        limit: u32,
    ) -> Result<Vec<SessionId>, StoreError> {
        let query = sqlx::query(
            "SELECT id FROM sessions WHERE purged_at IS NULL \
             AND (last_event - trimmed_through > 512 OR delta_bytes > 67108864) AND id > $1 ORDER BY id LIMIT $2",
        )
        .bind(behind(after))
        .bind(i64::from(limit));
        self.page(query, |row| id_column(row, "sessions", "id"))
            .await
    }

    /// Environments with a connected Runtime whose initialization is pending, behind a cursor, at most `limit` (SC-8.1).
    ///
    /// # Errors
    /// What the database says.
    pub async fn environments_to_initialize(
        &self,
        after: Option<EnvironmentId>,
        limit: u32,
    ) -> Result<Vec<EnvironmentWork>, StoreError> {
        self.environments(
            "SELECT e.session_id, e.id FROM environments e JOIN sessions s ON s.id = e.session_id \
             WHERE e.initialization = 'pending' AND e.connection IN ('registered', 'connected') \
             AND e.status NOT IN ('failed', 'expired') AND s.deleted_at IS NULL \
             AND e.id > $1 ORDER BY e.id LIMIT $2",
            after,
            limit,
        )
        .await
    }

    /// Environments whose initialization was begun and is not over, behind a cursor, at most `limit` (SC-8.5).
    ///
    /// # Errors
    /// What the database says.
    pub async fn environments_begun(
        &self,
        after: Option<SessionId>,
        limit: u32,
    ) -> Result<Vec<EnvironmentWork>, StoreError> {
        self.environments(
            "SELECT session_id, id FROM environments WHERE initialization = 'running' \
             AND status NOT IN ('failed', 'expired') AND session_id > $1 ORDER BY session_id LIMIT $2",
            after,
            limit,
        )
        .await
    }

    /// Environments that were last seen with a socket, those of deleted Sessions included, behind a cursor, at most `limit`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn environments_observed(
        &self,
        after: Option<SessionId>,
        limit: u32,
    ) -> Result<Vec<Environment>, StoreError> {
        let query = sqlx::query(
            "SELECT body FROM environments WHERE connection IN ('registered', 'connected') \
             AND session_id > $1 ORDER BY session_id LIMIT $2",
        )
        .bind(behind(after))
        .bind(i64::from(limit));
        self.page(query, |row| json_column(row, "environments", "body"))
            .await
    }

    /// Live hosted Environments without an allocation, behind a cursor, at most `limit` (A1).
    ///
    /// # Errors
    /// What the database says.
    pub async fn environments_to_allocate(
        &self,
        after: Option<EnvironmentId>,
        limit: u32,
    ) -> Result<Vec<EnvironmentWork>, StoreError> {
        self.environments(
            "SELECT e.session_id, e.id FROM environments e JOIN sessions s ON s.id = e.session_id \
             WHERE e.kind = 'openai_hosted' AND e.status = 'pending' AND s.deleted_at IS NULL \
             AND NOT EXISTS (SELECT 1 FROM allocations a WHERE a.environment_id = e.id) \
             AND e.id > $1 ORDER BY e.id LIMIT $2",
            after,
            limit,
        )
        .await
    }

    async fn environments(
        &self,
        sql: &'static str,
        after: Option<impl ToString>,
        limit: u32,
    ) -> Result<Vec<EnvironmentWork>, StoreError> {
        let query = sqlx::query(sql).bind(behind(after)).bind(i64::from(limit));
        self.page(query, |row| {
            Ok(EnvironmentWork {
                session: id_column(row, "environments", "session_id")?,
                environment: id_column(row, "environments", "id")?,
            })
        })
        .await
    }

    /// Allocations that are not released, behind a cursor, at most `limit`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn allocations(
        &self,
        after: Option<&Allocation>,
        limit: u32,
    ) -> Result<Vec<Allocation>, StoreError> {
        let query = sqlx::query(
            "SELECT body FROM allocations WHERE phase <> 'released' AND id > $1 ORDER BY id LIMIT $2",
        )
        .bind(behind(after.map(|allocation| allocation.id)))
        .bind(i64::from(limit));
        self.page(query, |row| json_column(row, "allocations", "body"))
            .await
    }

    /// Bindings whose release a device has not acknowledged: sent again at each connect (RP-8.4).
    ///
    /// # Errors
    /// What the database says.
    pub async fn releases(&self, device: DeviceId) -> Result<Vec<Binding>, StoreError> {
        let query = sqlx::query(
            "SELECT body FROM bindings WHERE device_id = $1 AND release_owed = 1 ORDER BY id",
        )
        .bind(device.to_string());
        self.page(query, |row| json_column(row, "bindings", "body"))
            .await
    }

    /// Bindings of a device that are not released: what its daemon may serve.
    ///
    /// # Errors
    /// What the database says.
    pub async fn bindings(&self, device: DeviceId) -> Result<Vec<Binding>, StoreError> {
        let query = sqlx::query("SELECT body FROM bindings WHERE device_id = $1 ORDER BY id")
            .bind(device.to_string());
        let mut bindings: Vec<Binding> = self
            .page(query, |row| json_column(row, "bindings", "body"))
            .await?;
        bindings.retain(|binding| binding.release.is_none());
        Ok(bindings)
    }

    /// Sessions that a new owner must settle, behind a cursor, at most `limit`: claimed Turns, running initializations,
    /// open observations (units.md 3); deleted ones included.
    ///
    /// # Errors
    /// What the database says.
    pub async fn sessions_to_recover(
        &self,
        after: Option<SessionId>,
        limit: u32,
    ) -> Result<Vec<SessionId>, StoreError> {
        let query = sqlx::query(
            "SELECT session_id FROM turns WHERE live = 1 AND status <> 'queued' AND session_id > $1 \
             UNION SELECT session_id FROM environments WHERE session_id > $1 \
             AND (initialization = 'running' OR connection IN ('registered', 'connected')) \
             ORDER BY session_id LIMIT $2",
        )
        .bind(behind(after))
        .bind(i64::from(limit));
        self.page(query, |row| id_column(row, "turns", "session_id"))
            .await
    }
}
