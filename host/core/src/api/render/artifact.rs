//! Artifacts (ART-021).

use domain::artifact::Artifact;
use serde::Serialize;

/// An Artifact.
#[derive(Serialize)]
pub(crate) struct ArtifactJson<'a> {
    id: String,
    object: &'static str,
    session_id: String,
    turn_id: String,
    environment_id: String,
    path: &'a str,
    size_bytes: u64,
    created_at: i64,
}

/// Shows an Artifact.
pub(crate) fn artifact(artifact: &Artifact) -> ArtifactJson<'_> {
    ArtifactJson {
        id: artifact.id.to_string(),
        object: "agent.session.artifact",
        session_id: artifact.session_id.to_string(),
        turn_id: artifact.turn_id.to_string(),
        environment_id: artifact.environment_id.to_string(),
        path: &artifact.path,
        size_bytes: artifact.size_bytes,
        created_at: artifact.created_at.seconds(),
    }
}
