//! Who wrote what: provenance of a Project's resources, and the audit log (OPS-060 to OPS-068).

use domain::{KeyId, ProjectId, Timestamp};
use sqlx::{Row, any::AnyRow};

use super::Reader;
use crate::{convert::id_column, error::StoreError};

/// A key as it may be named beside a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedKey {
    /// Its id.
    pub id: KeyId,
    /// Its label; none if the key is gone.
    pub name: Option<String>,
    /// Its shown beginning.
    pub prefix: Option<String>,
}

/// One recorded write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the members of OPS-062 and OPS-067")]
pub struct Record {
    pub id: String,
    pub created_at: Timestamp,
    /// Of a public write.
    pub key: Option<RecordedKey>,
    /// Of an administrator's write.
    pub administrator: Option<(String, Option<String>)>,
    pub project: Option<ProjectId>,
    pub action: String,
    pub resource_type: String,
    pub resource_id: String,
    pub parent_id: Option<String>,
    pub request_id: Option<String>,
    pub trace_id: Option<String>,
}

/// Which records are wanted, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the filters of OPS-065 and OPS-067")]
pub struct RecordFilter {
    pub key_id: Option<String>,
    pub action: Option<String>,
    pub resource_type: Option<String>,
    pub resource_id: Option<String>,
    /// Inclusive.
    pub created_after: Option<Timestamp>,
    /// Exclusive.
    pub created_before: Option<Timestamp>,
    /// Time and id of the record after which to go on.
    pub after: Option<(Timestamp, String)>,
    /// Most records; one more is read to learn whether something follows.
    pub limit: u32,
}

impl RecordFilter {
    /// The filters as every statement binds them: empty text and the ends of time stand for "any".
    fn bound(&self) -> Bound {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let (at, id) = match &self.after {
            Some((at, id)) => (at.millis(), id.clone()),
            None => (i64::MAX, "~".to_owned()),
        };
        Bound {
            texts: [
                text(&self.key_id),
                text(&self.action),
                text(&self.resource_type),
                text(&self.resource_id),
            ],
            from: self.created_after.map_or(i64::MIN, Timestamp::millis),
            until: self.created_before.map_or(i64::MAX, Timestamp::millis),
            at,
            id,
            limit: i64::from(self.limit) + 1,
        }
    }
}

struct Bound {
    texts: [String; 4],
    from: i64,
    until: i64,
    at: i64,
    id: String,
    limit: i64,
}

/// Public writes of a Project.
const OF_PROJECT: &str = "SELECT w.id, w.key_id, w.action, w.resource_type, w.resource_id, w.parent_id, w.request_id, w.trace_id, \
     w.created_at, k.name AS key_name, k.prefix AS key_prefix FROM write_operations w \
     LEFT JOIN api_keys k ON k.id = w.key_id WHERE w.project_id = $1 AND $5 = '' AND ($2 = '' OR w.key_id = $2) \
     AND ($3 = '' OR w.action = $3) AND ($4 = '' OR w.resource_type = $4) \
     AND w.created_at >= $6 AND w.created_at < $7 AND (w.created_at, w.id) < ($8, $9) \
     ORDER BY w.created_at DESC, w.id DESC LIMIT $10";

/// The same of one resource, by an index of its own: it has few among very many. The `+` keeps SQLite from the index by time.
const OF_RESOURCE: &str = "SELECT w.id, w.key_id, w.action, w.resource_type, w.resource_id, w.parent_id, w.request_id, w.trace_id, \
     w.created_at, k.name AS key_name, k.prefix AS key_prefix FROM write_operations w \
     LEFT JOIN api_keys k ON k.id = w.key_id WHERE w.project_id = $1 AND w.resource_id = $5 AND ($2 = '' OR w.key_id = $2) \
     AND ($3 = '' OR w.action = $3) AND ($4 = '' OR w.resource_type = $4) \
     AND +w.created_at >= $6 AND +w.created_at < $7 AND (w.created_at, w.id) < ($8, $9) \
     ORDER BY w.created_at DESC, w.id DESC LIMIT $10";

