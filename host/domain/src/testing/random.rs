//! Random sequences of commands: every invariant after every commit, whatever the order (state-machines 2).

use proptest::prelude::*;

use super::World;
use crate::allocation::{self, Observed as Inspected, Record};
use crate::artifact::{Captured, CapturedFile};
use crate::environment::{FailureReason, Observe};
use crate::input::{Batch, Delivery};
use crate::run::{self, DeltaKind, EventBody};
use crate::session::Placement;
use crate::turn::{Ending, TurnFailure};
use crate::{Digest, OperationId};

/// One thing that somebody does; numbers choose among what is there.
#[derive(Debug, Clone)]
enum Step {
    Say { key: Option<u8>, messages: u8 },
    Cancel { key: Option<u8> },
    Answer { call: u8, output: u8 },
    Delete,
    Archive,
    Advance { seconds: u16 },
    Bind,
    BeginCreate,
    Record { what: u8 },
    StaleRecord { what: u8 },
    Suspend,
    Resume,
    ReleaseAllocation,
    Released,
    Register,
    Connected,
    Lost,
    StaleObservation { generation: u8, lost: bool },
    OwnerLost,
    BeginInit,
    CompleteInit,
    FailEnvironment,
    Promote { generation: u8 },
    Claim,
    FailQueued,
    FailReservation,
    Expire,
    Append { what: u8, key: u8 },
    Confirm { input: u8, delivery: u8 },
    Applied { call: u8 },
    Settle,
    Finish { ending: u8 },
    Interrupt,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || prop::option::of(0..3u8);
    prop_oneof![
        4 => (key(), 1..3u8).prop_map(|(key, messages)| Step::Say { key, messages }),
        2 => key().prop_map(|key| Step::Cancel { key }),
        3 => (0..3u8, 0..2u8).prop_map(|(call, output)| Step::Answer { call, output }),
        1 => Just(Step::Delete),
        1 => Just(Step::Archive),
        2 => (1..400u16).prop_map(|seconds| Step::Advance { seconds }),
        3 => Just(Step::Bind),
        3 => Just(Step::BeginCreate),
        4 => (0..8u8).prop_map(|what| Step::Record { what }),
        1 => (0..8u8).prop_map(|what| Step::StaleRecord { what }),
        1 => Just(Step::Suspend),
        1 => Just(Step::Resume),
        1 => Just(Step::ReleaseAllocation),
        1 => Just(Step::Released),
        3 => Just(Step::Register),
        4 => Just(Step::Connected),
        2 => Just(Step::Lost),
        1 => (0..3u8, any::<bool>()).prop_map(|(generation, lost)| Step::StaleObservation { generation, lost }),
        1 => Just(Step::OwnerLost),
        4 => Just(Step::BeginInit),
        4 => Just(Step::CompleteInit),
        1 => Just(Step::FailEnvironment),
        5 => (0..4u8).prop_map(|generation| Step::Promote { generation }),
        5 => Just(Step::Claim),
        1 => Just(Step::FailQueued),
        1 => Just(Step::FailReservation),
        2 => Just(Step::Expire),
        8 => (0..14u8, 0..3u8).prop_map(|(what, key)| Step::Append { what, key }),
        3 => (0..3u8, 0..6u8).prop_map(|(input, delivery)| Step::Confirm { input, delivery }),
        4 => (0..3u8).prop_map(|call| Step::Applied { call }),
        2 => Just(Step::Settle),
        2 => (0..4u8).prop_map(|ending| Step::Finish { ending }),
        1 => Just(Step::Interrupt),
    ]
}

fn key(key: Option<u8>) -> Option<String> {
    key.map(|key| format!("key-{key}"))
}

