//! Dispatch as a specification: each row of `state-machines.md` 1.10, 1.11 and 4.7, then random orders.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::run::PrepareCode;
use crate::turn::TurnFailure;
use crate::{
    ConnectionId, DeliveryId, DeviceId, ExecutorId, InputId, PrepareId, ReservationId, RunId,
    SessionId, TurnId,
};

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

/// A world in which everything is as it should be; tests change one fact.
struct World {
    dispatch: Dispatch,
    now: Duration,
    serial: u128,
    work: WorkView,
    peer: Option<PeerView>,
}

const TURN: u128 = 7;

impl World {
    fn with(waiting: Waiting) -> Self {
        Self {
            dispatch: Dispatch::default(),
            now: Duration::ZERO,
            serial: 1000,
            work: WorkView {
                session: SessionId::new(id(1)),
                deleted: false,
                device: Some(DeviceId::new(id(2))),
                initialized: true,
                waiting: Some(waiting),
                claimed: None,
            },
            peer: Some(PeerView {
                connection: ConnectionId::new(id(3)),
                bound: true,
                fit: Fit::Fits,
            }),
        }
    }

    fn hosted() -> Self {
        Self::with(Waiting::Reservation(ReservationId::new(id(4))))
    }

    fn none() -> Self {
        Self::with(Waiting::Turn(TurnId::new(id(TURN))))
    }

    fn feed(&mut self, input: Input) -> Vec<Effect> {
        self.serial += 2;
        let fresh = Fresh {
            prepare: PrepareId::new(id(self.serial)),
            run: RunId::new(id(self.serial + 1)),
        };
        self.dispatch.step(input, self.now, fresh)
    }

    fn read(&mut self) -> Vec<Effect> {
        self.feed(Input::Read {
            work: self.work.clone(),
            peer: self.peer,
        })
    }

    fn prepare(&mut self) -> PrepareId {
        match self.read().as_slice() {
            [Effect::Prepare { prepare, .. }] => *prepare,
            other => panic!("no preparation: {other:?}"),
        }
    }

    fn claim(&mut self) -> RunId {
        let prepare = self.prepare();
        let answer = PrepareAnswer::Ready(ExecutorId::new(id(6)));
        assert_eq!(
            self.feed(Input::Prepare { prepare, answer }),
            [Effect::Read]
        );
        match self.read().as_slice() {
            [Effect::Claim { run, .. }] => *run,
            other => panic!("no claim: {other:?}"),
        }
    }

    /// Claimed; Start is not asked for.
    fn claimed(&mut self) -> RunId {
        let run = self.claim();
        assert_eq!(
            self.feed(Input::Claimed(ClaimAnswer::First(TurnId::new(id(TURN))))),
            [Effect::Read]
        );
        self.work.waiting = None;
        self.work.claimed = Some(Claimed {
            turn: TurnId::new(id(TURN)),
            run,
            cancel: false,
            undelivered: Vec::new(),
        });
        run
    }

    fn sent(&mut self) -> RunId {
        let run = self.claimed();
        assert!(
            matches!(self.read().as_slice(), [Effect::Start { run: started, .. }] if *started == run)
        );
        assert_eq!(self.feed(Input::Start(StartAnswer::Sent)), [Effect::Read]);
        run
    }

    fn running(&mut self) -> RunId {
        let run = self.sent();
        assert_eq!(
            self.feed(Input::Start(StartAnswer::Started)),
            [Effect::Read]
        );
        assert_eq!(self.read(), []);
        run
    }

    fn cancelling(&mut self) -> RunId {
        let run = self.running();
        self.request_cancel();
        assert_eq!(self.read(), [Effect::Cancel(run)]);
        run
    }

    fn request_cancel(&mut self) {
        if let Some(claimed) = &mut self.work.claimed {
            claimed.cancel = true;
        }
    }

    fn store(&mut self, delivery: Delivery) {
        if let Some(claimed) = &mut self.work.claimed {
            claimed.undelivered.push(delivery);
        }
    }

    fn connection(&self) -> ConnectionId {
        ConnectionId::new(id(3))
    }
}

fn finish(run: RunId, ending: Ending) -> Effect {
    Effect::Finish {
        turn: TurnId::new(id(TURN)),
        run,
        ending,
    }
}

fn failed(run: RunId, cause: TurnFailure) -> Effect {
    finish(run, Ending::Failed(cause))
}

fn message(n: u128) -> Delivery {
    Delivery::Message(InputId::new(id(n)))
}

