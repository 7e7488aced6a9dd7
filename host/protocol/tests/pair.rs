//! Both ends talking to each other over a perfect wire: the main job, and what each refuses.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use berth_protocol::core_end::{
    self, Command as Ask, CoreEnd, CoreSettings, Notice as Heard, Settled,
};
use berth_protocol::moment::Moment;
use berth_protocol::runtime_end::{
    self, Command as Tell, Identity, Notice as Told, RuntimeEnd, Work,
};
use berth_protocol::wire::{Message, *};
use domain::run::*;
use domain::*;
use uuid::Uuid;

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn frame(n: u128) -> FrameId {
    FrameId::new(id(n))
}

fn binding(epoch: u64) -> Binding {
    Binding {
        session: SessionId::new(id(1)),
        environment: Some(EnvironmentId::new(id(2))),
        id: BindingId::new(id(3)),
        epoch,
    }
}

fn offer() -> HarnessOffer {
    let mut capabilities = CapabilityFlags::NONE;
    capabilities.set(Capability::Steering, true);
    HarnessOffer {
        id: "codex".parse().unwrap(),
        version: "0.171.0".into(),
        contract: "0.1.0".into(),
        declaration_hash: serde_json::from_value(serde_json::json!("a".repeat(64))).unwrap(),
        plugin: None,
        available: true,
        reason: None,
        capabilities,
    }
}

fn configuration() -> ExecutionConfiguration {
    serde_json::from_value(serde_json::json!({
        "harness": "codex", "declaration_hash": "a".repeat(64), "workspace": {"kind": "bound"},
        "history": {"mode": "fresh"}, "options": {}, "parameters": "{}", "functions": [],
        "controls": {"tool_search": false}, "mcp": [], "permissions": "allow",
    }))
    .unwrap()
}

/// Both ends, a perfect wire, one clock.
struct Pair {
    core: CoreEnd,
    runtime: RuntimeEnd,
    now: Moment,
    heard: Vec<Heard>,
    told: Vec<Told>,
    closed: Option<CloseReason>,
    /// Frame types as they crossed, `>` to the Runtime.
    trace: Vec<String>,
}

fn settings(epoch: u64) -> CoreSettings {
    CoreSettings {
        connection_id: ConnectionId::new(id(90)),
        device_id: DeviceId::new(id(10)),
        installation_id: InstallationId::new(id(11)),
        owner_epoch: epoch,
        heartbeat_ms: limits::HEARTBEAT_MS,
        idle_close_ms: limits::IDLE_CLOSE_MS,
        features: vec![HELLO_AGAIN.to_owned()],
        limits: Limits::default(),
    }
}

impl Pair {
    fn new() -> Self {
        let identity = Identity {
            build: "test".into(),
            installation_id: InstallationId::new(id(11)),
            device_id: DeviceId::new(id(10)),
            instance_id: InstanceId::new(id(12)),
            dedicated: Some(EnvironmentId::new(id(2))),
            os: "linux".into(),
            arch: "x86_64".into(),
            features: vec![HELLO_AGAIN.to_owned()],
            capacity: Capacity {
                runs: 1,
                executors: 1,
                preparing: 1,
            },
            workspace: WorkspaceFacts {
                bound: true,
                canonical_hash: None,
                home_removal: true,
            },
        };
        Self {
            core: CoreEnd::new(settings(5), Moment(0)),
            runtime: RuntimeEnd::new(identity, vec![offer()]),
            now: Moment(0),
            heard: Vec::new(),
            told: Vec::new(),
            closed: None,
            trace: Vec::new(),
        }
    }

    /// Carries everything until both are silent.
    fn settle(&mut self) {
        loop {
            let mut busy = false;
            while let Some(output) = self.core.poll() {
                busy = true;
                match output {
                    core_end::Output::Send(message) => {
                        self.note('>', &message);
                        self.runtime.receive(self.now, &message);
                    }
                    core_end::Output::Notice(notice) => self.heard.push(notice),
                    core_end::Output::Close(reason) => self.cut(reason),
                }
            }
            while let Some(output) = self.runtime.poll() {
                busy = true;
                match output {
                    runtime_end::Output::Send(message) => {
                        self.note('<', &message);
                        self.core.receive(self.now, &message);
                    }
                    runtime_end::Output::Notice(notice) => self.told.push(notice),
                    runtime_end::Output::Close(reason) => self.cut(reason),
                }
            }
            if !busy {
                return;
            }
        }
    }

    fn cut(&mut self, reason: CloseReason) {
        self.closed.get_or_insert(reason);
        self.core.disconnected();
        self.runtime.disconnected();
    }

    fn note(&mut self, direction: char, message: &Message) {
        let name = match message {
            Message::Text(text) => serde_json::from_str::<serde_json::Value>(text).unwrap()["type"]
                .as_str()
                .unwrap()
                .to_owned(),
            Message::Binary(_) => "chunk".to_owned(),
        };
        self.trace.push(format!("{direction}{name}"));
    }

    fn ask(&mut self, command: Ask) {
        self.core.command(self.now, command);
        self.settle();
    }

    fn tell(&mut self, command: Tell) {
        self.runtime.command(self.now, command);
        self.settle();
    }

    fn request(&mut self, n: u128, binding: Binding, operation: Operation) {
        self.ask(Ask::Request {
            request: Box::new(Request::of(frame(n), binding, operation)),
            body: None,
        });
    }

    fn answer(&mut self, n: u128, answer: Answer) {
        self.tell(Tell::Answer {
            id: frame(n),
            answer,
        });
    }

