//! Uploaded Files (`files-skills-vaults.md` 1). Rows hold what is shown; the bytes are blobs that are stored before the row
//! that names them.

use domain::{
    FileId, ProjectId, Refusal, Timestamp,
    blob::{BlobOwner, BlobScope},
    file::File,
};
use sqlx::{Row, any::AnyRow};

use crate::{
    blob_references,
    conn::Conn,
    convert::{count_column, id_column, int, parse_id},
    error::{StoreError, UnitError},
    provenance::{Author, Operation, Provenance, record},
    retries::{Creation, Namespace},
    tx::Tx,
    unit::Unit,
};

pub(crate) fn read(row: &AnyRow) -> Result<File, StoreError> {
    let id = id_column(row, "files", "id")?;
    let scope = BlobScope {
        project: id_column(row, "files", "project_id")?,
        owner: BlobOwner::File { id },
    };
    let digest = id_column(row, "files", "digest")?;
    Ok(File {
        id,
        created_at: Timestamp::from_millis(row.try_get("created_at")?),
        filename: row.try_get("filename")?,
        content: scope.stored(digest, count_column(row, "files", "size")?),
    })
}

/// A File of a Project.
pub(crate) async fn get(
    conn: &mut Conn,
    project: ProjectId,
    id: FileId,
) -> Result<Option<File>, StoreError> {
    let row = sqlx::query(
        "SELECT id, project_id, filename, digest, size, created_at FROM files WHERE id = $1 AND project_id = $2",
    )
    .bind(id.to_string())
    .bind(project.to_string())
    .fetch_optional(conn)
    .await?;
    row.map(|row| read(&row)).transpose()
}

/// Saves an uploaded File whose bytes are stored. Its time is taken from the database clock.
#[derive(Debug, Clone)]
pub struct CreateFile {
    /// The File; its time is replaced. Its owner is the Project of its bytes.
    pub file: File,
    /// The caller.
    pub provenance: Option<Provenance>,
}

impl Unit for CreateFile {
    const NAME: &'static str = "CreateFile";
    const LEASED: bool = false;
    type Answer = File;
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<File, UnitError<Refusal>> {
        let now = tx.now().await?;
        let file = File {
            created_at: now,
            ..self.file.clone()
        };
        let project = file.content.project;
        sqlx::query(
            "INSERT INTO files (id, project_id, filename, digest, size, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
        )
        .bind(file.id.to_string())
        .bind(project.to_string())
        .bind(file.filename.clone())
        .bind(file.content.digest.to_string())
        .bind(int(file.content.size)?)
        .bind(now.millis())
        .execute(&mut *tx.conn)
        .await?;
        blob_references::add(tx.conn, &file.content, &file.id.to_string()).await?;
        record(
            tx,
            project,
            self.provenance.as_ref(),
            Operation::new("create", "file", file.id),
        )
        .await?;
        Ok(file)
    }
}

impl Creation for CreateFile {
    fn makes(&self) -> (ProjectId, Namespace, String) {
        (
            self.file.content.project,
            Namespace::File,
            self.file.id.to_string(),
        )
    }

    async fn find(&self, tx: &mut Tx<'_>, id: &str) -> Result<Option<File>, StoreError> {
        let id = parse_id(id, "retries", "resource_id")?;
        get(tx.conn, self.file.content.project, id).await
    }
}

/// Deletes a File; copies of it live on (SRC-017, SRC-019). Its bytes go once nothing keeps them.
#[derive(Debug, Clone)]
pub struct DeleteFile {
    /// Owner.
    pub project: ProjectId,
    /// The File.
    pub id: FileId,
    /// The caller.
    pub by: Option<Author>,
}

impl Unit for DeleteFile {
    const NAME: &'static str = "DeleteFile";
    const LEASED: bool = false;
    type Answer = ();
    type Refusal = Refusal;

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), UnitError<Refusal>> {
        let done = sqlx::query("DELETE FROM files WHERE id = $1 AND project_id = $2")
            .bind(self.id.to_string())
            .bind(self.project.to_string())
            .execute(&mut *tx.conn)
            .await?;
        if done.rows_affected() == 0 {
            return Err(UnitError::Refused(Refusal::NotFound));
        }
        blob_references::release(tx.conn, &self.id.to_string()).await?;
        let operation = Operation::new("delete", "file", self.id);
        record(tx, self.project, self.by.as_ref(), operation).await?;
        Ok(())
    }
}