// X1, X3, X4, X5: each missing fact leaves the work waiting and asks for nothing.
#[test]
fn work_waits_for_device_peer_initialization_and_fit() {
    let mut world = World::hosted();
    world.work.device = None;
    assert_eq!(world.read(), [Effect::Rest]);
    world = World::none();
    world.work.device = None;
    assert_eq!(world.read(), [Effect::ChooseDevice]);
    assert_eq!(world.feed(Input::NoDevice), [Effect::Rest]);
    world = World::hosted();
    world.peer = None;
    assert_eq!(world.read(), [Effect::Rest]);
    world = World::hosted();
    world.work.initialized = false;
    assert_eq!(world.read(), [Effect::Rest]);
    world = World::hosted();
    world.peer = world.peer.map(|peer| PeerView {
        fit: Fit::Lacks,
        ..peer
    });
    assert_eq!(world.read(), [Effect::Rest]);
    assert_eq!(world.dispatch.phase(), Phase::Idle);
}

// SC-10.3: queued work of a deleted Session is never claimed.
#[test]
fn deleted_sessions_get_no_work() {
    let mut world = World::none();
    world.work.deleted = true;
    assert_eq!(world.read(), [Effect::Rest]);
}

// X2, RP-8.1.
#[test]
fn an_unbound_socket_is_bound_first() {
    let mut world = World::hosted();
    world.peer = world.peer.map(|peer| PeerView {
        bound: false,
        ..peer
    });
    assert_eq!(world.read(), [Effect::Bind(world.connection())]);
    assert_eq!(world.read(), [], "bind is sent once");
    assert_eq!(world.feed(Input::Bound(BindAnswer::Done)), [Effect::Read]);
    world.peer = world.peer.map(|peer| PeerView {
        bound: true,
        ..peer
    });
    world.prepare();
}

// X7, SC-7.2, SC-7.4.
#[test]
fn a_preparation_is_given_up_when_its_work_or_its_connection_is_gone() {
    let mut world = World::hosted();
    let prepare = world.prepare();
    world.work.waiting = None;
    assert_eq!(world.read(), [Effect::Release(prepare), Effect::Read]);

    world = World::hosted();
    world.prepare();
    world.peer = world.peer.map(|peer| PeerView {
        connection: ConnectionId::new(id(33)),
        ..peer
    });
    assert_eq!(
        world.read(),
        [Effect::Read],
        "nothing is sent on another socket"
    );

    world = World::hosted();
    world.prepare();
    assert_eq!(
        world.feed(Input::PeerLost(world.connection())),
        [Effect::Read]
    );
    assert_eq!(world.dispatch.phase(), Phase::Idle);
}

// X8, RP-10.12, ENV-226, ENV-227, ENV-229.
#[test]
fn only_definite_codes_end_waiting_input() {
    for (code, definite) in [
        (Some(PrepareCode::PreparationFailed), true),
        (Some(PrepareCode::InvalidConfiguration), true),
        (Some(PrepareCode::UnsupportedConfiguration), true),
        (Some(PrepareCode::UnsupportedPreparation), true),
        (Some(PrepareCode::Capacity), false),
        (Some(PrepareCode::Busy), false),
        (None, false),
    ] {
        let mut world = World::hosted();
        let prepare = world.prepare();
        let effects = world.feed(Input::Prepare {
            prepare,
            answer: PrepareAnswer::Ended(code),
        });
        match (definite, world.work.waiting) {
            (true, Some(waiting)) => {
                assert_eq!(effects, [Effect::Fail(waiting)], "{code:?}")
            }
            _ => assert_eq!(effects, [Effect::Backoff], "{code:?}"),
        }
    }
}

// RP-10.3: a status of another preparation is inert.
#[test]
fn foreign_statuses_are_inert() {
    let mut world = World::hosted();
    world.prepare();
    let foreign = PrepareId::new(id(99));
    let answer = PrepareAnswer::Ready(ExecutorId::new(id(6)));
    assert_eq!(
        world.feed(Input::Prepare {
            prepare: foreign,
            answer
        }),
        []
    );
    assert_eq!(world.dispatch.phase(), Phase::Preparing);
}

