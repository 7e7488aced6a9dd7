//! Subagents of a Session (sessions 12): their read side. Creating a Session refuses `multi_agent`, so that there is none to
//! list and every id names nothing.

use serde::Serialize;

use super::call::{Call, Reply};
use super::error::ApiError;
use super::history;
use super::render::List;

/// What a list of none holds.
#[derive(Serialize)]
enum Nothing {}

/// `GET /agents/sessions/{session_id}/subagents`
pub(crate) async fn list(call: Call) -> Result<Reply, ApiError> {
    history::parent(&call).await?;
    match call.page.after {
        Some(_) => Err(ApiError::SubagentCursor),
        None => Reply::ok(&List::<Nothing>::new(Vec::new(), false)),
    }
}

/// `GET /agents/sessions/{session_id}/subagents/{subagent_id}` and everything below it.
pub(crate) async fn read(call: Call) -> Result<Reply, ApiError> {
    history::parent(&call).await?;
    Err(ApiError::NotFound)
}
