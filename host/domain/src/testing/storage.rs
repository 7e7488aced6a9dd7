//! Rows and events survive their stored form, unknown members are refused.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::World;
use crate::allocation::{Observed, Record};
use crate::environment::FailureReason;
use crate::event::EventPayload;
use crate::run::{self, EventBody};
use crate::session::Placement;
use crate::turn::{Ending, TurnFailure};

fn survives<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(row: &T) {
    let text = serde_json::to_string(row).expect("a row has a stored form");
    assert_eq!(
        &serde_json::from_str::<T>(&text).expect("a stored row can be read"),
        row,
        "{text}"
    );
}

fn all_survive(world: &World) {
    let model = &world.model;
    survives(&model.session);
    survives(&model.environment);
    survives(&model.binding);
    survives(&model.allocation);
    model.reservations.values().for_each(survives);
    model.turns.values().for_each(survives);
    model.inputs.values().for_each(survives);
    model.items.values().for_each(survives);
    model.calls.values().for_each(survives);
    model.receipts.values().for_each(survives);
    model.devices.values().for_each(survives);
    model.artifacts.values().for_each(survives);
    model.events.iter().for_each(survives);
}

#[test]
fn rows_and_events_survive_their_stored_form() {
    let mut world = World::running(Placement::OpenaiHosted);
    world.call("1");
    world.answer("1", "one").unwrap();
    world.applied("1");
    world.call("2");
    let reasoning = run::ItemBody::Reasoning(run::Reasoning {
        summary: vec!["a".into()],
    });
    let message = run::ItemBody::Message(run::Message {
        text: "b".into(),
        phase: Some(run::Phase::Commentary),
    });
    for (key, body) in [("r", reasoning), ("m", message)] {
        let item = run::Item {
            key: key.into(),
            body,
        };
        world.append(EventBody::ItemEnded(run::ItemEnd {
            item,
            status: run::ItemStatus::Completed,
        }));
    }
    world.record(Record::NotRunning(Observed::Missing));
    all_survive(&world);
    world.cancel().unwrap();
    let class = crate::turn::FailureClass {
        code: run::FailureCode::ConnectionFailed,
        http_status: Some(502),
    };
    world.finish(Ending::Failed(TurnFailure::EngineFailed {
        class: Some(class),
    }));
    all_survive(&world);
    world.say("next").unwrap();
    all_survive(&world);
    world.archive().unwrap();
    all_survive(&world);

    let mut failed = World::created(Placement::SelfHosted, &["a"]);
    failed.fail_environment(FailureReason::Setup {
        index: 1,
        exit_code: 2,
    });
    all_survive(&failed);
}

#[test]
fn unknown_members_are_refused() {
    let world = World::running(Placement::None);
    let mut event = serde_json::to_value(&world.model.events[0]).unwrap();
    event["surprise"] = 1.into();
    assert!(serde_json::from_value::<EventPayload>(event).is_err());
    let mut turn = serde_json::to_value(world.model.newest_turn()).unwrap();
    turn["surprise"] = 1.into();
    assert!(serde_json::from_value::<crate::turn::Turn>(turn).is_err());
}