// X9: the declaration is checked again between ready and the claim.
#[test]
fn a_declaration_that_narrowed_stops_the_claim() {
    let mut world = World::hosted();
    let prepare = world.prepare();
    world.feed(Input::Prepare {
        prepare,
        answer: PrepareAnswer::Ready(ExecutorId::new(id(6))),
    });
    world.peer = world.peer.map(|peer| PeerView {
        fit: Fit::Lacks,
        ..peer
    });
    assert_eq!(world.read(), [Effect::Release(prepare), Effect::Rest]);
}

// X11, X12, ENV-217.
#[test]
fn only_the_first_receipt_gives_the_right_to_start() {
    let mut world = World::hosted();
    world.claim();
    assert!(matches!(
        world.feed(Input::Claimed(ClaimAnswer::Refused)).as_slice(),
        [Effect::Release(_), Effect::Rest]
    ));

    world = World::hosted();
    let run = world.claim();
    assert!(matches!(
        world.feed(Input::Claimed(ClaimAnswer::NoRight)).as_slice(),
        [Effect::Release(_), Effect::Read]
    ));
    let turn = TurnId::new(id(TURN));
    world.work.waiting = None;
    world.work.claimed = Some(Claimed {
        turn,
        run,
        cancel: false,
        undelivered: Vec::new(),
    });
    assert_eq!(world.read(), [Effect::Interrupt { turn, run }]);
    assert_eq!(world.feed(Input::Written(true)), [Effect::Read]);
}

// Whatever unit decides about waiting work: one that did not commit is tried again after a pause, never at once.
#[test]
fn a_unit_that_fails_is_tried_again_after_a_pause() {
    let mut choosing = World::none();
    choosing.work.device = None;
    let mut failing = World::hosted();
    let prepare = failing.prepare();
    let code = Some(PrepareCode::PreparationFailed);
    let mut interrupting = World::hosted();
    interrupting.work.claimed = Some(Claimed {
        turn: TurnId::new(id(TURN)),
        run: RunId::new(id(8)),
        cancel: false,
        undelivered: Vec::new(),
    });
    let asked = [
        choosing.read(),
        failing.feed(Input::Prepare {
            prepare,
            answer: PrepareAnswer::Ended(code),
        }),
        interrupting.read(),
    ];
    for (mut world, asked) in [choosing, failing, interrupting].into_iter().zip(asked) {
        assert_eq!(
            asked.len(),
            1,
            "nothing goes on before the answer: {asked:?}"
        );
        assert_eq!(world.feed(Input::Written(false)), [Effect::Backoff]);
        assert_eq!(world.dispatch.phase(), Phase::Idle);
    }
}

// T21, F21, D12.
#[test]
fn a_cancel_before_start_ends_the_turn_without_native_work() {
    let mut world = World::hosted();
    let run = world.claimed();
    world.request_cancel();
    let effects = world.read();
    assert!(
        matches!(effects.as_slice(), [Effect::Release(_), last] if *last == finish(run, Ending::NeverBegan))
    );
}

// X14, D11.
#[test]
fn a_rejected_start_is_not_tried_again() {
    let mut world = World::hosted();
    let run = world.sent();
    assert_eq!(
        world.feed(Input::Start(StartAnswer::Rejected)),
        [failed(run, TurnFailure::PreparationStartFailed)]
    );
    assert_eq!(world.read(), []);
}

// RP-17.1: nobody answers the start though the socket lives.
#[test]
fn a_start_without_an_answer_fails_the_turn_and_tells_the_runtime() {
    let mut asked = World::hosted();
    let asked_run = asked.claimed();
    asked.read();
    let mut sent = World::hosted();
    let sent_run = sent.sent();
    for (mut world, run) in [(asked, asked_run), (sent, sent_run)] {
        assert_eq!(
            world.feed(Input::Start(StartAnswer::Unknown)),
            [
                failed(run, TurnFailure::DeliveryUnknown),
                Effect::Abandon(run)
            ]
        );
    }
    // A receipt that comes after the first event says nothing new, and a cancel's receipt decides (RP-13.2).
    let mut running = World::hosted();
    running.running();
    assert_eq!(running.feed(Input::Start(StartAnswer::Unknown)), []);
    let mut cancelling = World::hosted();
    let run = cancelling.sent();
    cancelling.request_cancel();
    assert_eq!(cancelling.read(), [Effect::Cancel(run)]);
    assert_eq!(cancelling.feed(Input::Start(StartAnswer::Unknown)), []);
    let answer = CancelAnswer::Settled(RunEnd::Cancelled);
    assert_eq!(
        cancelling.feed(Input::Cancelled(answer)),
        [finish(run, Ending::Cancelled)]
    );
}

