//! Reading: one method per question, on a pool of its own. Answers that combine rows come from one statement or one
//! snapshot, so that they show one state of the database (S-ST-4).

mod access;
mod history;
mod library;
mod list;
mod records;
mod sessions;
mod templates;
mod vaults;
mod work;

pub use access::{Caller, DeviceRecord};
pub use history::{EnvironmentRecord, TurnRecord};
pub use list::{List, ListError, Order, Page};
pub use records::{Record, RecordFilter, RecordedKey};
pub use sessions::{CreationRecord, SessionRecord};
pub use work::{DueReservation, EnvironmentWork, PendingInput, QueuedTurn};

use sqlx::{Any, AnyConnection, Transaction, pool::PoolConnection};

use crate::{error::StoreError, store::Store};

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
    async fn connection(&self) -> Result<PoolConnection<Any>, StoreError> {
        Ok(self.store.inner.readers.acquire().await?)
    }

    async fn snapshot(&self) -> Result<Transaction<'static, Any>, StoreError> {
        Ok(self
            .store
            .inner
            .readers
            .begin_with(self.store.inner.dialect.begin_snapshot())
            .await?)
    }
}

/// Ends a snapshot; it wrote nothing, so there is nothing to lose.
async fn end(snapshot: Transaction<'static, Any>) -> Result<(), StoreError> {
    Ok(snapshot.rollback().await?)
}

/// A snapshot's connection.
fn on<'t>(snapshot: &'t mut Transaction<'static, Any>) -> &'t mut AnyConnection {
    snapshot
}
