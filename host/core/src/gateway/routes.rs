//! The machine routes of a Runtime (executor-credentials.md 3): where to dial, whether a device is online, the socket.
//!
//! Each checks the device's own credential; it is good for nothing else, and no other credential is good here (EC-1.1).

use axum::extract::FromRequestParts;
use axum::extract::ws::WebSocketUpgrade;
use domain::{DeviceId, Digest};
use protocol::bootstrap::{BootstrapAnswer, BootstrapRequest, SOCKET_PATH};
use protocol::wire::limits;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use store::read::DeviceRecord;

use super::pump;
use crate::api::auth::bearer;
use crate::api::call::{Call, Reply};
use crate::api::error::{ApiError, MachineError};
use crate::http::accept::known;

/// The socket's path below Core's public address.
pub(crate) const SOCKET: &str = SOCKET_PATH;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    device_id: DeviceId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dial {
    device_id: DeviceId,
    wire: u32,
}

#[derive(Serialize)]
struct Status {
    device_id: DeviceId,
    online: bool,
}

/// `POST /api/v1/agent-daemon/bootstrap` (RP-3.2)
pub(crate) async fn bootstrap(call: Call) -> Result<Reply, ApiError> {
    let which: BootstrapRequest =
        serde_json::from_str(call.body.text()).map_err(|_| MachineError::Request)?;
    admit(&call, which.device_id).await?;
    Reply::ok(&BootstrapAnswer {
        device_id: which.device_id,
        ws_url: call.core.gateway.socket_url(),
        heartbeat_ms: limits::HEARTBEAT_MS,
        protocol_version: limits::WIRE_VERSION,
    })
}

/// `GET /api/v1/agent-daemon/device-status?device_id=`
pub(crate) async fn status(call: Call) -> Result<Reply, ApiError> {
    let Which { device_id } = query(&call)?;
    admit(&call, device_id).await?;
    let online = call.core.gateway.is_online(device_id);
    Reply::ok(&Status { device_id, online })
}

/// `GET /api/v1/agent-daemon/ws?device_id=&wire=`: refusals are HTTP answers, given before the upgrade (RP-3.4).
pub(crate) async fn socket(mut call: Call) -> Result<Reply, ApiError> {
    let Dial { device_id, wire } = query(&call)?;
    let (record, credential) = admit(&call, device_id).await?;
    if wire != limits::WIRE_VERSION {
        return Err(MachineError::IncompatibleVersion.into());
    }
    let gateway = call.core.gateway.clone();
    // Nobody may answer a `hello` before the former owner's observations are closed (SC-9.5).
    let owner = gateway.owner().ok_or(ApiError::EXECUTION_UNAVAILABLE)?;
    let upgrade = WebSocketUpgrade::from_request_parts(&mut call.parts, &())
        .await
        .map_err(|_| MachineError::Upgrade)?;
    let tasks = gateway.tasks.clone();
    let response = upgrade
        .max_message_size(limits::TEXT_FRAME)
        .max_frame_size(limits::TEXT_FRAME)
        .on_failed_upgrade(
            move |error| tracing::info!(%device_id, %error, "a socket could not be upgraded"),
        )
        .on_upgrade(move |socket| async move {
            // The socket outlives the request; a drain waits for its end.
            tasks.spawn(pump::run(gateway, socket, record, credential, owner));
        });
    Ok(Reply(response))
}

/// The device of the request's credential, if it is this one.
async fn admit(call: &Call, device_id: DeviceId) -> Result<(DeviceRecord, Digest), ApiError> {
    let token = bearer(&call.parts.headers).ok_or(MachineError::Credential)?;
    let credential = Digest::of(token.as_bytes());
    let record = call
        .core
        .gateway
        .device(credential)
        .await
        .map_err(|error| {
            tracing::warn!(%error, "a device could not be looked up");
            ApiError::AuthenticationUnavailable
        })?;
    let record = record.filter(|record| record.device.id == device_id);
    let record = record.ok_or(MachineError::Credential)?;
    known(&call.parts.extensions);
    Ok((record, credential))
}

fn query<T: DeserializeOwned>(call: &Call) -> Result<T, ApiError> {
    let query = axum::extract::Query::<T>::try_from_uri(&call.parts.uri);
    query
        .map(|query| query.0)
        .map_err(|_| MachineError::Request.into())
}
