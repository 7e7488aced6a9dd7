//! What a daemon remembers over a long life has a bound.

use domain::run::{Binding, InputMessage, MessagePart};
use domain::{
    BindingId, DeviceId, ExecutorId, InputId, InstallationId, InstanceId, PrepareId, RunId,
    SessionId,
};
use uuid::Uuid;

use super::*;
use crate::wire::{
    Answer, Bind, Capacity, ExecutionStart, Limits, Operation, Proof, Release, Request, RunAck,
    RunEvents, Welcome, WorkspaceFacts, limits::RELEASED,
};

fn end() -> RuntimeEnd {
    let identity = Identity {
        build: "test".into(),
        installation_id: InstallationId::new(Uuid::now_v7()),
        device_id: DeviceId::new(Uuid::now_v7()),
        instance_id: InstanceId::new(Uuid::now_v7()),
        dedicated: None,
        os: "linux".into(),
        arch: "x86_64".into(),
        features: Vec::new(),
        capacity: Capacity {
            runs: 1,
            executors: 8,
            preparing: 1,
        },
        workspace: WorkspaceFacts {
            bound: false,
            canonical_hash: None,
            home_removal: true,
        },
    };
    let mut end = RuntimeEnd::new(identity, Vec::new());
    end.connect(Moment(0));
    let welcome = Welcome {
        connection_id: domain::ConnectionId::new(Uuid::now_v7()),
        owner_epoch: 1,
        heartbeat_ms: limits::HEARTBEAT_MS,
        idle_close_ms: limits::IDLE_CLOSE_MS,
        features: Vec::new(),
        limits: Limits::default(),
        resume: Vec::new(),
    };
    hear(&mut end, &CoreFrame::Welcome(Box::new(welcome)));
    end
}

fn hear(end: &mut RuntimeEnd, frame: &CoreFrame) {
    end.receive(Moment(1), &Message::Text(frame.encode().unwrap()));
    assert!(end.is_up());
    while end.poll().is_some() {}
}

fn ask(end: &mut RuntimeEnd, request: Request) {
    hear(end, &CoreFrame::Request(Box::new(request)));
}

fn tell(end: &mut RuntimeEnd, command: Command) {
    end.command(Moment(1), command);
    while end.poll().is_some() {}
}

/// One Session from its binding to its release, with a Turn.
fn session(end: &mut RuntimeEnd) {
    let id = || domain::FrameId::new(Uuid::now_v7());
    let mut binding = Binding {
        session: SessionId::new(Uuid::now_v7()),
        environment: None,
        id: BindingId::new(Uuid::now_v7()),
        epoch: 1,
    };
    let harness = "codex".parse().unwrap();
    let bind = Bind {
        harness,
        workspace_directory: None,
    };
    let bound = Request::of(id(), binding, Operation::Bind(bind));
    let (asked, answer) = (bound.id, Answer::Ok(Proof::Bound));
    ask(end, bound);
    tell(end, Command::Answer { id: asked, answer });

    let configuration = serde_json::from_value(serde_json::json!({
        "harness": "codex", "declaration_hash": "a".repeat(64), "workspace": {"kind": "absent"},
        "history": {"mode": "fresh"}, "options": {}, "parameters": "{}", "functions": [],
        "controls": {"tool_search": false}, "mcp": [], "permissions": "allow",
    }));
    let prepare_id = PrepareId::new(Uuid::now_v7());
    ask(
        end,
        Request::prepare(binding, prepare_id, configuration.unwrap()),
    );
    let executor_id = ExecutorId::new(Uuid::now_v7());
    tell(
        end,
        Command::Prepared {
            prepare_id,
            executor_id,
        },
    );
    let run_id = RunId::new(Uuid::now_v7());
    let start = ExecutionStart {
        prepare_id,
        executor_id,
        run_id,
        input: vec![InputMessage {
            id: InputId::new(Uuid::now_v7()),
            content: vec![MessagePart::Text("hi".into())],
        }],
    };
    ask(
        end,
        Request::of(id(), binding, Operation::ExecutionStart(start)),
    );
    tell(end, Command::Started { run_id });
    let done = domain::run::Done {
        status: domain::run::TurnStatus::Completed,
    };
    tell(
        end,
        Command::Events(RunEvents {
            run_id,
            seq: 1,
            events: vec![domain::run::RunEvent::root(domain::run::EventBody::Done(
                done,
            ))],
        }),
    );
    let proof = Answer::Unknown(domain::run::RefusalCode::Unconfirmed.into());
    tell(end, Command::Settled { run_id, proof });
    hear(end, &CoreFrame::RunAck(binding, RunAck { run_id, seq: 1 }));

    binding.epoch += 1;
    let release = Request::of(
        id(),
        binding,
        Operation::Release(Release { remove_home: true }),
    );
    let (asked, answer) = (release.id, Answer::Ok(Proof::HomeRemoved));
    ask(end, release.clone());
    tell(end, Command::Answer { id: asked, answer });
    // RP-8.6, RP-6.2: the release itself can be repeated.
    ask(end, release);
}

#[test]
fn thousands_of_sessions_leave_no_more_than_the_last_ones() {
    let mut end = end();
    for _ in 0..4_000 {
        session(&mut end);
    }
    assert!(end.memory.len() <= 3 * RELEASED, "{}", end.memory.len());
    assert!(end.bindings.len() <= 2 * RELEASED, "{}", end.bindings.len());
    assert!(end.runs.len() <= 64, "{}", end.runs.len());
}
