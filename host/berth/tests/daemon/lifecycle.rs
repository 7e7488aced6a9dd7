//! What a daemon does over its life: one Session from binding to release, reconnects, restarts.

use std::time::Duration;

use domain::run::{History, PrepareState, TurnStatus};
use protocol::{
    core_end::{Command, Notice, Settled},
    wire::{
        Answer, Bind, CloseReason, Limits, Operation, Proof, Release, RunCancel, WorkspaceExport,
    },
};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn one_session_from_binding_to_release() {
    let Some((mut bench, mut core)) = Bench::at_work().await else {
        return;
    };
    assert!(
        core.hello.harnesses[0].available && core.hello.harnesses[0].capabilities.local_environment
    );

    let text = r#"timeline: [{"run": "mkdir -p outputs && echo $FROM_SESSION > outputs/a && pwd"}, {"say": "Done {{history}}."}]"#;
    let events = bench.turn(&mut core, History::Fresh, text).await;
    assert_eq!(
        (outcome(&events), answer_text(&events).as_str()),
        (TurnStatus::Completed, "Done 1.")
    );
    let native = native(&events);

    // The same Executor takes the next Turn: ready without native work (RP-10.2).
    let before = bench.harness_processes();
    let events = bench
        .turn(
            &mut core,
            History::Resume(native.clone()),
            r#"timeline: [{"say": "Again {{history}}."}]"#,
        )
        .await;
    assert_eq!(
        (
            answer_text(&events).as_str(),
            bench.harness_processes(),
            before
        ),
        ("Again 2.", 1, 1)
    );

    // RP-15.14, RP-15.18
    let export = WorkspaceExport {
        stream: 7,
        have: Vec::new(),
    };
    let id = core.ask(bench.binding, Operation::WorkspaceExport(export));
    core.send(Command::Credit {
        binding: bench.binding,
        stream: 7,
        bytes: 1 << 20,
    });
    let mut bytes = Vec::new();
    let settled = loop {
        match core.next().await {
            Notice::ExportBytes { bytes: more, .. } => bytes.extend(more),
            Notice::Settled {
                id: about, settled, ..
            } if about == id => break settled,
            _ => {}
        }
    };
    assert_eq!(
        settled,
        Settled::Receipt(Answer::Ok(Proof::Exported {
            files: 1,
            bytes: 14
        }))
    );
    assert_eq!(bytes, b"session value\n");

    // RP-8.5: the Executor is closed and the home is gone before the answer.
    bench.binding.epoch += 1;
    let answer = core
        .answer(
            bench.binding,
            Operation::Release(Release { remove_home: true }),
        )
        .await;
    assert_eq!(
        (answer, bench.harness_processes()),
        (Answer::Ok(Proof::HomeRemoved), 0)
    );
    let home = bench
        .folder
        .path()
        .join("home")
        .join(bench.binding.session.to_string());
    assert!(!home.exists() && bench.workspace().join("outputs/a").exists());
    // LOC-009, F31: what was secret is in no log.
    let log = std::fs::read_to_string(bench.folder.path().join("daemon.log")).unwrap();
    assert!(
        !log.contains("canary") && !log.contains("session value"),
        "{log}"
    );
}

// LOC-009: a home is written by the agent, so what it leaves there must not reach the daemon's own files, nor keep it waiting.
#[tokio::test(flavor = "multi_thread")]
async fn names_planted_in_a_home_reach_nothing_of_the_daemon() {
    let Some((mut bench, mut core)) = Bench::at_work().await else {
        return;
    };
    let state = bench.folder.path().join("state");
    let session = bench.binding.session.to_string();
    let home = bench.folder.path().join("home").join(&session);
    std::fs::create_dir_all(home.join("harness")).unwrap();
    let bootstrap = std::fs::read(state.join("bootstrap.json")).unwrap();
    std::os::unix::fs::symlink(state.join("bootstrap.json"), home.join("stderr.log")).unwrap();
    let fifo = std::process::Command::new("mkfifo")
        .arg(home.join("harness/config.toml"))
        .status();
    assert!(fifo.unwrap().success());
    let text = r#"timeline: [{"say": "Done."}]"#;
    let events = bench.turn(&mut core, History::Fresh, text).await;
    assert_eq!(outcome(&events), TurnStatus::Completed);
    let written = state.join("diagnostics").join(format!("{session}.log"));
    eventually("the harness has its file", || written.exists()).await;

    bench.binding.epoch += 1;
    let release = Operation::Release(Release { remove_home: true });
    let answer = core.answer(bench.binding, release).await;
    assert_eq!(answer, Answer::Ok(Proof::HomeRemoved));
    assert!(!home.exists() && !written.exists());
    assert_eq!(
        std::fs::read(state.join("bootstrap.json")).unwrap(),
        bootstrap
    );
}