fn run_event(what: u8, key: u8) -> EventBody {
    let item = |body| run::Item {
        key: format!("{what}-{key}"),
        body,
    };
    let message = || {
        run::ItemBody::Message(run::Message {
            text: "hello".into(),
            phase: None,
        })
    };
    let reasoning = || {
        run::ItemBody::Reasoning(run::Reasoning {
            summary: vec!["a".into(), "b".into()],
        })
    };
    let command = |output: Option<&str>| {
        run::ItemBody::Command(run::CommandRun {
            command: "ls".into(),
            cwd: None,
            output: output.map(str::to_owned),
            exit_code: None,
            duration_ms: None,
        })
    };
    let delta = |of: u8, kind, index| {
        EventBody::Delta(run::Delta {
            key: format!("{of}-{key}"),
            kind,
            index,
            text: "he".into(),
        })
    };
    let end = |of: u8, body, status| {
        EventBody::ItemEnded(run::ItemEnd {
            item: run::Item {
                key: format!("{of}-{key}"),
                body,
            },
            status,
        })
    };
    let call = |arguments: &str| {
        run::ItemBody::FunctionCall(run::FunctionCall {
            call: format!("{key}"),
            name: "f".into(),
            arguments: arguments.into(),
        })
    };
    match what {
        0 => EventBody::ItemStarted(item(message())),
        1 => delta(0, DeltaKind::Text, 0),
        2 => end(0, message(), run::ItemStatus::Completed),
        3 => EventBody::ItemStarted(item(reasoning())),
        4 => delta(3, DeltaKind::Summary, u32::from(key)),
        5 => end(3, reasoning(), run::ItemStatus::Failed),
        6 => EventBody::ItemStarted(item(command(None))),
        7 => delta(6, DeltaKind::Output, 0),
        8 => end(6, command(Some("out")), run::ItemStatus::Failed),
        9 | 10 => EventBody::ItemStarted(item(call("{}"))),
        11 => EventBody::ItemStarted(item(call("{\"changed\":1}"))),
        12 => end(9, call("{}"), run::ItemStatus::Completed),
        _ => EventBody::Usage(run::Usage {
            input: 1,
            cached: Some(0),
            output: 2,
            reasoning: (key > 0).then_some(1),
            total: Some(3),
        }),
    }
}

fn record(world: &World, what: u8) -> Record {
    let native_id = "m-1".to_owned();
    match what {
        0 => Record::Created { native_id },
        1..=3 => Record::Running {
            native_id,
            lease_expires_at: None,
        },
        4 => Record::CreateRejected,
        5 => Record::Suspended,
        6 => Record::Resumed {
            lease_expires_at: Some(world.now),
        },
        _ => Record::NotRunning(Inspected::Stopped),
    }
}

