//! Reading: one method per question, on a pool of its own. Answers that combine rows come from one statement or one
//! snapshot, so that they show one state of the database (S-ST-4).

mod access;
mod history;
mod library;
mod list;
mod records;
mod sessions;
mod summary;
mod templates;
mod vaults;
mod work;

pub use access::{Caller, DeviceRecord};
pub use history::{EnvironmentRecord, TurnRecord};
pub use list::{List, ListError, Order, Page};
pub use records::{Record, RecordFilter, RecordedKey};
pub use sessions::{CreationRecord, SessionRecord};
pub use summary::{Assets, Group, Grouping};
pub use work::{DeletedSession, DueReservation, EnvironmentWork, PendingInput, QueuedTurn};

use crate::{conn::Conn, error::StoreError, pool::Snapshot, store::Store};

/// Reads of one store.
#[derive(Clone, Copy)]
pub struct Reader<'s> {
    store: &'s Store,
}

impl Store {
    /// Reads.
    pub fn read(&self) -> Reader<'_> {
        Reader { store: self }
    }
}

impl Reader<'_> {
    pub(crate) async fn connection(&self) -> Result<Conn, StoreError> {
        self.store.inner.readers.connection().await
    }

    async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        self.store.inner.readers.snapshot().await
    }
}
