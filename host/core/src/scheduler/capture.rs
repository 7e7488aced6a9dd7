//! The copy of a settled Run's outputs into unreferenced blobs (state-machines 1.13, SC-7.8). No lock and no lease is held
//! meanwhile; nothing is published here.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use blobs::{BlobError, BlobWriter, Blobs};
use domain::SessionId;
use domain::artifact::CapturedFile;
use domain::run::Binding;
use protocol::wire::HaveFile;

use super::Shared;
use crate::peer::{ExportFeed, ExportSignal, Peer};

/// Limits of one capture (RP-15.16).
const FILES: usize = 4096;
const FILE_BYTES: u64 = 200 * 1024 * 1024;
const TURN_BYTES: u64 = 500 * 1024 * 1024;
/// Longest silence of a transfer before it counts as lost.
const SILENCE: Duration = Duration::from_secs(60);
/// Longest list of files that need not be sent, in bytes of its paths and digests; the largest files come first in it.
const KEPT_BYTES: usize = 512 * 1024;
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

/// What the Session has of its outputs, by path below them: digest and size of the newest Artifact that remains.
type Kept = HashMap<String, (String, u64)>;

/// Copies everything, or nothing that counts: what was written before a failure is swept as unreferenced. A file whose
/// newest Artifact has the same bytes stays where it is and is not in the answer: it keeps that Artifact (ART-009).
pub(super) async fn copy(
    shared: &Shared,
    peer: Arc<dyn Peer>,
    binding: Binding,
) -> Result<Vec<CapturedFile>, CaptureError> {
    let kept = kept(shared, binding.session).await;
    let have = kept.iter().map(|(path, (sha256, _))| HaveFile {
        path: path.clone(),
        sha256: sha256.clone(),
    });
    let feed = peer.export(binding, have.collect());
    crash::crash_point!("workspace_export.sent");
    receive(&shared.blobs, feed, &kept).await
}

/// RP-15.20: the bytes of these files are here. Without the list everything is sent.
async fn kept(shared: &Shared, session: SessionId) -> Kept {
    let newest = shared.store.read().newest_artifacts(session).await;
    let mut newest = newest.unwrap_or_else(|error| {
        tracing::warn!(%session, %error, "the Artifacts of a Session could not be read");
        Vec::new()
    });
    newest.sort_by_key(|artifact| Reverse(artifact.size_bytes));
    let mut room = KEPT_BYTES;
    let named = newest.into_iter().filter_map(|artifact| {
        let path = artifact.path.strip_prefix(OUTPUTS)?.to_owned();
        let digest = artifact.digest.to_string();
        room = room.checked_sub(path.len() + digest.len())?;
        Some((path, (digest, artifact.size_bytes)))
    });
    named.collect()
}

/// A file that has begun.
struct Open {
    path: String,
    size: u64,
    /// From its first byte on.
    writer: Option<BlobWriter>,
}

