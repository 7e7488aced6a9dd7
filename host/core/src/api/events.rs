//! Input (sessions 3): one batch of events, admitted whole or not at all; a reserved one is waited for.

use std::time::Duration;

use axum::http::StatusCode;
use domain::call::{CallId, FunctionResult, ResultOutput};
use domain::content;
use domain::input::{Admission, Admit, Batch, ContentRules, ResultInput};
use domain::invalid::{Invalid, Path};
use domain::item::InputPart;
use domain::json::{Json, Kind, Object};
use domain::reservation::{ReservationFailure, ReservationState};
use domain::{Digest, Refusal, ReservationId, SessionId, TurnId};
use store::units::input::AdmitInput;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::call::{Call, Reply};
use super::error::ApiError;
use super::failure::{read_failed, write_failed};
use super::{idempotency, sessions};

/// Most events of one batch (ENV-150).
const MAX_EVENTS: usize = 64;
/// A waiting request looks at its reservation at least so often.
const LOOK: Duration = Duration::from_secs(1);
/// Without an owner for so long, execution counts as lost: whoever may take over asks for the lease every second.
const TAKEOVER: Duration = Duration::from_secs(4);

/// `POST /agents/sessions/{session_id}/events`
pub(crate) async fn submit(call: Call) -> Result<Reply, ApiError> {
    let batch = call.read(parse)?;
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
        digest: identity(&batch),
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
        Admission::Waits { reservation_id } => {
            wait(&call, session, reservation_id)
                .await
                .map_err(|error| match error {
                    // The reservation stays: sent again without a key, the same input could be admitted twice (WB-2).
                    ApiError::ExecutionUnavailable { .. } => ApiError::ExecutionUnavailable {
                        effect_unknown: keyless,
                    },
                    other => other,
                })?;
        }
    }
    Ok(Reply::empty(StatusCode::ACCEPTED))
}

/// Waits until the reservation is settled, outside any transaction, at most six minutes (S-RES-3, ENV-189, ENV-190). Giving
/// up changes nothing: the reservation stays (ENV-191). A drain promotes nothing more, so it ends the wait after a last look
/// (R9).
async fn wait(call: &Call, session: SessionId, reservation: ReservationId) -> Result<(), ApiError> {
    let mut commits = call.core.store.commits();
    let given_up = Instant::now() + domain::time::RESERVATION_WAIT;
    let mut unowned_since = None;
    loop {
        let draining = call.core.stop.is_cancelled();
        let found = call
            .core
            .store
            .read()
            .reservation_state(reservation)
            .await
            .map_err(read_failed)?;
        match found {
            Some(ReservationState::Pending) => {}
            Some(ReservationState::Admitted { .. }) => return Ok(()),
            Some(ReservationState::Expired) => return Err(Refusal::InputExpired.into()),
            Some(ReservationState::Cancelled) => return Err(Refusal::InputCancelled.into()),
            Some(ReservationState::Failed {
                reason: ReservationFailure::Environment | ReservationFailure::Preparation,
            }) => return Err(Refusal::EnvironmentUnavailable.into()),
            // Its Session was deleted and swept: a pending reservation prevents that, so it was settled before.
            None => return Err(ApiError::NotFound),
        }
        let now = Instant::now();
        unowned_since = if is_owned(call).await? {
            None
        } else {
            unowned_since.or(Some(now))
        };
        let lost = unowned_since.is_some_and(|since| now.duration_since(since) >= TAKEOVER);
        if draining || now >= given_up || lost {
            return Err(ApiError::EXECUTION_UNAVAILABLE);
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
                    Err(RecvError::Closed) => return Err(ApiError::EXECUTION_UNAVAILABLE),
                },
            }
        }
    }
}

/// Does anybody hold the execution lease (ENV-197)?
async fn is_owned(call: &Call) -> Result<bool, ApiError> {
    if call.core.store.lease().borrow().is_some() {
        return Ok(true);
    }
    let lease = call.core.store.lease_row().await.map_err(read_failed)?;
    let now = call.core.store.now().await.map_err(read_failed)?;
    Ok(lease.owner.is_some() && lease.expires_at.is_some_and(|at| at > now))
}

