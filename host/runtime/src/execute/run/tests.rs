//! Any order of facts: each request has one final answer, each Run one end, and time alone is enough to get there.

use std::collections::HashMap;

use domain::{InputId, run::MessagePart};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

#[derive(Debug, Clone)]
enum Fact {
    Start(Confirmed),
    Input,
    Cancel,
    Abandon,
    Written,
    Receipt(usize, Confirmed),
    Delta,
    Settled(TurnStatus, bool),
    Gone(bool),
    /// The look that was asked for: whether the harness is alone.
    Surveyed(bool),
    AdapterFailed,
    Pass(u64),
}

fn confirmed() -> impl Strategy<Value = Confirmed> {
    prop_oneof![
        4 => Just(Confirmed::Done),
        1 => Just(Confirmed::Rejected("unsupported_content".to_owned())),
        1 => Just(Confirmed::Unknown),
    ]
}

fn status() -> impl Strategy<Value = TurnStatus> {
    prop_oneof![
        Just(TurnStatus::Completed),
        Just(TurnStatus::Failed),
        Just(TurnStatus::Cancelled),
        Just(TurnStatus::Unknown)
    ]
}

fn fact() -> impl Strategy<Value = Fact> {
    prop_oneof![
        3 => confirmed().prop_map(Fact::Start),
        3 => Just(Fact::Input),
        1 => Just(Fact::Cancel),
        1 => Just(Fact::Abandon),
        3 => Just(Fact::Written),
        4 => (0_usize..6, confirmed()).prop_map(|(at, how)| Fact::Receipt(at, how)),
        3 => Just(Fact::Delta),
        1 => (status(), any::<bool>()).prop_map(|(status, reusable)| Fact::Settled(status, reusable)),
        1 => any::<bool>().prop_map(Fact::Gone),
        1 => any::<bool>().prop_map(Fact::Surveyed),
        1 => Just(Fact::AdapterFailed),
        2 => (0_u64..20_000).prop_map(Fact::Pass),
    ]
}

fn message() -> InputMessage {
    InputMessage {
        id: InputId::new(Uuid::now_v7()),
        content: vec![MessagePart::Text("hi".to_owned())],
    }
}

fn plugin() -> PluginIdentity {
    PluginIdentity {
        id: "harness".to_owned(),
        version: "1.2.3".to_owned(),
        digest: Some("d".repeat(64)),
    }
}

/// A Run with everything that was asked and told.
struct Trial {
    run: Run,
    now: Instant,
    given: Vec<String>,
    asked: Vec<FrameId>,
    finals: HashMap<FrameId, usize>,
    kills: usize,
    /// A look was asked for and not told yet.
    surveys: bool,
    started: usize,
    not_started: usize,
    settled: Vec<TurnStatus>,
    events: Vec<(u64, RunEvent)>,
    abandoned: bool,
}

impl Trial {
    fn new() -> Self {
        let mut out = Vec::new();
        let now = Instant::now();
        let run = Run::start(
            RunId::new(Uuid::now_v7()),
            vec![message()],
            plugin(),
            None,
            Limits::new(2_000, 0, 0),
            now,
            &mut out,
        );
        let mut trial = Self {
            run,
            now,
            given: Vec::new(),
            asked: Vec::new(),
            finals: HashMap::new(),
            kills: 0,
            surveys: false,
            started: 0,
            not_started: 0,
            settled: Vec::new(),
            events: Vec::new(),
            abandoned: false,
        };
        trial.take(out);
        trial
    }

    fn ask(&mut self) -> FrameId {
        let ask = FrameId::new(Uuid::now_v7());
        self.asked.push(ask);
        ask
    }

    fn apply(&mut self, fact: Fact) {
        let (mut out, now) = (Vec::new(), self.now);
        match fact {
            Fact::Start(how) => {
                let id = self.run.id().to_string();
                self.run.receipt(&id, how, now, &mut out);
            }
            Fact::Input => {
                let ask = self.ask();
                self.run.input(ask, message(), now, &mut out);
            }
            Fact::Cancel => {
                let ask = self.ask();
                self.run.cancel(ask, now, &mut out);
            }
            Fact::Abandon => {
                self.abandoned = true;
                self.run.abandon(now, &mut out);
            }
            Fact::Written => self.run.written(&self.given.clone(), &mut out),
            Fact::Receipt(at, how) => {
                if let Some(id) = self.given.get(at).cloned() {
                    self.run.receipt(&id, how, now, &mut out);
                }
            }
            Fact::Delta => {
                let kind = domain::run::DeltaKind::Text;
                let delta = domain::run::Delta {
                    key: "k".to_owned(),
                    kind,
                    index: 0,
                    text: "x".to_owned(),
                };
                self.run
                    .event(RunEvent::root(EventBody::Delta(delta)), now, &mut out);
            }
            Fact::Settled(status, reusable) => self.run.settled(
                Settlement {
                    status,
                    failure: None,
                    reusable,
                },
                now,
                &mut out,
            ),
            Fact::Gone(clean) => self.run.processes_gone(clean, now, &mut out),
            Fact::Surveyed(alone) => {
                if std::mem::take(&mut self.surveys) {
                    self.run.surveyed(alone, now, &mut out);
                }
            }
            Fact::AdapterFailed => self.run.adapter_failed(now, &mut out),
            Fact::Pass(ms) => {
                self.now += Duration::from_millis(ms);
                self.run.tick(self.now, &mut out);
            }
        }
        self.take(out);
    }

