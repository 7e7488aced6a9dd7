//! What providers remember, sealed in Core's database (SP-14.2). Providers ask from threads that may block.

use plugin_host::providers::{ProviderMemory, RememberError, Scope};
use store::provider_state::{PutProviderState, StateKey};
use store::{Store, StoreError, WriteError};
use tokio::runtime::Handle;

/// The records of providers in a store.
pub(crate) struct Records {
    store: Store,
    runtime: Handle,
}

impl Records {
    /// Call it inside the runtime that the store lives in.
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store,
            runtime: Handle::current(),
        }
    }
}

fn key(provider: &str, scope: Scope, key: &str) -> StateKey {
    StateKey {
        provider: provider.to_owned(),
        allocation: match scope {
            Scope::Allocation(id) => Some(id),
            Scope::Provider => None,
        },
        key: key.to_owned(),
    }
}

impl ProviderMemory for Records {
    fn get(
        &self,
        provider: &str,
        scope: Scope,
        name: &str,
    ) -> Result<Option<domain::Secret>, RememberError> {
        let key = key(provider, scope, name);
        let found = self
            .runtime
            .block_on(async { self.store.read().provider_state(&key).await });
        found.map_err(|_| RememberError::Unavailable)
    }

    fn put(
        &self,
        provider: &str,
        scope: Scope,
        name: &str,
        value: Option<domain::Secret>,
    ) -> Result<(), RememberError> {
        let unit = PutProviderState {
            key: key(provider, scope, name),
            value,
        };
        let written = self
            .runtime
            .block_on(async { self.store.write(unit).await });
        written.map_err(|error| match error {
            WriteError::Store(StoreError::LeaseLost) => RememberError::Fenced,
            WriteError::Store(_) => RememberError::Unavailable,
            WriteError::Refused(never) => match never {},
        })
    }
}