// SC-7.4: whatever ends a Turn before its Run was asked for gives the Executor back, on whichever way.
#[test]
fn an_end_before_the_start_was_sent_gives_the_executor_back() {
    for (why, cause) in [
        (Unsent::Peer, TurnFailure::DeviceDisconnected),
        (Unsent::Content, TurnFailure::PreparationStartFailed),
    ] {
        let mut world = World::hosted();
        let prepare = PrepareId::new(id(world.serial + 2));
        let run = world.claimed();
        world.read();
        assert_eq!(
            world.feed(Input::Start(StartAnswer::Unsent(why))),
            [Effect::Release(prepare), failed(run, cause)]
        );
    }
    // Somebody with more right ended the Turn.
    let mut world = World::hosted();
    let prepare = PrepareId::new(id(world.serial + 2));
    world.claimed();
    world.work.claimed = None;
    assert_eq!(world.read(), [Effect::Release(prepare), Effect::Read]);
    let mut world = World::hosted();
    let run = world.sent();
    world.work.claimed = None;
    assert_eq!(world.read(), [Effect::Abandon(run), Effect::Read]);
}

// 4.7: the cause tells how far it got.
#[test]
fn a_lost_peer_leaves_the_cause_of_its_stage() {
    let mut world = World::hosted();
    let run = world.claimed();
    let lost = Input::PeerLost(world.connection());
    assert_eq!(
        world.feed(lost.clone()),
        [failed(run, TurnFailure::DeviceDisconnected)]
    );

    world = World::hosted();
    let run = world.sent();
    assert_eq!(
        world.feed(lost.clone()),
        [failed(run, TurnFailure::DeliveryUnknown)]
    );

    world = World::hosted();
    let run = world.running();
    assert_eq!(
        world.feed(lost.clone()),
        [failed(run, TurnFailure::EventStreamIncomplete)]
    );

    world = World::hosted();
    let run = world.cancelling();
    assert_eq!(
        world.feed(lost),
        [failed(run, TurnFailure::CancelUnconfirmed)]
    );
}

// RP-10.6: an event may overtake `started`.
#[test]
fn the_first_event_means_running() {
    let mut world = World::hosted();
    let run = world.sent();
    assert_eq!(world.feed(Input::Event(run)), [Effect::Read]);
    assert_eq!(
        world.feed(Input::PeerLost(world.connection())),
        [failed(run, TurnFailure::EventStreamIncomplete)]
    );
}

// RP-12.1, RP-12.4, I10.
#[test]
fn messages_go_one_at_a_time_in_order_and_once() {
    let mut world = World::hosted();
    let run = world.running();
    world.store(message(11));
    world.store(message(12));
    assert_eq!(world.read(), [Effect::Deliver(run, message(11))]);
    assert_eq!(world.read(), [], "the next waits for the receipt");
    let answer = DeliveryAnswer::Accepted;
    assert_eq!(
        world.feed(Input::Delivered {
            delivery: message(11),
            answer
        }),
        [Effect::Confirm(message(11), answer), Effect::Read]
    );
    assert_eq!(
        world.read(),
        [Effect::Deliver(run, message(12))],
        "never the first again, though still stored"
    );
    let answer = DeliveryAnswer::Unknown;
    assert_eq!(
        world.feed(Input::Delivered {
            delivery: message(12),
            answer
        }),
        [Effect::Confirm(message(12), answer), Effect::Read]
    );
    assert_eq!(world.read(), []);
}

// What was certainly not sent is sent later, once.
#[test]
fn a_message_that_was_not_handed_over_is_tried_again() {
    let mut world = World::hosted();
    let run = world.running();
    world.store(message(11));
    assert_eq!(world.read(), [Effect::Deliver(run, message(11))]);
    assert_eq!(world.feed(Input::Undelivered(message(12))), []);
    assert_eq!(world.read(), [], "another one says nothing about it");
    assert_eq!(world.feed(Input::Undelivered(message(11))), []);
    assert_eq!(world.read(), [Effect::Deliver(run, message(11))]);
    let (delivery, answer) = (message(11), DeliveryAnswer::Accepted);
    world.feed(Input::Delivered { delivery, answer });
    assert_eq!(world.feed(Input::Undelivered(message(11))), []);
    assert_eq!(world.read(), [], "never after an answer");
}

// D6: what is stored before `started` waits for it.
#[test]
fn messages_wait_for_the_run() {
    let mut world = World::hosted();
    world.sent();
    world.store(message(11));
    assert_eq!(world.read(), []);
}

