//! The copy of a settled Run's outputs into unreferenced blobs (state-machines 1.13, SC-7.8). No lock and no lease is held
//! meanwhile; nothing is published here.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use blobs::{BlobError, BlobWriter};
use domain::artifact::CapturedFile;
use domain::run::Binding;

use super::Shared;
use crate::peer::{ExportSignal, Peer};

/// Limits of one capture (RP-15.16).
const FILES: usize = 4096;
const FILE_BYTES: u64 = 200 * 1024 * 1024;
const TURN_BYTES: u64 = 500 * 1024 * 1024;
/// Longest silence of a transfer before it counts as lost.
const SILENCE: Duration = Duration::from_secs(60);
/// Where outputs are, as the API shows it.
const OUTPUTS: &str = "/workspace/outputs/";

/// Why outputs were not captured; the Turn ends as `artifact_capture_failed` (ART-010).
#[derive(Debug, thiserror::Error)]
pub(super) enum CaptureError {
    /// Refused, failed or cut by the Runtime.
    #[error("the Runtime did not complete the transfer")]
    Transfer,
    /// Nothing came for too long.
    #[error("the transfer stood still")]
    Silence,
    /// The order of signals, a digest or a count is wrong, or a path comes twice.
    #[error("the transfer contradicts itself")]
    Mismatch,
    /// Too many files or bytes.
    #[error("the outputs exceed a limit")]
    Limit,
    /// A blob could not be stored.
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// Copies everything, or nothing that counts: what was written before a failure is swept as unreferenced.
pub(super) async fn copy(
    shared: &Shared,
    peer: Arc<dyn Peer>,
    binding: Binding,
) -> Result<Vec<CapturedFile>, CaptureError> {
    let mut feed = peer.export(binding, Vec::new());
    store::crash_point!("workspace_export.sent");
    let mut files: Vec<CapturedFile> = Vec::new();
    let mut paths = HashSet::new();
    let mut open: Option<(String, BlobWriter)> = None;
    let mut total = 0u64;
    loop {
        let signal = tokio::time::timeout(SILENCE, feed.recv())
            .await
            .map_err(|_| CaptureError::Silence)?;
        match (signal, open.take()) {
            (Some(ExportSignal::Entry { path, size }), None) => {
                total = total.saturating_add(size);
                if files.len() == FILES || size > FILE_BYTES || total > TURN_BYTES {
                    return Err(CaptureError::Limit);
                }
                if !paths.insert(path.clone()) {
                    return Err(CaptureError::Mismatch);
                }
                open = Some((path, shared.blobs.put(size).await?));
            }
            (Some(ExportSignal::Bytes(bytes)), Some((path, mut writer))) => {
                writer.write(&bytes).await?;
                open = Some((path, writer));
            }
            (
                Some(ExportSignal::EntryEnd {
                    sha256,
                    skipped: false,
                }),
                Some((path, writer)),
            ) => {
                let blob = writer.finish().await?;
                if blob.digest.to_string() != sha256 {
                    return Err(CaptureError::Mismatch);
                }
                files.push(CapturedFile {
                    path: format!("{OUTPUTS}{path}"),
                    digest: blob.digest,
                    size_bytes: blob.size,
                });
            }
            (
                Some(ExportSignal::Complete {
                    files: count,
                    bytes,
                }),
                None,
            ) => {
                let stored: u64 = files.iter().map(|file| file.size_bytes).sum();
                if count != files.len() as u64 || bytes != stored {
                    return Err(CaptureError::Mismatch);
                }
                return Ok(files);
            }
            (Some(ExportSignal::Failed) | None, _) => return Err(CaptureError::Transfer),
            (Some(_), _) => return Err(CaptureError::Mismatch),
        }
    }
}
