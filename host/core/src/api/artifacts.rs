//! Artifacts of a Session (`environment-files.md`, ART-020 to ART-033): list, read, download, delete.

use domain::artifact::Artifact;
use domain::{ArtifactId, EnvironmentId, SessionId};
use store::units::artifact::DeleteArtifact;

use super::call::{Call, Reply};
use super::content;
use super::error::{ApiError, ContentError};
use super::failure::{read_failed, write_failed};
use super::history;
use super::lists::{list as store_list, list_failed};
use super::query;
use super::render::{self, Deleted, List};
use super::rows::ARTIFACTS;

/// `GET /agents/sessions/{session_id}/artifacts`. The Session comes first, whatever the query says (ART-028).
pub(crate) async fn list(call: Call) -> Result<Reply, ApiError> {
    let session = history::parent(&call).await?;
    let query = call.parts.uri.query().unwrap_or_default();
    let page = query::parse(query, &ARTIFACTS)?;
    let filter = page.filter("environment_id").unwrap_or_default();
    let environment = match filter {
        b"" => None,
        // Malformed is unknown (ART-031).
        text => Some(
            std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse().ok())
                .unwrap_or(EnvironmentId::NEVER),
        ),
    };
    let list = store_list(&page, ArtifactId::NEVER);
    let found = call.core.store.read();
    let found = found.artifacts(session, environment, &list).await;
    let found = found.map_err(|error| list_failed(error, ApiError::ArtifactCursor))?;
    let shown = found
        .items
        .iter()
        .map(|artifact| {
            (
                artifact.id.to_string(),
                render::artifact::artifact(artifact),
            )
        })
        .collect();
    Reply::ok(&List::new(shown, found.has_more))
}

/// `GET /agents/sessions/{session_id}/artifacts/{artifact_id}`
pub(crate) async fn read(call: Call) -> Result<Reply, ApiError> {
    Reply::ok(&render::artifact::artifact(&existing(&call).await?))
}

/// `GET /agents/sessions/{session_id}/artifacts/{artifact_id}/content`
pub(crate) async fn download(call: Call) -> Result<Reply, ApiError> {
    let artifact = existing(&call).await?;
    let reader = call.core.blobs.get(artifact.digest).await;
    let reader = reader.map_err(|error| {
        tracing::error!(%error, "an Artifact could not be opened");
        ContentError::Storage("artifact_storage_unavailable")
    })?;
    let name = artifact.path.rsplit('/').next();
    let kind = "application/octet-stream";
    Ok(content::reply(reader, artifact.size_bytes, kind, name))
}

/// `DELETE /agents/sessions/{session_id}/artifacts/{artifact_id}`
pub(crate) async fn delete(call: Call) -> Result<Reply, ApiError> {
    let artifact: ArtifactId = call.id("artifact_id");
    let unit = DeleteArtifact {
        project: call.scope()?,
        session: call.id("session_id"),
        artifact,
        by: call.author()?,
    };
    call.core.store.write(unit).await.map_err(write_failed)?;
    Reply::ok(&Deleted::new(artifact, "agent.session.artifact.deleted"))
}

async fn existing(call: &Call) -> Result<Artifact, ApiError> {
    let (session, id): (SessionId, ArtifactId) = (call.id("session_id"), call.id("artifact_id"));
    let reader = call.core.store.read();
    let found = reader.artifact(call.scope()?, session, id).await;
    found.map_err(read_failed)?.ok_or(ApiError::NotFound)
}
