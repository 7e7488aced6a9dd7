//! Environment Templates (`environments.md` 10): create, read, list, update, delete. Nothing of them runs here (ENV-435).

use axum::http::StatusCode;
use domain::blob::{BlobOwner, BlobRef, BlobScope};
use domain::preparation::{Content, PreparationPatch};
use domain::template::{Template, TemplatePatch};
use domain::{ContentId, ProjectId, TemplateId};
use store::templates::{CreateTemplate, DeleteTemplate, UpdateTemplate};

use super::call::{Call, Reply};
use super::error::{ApiError, ContentError};
use super::failure::{read_failed, write_failed};
use super::idempotency;
use super::lists::{list as store_list, list_failed};
use super::render::template::template as shown;
use super::render::{Deleted, List};

/// `POST /agents/environments/templates`
pub(crate) async fn create(call: Call) -> Result<Reply, ApiError> {
    let patch = call.read(TemplatePatch::parse)?;
    let retry = idempotency::retry(&call, &patch, &[])?;
    let project = call.project()?;
    let unit = CreateTemplate {
        project,
        id: TemplateId::new(uuid::Uuid::new_v4()),
        patch: stored(&call, project, patch).await?,
        provenance: call.provenance(),
    };
    let made = idempotency::write(&call, unit, retry).await?;
    Reply::json(StatusCode::CREATED, &shown(&made))
}

/// `GET /agents/environments/templates`
pub(crate) async fn list(call: Call) -> Result<Reply, ApiError> {
    let page = store_list(&call.page, TemplateId::NEVER);
    let found = call.core.store.read().templates(call.scope()?, &page).await;
    let found = found.map_err(|error| list_failed(error, ApiError::NotFound))?;
    let elements = found
        .items
        .iter()
        .map(|template| (template.id.to_string(), shown(template)))
        .collect();
    Reply::ok(&List::new(elements, found.has_more))
}

/// `GET /agents/environments/templates/{environment_template_id}`
pub(crate) async fn read(call: Call) -> Result<Reply, ApiError> {
    Reply::ok(&shown(&existing(&call).await?))
}

/// `POST /agents/environments/templates/{environment_template_id}`
pub(crate) async fn update(call: Call) -> Result<Reply, ApiError> {
    let patch = call.read(TemplatePatch::parse)?;
    let project = call.project()?;
    // Nothing is stored for a Template that is not there; the unit looks again.
    existing(&call).await?;
    let unit = UpdateTemplate {
        project,
        id: call.id("environment_template_id"),
        patch: stored(&call, project, patch).await?,
        provenance: call.provenance(),
    };
    let made = call.core.store.write(unit).await.map_err(write_failed)?;
    Reply::ok(&shown(&made))
}

/// `DELETE /agents/environments/templates/{environment_template_id}`
pub(crate) async fn delete(call: Call) -> Result<Reply, ApiError> {
    let id: TemplateId = call.id("environment_template_id");
    let unit = DeleteTemplate {
        project: call.scope()?,
        id,
        by: call.author()?,
    };
    call.core.store.write(unit).await.map_err(write_failed)?;
    Reply::ok(&Deleted::new(id, "agent.environment.template.deleted"))
}

async fn existing(call: &Call) -> Result<Template, ApiError> {
    let id: TemplateId = call.id("environment_template_id");
    let found = call.core.store.read().template(call.scope()?, id).await;
    found.map_err(read_failed)?.ok_or(ApiError::NotFound)
}

/// Stores the bytes that a patch carries; a blob that no row comes to keep is swept.
async fn stored(
    call: &Call,
    project: ProjectId,
    patch: TemplatePatch<Content>,
) -> Result<TemplatePatch<BlobRef>, ApiError> {
    let preparation = store_content(call, project, patch.preparation).await?;
    Ok(TemplatePatch {
        name: patch.name,
        preparation,
    })
}

async fn store_content(
    call: &Call,
    project: ProjectId,
    patch: PreparationPatch<Content>,
) -> Result<PreparationPatch<BlobRef>, ApiError> {
    let mut blobs = Vec::new();
    for content in patch.contents() {
        let owner = BlobOwner::Inline {
            id: ContentId::new(uuid::Uuid::new_v4()),
        };
        let scope = BlobScope { project, owner };
        let stored = call.core.blobs.put_bytes_for(scope, content.bytes()).await;
        blobs.push(stored.map_err(|error| {
            tracing::error!(%error, "inline content could not be stored");
            ContentError::Storage("file_storage_unavailable")
        })?);
    }
    let mut blobs = blobs.into_iter();
    let mut missing = false;
    let stored = patch.with(|content: Content| {
        let blob = blobs.next();
        missing |= blob.is_none();
        blob.unwrap_or_else(|| unstored(project, &content))
    });
    // `contents` and `with` walk one patch in one order; if they ever did not, nothing may be saved.
    match missing {
        false => Ok(stored),
        true => Err(ApiError::Internal {
            effect_unknown: false,
        }),
    }
}

/// Stands for bytes that are not stored, where only their being there counts.
pub(super) fn unstored(project: ProjectId, content: &Content) -> BlobRef {
    let owner = BlobOwner::Inline {
        id: ContentId::NEVER,
    };
    let digest = domain::Digest::of(content.bytes());
    BlobScope { project, owner }.stored(digest, content.bytes().len() as u64)
}