impl Reader<'_> {
    /// Public writes of a Project, newest first; one more than asked for if something follows.
    ///
    /// # Errors
    /// What the database says.
    pub async fn write_operations(
        &self,
        project: ProjectId,
        filter: &RecordFilter,
    ) -> Result<Vec<Record>, StoreError> {
        let bound = filter.bound();
        let mut conn = self.connection().await?;
        let [key, action, kind, resource] = bound.texts;
        let statement = if resource.is_empty() {
            OF_PROJECT
        } else {
            OF_RESOURCE
        };
        let rows = sqlx::query(statement)
            .bind(project.to_string())
            .bind(key)
            .bind(action)
            .bind(kind)
            .bind(resource)
            .bind(bound.from)
            .bind(bound.until)
            .bind(bound.at)
            .bind(bound.id)
            .bind(bound.limit)
            .fetch_all(&mut conn)
            .await?;
        rows.iter().map(|row| written(row, project)).collect()
    }

    /// The creation records of resources of one type, in the order of the ids; none where nothing is known (OPS-064).
    ///
    /// # Errors
    /// What the database says.
    pub async fn resource_owners(
        &self,
        project: ProjectId,
        resource_type: &str,
        ids: &[String],
    ) -> Result<Vec<Option<Record>>, StoreError> {
        let mut conn = self.connection().await?;
        let mut owners = Vec::with_capacity(ids.len());
        for id in ids {
            let row = sqlx::query(
                "SELECT w.id, w.key_id, w.action, w.resource_type, w.resource_id, w.parent_id, w.request_id, w.trace_id, \
                 w.created_at, k.name AS key_name, k.prefix AS key_prefix FROM write_operations w \
                 LEFT JOIN api_keys k ON k.id = w.key_id WHERE w.project_id = $1 AND w.resource_type = $2 \
                 AND w.resource_id = $3 AND w.action IN ('create', 'upload_version') ORDER BY w.created_at, w.id LIMIT 1",
            )
            .bind(project.to_string())
            .bind(resource_type.to_owned())
            .bind(id.clone())
            .fetch_optional(&mut conn)
            .await?;
            owners.push(row.map(|row| written(&row, project)).transpose()?);
        }
        Ok(owners)
    }

    /// Administrator writes, newest first, of one Project if named; one more than asked for if something follows.
    ///
    /// # Errors
    /// What the database says.
    pub async fn audit_log(
        &self,
        project: Option<ProjectId>,
        filter: &RecordFilter,
    ) -> Result<Vec<Record>, StoreError> {
        let bound = filter.bound();
        let mut conn = self.connection().await?;
        let [_, action, kind, resource] = bound.texts;
        let rows = sqlx::query(
            "SELECT id, project_id, admin_credential_id, actor_label, action, resource_type, resource_id, request_id, \
             trace_id, created_at FROM audit_log WHERE ($1 = '' OR project_id = $1) AND ($2 = '' OR action = $2) \
             AND ($3 = '' OR resource_type = $3) AND ($4 = '' OR resource_id = $4) AND created_at >= $5 \
             AND created_at < $6 AND (created_at, id) < ($7, $8) ORDER BY created_at DESC, id DESC LIMIT $9",
        )
        .bind(project.map(|id| id.to_string()).unwrap_or_default())
        .bind(action)
        .bind(kind)
        .bind(resource)
        .bind(bound.from)
        .bind(bound.until)
        .bind(bound.at)
        .bind(bound.id)
        .bind(bound.limit)
        .fetch_all(&mut conn)
        .await?;
        rows.iter().map(audited).collect()
    }
}

fn written(row: &AnyRow, project: ProjectId) -> Result<Record, StoreError> {
    Ok(Record {
        key: Some(RecordedKey {
            id: id_column(row, "write_operations", "key_id")?,
            name: row.try_get("key_name")?,
            prefix: row.try_get("key_prefix")?,
        }),
        administrator: None,
        project: Some(project),
        parent_id: row.try_get("parent_id")?,
        ..common(row)?
    })
}

fn audited(row: &AnyRow) -> Result<Record, StoreError> {
    let project: Option<String> = row.try_get("project_id")?;
    let project = project.map(|text| crate::convert::parse_id(&text, "audit_log", "project_id"));
    Ok(Record {
        administrator: Some((
            row.try_get("admin_credential_id")?,
            row.try_get("actor_label")?,
        )),
        project: project.transpose()?,
        ..common(row)?
    })
}

fn common(row: &AnyRow) -> Result<Record, StoreError> {
    Ok(Record {
        id: row.try_get("id")?,
        created_at: Timestamp::from_millis(row.try_get("created_at")?),
        key: None,
        administrator: None,
        project: None,
        action: row.try_get("action")?,
        resource_type: row.try_get("resource_type")?,
        resource_id: row.try_get("resource_id")?,
        parent_id: None,
        request_id: row.try_get("request_id")?,
        trace_id: row.try_get("trace_id")?,
    })
}