/// Reads the body: 1 to 64 events of one kind (S-EV-3, S-EV-4, D4).
fn parse(body: Json<'_>) -> Result<Batch, Invalid> {
    let object = Object::open(body, &Path::root(), &["events"])?;
    let path = object.path("events");
    let events = object
        .get("events")
        .map(|events| events.to_elements(&path))
        .transpose()?;
    let events = object.required(events, "events")?;
    if events.is_empty() || events.len() > MAX_EVENTS {
        return Err(Invalid::request());
    }
    let mut batch: Option<Batch> = None;
    for (index, event) in events.into_iter().enumerate() {
        let event = parse_event(event, &path.index(index))?;
        batch = Some(match (batch, event) {
            (None, event) => event,
            (Some(Batch::Messages(mut all)), Batch::Messages(more)) => {
                all.extend(more);
                Batch::Messages(all)
            }
            (Some(Batch::Cancel), Batch::Cancel) => Batch::Cancel,
            (Some(Batch::Results(mut all)), Batch::Results(more)) => {
                all.extend(more);
                Batch::Results(all)
            }
            (Some(_), _) => return Err(Invalid::request()),
        });
    }
    let batch = batch.ok_or_else(Invalid::request)?;
    if canonical(&batch).len() > content::MAX_STORED_INPUT {
        Err(Invalid::request())
    } else {
        Ok(batch)
    }
}

/// One event; every malformed shape is one refusal (E400-20).
fn parse_event(json: Json<'_>, path: &Path) -> Result<Batch, Invalid> {
    let object = Object::any(json, path).map_err(|_| Invalid::request())?;
    let only = |known: &[&str]| object.only(known).map_err(|_| Invalid::request());
    match object.get("type").and_then(Json::string).as_deref() {
        Some("agent.session.input.message") => {
            only(&["type", "input"])?;
            let input = object.get("input").ok_or_else(Invalid::request)?;
            content::parse_messages(input, &object.path("input")).map(Batch::Messages)
        }
        Some("agent.session.input.cancel") => only(&["type"]).map(|()| Batch::Cancel),
        Some("agent.session.input.tool_result") => {
            only(&["type", "turn_id", "call_id", "success", "output", "error"])?;
            parse_result(&object).map(|result| Batch::Results(vec![result]))
        }
        _ => Err(Invalid::request()),
    }
}

fn parse_result(object: &Object<'_>) -> Result<ResultInput, Invalid> {
    let text = |name: &str| {
        object
            .get(name)
            .and_then(Json::string)
            .ok_or_else(Invalid::request)
    };
    let (turn, call) = (text("turn_id")?, text("call_id")?);
    if turn.is_empty() || call.trim().is_empty() {
        return Err(Invalid::request());
    }
    let success = object.get("success").ok_or_else(Invalid::request)?;
    let success = success
        .to_bool(&object.path("success"))
        .map_err(|_| Invalid::request())?;
    let given = |name: &str| object.get(name).filter(|value| !value.is_null());
    let output = given("output").map(parse_output).transpose()?;
    let error = given("error")
        .map(|value| value.string().ok_or_else(Invalid::request))
        .transpose()?;
    // S-FN-3: which members were sent is part of what was sent.
    let presence = |name: &str| match object.get(name) {
        None => "omitted",
        Some(value) if value.is_null() => "null",
        Some(_) => "value",
    };
    let result = FunctionResult {
        success,
        output,
        error,
    };
    let stored = serde_json::to_vec(&result).unwrap_or_default();
    let parts = [
        &stored,
        presence("output").as_bytes(),
        presence("error").as_bytes(),
    ];
    Ok(ResultInput {
        turn_id: turn.parse::<TurnId>().ok(),
        call_id: CallId(call),
        digest: Digest::of_parts(parts),
        result,
    })
}

fn parse_output(json: Json<'_>) -> Result<ResultOutput, Invalid> {
    if json.kind() == Kind::String {
        return json
            .string()
            .map(ResultOutput::Text)
            .ok_or_else(Invalid::request);
    }
    let parts: Vec<InputPart> =
        serde_json::from_str(json.text()).map_err(|_| Invalid::request())?;
    Ok(ResultOutput::Parts(parts))
}

