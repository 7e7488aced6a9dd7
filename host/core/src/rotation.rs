//! The rotation of the service key (KEY-005): rows first, then blobs, then a look whether anything was left out. It may be
//! interrupted anywhere and begun again; until it is complete the ring opens both keys.

use std::path::PathBuf;
use std::sync::Arc;

use blobs::{BlobError, Blobs, Owned, Rewrap};
use domain::{InstallationId, OwnerId, Secret};
use seal::{KeyRing, ServiceKey};
use store::rotation::{BlobRows, Named, Progress, RewrapPage};
use store::{Store, StoreError, WriteError};
use tokio_util::sync::CancellationToken;

use crate::serve::{BLOBS, ServeError, database};
use crate::settings::Database;

/// What a rotation that stands alone works on. No Core may use the folder or the database meanwhile.
pub struct RotationSettings {
    /// Private folder of the Core.
    pub data_dir: PathBuf,
    /// Its database.
    pub database: Database,
    /// The key that seals from now on.
    pub key: Secret,
    /// The key before it.
    pub former_key: Secret,
    /// Identity of the installation.
    pub installation: InstallationId,
    /// Stands for the data folder.
    pub owner: OwnerId,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rotated {
    /// Values in the database that got the current key.
    pub values: u64,
    /// Blobs that did.
    pub blobs: u64,
}

/// Why the former key is still needed.
#[derive(Debug, thiserror::Error)]
pub enum RotationError {
    /// The store or the keys.
    #[error(transparent)]
    Open(#[from] ServeError),
    /// The database failed.
    #[error("the database failed: {0}")]
    Store(#[from] StoreError),
    /// Stored bytes could not be read or written.
    #[error("stored bytes could not be moved: {0}")]
    Blobs(#[from] BlobError),
    /// Another Core executes on the database.
    #[error(
        "another Core uses the database; stop every Core of it first, because one with the former key alone could store what nobody opens later"
    )]
    InUse,
    /// Values or blobs that no key opens.
    #[error(
        "{count} stored {what} cannot be opened by either key; the log names them, and the former key is kept"
    )]
    Unreadable {
        /// How many.
        count: u64,
        /// Of what.
        what: &'static str,
    },
    /// It was told to stop.
    #[error("interrupted; begin again to go on")]
    Interrupted,
}

/// The ring of a Core: what seals, and what still opens during a rotation.
pub(crate) fn ring(key: &Secret, former: Option<&Secret>) -> Result<KeyRing, ServeError> {
    let parse = |key: &Secret| ServiceKey::from_bytes(key.expose()).map_err(ServeError::ServiceKey);
    let former = former.map(parse).transpose()?;
    Ok(KeyRing::with_former(
        parse(key)?,
        former.into_iter().collect(),
    ))
}

/// Moves everything to the current key, without a Core. The caller holds the folder's lock.
///
/// # Errors
/// [`RotationError`]; then the former key is still needed.
pub async fn rotate(
    settings: RotationSettings,
    stop: CancellationToken,
) -> Result<Rotated, RotationError> {
    let ring = Arc::new(ring(&settings.key, Some(&settings.former_key))?);
    let store = database(
        &settings.data_dir,
        &settings.database,
        ring,
        settings.installation,
    )
    .await?;
    let lease = store.lease_row().await?;
    let now = store.now().await?;
    let held = lease.owner.is_some_and(|owner| owner != settings.owner);
    if held && lease.expires_at.is_some_and(|until| until > now) {
        store.close().await;
        return Err(RotationError::InUse);
    }
    let blobs = Blobs::on_disk(&settings.data_dir.join(BLOBS), store.keys().clone())?;
    let rotated = rewrap(&store, &blobs, &stop).await;
    store.close().await;
    rotated
}

