//! The engine host: many Sessions without a workspace on one daemon. And what a long life must not use up.

use std::time::Duration;

use domain::run::{History, PrepareState, TurnStatus};
use protocol::wire::{CancelReason, ExecutionRelease, Limits, RunCancel};
use tokio::time::timeout;

use super::*;

// RP-10.13: an idle Executor keeps no other Session out.
#[tokio::test(flavor = "multi_thread")]
async fn a_ninth_session_does_not_wait_for_eight_idle_ones() {
    let kind = Kind {
        engine_runs: Some(1),
        ..Kind::default()
    };
    let Some(mut bench) = Bench::of_kind(kind, Limits::default(), "{}").await else {
        return;
    };
    let mut core = bench.core.connection().await;
    let mut first = None;
    for _ in 0..9 {
        bench.binding = core::binding(None);
        bench.bind(&mut core).await;
        let native = timeout(Duration::from_secs(30), bench.first_turn(&mut core))
            .await
            .expect("a place is free in seconds");
        first.get_or_insert((bench.binding, native));
    }
    assert_eq!(bench.harness_processes(), 8);
    // The one that made room goes on where it was.
    let (binding, native) = first.unwrap();
    bench.binding = binding;
    assert_eq!(
        bench
            .next_turn(&mut core, &native, "Two {{history}}.")
            .await,
        "Two 2."
    );
}

// A Session that only exists holds no descriptor: there may be more of them than a process may open files.
#[tokio::test(flavor = "multi_thread")]
async fn there_may_be_more_sessions_than_descriptors() {
    let kind = Kind {
        engine_runs: Some(1),
        ulimit: Some("-n 128"),
    };
    let Some(mut bench) = Bench::of_kind(kind, Limits::default(), "{}").await else {
        return;
    };
    let mut core = bench.core.connection().await;
    for n in 0..150 {
        bench.binding = core::binding(None);
        bench.bind(&mut core).await;
        let configuration = bench.configuration(&core, History::Fresh);
        let (prepare_id, state) = core.prepare(bench.binding, configuration).await;
        assert!(
            matches!(state, Ok(PrepareState::Ready { .. })),
            "{n}: {state:?}"
        );
        let release = Operation::ExecutionRelease(ExecutionRelease { prepare_id });
        let answer = core.answer(bench.binding, release).await;
        assert_eq!(answer, Answer::Ok(Proof::Released));
    }
}

// Many Executors need many files; a program that still uses `select` gets the limit that its user knows.
#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_may_open_more_files_than_its_programs() {
    let kind = Kind {
        ulimit: Some("-S -n 70"),
        ..Kind::default()
    };
    let Some(mut bench) = Bench::of_kind(kind, Limits::default(), "{}").await else {
        return;
    };
    let mut core = bench.ready().await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", bench.daemon.id())).unwrap();
    let files: Vec<_> = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(files[0], files[1], "soft and hard");
    let text = r#"timeline: [{"run": "ulimit -n > files"}, {"say": "Done."}]"#;
    let events = bench.turn(&mut core, History::Fresh, text).await;
    assert_eq!(outcome(&events), TurnStatus::Completed);
    let seen = std::fs::read_to_string(bench.workspace().join("files")).unwrap();
    assert_eq!(seen.trim(), "70");
}

// CAP-006: what is installed beside a running Turn is offered at once, also where Turns never pause, and ends nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_installation_is_offered_beside_a_running_turn() {
    let kind = Kind {
        engine_runs: Some(2),
        ..Kind::default()
    };
    let Some(mut bench) = Bench::of_kind(kind, Limits::default(), "{}").await else {
        return;
    };
    let mut core = bench.core.connection().await;
    bench.bind(&mut core).await;
    let text = r#"timeline: [{"begin": "I am"}, "hang"]"#;
    let run_id = bench.begin(&mut core, History::Fresh, text).await;
    let version = bench.folder.path().join("harnesses/codex/0.171.0");
    let aside = bench.folder.path().join("aside");
    std::fs::rename(&version, &aside).unwrap();
    core.offered(false).await;
    std::fs::rename(&aside, &version).unwrap();
    core.offered(true).await;
    // Another Session uses it beside the first one, over the same connection.
    let first = std::mem::replace(&mut bench.binding, core::binding(None));
    bench.bind(&mut core).await;
    bench.first_turn(&mut core).await;
    let reason = CancelReason::Requested;
    let cancel = Operation::RunCancel(RunCancel { run_id, reason });
    let answer = core.answer(first, cancel).await;
    assert!(
        matches!(&answer, Answer::Ok(Proof::Cancelled(proof)) if proof.outcome == TurnStatus::Cancelled),
        "{answer:?}"
    );
}
