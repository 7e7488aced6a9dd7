//! For test builds: what must hold over the database of a Core that has stopped, died, or is being hit (reliability 4).

use serde::Serialize;
use store::testing;

use crate::serve::{ServeError, open};
use crate::settings::CoreSettings;

/// What was found.
#[derive(Debug, Serialize)]
pub struct Found {
    /// Each invariant that does not hold, with its place.
    pub violations: Vec<String>,
    /// Sessions that are not deleted.
    pub sessions: Vec<String>,
    /// Every message that these Sessions hold, as often as it is stored: Session and text.
    pub messages: Vec<(String, String)>,
}

/// Checks the database of these settings. With `quiescent` nothing may be under way any more.
///
/// # Errors
/// The database cannot be opened or read.
pub async fn database(settings: &CoreSettings, quiescent: bool) -> Result<Found, ServeError> {
    let store = open(settings).await?;
    let messages = testing::messages(&store).await?;
    let found = Found {
        violations: testing::violations(&store, quiescent).await?,
        sessions: testing::live_sessions(&store)
            .await?
            .iter()
            .map(ToString::to_string)
            .collect(),
        messages: messages
            .into_iter()
            .map(|message| (message.session.to_string(), message.text))
            .collect(),
    };
    store.close().await;
    Ok(found)
}
