//! What a body of events says, and the identity of all of it (S-EV-1 to S-EV-4, W-IDEM-9).

use domain::call::{CallId, FunctionResult, ResultOutput};
use domain::input::{Batch, ResultInput};
use domain::invalid::{Invalid, Path};
use domain::item::InputPart;
use domain::json::{Json, Kind, Object};
use domain::{Digest, TurnId, content};

/// Most events of one batch (ENV-150).
const MAX_EVENTS: usize = 64;

/// What a body says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// Its events as one batch.
    pub batch: Batch,
    /// How many messages or results each event has: part of what was sent (SC-5.7).
    pub counts: Vec<usize>,
}

/// Reads the body: 1 to 64 events of one kind (S-EV-3, S-EV-4, D4).
pub(super) fn parse(body: Json<'_>) -> Result<Sent, Invalid> {
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
    let mut counts = Vec::with_capacity(events.len());
    for (index, event) in events.into_iter().enumerate() {
        let event = parse_event(event, &path.index(index))?;
        counts.push(match &event {
            Batch::Messages(messages) => messages.len(),
            Batch::Results(results) => results.len(),
            Batch::Cancel => 1,
        });
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
        Ok(Sent { batch, counts })
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

/// Identity of the whole ordered batch, event by event (W-IDEM-9, SC-5.7).
pub(super) fn identity(batch: &Batch, counts: &[usize]) -> Digest {
    let mut parts = match batch {
        Batch::Messages(_) => vec![b"messages".to_vec(), canonical(batch)],
        Batch::Cancel => vec![b"cancel".to_vec()],
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
            parts
        }
    };
    parts.extend(counts.iter().map(|count| count.to_string().into_bytes()));
    Digest::of_parts(parts.iter().map(Vec::as_slice))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = r#"{"type":"agent.session.input.message","input":[{"role":"user","content":[{"type":"input_text","text":"a"}]}]}"#;
    const CANCEL: &str = r#"{"type":"agent.session.input.cancel"}"#;

    fn batch(events: &[&str]) -> Result<Batch, Invalid> {
        sent(events).map(|sent| sent.batch)
    }

    fn sent(events: &[&str]) -> Result<Sent, Invalid> {
        parse(Json::new(&format!(
            r#"{{"events":[{}]}}"#,
            events.join(",")
        )))
    }

    fn identified(events: &[&str]) -> Digest {
        let Sent { batch, counts } = sent(events).unwrap();
        identity(&batch, &counts)
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
        .map(|members| identified(&[&result(members)]))
        .collect();
        for (index, one) in identities.iter().enumerate() {
            assert!(
                identities[index + 1..].iter().all(|other| other != one),
                "{index}"
            );
        }
    }

    #[test]
    fn length_and_structure_of_a_batch_are_identity() {
        // SC-5.7, W-IDEM-9
        let two = MESSAGE.replace(
            "}]}",
            "}]},{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"}]}",
        );
        let one = result("");
        let batches: [&[&str]; 7] = [
            &[CANCEL],
            &[CANCEL, CANCEL],
            &[MESSAGE],
            &[MESSAGE, MESSAGE],
            &[&two],
            &[&one],
            &[&one, &one],
        ];
        assert_eq!(batch(batches[3]).unwrap(), batch(batches[4]).unwrap());
        let identities: Vec<_> = batches.iter().map(|events| identified(events)).collect();
        for (index, one) in identities.iter().enumerate() {
            assert_eq!(
                identities.iter().filter(|other| *other == one).count(),
                1,
                "{index}"
            );
        }
        assert_eq!(identified(batches[4]), identities[4], "and it is stable");
    }
}
