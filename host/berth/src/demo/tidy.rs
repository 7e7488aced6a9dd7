//! The end of the demo: its own Session goes, with its processes and folders; those that a user made stay.

use super::api::Api;
use anyhow::{Context, bail};
use machine::sandbox::Sandboxes;
use reqwest::{Method, StatusCode};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A Turn has this long to end after its cancel, and a sandbox to go after its Session.
const WITHIN: Duration = Duration::from_secs(40);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Deletes the Session, after a cancel if it is at work, and waits until its sandbox is gone. The Core must still run.
///
/// # Errors
/// It could not be deleted in time, or its sandbox is still there.
pub async fn remove(
    api: &Api,
    sandboxes: &Sandboxes,
    installation: &str,
    session: &str,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + WITHIN;
    let mut cancelled = false;
    loop {
        let answer = api
            .sessions(Method::DELETE, &format!("/{session}"))?
            .send()
            .await
            .context("the server did not answer")?;
        match answer.status() {
            status if status.is_success() || status == StatusCode::NOT_FOUND => break,
            // A Turn, or an input on its way to one, comes to its end first.
            StatusCode::CONFLICT if Instant::now() < deadline => {
                if !cancelled {
                    let cancel = json!({"events": [{"type": "agent.session.input.cancel"}]});
                    let request = api.sessions(Method::POST, &format!("/{session}/events"))?;
                    let answer = request.body(cancel.to_string()).send().await;
                    // Input that waits cannot be cancelled; its Turn can, a moment later.
                    cancelled = answer.is_ok_and(|answer| answer.status().is_success());
                }
                sleep(LOOK).await;
            }
            status => bail!("it could not be deleted ({status})"),
        }
    }
    while owned(sandboxes, installation)?
        .iter()
        .any(|(owner, _)| owner == session)
    {
        if Instant::now() >= deadline {
            bail!("its sandbox is still there");
        }
        sleep(LOOK).await;
    }
    Ok(())
}

/// The Sessions whose sandboxes run.
///
/// # Errors
/// The folder cannot be read.
pub fn running(sandboxes: &Sandboxes, installation: &str) -> anyhow::Result<Vec<String>> {
    let all = owned(sandboxes, installation)?.into_iter();
    Ok(all
        .filter_map(|(session, running)| running.then_some(session))
        .collect())
}

/// Each sandbox of this installation: its Session, and whether it runs.
fn owned(sandboxes: &Sandboxes, installation: &str) -> anyhow::Result<Vec<(String, bool)>> {
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = sandboxes
            .owned(installation, cursor.as_deref())
            .context("the folder of the sandboxes cannot be read")?;
        let entries = page.entries.into_iter();
        found.extend(entries.map(|(whose, status)| (whose.session, status.running)));
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(found),
        }
    }
}