async fn receive(
    blobs: &Blobs,
    mut feed: ExportFeed,
    kept: &Kept,
) -> Result<Vec<CapturedFile>, CaptureError> {
    let mut files: Vec<CapturedFile> = Vec::new();
    let mut paths = HashSet::new();
    let mut open: Option<Open> = None;
    let mut total = 0u64;
    loop {
        let signal = tokio::time::timeout(SILENCE, feed.recv())
            .await
            .map_err(|_| CaptureError::Silence)?;
        match (signal, open.take()) {
            (Some(ExportSignal::Entry { path, size }), None) => {
                total = total.saturating_add(size);
                if paths.len() == FILES || size > FILE_BYTES || total > TURN_BYTES {
                    return Err(CaptureError::Limit);
                }
                if !paths.insert(path.clone()) {
                    return Err(CaptureError::Mismatch);
                }
                open = Some(Open {
                    path,
                    size,
                    writer: None,
                });
            }
            (Some(ExportSignal::Bytes(bytes)), Some(mut file)) => {
                let mut writer = match file.writer.take() {
                    Some(writer) => writer,
                    None => blobs.put(file.size).await?,
                };
                writer.write(&bytes).await?;
                file.writer = Some(writer);
                open = Some(file);
            }
            (
                Some(ExportSignal::EntryEnd {
                    sha256,
                    skipped: false,
                }),
                Some(file),
            ) => {
                let writer = match file.writer {
                    Some(writer) => writer,
                    None => blobs.put(0).await?,
                };
                let blob = writer.finish().await?;
                if blob.digest.to_string() != sha256 || blob.size != file.size {
                    return Err(CaptureError::Mismatch);
                }
                files.push(CapturedFile {
                    path: format!("{OUTPUTS}{}", file.path),
                    digest: blob.digest,
                    size_bytes: blob.size,
                });
            }
            (
                Some(ExportSignal::EntryEnd {
                    sha256,
                    skipped: true,
                }),
                Some(Open {
                    path,
                    size,
                    writer: None,
                }),
            ) => {
                if kept.get(&path) != Some(&(sha256, size)) {
                    return Err(CaptureError::Mismatch);
                }
            }
            (
                Some(ExportSignal::Complete {
                    files: count,
                    bytes,
                }),
                None,
            ) => {
                if count != paths.len() as u64 || bytes != total {
                    return Err(CaptureError::Mismatch);
                }
                return Ok(files);
            }
            (Some(ExportSignal::Failed) | None, _) => return Err(CaptureError::Transfer),
            (Some(_), _) => return Err(CaptureError::Mismatch),
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Digest;
    use store::testing::TestDatabase;
    use tokio::sync::mpsc;

    use super::*;

    fn entry(path: &str, size: u64) -> ExportSignal {
        ExportSignal::Entry {
            path: path.to_owned(),
            size,
        }
    }

    fn bytes(text: &str) -> ExportSignal {
        ExportSignal::Bytes(text.into())
    }

    fn end(text: &str, skipped: bool) -> ExportSignal {
        ExportSignal::EntryEnd {
            sha256: Digest::of(text.as_bytes()).to_string(),
            skipped,
        }
    }

    fn complete(files: u64, bytes: u64) -> ExportSignal {
        ExportSignal::Complete { files, bytes }
    }

    // RP-15.18 to RP-15.20: what a transfer may say, and that only what was offered may be left out.
    #[tokio::test]
    async fn a_transfer_is_taken_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let store = TestDatabase::sqlite().open().await;
        let blobs = Blobs::on_disk(folder.path(), store.keys().clone()).unwrap();
        let old = Digest::of(b"old").to_string();
        let kept = Kept::from([("kept".to_owned(), (old, 3))]);
        let cases = [
            (vec![complete(0, 0)], Some(vec![])),
            (
                vec![
                    entry("a", 3),
                    bytes("ne"),
                    bytes("w"),
                    end("new", false),
                    entry("empty", 0),
                    end("", false),
                    entry("kept", 3),
                    end("old", true),
                    complete(3, 6),
                ],
                Some(vec!["new", ""]),
            ),
            // It has changed since, so its bytes come.
            (
                vec![
                    entry("kept", 3),
                    bytes("new"),
                    end("new", false),
                    complete(1, 3),
                ],
                Some(vec!["new"]),
            ),
            (
                vec![entry("other", 3), end("old", true), complete(1, 3)],
                None,
            ),
            (
                vec![entry("kept", 3), end("new", true), complete(1, 3)],
                None,
            ),
            (
                vec![entry("kept", 4), end("old", true), complete(1, 4)],
                None,
            ),
            (
                vec![
                    entry("kept", 3),
                    bytes("old"),
                    end("old", true),
                    complete(1, 3),
                ],
                None,
            ),
            (
                vec![entry("kept", 3), end("old", true), complete(0, 0)],
                None,
            ),
            (
                vec![entry("kept", 3), end("old", true), complete(1, 0)],
                None,
            ),
            (
                vec![entry("a", 3), bytes("ne"), end("ne", false), complete(1, 3)],
                None,
            ),
            (vec![entry("a", 1), bytes("ne")], None),
            (vec![entry("a", 1), bytes("n"), end("other", false)], None),
            (vec![entry("a", 0), end("", false), entry("a", 0)], None),
            (vec![entry("a", 0), entry("b", 0)], None),
            (vec![bytes("a")], None),
            (vec![end("", false)], None),
            (vec![entry("a", FILE_BYTES + 1)], None),
            (
                vec![entry("a", 0), end("", false), ExportSignal::Failed],
                None,
            ),
            (vec![entry("a", 0), end("", false)], None),
        ];
        for (signals, expected) in cases {
            let (sender, feed) = mpsc::channel(signals.len());
            let told = format!("{signals:?}");
            for signal in signals {
                sender.send(signal).await.unwrap();
            }
            drop(sender);
            let files = receive(&blobs, feed, &kept).await.ok();
            let digests =
                files.map(|files| files.iter().map(|file| file.digest).collect::<Vec<_>>());
            let expected: Option<Vec<_>> = expected.map(|texts| {
                texts
                    .iter()
                    .map(|text| Digest::of(text.as_bytes()))
                    .collect()
            });
            assert_eq!(digests, expected, "{told}");
        }
        store.close().await;
    }
}
