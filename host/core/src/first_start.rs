//! The Project and key of a first start (OPS-140), so that a new installation answers requests at once.

use domain::{Digest, KeyId, ProjectId, key};
use store::projects::{CreateProject, IssueApiKey, ProjectRefusal};
use store::read::{List, ListError, Order};
use store::{Store, StoreError, WriteError};

use crate::settings::FirstProject;

/// Name of the first key.
const KEY_NAME: &str = "default";

/// Why the first Project could not be made.
#[derive(Debug, thiserror::Error)]
pub enum FirstStartError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody removed or archived it in between.
    #[error("the Project changed meanwhile")]
    Changed,
}

/// Makes the Project if there is none, and its key if the only Project has none. A crash between the two is mended by the
/// next start; an installation that has a key is left alone. Answers whether this call made the key.
pub(crate) async fn ensure(store: Store, first: FirstProject) -> Result<bool, FirstStartError> {
    let two = List {
        after: None,
        limit: 2,
        order: Order::Ascending,
    };
    let projects = store.read().projects(&two).await.map_err(listed)?.items;
    let project = match projects.as_slice() {
        [] => {
            let id = ProjectId::new(uuid::Uuid::new_v4());
            store
                .write(CreateProject {
                    id,
                    name: first.name.clone(),
                    by: None,
                })
                .await
                .map_err(written)?
                .id
        }
        [only] if only.archived_at.is_none() => only.id,
        _ => return Ok(false),
    };
    if !store
        .read()
        .api_keys(project, &two)
        .await
        .map_err(listed)?
        .items
        .is_empty()
    {
        return Ok(false);
    }
    let text = first.key.as_str().unwrap_or_default();
    let unit = IssueApiKey {
        id: KeyId::new(uuid::Uuid::new_v4()),
        project,
        name: KEY_NAME.to_owned(),
        prefix: text.chars().take(key::SHOWN_PREFIX).collect(),
        digest: Digest::of(first.key.expose()),
        by: None,
    };
    store.write(unit).await.map_err(written)?;
    Ok(true)
}

fn listed(error: ListError) -> FirstStartError {
    match error {
        ListError::Store(error) => FirstStartError::Store(error),
        ListError::UnknownCursor => FirstStartError::Changed,
    }
}

fn written(error: WriteError<ProjectRefusal>) -> FirstStartError {
    match error {
        WriteError::Store(error) => FirstStartError::Store(error),
        WriteError::Refused(ProjectRefusal::NotFound | ProjectRefusal::Archived) => {
            FirstStartError::Changed
        }
    }
}