// F13, RP-13.5.
#[test]
fn the_cancel_goes_before_waiting_messages() {
    let mut world = World::hosted();
    let run = world.running();
    world.store(message(11));
    world.request_cancel();
    assert_eq!(world.read(), [Effect::Cancel(run)]);
    assert_eq!(world.read(), [], "sent once, and nothing after it");
}

// S-FN-8, function results.
#[test]
fn a_refused_result_fails_the_turn() {
    let result = Delivery::Result(DeliveryId::new(id(21)));
    for (answer, cause) in [
        (DeliveryAnswer::Rejected, TurnFailure::FunctionResultInvalid),
        (
            DeliveryAnswer::Unknown,
            TurnFailure::FunctionResultUnconfirmed,
        ),
    ] {
        let mut world = World::hosted();
        let run = world.running();
        world.store(result);
        assert_eq!(world.read(), [Effect::Deliver(run, result)]);
        assert_eq!(
            world.feed(Input::Delivered {
                delivery: result,
                answer
            }),
            [
                Effect::Confirm(result, answer),
                failed(run, cause),
                Effect::Abandon(run)
            ]
        );
    }
}

// T14, T15, T16, T17.
#[test]
fn a_good_end_is_followed_by_the_copy_only_with_an_environment() {
    let mut world = World::none();
    let run = world.running();
    assert_eq!(
        world.feed(Input::Ended(run, RunEnd::Completed)),
        [finish(run, Ending::Completed)]
    );
    assert_eq!(world.feed(Input::Finished(true)), [Effect::Read]);
    assert_eq!(world.dispatch.phase(), Phase::Idle);

    for (capture, ending) in [
        (Capture::Staged, Ending::Completed),
        (
            Capture::Discarded,
            Ending::Failed(TurnFailure::ArtifactCaptureFailed),
        ),
    ] {
        let mut world = World::hosted();
        let run = world.running();
        let turn = TurnId::new(id(TURN));
        assert_eq!(
            world.feed(Input::Ended(run, RunEnd::Completed)),
            [Effect::Settle { turn, run }]
        );
        assert_eq!(
            world.feed(Input::Settled(SettleAnswer::Capture)),
            [Effect::Capture(run)]
        );
        assert_eq!(
            world.feed(Input::PeerLost(world.connection())),
            [],
            "the copy ends by itself"
        );
        assert_eq!(world.feed(Input::Captured(capture)), [finish(run, ending)]);
    }
}

// T19, T20, T22, K8, K10, D14.
#[test]
fn once_sent_the_cancel_receipt_owns_the_outcome() {
    for (answer, expected) in [
        (CancelAnswer::Settled(RunEnd::Cancelled), Ending::Cancelled),
        (CancelAnswer::Settled(RunEnd::Completed), Ending::Completed),
        (
            CancelAnswer::Settled(RunEnd::Failed(None)),
            Ending::Failed(TurnFailure::EngineFailed { class: None }),
        ),
        (
            CancelAnswer::Unavailable,
            Ending::Failed(TurnFailure::CancelOutcomeUnavailable),
        ),
    ] {
        let mut world = World::hosted();
        let run = world.cancelling();
        assert_eq!(
            world.feed(Input::Ended(run, RunEnd::Completed)),
            [],
            "the end waits for the receipt"
        );
        let effects = world.feed(Input::Cancelled(answer));
        assert_eq!(effects.first(), Some(&finish(run, expected)));
    }
}

// K7, T20: `done` before the cancel was sent decides.
#[test]
fn an_end_before_the_cancel_was_sent_decides() {
    let mut world = World::none();
    let run = world.running();
    world.request_cancel();
    assert_eq!(
        world.feed(Input::Ended(run, RunEnd::Completed)),
        [finish(run, Ending::Completed)]
    );
    assert_eq!(world.read(), []);
}

// K9, RP-13.3.
#[test]
fn a_cancel_without_a_receipt_is_unconfirmed_after_fifteen_seconds() {
    let mut world = World::hosted();
    let run = world.cancelling();
    world.now = Duration::from_millis(14_999);
    assert_eq!(world.feed(Input::Tick), []);
    world.now = CANCEL_CONFIRMATION;
    assert_eq!(
        world.feed(Input::Tick),
        [
            failed(run, TurnFailure::CancelUnconfirmed),
            Effect::Abandon(run)
        ]
    );
    assert_eq!(world.feed(Input::Tick), []);
}

