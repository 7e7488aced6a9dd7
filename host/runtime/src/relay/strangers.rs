//! Connections that have not shown a token yet.
//!
//! Strangers have few places and little time. Once a token is shown, the connection counts for that token only.

use std::sync::{Arc, OnceLock};

use net::{Stranger, Strangers};
use tokio::sync::OwnedSemaphorePermit;

use super::routes::Open;

/// Strangers at a time.
pub(super) const STRANGERS: usize = 256;

/// One connection.
#[derive(Debug)]
pub(super) struct Visitor {
    stranger: Stranger,
    /// Its place among the connections of the token that it showed first.
    place: OnceLock<OwnedSemaphorePermit>,
}

impl Visitor {
    /// A connection was accepted.
    pub(super) fn enter(strangers: &Strangers) -> Self {
        let stranger = strangers.enter();
        if strangers.count() > STRANGERS {
            strangers.oldest_leaves();
        }
        Self {
            stranger,
            place: OnceLock::new(),
        }
    }

    /// It has shown a token. False if that has too many connections.
    pub(super) fn known(&self, open: &Open) -> bool {
        if self.is_known() {
            return true;
        }
        let Ok(place) = Arc::clone(&open.connections).try_acquire_owned() else {
            return false;
        };
        // Requests of one connection come one after another, so nobody else sets it.
        let _ = self.place.set(place);
        self.stranger.becomes_known();
        true
    }

    /// Whether it has shown a token.
    pub(super) fn is_known(&self) -> bool {
        self.place.get().is_some()
    }

    /// Others need its place. Once it is known this never comes.
    pub(super) async fn must_leave(&self) {
        self.stranger.must_leave().await;
    }
}
