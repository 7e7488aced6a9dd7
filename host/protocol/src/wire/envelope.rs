//! The envelope of a text frame: written within its limits, opened strictly (RP-4.2, RP-4.4, RP-4.5).

use std::borrow::Cow;

use domain::FrameId;
use domain::run::Binding;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::connection::FaultCode;
use super::frame::{Fault, Place, Undecodable, Unencodable, Violation};
use super::limits::{CORRELATION, EVENT_BATCH_BYTES, PREPARE_BODY, TEXT_FRAME, WORKSPACE_BODY};
use super::request::{Operation, Request, RequestType};
use super::strict;

#[derive(Serialize)]
struct Outgoing<'a> {
    r#type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<FrameId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binding: Option<&'a Binding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    body: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Incoming<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    binding: Option<Binding>,
    traceparent: Option<String>,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// Longest body of a type, in bytes.
fn body_limit(kind: &str) -> usize {
    match kind {
        "runtime_prepare" => PREPARE_BODY,
        "workspace_list" | "workspace_write" => WORKSPACE_BODY,
        "run_events" => EVENT_BATCH_BYTES,
        _ => TEXT_FRAME,
    }
}

pub(super) fn write(
    kind: &str,
    id: Option<FrameId>,
    binding: Option<&Binding>,
    traceparent: Option<&str>,
    body: serde_json::Result<Box<RawValue>>,
) -> Result<String, Unencodable> {
    let body = body.map_err(|_| Unencodable::Unwritable)?;
    if body.get().len() > body_limit(kind) {
        return Err(Unencodable::TooLong);
    }
    let frame = Outgoing {
        r#type: kind,
        id,
        binding,
        traceparent,
        body,
    };
    let text = serde_json::to_string(&frame).map_err(|_| Unencodable::Unwritable)?;
    if text.len() > TEXT_FRAME {
        Err(Unencodable::TooLong)
    } else {
        Ok(text)
    }
}

/// Decodes one body; the error names the place and no value, since values may be secret (RP-3.3, RP-9.12).
pub(super) fn read<T: DeserializeOwned>(body: &str) -> Result<T, Place> {
    let mut deserializer = serde_json::Deserializer::from_str(body);
    serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| Place(error.path().to_string()))
}

/// A text frame with its envelope checked.
pub(super) struct Opened<'a> {
    pub(super) kind: Cow<'a, str>,
    id: Option<FrameId>,
    binding: Option<Binding>,
    traceparent: Option<String>,
    body: &'a str,
}

impl<'a> Opened<'a> {
    pub(super) fn open(text: &'a str) -> Result<Self, Undecodable> {
        if text.len() > TEXT_FRAME {
            return Err(Violation::TooLong.into());
        }
        strict::check(text).map_err(Violation::from)?;
        if !text.trim_start().starts_with('{') {
            return Err(Violation::NotAnObject.into());
        }
        let Incoming {
            r#type: kind,
            id,
            binding,
            traceparent,
            body,
        } = serde_json::from_str(text).map_err(|_| {
            let place = "envelope".to_owned();
            Undecodable::Fault(Box::new(Fault {
                id: None,
                binding: None,
                of: None,
                code: FaultCode::InvalidBody,
                place,
            }))
        })?;
        let mut opened = Self {
            kind,
            id: None,
            binding,
            traceparent,
            body: body.get(),
        };
        if let Some(id) = id {
            opened.id = (id.len() <= CORRELATION).then(|| id.parse().ok()).flatten();
            if opened.id.is_none() {
                return Err(opened.fault(FaultCode::BadId, "id"));
            }
        }
        if opened.body.len() > body_limit(&opened.kind) {
            return Err(opened.fault(FaultCode::InvalidBody, "body"));
        }
        Ok(opened)
    }

    pub(super) fn fault(&self, code: FaultCode, place: &str) -> Undecodable {
        let of = (self.kind.len() <= CORRELATION).then(|| self.kind.clone().into_owned());
        Undecodable::Fault(Box::new(Fault {
            id: self.id,
            binding: self.binding,
            of,
            code,
            place: place.to_owned(),
        }))
    }

    fn invalid(&self, Place(place): Place) -> Undecodable {
        self.fault(FaultCode::InvalidBody, &place)
    }

    fn body<T: DeserializeOwned>(&self) -> Result<T, Undecodable> {
        read(self.body).map_err(|place| self.invalid(place))
    }

    /// A connection frame has neither id nor binding (RP-6.1).
    pub(super) fn bare<T: DeserializeOwned>(&self) -> Result<T, Undecodable> {
        if self.id.is_some() {
            return Err(self.fault(FaultCode::BadId, "id"));
        }
        if self.binding.is_some() {
            return Err(self.fault(FaultCode::BadBinding, "binding"));
        }
        self.body()
    }

    /// A session-scoped frame has a binding, and no id of its own.
    pub(super) fn scoped<T: DeserializeOwned>(&self) -> Result<(Binding, T), Undecodable> {
        if self.id.is_some() {
            return Err(self.fault(FaultCode::BadId, "id"));
        }
        let binding = self
            .binding
            .ok_or_else(|| self.fault(FaultCode::BadBinding, "binding"))?;
        Ok((binding, self.body()?))
    }

    pub(super) fn request(&self, kind: RequestType) -> Result<Request, Undecodable> {
        let id = self.id.ok_or_else(|| self.fault(FaultCode::BadId, "id"))?;
        let binding = self
            .binding
            .ok_or_else(|| self.fault(FaultCode::BadBinding, "binding"))?;
        let operation =
            Operation::read_body(kind, self.body).map_err(|place| self.invalid(place))?;
        if let Some(place) = inconsistent(id, &operation) {
            return Err(self.fault(FaultCode::InvalidBody, place));
        }
        // RP-2.8: a malformed trace context is dropped, it changes nothing.
        let traceparent = self
            .traceparent
            .clone()
            .filter(|trace| trace.len() <= CORRELATION);
        Ok(Request {
            id,
            binding,
            traceparent,
            operation,
        })
    }
}

/// What the types cannot say: identities that must agree, lists that must not be empty.
fn inconsistent(id: FrameId, operation: &Operation) -> Option<&'static str> {
    match operation {
        Operation::RunInput(input) => match &input.message {
            message if message.id.uuid() != id.uuid() => Some("message.id"),
            message if message.content.is_empty() => Some("message.content"),
            _ => None,
        },
        Operation::FunctionResult(result) if result.delivery_id.uuid() != id.uuid() => {
            Some("delivery_id")
        }
        Operation::ExecutionStart(start) if start.input.is_empty() => Some("input"),
        Operation::ExecutionStart(start)
            if start.input.iter().any(|message| message.content.is_empty()) =>
        {
            Some("input.content")
        }
        _ => None,
    }
}