// RP-8.2, RP-8.3
#[tokio::test(flavor = "multi_thread")]
async fn another_workspace_or_environment_is_refused() {
    let Some(mut bench) = Bench::start().await else {
        return;
    };
    let mut core = bench.core.connection().await;
    let bind = |directory: &str| {
        Operation::Bind(Bind {
            harness: "codex".parse().unwrap(),
            workspace_directory: Some(directory.to_owned()),
        })
    };
    for (binding, operation) in [
        (bench.binding, bind("/etc")),
        (
            core::binding(Some(EnvironmentId::new(Uuid::new_v4()))),
            bind("/workspace"),
        ),
        (core::binding(None), bind("/workspace")),
    ] {
        let answer = core.answer(binding, operation).await;
        assert!(matches!(answer, Answer::Rejected(_)), "{answer:?}");
    }
    let canonical = bench.workspace().canonicalize().unwrap();
    let answer = core
        .answer(bench.binding, bind(canonical.to_str().unwrap()))
        .await;
    assert_eq!(answer, Answer::Ok(Proof::Bound));
}

// RP-3.17: a second daemon of one home ends at once, without a request.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_daemon_of_one_home_ends() {
    let Some(mut bench) = Bench::start().await else {
        return;
    };
    let _first = bench.core.connection().await;
    let mut second = launch(bench.folder.path(), Kind::default());
    let status = tokio::task::spawn_blocking(move || second.wait().unwrap())
        .await
        .unwrap();
    assert!(!status.success());
    assert!(bench.core.is_left_alone(Duration::from_millis(300)).await);
}

// RP-3.15: parked, and a stop ends it with 0.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_daemon_parks() {
    let Some(mut bench) = Bench::start().await else {
        return;
    };
    let core = bench.core.connection().await;
    core.close(CloseReason::Revoked);
    assert!(bench.core.is_left_alone(Duration::from_secs(3)).await);
    let pid = i32::try_from(bench.daemon.id()).unwrap();
    std::process::Command::new("kill")
        .arg(pid.to_string())
        .status()
        .unwrap();
    assert!(bench.daemon.wait().unwrap().success());
}

// state-machines 1.10: a Run that Core does not take up again is ended, and the next one works.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_lost_connection_is_ended() {
    let Some((mut bench, mut core)) = Bench::at_work().await else {
        return;
    };
    let configuration = bench.configuration(&core, History::Fresh);
    let run = core
        .start(
            bench.binding,
            configuration.clone(),
            r#"timeline: ["hang"]"#,
        )
        .await;
    drop(core);

    let mut core = bench.connect().await;
    assert_eq!(
        core.hello
            .held
            .runs
            .iter()
            .map(|held| held.run_id)
            .collect::<Vec<_>>(),
        [run]
    );
    // Busy until it is settled, then free.
    loop {
        let (_, state) = core.prepare(bench.binding, configuration.clone()).await;
        match state {
            Ok(PrepareState::Ready { .. }) => break,
            Err(Answer::Rejected(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
            other => panic!("{other:?}"),
        }
    }
    assert!(
        core.events.is_empty(),
        "nothing of the lost Run is told: {:?}",
        core.events
    );
}

// RP-9.25, F09, ENV-067: a killed daemon leaves no process; its successor continues the history.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_daemon_leaves_nothing_and_its_successor_continues() {
    let Some((mut bench, mut core)) = Bench::at_work().await else {
        return;
    };
    let native = bench.first_turn(&mut core).await;
    let text = r#"timeline: [{"start": "echo runs > began; sleep 600"}, "hang"]"#;
    bench
        .begin(&mut core, History::Resume(native.clone()), text)
        .await;
    // Else it may die before the message is in its history.
    eventually("the command does not run", || {
        bench.workspace().join("began").exists()
    })
    .await;
    bench.restart();
    eventually("the harness of the killed daemon still runs", || {
        bench.harness_processes() == 0
    })
    .await;

    let mut core = bench.connect().await;
    assert!(core.hello.held.runs.is_empty());
    assert_eq!(
        bench
            .next_turn(&mut core, &native, "Three {{history}}.")
            .await,
        "Three 3."
    );
}

// TRN-001 and the configured idle time: the process goes, the next Turn resumes.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_executor_is_closed_and_resumed() {
    let limits = Limits {
        executor_idle_ms: 200,
        ..Limits::default()
    };
    let Some(mut bench) = Bench::with(limits, "{}").await else {
        return;
    };
    let mut core = bench.ready().await;
    let native = bench.first_turn(&mut core).await;
    eventually("the idle Executor is still there", || {
        bench.harness_processes() == 0
    })
    .await;
    assert_eq!(
        bench
            .next_turn(&mut core, &native, "Two {{history}}.")
            .await,
        "Two 2."
    );
}

// F01: a cancel of a finished Run changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_cancel_is_told_how_the_run_ended() {
    let Some((bench, mut core)) = Bench::at_work().await else {
        return;
    };
    let text = r#"timeline: [{"say": "One."}]"#;
    let run_id = bench.begin(&mut core, History::Fresh, text).await;
    core.done().await;
    let reason = protocol::wire::CancelReason::Requested;
    let answer = core
        .answer(
            bench.binding,
            Operation::RunCancel(RunCancel { run_id, reason }),
        )
        .await;
    let Answer::Ok(Proof::Cancelled(proof)) = answer else {
        panic!("{answer:?}")
    };
    assert!(proof.settled && proof.outcome == TurnStatus::Completed);
}
