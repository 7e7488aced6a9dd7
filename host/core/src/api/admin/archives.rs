//! The archive of a hosted Session by an administrator (OPS-043).

use domain::Refusal;
use domain::invalid::{Invalid, Path};
use domain::json::{Json, Object};
use domain::session::{Reclaim, reclaim_of};
use serde::Serialize;
use store::units::session::{ArchiveRefusal, ArchiveSession};
use store::{Parts, WriteError};

use crate::api::call::{Call, Reply};
use crate::api::error::{AdminError, ApiError};
use crate::api::failure::{read_failed, write_broke};

#[derive(Serialize)]
struct ArchiveJson {
    session_id: String,
    environment_id: String,
    state: Reclaim,
}

/// `POST /core/v1/projects/{project_id}/sessions/{session_id}/archive`
pub(crate) async fn archive(call: Call) -> Result<Reply, ApiError> {
    let expected = call.read(expected_generation);
    let unit = ArchiveSession {
        project: call.id("project_id"),
        session: call.id("session_id"),
        expected_generation: expected.map_err(|_| AdminError::Request)?,
        by: call.administrator()?,
    };
    let written = call.core.store.write(unit).await;
    written.map_err(|error| match error {
        WriteError::Refused(ArchiveRefusal::Refused(refusal)) => refused(refusal),
        WriteError::Refused(ArchiveRefusal::Stale { current }) => {
            AdminError::StaleGeneration(current).into()
        }
        WriteError::Store(error) => write_broke(&error),
    })?;
    read(call).await
}

/// `GET /core/v1/projects/{project_id}/sessions/{session_id}/archive`
pub(crate) async fn read(call: Call) -> Result<Reply, ApiError> {
    let parts = Parts {
        allocation: true,
        ..Parts::default()
    };
    let found = call.core.store.read();
    let found = found.state(call.id("session_id"), &parts).await;
    let state = found
        .map_err(read_failed)?
        .filter(|state| state.session.project_id == call.id("project_id"))
        .ok_or(AdminError::NotFound)?;
    let reclaim = reclaim_of(&state).map_err(refused)?;
    let environment = state.environment.as_ref().ok_or(AdminError::NotFound)?;
    Reply::ok(&ArchiveJson {
        session_id: state.session.id.to_string(),
        environment_id: environment.id.to_string(),
        state: reclaim,
    })
}

fn refused(refusal: Refusal) -> ApiError {
    match refusal {
        Refusal::NotFound => AdminError::NotFound.into(),
        Refusal::NotHosted => AdminError::Request.into(),
        other => other.into(),
    }
}

/// Exactly `expected_generation`, a number.
fn expected_generation(body: Json<'_>) -> Result<u64, Invalid> {
    const NAME: &str = "expected_generation";
    let object = Object::open(body, &Path::root(), &[NAME])?;
    let value = object.required(object.get(NAME), NAME)?;
    let number = value.to_integer(&object.path(NAME), 0)?;
    Ok(u64::try_from(number).unwrap_or_default())
}