// RP-11.9, D30.
#[test]
fn a_broken_journal_fails_the_turn_and_tells_the_runtime() {
    for (fault, cause) in [
        (JournalFault::Storage, TurnFailure::EventPersistenceFailed),
        (JournalFault::Stream, TurnFailure::EventStreamIncomplete),
        (JournalFault::Call, TurnFailure::FunctionCallInvalid),
    ] {
        let mut world = World::hosted();
        let run = world.running();
        assert_eq!(
            world.feed(Input::JournalBroken(run, fault)),
            [failed(run, cause), Effect::Abandon(run)]
        );
    }
}

// X18.
#[test]
fn nothing_happens_after_stop() {
    let mut world = World::hosted();
    let run = world.running();
    assert_eq!(world.feed(Input::Stop), []);
    assert_eq!(world.feed(Input::Ended(run, RunEnd::Completed)), []);
    assert_eq!(world.read(), []);
}

/// Inputs that may arrive at any time, also when nobody asked.
fn any_input() -> impl Strategy<Value = u8> {
    0u8..27
}

proptest! {
    // I17, I19: whatever arrives in whatever order, no Run is started twice, nothing is delivered twice, every
    // Turn is finished at most once by its flight, and no effect follows its end but best-effort abandonment.
    #[test]
    fn nothing_is_asked_twice(script in proptest::collection::vec(any_input(), 1..120)) {
        let mut world = World::hosted();
        let mut counts: HashMap<String, u32> = HashMap::new();
        let mut last_prepare = PrepareId::new(id(0));
        let mut last_run = RunId::new(id(0));
        for code in script {
            let connection = world.connection();
            let input = match code {
                0..=5 => Input::Read { work: world.work.clone(), peer: world.peer },
                6 => Input::Bound(BindAnswer::Done),
                7 | 8 => Input::Prepare { prepare: last_prepare, answer: PrepareAnswer::Ready(ExecutorId::new(id(6))) },
                9 => Input::Prepare { prepare: last_prepare, answer: PrepareAnswer::Ended(None) },
                10 | 11 => {
                    if world.dispatch.phase() == Phase::Claiming {
                        world.work.claimed = Some(Claimed {
                            turn: TurnId::new(id(TURN)), run: last_run, cancel: false,
                            undelivered: vec![message(11), message(12)],
                        });
                    }
                    Input::Claimed(ClaimAnswer::First(TurnId::new(id(TURN))))
                }
                12 => Input::Claimed(ClaimAnswer::Refused),
                13 => Input::Start(StartAnswer::Sent),
                14 => Input::Start(StartAnswer::Started),
                15 => Input::Start(StartAnswer::Rejected),
                16 => Input::Event(last_run),
                17 => Input::Delivered { delivery: message(11), answer: DeliveryAnswer::Accepted },
                18 => { world.request_cancel(); Input::Tick }
                19 => Input::Cancelled(CancelAnswer::Settled(RunEnd::Cancelled)),
                20 => Input::Ended(last_run, RunEnd::Completed),
                21 => Input::Settled(SettleAnswer::Capture),
                22 => Input::Captured(Capture::Staged),
                23 => Input::Start(StartAnswer::Unknown),
                24 => Input::Written(false),
                25 => Input::NoDevice,
                _ => Input::PeerLost(connection),
            };
            for effect in world.feed(input) {
                let key = match &effect {
                    Effect::Prepare { prepare, .. } => { last_prepare = *prepare; continue }
                    Effect::Claim { run, .. } => { last_run = *run; format!("claim {run:?}") }
                    Effect::Start { run, .. } => format!("start {run:?}"),
                    Effect::Deliver(run, delivery) => format!("deliver {run:?} {delivery:?}"),
                    Effect::Cancel(run) => format!("cancel {run:?}"),
                    Effect::Finish { run, .. } => { world.work.claimed = None; format!("finish {run:?}") }
                    Effect::Settle { run, .. } => format!("settle {run:?}"),
                    Effect::Capture(run) => format!("capture {run:?}"),
                    _ => continue,
                };
                let count = counts.entry(key.clone()).or_default();
                *count += 1;
                prop_assert_eq!(*count, 1, "asked twice: {}", key);
            }
            if world.dispatch.phase() == Phase::Flying {
                let finished = counts.contains_key(&format!("finish {last_run:?}"));
                if finished && code == 22 { world.feed(Input::Finished(true)); }
            }
        }
    }
}
