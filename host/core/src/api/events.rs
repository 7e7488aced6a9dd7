//! Input (sessions 3): one batch of events, admitted whole or not at all; a reserved one is waited for.

mod batch;

use std::time::Duration;

use axum::http::StatusCode;
use domain::input::{Admission, Admit, ContentRules};
use domain::reservation::{ReservationFailure, ReservationState};
use domain::{Refusal, ReservationId, SessionId};
use store::StoreError;
use store::units::input::AdmitInput;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::call::{Call, Reply};
use super::error::ApiError;
use super::failure::write_failed;
use super::{idempotency, sessions};
use batch::{Sent, identity, parse};

/// A waiting request looks at its reservation at least so often.
const LOOK: Duration = Duration::from_secs(1);
/// Without an owner for so long, execution counts as lost: whoever may take over asks for the lease every second.
const TAKEOVER: Duration = Duration::from_secs(4);

/// `POST /agents/sessions/{session_id}/events`
pub(crate) async fn submit(call: Call) -> Result<Reply, ApiError> {
    let Sent { batch, counts } = call.read(parse)?;
    let key = idempotency::key(&call.parts.headers)?;
    let keyless = key.is_none();
    let project = call.project()?;
    let record = sessions::find(&call, project).await?;
    let session = record.state.session.id;
    let harness = call
        .core
        .harnesses
        .find(record.configuration.harness.as_str());
    let harness = harness.as_deref();
    let admit = Admit {
        digest: identity(&batch, &counts),
        batch,
        key,
        execution: harness.is_some(),
        content: ContentRules {
            whitespace_only: harness.is_some_and(|harness| harness.messages.whitespace_only),
            message_images: harness.is_some_and(|harness| !harness.messages.images.is_empty()),
            result_images: harness
                .is_some_and(|harness| !harness.functions.result_images.is_empty()),
        },
    };
    let unit = AdmitInput {
        project,
        session,
        admit,
        provenance: call.provenance(),
    };
    let admission =
        call.core
            .store
            .write(unit)
            .await
            .map_err(|error| match write_failed(error) {
                ApiError::Internal { effect_unknown } => ApiError::Internal {
                    effect_unknown: effect_unknown && keyless,
                },
                other => other,
            })?;
    match admission {
        Admission::Stored { .. } => {}
        // What ends the wait without an end of the reservation leaves it: sent again without a key, the same input could be
        // admitted twice (WB-2).
        Admission::Waits { reservation_id } => match wait(&call, session, reservation_id).await {
            Waited::Settled(answer) => answer?,
            Waited::GivenUp => {
                return Err(ApiError::ExecutionUnavailable {
                    effect_unknown: keyless,
                });
            }
        },
    }
    Ok(Reply::empty(StatusCode::ACCEPTED))
}

/// How a wait ended.
enum Waited {
    /// With its reservation.
    Settled(Result<(), ApiError>),
    /// Without it: the reservation stays (ENV-191).
    GivenUp,
}

/// Waits until the reservation is settled, outside any transaction, at most six minutes (S-RES-3, ENV-189, ENV-190). A look that
/// fails tells nothing, so it is repeated. A drain promotes nothing more, so it ends the wait after a last look (R9).
async fn wait(call: &Call, session: SessionId, reservation: ReservationId) -> Waited {
    let mut commits = call.core.store.commits();
    let given_up = Instant::now() + domain::time::RESERVATION_WAIT;
    let mut unowned_since = None;
    loop {
        let draining = call.core.stop.is_cancelled();
        match call.core.store.read().reservation_state(reservation).await {
            Ok(found) => {
                if let Some(answer) = settled(found) {
                    return Waited::Settled(answer);
                }
            }
            Err(error) => {
                tracing::warn!(%session, %error, "waiting input could not be looked at; it is looked at again");
            }
        }
        let now = Instant::now();
        unowned_since = match is_owned(call).await {
            Ok(true) => None,
            Ok(false) => unowned_since.or(Some(now)),
            Err(error) => {
                tracing::warn!(%session, %error, "the owner of execution could not be looked up");
                unowned_since
            }
        };
        let lost = unowned_since.is_some_and(|since| now.duration_since(since) >= TAKEOVER);
        if draining || now >= given_up || lost {
            return Waited::GivenUp;
        }
        let look = tokio::time::sleep(LOOK);
        tokio::pin!(look);
        loop {
            tokio::select! {
                () = call.core.stop.cancelled() => break,
                () = &mut look => break,
                commit = commits.recv() => match commit {
                    Ok(commit) if commit.session == session => break,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => break,
                    Err(RecvError::Closed) => return Waited::GivenUp,
                },
            }
        }
    }
}

/// The answer that a reservation gives, once it is settled.
fn settled(found: Option<ReservationState>) -> Option<Result<(), ApiError>> {
    match found {
        Some(ReservationState::Pending) => None,
        Some(ReservationState::Admitted { .. }) => Some(Ok(())),
        Some(ReservationState::Expired) => Some(Err(Refusal::InputExpired.into())),
        Some(ReservationState::Cancelled) => Some(Err(Refusal::InputCancelled.into())),
        Some(ReservationState::Failed {
            reason: ReservationFailure::Environment | ReservationFailure::Preparation,
        }) => Some(Err(Refusal::EnvironmentUnavailable.into())),
        // Its Session was deleted and swept: a pending reservation prevents that, so it was settled before.
        None => Some(Err(ApiError::NotFound)),
    }
}

/// Does anybody hold the execution lease (ENV-197)?
async fn is_owned(call: &Call) -> Result<bool, StoreError> {
    if call.core.store.lease().borrow().is_some() {
        return Ok(true);
    }
    let lease = call.core.store.lease_row().await?;
    let now = call.core.store.now().await?;
    Ok(lease.owner.is_some() && lease.expires_at.is_some_and(|at| at > now))
}
