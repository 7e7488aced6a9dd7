//! Files (`files-skills-vaults.md` 1): upload, read, list, delete. Their bytes stream into storage and are never given back.

use blobs::{BlobError, BlobWriter};
use domain::blob::{BlobOwner, BlobScope};
use domain::file::{self, File};
use domain::{FileId, Timestamp};
use store::files::{CreateFile, DeleteFile};

use super::call::{Call, Reply};
use super::content::{creation_failed, discard_unused, missing, write_failed};
use super::error::{ApiError, ContentError};
use super::failure::read_failed;
use super::idempotency;
use super::lists::{list as store_list, list_failed};
use super::multipart::{Part, Upload};
use super::render::{self, Deleted, List};

/// What a form may be longer than its file (SRC-004).
const FORM: u64 = 64 * 1024;
const STORAGE: ContentError = ContentError::Storage("file_storage_unavailable");

/// `POST /files`
pub(crate) async fn create(mut call: Call) -> Result<Reply, ApiError> {
    let project = call.project()?;
    let body = call.take_body();
    let mut upload = Upload::open(&call.parts.headers, body, file::MAX_BYTES + FORM)?;
    let (filename, writer) = match receive(&call, &mut upload).await {
        Ok(received) => received,
        Err(error) => {
            upload.drain().await;
            return Err(error);
        }
    };
    let id = FileId::new(uuid::Uuid::new_v4());
    let owner = BlobOwner::File { id };
    let content = writer
        .finish_for(BlobScope { project, owner })
        .await
        .map_err(|error| storage(&error))?;
    let file = File {
        id,
        // The unit replaces it by the database clock.
        created_at: Timestamp::from_millis(0),
        filename,
        content,
    };
    let retry = idempotency::retry(&call, &(&file.filename, file.content.digest), &[])?;
    let provenance = call.provenance();
    let bytes = file.content;
    let unit = CreateFile { file, provenance };
    let made = idempotency::write(&call, unit, retry).await;
    discard_unused(&call, &made, &bytes, |file| file.id != id).await;
    let file = made.map_err(|failed| creation_failed(failed, Some("id")))?;
    Reply::ok(&render::file::file(&file))
}

/// Everything that a form may hold, each once, in any order (SRC-002, SRC-003, SRC-006, SRC-007).
async fn receive(call: &Call, upload: &mut Upload) -> Result<(String, BlobWriter), ApiError> {
    let (mut file, mut purpose) = (None, None);
    while let Some(part) = upload.next().await? {
        match part.name() {
            "purpose" if purpose.is_none() => {
                let text = part.text("purpose").await?;
                if text != file::PURPOSE {
                    let message = "Only files of purpose 'user_data' can be uploaded.";
                    return Err(ContentError::upload(Some("purpose"), message).into());
                }
                purpose = Some(text);
            }
            "file" if file.is_none() => file = Some(store(call, part).await?),
            "purpose" => return Err(repeated("purpose")),
            "file" => return Err(repeated("file")),
            name if name.starts_with("expires_after") => {
                let message = "Files with an expiry are not supported.";
                return Err(ContentError::upload(Some("expires_after"), message).into());
            }
            _ => {
                let message = "The form may hold only 'file' and 'purpose'.";
                return Err(ContentError::upload(None, message).into());
            }
        }
    }
    purpose.ok_or_else(|| required("purpose"))?;
    file.ok_or_else(|| required("file"))
}

/// Streams the one file into storage; it has no name there before the form is whole.
async fn store(call: &Call, mut part: Part) -> Result<(String, BlobWriter), ApiError> {
    let filename = part.filename().filter(|name| file::is_filename(name));
    let filename = filename.map(str::to_owned).ok_or_else(|| {
        let message = "'file' needs a filename of 1 to 1024 bytes of UTF-8 text.";
        ContentError::upload(Some("file"), message)
    })?;
    let writer = call.core.blobs.put(file::MAX_BYTES).await;
    let mut writer = writer.map_err(|error| storage(&error))?;
    while let Some(bytes) = part.chunk().await? {
        writer
            .write(&bytes)
            .await
            .map_err(|error| storage(&error))?;
    }
    Ok((filename, writer))
}

fn required(part: &'static str) -> ApiError {
    ContentError::upload(Some(part), format!("Missing required parameter: '{part}'.")).into()
}

fn repeated(part: &'static str) -> ApiError {
    ContentError::upload(Some(part), format!("'{part}' must be given once.")).into()
}

fn storage(error: &BlobError) -> ApiError {
    match error {
        BlobError::TooLong { .. } => ContentError::TooLarge.into(),
        _ => {
            tracing::error!(%error, "a file could not be stored");
            STORAGE.into()
        }
    }
}

/// `GET /files`
pub(crate) async fn list(call: Call) -> Result<Reply, ApiError> {
    let project = call.scope()?;
    let purpose = call.page.filter("purpose").unwrap_or_default();
    let purpose = std::str::from_utf8(purpose).map_err(|_| ContentError::Purpose)?;
    if !purpose.is_empty() && !file::PURPOSES.contains(&purpose) {
        return Err(ContentError::Purpose.into());
    }
    let page = store_list(&call.page, FileId::NEVER);
    let found = call.core.store.read().files(project, &page).await;
    let found = found.map_err(|error| list_failed(error, missing(Some("after"))))?;
    // SRC-013: nothing else is ever stored.
    let is_stored = matches!(purpose, "" | file::PURPOSE);
    let shown = found
        .items
        .iter()
        .filter(|_| is_stored)
        .map(|file| (file.id.to_string(), render::file::file(file)))
        .collect();
    Reply::ok(&List::new(shown, found.has_more && is_stored))
}

/// `GET /files/{file_id}`
pub(crate) async fn read(call: Call) -> Result<Reply, ApiError> {
    Reply::ok(&render::file::file(&existing(&call).await?))
}

/// `GET /files/{file_id}/content`
pub(crate) async fn content(call: Call) -> Result<Reply, ApiError> {
    existing(&call).await?;
    Err(ContentError::NotDownloadable.into())
}

/// `DELETE /files/{file_id}`
pub(crate) async fn delete(call: Call) -> Result<Reply, ApiError> {
    let id: FileId = call.id("file_id");
    let unit = DeleteFile {
        project: call.scope()?,
        id,
        by: call.author()?,
    };
    let done = call.core.store.write(unit).await;
    done.map_err(|error| write_failed(error, Some("id")))?;
    Reply::ok(&Deleted::new(id, "file"))
}

async fn existing(call: &Call) -> Result<File, ApiError> {
    let id: FileId = call.id("file_id");
    let found = call.core.store.read().file(call.scope()?, id).await;
    found
        .map_err(read_failed)?
        .ok_or_else(|| missing(Some("id")))
}
