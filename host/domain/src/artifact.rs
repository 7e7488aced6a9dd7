//! Output files of completed Turns (state-machines 1.13, ART-001…010).

use serde::{Deserialize, Serialize};

use crate::changes::{Changes, Context, Decided, Write};
use crate::{
    ArtifactId, Digest, EnvironmentId, Refusal, SessionId, SessionState, Timestamp, TurnId,
};

/// A published output file. Its bytes are content-addressed by `digest`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// Identity.
    pub id: ArtifactId,
    /// Session.
    pub session_id: SessionId,
    /// The completed Turn.
    pub turn_id: TurnId,
    /// The Environment it came from.
    pub environment_id: EnvironmentId,
    /// Absolute original path.
    pub path: String,
    /// Content.
    pub digest: Digest,
    /// Size.
    pub size_bytes: u64,
    /// Publication.
    pub created_at: Timestamp,
    /// Deletion; terminal.
    pub deleted_at: Option<Timestamp>,
}

/// A verified transfer of all outputs, its bytes stored but referenced by nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The files, one per path.
    pub files: Vec<CapturedFile>,
    /// Of the Session's Artifacts that remain: the newest of each of these paths.
    pub newest: Vec<Artifact>,
}

/// One transferred file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedFile {
    /// Absolute original path.
    pub path: String,
    /// Content.
    pub digest: Digest,
    /// Size.
    pub size_bytes: u64,
}

/// A path is published iff none remains for it or the newest remaining one differs (ART-007…009).
pub(crate) fn publish(
    state: &SessionState,
    captured: Captured,
    cx: &mut Context<'_>,
) -> Vec<Artifact> {
    let (Some(turn), Some(environment)) = (&state.turn, &state.environment) else {
        return Vec::new();
    };
    let Captured { files, newest } = captured;
    let unchanged = |file: &CapturedFile| {
        newest
            .iter()
            .any(|old| old.path == file.path && old.digest == file.digest)
    };
    let publish = |file: CapturedFile| Artifact {
        id: ArtifactId::draw(cx.ids),
        session_id: state.session.id,
        turn_id: turn.id,
        environment_id: environment.id,
        path: file.path,
        digest: file.digest,
        size_bytes: file.size_bytes,
        created_at: cx.now,
        deleted_at: None,
    };
    files
        .into_iter()
        .filter(|file| !unchanged(file))
        .map(publish)
        .collect()
}

/// Deletes a remaining Artifact. Nothing is announced; its row stays until the Session is purged (ART-023, ART-027).
///
/// # Errors
/// None; the signature is that of every decision.
pub fn delete(artifact: &Artifact, cx: &mut Context<'_>) -> Result<Decided<()>, Refusal> {
    let gone = Artifact {
        deleted_at: Some(cx.now),
        ..artifact.clone()
    };
    Ok(Decided {
        answer: (),
        changes: Changes {
            writes: vec![Write::PutArtifact(gone)],
            ..Changes::default()
        },
    })
}
