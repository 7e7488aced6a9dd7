//! Tokens and what they open.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::Secret;
use net::{LoopbackHttp, ModelUrl};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::{ModelProtocol, RelayError, Tokens, usage::Tally};

/// Requests of one Session at a time; a harness with Subagents needs a handful.
const REQUESTS_AT_ONCE: usize = 64;

/// What one token opens: one provider, for one Session.
#[derive(Debug)]
pub struct Route {
    /// The provider's protocol.
    pub protocol: ModelProtocol,
    /// Where requests go.
    pub upstream: ModelUrl,
    /// Whether it may be on this machine: the switch that the address was checked under.
    pub loopback: LoopbackHttp,
    /// The provider's key.
    pub key: Secret,
}

/// Connections that one token may hold open, idle ones included.
const CONNECTIONS: usize = 2 * REQUESTS_AT_ONCE;

/// A route in use.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) route: Route,
    pub(super) tally: Tally,
    pub(super) slots: Arc<Semaphore>,
    pub(super) connections: Arc<Semaphore>,
}

/// Open routes by the digest of their token: a look-up compares digests, so its time tells nothing about a token.
#[derive(Debug, Default, Clone)]
pub(super) struct Routes(Arc<Mutex<HashMap<[u8; 32], Arc<Open>>>>);

impl Routes {
    pub(super) fn open(&self, route: Route) -> Result<Grant, RelayError> {
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random).map_err(|_| RelayError::NoRandomness)?;
        let token = format!("berth-relay-{}", URL_SAFE_NO_PAD.encode(random));
        let digest = digest(token.as_bytes());
        let open = Arc::new(Open {
            route,
            tally: Tally::default(),
            slots: Arc::new(Semaphore::new(REQUESTS_AT_ONCE)),
            connections: Arc::new(Semaphore::new(CONNECTIONS)),
        });
        self.lock().insert(digest, Arc::clone(&open));
        Ok(Grant {
            token: Secret::from(token),
            digest,
            open,
            routes: self.clone(),
        })
    }

    pub(super) fn find(&self, token: &[u8]) -> Option<Arc<Open>> {
        self.lock().get(&digest(token)).map(Arc::clone)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], Arc<Open>>> {
        // The map is whole after every statement, so a panic elsewhere while it was locked cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// The right of one Session to use one provider through the relay. Dropping it ends the right.
#[derive(Debug)]
pub struct Grant {
    token: Secret,
    digest: [u8; 32],
    open: Arc<Open>,
    routes: Routes,
}

impl Grant {
    /// What the harness presents in place of a key.
    #[must_use]
    pub fn token(&self) -> &Secret {
        &self.token
    }

    /// Tokens that the provider reported so far, over all requests of this grant.
    #[must_use]
    pub fn tokens(&self) -> Tokens {
        self.open.tally.read()
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.routes.lock().remove(&self.digest);
        self.open.slots.close();
    }
}
