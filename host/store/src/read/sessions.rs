//! Sessions as the API shows them: facts for the projection, configuration, newest event.

use domain::{
    ProjectId, SessionId, SessionState,
    configuration::SessionConfiguration,
    environment::Environment,
    reservation::Reservation,
    session::Session,
    turn::{Turn, TurnStatus},
};
use sqlx::any::AnyRow;

use super::{
    Reader,
    list::{List, ListError, Page, page},
};
use crate::{
    calls,
    configurations::{self, ConfigurationSecrets},
    conn::Conn,
    convert::{count_column, json_column, optional_json_column, parse_id},
    error::StoreError,
    load::{Parts, load},
    retries::{self, Namespace},
};

/// A Session with what its projection depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// Session, Environment, newest reservation (without its messages), newest root Turn, open calls.
    pub state: SessionState,
    /// The frozen configuration.
    pub configuration: SessionConfiguration,
    /// Number of the newest event of the same snapshot.
    pub last_event: u64,
}

/// Who made a Session under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreationRecord {
    /// Digest of the request.
    pub digest: String,
    /// The Session.
    pub session: SessionId,
}

/// What the status of a Session depends on but its calls; `s` is the Session.
macro_rules! state_columns {
    () => {
        "s.body AS session, \
         (SELECT e.body FROM environments e WHERE e.session_id = s.id) AS environment, \
         (SELECT r.body FROM reservations r WHERE r.session_id = s.id ORDER BY r.work_seq DESC LIMIT 1) AS reservation, \
         (SELECT t.body FROM turns t WHERE t.session_id = s.id ORDER BY t.work_seq DESC LIMIT 1) AS turn"
    };
}
pub(super) use state_columns;

/// Everything that a record needs, in one statement; `c` is the Session's configuration.
macro_rules! record_columns {
    () => {
        concat!(
            state_columns!(),
            ", s.last_event AS last_event, c.body AS configuration"
        )
    };
}

const RECORD: &str = concat!(
    "SELECT ",
    record_columns!(),
    " FROM sessions s JOIN configurations c ON c.id = s.configuration_id \
     WHERE s.id = $1 AND s.project_id = $2 AND s.deleted_at IS NULL"
);

macro_rules! session_list {
    ($filter:literal) => {
        super::list::ListSql {
            // A cursor is of the list of the Project, whatever the filter.
            cursor: "SELECT s.created_at AS number, s.id AS id FROM sessions s \
                     WHERE s.project_id = $1 AND s.deleted_at IS NULL AND s.id = $2",
            ascending: concat!(
                "SELECT ", record_columns!(), " FROM sessions s JOIN configurations c ON c.id = s.configuration_id \
                 WHERE s.project_id = $1 AND s.deleted_at IS NULL", $filter,
                " AND (s.created_at, s.id) > ($2, $3) ORDER BY s.created_at, s.id LIMIT $4"
            ),
            descending: concat!(
                "SELECT ", record_columns!(), " FROM sessions s JOIN configurations c ON c.id = s.configuration_id \
                 WHERE s.project_id = $1 AND s.deleted_at IS NULL", $filter,
                " AND (s.created_at, s.id) < ($2, $3) ORDER BY s.created_at DESC, s.id DESC LIMIT $4"
            ),
        }
    };
}