    fn later(&mut self, ms: u64) {
        self.now = self.now.after(ms);
        self.core.tick(self.now);
        self.runtime.tick(self.now);
        self.settle();
    }

    /// The socket is lost and the Runtime greets over another one.
    fn reconnect(&mut self) {
        self.runtime.disconnected();
        self.core = CoreEnd::new(settings(5), self.now);
        self.heard.clear();
        self.runtime.connect(self.now);
        self.settle();
    }

    fn connected() -> Self {
        let mut pair = Self::new();
        pair.runtime.connect(pair.now);
        pair.settle();
        assert!(matches!(pair.heard.remove(0), Heard::Hello(_)));
        pair.ask(Ask::Welcome);
        assert!(pair.core.is_open() && pair.runtime.is_up());
        pair.heard.clear();
        pair.told.clear();
        pair
    }

    fn bound() -> Self {
        let mut pair = Self::connected();
        pair.bind(100, binding(1));
        pair.heard.clear();
        pair.told.clear();
        pair.trace.clear();
        pair
    }

    fn bind(&mut self, n: u128, binding: Binding) {
        self.request(
            n,
            binding,
            Operation::Bind(Bind {
                harness: "codex".parse().unwrap(),
                workspace_directory: None,
            }),
        );
        if let Some(Told::Work(Work::Bind { id, .. })) = self.told.last() {
            assert_eq!(*id, frame(n));
            self.answer(n, Answer::Ok(Proof::Bound));
        }
    }

    fn settled(&self, n: u128) -> &Settled {
        let found = self.heard.iter().filter_map(|notice| match notice {
            Heard::Settled { id, settled, .. } if *id == frame(n) => Some(settled),
            _ => None,
        });
        let found: Vec<_> = found.collect();
        assert_eq!(
            found.len(),
            1,
            "exactly one outcome for {n}: {:?}",
            self.heard
        );
        found[0]
    }

    fn states(&self) -> Vec<PrepareState> {
        let states = self.heard.iter().filter_map(|notice| match notice {
            Heard::Prepare { status, .. } => Some(status.state),
            _ => None,
        });
        states.collect()
    }

    fn prepare(&mut self, n: u128) {
        let request = Request::prepare(binding(1), PrepareId::new(id(n)), configuration());
        self.ask(Ask::Request {
            request: Box::new(request),
            body: None,
        });
    }

    fn ready(&mut self, n: u128) {
        self.prepare(n);
        self.tell(Tell::Prepared {
            prepare_id: PrepareId::new(id(n)),
            executor_id: ExecutorId::new(id(20)),
        });
    }

    fn start(&mut self, n: u128, prepare: u128, run: u128) {
        let message = InputMessage {
            id: InputId::new(id(30)),
            content: vec![MessagePart::Text("hi".into())],
        };
        let start = ExecutionStart {
            prepare_id: PrepareId::new(id(prepare)),
            executor_id: ExecutorId::new(id(20)),
            run_id: RunId::new(id(run)),
            input: vec![message],
        };
        self.request(n, binding(1), Operation::ExecutionStart(start));
    }

    fn running() -> Self {
        let mut pair = Self::bound();
        pair.ready(200);
        pair.start(201, 200, 40);
        pair.tell(Tell::Started {
            run_id: RunId::new(id(40)),
        });
        pair
    }

    fn events(&mut self, seq: u64, texts: &[&str]) {
        let events = texts.iter().map(|text| notice(text)).collect();
        self.tell(Tell::Events(RunEvents {
            run_id: RunId::new(id(40)),
            seq,
            events,
        }));
    }
}

fn notice(text: &str) -> RunEvent {
    RunEvent::root(EventBody::Notice(domain::run::Notice {
        code: text.into(),
        detail: String::new(),
    }))
}

fn rejected(code: impl Into<Code>) -> Settled {
    Settled::Receipt(Answer::Rejected(code.into()))
}

#[test]
fn greeting_and_first_heartbeat() {
    // RP-3.2, RP-3.6
    let pair = Pair::connected();
    assert_eq!(
        pair.trace,
        ["<hello", ">welcome", "<heartbeat", ">heartbeat_ack"]
    );
}

#[test]
fn a_missing_hello_or_welcome_closes() {
    // RP-3.6
    let mut pair = Pair::new();
    pair.later(limits::GREETING_MS as u64);
    assert_eq!(pair.closed, Some(CloseReason::IdleTimeout));

    let mut pair = Pair::new();
    pair.runtime.connect(pair.now);
    pair.settle();
    pair.later(limits::GREETING_MS as u64);
    assert_eq!(pair.closed, Some(CloseReason::IdleTimeout));
}

#[test]
fn another_installation_or_device_is_refused() {
    for (wrong, reason) in [
        (
            CoreSettings {
                installation_id: InstallationId::new(id(99)),
                ..settings(5)
            },
            CloseReason::IncompatibleVersion,
        ),
        (
            CoreSettings {
                device_id: DeviceId::new(id(99)),
                ..settings(5)
            },
            CloseReason::Unauthorized,
        ),
    ] {
        let mut pair = Pair::new();
        pair.core = CoreEnd::new(wrong, Moment(0));
        pair.runtime.connect(pair.now);
        pair.settle();
        assert_eq!(pair.closed, Some(reason));
        assert!(pair.heard.is_empty(), "nothing is registered");
    }
}

#[test]
fn heartbeats_keep_a_silent_connection_and_silence_ends_it() {
    // RP-3.10
    let mut pair = Pair::connected();
    for _ in 0..20 {
        pair.later(limits::HEARTBEAT_MS);
    }
    assert_eq!(pair.closed, None);
    pair.now = pair.now.after(limits::IDLE_CLOSE_MS);
    pair.core.tick(pair.now);
    pair.settle();
    assert_eq!(pair.closed, Some(CloseReason::IdleTimeout));
}