fn act(world: &mut World, step: Step) {
    match step {
        Step::Say { key: k, messages } => {
            let batch = Batch::Messages(
                (0..messages)
                    .map(|n| super::message(&format!("m{n}")))
                    .collect(),
            );
            let _ = world.admit(batch, key(k).as_deref());
        }
        Step::Cancel { key: k } => {
            let _ = world.admit(Batch::Cancel, key(k).as_deref());
        }
        Step::Answer { call, output } => {
            let _ = world.answer(&call.to_string(), &output.to_string());
        }
        Step::Delete => {
            let _ = world.delete();
        }
        Step::Archive => {
            let _ = world.archive();
        }
        Step::Advance { seconds } => world.advance(seconds.into()),
        Step::Bind => world.bind(),
        Step::BeginCreate => {
            let _ = world.begin_create();
        }
        Step::Record { what } => {
            let _ = world.record(record(world, what));
        }
        Step::StaleRecord { what } => {
            let before = world.model.clone();
            let (state, revision) = (world.state(), world.allocation_revision().wrapping_sub(1));
            let record = record(world, what);
            let decided = world
                .with(|cx| allocation::record(&state, revision, record, cx))
                .unwrap();
            world.commit(decided);
            assert_eq!(world.model, before, "I20: an older revision is inert");
        }
        Step::Suspend => {
            let operation = OperationId::new(world.uuid());
            let (state, revision) = (world.state(), world.allocation_revision());
            let decided = allocation::begin_suspend(&state, revision, operation).unwrap();
            world.commit(decided);
        }
        Step::Resume => {
            let operation = OperationId::new(world.uuid());
            let (state, revision) = (world.state(), world.allocation_revision());
            let capacity = allocation::Capacity {
                used: 0,
                limit: None,
            };
            let decided = allocation::begin_resume(&state, revision, capacity, operation).unwrap();
            world.commit(decided);
        }
        Step::ReleaseAllocation => {
            let _ = world.release_allocation();
        }
        Step::Released => {
            let _ = world.released();
        }
        Step::StaleObservation { generation, lost } => {
            let before = world.model.clone();
            let generation = world.generation().saturating_sub(1 + u64::from(generation));
            let observe = if lost {
                Observe::Lost {
                    generation,
                    revision: u64::MAX,
                }
            } else {
                Observe::Connected {
                    generation,
                    revision: u64::MAX,
                }
            };
            if world.model.environment.is_some() && generation < world.generation() {
                world.observe(observe);
                assert_eq!(world.model, before, "I20, C4: an older generation is inert");
            }
        }
        Step::Register | Step::Connected | Step::Lost | Step::OwnerLost
            if world.model.environment.is_none() => {}
        Step::Register => {
            let _ = world.register();
        }
        Step::Connected => {
            let _ = world.connected();
        }
        Step::Lost => {
            let _ = world.lost();
        }
        Step::OwnerLost => {
            let _ = world.observe(Observe::OwnerLost);
        }
        Step::BeginInit => {
            let _ = world.begin_init();
        }
        Step::CompleteInit => {
            let _ = world.complete_init();
        }
        Step::FailEnvironment => {
            let _ = world.fail_environment(FailureReason::Incomplete);
        }
        Step::Promote { generation } => {
            if world.state().reservation.is_some() {
                world.promote_as(|promote| {
                    if generation == 0 {
                        promote.generation = promote.generation.wrapping_sub(1);
                    }
                });
            }
        }
        Step::Claim => {
            let _ = world.claim();
        }
        Step::FailQueued => {
            let _ = world.fail_queued();
        }
        Step::FailReservation => {
            let _ = world.fail_reservation();
        }
        Step::Expire => {
            let _ = world.expire();
        }
        Step::Append { what, key } => {
            let answer = world.append(run_event(what, key));
            if answer.invalid_call {
                world.finish(Ending::Failed(TurnFailure::FunctionCallInvalid));
            }
        }
        Step::Confirm { input, delivery } => {
            let delivery = [
                Delivery::Sent,
                Delivery::Written,
                Delivery::Accepted,
                Delivery::Accepted,
                Delivery::Rejected,
                Delivery::Unknown,
            ][usize::from(delivery)];
            let inputs: Vec<_> = world.state().inputs.iter().map(|input| input.id).collect();
            if let Some(id) = inputs.get(usize::from(input)) {
                world.confirm(*id, delivery);
            }
        }
        Step::Applied { call } => {
            let _ = world.applied(&call.to_string());
        }
        Step::Settle => {
            let _ = world.settle();
        }
        Step::Finish { ending } => {
            let ending = [
                Ending::Completed,
                Ending::Completed,
                Ending::Cancelled,
                Ending::Failed(TurnFailure::EventStreamIncomplete),
            ][usize::from(ending)];
            let file = CapturedFile {
                path: "/workspace/outputs/a".into(),
                digest: Digest::of(b"a"),
                size_bytes: 1,
            };
            let newest = world
                .model
                .artifacts
                .values()
                .max_by_key(|row| row.id)
                .cloned()
                .into_iter()
                .collect();
            world.finish_with(
                ending,
                Captured {
                    files: vec![file],
                    newest,
                },
            );
        }
        Step::Interrupt => {
            let _ = world.interrupt();
        }
    }
}

fn live_through(placement: Placement, input: bool, steps: Vec<Step>) {
    let texts: &[&str] = if input { &["hello"] } else { &[] };
    let mut world = World::created(placement, texts);
    for step in steps {
        act(&mut world, step);
    }
}

/// As [`live_through`], but from a prepared workspace, so that most steps meet a running Turn.
fn live_on(placement: Placement, steps: Vec<Step>) {
    let mut world = World::running(placement);
    for step in steps {
        act(&mut world, step);
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_order_keeps_the_invariants_on_none(steps in steps()) {
        live_through(Placement::None, true, steps);
    }

    #[test]
    fn every_order_keeps_the_invariants_hosted(input: bool, steps in steps()) {
        live_through(Placement::OpenaiHosted, input, steps);
    }

    #[test]
    fn every_order_keeps_the_invariants_self_hosted(input: bool, steps in steps()) {
        live_through(Placement::SelfHosted, input, steps);
    }

    #[test]
    fn every_order_keeps_the_invariants_of_a_running_turn(hosted: bool, steps in steps()) {
        live_on(if hosted { Placement::OpenaiHosted } else { Placement::None }, steps);
    }
}