impl Reader<'_> {
    /// A live Session of a Project.
    ///
    /// # Errors
    /// What the database says.
    pub async fn session(
        &self,
        project: ProjectId,
        id: SessionId,
    ) -> Result<Option<SessionRecord>, StoreError> {
        let mut conn = self.connection().await?;
        let found = record(&mut conn, project, id).await?;
        match found {
            // Its calls are rows of their own: read both in one snapshot.
            Some(record) if waits(&record) => {}
            other => return Ok(other),
        }
        drop(conn);
        let mut snapshot = self.snapshot().await?;
        let mut found = record(&mut snapshot, project, id).await?;
        if let Some(record) = &mut found {
            add_calls(&mut snapshot, record).await?;
        }
        snapshot.end().await?;
        Ok(found)
    }

    /// The live Sessions of a Project by creation, of one Agent if named (W-LIST-8).
    ///
    /// # Errors
    /// [`ListError::UnknownCursor`], or what the database says.
    pub async fn sessions(
        &self,
        project: ProjectId,
        agent: Option<&str>,
        list: &List,
    ) -> Result<Page<SessionRecord>, ListError> {
        let sql = match agent {
            None => session_list!(""),
            Some(_) => session_list!(" AND s.agent_id = $5"),
        };
        let mut snapshot = self.snapshot().await?;
        let mut found = page(
            &mut snapshot,
            &sql,
            &project.to_string(),
            agent,
            list,
            read_record,
        )
        .await?;
        for record in &mut found.items {
            if waits(record) {
                add_calls(&mut snapshot, record).await?;
            }
        }
        snapshot.end().await?;
        Ok(found)
    }

    /// One Session's aggregate in one snapshot, deleted ones included: what an actor re-reads.
    ///
    /// # Errors
    /// What the database says.
    pub async fn state(
        &self,
        id: SessionId,
        parts: &Parts,
    ) -> Result<Option<SessionState>, StoreError> {
        let mut snapshot = self.snapshot().await?;
        let found = load(&mut snapshot, id, parts).await?;
        snapshot.end().await?;
        Ok(found.map(|(state, _)| state))
    }

    /// Who made a Session under this key (W-IDEM-8).
    ///
    /// # Errors
    /// What the database says.
    pub async fn creation(
        &self,
        project: ProjectId,
        key: &str,
    ) -> Result<Option<CreationRecord>, StoreError> {
        let mut conn = self.connection().await?;
        let found = retries::holder(&mut conn, project, Namespace::Session, key).await?;
        found
            .map(|holder| {
                let session = parse_id(&holder.resource, "retries", "resource_id")?;
                Ok(CreationRecord {
                    digest: holder.digest,
                    session,
                })
            })
            .transpose()
    }

    /// The frozen configuration of a Session, deleted ones not yet purged included.
    ///
    /// # Errors
    /// What the database says.
    pub async fn configuration(
        &self,
        id: SessionId,
    ) -> Result<Option<SessionConfiguration>, StoreError> {
        let mut conn = self.connection().await?;
        let row = sqlx::query(
            "SELECT c.body FROM sessions s JOIN configurations c ON c.id = s.configuration_id \
             WHERE s.id = $1 AND s.purged_at IS NULL",
        )
        .bind(id.to_string())
        .fetch_optional(&mut conn)
        .await?;
        row.map(|row| json_column(&row, "configurations", "body"))
            .transpose()
    }

    /// The opened secrets of a Session's configuration, at the point of use.
    ///
    /// # Errors
    /// What the database says, or that a snapshot does not open (MDL-031).
    pub async fn configuration_secrets(
        &self,
        project: ProjectId,
        id: SessionId,
    ) -> Result<Option<ConfigurationSecrets>, StoreError> {
        let mut conn = self.connection().await?;
        configurations::secrets(&mut conn, &self.store.inner.settings.keys, project, id).await
    }
}

async fn record(
    conn: &mut Conn,
    project: ProjectId,
    id: SessionId,
) -> Result<Option<SessionRecord>, StoreError> {
    let row = sqlx::query(RECORD)
        .bind(id.to_string())
        .bind(project.to_string())
        .fetch_optional(conn)
        .await?;
    row.map(|row| read_record(&row)).transpose()
}

/// Reads [`state_columns`].
pub(super) fn read_state(row: &AnyRow) -> Result<SessionState, StoreError> {
    let session: Session = json_column(row, "sessions", "session")?;
    let environment: Option<Environment> =
        optional_json_column(row, "environments", "environment")?;
    let reservation: Option<Reservation> =
        optional_json_column(row, "reservations", "reservation")?;
    let turn: Option<Turn> = optional_json_column(row, "turns", "turn")?;
    Ok(SessionState {
        environment,
        reservation,
        turn,
        ..SessionState::of(session)
    })
}

fn read_record(row: &AnyRow) -> Result<SessionRecord, StoreError> {
    Ok(SessionRecord {
        state: read_state(row)?,
        configuration: json_column(row, "configurations", "configuration")?,
        last_event: count_column(row, "sessions", "last_event")?,
    })
}

fn waits(record: &SessionRecord) -> bool {
    record
        .state
        .turn
        .as_ref()
        .is_some_and(|turn| turn.status() == TurnStatus::Waiting)
}

async fn add_calls(conn: &mut Conn, record: &mut SessionRecord) -> Result<(), StoreError> {
    if let Some(turn) = &record.state.turn {
        record.state.calls = calls::open(conn, turn.id).await?;
    }
    Ok(())
}
