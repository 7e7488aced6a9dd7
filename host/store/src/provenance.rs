//! Who wrote what: one record per successful public write (OPS-060 to OPS-063), one per administrator write (OPS-067).

use domain::{KeyId, ProjectId};
use uuid::Uuid;

use crate::{error::StoreError, tx::Tx};

/// The caller of a public write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The Project API key.
    pub key: KeyId,
    /// The request.
    pub request_id: Option<String>,
    /// Its trace.
    pub trace_id: Option<String>,
}

/// What was done, to which resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Verb of OPS-063.
    pub action: &'static str,
    /// Resource type of OPS-063.
    pub resource_type: &'static str,
    /// Its id.
    pub resource_id: String,
    /// The resource that it belongs to.
    pub parent_id: Option<String>,
}

impl Operation {
    /// An operation on a resource of its own.
    pub fn new(
        action: &'static str,
        resource_type: &'static str,
        resource_id: impl ToString,
    ) -> Self {
        Self {
            action,
            resource_type,
            resource_id: resource_id.to_string(),
            parent_id: None,
        }
    }

    /// The resource belongs to another one.
    #[must_use]
    pub fn of(mut self, parent: impl ToString) -> Self {
        self.parent_id = Some(parent.to_string());
        self
    }
}

/// Who does what both applications and administrators may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Author {
    /// An application.
    Key(Provenance),
    /// An administrator.
    Administrator(Administrator),
}

/// Whose write is recorded.
#[derive(Debug, Clone, Copy)]
pub enum By<'a> {
    /// An application's.
    Key(&'a Provenance),
    /// An administrator's.
    Administrator(&'a Administrator),
}

impl<'a> From<&'a Provenance> for By<'a> {
    fn from(by: &'a Provenance) -> Self {
        Self::Key(by)
    }
}

impl<'a> From<&'a Author> for By<'a> {
    fn from(by: &'a Author) -> Self {
        match by {
            Author::Key(by) => Self::Key(by),
            Author::Administrator(by) => Self::Administrator(by),
        }
    }
}

/// Records a write to a Project's resources in its own transaction, if somebody asked for it; if the record fails, the write
/// fails.
pub(crate) async fn record<'b>(
    tx: &mut Tx<'_>,
    project: ProjectId,
    by: Option<impl Into<By<'b>>>,
    operation: Operation,
) -> Result<(), StoreError> {
    match by.map(Into::into) {
        None => Ok(()),
        Some(By::Key(by)) => write(tx, project, by, operation).await,
        Some(By::Administrator(by)) => audit(tx, Some(project), by, operation).await,
    }
}

async fn write(
    tx: &mut Tx<'_>,
    project: ProjectId,
    by: &Provenance,
    operation: Operation,
) -> Result<(), StoreError> {
    let now = tx.now().await?;
    sqlx::query(
        "INSERT INTO write_operations (id, project_id, key_id, action, resource_type, resource_id, parent_id, \
         request_id, trace_id, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(Uuid::now_v7().to_string())
    .bind(project.to_string())
    .bind(by.key.to_string())
    .bind(operation.action)
    .bind(operation.resource_type)
    .bind(operation.resource_id)
    .bind(operation.parent_id)
    .bind(by.request_id.clone())
    .bind(by.trace_id.clone())
    .bind(now.millis())
    .execute(&mut *tx.conn)
    .await?;
    Ok(())
}

/// The administrator of a `/core/v1` write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Administrator {
    /// First eight hex digits of the Core key's digest.
    pub credential_id: String,
    /// Unverified label of the console.
    pub actor_label: Option<String>,
    /// The request.
    pub request_id: Option<String>,
    /// Its trace.
    pub trace_id: Option<String>,
}

/// Records an administrator write in its own transaction.
pub(crate) async fn audit(
    tx: &mut Tx<'_>,
    project: Option<ProjectId>,
    by: &Administrator,
    operation: Operation,
) -> Result<(), StoreError> {
    let now = tx.now().await?;
    sqlx::query(
        "INSERT INTO audit_log (id, project_id, admin_credential_id, actor_label, action, resource_type, resource_id, \
         request_id, trace_id, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(Uuid::now_v7().to_string())
    .bind(project.map(|id| id.to_string()))
    .bind(by.credential_id.clone())
    .bind(by.actor_label.clone())
    .bind(operation.action)
    .bind(operation.resource_type)
    .bind(operation.resource_id)
    .bind(by.request_id.clone())
    .bind(by.trace_id.clone())
    .bind(now.millis())
    .execute(&mut *tx.conn)
    .await?;
    Ok(())
}
