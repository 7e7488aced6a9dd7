//! Turns, Items, events, Environments and Artifacts of a Session.

use domain::input::Input;
use domain::item::{ItemBody, UserMessage};
use domain::{
    ArtifactId, EnvironmentId, ItemId, ProjectId, ReservationId, SessionId, TurnId,
    artifact::Artifact, configuration::SessionConfiguration, environment::Environment, item::Item,
    reservation::ReservationState, run::NativeSession, session::Session, turn::Turn,
};
use sqlx::Row;

use super::{
    Reader,
    list::{List, ListError, Page, list_sql, page},
};
use crate::{
    artifacts,
    convert::{count_column, int, json_column},
    error::StoreError,
    events::{self, StoredEvent},
    items, reservations, turns,
};

/// An Environment with its Session (ENV-039).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentRecord {
    /// The Environment.
    pub environment: Environment,
    /// Its Session.
    pub session: Session,
    /// What the Session froze.
    pub configuration: SessionConfiguration,
}

/// A Turn with its first Items, for diagnostics (S-DIA-3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRecord {
    /// The Turn.
    pub turn: Turn,
    /// Its Items by position, at most as many as asked for.
    pub items: Vec<Item>,
    /// There are more.
    pub truncated: bool,
}

impl Reader<'_> {
    /// A root Turn of a live Session of a Project.
    ///
    /// # Errors
    /// What the database says.
    pub async fn turn(
        &self,
        project: ProjectId,
        session: SessionId,
        id: TurnId,
    ) -> Result<Option<Turn>, StoreError> {
        let mut conn = self.connection().await?;
        let row = sqlx::query(
            "SELECT t.body FROM turns t JOIN sessions s ON s.id = t.session_id \
             WHERE t.id = $1 AND s.id = $2 AND s.project_id = $3 AND s.deleted_at IS NULL",
        )
        .bind(id.to_string())
        .bind(session.to_string())
        .bind(project.to_string())
        .fetch_optional(&mut conn)
        .await?;
        row.map(|row| json_column(&row, "turns", "body"))
            .transpose()
    }

    /// Whether a live Session of a Project exists: before its lists are read.
    ///
    /// # Errors
    /// What the database says.
    pub async fn session_exists(
        &self,
        project: ProjectId,
        session: SessionId,
    ) -> Result<bool, StoreError> {
        let mut conn = self.connection().await?;
        let row = sqlx::query(
            "SELECT id FROM sessions WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL",
        )
        .bind(session.to_string())
        .bind(project.to_string())
        .fetch_optional(&mut conn)
        .await?;
        Ok(row.is_some())
    }

    /// The root Turns of a Session by creation (S-TURN-5).
    ///
    /// # Errors
    /// [`ListError::UnknownCursor`], or what the database says.
    pub async fn turns(&self, session: SessionId, list: &List) -> Result<Page<Turn>, ListError> {
        let sql = list_sql!("body", "turns WHERE session_id = $1", "created_at", "id");
        let mut conn = self.connection().await.map_err(ListError::Store)?;
        page(&mut conn, &sql, &session.to_string(), None, list, |row| {
            json_column(row, "turns", "body")
        })
        .await
    }

    /// The Items of a Session by position (S-ITEM-1), of one Turn if named.
    ///
    /// # Errors
    /// [`ListError::UnknownCursor`], or what the database says.
    pub async fn items(
        &self,
        session: SessionId,
        turn: Option<TurnId>,
        list: &List,
    ) -> Result<Page<Item>, ListError> {
        let mut conn = self.connection().await.map_err(ListError::Store)?;
        let (session, turn) = (session.to_string(), turn.map(|turn| turn.to_string()));
        let sql = match turn {
            None => list_sql!("body", "items WHERE session_id = $1", "position", "id"),
            Some(_) => list_sql!(
                "body",
                "items WHERE session_id = $1 AND turn_id = $5",
                "items WHERE session_id = $1",
                "position",
                "id"
            ),
        };
        page(&mut conn, &sql, &session, turn.as_deref(), list, |row| {
            json_column(row, "items", "body")
        })
        .await
    }

    /// A Turn with its first Items, in one snapshot.
    ///
    /// # Errors
    /// What the database says.
    pub async fn turn_record(
        &self,
        project: ProjectId,
        session: SessionId,
        id: TurnId,
        limit: u32,
    ) -> Result<Option<TurnRecord>, StoreError> {
        let mut snapshot = self.snapshot().await?;
        let row = sqlx::query(
            "SELECT t.body FROM turns t JOIN sessions s ON s.id = t.session_id \
             WHERE t.id = $1 AND s.id = $2 AND s.project_id = $3 AND s.deleted_at IS NULL",
        )
        .bind(id.to_string())
        .bind(session.to_string())
        .bind(project.to_string())
        .fetch_optional(&mut *snapshot)
        .await?;
        let Some(row) = row else {
            snapshot.end().await?;
            return Ok(None);
        };
        let turn = json_column(&row, "turns", "body")?;
        let mut items = items::of_turn(&mut snapshot, id, limit.saturating_add(1)).await?;
        snapshot.end().await?;
        let truncated = items.len() > usize::try_from(limit).unwrap_or(usize::MAX);
        items.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(Some(TurnRecord {
            turn,
            items,
            truncated,
        }))
    }

    /// Events after a number: at most 32 or about 1 MiB at a time (SC-11.6).
    ///
    /// # Errors
    /// What the database says.
    pub async fn events_after(
        &self,
        session: SessionId,
        number: u64,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let mut conn = self.connection().await?;
        events::after(&mut conn, session, number, 32, 1 << 20).await
    }

    /// Number of the newest event of a live Session; none for a deleted or missing one.
    ///
    /// # Errors
    /// What the database says.
    pub async fn last_event(&self, session: SessionId) -> Result<Option<u64>, StoreError> {
        let mut conn = self.connection().await?;
        let row =
            sqlx::query("SELECT last_event FROM sessions WHERE id = $1 AND deleted_at IS NULL")
                .bind(session.to_string())
                .fetch_optional(&mut conn)
                .await?;
        row.map(|row| count_column(&row, "sessions", "last_event"))
            .transpose()
    }

    /// An Environment of a live Session of a Project.
    ///
    /// # Errors
    /// What the database says.
    pub async fn environment(
        &self,
        project: ProjectId,
        id: EnvironmentId,
    ) -> Result<Option<EnvironmentRecord>, StoreError> {
        let mut conn = self.connection().await?;
        let row = sqlx::query(
            "SELECT e.body AS environment, s.body AS session, c.body AS configuration FROM environments e \
             JOIN sessions s ON s.id = e.session_id JOIN configurations c ON c.id = s.configuration_id \
             WHERE e.id = $1 AND s.project_id = $2 AND s.deleted_at IS NULL",
        )
        .bind(id.to_string())
        .bind(project.to_string())
        .fetch_optional(&mut conn)
        .await?;
        row.map(|row| {
            Ok(EnvironmentRecord {
                environment: json_column(&row, "environments", "environment")?,
                session: json_column(&row, "sessions", "session")?,
                configuration: json_column(&row, "configurations", "configuration")?,
            })
        })
        .transpose()
    }

    /// Messages of a Turn with their content, in order of admission: what a Run is given (I10).
    ///
    /// # Errors
    /// What the database says.
    pub async fn messages(&self, turn: TurnId) -> Result<Vec<(Input, UserMessage)>, StoreError> {
        let mut conn = self.connection().await?;
        let inputs = turns::inputs(&mut conn, turn).await?;
        let mut messages = Vec::with_capacity(inputs.len());
        for input in inputs {
            let item = items::get(&mut conn, input.item_id).await?;
            messages.push((input, user_message(item.map(|item| item.body))?));
        }
        Ok(messages)
    }

    /// The content of one admitted message.
    ///
    /// # Errors
    /// What the database says.
    pub async fn message(&self, item: ItemId) -> Result<UserMessage, StoreError> {
        let mut conn = self.connection().await?;
        let item = items::get(&mut conn, item).await?;
        user_message(item.map(|item| item.body))
    }

    /// How a reservation stands: what a waiting request polls (S-RES-3), so its texts are left alone.
    ///
    /// # Errors
    /// What the database says.
    pub async fn reservation_state(
        &self,
        id: ReservationId,
    ) -> Result<Option<ReservationState>, StoreError> {
        let mut conn = self.connection().await?;
        reservations::state(&mut conn, id).await
    }

    /// A remaining Artifact of a live Session of a Project.
    ///
    /// # Errors
    /// What the database says.
    pub async fn artifact(
        &self,
        project: ProjectId,
        session: SessionId,
        id: ArtifactId,
    ) -> Result<Option<Artifact>, StoreError> {
        let mut conn = self.connection().await?;
        let row = sqlx::query(
            "SELECT a.id, a.session_id, a.turn_id, a.environment_id, a.path, a.digest, a.size, a.created_at, a.deleted_at \
             FROM artifacts a JOIN sessions s ON s.id = a.session_id \
             WHERE a.id = $1 AND a.deleted_at IS NULL AND s.id = $2 AND s.project_id = $3 AND s.deleted_at IS NULL",
        )
        .bind(id.to_string())
        .bind(session.to_string())
        .bind(project.to_string())
        .fetch_optional(&mut conn)
        .await?;
        row.map(|row| artifacts::read(&row)).transpose()
    }

    /// Of the remaining Artifacts of a Session the newest of each path.
    ///
    /// # Errors
    /// What the database says.
    pub async fn newest_artifacts(&self, session: SessionId) -> Result<Vec<Artifact>, StoreError> {
        let mut conn = self.connection().await?;
        artifacts::newest(&mut conn, session).await
    }

    /// The remaining Artifacts of a Session by publication, of one Environment if named.
    ///
    /// # Errors
    /// [`ListError::UnknownCursor`], or what the database says.
    pub async fn artifacts(
        &self,
        session: SessionId,
        environment: Option<EnvironmentId>,
        list: &List,
    ) -> Result<Page<Artifact>, ListError> {
        let sql = match environment {
            None => list_sql!(
                "id, session_id, turn_id, environment_id, path, digest, size, created_at, deleted_at",
                "artifacts WHERE session_id = $1 AND deleted_at IS NULL",
                "created_at",
                "id"
            ),
            // A cursor is of the list of the Session, whatever the filter (ART-030).
            Some(_) => list_sql!(
                "id, session_id, turn_id, environment_id, path, digest, size, created_at, deleted_at",
                "artifacts WHERE session_id = $1 AND deleted_at IS NULL AND environment_id = $5",
                "artifacts WHERE session_id = $1 AND deleted_at IS NULL",
                "created_at",
                "id"
            ),
        };
        let mut conn = self.connection().await.map_err(ListError::Store)?;
        let (session, environment) = (session.to_string(), environment.map(|id| id.to_string()));
        let filter = environment.as_deref();
        page(&mut conn, &sql, &session, filter, list, artifacts::read).await
    }

    /// The native session to continue with, and whether a Turn of the Session may have begun natively (S-TURN-8, RP-10.18):
    /// one whose Start was certainly never sent or was refused left no history to look for.
    ///
    /// # Errors
    /// What the database says.
    pub async fn native_session(
        &self,
        session: SessionId,
    ) -> Result<(Option<NativeSession>, bool), StoreError> {
        const PAGE: usize = 16;
        let mut conn = self.connection().await?;
        let (mut before, mut started) = (i64::MAX, false);
        loop {
            let rows = sqlx::query(
                "SELECT work_seq, body FROM turns WHERE session_id = $1 AND work_seq < $2 ORDER BY work_seq DESC LIMIT $3",
            )
            .bind(session.to_string())
            .bind(before)
            .bind(int(PAGE as u64)?)
            .fetch_all(&mut conn)
            .await?;
            for row in &rows {
                let turn: Turn = json_column(row, "turns", "body")?;
                started |= turn.started_at.is_some() && !turn.never_began;
                if turn.native_session.is_some() {
                    return Ok((turn.native_session, started));
                }
                before = row.try_get("work_seq")?;
            }
            if rows.len() < PAGE {
                return Ok((None, started));
            }
        }
    }
}

/// What a message of a Turn must be.
fn user_message(body: Option<ItemBody>) -> Result<UserMessage, StoreError> {
    match body {
        Some(ItemBody::UserMessage(message)) => Ok(message),
        _ => Err(StoreError::Corrupt {
            table: "items",
            column: "body",
        }),
    }
}