/// Moves everything to the current key of the ring.
pub(crate) async fn rewrap(
    store: &Store,
    blobs: &Blobs,
    stop: &CancellationToken,
) -> Result<Rotated, RotationError> {
    let mut rotated = Rotated::default();
    // A page that another process wrote to meanwhile is looked at again: the last pass moves nothing.
    loop {
        let pass = rows(store, stop).await?;
        rotated.values += pass.moved;
        let count = pass.unreadable.iter().map(|(_, count)| count).sum();
        if count > 0 {
            let what = "values";
            return Err(RotationError::Unreadable { count, what });
        }
        if pass.moved == 0 {
            break;
        }
    }
    crash::crash_point!("rotation.rows_moved");
    let mut unreadable = 0;
    for kind in BlobRows::OWNED {
        let mut after = String::new();
        loop {
            let (named, last) = store.read().named_blobs(kind, &after).await?;
            for named in named {
                interrupted(stop)?;
                match blobs.rewrap(&owned(named)).await {
                    Ok(Rewrap::Moved) => {
                        rotated.blobs += 1;
                        crash::crash_point!("rotation.blob_moved");
                    }
                    Ok(Rewrap::Current | Rewrap::Missing) => {}
                    Err(BlobError::Seal(error)) => {
                        tracing::error!(blob = %owned(named).name(), %error, "stored bytes cannot be opened");
                        unreadable += 1;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            match last {
                Some(last) => after = last,
                None => break,
            }
        }
    }
    // A reference whose owner is unknown here must not lose its key.
    unreadable += left_out(store, blobs, stop).await?;
    if unreadable > 0 {
        let what = "blobs";
        return Err(RotationError::Unreadable {
            count: unreadable,
            what,
        });
    }
    crash::crash_point!("rotation.blobs_moved");
    Ok(rotated)
}

/// One pass over every sealed column.
async fn rows(store: &Store, stop: &CancellationToken) -> Result<Progress, RotationError> {
    let mut progress = Progress::default();
    while !progress.is_complete() {
        interrupted(stop)?;
        let page = RewrapPage { from: progress };
        progress = store.write(page).await.map_err(|error| match error {
            WriteError::Store(error) => error,
            WriteError::Refused(never) => match never {},
        })?;
    }
    Ok(progress)
}

async fn left_out(
    store: &Store,
    blobs: &Blobs,
    stop: &CancellationToken,
) -> Result<u64, RotationError> {
    let (mut after, mut count) = (String::new(), 0);
    loop {
        let kind = BlobRows::References;
        let (named, last) = store.read().named_blobs(kind, &after).await?;
        for named in named {
            interrupted(stop)?;
            let name = owned(named).name();
            if blobs.is_former(name).await? {
                tracing::error!(blob = %name, "stored bytes still need the former key");
                count += 1;
            }
        }
        match last {
            Some(last) => after = last,
            None => return Ok(count),
        }
    }
}

fn owned(named: Named) -> Owned {
    match named {
        Named::Shared(digest) => Owned::Shared(digest),
        Named::By(stored) => Owned::By(stored),
    }
}

fn interrupted(stop: &CancellationToken) -> Result<(), RotationError> {
    match stop.is_cancelled() {
        true => Err(RotationError::Interrupted),
        false => Ok(()),
    }
}

/// A rotation that a former process left unfinished, continued beside a running Core.
pub struct Unfinished {
    /// The key before the current one.
    pub former_key: Secret,
    /// Called when nothing needs that key any more: forgets it.
    pub complete: Box<dyn FnOnce() -> std::io::Result<()> + Send + Sync>,
}

/// Runs until it is complete or the Core stops. Reads and new work go on meanwhile.
pub(crate) async fn in_background(
    store: Store,
    blobs: Blobs,
    unfinished: Unfinished,
    stop: CancellationToken,
) {
    tracing::info!("the rotation of the service key goes on in the background");
    match rewrap(&store, &blobs, &stop).await {
        Ok(Rotated { values, blobs }) => match (unfinished.complete)() {
            Ok(()) => tracing::info!(values, blobs, "the rotation of the service key is complete"),
            Err(error) => {
                tracing::error!(%error, "the former service key is not needed any more, but could not be removed");
            }
        },
        Err(RotationError::Interrupted) => {}
        Err(error) => {
            tracing::error!(%error, "the rotation of the service key is not complete; it goes on at the next start");
        }
    }
}

#[cfg(test)]
mod tests;