    fn take(&mut self, out: Vec<Do>) {
        for decision in out {
            match decision {
                Do::Give(Command::StartTurn(start)) => {
                    self.given.extend(start.messages.into_iter().map(|m| m.id))
                }
                Do::Give(Command::AddMessage(add)) => self.given.push(add.message.id),
                Do::Give(_) => {}
                Do::Started => self.started += 1,
                Do::NotStarted(_) => self.not_started += 1,
                Do::Answer(ask, answer) => {
                    *self.finals.entry(ask).or_default() += usize::from(answer.is_final())
                }
                Do::Events(first, events) => self.events.extend((first..).zip(events)),
                Do::Kill => self.kills += 1,
                Do::Survey => self.surveys = true,
                Do::Settled { outcome, .. } => self.settled.push(outcome),
            }
        }
    }

    /// Nothing more is asked or told; the processes obey a kill, and the clock runs.
    fn let_time_pass(&mut self) {
        self.apply(Fact::Cancel);
        for _ in 0..8 {
            self.apply(Fact::Pass(20_000));
            self.apply(Fact::Surveyed(true));
            if self.kills > 0 {
                self.apply(Fact::Gone(true));
            }
        }
    }
}

proptest! {
    // RP-5.1, RP-11.2, RP-12.1, RP-13, F01
    #[test]
    fn one_answer_for_each_request_and_one_end_for_each_run(facts in prop::collection::vec(fact(), 0..40)) {
        let mut trial = Trial::new();
        for fact in facts {
            trial.apply(fact);
            prop_assert!(trial.finals.values().all(|n| *n <= 1), "answered twice");
        }
        trial.let_time_pass();
        for ask in &trial.asked {
            prop_assert_eq!(trial.finals.get(ask), Some(&1), "each request is answered");
        }
        prop_assert_eq!(trial.settled.len() + trial.not_started, 1, "one end");
        prop_assert!(trial.kills <= 1 && trial.started <= 1);
        let numbers: Vec<u64> = trial.events.iter().map(|(n, _)| *n).collect();
        let gapless = numbers.iter().zip(1_u64..).all(|(n, expected)| *n == expected);
        prop_assert!(gapless, "{:?}", numbers);
        let ends: Vec<_> = trial.events.iter().filter(|(_, event)| event.is_last()).collect();
        if trial.not_started == 1 || trial.abandoned {
            prop_assert!(ends.len() <= 1);
        } else {
            prop_assert_eq!(ends.len(), 1, "exactly one done");
            prop_assert!(trial.events.last().is_some_and(|(_, event)| event.is_last()), "and it is the last word");
        }
        prop_assert!(trial.run.deadline().is_none(), "nothing is waited for any more");
    }
}

fn running() -> Trial {
    let mut trial = Trial::new();
    trial.apply(Fact::Start(Confirmed::Done));
    trial.apply(Fact::Receipt(0, Confirmed::Done));
    trial
}

// What is told of a Run says that it began, so a start that is never answered is heard of by nobody.
#[test]
fn nothing_is_told_before_the_start_is_confirmed() {
    let (mut out, now) = (Vec::new(), Instant::now());
    let history = NativeSession {
        id: "native".to_owned(),
        durable: true,
    };
    let id = RunId::new(Uuid::now_v7());
    let mut run = Run::start(
        id,
        vec![message()],
        plugin(),
        Some(history),
        Limits::new(2_000, 0, 0),
        now,
        &mut out,
    );
    assert!(matches!(&out[..], [Do::Give(Command::StartTurn(_))]));
    out.clear();
    run.receipt(&id.to_string(), Confirmed::Done, now, &mut out);
    let first = |events: &[RunEvent]| matches!(events[0].body, EventBody::NativeSession(_));
    assert!(
        matches!(&out[..2], [Do::Started, Do::Events(1, events)] if first(events)),
        "{out:?}"
    );
}