/// The batch as stored: what is bounded and compared.
fn canonical(batch: &Batch) -> Vec<u8> {
    let text = match batch {
        Batch::Messages(messages) => serde_json::to_vec(messages),
        Batch::Cancel => Ok(Vec::new()),
        Batch::Results(results) => {
            let results: Vec<_> = results.iter().map(|result| &result.result).collect();
            serde_json::to_vec(&results)
        }
    };
    text.unwrap_or_default()
}

/// Identity of the whole ordered batch (W-IDEM-9).
fn identity(batch: &Batch) -> Digest {
    match batch {
        Batch::Messages(_) => Digest::of_parts([b"messages".as_slice(), &canonical(batch)]),
        Batch::Cancel => Digest::of_parts([b"cancel".as_slice()]),
        Batch::Results(results) => {
            let mut parts = vec![b"results".to_vec()];
            for result in results {
                let turn = result
                    .turn_id
                    .map(|turn| turn.to_string())
                    .unwrap_or_default();
                parts.extend([
                    turn.into_bytes(),
                    result.call_id.0.clone().into_bytes(),
                    result.digest.as_bytes().to_vec(),
                ]);
            }
            Digest::of_parts(parts.iter().map(Vec::as_slice))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = r#"{"type":"agent.session.input.message","input":[{"role":"user","content":[{"type":"input_text","text":"a"}]}]}"#;
    const CANCEL: &str = r#"{"type":"agent.session.input.cancel"}"#;

    fn batch(events: &[&str]) -> Result<Batch, Invalid> {
        parse(Json::new(&format!(
            r#"{{"events":[{}]}}"#,
            events.join(",")
        )))
    }

    fn result(members: &str) -> String {
        format!(
            r#"{{"type":"agent.session.input.tool_result","turn_id":"t","call_id":"c","success":true{members}}}"#
        )
    }

    #[test]
    fn one_kind_per_batch() {
        // ENV-184, D4
        assert!(
            matches!(batch(&[MESSAGE, MESSAGE]).unwrap(), Batch::Messages(messages) if messages.len() == 2)
        );
        assert_eq!(batch(&[CANCEL, CANCEL]).unwrap(), Batch::Cancel);
        assert_eq!(batch(&[MESSAGE, CANCEL]), Err(Invalid::request()));
        assert_eq!(batch(&[CANCEL, &result("")]), Err(Invalid::request()));
    }

    #[test]
    fn batches_are_bounded() {
        // S-EV-1, S-EV-3
        assert_eq!(batch(&[]), Err(Invalid::request()));
        assert!(batch(&[CANCEL; 64]).is_ok());
        assert_eq!(batch(&[CANCEL; 65]), Err(Invalid::request()));
        assert_eq!(
            parse(Json::new("{}")).unwrap_err().message,
            "Missing required parameter: 'events'."
        );
        assert_eq!(
            parse(Json::new(r#"{"events":null}"#)).unwrap_err().message,
            "Invalid type for 'events': expected an array, but got null instead."
        );
    }

    #[test]
    fn malformed_events_are_one_refusal() {
        // E400-20
        for event in [
            "5",
            "{}",
            r#"{"type":"agent.session.input.message"}"#,
            r#"{"type":"agent.session.input.message","input":"a"}"#,
            r#"{"type":"agent.session.input.cancel","x":1}"#,
            r#"{"type":"agent.session.input.tool_result","turn_id":"","call_id":"c","success":true}"#,
            r#"{"type":"agent.session.input.tool_result","turn_id":"t","call_id":" ","success":true}"#,
            r#"{"type":"agent.session.input.tool_result","turn_id":"t","call_id":"c","success":"yes"}"#,
            r#"{"type":"agent.session.created"}"#,
        ] {
            assert_eq!(batch(&[event]), Err(Invalid::request()), "{event}");
        }
    }

    #[test]
    fn field_presence_of_results_is_identity() {
        // S-FN-3, W-IDEM-9
        let identities: Vec<_> = [
            "",
            r#","output":null"#,
            r#","output":"""#,
            r#","error":null"#,
        ]
        .iter()
        .map(|members| identity(&batch(&[&result(members)]).unwrap()))
        .collect();
        for (index, one) in identities.iter().enumerate() {
            assert!(
                identities[index + 1..].iter().all(|other| other != one),
                "{index}"
            );
        }
    }
}
