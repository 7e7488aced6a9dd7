//! The task of one Session, without a link and without processes.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use domain::{
    BindingId, FrameId, SessionId,
    run::{Binding, ExecutionConfiguration, RefusalCode},
};
use machine::process::Spawner;
use protocol::{
    runtime_end::{Command, Work},
    wire::{Answer, Capacity, Proof, WorkspaceExport},
};
use tokio::{
    sync::mpsc,
    task::yield_now,
    time::{Duration, Instant},
};
use uuid::Uuid;

use super::{
    Shared,
    session::{Live, Order, State, Task},
};
use crate::{execute::Executor, harness::Catalogue, place::Machine, prepare::Store, relay::Relay};

fn configuration() -> ExecutionConfiguration {
    serde_json::from_value(serde_json::json!({
        "harness": "codex", "declaration_hash": "a".repeat(64), "workspace": {"kind": "absent"},
        "history": {"mode": "fresh"}, "options": {}, "parameters": "{}", "functions": [],
        "controls": {"tool_search": false}, "mcp": [], "permissions": "allow",
    }))
    .unwrap()
}

async fn task(folder: &std::path::Path) -> (Task, mpsc::UnboundedReceiver<Command>) {
    let machine = Machine {
        spawner: Spawner::new("/bin/false"),
        relay: Arc::new(Relay::start().await.unwrap()),
        homes: folder.join("homes"),
        diagnostics: folder.join("diagnostics"),
    };
    let capacity = Capacity {
        runs: 1,
        executors: 1,
        preparing: 1,
    };
    let store = Store::new(folder.join("store"));
    let shared = Shared::new(machine, None, store, capacity, Catalogue::default());
    let binding = Binding {
        session: SessionId::new(Uuid::now_v7()),
        environment: None,
        id: BindingId::new(Uuid::now_v7()),
        epoch: 1,
    };
    let (out, told) = mpsc::unbounded_channel();
    (Task::new(binding, None, Arc::new(shared), out), told)
}

// TRN-010: a Session whose Executor takes its time waits for it, and does nothing else meanwhile.
#[tokio::test]
async fn a_closing_session_waits_without_spinning() {
    let folder = tempfile::tempdir().unwrap();
    let (mut task, _) = task(folder.path()).await;
    let (executor, mut told) = Executor::deaf();
    task.live = Some(Live {
        executor,
        configuration: configuration(),
        state: State::Idle {
            since: Instant::now(),
        },
        closed_at_work: false,
        idle: Duration::from_secs(600),
    });
    let (orders, inbox) = mpsc::unbounded_channel::<Order>();
    let passes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&passes);
    let life = tokio::spawn(async move {
        let mut life = pin!(task.live(inbox));
        std::future::poll_fn(|context| {
            counted.fetch_add(1, Ordering::Relaxed);
            life.as_mut().poll(context)
        })
        .await;
    });
    drop(orders);
    assert!(told.recv().await.is_some(), "the Executor is told to close");
    let before = passes.load(Ordering::Relaxed);
    for _ in 0..100 {
        yield_now().await;
    }
    let after = passes.load(Ordering::Relaxed);
    assert!(after - before <= 2, "{} passes", after - before);
    life.abort();
}

async fn next_answer(told: &mut mpsc::UnboundedReceiver<Command>) -> (FrameId, Answer) {
    loop {
        if let Command::Answer { id, answer } = told.recv().await.expect("an answer") {
            return (id, answer);
        }
    }
}

fn release(binding: Binding) -> (FrameId, Order) {
    let id = FrameId::new(Uuid::now_v7());
    let remove_home = true;
    (
        id,
        Order::Work(Work::Release {
            id,
            binding,
            remove_home,
        }),
    )
}

// RP-8.6, RP-17.1: a retry looks again for what was not confirmed gone, and what is gone by then keeps nothing waiting.
#[tokio::test]
async fn a_repeated_release_looks_again_for_what_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let (mut task, mut told) = task(folder.path()).await;
    task.unconfirmed = true;
    let (spawner, binding) = (task.shared.machine.spawner.clone(), task.binding);
    let (orders, inbox) = mpsc::unbounded_channel();
    let life = tokio::spawn(task.live(inbox));
    // Without the right to adopt nobody knows.
    let (first, order) = release(binding);
    orders.send(order).unwrap();
    let (id, answer) = next_answer(&mut told).await;
    assert!(
        id == first && matches!(answer, Answer::Failed { .. }),
        "{answer:?}"
    );
    spawner.adopt_orphans().unwrap();
    let (second, order) = release(binding);
    orders.send(order).unwrap();
    let answer = next_answer(&mut told).await;
    assert_eq!(answer, (second, Answer::Ok(Proof::HomeRemoved)));
    life.await.unwrap();
}

// RP-8.5: the release is the last to answer.
#[tokio::test]
async fn an_export_answers_before_the_release_that_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let (mut task, mut told) = task(folder.path()).await;
    let outputs = folder.path().join("workspace/outputs");
    std::fs::create_dir_all(&outputs).unwrap();
    std::fs::write(outputs.join("a"), "never sent: there is no credit").unwrap();
    let binding = task.binding;
    let export = FrameId::new(Uuid::now_v7());
    let request = WorkspaceExport {
        stream: 1,
        have: Vec::new(),
    };
    task.exports
        .start(export, request, folder.path().join("workspace"));
    let (orders, inbox) = mpsc::unbounded_channel();
    let life = tokio::spawn(task.live(inbox));
    let (released, order) = release(binding);
    orders.send(order).unwrap();
    let (id, answer) = next_answer(&mut told).await;
    assert!(
        id == export && matches!(answer, Answer::Rejected(_)),
        "{answer:?}"
    );
    let answer = next_answer(&mut told).await;
    assert_eq!(answer, (released, Answer::Ok(Proof::HomeRemoved)));
    life.await.unwrap();
}

// RP-5.1: each question has its answer, also when Core asks again before the first one was done.
#[tokio::test]
async fn a_release_that_is_asked_again_answers_the_earlier_question() {
    let folder = tempfile::tempdir().unwrap();
    let (mut task, mut told) = task(folder.path()).await;
    let (first, order) = release(task.binding);
    task.obey(order).await;
    let (second, order) = release(task.binding);
    task.obey(order).await;
    assert_eq!(task.releasing, Some((second, true)));
    let refused = Answer::Rejected(RefusalCode::Busy.into());
    assert_eq!(next_answer(&mut told).await, (first, refused));
    assert!(told.try_recv().is_err());
}