#[test]
fn a_lower_owner_epoch_is_refused_and_a_higher_one_retires_core() {
    // RP-2, owner_epoch
    let mut pair = Pair::connected();
    pair.runtime.disconnected();
    pair.core = CoreEnd::new(settings(4), pair.now);
    pair.runtime.connect(pair.now);
    pair.settle();
    pair.ask(Ask::Welcome);
    assert_eq!(pair.closed, Some(CloseReason::StaleOwner));
}

#[test]
fn a_heartbeat_may_only_narrow_the_declaration() {
    // CAP-006
    let mut pair = Pair::connected();
    let narrower = HarnessOffer {
        available: false,
        reason: Some("program_missing".into()),
        ..offer()
    };
    pair.tell(Tell::Offers(vec![narrower.clone()]));
    pair.later(limits::HEARTBEAT_MS);
    assert!(
        matches!(&pair.heard[..], [Heard::Heartbeat { offers: Some(offers), .. }] if *offers == [narrower])
    );
    assert_eq!(pair.closed, None);
    // Back to more than was declared last: Core would refuse a heartbeat with it, so the Runtime says `hello` again.
    let mut wider = offer();
    wider.capabilities.set(Capability::Streaming, true);
    pair.heard.clear();
    pair.tell(Tell::Offers(vec![wider.clone()]));
    assert_eq!(pair.heard, [Heard::Offers(vec![wider])]);
    pair.later(limits::HEARTBEAT_MS);
    assert_eq!(pair.closed, None);
}

#[test]
fn another_version_of_an_adapter_is_offered_at_once() {
    let newer = HarnessOffer {
        plugin: Some(PluginIdentity {
            id: "harness-codex".into(),
            version: "1.0.1".into(),
            digest: Some("d".repeat(64)),
        }),
        ..offer()
    };
    let mut pair = Pair::running();
    pair.heard.clear();
    pair.tell(Tell::Offers(vec![newer.clone()]));
    assert_eq!(pair.heard, [Heard::Offers(vec![newer])]);
    assert_eq!(pair.closed, None);
}

#[test]
fn more_is_offered_at_once_and_breaks_nothing() {
    // CAP-006: a harness is installed while a Turn runs, its outputs are read, an admission is open. On an engine host such
    // work may never pause.
    let other = |available| HarnessOffer {
        id: "other".parse().unwrap(),
        available,
        ..offer()
    };
    let mut pair = Pair::running();
    pair.request(
        300,
        binding(1),
        Operation::WorkspaceExport(WorkspaceExport {
            stream: 9,
            have: Vec::new(),
        }),
    );
    pair.heard.clear();
    pair.trace.clear();
    pair.tell(Tell::Offers(vec![offer(), other(true)]));
    assert_eq!(pair.heard, [Heard::Offers(vec![offer(), other(true)])]);
    assert_eq!(pair.trace, ["<hello"]);
    // Less goes with a heartbeat, more again with a `hello`, and the same with neither.
    for (offers, later) in [
        (vec![other(true)], Some(vec![other(true)])),
        (vec![offer(), other(false)], None),
        (vec![offer(), other(false)], None),
    ] {
        pair.heard.clear();
        pair.tell(Tell::Offers(offers.clone()));
        let told = pair.heard.len();
        pair.later(limits::HEARTBEAT_MS);
        let narrowed = pair.heard.iter().find_map(|heard| match heard {
            Heard::Heartbeat { offers, .. } => Some(offers.clone()),
            _ => None,
        });
        assert_eq!(narrowed, Some(later.clone()), "{offers:?}");
        assert!(told == 0 || pair.heard[0] == Heard::Offers(offers));
    }
    pair.events(1, &["a"]);
    pair.answer(300, Answer::Ok(Proof::Exported { files: 0, bytes: 0 }));
    assert_eq!(
        *pair.settled(300),
        Settled::Receipt(Answer::Ok(Proof::Exported { files: 0, bytes: 0 }))
    );
    assert!(
        pair.heard
            .iter()
            .any(|heard| matches!(heard, Heard::Events { seq: 1, .. }))
    );
    assert_eq!(pair.closed, None);
}

#[test]
fn what_was_found_during_the_greeting_is_offered_after_it() {
    let mut pair = Pair::new();
    pair.runtime.connect(pair.now);
    pair.settle();
    let other = HarnessOffer {
        id: "other".parse().unwrap(),
        ..offer()
    };
    pair.tell(Tell::Offers(vec![offer(), other.clone()]));
    assert!(matches!(&pair.heard[..], [Heard::Hello(_)]));
    pair.ask(Ask::Welcome);
    let more = Heard::Offers(vec![offer(), other]);
    assert!(pair.heard.contains(&more), "{:?}", pair.heard);
    assert_eq!(pair.closed, None);
}

#[test]
fn a_core_that_takes_no_second_hello_is_sent_none() {
    // RP-3.5
    let mut pair = Pair::new();
    let old = CoreSettings {
        features: vec!["unknown".to_owned()],
        ..settings(5)
    };
    pair.core = CoreEnd::new(old, pair.now);
    pair.runtime.connect(pair.now);
    pair.settle();
    pair.ask(Ask::Welcome);
    let mut wider = offer();
    wider.capabilities.set(Capability::Streaming, true);
    pair.tell(Tell::Offers(vec![wider.clone()]));
    pair.later(limits::HEARTBEAT_MS);
    assert_eq!(pair.closed, None);
    assert_eq!(
        pair.trace.iter().filter(|frame| *frame == "<hello").count(),
        1
    );
    // The next connection is greeted with all of it.
    pair.reconnect();
    assert!(matches!(&pair.heard[..], [Heard::Hello(hello)] if hello.harnesses == [wider]));
}

