//! The upload of a Skill: one ZIP in `files`, or a folder as repeated `files[]` parts (SKL-010). What is stored is our own
//! ZIP of the checked tree, never the stranger's bytes.

use axum::http::header::CONTENT_TYPE;
use domain::archive::{self, Archive, ArchiveError, Limits, TreeBuilder};
use domain::blob::{BlobOwner, BlobScope};
use domain::skill::{self, Manifest, SkillFault};
use domain::{Digest, SkillId, SkillVersionId};

use super::STORAGE;
use crate::api::call::Call;
use crate::api::error::{ApiError, ContentError};
use crate::api::multipart::{Part, Upload};

/// A folder travels unpacked; its parts have headers.
const FORM: u64 = Limits::BUNDLE.expanded + 1024 * 1024;
const PART: &str = "files";

/// A Skill that was received and checked.
pub(super) struct Received {
    manifest: Manifest,
    packed: Vec<u8>,
    /// The new version becomes the default.
    pub default: bool,
}

/// The bytes of a form, still unchecked.
enum Sent {
    Zip(Vec<u8>),
    Folder(TreeBuilder),
}

/// Receives a form of `known` parts.
pub(super) async fn receive(call: &mut Call, known: &[&str]) -> Result<Received, ApiError> {
    // The official client drops a single file and sends `{}` (api-surface 1.7).
    let kind = call.parts.headers.get(CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json")) {
        let message = "Missing required parameter: 'files'. Send a multipart/form-data form; some clients drop a single \
                       file: send it in a list, as 'files[]'.";
        return Err(ContentError::upload(Some(PART), message).into());
    }
    // So many at a time that memory stays bounded whatever the number of clients, and that slow ones keep nobody waiting.
    let place = call.core.uploads.clone().acquire_owned().await;
    let _place = place.map_err(|_| STORAGE)?;
    let body = call.take_body();
    let mut upload = Upload::open(&call.parts.headers, body, FORM)?;
    match form(&mut upload, known).await {
        Ok((sent, default)) => {
            // Unpacking takes as much again, and a processor: few at a time, none of which waits for a client.
            let permit = call.core.bundles.clone().acquire_owned().await;
            let _permit = permit.map_err(|_| STORAGE)?;
            let (manifest, packed) = check(sent).await?;
            Ok(Received {
                manifest,
                packed,
                default,
            })
        }
        Err(error) => {
            upload.drain().await;
            Err(error)
        }
    }
}

async fn form(upload: &mut Upload, known: &[&str]) -> Result<(Sent, bool), ApiError> {
    let (mut sent, mut default) = (None, None);
    while let Some(part) = upload.next().await? {
        let name = part.name().to_owned();
        if !known.contains(&name.as_str()) {
            let message = "The form holds a part that this operation does not take.";
            return Err(ContentError::upload(None, message).into());
        }
        match (name.as_str(), sent.take()) {
            ("default", kept) => {
                sent = kept;
                let value = flag(&part.text("default").await?)?;
                if default.replace(value).is_some() {
                    let message = "'default' must be given once.";
                    return Err(ContentError::upload(Some("default"), message).into());
                }
            }
            ("files[]", None) => {
                let mut tree = TreeBuilder::new(Limits::BUNDLE);
                entry(&mut tree, part).await?;
                sent = Some(Sent::Folder(tree));
            }
            ("files[]", Some(Sent::Folder(mut tree))) => {
                entry(&mut tree, part).await?;
                sent = Some(Sent::Folder(tree));
            }
            ("files", None) => {
                let limit = Limits::BUNDLE.compressed;
                let bytes = whole(part, limit).await?;
                let bytes = bytes.ok_or_else(|| fault(ArchiveError::Compressed { limit }))?;
                sent = Some(Sent::Zip(bytes));
            }
            _ => {
                let message =
                    "Send one ZIP in 'files', or a directory as repeated 'files[]' parts.";
                return Err(ContentError::upload(Some(PART), message).into());
            }
        }
    }
    let sent = sent
        .ok_or_else(|| ContentError::upload(Some(PART), "Missing required parameter: 'files'."))?;
    Ok((sent, default.unwrap_or(false)))
}

/// SKL-002.
fn flag(text: &str) -> Result<bool, ApiError> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(
            ContentError::upload(Some("default"), "'default' must be 'true' or 'false'.").into(),
        ),
    }
}

/// One file of a folder; its filename is its path (SKL-018: never executable).
async fn entry(tree: &mut TreeBuilder, part: Part) -> Result<(), ApiError> {
    let path = part.filename().unwrap_or_default().to_owned();
    tree.file(&path).map_err(fault)?;
    let limit = Limits::BUNDLE.expanded;
    let bytes = whole(part, tree.room()).await?;
    let bytes = bytes.ok_or_else(|| fault(ArchiveError::Expanded { limit }))?;
    tree.keep(&path, bytes, false).map_err(fault)
}

/// The bytes of a part, or none if it is longer than `limit`.
async fn whole(mut part: Part, limit: u64) -> Result<Option<Vec<u8>>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = part.chunk().await? {
        if (bytes.len() + chunk.len()) as u64 > limit {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

/// Unpacks, inspects and packs again: processor work, away from the reactor.
async fn check(sent: Sent) -> Result<(Manifest, Vec<u8>), ApiError> {
    let limits = Limits::BUNDLE;
    let work = move || -> Result<(Manifest, Vec<u8>), SkillFault> {
        let tree: Archive = match sent {
            Sent::Zip(bytes) => archive::unpack(&bytes, &limits)?,
            Sent::Folder(tree) => tree.finish()?,
        };
        let manifest = skill::inspect(&tree)?;
        Ok((manifest, tree.pack(&limits)?))
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(checked) => checked.map_err(fault),
        Err(error) => {
            tracing::error!(%error, "a Skill could not be checked");
            Err(ApiError::Internal {
                effect_unknown: false,
            })
        }
    }
}

fn fault(fault: impl Into<SkillFault>) -> ApiError {
    match fault.into() {
        SkillFault::Archive(ArchiveError::Compressed { .. }) => ContentError::TooLarge.into(),
        fault => ContentError::upload(Some(PART), fault).into(),
    }
}

impl Received {
    /// What makes two uploads the same (W-IDEM-3).
    pub(super) fn identity(&self) -> (Digest, bool) {
        (Digest::of(&self.packed), self.default)
    }

    /// Stores the bundle for a new version of `skill`.
    pub(super) async fn store(
        self,
        call: &Call,
        skill: SkillId,
    ) -> Result<store::skills::Upload, ApiError> {
        let version = SkillVersionId::new(uuid::Uuid::new_v4());
        let scope = BlobScope {
            project: call.project()?,
            owner: BlobOwner::SkillVersion { skill, version },
        };
        let stored = call.core.blobs.put_bytes_for(scope, &self.packed).await;
        let bundle = stored.map_err(|error| {
            tracing::error!(%error, "a Skill bundle could not be stored");
            STORAGE
        })?;
        Ok(store::skills::Upload {
            skill,
            version,
            manifest: self.manifest,
            bundle,
        })
    }
}