// RP-12.6
#[test]
fn a_message_that_was_not_accepted_prevents_completion() {
    let mut trial = running();
    trial.apply(Fact::Input);
    trial.apply(Fact::Receipt(1, Confirmed::Unknown));
    trial.apply(Fact::Settled(TurnStatus::Completed, true));
    assert_eq!(trial.settled, [TurnStatus::Failed]);
}

// RP-12.1: the next message is given after the receipt of the one before.
#[test]
fn one_input_at_a_time() {
    let mut trial = running();
    trial.apply(Fact::Input);
    trial.apply(Fact::Input);
    assert_eq!(trial.given.len(), 2);
    trial.apply(Fact::Written);
    assert_eq!(trial.given.len(), 2, "a write is no acceptance");
    trial.apply(Fact::Receipt(1, Confirmed::Done));
    assert_eq!(trial.given.len(), 3);
}

// F01, RP-13.3: without a confirmed end nobody says cancelled.
#[test]
fn a_silent_harness_is_killed_after_the_grace_and_the_tree_decides() {
    for (clean, outcome) in [(true, TurnStatus::Cancelled), (false, TurnStatus::Unknown)] {
        let mut trial = running();
        trial.apply(Fact::Cancel);
        trial.apply(Fact::Pass(1_999));
        assert_eq!(trial.kills, 0);
        trial.apply(Fact::Pass(1));
        assert_eq!((trial.kills, trial.settled.len()), (1, 0));
        trial.apply(Fact::Gone(clean));
        assert_eq!(trial.settled, [outcome]);
    }
}

// S-CAN-7, TRN-004, TRN-006: a cancelled Turn settles when nothing of it lives; a harness that is alone is kept.
#[test]
fn a_cancelled_turn_waits_for_what_it_left_running() {
    let mut trial = running();
    trial.apply(Fact::Cancel);
    trial.apply(Fact::Settled(TurnStatus::Cancelled, true));
    assert!(trial.settled.is_empty(), "nobody has looked yet");
    trial.apply(Fact::Surveyed(true));
    assert_eq!(
        (trial.kills, &trial.settled[..]),
        (0, &[TurnStatus::Cancelled][..])
    );

    for (clean, outcome) in [(true, TurnStatus::Cancelled), (false, TurnStatus::Unknown)] {
        let mut trial = running();
        trial.apply(Fact::Cancel);
        trial.apply(Fact::Settled(TurnStatus::Cancelled, true));
        trial.apply(Fact::Surveyed(false));
        assert_eq!((trial.kills, trial.settled.len()), (1, 0));
        trial.apply(Fact::Gone(clean));
        assert_eq!(trial.settled, [outcome]);
    }
}

// F03
#[test]
fn silence_fails_the_turn_and_notices_do_not_reset_it() {
    let mut trial = running();
    trial.apply(Fact::Pass(599_000));
    let notice = domain::run::Notice {
        code: "retrying".to_owned(),
        detail: String::new(),
    };
    trial.run.event(
        RunEvent::root(EventBody::Notice(notice)),
        trial.now,
        &mut Vec::new(),
    );
    trial.apply(Fact::Pass(1_000));
    trial.apply(Fact::Pass(2_000));
    trial.apply(Fact::Gone(true));
    assert_eq!(trial.settled, [TurnStatus::Failed]);
    let code = trial
        .events
        .iter()
        .find_map(|(_, event)| match &event.body {
            EventBody::Error(failure) => failure.code(),
            _ => None,
        });
    assert_eq!(code, Some(FailureCode::RequestTimeout));
}

// state-machines 1.10: a cancel while starting is kept and applied at launch.
#[test]
fn a_cancel_while_starting_is_applied_once_there_is_a_turn() {
    let mut trial = Trial::new();
    let ask = trial.ask();
    let mut out = Vec::new();
    trial.run.cancel(ask, trial.now, &mut out);
    assert!(out.is_empty());
    let id = trial.run.id().to_string();
    trial.run.receipt(&id, Confirmed::Done, trial.now, &mut out);
    assert!(
        matches!(
            &out[..],
            [
                Do::Started,
                Do::Events(..),
                Do::Give(Command::CancelTurn(_))
            ]
        ),
        "{out:?}"
    );
}

// RP-11.11, RP-16: what Core has not acknowledged closes the tap of a Run that goes on, never of one that must end.
#[test]
fn a_full_journal_never_hides_the_end_of_the_processes() {
    let ends: [&[Fact]; 4] = [
        &[Fact::Settled(TurnStatus::Completed, true)],
        &[Fact::Settled(TurnStatus::Completed, false)],
        &[Fact::Cancel],
        &[Fact::AdapterFailed],
    ];
    for end in ends {
        let mut trial = running();
        while trial.run.reads() {
            trial.apply(Fact::Delta);
        }
        for fact in end {
            trial.apply(fact.clone());
        }
        assert!(trial.run.reads(), "{end:?}");
    }
}