#[test]
fn a_second_hello_of_another_process_or_with_a_double_offer_closes() {
    // RP-3.13
    let change: [fn(&mut Hello); 2] = [
        |hello| hello.instance_id = InstanceId::new(id(99)),
        |hello| hello.harnesses = vec![offer(), offer()],
    ];
    for change in change {
        let mut pair = Pair::new();
        pair.runtime.connect(pair.now);
        pair.settle();
        let Some(Heard::Hello(hello)) = pair.heard.pop() else {
            panic!("no hello")
        };
        pair.ask(Ask::Welcome);
        let mut again = hello;
        change(&mut again);
        let text = RuntimeFrame::Hello(again).encode().unwrap();
        pair.core.receive(pair.now, &Message::Text(text));
        pair.settle();
        assert_eq!(pair.closed, Some(CloseReason::ProtocolViolation));
    }
}

#[test]
fn an_event_that_no_frame_can_carry_ends_its_run_and_nothing_else() {
    // RP-4, F05
    let mut pair = Pair::running();
    let big = "y".repeat(4 << 20);
    pair.heard.clear();
    pair.events(1, &["a", &big, "b"]);
    pair.events(4, &["c"]);
    assert_eq!(pair.closed, None);
    let run_id = RunId::new(id(40));
    assert!(pair.told.contains(&Told::Abandon { run_id }));
    let events: Vec<_> = pair
        .heard
        .iter()
        .flat_map(|heard| match heard {
            Heard::Events { events, .. } => events.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(events[0], notice("a"));
    let bodies: Vec<_> = events[1..].iter().map(|event| &event.body).collect();
    assert!(
        matches!(bodies[..], [EventBody::Error(_), EventBody::Done(done)] if done.status == TurnStatus::Failed),
        "{bodies:?}"
    );
    // Others go on, and the Session too once the Run is settled.
    pair.tell(Tell::Settled {
        run_id,
        proof: Answer::Unknown(RefusalCode::Unconfirmed.into()),
    });
    pair.ready(300);
    assert!(matches!(
        pair.states().last(),
        Some(PrepareState::Ready { .. })
    ));
}

#[test]
fn a_whole_turn() {
    let mut pair = Pair::running();
    pair.events(1, &["a", "b"]);
    let run_id = RunId::new(id(40));
    pair.ask(Ask::Acknowledge { run_id, seq: 2 });
    pair.tell(Tell::Events(RunEvents {
        run_id,
        seq: 3,
        events: vec![RunEvent::root(EventBody::Done(Done {
            status: TurnStatus::Completed,
        }))],
    }));
    pair.ask(Ask::Acknowledge { run_id, seq: 3 });
    let expected = [
        ">execution_prepare",
        "<prepare_status",
        "<prepare_status",
        ">execution_start",
        "<prepare_status",
        "<prepare_status",
        "<run_events",
        ">run_ack",
        "<run_events",
        ">run_ack",
    ];
    assert_eq!(pair.trace, expected);
    assert_eq!(*pair.settled(201), Settled::Started);
    let states = pair.states();
    assert!(matches!(
        states[..],
        [
            PrepareState::Preparing,
            PrepareState::Ready {
                expires_in_ms: 300_000,
                ..
            },
            PrepareState::Starting,
            PrepareState::Started
        ]
    ));
    assert!(pair.told.contains(&Told::Acknowledged { run_id, seq: 3 }));
}

#[test]
fn nothing_session_scoped_leaves_before_bound() {
    // RP-8.1
    let mut pair = Pair::connected();
    pair.trace.clear();
    pair.prepare(200);
    assert_eq!(
        *pair.settled(200),
        Settled::NotSent(core_end::NotSent::NotBound)
    );
    assert!(pair.trace.is_empty());
}

#[test]
fn binding_again_answers_bound_without_asking_again() {
    // RP-8.1
    let mut pair = Pair::bound();
    pair.bind(101, binding(1));
    assert!(pair.told.is_empty());
    assert_eq!(
        *pair.settled(101),
        Settled::Receipt(Answer::Ok(Proof::Bound))
    );
}

#[test]
fn stale_and_conflicting_bindings() {
    // RP-2.5, RP-8.2
    let mut pair = Pair::connected();
    pair.bind(100, binding(3));
    for (n, wrong, code) in [
        (101, binding(2), RefusalCode::BindingStale),
        (
            102,
            Binding {
                id: BindingId::new(id(77)),
                ..binding(3)
            },
            RefusalCode::BindingConflict,
        ),
        (
            103,
            Binding {
                session: SessionId::new(id(77)),
                ..binding(3)
            },
            RefusalCode::BindingConflict,
        ),
        (
            104,
            Binding {
                environment: Some(EnvironmentId::new(id(77))),
                ..binding(3)
            },
            RefusalCode::BindingConflict,
        ),
    ] {
        pair.told.clear();
        pair.bind(n, wrong);
        assert_eq!(*pair.settled(n), rejected(code));
        assert!(pair.told.is_empty(), "nothing runs");
    }
}

#[test]
fn start_is_allowed_once_and_only_from_ready() {
    // RP-10.5, RP-10.7
    let mut pair = Pair::bound();
    pair.prepare(200);
    pair.start(201, 200, 40);
    assert_eq!(*pair.settled(201), rejected(PrepareCode::NotReady));
    pair.tell(Tell::Prepared {
        prepare_id: PrepareId::new(id(200)),
        executor_id: ExecutorId::new(id(20)),
    });
    pair.start(202, 200, 41);
    pair.start(203, 200, 42);
    assert_eq!(*pair.settled(203), rejected(PrepareCode::NotReady));
    let starts = pair
        .told
        .iter()
        .filter(|told| matches!(told, Told::Work(Work::Start { .. })))
        .count();
    assert_eq!(starts, 1);
}

#[test]
fn a_rejected_start_ran_nothing_and_ends_the_admission() {
    // RP-10.11
    let mut pair = Pair::bound();
    pair.ready(200);
    pair.start(201, 200, 40);
    pair.tell(Tell::NotStarted {
        run_id: RunId::new(id(40)),
        code: PrepareCode::ExecutorUnavailable,
    });
    assert_eq!(
        *pair.settled(201),
        rejected(PrepareCode::ExecutorUnavailable)
    );
    // The Session is free for another admission.
    pair.ready(210);
    pair.start(211, 210, 41);
    pair.tell(Tell::Started {
        run_id: RunId::new(id(41)),
    });
    assert_eq!(*pair.settled(211), Settled::Started);
}

#[test]
fn a_first_event_proves_the_start() {
    // RP-10.6
    let mut pair = Pair::bound();
    pair.ready(200);
    pair.start(201, 200, 40);
    pair.events(1, &["a"]);
    assert_eq!(*pair.settled(201), Settled::Started);
    assert!(matches!(
        pair.heard.last(),
        Some(Heard::Events { seq: 1, .. })
    ));
}

#[test]
fn an_admission_expires_after_five_minutes_and_a_release_frees_it() {
    // RP-10.4, RP-10.8
    let mut pair = Pair::bound();
    pair.ready(200);
    for _ in 0..30 {
        pair.later(10_000);
    }
    assert_eq!(pair.states().last(), Some(&PrepareState::Expired));
    assert!(pair.told.contains(&Told::AdmissionEnded {
        session: binding(1).session,
        prepare_id: PrepareId::new(id(200))
    }));
    pair.ready(210);
    let release = ExecutionRelease {
        prepare_id: PrepareId::new(id(210)),
    };
    pair.request(211, binding(1), Operation::ExecutionRelease(release));
    assert_eq!(pair.states().last(), Some(&PrepareState::Released));
    assert_eq!(
        *pair.settled(211),
        Settled::Receipt(Answer::Ok(Proof::Released))
    );
}

#[test]
fn repeated_and_missing_events() {
    // RP-11.2
    let mut pair = Pair::running();
    pair.heard.clear();
    pair.events(1, &["a", "b"]);
    pair.events(1, &["a", "b"]);
    pair.events(2, &["b", "c"]);
    let seqs: Vec<_> = pair
        .heard
        .iter()
        .filter_map(|notice| match notice {
            Heard::Events { seq, events, .. } => Some((*seq, events.len())),
            _ => None,
        })
        .collect();
    assert_eq!(seqs, [(1, 2), (3, 1)]);
    pair.events(5, &["e"]);
    let run_id = RunId::new(id(40));
    assert_eq!(
        pair.heard.last(),
        Some(&Heard::RunBroken {
            run_id,
            why: core_end::RunBreak::Gap
        })
    );
    assert_eq!(pair.closed, None, "the connection goes on");
}

#[test]
fn many_events_travel_in_frames_of_64_and_3_mib() {
    // RP-4 table
    let mut pair = Pair::running();
    pair.trace.clear();
    pair.events(1, &["x"; 130]);
    assert_eq!(pair.trace, ["<run_events"; 3]);
    pair.trace.clear();
    let big = "y".repeat(2 << 20);
    pair.events(131, &[&big, &big]);
    assert_eq!(pair.trace, ["<run_events"; 2]);
    assert_eq!(pair.closed, None);
}

#[test]
fn steering_has_phases_and_one_end() {
    // RP-12, RP-5.4
    let mut pair = Pair::running();
    let message = InputMessage {
        id: InputId::new(id(300)),
        content: vec![MessagePart::Text("more".into())],
    };
    let request = Request::input(binding(1), RunId::new(id(40)), message);
    pair.ask(Ask::Request {
        request: Box::new(request),
        body: None,
    });
    pair.answer(300, Answer::Progress(Progress::Written));
    // `accepted` has the Turn's lifetime.
    for _ in 0..30 {
        pair.later(10_000);
    }
    pair.answer(300, Answer::Ok(Proof::Accepted));
    pair.answer(300, Answer::Ok(Proof::Accepted));
    assert_eq!(
        *pair.settled(300),
        Settled::Receipt(Answer::Ok(Proof::Accepted))
    );
}

#[test]
fn an_input_that_is_not_written_in_30_seconds_is_unknown() {
    // RP-12.2, RP-12.4
    let mut pair = Pair::running();
    let message = InputMessage {
        id: InputId::new(id(300)),
        content: vec![MessagePart::Text("more".into())],
    };
    let request = Request::input(binding(1), RunId::new(id(40)), message);
    pair.ask(Ask::Request {
        request: Box::new(request),
        body: None,
    });
    for _ in 0..3 {
        pair.later(10_000);
    }
    assert_eq!(*pair.settled(300), Settled::TimedOut);
    pair.answer(300, Answer::Ok(Proof::Accepted));
    assert_eq!(
        *pair.settled(300),
        Settled::TimedOut,
        "a late receipt changes nothing"
    );
}

#[test]
fn cancel_settled_unconfirmed_and_after_the_end() {
    // RP-13.3, RP-13.4, F01
    let cancel = Operation::RunCancel(RunCancel {
        run_id: RunId::new(id(40)),
        reason: CancelReason::Requested,
    });
    let proof = CancelProof {
        settled: true,
        outcome: TurnStatus::Cancelled,
        native_session: None,
        usage: None,
    };
    let proof = Answer::Ok(Proof::Cancelled(proof));

    let mut pair = Pair::running();
    pair.request(300, binding(1), cancel.clone());
    pair.answer(300, proof.clone());
    assert_eq!(*pair.settled(300), Settled::Receipt(proof.clone()));

    let mut pair = Pair::running();
    pair.request(300, binding(1), cancel.clone());
    pair.later(14_999);
    pair.later(1);
    assert_eq!(*pair.settled(300), Settled::TimedOut);

    let mut pair = Pair::running();
    pair.tell(Tell::Settled {
        run_id: RunId::new(id(40)),
        proof: proof.clone(),
    });
    pair.request(300, binding(1), cancel);
    assert_eq!(
        *pair.settled(300),
        Settled::Receipt(proof),
        "answered from what is known"
    );
    assert!(
        !pair
            .told
            .iter()
            .any(|told| matches!(told, Told::Work(Work::Cancel { .. })))
    );
}

#[test]
fn input_for_a_settled_or_unknown_run_is_rejected() {
    let mut pair = Pair::running();
    let message = |n| InputMessage {
        id: InputId::new(id(n)),
        content: vec![MessagePart::Text("more".into())],
    };
    let unknown = Request::input(binding(1), RunId::new(id(41)), message(300));
    pair.ask(Ask::Request {
        request: Box::new(unknown),
        body: None,
    });
    assert_eq!(*pair.settled(300), rejected(RefusalCode::UnknownRun));
    pair.tell(Tell::Settled {
        run_id: RunId::new(id(40)),
        proof: Answer::Unknown(RefusalCode::Unconfirmed.into()),
    });
    let ended = Request::input(binding(1), RunId::new(id(40)), message(301));
    pair.ask(Ask::Request {
        request: Box::new(ended),
        body: None,
    });
    assert_eq!(*pair.settled(301), rejected(RefusalCode::RunEnded));
}

#[test]
fn the_socket_is_lost_during_a_run() {
    // RP-17.1, architecture 10: the held Run is named, not resumed, and cancelled by the Runtime.
    let mut pair = Pair::running();
    pair.events(1, &["a"]);
    let run_id = RunId::new(id(40));
    let message = InputMessage {
        id: InputId::new(id(300)),
        content: vec![MessagePart::Text("more".into())],
    };
    pair.ask(Ask::Request {
        request: Box::new(Request::input(binding(1), run_id, message)),
        body: None,
    });
    pair.heard.clear();
    pair.cut(CloseReason::Overloaded);
    pair.settle();
    assert_eq!(*pair.settled(300), Settled::Lost);
    assert!(pair.heard.contains(&Heard::RunBroken {
        run_id,
        why: core_end::RunBreak::Lost
    }));

    pair.reconnect();
    let Heard::Hello(hello) = &pair.heard[0] else {
        panic!()
    };
    assert_eq!(
        hello.held.runs,
        [HeldRun {
            run_id,
            binding: binding(1),
            last_seq: 1
        }]
    );
    pair.ask(Ask::Welcome);
    assert!(
        pair.told
            .iter()
            .any(|told| matches!(told, Told::Welcomed { abandon, .. } if *abandon == [run_id]))
    );
    // Busy until it is settled, and its late events and receipts reach nobody.
    pair.bind(400, binding(1));
    pair.prepare(401);
    assert_eq!(*pair.settled(401), rejected(PrepareCode::Busy));
    pair.trace.clear();
    pair.events(2, &["late"]);
    pair.answer(300, Answer::Ok(Proof::Accepted));
    assert!(pair.trace.is_empty());
    pair.tell(Tell::Settled {
        run_id,
        proof: Answer::Unknown(RefusalCode::Unconfirmed.into()),
    });
    pair.ready(402);
    assert!(matches!(
        pair.states().last(),
        Some(PrepareState::Ready { .. })
    ));
}

#[test]
fn the_socket_is_lost_while_preparing() {
    // RP-17.1: the admission ends, its clean-up is the Runtime's.
    let mut pair = Pair::bound();
    pair.ready(200);
    pair.cut(CloseReason::Overloaded);
    pair.settle();
    assert_eq!(*pair.settled(200), Settled::Lost);
    assert!(pair.told.contains(&Told::AdmissionEnded {
        session: binding(1).session,
        prepare_id: PrepareId::new(id(200))
    }));
}

#[test]
fn release_fences_first_and_may_be_repeated() {
    // RP-8.5, RP-8.6
    let mut pair = Pair::bound();
    pair.ready(200);
    pair.request(
        300,
        binding(2),
        Operation::Release(Release { remove_home: true }),
    );
    assert!(pair.told.contains(&Told::AdmissionEnded {
        session: binding(1).session,
        prepare_id: PrepareId::new(id(200))
    }));
    let failed = Answer::Failed {
        code: RefusalCode::CleanupUnconfirmed.into(),
        exit_code: None,
    };
    pair.answer(300, failed.clone());
    assert_eq!(*pair.settled(300), Settled::Receipt(failed));
    // Nothing is bound again under the released epoch.
    pair.bind(301, binding(2));
    assert_eq!(*pair.settled(301), rejected(RefusalCode::BindingStale));
    pair.request(
        302,
        binding(2),
        Operation::Release(Release { remove_home: true }),
    );
    pair.answer(302, Answer::Ok(Proof::HomeRemoved));
    assert_eq!(
        *pair.settled(302),
        Settled::Receipt(Answer::Ok(Proof::HomeRemoved))
    );
}

#[test]
fn at_most_32_requests_are_unanswered_and_a_cancel_waits_for_nothing() {
    // RP-6.3, RP-13.5
    let mut pair = Pair::running();
    pair.trace.clear();
    let list = |n: u128| {
        let target = ListTarget::Run(RunId::new(id(40)));
        Request::of(
            frame(n),
            binding(1),
            Operation::WorkspaceList(WorkspaceList {
                target,
                path: "/workspace".into(),
            }),
        )
    };
    for n in 300..340 {
        pair.ask(Ask::Request {
            request: Box::new(list(n)),
            body: None,
        });
    }
    assert_eq!(pair.trace.len(), 32);
    let cancel = Operation::RunCancel(RunCancel {
        run_id: RunId::new(id(40)),
        reason: CancelReason::Requested,
    });
    pair.request(400, binding(1), cancel);
    assert_eq!(pair.trace.last().unwrap(), ">run_cancel");
    pair.answer(300, Answer::Ok(Proof::Entries(Vec::new())));
    assert_eq!(
        pair.trace
            .iter()
            .filter(|name| *name == ">workspace_list")
            .count(),
        33
    );
    pair.cut(CloseReason::Overloaded);
    pair.settle();
    assert_eq!(*pair.settled(320), Settled::Lost);
    assert_eq!(
        *pair.settled(339),
        Settled::NotSent(core_end::NotSent::Closed),
        "the queue never left"
    );
}

#[test]
fn a_repeated_request_id_is_never_executed_twice() {
    // RP-6.2: on Core's side it does not leave, on the Runtime's side the stored receipt answers.
    let mut pair = Pair::bound();
    let request = Request::of(
        frame(300),
        binding(1),
        Operation::RuntimePrepare(RuntimePrepare {
            budget_ms: 120_000,
            step: InitStep::Finalize {
                sources: Vec::new(),
            },
        }),
    );
    pair.ask(Ask::Request {
        request: Box::new(request.clone()),
        body: None,
    });
    pair.answer(300, Answer::Ok(Proof::Installed));
    let text = CoreFrame::Request(Box::new(request)).encode().unwrap();
    pair.told.clear();
    pair.trace.clear();
    pair.runtime.receive(pair.now, &Message::Text(text));
    pair.settle();
    assert!(pair.told.is_empty());
    assert_eq!(pair.trace, ["<receipt"]);
}

#[test]
fn a_body_that_the_socket_cut_keeps_no_later_one_waiting() {
    // RP-9.3, RP-15.12
    let mut pair = Pair::bound();
    let write = |n| {
        let write = WorkspaceWrite {
            path: "/workspace/a".into(),
            body: Incoming {
                stream: 7,
                size: 3,
                sha256: "a".repeat(64),
            },
        };
        Request::of(frame(n), binding(1), Operation::WorkspaceWrite(write))
    };
    // Its bytes never come.
    let text = CoreFrame::Request(Box::new(write(300))).encode().unwrap();
    pair.runtime.receive(pair.now, &Message::Text(text));
    while pair.runtime.poll().is_some() {}
    pair.reconnect();
    pair.ask(Ask::Welcome);
    pair.bind(101, binding(1));
    pair.ask(Ask::Request {
        request: Box::new(write(301)),
        body: Some(b"abc".to_vec()),
    });
    assert!(matches!(
        pair.told.last(),
        Some(Told::Work(Work::Write { .. }))
    ));
}

#[test]
fn an_input_that_waits_is_answered_however_much_comes_after_it() {
    // RP-6.2: only what has its answer is forgotten.
    let mut pair = Pair::running();
    let run_id = RunId::new(id(40));
    let message = InputMessage {
        id: InputId::new(id(31)),
        content: vec![MessagePart::Text("more".into())],
    };
    let input = Request::input(binding(1), run_id, message);
    let waiting = input.id;
    pair.ask(Ask::Request {
        request: Box::new(input),
        body: None,
    });
    for n in 0..2 * limits::REMEMBERED as u128 {
        let result = FunctionResult {
            delivery_id: DeliveryId::new(id(5_000 + n)),
            run_id,
            call_id: "c".into(),
            output: String::new(),
            failed: false,
        };
        let asked = frame(5_000 + n);
        let request = Request::of(asked, binding(1), Operation::FunctionResult(result));
        pair.ask(Ask::Request {
            request: Box::new(request),
            body: None,
        });
        pair.tell(Tell::Answer {
            id: asked,
            answer: Answer::Ok(Proof::Applied),
        });
    }
    pair.tell(Tell::Answer {
        id: waiting,
        answer: Answer::Ok(Proof::Accepted),
    });
    let accepted = |heard: &Heard| matches!(heard, Heard::Settled { id, settled: Settled::Receipt(Answer::Ok(Proof::Accepted)), .. } if *id == waiting);
    assert!(pair.heard.iter().any(accepted));
}

#[test]
fn a_file_step_travels_in_chunks() {
    // RP-9.2, RP-4.3
    for bytes in [0, 1, 65_536, 65_537, 17 * 65_536 + 5] {
        let mut pair = Pair::bound();
        let body: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
        let incoming = Incoming {
            stream: 7,
            size: bytes as u64,
            sha256: "a".repeat(64),
        };
        let step = InitStep::File {
            path: "/workspace/a".into(),
            body: incoming,
        };
        let request = Request::of(
            frame(300),
            binding(1),
            Operation::RuntimePrepare(RuntimePrepare {
                budget_ms: 1_000,
                step,
            }),
        );
        pair.ask(Ask::Request {
            request: Box::new(request),
            body: Some(body.clone()),
        });
        let Some(Told::Work(Work::Initialize {
            body: Some(arrived),
            ..
        })) = pair.told.last()
        else {
            panic!("{bytes}")
        };
        assert!(*arrived == body, "{bytes}");
        pair.answer(300, Answer::Ok(Proof::Installed));
        assert_eq!(
            *pair.settled(300),
            Settled::Receipt(Answer::Ok(Proof::Installed))
        );
    }
}

#[test]
fn one_mutating_step_at_a_time() {
    // RP-9.3
    let mut pair = Pair::bound();
    let step = |n| {
        Request::of(
            frame(n),
            binding(1),
            Operation::RuntimePrepare(RuntimePrepare {
                budget_ms: 1_000,
                step: InitStep::Configure { env: Vec::new() },
            }),
        )
    };
    pair.ask(Ask::Request {
        request: Box::new(step(300)),
        body: None,
    });
    pair.ask(Ask::Request {
        request: Box::new(step(301)),
        body: None,
    });
    assert_eq!(*pair.settled(301), rejected(RefusalCode::Busy));
    pair.answer(300, Answer::Ok(Proof::Installed));
    pair.ask(Ask::Request {
        request: Box::new(step(302)),
        body: None,
    });
    assert!(matches!(
        pair.told.last(),
        Some(Told::Work(Work::Initialize { .. }))
    ));
}

#[test]
fn an_export_flows_under_credit() {
    // RP-15.18
    let mut pair = Pair::bound();
    pair.request(
        300,
        binding(1),
        Operation::WorkspaceExport(WorkspaceExport {
            stream: 9,
            have: Vec::new(),
        }),
    );
    assert!(pair.told.contains(&Told::Credit {
        session: binding(1).session,
        stream: 9,
        bytes: limits::EXPORT_WINDOW
    }));
    let entry = ExportEntry {
        stream: 9,
        path: "a.txt".into(),
        size: 3,
    };
    pair.tell(Tell::ExportEntry {
        binding: binding(1),
        entry: entry.clone(),
    });
    pair.tell(Tell::ExportChunk(Chunk {
        stream: 9,
        offset: 0,
        last: true,
        payload: b"abc".to_vec(),
    }));
    let end = ExportEntryEnd {
        stream: 9,
        sha256: "b".repeat(64),
        skipped: false,
    };
    pair.tell(Tell::ExportEntryEnd {
        binding: binding(1),
        end,
    });
    pair.answer(300, Answer::Ok(Proof::Exported { files: 1, bytes: 3 }));
    let expected = [
        Heard::ExportEntry {
            id: frame(300),
            entry,
        },
        Heard::ExportBytes {
            id: frame(300),
            bytes: b"abc".to_vec(),
        },
        Heard::ExportEntryEnd {
            id: frame(300),
            sha256: "b".repeat(64),
            skipped: false,
        },
    ];
    assert_eq!(pair.heard[..3], expected);
    assert_eq!(
        *pair.settled(300),
        Settled::Receipt(Answer::Ok(Proof::Exported { files: 1, bytes: 3 }))
    );
}

#[test]
fn an_export_may_take_long_while_it_goes_on() {
    // RP-15.18: 500 MiB take their time on a slow link; a transfer that stands still does not.
    let mut pair = Pair::bound();
    let export = WorkspaceExport {
        stream: 9,
        have: Vec::new(),
    };
    pair.request(300, binding(1), Operation::WorkspaceExport(export));
    pair.tell(Tell::ExportEntry {
        binding: binding(1),
        entry: ExportEntry {
            stream: 9,
            path: "a".into(),
            size: 1 << 20,
        },
    });
    let settled = |pair: &Pair| {
        pair.heard.iter().find_map(|heard| match heard {
            Heard::Settled { id, settled, .. } if *id == frame(300) => Some(settled.clone()),
            _ => None,
        })
    };
    for offset in 0..4 {
        for _ in 0..11 {
            pair.later(limits::HEARTBEAT_MS);
        }
        pair.tell(Tell::ExportChunk(Chunk {
            stream: 9,
            offset,
            last: false,
            payload: vec![0],
        }));
        assert_eq!(settled(&pair), None);
    }
    for _ in 0..12 {
        pair.later(limits::HEARTBEAT_MS);
    }
    assert_eq!(settled(&pair), Some(Settled::TimedOut));
    assert_eq!(pair.closed, None);
}

#[test]
fn bytes_beyond_the_credit_break_the_protocol() {
    let mut pair = Pair::bound();
    pair.request(
        300,
        binding(1),
        Operation::WorkspaceExport(WorkspaceExport {
            stream: 9,
            have: Vec::new(),
        }),
    );
    pair.tell(Tell::ExportEntry {
        binding: binding(1),
        entry: ExportEntry {
            stream: 9,
            path: "a".into(),
            size: 2 << 20,
        },
    });
    for n in 0..17u64 {
        let chunk = Chunk {
            stream: 9,
            offset: n * 65_536,
            last: false,
            payload: vec![0; 65_536],
        };
        pair.tell(Tell::ExportChunk(chunk));
    }
    assert_eq!(pair.closed, Some(CloseReason::ProtocolViolation));
}
