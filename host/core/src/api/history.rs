//! Turns and Items of a Session, and its Environment (sessions 5, 6, 11): reads of stored history.

use domain::{EnvironmentId, ItemId, SessionId, TurnId};

use super::call::{Call, Reply};
use super::error::ApiError;
use super::failure::read_failed;
use super::lists::{list, list_failed};
use super::render::{self, List};

/// The parent of a list is resolved before its cursor (W-ORDER-3).
pub(super) async fn parent(call: &Call) -> Result<SessionId, ApiError> {
    let session: SessionId = call.id("session_id");
    let exists = call
        .core
        .store
        .read()
        .session_exists(call.scope()?, session)
        .await
        .map_err(read_failed)?;
    exists.then_some(session).ok_or(ApiError::NotFound)
}

/// `GET /agents/sessions/{session_id}/turns`
pub(crate) async fn turns(call: Call) -> Result<Reply, ApiError> {
    let session = parent(&call).await?;
    let found = call
        .core
        .store
        .read()
        .turns(session, &list(&call.page, TurnId::NEVER))
        .await;
    let found = found.map_err(|error| list_failed(error, ApiError::NotFound))?;
    let elements = found
        .items
        .iter()
        .map(|turn| (turn.id.to_string(), render::turn::stored(turn)))
        .collect();
    Reply::ok(&List::new(elements, found.has_more))
}

/// `GET /agents/sessions/{session_id}/turns/{turn_id}`
pub(crate) async fn turn(call: Call) -> Result<Reply, ApiError> {
    let found = call
        .core
        .store
        .read()
        .turn(call.scope()?, call.id("session_id"), call.id("turn_id"))
        .await;
    Reply::ok(&render::turn::stored(
        &found.map_err(read_failed)?.ok_or(ApiError::NotFound)?,
    ))
}

/// `GET /agents/sessions/{session_id}/items`
pub(crate) async fn items(call: Call) -> Result<Reply, ApiError> {
    let session = parent(&call).await?;
    let found = call
        .core
        .store
        .read()
        .items(session, None, &list(&call.page, ItemId::NEVER))
        .await;
    let found = found.map_err(|error| list_failed(error, ApiError::ItemCursor))?;
    let elements = found
        .items
        .iter()
        .map(|item| (item.id.to_string(), render::item::item(item)))
        .collect();
    Reply::ok(&List::new(elements, found.has_more))
}

/// `GET /agents/environments/{environment_id}`
pub(crate) async fn environment(call: Call) -> Result<Reply, ApiError> {
    let id: EnvironmentId = call.id("environment_id");
    let found = call
        .core
        .store
        .read()
        .environment(call.project()?, id)
        .await;
    let found = found.map_err(read_failed)?.ok_or(ApiError::NotFound)?;
    Reply::ok(&render::environment::resource(&found.environment))
}
